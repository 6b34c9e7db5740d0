"""Connected fragments of a molecule, as molecules with hydrogens in place of the bonds that are cut."""

from collections.abc import Iterable

from rdkit import Chem, rdBase

from molattn.chem.features import get_bonds, output_order
from molattn.chem.parse import MAX_ATOMS, RDKIT_ERRORS, canonical_smiles, read_smiles
from molattn.errors import InputError


class Fragments:
    """The connected fragments of a molecule.

    A fragment is a set of units. A unit is one atom, or bonded atoms of opposite formal charges, such as N and O of a
    nitro group, since either alone would be an ion. Units are numbered in the order of the canonical SMILES, so
    that all SMILES of a molecule have the same fragments in the same order.

    Args:
        smiles: the molecule.
        max_atoms: largest number of atoms.

    Attributes:
        units: the atoms of each unit, as indices of the atoms of `smiles`.
        neighbors: for each unit the units that are bonded to it, sorted.
        symmetry: n numbers, one for each atom of `smiles`; equal for atoms that are symmetrically equivalent.

    Raises:
        SmilesError: a SMILES that cannot be read.
        InputError: RDKit fails to write the molecule as SMILES, or to read that SMILES as the same atoms.

    >>> from molattn.chem import Fragments
    >>> fragments = Fragments("CC(=O)N")
    >>> fragments.units, fragments.neighbors
    (((0,), (1,), (3,), (2,)), ((1,), (0, 2, 3), (1,), (1,)))
    >>> fragments.smiles({1, 3}), fragments.smiles({0, 1, 2})
    ('C=O', 'CCN')
    """

    def __init__(self, smiles: str, max_atoms: int = MAX_ATOMS):
        mol = read_smiles(smiles, max_atoms=max_atoms)
        self._canonical = canonical_smiles(mol, max_atoms=max_atoms)
        order = output_order(mol)
        # In canonical order, since the Kekulé form depends on it; kekulized, since a part of an aromatic ring may not
        # be aromatic.
        self._mol = read_smiles(self._canonical, max_atoms=max_atoms)
        if self._mol.GetNumAtoms() != len(order):
            raise InputError(f"{smiles!r} has other atoms than its canonical SMILES {self._canonical!r}")
        ranks = list(Chem.CanonicalRankAtoms(self._mol, breakTies=False))
        Chem.Kekulize(self._mol, clearAromaticFlags=True)
        self._has_double_bond_stereo = any(b.GetStereo() != Chem.BondStereo.STEREONONE for b in get_bonds(self._mol))
        self._units = _units(self._mol)
        self.units = tuple(tuple(order[i] for i in unit) for unit in self._units)
        unit_of = {i: u for u, unit in enumerate(self._units) for i in unit}
        bonds = get_bonds(self._mol)
        ends = [(unit_of[b.GetBeginAtomIdx()], unit_of[b.GetEndAtomIdx()]) for b in bonds]
        pairs = {*ends, *((v, u) for u, v in ends)}
        self._bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx(), int(b.GetBondTypeAsDouble())) for b in bonds]
        self.neighbors = tuple(tuple(sorted(v for w, v in pairs if w == u != v)) for u in range(len(self._units)))
        self.symmetry = [0] * len(order)
        for i, j in enumerate(order):
            self.symmetry[j] = ranks[i]

    def smiles(self, units: Iterable[int]) -> str:
        """The canonical SMILES of a fragment, with a hydrogen for each bond that is cut; empty if RDKit rejects it.

        Atoms without a bond that is cut keep their stereochemistry. The fragment of all units is the molecule.

        Args:
            units: indices of units in `units`.
        """
        atoms = {i for u in units for i in self._units[u]}
        if len(atoms) == self._mol.GetNumAtoms():
            return self._canonical
        fragment = Chem.RWMol(self._mol)
        for i, j, order in self._bonds:
            if (i in atoms) == (j in atoms):
                continue
            atom = fragment.GetAtomWithIdx(i if i in atoms else j)
            if atom.GetNoImplicit():
                atom.SetNumExplicitHs(atom.GetNumExplicitHs() + order)
            atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
            if self._has_double_bond_stereo:
                for other in atom.GetBonds():
                    other.SetStereo(Chem.BondStereo.STEREONONE)
        fragment.BeginBatchEdit()
        for i in range(self._mol.GetNumAtoms()):
            if i not in atoms:
                fragment.RemoveAtom(i)
        fragment.CommitBatchEdit()
        try:
            with rdBase.BlockLogs():
                Chem.SanitizeMol(fragment)
                return canonical_smiles(fragment)
        except (*RDKIT_ERRORS, InputError):
            return ""


def _units(mol: Chem.Mol) -> tuple[tuple[int, ...], ...]:
    """The atoms of each unit: atoms that bonds between opposite charges connect, or one atom."""
    unit = list(range(mol.GetNumAtoms()))
    for bond in mol.GetBonds():
        charges = bond.GetBeginAtom().GetFormalCharge() * bond.GetEndAtom().GetFormalCharge()
        if charges < 0:
            old, new = sorted((unit[bond.GetBeginAtomIdx()], unit[bond.GetEndAtomIdx()]), reverse=True)
            unit = [new if u == old else u for u in unit]
    members: dict[int, list[int]] = {}
    for i, u in enumerate(unit):
        members.setdefault(u, []).append(i)
    return tuple(tuple(atoms) for atoms in members.values())
