"""New SMILES and molecules: random SMILES, random edits, and recombination at BRICS bonds."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rdkit import Chem, RDConfig, rdBase

from molattn.chem.features import output_order
from molattn.chem.parse import canonical_smiles, read_smiles
from molattn.chem.standardize import inchi_key
from molattn.errors import InputError, as_list

# RDKit treats seed 0 as "no seed", and accepts 32 bits.
_SEEDS = 2**31 - 1


def random_smiles(mol: Chem.Mol, seed: int) -> str:
    """A random SMILES of a molecule: with a random first atom and random order of branches.

    Args:
        mol: as `read_smiles` returns it.
        seed: from 0; the same seed gives the same SMILES of the same molecule.

    Raises:
        ValueError: a seed outside of [0, 2^31 - 1).

    Source: RDKit's `MolToRandomSmilesVect`; as augmentation of data, Bjerrum 2017, arXiv:1703.07076.

    >>> from molattn.chem import canonical_smiles, random_smiles, read_smiles
    >>> mol = read_smiles("CC(=O)Nc1ccc(O)cc1")
    >>> variants = {random_smiles(mol, seed) for seed in range(5)}
    >>> len(variants) > 1, {canonical_smiles(read_smiles(text)) for text in variants}
    (True, {'CC(=O)Nc1ccc(O)cc1'})
    """
    if not 0 <= seed < _SEEDS:
        raise ValueError(f"a seed is from 0 to {_SEEDS - 1}, got {seed}")
    (smiles,) = Chem.MolToRandomSmilesVect(mol, 1, randomSeed=seed + 1)
    return smiles


def reordered_smiles(mol: Chem.Mol, seed: int) -> tuple[str, list[int]]:
    """A SMILES of a molecule with a random order of atoms, and for each of its atoms the index in the molecule.

    Args:
        mol: as `read_smiles` returns it.
        seed: from 0; the same seed gives the same SMILES.

    >>> from molattn.chem import read_smiles
    >>> from molattn.chem.generate import reordered_smiles
    >>> text, order = reordered_smiles(read_smiles("CCO"), seed=0)
    >>> [("C", "C", "O")[i] for i in order] == [c for c in text if c in "CO"]
    True
    """
    order = np.random.default_rng(seed).permutation(mol.GetNumAtoms()).tolist()
    shuffled = Chem.RenumberAtoms(mol, order)
    text = Chem.MolToSmiles(shuffled, canonical=False)
    return text, [order[i] for i in output_order(shuffled)]


def round_trip_smiles(text: str, max_length: int) -> str | None:
    """The canonical SMILES of a molecule with one fragment, if it is short and RDKit reads and writes it unchanged.

    Args:
        text: SMILES.
        max_length: largest number of characters of the canonical SMILES.

    Returns:
        The canonical SMILES. None for text that is not a molecule of up to `MAX_ATOMS` atoms, for several fragments,
        more than `max_length` characters, and the few canonical SMILES that RDKit parses and then writes differently.

    >>> from molattn.chem import round_trip_smiles
    >>> round_trip_smiles("OCC", max_length=10)
    'CCO'
    >>> print(round_trip_smiles("[Na+].[Cl-]", max_length=20))
    None
    """
    try:
        canonical = canonical_smiles(read_smiles(text))
        if len(canonical) > max_length or "." in canonical:
            return None
        return canonical if canonical_smiles(read_smiles(canonical)) == canonical else None
    except InputError:
        return None


def nci_molecules(max_length: int) -> list[str]:
    """Short SMILES among the 4,999 NCI molecules in RDKit's data: distinct `round_trip_smiles`, sorted.

    Args:
        max_length: largest number of characters of a canonical SMILES.

    Raises:
        FileNotFoundError: RDKit was installed without its data.

    >>> from molattn.chem import nci_molecules
    >>> smiles = nci_molecules(max_length=10)
    >>> "CCN" in smiles, max(map(len, smiles))
    (True, 10)
    """
    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text(encoding="utf-8").splitlines()
    found = {round_trip_smiles(line.split("\t")[0], max_length) for line in lines if line.strip()}
    return sorted(smiles for smiles in found if smiles is not None)


_CHAIN = (6, 6, 6, 7, 7, 8, 8, 16, 9, 17, 35)
_AROMATIC = (6, 7, 8, 16)
_ORDERS = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE)
_ATTEMPTS = 50
"""Largest number of attempts per requested molecule."""

MAX_LENGTH_GROWN = 100
"""Largest number of characters of a SMILES from `grow_molecules`, since each join makes a larger molecule."""


def mutate_molecules(
    smiles: Sequence[str], count: int, *, seed: int, max_length: int, exclude: Collection[str] = ()
) -> list[str]:
    """New molecules, each an input molecule after one to three random edits.

    An edit changes an element or a bond order, adds or removes an atom, breaks a bond and keeps one fragment, or joins
    two of the input molecules.

    Args:
        smiles: input molecules; none of them is returned.
        count: number of distinct molecules; fewer are returned if 50 attempts per molecule find no more.
        seed: the same seed gives the same molecules, in the same order.
        max_length: largest number of characters of a canonical SMILES.
        exclude: canonical SMILES that must not be returned, such as those of a test set.

    Returns:
        Distinct `round_trip_smiles` without radicals.

    Raises:
        SmilesError: an input that is not a molecule.
        TypeError: `smiles` is a single string.

    >>> from molattn.chem import mutate_molecules
    >>> new = mutate_molecules(["CCO", "c1ccccc1"], count=3, seed=0, max_length=20)
    >>> len(new), "CCO" in new
    (3, False)
    >>> new == mutate_molecules(["CCO", "c1ccccc1"], count=3, seed=0, max_length=20)
    True
    """
    rng = np.random.default_rng(seed)
    mols = [read_smiles(text) for text in as_list(smiles)]
    excluded = {*exclude, *(round_trip_smiles(text, max_length) for text in smiles)}
    return _new_molecules(lambda: _mutated(mols, rng), count if mols else 0, max_length, set(), excluded.__contains__)


def grow_molecules(
    smiles: Sequence[str], count: int, *, seed: int, is_excluded: Callable[[str], bool] = lambda _: False
) -> list[str]:
    """New molecules: two fragments of input molecules joined, or an input molecule after one to three random edits.

    The fragments come from two molecules, each cut at a bond with the same BRICS environments, and are joined by such a
    bond. Molecules are compared by InChIKey: none is returned twice, and no input molecule is returned.

    Args:
        smiles: input molecules.
        count: number of molecules; fewer are returned if 50 attempts per molecule find no more.
        seed: the same seed gives the same molecules, in the same order.
        is_excluded: called with each new SMILES; molecules for which it returns True are dropped.

    Returns:
        `round_trip_smiles`, of up to 100 characters.

    Raises:
        SmilesError: an input that is not a molecule.
        TypeError: `smiles` is a single string.

    Source: Degen et al., ChemMedChem 2008, 3, 1503 (https://doi.org/10.1002/cmdc.200800178), for BRICS.

    >>> from molattn.chem import grow_molecules
    >>> esters = ["CCOC(=O)c1ccccc1", "CC(=O)OCCN"]
    >>> new = grow_molecules(esters, count=3, seed=0, is_excluded=lambda smiles: "S" in smiles)
    >>> len(new), any("S" in smiles for smiles in new)
    (3, False)
    """
    rng = np.random.default_rng(seed)
    mols = [read_smiles(text) for text in as_list(smiles)]
    with rdBase.BlockLogs():
        cuts = _cuts(mols)
    environments = [pair for pair, found in cuts.items() for _ in found]

    def propose() -> Chem.Mol | None:
        if environments and rng.integers(2):
            return _recombined(cuts, environments[rng.integers(len(environments))], rng)
        return _mutated(mols, rng)

    known = {inchi_key(text) for text in smiles}
    return _new_molecules(propose, count if mols else 0, MAX_LENGTH_GROWN, known, is_excluded, inchi_key)


def _new_molecules(
    propose: Callable[[], Chem.Mol | None],
    count: int,
    max_length: int,
    known: set[str],
    is_excluded: Callable[[str], bool],
    key_of: Callable[[str], str] = str,
) -> list[str]:
    """The `round_trip_smiles` of up to `count` proposed molecules whose keys differ from each other and from `known`.

    `propose` returns None for a failed attempt; a molecule whose key is empty is dropped.
    """
    keys, new = set(known), []
    with rdBase.BlockLogs():
        for _ in range(_ATTEMPTS * count):
            if len(new) == count:
                break
            mol = propose()
            # Each atom takes at least one character; RDKit crashes on very long chains.
            if mol is None or mol.GetNumAtoms() > max_length:
                continue
            smiles = round_trip_smiles(Chem.MolToSmiles(mol), max_length)
            if smiles is None or not (key := key_of(smiles)) or key in keys or is_excluded(smiles):
                continue
            keys.add(key)
            new.append(smiles)
    return new


def _mutated(mols: list[Chem.Mol], rng: np.random.Generator) -> Chem.Mol | None:
    """A random molecule after one to three `EDITS`; None if an edit gives no valid molecule."""
    mol: Chem.Mol | None = mols[rng.integers(len(mols))]
    for _ in range(rng.integers(1, 4)):
        other = mols[rng.integers(len(mols))]
        mol = _sanitized(EDITS[rng.integers(len(EDITS))](Chem.RWMol(mol), other, rng))
        if mol is None:
            return None
    return mol


def _sanitized(new: Chem.Mol | None) -> Chem.Mol | None:
    """The edited molecule, sanitized; None if it is invalid or has a radical."""
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


EDITS = (_change_element, _change_bond, _add_atom, _remove_atom, _cut, _join)
"""The random edits: functions of a copy of a molecule, which they may change, of another molecule, and of a random
generator; None if the edit is not possible."""


def _atom_with_hydrogen(mol: Chem.Mol, rng: np.random.Generator) -> int | None:
    """A random atom with a hydrogen, which can be replaced by a bond."""
    atoms = [atom.GetIdx() for atom in mol.GetAtoms() if atom.GetTotalNumHs()]
    return atoms[rng.integers(len(atoms))] if atoms else None


def _add_bond(mol: Chem.RWMol, i: int, j: int) -> Chem.Mol:
    """Replace a hydrogen of atom i and one of atom j by a single bond between them."""
    for atom in (mol.GetAtomWithIdx(i), mol.GetAtomWithIdx(j)):
        atom.SetNumExplicitHs(max(atom.GetNumExplicitHs() - 1, 0))
    mol.AddBond(i, j, _ORDERS[0])
    return mol


# The BRICS environments of the atom that is kept and of the atom that is removed, at the ends of a bond.
_Environments = tuple[str, str]


class _Cut(NamedTuple):
    """A cut of a BRICS bond: the molecule, the atom at the bond that is kept, and the one that is removed."""

    mol: Chem.Mol
    kept: int
    removed: int


def _cuts(mols: Sequence[Chem.Mol]) -> dict[_Environments, list[_Cut]]:
    """The cuts of all BRICS bonds, two for each bond, by the environments of the kept and of the removed atom."""
    from rdkit.Chem import BRICS  # imported here, because its import takes 6% of that of molattn.chem

    cuts: dict[_Environments, list[_Cut]] = {}
    for mol in mols:
        for (i, j), (environment_i, environment_j) in BRICS.FindBRICSBonds(mol):
            cuts.setdefault((environment_i, environment_j), []).append(_Cut(mol, i, j))
            cuts.setdefault((environment_j, environment_i), []).append(_Cut(mol, j, i))
    return cuts


def _recombined(
    cuts: dict[_Environments, list[_Cut]], environments: _Environments, rng: np.random.Generator
) -> Chem.Mol | None:
    """A fragment of one molecule joined to the complementary fragment of another, by a BRICS bond."""
    first, second = cuts[environments], cuts[environments[1], environments[0]]
    first_cut, second_cut = first[rng.integers(len(first))], second[rng.integers(len(second))]
    (fragment, i), (other, j) = _kept_fragment(first_cut), _kept_fragment(second_cut)
    mol, n = Chem.RWMol(fragment), fragment.GetNumAtoms()
    mol.InsertMol(other)
    bond = first_cut.mol.GetBondBetweenAtoms(first_cut.kept, first_cut.removed)
    mol.AddBond(i, n + j, bond.GetBondType())
    return _sanitized(mol)


def _kept_fragment(cut: _Cut) -> tuple[Chem.Mol, int]:
    """The fragment that is kept, and the index in it of the atom at the cut."""
    mol = Chem.RWMol(cut.mol)
    mol.RemoveBond(cut.kept, cut.removed)
    atom_indices: list[tuple[int, ...]] = []
    fragments = Chem.GetMolFrags(mol, asMols=True, sanitizeFrags=False, fragsMolAtomMapping=atom_indices)
    return next(
        (fragment, indices.index(cut.kept))
        for fragment, indices in zip(fragments, atom_indices, strict=True)
        if cut.kept in indices
    )
