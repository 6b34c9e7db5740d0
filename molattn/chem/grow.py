"""New molecules from given ones, by recombination at BRICS bonds and by random edits."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import BRICS

from molattn.chem.enumeration import round_trip_smiles
from molattn.chem.inchi import inchi_key
from molattn.chem.mutate import mutate, sanitized
from molattn.chem.parse import canonical_smiles, read_smiles

MAX_LENGTH_GROWN = 100
"""Largest number of characters of a canonical SMILES: without it, joining would make larger and larger molecules."""

# Largest number of attempts per requested molecule.
_ATTEMPTS = 50
_MAX_EDITS = 3

# The BRICS environments of the atom to keep and of the atom beyond the bond.
_Environments = tuple[str, str]


class _Cut(NamedTuple):
    """A BRICS bond: its molecule, the atom to keep, and the atom beyond the bond."""

    mol: Chem.Mol
    keep: int
    beyond: int


def grow_molecules(
    smiles: Sequence[str], count: int, *, seed: int, is_excluded: Callable[[str], bool] = lambda _: False
) -> list[str]:
    """New molecules, each two halves of input molecules, or an input molecule after one to three random edits.

    Halves come from two molecules cut at bonds with the same BRICS environments, and are joined by such a bond. No
    molecule is returned twice, and no input molecule is returned; molecules are compared by InChIKey.

    Args:
        smiles: input molecules.
        count: number of molecules; fewer are returned if `_ATTEMPTS` attempts per molecule find no more.
        seed: the same seed gives the same molecules, in the same order.
        is_excluded: called with each new SMILES; molecules for which it returns True are dropped.

    Returns: `round_trip_smiles`.

    Raises SmilesError for an input that is not a molecule.

    Source: Degen et al., ChemMedChem 2008, 3, 1503 (https://doi.org/10.1002/cmdc.200800178), for BRICS.
    """
    rng = np.random.default_rng(seed)
    mols = [read_smiles(text) for text in smiles]
    taken = {inchi_key(text) for text in smiles}
    made: list[str] = []
    with rdBase.BlockLogs():
        cuts = _cuts(mols)
        kinds = [kind for kind, found in cuts.items() for _ in found]
        for _ in range(_ATTEMPTS * count if mols else 0):
            if len(made) == count:
                break
            if kinds and rng.integers(2):
                new = _recombined(cuts, kinds[rng.integers(len(kinds))], rng)
            else:
                new = _mutated(mols, rng)
            text = None if new is None else round_trip_smiles(canonical_smiles(new), MAX_LENGTH_GROWN)
            if text is None or not (key := inchi_key(text)) or key in taken or is_excluded(text):
                continue
            taken.add(key)
            made.append(text)
    return made


def _cuts(mols: Sequence[Chem.Mol]) -> dict[_Environments, list[_Cut]]:
    """Both directions of all BRICS bonds, by the environments of the atom to keep and of the atom beyond."""
    cuts: dict[_Environments, list[_Cut]] = {}
    for mol in mols:
        for (i, j), (environment_i, environment_j) in BRICS.FindBRICSBonds(mol):
            cuts.setdefault((environment_i, environment_j), []).append(_Cut(mol, i, j))
            cuts.setdefault((environment_j, environment_i), []).append(_Cut(mol, j, i))
    return cuts


def _recombined(
    cuts: dict[_Environments, list[_Cut]], kind: _Environments, rng: np.random.Generator
) -> Chem.Mol | None:
    """A half of one molecule joined with the complementary half of another."""
    first, second = cuts[kind], cuts[kind[1], kind[0]]
    one, other = first[rng.integers(len(first))], second[rng.integers(len(second))]
    (half, i), (rest, j) = _half(one), _half(other)
    mol, n = Chem.RWMol(half), half.GetNumAtoms()
    mol.InsertMol(rest)
    mol.AddBond(i, n + j, one.mol.GetBondBetweenAtoms(one.keep, one.beyond).GetBondType())
    return sanitized(mol)


def _half(cut: _Cut) -> tuple[Chem.Mol, int]:
    """The fragment that is kept, and the index in it of the atom at the cut."""
    mol = Chem.RWMol(cut.mol)
    mol.RemoveBond(cut.keep, cut.beyond)
    atom_indices: list[tuple[int, ...]] = []
    fragments = Chem.GetMolFrags(mol, asMols=True, sanitizeFrags=False, fragsMolAtomMapping=atom_indices)
    return next(
        (fragment, indices.index(cut.keep))
        for fragment, indices in zip(fragments, atom_indices, strict=True)
        if cut.keep in indices
    )


def _mutated(mols: Sequence[Chem.Mol], rng: np.random.Generator) -> Chem.Mol | None:
    mol: Chem.Mol | None = mols[int(rng.integers(len(mols)))]
    for _ in range(rng.integers(1, _MAX_EDITS + 1)):
        mol = mutate(mol, mols[int(rng.integers(len(mols)))], rng)
        if mol is None:
            return None
    return mol
