"""Molecules that differ a little from given ones: more to learn spelling from than a list of molecules holds."""

from collections.abc import Callable, Collection, Sequence

import numpy as np
from rdkit import Chem, rdBase

from molattn.chem.parse import read_smiles
from molattn.chem.spellings import stable_smiles

_CHAIN = (6, 6, 6, 7, 7, 8, 8, 16, 9, 17, 35)
_AROMATIC = (6, 7, 8, 16)
_ORDERS = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE)
_TRIES = 50
"""Edits that may fail, for each molecule that is asked for."""

Draw = np.random.Generator
Edit = Callable[[Chem.RWMol, Chem.Mol, Draw], Chem.Mol | None]


def molecules_like(
    smiles: Sequence[str], count: int, *, seed: int, max_length: int, without: Collection[str] = ()
) -> list[str]:
    """New molecules, each a given one after one to three random edits.

    An edit changes an element or a bond order, adds or removes an atom, keeps one side of a cut bond, or joins with
    another of the given molecules.

    Args:
        smiles: Molecules to start from; none of them is returned.
        count: How many distinct molecules to make; fewer come back where edits find no more.
        seed: The same seed makes the same molecules, in the same order.
        max_length: The most characters of a canonical SMILES.
        without: Canonical SMILES that must not come up, such as those of a test set.

    Returns: `stable_smiles`, none twice, none with a radical.
    """
    draw = np.random.default_rng(seed)
    mols = [read_smiles(text) for text in smiles]
    taken = {*smiles, *without}
    made: list[str] = []
    with rdBase.BlockLogs():
        for _ in range(_TRIES * count if mols else 0):
            if len(made) == count:
                break
            mol: Chem.Mol | None = mols[draw.integers(len(mols))]
            for _ in range(draw.integers(1, 4)):
                mol = edited(mol, mols[draw.integers(len(mols))], draw)
                if mol is None:
                    break
            new = None if mol is None else stable_smiles(Chem.MolToSmiles(mol), max_length)
            if new is not None and new not in taken:
                taken.add(new)
                made.append(new)
    return made


def edited(mol: Chem.Mol, other: Chem.Mol, draw: Draw) -> Chem.Mol | None:
    """A molecule after one random edit, one of `EDITS`, to which `other` may lend itself; None where it makes none."""
    edit = EDITS[draw.integers(len(EDITS))]
    return sound(edit(Chem.RWMol(mol), other, draw))


def sound(new: Chem.Mol | None) -> Chem.Mol | None:
    """What was put together, sanitised; None where it is no molecule, or one with a radical."""
    if new is None or not new.GetNumAtoms():
        return None
    try:
        Chem.SanitizeMol(new)
    except (ValueError, RuntimeError):
        return None
    Chem.AssignStereochemistry(new, cleanIt=True, force=True)
    return None if any(atom.GetNumRadicalElectrons() for atom in new.GetAtoms()) else new


def _change_element(mol: Chem.RWMol, _: Chem.Mol, draw: Draw) -> Chem.Mol | None:
    atom = mol.GetAtomWithIdx(int(draw.integers(mol.GetNumAtoms())))
    if atom.GetFormalCharge():
        return None
    elements = _AROMATIC if atom.GetIsAromatic() else _CHAIN
    atom.SetAtomicNum(elements[draw.integers(len(elements))])
    atom.SetNoImplicit(False)
    atom.SetNumExplicitHs(0)
    return mol


def _change_bond(mol: Chem.RWMol, _: Chem.Mol, draw: Draw) -> Chem.Mol | None:
    bonds = [bond for bond in mol.GetBonds() if not bond.GetIsAromatic()]
    if not bonds:
        return None
    bonds[draw.integers(len(bonds))].SetBondType(_ORDERS[draw.integers(len(_ORDERS))])
    return mol


def _add_atom(mol: Chem.RWMol, _: Chem.Mol, draw: Draw) -> Chem.Mol | None:
    place = _free_place(mol, draw)
    if place is None:
        return None
    new = mol.AddAtom(Chem.Atom(_CHAIN[draw.integers(len(_CHAIN))]))
    return _bonded(mol, place, new)


def _remove_atom(mol: Chem.RWMol, _: Chem.Mol, draw: Draw) -> Chem.Mol | None:
    ends = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetDegree() == 1]
    if not ends:
        return None
    mol.RemoveAtom(ends[draw.integers(len(ends))])
    return mol


def _cut(mol: Chem.RWMol, _: Chem.Mol, draw: Draw) -> Chem.Mol | None:
    bonds = [bond for bond in mol.GetBonds() if not bond.IsInRing() and bond.GetBondType() == _ORDERS[0]]
    if not bonds:
        return None
    bond = bonds[draw.integers(len(bonds))]
    mol.RemoveBond(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
    sides = Chem.GetMolFrags(mol, asMols=True, sanitizeFrags=False)
    return sides[draw.integers(len(sides))]


def _join(mol: Chem.RWMol, other: Chem.Mol, draw: Draw) -> Chem.Mol | None:
    place, second = _free_place(mol, draw), _free_place(other, draw)
    if place is None or second is None:
        return None
    atoms = mol.GetNumAtoms()
    mol.InsertMol(other)
    return _bonded(mol, place, atoms + second)


EDITS: tuple[Edit, ...] = (_change_element, _change_bond, _add_atom, _remove_atom, _cut, _join)


def _free_place(mol: Chem.Mol, draw: Draw) -> int | None:
    """An atom with a hydrogen that can give way to a bond."""
    places = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetTotalNumHs()]
    return places[draw.integers(len(places))] if places else None


def _bonded(mol: Chem.RWMol, i: int, j: int) -> Chem.Mol:
    """With a single bond in place of a hydrogen of each of the two."""
    for atom in (mol.GetAtomWithIdx(i), mol.GetAtomWithIdx(j)):
        atom.SetNumExplicitHs(max(atom.GetNumExplicitHs() - 1, 0))
    mol.AddBond(i, j, _ORDERS[0])
    return mol
