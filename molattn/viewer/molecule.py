"""A molecule ready to be drawn: the one that was computed on, its atoms in the same order."""

from collections.abc import Sequence

import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

from molattn.chem import MAX_ATOMS, read_smiles
from molattn.errors import InputError, UsageError, short_repr
from molattn.explain import AttentionMap

_GAP = 2.4  # between fragments; a bond is 1.5 long


def molecule_of(attention: AttentionMap) -> Chem.Mol:
    """The molecule of a map.

    Raises:
        UsageError: the map is one of tokens.
        InputError: the atoms of the map are not those of its SMILES.
    """
    if attention.position_type != "atoms":
        raise UsageError(
            "this map is of the tokens of a SMILES, which are no atoms: heat_map draws it, and draw_atoms cannot"
        )
    return drawable(attention.smiles, attention.symbols, attention.add_hs, "the attention map")


def drawable(smiles: str, symbols: Sequence[str], add_hs: bool, whose: str) -> Chem.Mol:
    """The molecule of a SMILES as the models read it, with places in 2D: see `places_of`.

    Atom map numbers are left out, since they would be taken for the places of the atoms.

    Args:
        smiles: of the molecule.
        symbols: what its atoms must be, in order.
        add_hs: whether hydrogens are atoms.
        whose: what the symbols are of, for the error.

    Raises:
        InputError: its atoms are others.
    """
    mol = read_smiles(smiles, add_hs=add_hs, max_atoms=max(MAX_ATOMS, len(symbols)))
    found = tuple(atom.GetSymbol() for atom in mol.GetAtoms())
    if found != tuple(symbols):
        raise InputError(
            f"{whose} has {len(symbols)} atoms ({short_repr(' '.join(symbols))}), "
            f"its SMILES {short_repr(smiles)} has {len(found)} ({short_repr(' '.join(found))})"
        )
    return ready(mol)


def ready(mol: Chem.Mol) -> Chem.Mol:
    """The molecule ready to be drawn, its atoms as they are: see `drawable`."""
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)
    # Not drawn with hydrogens at stereocentres: they would be atoms that have no value.
    mol = rdMolDraw2D.PrepareMolForDrawing(mol, kekulize=True, addChiralHs=False)
    _in_a_row(mol)
    return mol


def places_of(mol: Chem.Mol) -> np.ndarray:
    """Where its atoms are, (n, 2); a bond is about 1.5 long, and y points up."""
    return mol.GetConformer().GetPositions()[:, :2]


def _in_a_row(mol: Chem.Mol) -> None:
    """Fragments side by side with room between them, where RDKit lets their labels touch."""
    fragments = Chem.GetMolFrags(mol)
    if len(fragments) == 1:
        return
    places, left = places_of(mol).copy(), 0.0
    for fragment in map(list, fragments):
        low, high = places[fragment].min(0), places[fragment].max(0)
        places[fragment] += [left - low[0], -(low[1] + high[1]) / 2]
        left += high[0] - low[0] + _GAP
    conformer = mol.GetConformer()
    for i, (x, y) in enumerate(places):
        conformer.SetAtomPosition(i, (float(x), float(y), 0.0))
