"""Matched molecular pairs: two molecules of a table that differ by one substituent, and the measured effects.

Source: Hussain and Rea, J. Chem. Inf. Model. 2010, 50, 339 (https://doi.org/10.1021/ci900450m), for the index of
fragments; RDKit's rdMMPA cuts the bonds.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase
from rdkit.Chem import rdMMPA

from molattn.chem.brackets import RDKIT_ERRORS, UNSANITIZED
from molattn.chem.parse import MAX_ATOMS, canonical_smiles, read_smiles
from molattn.errors import InputError, as_list

HYDROGEN = "[*:1][H]"
"""A hydrogen as a substituent."""
DUMMY = "[*:1]"
"""The dummy atom that marks where a substituent is attached."""
MAX_SUBSTITUENT = 8
"""Largest number of atoms, without hydrogens, of a substituent."""


class Transform(NamedTuple):
    """The replacement of one substituent by another.

    Attributes:
        removed, added: the substituents as canonical SMILES; the atom `[*:1]` stands for the rest of the molecule, and
            `[*:1][H]` is a hydrogen.
        environment: the symbol of the atom that they are attached to, in lower case if it is aromatic.

    >>> from molattn.chem import Transform
    >>> Transform("[*:1][H]", "Cl[*:1]", "c").reversed
    Transform(removed='Cl[*:1]', added='[*:1][H]', environment='c')
    """

    removed: str
    added: str
    environment: str

    @property
    def reversed(self) -> "Transform":
        """The other direction."""
        return Transform(self.added, self.removed, self.environment)


class MatchedPair(NamedTuple):
    """Two molecules of a list, `first` and `second`, of which `transform` makes the second from the first.

    Attributes:
        first, second: their indices, `first` below `second`.
        transform: what is replaced.

    >>> from molattn.chem import MatchedPair, Transform
    >>> MatchedPair(0, 2, Transform("F[*:1]", "Cl[*:1]", "c")).transform.added
    'Cl[*:1]'
    """

    first: int
    second: int
    transform: Transform


@dataclass(frozen=True)
class Effect:
    """The measured changes of a property under one transform.

    Attributes:
        count: the number of matched pairs.
        mean: the mean change.
        std: the sample standard deviation of the changes (ddof=1); None for one pair.

    >>> from molattn.chem import Effect
    >>> Effect(3, 0.7, 0.2).count
    3
    """

    count: int
    mean: float
    std: float | None


def matched_pairs(smiles: Iterable[str]) -> list[MatchedPair]:
    """All pairs of molecules that differ by one substituent: matched molecular pairs by single cuts.

    A bond is cut where rdMMPA cuts one: a single bond outside of rings, from a carbon without a double or triple bond
    to a heteroatom. The substituent has up to `MAX_SUBSTITUENT` atoms and no more than the rest of the molecule.
    Hydrogens are substituents, too. If several transforms describe a pair, the one with the smallest substituents is
    returned. `changed_atoms` returns the atoms in which the molecules of a pair differ.

    Args:
        smiles: n molecules. Those that cannot be read, have several fragments or dummy atoms, or are the same as a
            previous one, are in no pair.

    Returns:
        The pairs, sorted; each pair of molecules at most once.

    Raises:
        TypeError: `smiles` is a single string.

    >>> from molattn.chem import matched_pairs
    >>> for pair in matched_pairs(["c1ccccc1", "Clc1ccccc1", "Fc1ccccc1"]):
    ...     print(*pair)
    0 1 Transform(removed='[*:1][H]', added='Cl[*:1]', environment='c')
    0 2 Transform(removed='[*:1][H]', added='F[*:1]', environment='c')
    1 2 Transform(removed='Cl[*:1]', added='F[*:1]', environment='c')
    """
    index: dict[str, int] = {}
    by_context: dict[str, dict[int, str]] = defaultdict(dict)
    sizes = {HYDROGEN: 0}
    with rdBase.BlockLogs():
        for i, text in enumerate(as_list(smiles)):
            mol = _one_fragment(text)
            if mol is None or (key := canonical_smiles(mol)) in index:
                continue
            index[key] = i
            for context, substituent, size in single_cuts(mol):
                sizes[substituent] = size
                # Equal contexts of a molecule, as in a symmetric one, have equal substituents.
                by_context[context][i] = substituent
        contexts = {context: found for context in by_context if (found := _environment(context)) is not None}
    best: dict[tuple[int, int], tuple[int, Transform]] = {}
    for context, (environment, capped) in contexts.items():
        members = by_context[context]
        with_hydrogen = index.get(capped)
        if with_hydrogen is not None and with_hydrogen not in members:
            members = {**members, with_hydrogen: HYDROGEN}
        for (i, a), (j, b) in combinations(sorted(members.items()), 2):
            size = sizes[a] + sizes[b]
            if a != b and ((i, j) not in best or size < best[i, j][0]):
                best[i, j] = (size, Transform(a, b, environment))
    return [MatchedPair(i, j, transform) for (i, j), (_, transform) in sorted(best.items())]


def measured_effects(pairs: Sequence[MatchedPair], values: npt.ArrayLike) -> dict[Transform, Effect]:
    """The measured effect of each transform, in both directions: mean_p (y_second - y_first) over its pairs p.

    Args:
        pairs: as `matched_pairs` returns them.
        values: (n,) the property of each molecule, in the order of the molecules; pairs with NaN are ignored.

    >>> import numpy as np
    >>> from molattn.chem import Transform, matched_pairs, measured_effects
    >>> smiles = ["c1ccccc1", "Clc1ccccc1", "Cc1ccccc1", "Cc1ccc(Cl)cc1"]
    >>> effects = measured_effects(matched_pairs(smiles), np.array([-1.6, -2.4, -2.2, -3.1]))
    >>> effect = effects[Transform("[*:1][H]", "Cl[*:1]", "c")]
    >>> effect.count, round(effect.mean, 2)
    (2, -0.85)
    """
    values = np.asarray(values, dtype=np.float64)  # a Series would look up labels, not positions
    changes: dict[Transform, list[float]] = defaultdict(list)
    for first, second, transform in pairs:
        change = float(values[second] - values[first])
        if np.isfinite(change):
            changes[transform].append(change)
            changes[transform.reversed].append(-change)
    return {transform: _effect(np.array(found)) for transform, found in changes.items()}


def _effect(changes: np.ndarray) -> Effect:
    std = float(np.std(changes, ddof=1)) if len(changes) > 1 else None
    return Effect(len(changes), float(changes.mean()), std)


def single_cuts(mol: Chem.Mol) -> Iterator[tuple[str, str, int]]:
    """The context, the substituent and the number of its atoms, for both directions of each bond that is cut."""
    try:
        cut = rdMMPA.FragmentMol(mol, maxCuts=1, maxCutBonds=MAX_ATOMS, resultsAsMols=False)
    except RDKIT_ERRORS:
        return
    for _, both in cut:
        first, _, second = both.partition(".")
        n = mol.GetNumAtoms()
        first_size = _num_atoms(first)
        for context, substituent, size in ((first, second, n - first_size), (second, first, first_size)):
            if size <= min(MAX_SUBSTITUENT, n - size):
                yield context, substituent, size


def _num_atoms(fragment: str) -> int:
    """The number of atoms of a fragment, without the dummy."""
    return Chem.MolFromSmiles(fragment, UNSANITIZED).GetNumAtoms() - 1


def _environment(context: str) -> tuple[str, str] | None:
    """The symbol of the atom that the dummy of a context is bonded to, and `capped_context`; None if that is None."""
    # Lower case marks aromatic atoms: the fragment need not be sanitized.
    mol = Chem.MolFromSmiles(context, UNSANITIZED)
    dummy = next(atom for atom in mol.GetAtoms() if atom.GetAtomMapNum() == 1)
    environment = atom_symbol(dummy.GetNeighbors()[0])
    capped = capped_context(context)
    return None if capped is None else (environment, capped)


def capped_context(context: str) -> str | None:
    """The canonical SMILES of a context with a hydrogen in place of its dummy; None if RDKit rejects that molecule."""
    capped = Chem.MolFromSmiles(context.replace(DUMMY, "[H]"))
    return None if capped is None else Chem.MolToSmiles(capped)


def atom_symbol(atom: Chem.Atom) -> str:
    """The symbol of an atom as in SMILES: in lower case if it is aromatic."""
    return atom.GetSymbol().lower() if atom.GetIsAromatic() else atom.GetSymbol()


def _one_fragment(text: str) -> Chem.Mol | None:
    """The molecule of a SMILES; None if it cannot be read, or has several fragments or dummy atoms."""
    try:
        mol = read_smiles(text)
    except InputError:
        return None
    return None if "*" in text or "." in text else mol
