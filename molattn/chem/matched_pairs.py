"""Matched molecular pairs: two molecules that differ in one substituent."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rdkit import Chem, rdBase

from molattn.chem.parse import MAX_ATOMS, canonical_smiles, convert_rdkit_errors, read_smiles

MAX_PER_CORE = 200
"""Cores that more molecules share are left out: they are a few atoms, such as methyl, and say nothing."""

HYDROGEN = "*[H]"
"""The substituent that stands for no heavy atom."""


class MatchedPair(NamedTuple):
    """Two molecules that are one core with two substituents.

    Attributes:
        first, second: rows of the molecules; `first` is the smaller.
        core: SMILES of what they share, with `*` where the substituent is bound.
        first_substituent, second_substituent: SMILES, with `*` where the core is bound.
    """

    first: int
    second: int
    core: str
    first_substituent: str
    second_substituent: str


def matched_pairs(smiles: Sequence[str], *, max_atoms: int = MAX_ATOMS) -> list[MatchedPair]:
    """The pairs of molecules that differ in one substituent, each pair once, with its largest core.

    Every single bond outside of rings is cut in turn. Two molecules with one part in common are a pair if this core has
    at least twice as many heavy atoms as each substituent. Hydrogen is a substituent, too. Molecules of several
    fragments are left out, and so are rows of one molecule.

    Args:
        smiles: n SMILES.
        max_atoms: largest number of atoms of a molecule.

    Raises:
        SmilesError: a SMILES that cannot be read; raised for the first of them.

    Source: Hussain and Rea, J. Chem. Inf. Model. 2010, 50, 339 (https://doi.org/10.1021/ci900450m).
    The size of the core: Hu, Hu, Vogt, Stumpfe and Bajorath, J. Chem. Inf. Model. 2012, 52, 1138.

    >>> from molattn.chem.matched_pairs import matched_pairs
    >>> for pair in matched_pairs(["Clc1ccccc1", "Nc1ccccc1", "CCO"]):
    ...     print(pair)
    MatchedPair(first=0, second=1, core='*c1ccccc1', first_substituent='*Cl', second_substituent='*N')
    """
    by_core: dict[str, list[tuple[int, str]]] = defaultdict(list)
    core_sizes: dict[str, int] = {}
    rows: dict[str, list[int]] = defaultdict(list)
    sizes = []
    with rdBase.BlockLogs():
        for row, text in enumerate(smiles):
            mol = read_smiles(text, max_atoms=max_atoms)
            sizes.append(mol.GetNumHeavyAtoms())
            rows[canonical_smiles(mol, max_atoms=max_atoms)].append(row)
            with convert_rdkit_errors(text, "cut its bonds"):
                for core, substituent, size in _cuts(mol):
                    by_core[core].append((row, substituent))
                    core_sizes[core] = size
        for core, members in by_core.items():
            capped = Chem.MolFromSmiles(core.replace("[*]", "*").replace("*", "[H]", 1))
            if capped is not None and len(members) <= MAX_PER_CORE:
                members += [(row, HYDROGEN) for row in rows.get(Chem.MolToSmiles(capped), ())]
    best: dict[tuple[int, int], tuple[int, MatchedPair]] = {}
    for core, members in by_core.items():
        if 1 < len(members) <= MAX_PER_CORE:
            size = core_sizes[core]
            members = [(row, part) for row, part in members if 3 * size >= 2 * sizes[row]]
            for pair in _pairs(core, members):
                key = pair[:2]
                if key not in best or size > best[key][0]:
                    best[key] = size, pair
    return [best[key][1] for key in sorted(best)]


def _cuts(mol: Chem.Mol) -> Iterator[tuple[str, str, int]]:
    """For each single bond outside of rings, both ways: the SMILES of both parts, and the heavy atoms of the first."""
    if len(Chem.GetMolFrags(mol)) > 1:
        return
    for bond in mol.GetBonds():
        if bond.GetBondType() != Chem.BondType.SINGLE or bond.IsInRing():
            continue
        cut = Chem.FragmentOnBonds(mol, [bond.GetIdx()], dummyLabels=[(0, 0)])
        parts = Chem.MolToSmiles(cut).split(".")
        for core, substituent in (parts, parts[::-1]):
            if size := Chem.MolFromSmiles(core, sanitize=False).GetNumHeavyAtoms():  # without the dummy atom
                yield core, substituent, size


def _pairs(core: str, members: list[tuple[int, str]]) -> Iterator[MatchedPair]:
    for k, (row, part) in enumerate(members):
        for other, other_part in members[k + 1 :]:
            if part != other_part and row != other:
                (a, x), (b, y) = sorted([(row, part), (other, other_part)])
                yield MatchedPair(a, b, core, x, y)
