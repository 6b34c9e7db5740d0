"""Edits of a molecule that keep track of its atoms: one substituent for another, nitrogen for a carbon."""

from collections.abc import Collection, Iterator
from functools import cache
from typing import NamedTuple

from rdkit import Chem

from molattn.chem.brackets import RDKIT_ERRORS
from molattn.chem.features import get_atoms, output_order
from molattn.chem.pairs import HYDROGEN, MAX_SUBSTITUENT
from molattn.chem.parse import MAX_ATOMS, read_smiles

PARENT = "molattn_parent"
"""The property of an atom that holds its index in the parent; new atoms have none."""

# Where rdMMPA cuts a bond: the pattern of its documentation.
_CUT = Chem.MolFromSmarts("[#6+0;!$(*=,#[!#6])]!@!=!#[*]")
_CIS_TRANS = {
    Chem.BondStereo.STEREOZ: Chem.BondStereo.STEREOCIS,
    Chem.BondStereo.STEREOE: Chem.BondStereo.STEREOTRANS,
}


class Cut(NamedTuple):
    """A substituent of the parent: the atom that it is attached to, its own first atom, all its atoms, its SMILES."""

    anchor: int
    first: int
    atoms: frozenset[int]
    smiles: str


def read_parent(smiles: str, max_atoms: int) -> Chem.Mol:
    """The molecule, each atom with its index."""
    mol = read_smiles(smiles, max_atoms=max_atoms)
    for atom in get_atoms(mol):
        atom.SetAtomMapNum(0)
        atom.SetIntProp(PARENT, atom.GetIdx())
    return mol


def with_nitrogen(parent: Chem.Mol, i: int) -> Chem.RWMol:
    """The parent with nitrogen in place of carbon i, and a hydrogen less."""
    mol = Chem.RWMol(parent)
    atom = mol.GetAtomWithIdx(i)
    atom.SetAtomicNum(7)
    atom.SetNumExplicitHs(0)
    atom.SetNoImplicit(False)
    atom.SetIsotope(0)
    atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    atom.ClearProp(PARENT)
    return mol


def cuts_of(parent: Chem.Mol) -> Iterator[Cut]:
    """The substituents of the parent, as `matched_pairs` cuts them."""
    plain = Chem.Mol(parent)
    bonds = {tuple(sorted(match)) for match in parent.GetSubstructMatches(_CUT, maxMatches=10 * MAX_ATOMS)}
    for first, second in sorted(bonds):
        bond = plain.GetBondBetweenAtoms(first, second)
        pieces = Chem.FragmentOnBonds(plain, [bond.GetIdx()], dummyLabels=[(0, 0)])
        for atom in get_atoms(pieces)[parent.GetNumAtoms() :]:
            atom.SetAtomMapNum(1)
        sides = Chem.GetMolFrags(pieces)
        for anchor, start in ((first, second), (second, first)):
            side = next(atoms for atoms in sides if start in atoms)
            size, rest = len(side) - 1, next(len(atoms) for atoms in sides if anchor in atoms) - 1
            if size <= min(MAX_SUBSTITUENT, rest):
                atoms = frozenset(i for i in side if i < parent.GetNumAtoms())
                yield Cut(anchor, start, atoms, Chem.MolFragmentToSmiles(pieces, list(side)))


def context_of(parent: Chem.Mol, cut: Cut) -> str:
    """The rest of the parent without the substituent of `cut`, for which `[*:1]` stands in the SMILES."""
    plain = Chem.Mol(parent)
    bond = plain.GetBondBetweenAtoms(cut.anchor, cut.first)
    pieces = Chem.FragmentOnBonds(plain, [bond.GetIdx()], dummyLabels=[(0, 0)])
    for atom in get_atoms(pieces)[parent.GetNumAtoms() :]:
        atom.SetAtomMapNum(1)
    rest = next(atoms for atoms in Chem.GetMolFrags(pieces) if cut.anchor in atoms)
    return Chem.MolFragmentToSmiles(pieces, list(rest))


def substituted(parent: Chem.Mol, anchor: int, cut: Cut | None, added: str) -> Chem.RWMol | None:
    """The parent with a substituent in place of that of `cut`, or of a hydrogen of the atom `anchor`; not sanitized."""
    mol = Chem.RWMol(parent)
    if added == HYDROGEN:
        return None if cut is None else _without(mol, anchor, cut)
    fragment = _substituent(added)
    dummy = next(a for a in get_atoms(fragment) if a.GetAtomMapNum() == 1)
    (first,) = dummy.GetNeighbors()
    index = {dummy.GetIdx(): anchor}
    if cut is not None:
        # In place, so that the bonds of the anchor keep their order, and the anchor its configuration.
        _remove(mol, cut.atoms - {cut.first})
        index[dummy.GetIdx()], place = (_place(mol, i) for i in (anchor, cut.first))
        mol.ReplaceAtom(place, _copy(first, keep_configuration=False))
        index[first.GetIdx()] = place
    for atom in get_atoms(fragment):
        if atom.GetIdx() not in index:
            index[atom.GetIdx()] = mol.AddAtom(_copy(atom, keep_configuration=atom.GetIdx() != first.GetIdx()))
    for bond in fragment.GetBonds():
        ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        if dummy.GetIdx() not in ends:
            mol.AddBond(index[ends[0]], index[ends[1]], bond.GetBondType())
    if cut is None:
        # A hydrogen counts as the last neighbor, and so does the new bond: the configuration is kept.
        mol.AddBond(anchor, index[first.GetIdx()], Chem.BondType.SINGLE)
        atom = mol.GetAtomWithIdx(anchor)
        atom.SetNumExplicitHs(max(0, atom.GetNumExplicitHs() - 1))
    for bond in fragment.GetBonds():
        if bond.GetStereo() in _CIS_TRANS:
            new = mol.GetBondBetweenAtoms(index[bond.GetBeginAtomIdx()], index[bond.GetEndAtomIdx()])
            new.SetStereoAtoms(*(index[i] for i in bond.GetStereoAtoms()))
            new.SetStereo(_CIS_TRANS[bond.GetStereo()])
    return mol


def edited_smiles(mol: Chem.RWMol) -> tuple[str, tuple[int, ...]] | None:
    """The canonical SMILES of an edited molecule, and the atoms of the parent in its order; None if it is invalid."""
    try:
        Chem.SanitizeMol(mol)
        # SMILES are written from the directions of bonds, which a new double bond does not have.
        Chem.SetDoubleBondNeighborDirections(mol)
        Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
        if any(atom.GetNumRadicalElectrons() for atom in get_atoms(mol)):
            return None
        text = Chem.MolToSmiles(mol)
        again = Chem.MolFromSmiles(text)
    except RDKIT_ERRORS:
        return None
    order = output_order(mol)
    # Hydrogens that were atoms of the parent can become implicit; then the order is not that of the text.
    if again is None or again.GetNumAtoms() != len(order):
        return None
    atoms = (mol.GetAtomWithIdx(i) for i in order)
    return text, tuple(a.GetIntProp(PARENT) if a.HasProp(PARENT) else -1 for a in atoms)


@cache
def _substituent(smiles: str) -> Chem.Mol:
    return Chem.MolFromSmiles(smiles)


def _without(mol: Chem.RWMol, anchor: int, cut: Cut) -> Chem.RWMol:
    """The molecule with a hydrogen in place of a substituent."""
    atom = mol.GetAtomWithIdx(anchor)
    # The order of the neighbors changes, so that the chiral tag no longer holds.
    atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    if atom.GetNoImplicit() or (atom.GetIsAromatic() and atom.GetAtomicNum() != 6):
        atom.SetNumExplicitHs(atom.GetNumExplicitHs() + 1)
    _remove(mol, cut.atoms)
    return mol


def _copy(atom: Chem.Atom, keep_configuration: bool) -> Chem.Atom:
    """A copy of an atom; the neighbors of the first atom of a substituent change their order."""
    copy = Chem.Atom(atom)
    if not keep_configuration:
        copy.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    return copy


def _place(mol: Chem.Mol, i: int) -> int:
    """The index of the atom that has index i in the parent."""
    return next(a.GetIdx() for a in get_atoms(mol) if a.HasProp(PARENT) and a.GetIntProp(PARENT) == i)


def _remove(mol: Chem.RWMol, atoms: Collection[int]) -> None:
    mol.BeginBatchEdit()
    for i in atoms:
        mol.RemoveAtom(i)
    mol.CommitBatchEdit()
