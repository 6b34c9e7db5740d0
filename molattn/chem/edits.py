"""Edits of a molecule, the parent, with a map of atoms: another substituent, or nitrogen in place of a carbon."""

from collections.abc import Collection, Iterator
from functools import cache
from typing import NamedTuple

from rdkit import Chem

from molattn.chem.brackets import RDKIT_ERRORS
from molattn.chem.features import get_atoms, output_order
from molattn.chem.pairs import HYDROGEN, MAX_SUBSTITUENT
from molattn.chem.parse import MAX_ATOMS, read_smiles

PARENT = "molattn_parent"
"""The atom property with the index of the atom in the parent; new atoms do not have it."""

# The bonds that rdMMPA cuts: the pattern in its documentation.
_CUT_BONDS = Chem.MolFromSmarts("[#6+0;!$(*=,#[!#6])]!@!=!#[*]")
_CIS_TRANS = {
    Chem.BondStereo.STEREOZ: Chem.BondStereo.STEREOCIS,
    Chem.BondStereo.STEREOE: Chem.BondStereo.STEREOTRANS,
}


class Substituent(NamedTuple):
    """A substituent of the parent; atoms are indices in the parent."""

    attachment: int
    """The atom that it is attached to, which is not part of it."""
    first: int
    """Its atom that is bonded to `attachment`."""
    atoms: frozenset[int]
    smiles: str
    """Its SMILES, in which `[*:1]` stands for `attachment`."""


def read_parent(smiles: str, max_atoms: int) -> Chem.Mol:
    """The molecule, each atom with its index as the property `PARENT`.

    Raises SmilesError as `read_smiles`.
    """
    mol = read_smiles(smiles, max_atoms=max_atoms)
    for atom in get_atoms(mol):
        atom.SetAtomMapNum(0)
        atom.SetIntProp(PARENT, atom.GetIdx())
    return mol


def with_nitrogen(parent: Chem.Mol, i: int) -> Chem.RWMol:
    """The parent with nitrogen in place of carbon i, which has one hydrogen less; not sanitized."""
    mol = Chem.RWMol(parent)
    atom = mol.GetAtomWithIdx(i)
    atom.SetAtomicNum(7)
    atom.SetNumExplicitHs(0)
    atom.SetNoImplicit(False)
    atom.SetIsotope(0)
    atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    atom.ClearProp(PARENT)
    return mol


def substituents_of(parent: Chem.Mol) -> Iterator[Substituent]:
    """The substituents of the parent, as `matched_pairs` cuts them."""
    bonds = {tuple(sorted(match)) for match in parent.GetSubstructMatches(_CUT_BONDS, maxMatches=10 * MAX_ATOMS)}
    for first, second in sorted(bonds):
        fragments = _cut_bond(parent, first, second)
        atoms_of_fragments = Chem.GetMolFrags(fragments)
        for attachment, start in ((first, second), (second, first)):
            own = next(atoms for atoms in atoms_of_fragments if start in atoms)
            size, rest = len(own) - 1, next(len(atoms) for atoms in atoms_of_fragments if attachment in atoms) - 1
            if size <= min(MAX_SUBSTITUENT, rest):
                atoms = frozenset(i for i in own if i < parent.GetNumAtoms())
                yield Substituent(attachment, start, atoms, Chem.MolFragmentToSmiles(fragments, list(own)))


def context_of(parent: Chem.Mol, substituent: Substituent) -> str:
    """The SMILES of the parent with `[*:1]` in place of a substituent."""
    fragments = _cut_bond(parent, substituent.attachment, substituent.first)
    rest = next(atoms for atoms in Chem.GetMolFrags(fragments) if substituent.attachment in atoms)
    return Chem.MolFragmentToSmiles(fragments, list(rest))


def _cut_bond(parent: Chem.Mol, i: int, j: int) -> Chem.Mol:
    """The parent without the bond between atoms i and j, each of which is bonded to a new dummy atom `[*:1]`."""
    bond = parent.GetBondBetweenAtoms(i, j)
    fragments = Chem.FragmentOnBonds(Chem.Mol(parent), [bond.GetIdx()], dummyLabels=[(0, 0)])
    for dummy in get_atoms(fragments)[parent.GetNumAtoms() :]:
        dummy.SetAtomMapNum(1)
    return fragments


def substituted(parent: Chem.Mol, attachment: int, substituent: Substituent | None, added: str) -> Chem.RWMol | None:
    """The parent with another substituent at the atom `attachment`; not sanitized.

    Args:
        parent: as `read_parent` returns it.
        attachment: the atom.
        substituent: what is replaced; None for a hydrogen.
        added: the SMILES of the new substituent; `HYDROGEN` for a hydrogen.

    Returns:
        The molecule; None if a hydrogen would replace a hydrogen.
    """
    mol = Chem.RWMol(parent)
    if added == HYDROGEN:
        return None if substituent is None else _with_hydrogen(mol, substituent)
    fragment = _parsed(added)
    dummy = next(a for a in get_atoms(fragment) if a.GetAtomMapNum() == 1)
    (first,) = dummy.GetNeighbors()
    index = {dummy.GetIdx(): attachment}
    if substituent is not None:
        # In place, so that the bonds of `attachment` keep their order, and the atom its configuration.
        _remove(mol, substituent.atoms - {substituent.first})
        index[dummy.GetIdx()], replaced = (_current_index(mol, i) for i in (attachment, substituent.first))
        mol.ReplaceAtom(replaced, _copy(first, keep_configuration=False))
        index[first.GetIdx()] = replaced
    for atom in get_atoms(fragment):
        if atom.GetIdx() not in index:
            index[atom.GetIdx()] = mol.AddAtom(_copy(atom, keep_configuration=atom.GetIdx() != first.GetIdx()))
    for bond in fragment.GetBonds():
        ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        if dummy.GetIdx() not in ends:
            mol.AddBond(index[ends[0]], index[ends[1]], bond.GetBondType())
    if substituent is None:
        # A hydrogen counts as the last neighbor, and so does the new bond: the configuration does not change.
        mol.AddBond(attachment, index[first.GetIdx()], Chem.BondType.SINGLE)
        atom = mol.GetAtomWithIdx(attachment)
        atom.SetNumExplicitHs(max(0, atom.GetNumExplicitHs() - 1))
    for bond in fragment.GetBonds():
        if bond.GetStereo() in _CIS_TRANS:
            new = mol.GetBondBetweenAtoms(index[bond.GetBeginAtomIdx()], index[bond.GetEndAtomIdx()])
            new.SetStereoAtoms(*(index[i] for i in bond.GetStereoAtoms()))
            new.SetStereo(_CIS_TRANS[bond.GetStereo()])
    return mol


def edited_smiles(mol: Chem.RWMol) -> tuple[str, tuple[int, ...]] | None:
    """The canonical SMILES of an edited molecule, and for each of its atoms the index in the parent, -1 for a new atom.

    None if RDKit rejects the molecule, if it has radicals, or if its SMILES has other atoms.
    """
    try:
        Chem.SanitizeMol(mol)
        # SMILES are written from the directions of bonds, which a new double bond does not have.
        Chem.SetDoubleBondNeighborDirections(mol)
        Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
        if any(atom.GetNumRadicalElectrons() for atom in get_atoms(mol)):
            return None
        text = Chem.MolToSmiles(mol)
        parsed = Chem.MolFromSmiles(text)
    except RDKIT_ERRORS:
        return None
    order = output_order(mol)
    # Hydrogens that were atoms of the parent can become implicit; then the order is not that of the text.
    if parsed is None or parsed.GetNumAtoms() != len(order):
        return None
    atoms = (mol.GetAtomWithIdx(i) for i in order)
    return text, tuple(a.GetIntProp(PARENT) if a.HasProp(PARENT) else -1 for a in atoms)


@cache
def _parsed(smiles: str) -> Chem.Mol:
    return Chem.MolFromSmiles(smiles)


def _with_hydrogen(mol: Chem.RWMol, substituent: Substituent) -> Chem.RWMol:
    """The molecule with a hydrogen in place of a substituent."""
    atom = mol.GetAtomWithIdx(substituent.attachment)
    # The order of the neighbors changes, so that the chiral tag no longer holds.
    atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    if atom.GetNoImplicit() or (atom.GetIsAromatic() and atom.GetAtomicNum() != 6):
        atom.SetNumExplicitHs(atom.GetNumExplicitHs() + 1)
    _remove(mol, substituent.atoms)
    return mol


def _copy(atom: Chem.Atom, keep_configuration: bool) -> Chem.Atom:
    """A copy of an atom, without its chiral tag if the order of its neighbors changes."""
    copy = Chem.Atom(atom)
    if not keep_configuration:
        copy.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    return copy


def _current_index(mol: Chem.Mol, i: int) -> int:
    """The index in `mol` of the atom with index i in the parent."""
    return next(a.GetIdx() for a in get_atoms(mol) if a.HasProp(PARENT) and a.GetIntProp(PARENT) == i)


def _remove(mol: Chem.RWMol, atoms: Collection[int]) -> None:
    mol.BeginBatchEdit()
    for i in atoms:
        mol.RemoveAtom(i)
    mol.CommitBatchEdit()
