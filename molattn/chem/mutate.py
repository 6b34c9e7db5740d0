"""Random edits of molecules, to augment a list of molecules with similar ones."""

from collections.abc import Callable, Collection, Sequence

import numpy as np
from rdkit import Chem, rdBase

from molattn.chem.enumeration import round_trip_smiles
from molattn.chem.parse import read_smiles

_CHAIN = (6, 6, 6, 7, 7, 8, 8, 16, 9, 17, 35)
_AROMATIC = (6, 7, 8, 16)
_ORDERS = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE)
_ATTEMPTS = 50
"""Largest number of attempts per requested molecule."""

Edit = Callable[[Chem.RWMol, Chem.Mol, np.random.Generator], Chem.Mol | None]


def mutate_molecules(
    smiles: Sequence[str], count: int, *, seed: int, max_length: int, exclude: Collection[str] = ()
) -> list[str]:
    """New molecules, each an input molecule after one to three random edits.

    An edit changes an element or a bond order, adds or removes an atom, keeps one of the fragments of a cut bond, or
    joins two of the input molecules.

    Args:
        smiles: Input molecules; none of them is returned.
        count: Number of distinct molecules; fewer are returned if the edits find no more.
        seed: The same seed gives the same molecules, in the same order.
        max_length: Largest number of characters of a canonical SMILES.
        exclude: Canonical SMILES that must not be returned, such as those of a test set.

    Returns: distinct `round_trip_smiles` without radicals.
    """
    rng = np.random.default_rng(seed)
    mols = [read_smiles(text) for text in smiles]
    taken = {*exclude, *(round_trip_smiles(text, max_length) for text in smiles)}
    made: list[str] = []
    with rdBase.BlockLogs():
        for _ in range(_ATTEMPTS * count if mols else 0):
            if len(made) == count:
                break
            mol: Chem.Mol | None = mols[rng.integers(len(mols))]
            for _ in range(rng.integers(1, 4)):
                mol = mutate(mol, mols[rng.integers(len(mols))], rng)
                if mol is None:
                    break
            new = None if mol is None else round_trip_smiles(Chem.MolToSmiles(mol), max_length)
            if new is not None and new not in taken:
                taken.add(new)
                made.append(new)
    return made


def mutate(mol: Chem.Mol, other: Chem.Mol, rng: np.random.Generator) -> Chem.Mol | None:
    """`mol` after one of `EDITS`, drawn at random, which may join `other`; None if the result is not a molecule."""
    edit = EDITS[rng.integers(len(EDITS))]
    return sanitized(edit(Chem.RWMol(mol), other, rng))


def sanitized(new: Chem.Mol | None) -> Chem.Mol | None:
    """The edited molecule, sanitised; None if it is invalid or has a radical."""
    if new is None or not new.GetNumAtoms():
        return None
    try:
        Chem.SanitizeMol(new)
    except (ValueError, RuntimeError):
        return None
    Chem.AssignStereochemistry(new, cleanIt=True, force=True)
    return None if any(atom.GetNumRadicalElectrons() for atom in new.GetAtoms()) else new


def _change_element(mol: Chem.RWMol, _: Chem.Mol, rng: np.random.Generator) -> Chem.Mol | None:
    atom = mol.GetAtomWithIdx(int(rng.integers(mol.GetNumAtoms())))
    if atom.GetFormalCharge():
        return None
    elements = _AROMATIC if atom.GetIsAromatic() else _CHAIN
    atom.SetAtomicNum(elements[rng.integers(len(elements))])
    atom.SetNoImplicit(False)
    atom.SetNumExplicitHs(0)
    return mol


def _change_bond(mol: Chem.RWMol, _: Chem.Mol, rng: np.random.Generator) -> Chem.Mol | None:
    bonds = [bond for bond in mol.GetBonds() if not bond.GetIsAromatic()]
    if not bonds:
        return None
    bonds[rng.integers(len(bonds))].SetBondType(_ORDERS[rng.integers(len(_ORDERS))])
    return mol


def _add_atom(mol: Chem.RWMol, _: Chem.Mol, rng: np.random.Generator) -> Chem.Mol | None:
    atom = _atom_with_hydrogen(mol, rng)
    if atom is None:
        return None
    new = mol.AddAtom(Chem.Atom(_CHAIN[rng.integers(len(_CHAIN))]))
    return _add_bond(mol, atom, new)


def _remove_atom(mol: Chem.RWMol, _: Chem.Mol, rng: np.random.Generator) -> Chem.Mol | None:
    ends = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetDegree() == 1]
    if not ends:
        return None
    mol.RemoveAtom(ends[rng.integers(len(ends))])
    return mol


def _cut(mol: Chem.RWMol, _: Chem.Mol, rng: np.random.Generator) -> Chem.Mol | None:
    bonds = [bond for bond in mol.GetBonds() if not bond.IsInRing() and bond.GetBondType() == _ORDERS[0]]
    if not bonds:
        return None
    bond = bonds[rng.integers(len(bonds))]
    mol.RemoveBond(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
    fragments = Chem.GetMolFrags(mol, asMols=True, sanitizeFrags=False)
    return fragments[rng.integers(len(fragments))]


def _join(mol: Chem.RWMol, other: Chem.Mol, rng: np.random.Generator) -> Chem.Mol | None:
    first, second = _atom_with_hydrogen(mol, rng), _atom_with_hydrogen(other, rng)
    if first is None or second is None:
        return None
    n = mol.GetNumAtoms()
    mol.InsertMol(other)
    return _add_bond(mol, first, n + second)


EDITS: tuple[Edit, ...] = (_change_element, _change_bond, _add_atom, _remove_atom, _cut, _join)


def _atom_with_hydrogen(mol: Chem.Mol, rng: np.random.Generator) -> int | None:
    """A random atom with a hydrogen, which a bond can replace."""
    atoms = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetTotalNumHs()]
    return atoms[rng.integers(len(atoms))] if atoms else None


def _add_bond(mol: Chem.RWMol, i: int, j: int) -> Chem.Mol:
    """Replace a hydrogen of atom i and one of atom j by a single bond between them."""
    for atom in (mol.GetAtomWithIdx(i), mol.GetAtomWithIdx(j)):
        atom.SetNumExplicitHs(max(atom.GetNumExplicitHs() - 1, 0))
    mol.AddBond(i, j, _ORDERS[0])
    return mol
