"""Molecules prepared for drawing, with the atoms of the model in their order."""

from collections.abc import Sequence

import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

from molattn.chem import MAX_ATOMS, read_smiles
from molattn.errors import InputError, UsageError, short_repr
from molattn.explain import AttentionMap

_GAP = 2.4  # between fragments; a bond is 1.5 long


def molecule_of(attention: AttentionMap) -> Chem.Mol:
    """The molecule of a map, prepared for drawing.

    Raises:
        UsageError: the nodes of the map are tokens.
        InputError: the atoms of the map are not those of its SMILES.
    """
    if attention.position_type != "atoms":
        raise UsageError("this map is of the tokens of a SMILES, not of atoms: draw it with heat_map")
    return drawable_molecule(attention.smiles, attention.symbols, attention.add_hs, "the attention map")


def drawable_molecule(smiles: str, symbols: Sequence[str], add_hs: bool, whose: str) -> Chem.Mol:
    """The molecule of a SMILES as the models read it, with 2D coordinates: see `positions_2d`.

    Atom map numbers are removed, since they could be mistaken for atom indices.

    Args:
        smiles: the SMILES.
        symbols: the expected element symbols of its atoms, in order.
        add_hs: whether hydrogens are atoms.
        whose: the owner of the symbols, for the error.

    Raises:
        InputError: its atoms have other symbols.
    """
    mol = read_smiles(smiles, add_hs=add_hs, max_atoms=max(MAX_ATOMS, len(symbols)))
    found = tuple(atom.GetSymbol() for atom in mol.GetAtoms())
    if found != tuple(symbols):
        raise InputError(
            f"{whose} has {len(symbols)} atoms ({short_repr(' '.join(symbols))}), "
            f"its SMILES {short_repr(smiles)} has {len(found)} ({short_repr(' '.join(found))})"
        )
    return prepare_for_drawing(mol)


def prepare_for_drawing(mol: Chem.Mol) -> Chem.Mol:
    """Prepare a molecule for drawing without changing its atoms: see `drawable_molecule`."""
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)
    # No hydrogens added at stereocentres: they would be atoms without a value.
    mol = rdMolDraw2D.PrepareMolForDrawing(mol, kekulize=True, addChiralHs=False)
    _in_a_row(mol)
    return mol


def positions_2d(mol: Chem.Mol) -> np.ndarray:
    """The 2D coordinates of the atoms, (n, 2); a bond is about 1.5 long, and y points up."""
    return mol.GetConformer().GetPositions()[:, :2]


def _in_a_row(mol: Chem.Mol) -> None:
    """Place fragments side by side with a gap, since RDKit lets their labels touch."""
    fragments = Chem.GetMolFrags(mol)
    if len(fragments) == 1:
        return
    positions, left = positions_2d(mol).copy(), 0.0
    for fragment in map(list, fragments):
        low, high = positions[fragment].min(0), positions[fragment].max(0)
        positions[fragment] += [left - low[0], -(low[1] + high[1]) / 2]
        left += high[0] - low[0] + _GAP
    conformer = mol.GetConformer()
    for i, (x, y) in enumerate(positions):
        conformer.SetAtomPosition(i, (float(x), float(y), 0.0))
