"""Small edits of a molecule: valid molecules with one atom changed, or with one CH2, CH3 or OH added or removed."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from rdkit import Chem, rdBase

from molattn.chem.edits import PARENT, edited_smiles, read_parent, substituents_of, substituted, with_nitrogen
from molattn.chem.features import get_atoms, get_bonds
from molattn.chem.pairs import HYDROGEN
from molattn.chem.parse import MAX_ATOMS, canonical_smiles
from molattn.errors import UsageError, as_list, unknown_choice

METHYL, HYDROXYL, CHAIN, HALOGEN, RING_NITROGEN = EDIT_KINDS = ("CH3/H", "OH/H", "CH2 in a chain", "F/Cl", "N/CH")
"""The kinds of edits, each in both directions."""

_SUBSTITUENTS = {METHYL: "C[*:1]", HYDROXYL: "O[*:1]"}
_HALOGENS = {9: 17, 17: 9}


@dataclass(frozen=True)
class SmallEdit:
    """A molecule that differs a little from its parent.

    Attributes:
        smiles: its canonical SMILES.
        kind: one of `EDIT_KINDS`.
        removed: the atoms of the parent that are removed or become another element, as indices in the parent.
        added: the atoms that are new or have become another element, as indices in `smiles`.

    >>> from molattn.chem import SmallEdit
    >>> SmallEdit("CC", "OH/H", removed=(2,), added=()).kind
    'OH/H'
    """

    smiles: str
    kind: str
    removed: tuple[int, ...]
    added: tuple[int, ...]


def small_edits(
    smiles: str,
    *,
    kinds: Collection[str] = EDIT_KINDS,
    max_per_kind: int | None = None,
    seed: int = 0,
    max_atoms: int = MAX_ATOMS,
) -> list[SmallEdit]:
    """The molecules that differ from a molecule, the parent, by one small edit.

    - "CH3/H" and "OH/H": CH3 or OH in place of a hydrogen of a carbon, or a hydrogen in place of CH3 or OH. OH is not
      put on a carbon that has a heteroatom, unless it is aromatic.
    - "CH2 in a chain": a CH2 between two carbons of a chain, or a chain without one of its CH2; not where the chain
      ends in CH3, since that is the first kind.
    - "F/Cl": one halogen for the other.
    - "N/CH": nitrogen in place of an aromatic CH, or the reverse.

    Every edited molecule is one that RDKit sanitizes, without radicals.

    Args:
        smiles: the parent; `SmallEdit.removed` has the indices of its atoms.
        kinds: some of `EDIT_KINDS`.
        max_per_kind: largest number of edits of a kind, chosen at random; None for all.
        seed: random seed of that choice.
        max_atoms: largest number of atoms of the parent.

    Returns:
        The edits, each molecule once, sorted by kind.

    Raises:
        SmilesError: text that is not a molecule within the limits.
        TypeError: `kinds` is a single string.
        UsageError: there is no such kind, or `max_per_kind` is negative.

    >>> from molattn.chem import small_edits
    >>> for edit in small_edits("Cc1ccncc1")[-4:]:
    ...     print(edit.kind, edit.smiles, edit.removed, edit.added)
    OH/H Cc1ccnc(O)c1 () (6,)
    N/CH Cc1ccncn1 (2,) (6,)
    N/CH Cc1ccnnc1 (3,) (5,)
    N/CH Cc1ccccc1 (4,) (4,)
    """
    kinds = as_list(kinds, "kinds", METHYL)
    if unknown := [kind for kind in kinds if kind not in EDIT_KINDS]:
        raise UsageError(unknown_choice("kind", unknown[0], EDIT_KINDS))
    if max_per_kind is not None and max_per_kind < 0:
        raise UsageError(f"max_per_kind is at least 0, not {max_per_kind}; leave it out for all edits")
    parent = read_parent(smiles, max_atoms)
    parent_smiles, rng = canonical_smiles(parent, max_atoms=max_atoms), np.random.default_rng(seed)
    by_kind: dict[str, list[Callable[[], Chem.RWMol | None]]] = {kind: [] for kind in EDIT_KINDS if kind in kinds}
    for kind, edit in _edits(parent):
        if kind in by_kind:
            by_kind[kind].append(edit)
    found: dict[str, SmallEdit] = {}
    with rdBase.BlockLogs():
        for kind, edits in by_kind.items():
            limit = len(edits) if max_per_kind is None else max_per_kind
            order = range(len(edits)) if max_per_kind is None else rng.permutation(len(edits))
            count = 0
            for k in order:
                mol = edits[k]() if count < limit else None
                if (
                    mol is None
                    or (result := edited_smiles(mol)) is None
                    or result[0] == parent_smiles
                    or result[0] in found
                ):
                    continue
                text, parent_atoms = result
                added = tuple(i for i, p in enumerate(parent_atoms) if p < 0)
                removed = tuple(sorted(set(range(parent.GetNumAtoms())) - set(parent_atoms)))
                found[text] = SmallEdit(text, kind, removed, added)
                count += 1
    return list(found.values())


def _edits(parent: Chem.Mol) -> Iterator[tuple[str, Callable[[], Chem.RWMol | None]]]:
    """The kind of each edit, and a function that returns the molecule, not sanitized, or None if it is impossible."""
    for substituent in substituents_of(parent):
        for kind, smiles in _SUBSTITUENTS.items():
            attachment = substituent.attachment
            if substituent.smiles == smiles and parent.GetAtomWithIdx(attachment).GetAtomicNum() == 6:
                yield kind, partial(substituted, parent, attachment, substituent, HYDROGEN)
    for atom in get_atoms(parent):
        i, element, charged = atom.GetIdx(), atom.GetAtomicNum(), atom.GetFormalCharge() != 0
        if charged:
            continue
        if element == 6 and atom.GetTotalNumHs():
            yield METHYL, partial(substituted, parent, i, None, _SUBSTITUENTS[METHYL])
            if atom.GetIsAromatic() or all(other.GetAtomicNum() == 6 for other in atom.GetNeighbors()):
                yield HYDROXYL, partial(substituted, parent, i, None, _SUBSTITUENTS[HYDROXYL])
            if atom.GetIsAromatic():
                yield RING_NITROGEN, partial(with_nitrogen, parent, i)
            elif _is_chain_carbon(atom):
                yield CHAIN, partial(_without_chain_carbon, parent, i)
        elif element in _HALOGENS and atom.GetDegree() == 1:
            yield HALOGEN, partial(_replaced, parent, i, _HALOGENS[element])
        elif element == 7 and atom.GetIsAromatic() and atom.GetDegree() == 2 and not atom.GetTotalNumHs():
            yield RING_NITROGEN, partial(_replaced, parent, i, 6)
    for bond in get_bonds(parent):
        ends = bond.GetBeginAtom(), bond.GetEndAtom()
        carbons = all(end.GetAtomicNum() == 6 and not end.GetIsAromatic() for end in ends)
        if carbons and any(_ends_in_methyl(end, other.GetIdx()) for end, other in (ends, ends[::-1])):
            continue
        if carbons and bond.GetBondType() == Chem.BondType.SINGLE and not bond.IsInRing():
            yield CHAIN, partial(_with_chain_carbon, parent, ends[0].GetIdx(), ends[1].GetIdx())


def _is_chain_carbon(atom: Chem.Atom) -> bool:
    """Whether an atom is a CH2 between two carbons that are not aromatic, outside of rings."""
    return (
        atom.GetTotalNumHs() == atom.GetDegree() == 2
        and not atom.IsInRing()
        and all(other.GetAtomicNum() == 6 and not other.GetIsAromatic() for other in atom.GetNeighbors())
        and not any(_ends_in_methyl(other, atom.GetIdx()) for other in atom.GetNeighbors())
    )


def _ends_in_methyl(atom: Chem.Atom, previous: int) -> bool:
    """Whether a chain of CH2 leads from an atom to a CH3; adding a CH2 to it would be the edit "CH3/H" at its end."""
    while atom.GetAtomicNum() == 6 and atom.GetDegree() == 2 and not atom.IsInRing():
        following = next(other for other in atom.GetNeighbors() if other.GetIdx() != previous)
        previous, atom = atom.GetIdx(), following
    return atom.GetAtomicNum() == 6 and atom.GetDegree() == 1


def _replaced(parent: Chem.Mol, i: int, element: int) -> Chem.RWMol:
    """The parent with another element in place of atom i."""
    mol = Chem.RWMol(parent)
    atom = mol.GetAtomWithIdx(i)
    atom.SetAtomicNum(element)
    atom.SetIsotope(0)
    atom.SetNoImplicit(False)
    atom.ClearProp(PARENT)
    return mol


def _without_chain_carbon(parent: Chem.Mol, i: int) -> Chem.RWMol:
    """The parent without the CH2 i, whose two neighbors are bonded to each other instead."""
    mol = Chem.RWMol(parent)
    ends = [atom.GetIdx() for atom in mol.GetAtomWithIdx(i).GetNeighbors()]
    _clear_configuration(mol, ends)
    mol.AddBond(ends[0], ends[1], Chem.BondType.SINGLE)
    mol.RemoveAtom(i)
    return mol


def _with_chain_carbon(parent: Chem.Mol, i: int, j: int) -> Chem.RWMol:
    """The parent with a CH2 between the bonded atoms i and j."""
    mol = Chem.RWMol(parent)
    _clear_configuration(mol, [i, j])
    mol.RemoveBond(i, j)
    new = mol.AddAtom(Chem.Atom(6))
    for end in (i, j):
        mol.AddBond(end, new, Chem.BondType.SINGLE)
    return mol


def _clear_configuration(mol: Chem.RWMol, atoms: list[int]) -> None:
    """Clear the chiral tags of atoms whose neighbors change, and the stereochemistry of their double bonds."""
    for i in atoms:
        atom = mol.GetAtomWithIdx(i)
        atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
        for bond in atom.GetBonds():
            bond.SetStereo(Chem.BondStereo.STEREONONE)
            bond.SetBondDir(Chem.BondDir.NONE)
