"""Molecules grown from given ones: halves swapped at bonds that BRICS breaks, and random edits."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import BRICS

from molattn.chem.edits import Draw, edited, sound
from molattn.chem.parse import canonical_smiles, read_smiles
from molattn.chem.skeletons import inchi_key
from molattn.chem.spellings import stable_smiles

MAX_LENGTH_GROWN = 100
"""Characters of a canonical SMILES: joining would otherwise make larger and larger molecules."""

# Tries that may fail, for each molecule that is asked for.
_TRIES = 50
_MOST_EDITS = 3


# Of the atom to keep, and of that beyond.
_Kind = tuple[str, str]


class _Cut(NamedTuple):
    """A bond that BRICS breaks: its molecule, the atom to keep, and the one beyond the bond."""

    mol: Chem.Mol
    keep: int
    beyond: int


def grow(smiles: Sequence[str], count: int, *, seed: int, refuse: Callable[[str], bool] = lambda _: False) -> list[str]:
    """New molecules: each is two halves of given ones, or a given one after one to three random edits.

    Halves come from two molecules cut at bonds of one kind, by the environments that BRICS tells apart, and are joined
    as they were. No molecule is made twice, nor one that was given, by the InChIKey.

    Args:
        smiles: molecules to grow from.
        count: how many to make; fewer come back where `_TRIES` for each find no more.
        seed: the same seed makes the same molecules, in the same order.
        refuse: told of each SMILES; where it says so, the molecule is not taken.

    Returns: SMILES that stay what they are when read and written again.

    Errors: SmilesError, for one of `smiles` that is not a molecule.

    Source: Degen et al., ChemMedChem 2008, 3, 1503 (https://doi.org/10.1002/cmdc.200800178), for BRICS.
    """
    draw = np.random.default_rng(seed)
    mols = [read_smiles(text) for text in smiles]
    taken = {inchi_key(text) for text in smiles}
    made: list[str] = []
    with rdBase.BlockLogs():
        cuts = _cuts(mols)
        kinds = [kind for kind, found in cuts.items() for _ in found]
        for _ in range(_TRIES * count if mols else 0):
            if len(made) == count:
                break
            if kinds and draw.integers(2):
                new = _swapped(cuts, kinds[draw.integers(len(kinds))], draw)
            else:
                new = _mutated(mols, draw)
            text = None if new is None else stable_smiles(canonical_smiles(new), MAX_LENGTH_GROWN)
            if text is None or not (key := inchi_key(text)) or key in taken or refuse(text):
                continue
            taken.add(key)
            made.append(text)
    return made


def _cuts(mols: Sequence[Chem.Mol]) -> dict[_Kind, list[_Cut]]:
    """Both ways to cut every bond that BRICS breaks, by the environments of the atom to keep and of that beyond."""
    cuts: dict[_Kind, list[_Cut]] = {}
    for mol in mols:
        for (i, j), (of_i, of_j) in BRICS.FindBRICSBonds(mol):
            cuts.setdefault((of_i, of_j), []).append(_Cut(mol, i, j))
            cuts.setdefault((of_j, of_i), []).append(_Cut(mol, j, i))
    return cuts


def _swapped(cuts: dict[_Kind, list[_Cut]], kind: _Kind, draw: Draw) -> Chem.Mol | None:
    """One half of a molecule and the other half of another, joined at bonds of one kind."""
    first, second = cuts[kind], cuts[kind[1], kind[0]]
    one, other = first[draw.integers(len(first))], second[draw.integers(len(second))]
    (half, i), (rest, j) = _half(one), _half(other)
    mol, atoms = Chem.RWMol(half), half.GetNumAtoms()
    mol.InsertMol(rest)
    mol.AddBond(i, atoms + j, one.mol.GetBondBetweenAtoms(one.keep, one.beyond).GetBondType())
    return sound(mol)


def _half(cut: _Cut) -> tuple[Chem.Mol, int]:
    """The side of the cut that is kept, and where the atom at the cut is in it."""
    mol = Chem.RWMol(cut.mol)
    mol.RemoveBond(cut.keep, cut.beyond)
    places: list[tuple[int, ...]] = []
    sides = Chem.GetMolFrags(mol, asMols=True, sanitizeFrags=False, fragsMolAtomMapping=places)
    return next((side, found.index(cut.keep)) for side, found in zip(sides, places, strict=True) if cut.keep in found)


def _mutated(mols: Sequence[Chem.Mol], draw: Draw) -> Chem.Mol | None:
    mol: Chem.Mol | None = mols[int(draw.integers(len(mols)))]
    for _ in range(draw.integers(1, _MOST_EDITS + 1)):
        mol = edited(mol, mols[int(draw.integers(len(mols)))], draw)
        if mol is None:
            return None
    return mol
