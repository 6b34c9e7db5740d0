"""Variants of a molecule, with one substituent or one ring atom changed, each with a map to the molecule's atoms."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rdkit import Chem, rdBase

from molattn.chem.edits import Substituent, edited_smiles, read_parent, substituents_of, substituted, with_nitrogen
from molattn.chem.features import get_atoms
from molattn.chem.pairs import HYDROGEN, Transform, atom_symbol
from molattn.chem.parse import MAX_ATOMS, canonical_smiles

SUBSTITUENTS = {
    "F": "F[*:1]",
    "Cl": "Cl[*:1]",
    "CH3": "C[*:1]",
    "OH": "O[*:1]",
    "NH2": "N[*:1]",
    "CN": "N#C[*:1]",
    "OCH3": "CO[*:1]",
    "CF3": "FC(F)(F)[*:1]",
}
"""The substituents that replace a hydrogen in the substituent scan, as SMILES by name."""
SCAN, RING_NITROGEN, MATCHED_PAIR = VARIANT_KINDS = ("scan", "ring nitrogen", "matched pair")
"""How a variant was made: a hydrogen replaced, a ring atom replaced by nitrogen, or the transform of a matched pair."""

_NAMES = {HYDROGEN: "H", **{smiles: name for name, smiles in SUBSTITUENTS.items()}}
_ATTACHED_BY_CARBON = {"CH3", "CN", "CF3"}


@dataclass(frozen=True)
class Variant:
    """A variant of a molecule, the parent.

    Attributes:
        smiles: its canonical SMILES.
        name: what changed, such as "H>>Cl" or "CH>>N".
        kind: one of `VARIANT_KINDS`.
        atoms: the atoms of the parent at which this change makes it; several if they are equivalent by symmetry.
        parent_atoms: for each atom of `smiles` the index of the same atom in the parent, or -1 for a new one.
        transform: the replacement of the substituent; None for a change in a ring.

    >>> from molattn.chem import substituent_scan
    >>> chlorobenzene = next(v for v in substituent_scan("c1ccccc1") if v.name == "H>>Cl")
    >>> chlorobenzene.smiles, chlorobenzene.atoms, sorted(chlorobenzene.parent_atoms)
    ('Clc1ccccc1', (0, 1, 2, 3, 4, 5), [-1, 0, 1, 2, 3, 4, 5])
    """

    smiles: str
    name: str
    kind: str
    atoms: tuple[int, ...]
    parent_atoms: tuple[int, ...]
    transform: Transform | None = None

    @property
    def atom(self) -> int:
        """The first of `atoms`."""
        return self.atoms[0]


def substituent_scan(smiles: str, *, max_atoms: int = MAX_ATOMS) -> list[Variant]:
    """The substituent scan of a molecule: each hydrogen replaced by each of `SUBSTITUENTS`, and ring CH by N.

    Every variant is a molecule that RDKit sanitizes, without radicals. A substituent that is attached by a heteroatom
    is not put on a heteroatom, nor on a carbon that has one and is not aromatic (fluorine is); nitrogen, oxygen and
    sulfur get CH3 only. Nitrogen replaces an aromatic CH, and a CH or CH2 with single bonds to carbons only.
    Stereochemistry is unchanged at the other atoms; a new stereocenter is unspecified.

    Args:
        smiles: the parent.
        max_atoms: largest number of atoms of the parent.

    Returns:
        The variants, each molecule once, in the order of the parent's atoms.

    Raises:
        SmilesError: text that is not a molecule within the limits.

    >>> from molattn.chem import substituent_scan
    >>> [(variant.name, variant.smiles, variant.atoms) for variant in substituent_scan("CO")][:2]
    [('H>>F', 'OCF', (0,)), ('H>>CH3', 'CCO', (0,))]
    """
    parent = read_parent(smiles, max_atoms)
    names = [*SUBSTITUENTS]

    def rank(variant: Variant) -> tuple[int, str]:
        return (-1, "") if variant.transform is None else (names.index(variant.name[3:]), variant.transform.environment)

    return _merge(parent, _scan(parent), rank)


def matched_pair_variants(
    smiles: str, transforms: Collection[Transform], *, max_atoms: int = MAX_ATOMS
) -> list[Variant]:
    """The variants that known transforms make of a molecule: one of its substituents, or a hydrogen, replaced.

    Args:
        smiles: the parent.
        transforms: those to try, such as the keys of `measured_effects`. The first of several that make the same
            molecule is that of the variant.
        max_atoms: largest number of atoms of the parent.

    Returns:
        The variants, each molecule once, in the order of the parent's atoms.

    Raises:
        SmilesError: text that is not a molecule within the limits.

    >>> from molattn.chem import Transform, matched_pair_variants
    >>> found = matched_pair_variants("CC(=O)Oc1ccccc1", [Transform("CC(=O)O[*:1]", "O[*:1]", "c")])
    >>> [(variant.smiles, variant.name, variant.atoms) for variant in found]
    [('Oc1ccccc1', 'CC(=O)O[*:1]>>OH', (4,))]
    """
    parent = read_parent(smiles, max_atoms)
    ranks: dict[Transform | None, int] = {}
    for transform in transforms:
        ranks.setdefault(transform, len(ranks))
    return _merge(parent, _apply(parent, transforms), lambda variant: ranks[variant.transform])


def _merge(
    parent: Chem.Mol, found: Iterator[tuple[Chem.RWMol | None, Variant]], rank: Callable[[Variant], Any]
) -> list[Variant]:
    """The edited molecules that are valid and not the parent; equal ones become one variant.

    That is of the change with the lowest rank, at all atoms where this makes the molecule: a choice by the order of the
    atoms would depend on the spelling of the parent.
    """
    parent_smiles = canonical_smiles(parent, max_atoms=parent.GetNumAtoms())
    merged: dict[str, Variant] = {}
    with rdBase.BlockLogs():
        for mol, variant in found:
            if mol is None or (result := edited_smiles(mol)) is None or result[0] == parent_smiles:
                continue
            text, parent_atoms = result
            known = merged.get(text)
            if known is None or rank(variant) < rank(known):
                merged[text] = replace(variant, smiles=text, parent_atoms=parent_atoms)
            elif rank(variant) == rank(known) and variant.atom not in known.atoms:
                merged[text] = replace(known, atoms=(*known.atoms, variant.atom))
    return list(merged.values())


def _variant(name: str, kind: str, atom: int, transform: Transform | None = None) -> Variant:
    """A variant without `smiles` and `parent_atoms`, which `_merge` adds."""
    return Variant("", name, kind, (atom,), (), transform)


def _scan(parent: Chem.Mol) -> Iterator[tuple[Chem.RWMol | None, Variant]]:
    for atom in get_atoms(parent):
        i = atom.GetIdx()
        if not atom.GetTotalNumHs():
            continue
        for name in _suitable(atom):
            transform = Transform(HYDROGEN, SUBSTITUENTS[name], atom_symbol(atom))
            yield substituted(parent, i, None, transform.added), _variant(f"H>>{name}", SCAN, i, transform)
        if _can_be_nitrogen(atom):
            hydrogens = atom.GetTotalNumHs()
            names = ("CH>>N", "CH2>>NH")
            yield with_nitrogen(parent, i), _variant(names[hydrogens - 1], RING_NITROGEN, i)


def _suitable(atom: Chem.Atom) -> list[str]:
    """The names of the substituents for an atom with hydrogens."""
    if atom.GetAtomicNum() != 6:
        return ["CH3"] if atom.GetAtomicNum() in (7, 8, 16) and not atom.GetFormalCharge() else []
    hetero = any(other.GetAtomicNum() != 6 for other in atom.GetNeighbors())
    if hetero and not atom.GetIsAromatic():
        return [name for name in SUBSTITUENTS if name in _ATTACHED_BY_CARBON or name == "F"]
    return list(SUBSTITUENTS)


def _can_be_nitrogen(atom: Chem.Atom) -> bool:
    if atom.GetAtomicNum() != 6 or atom.GetFormalCharge() or not atom.IsInRing():
        return False
    if atom.GetIsAromatic():
        return True
    single = all(bond.GetBondType() == Chem.BondType.SINGLE for bond in atom.GetBonds())
    return single and all(other.GetAtomicNum() == 6 for other in atom.GetNeighbors())


def _apply(parent: Chem.Mol, transforms: Collection[Transform]) -> Iterator[tuple[Chem.RWMol | None, Variant]]:
    by_removed: dict[tuple[str, str], list[Transform]] = {}
    for transform in transforms:
        by_removed.setdefault((transform.removed, transform.environment), []).append(transform)
    substituents = list(substituents_of(parent))
    for atom in get_atoms(parent):
        i, symbol = atom.GetIdx(), atom_symbol(atom)
        removable: list[tuple[str, Substituent | None]] = [(s.smiles, s) for s in substituents if s.attachment == i]
        if atom.GetTotalNumHs():
            removable.insert(0, (HYDROGEN, None))
        for removed, substituent in removable:
            for transform in by_removed.get((removed, symbol), ()):
                name = f"{_NAMES.get(removed, removed)}>>{_NAMES.get(transform.added, transform.added)}"
                variant = _variant(name, MATCHED_PAIR, i, transform)
                yield substituted(parent, i, substituent, transform.added), variant
