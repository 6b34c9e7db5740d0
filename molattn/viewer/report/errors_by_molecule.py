"""Where a model errs: worst errors, errors by scaffold, activity cliffs, errors by similarity to the training set."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from molattn.chem import MAX_ATOMS, Fingerprints, matched_pairs, morgan_bits
from molattn.models.applicability_domain import max_tanimoto
from molattn.viewer.report.target_values import TargetValues

SIMILAR = 0.9
"""Tanimoto similarity of counted Morgan fingerprints from which two molecules are a pair of a cliff."""
SIMILARITY_BINS = (0.0, 0.3, 0.4, 0.5, 0.7, 1.0)
"""Limits of the similarity to the most similar training molecule."""


class SimilarPair(NamedTuple):
    """Two similar molecules.

    Attributes:
        first, second: their indices; `first` is the smaller.
        similarity: Tanimoto similarity of their counted Morgan fingerprints.
        change: the substituent of each, if they differ in one; else empty.
    """

    first: int
    second: int
    similarity: float
    change: str


class ScaffoldErrors(NamedTuple):
    """The errors of the molecules of one scaffold.

    Attributes:
        scaffold: its SMILES.
        molecules: how many of its molecules have an error.
        mae: their mean absolute error; for classes the mean of 1 - the probability of the true class.
        bias: their mean error.
        worst: the index of the molecule with the largest error.
    """

    scaffold: str
    molecules: int
    mae: float
    bias: float
    worst: int


def worst_errors(target: TargetValues, rows: np.ndarray, count: int = 20) -> np.ndarray:
    """The indices of the `count` molecules among `rows` with the largest absolute errors, largest first."""
    error = np.abs(target.error[rows])
    known = rows[np.isfinite(error)]
    order = np.argsort(-np.abs(target.error[known]), kind="stable")
    return known[order[:count]]


def scaffold_errors(target: TargetValues, scaffolds: Sequence[str], rows: np.ndarray) -> list[ScaffoldErrors]:
    """The errors of `rows` by scaffold, those with most molecules first; molecules without an error are left out.

    Args:
        target: the values.
        scaffolds: n scaffolds; "" for none.
        rows: indices of the molecules that count.
    """
    members: dict[str, list[int]] = defaultdict(list)
    error = target.error
    for i in map(int, rows):
        if scaffolds[i] and np.isfinite(error[i]):
            members[scaffolds[i]].append(i)
    found = [
        ScaffoldErrors(
            scaffold,
            len(of),
            float(np.abs(error[of]).mean()),
            float(error[of].mean()),
            max(of, key=lambda i: abs(error[i])),
        )
        for scaffold, of in members.items()
    ]
    return sorted(found, key=lambda s: (-s.molecules, s.scaffold))


def similar_pairs(
    smiles: Sequence[str], scaffolds: Sequence[str], canonical: Sequence[str], max_atoms: int = MAX_ATOMS
) -> list[SimilarPair]:
    """Pairs of different molecules that are similar: by Tanimoto similarity, or in all but one substituent.

    The second kind also have the same scaffold; see `molattn.chem.matched_pairs`.

    Args:
        smiles, scaffolds, canonical: n SMILES, their scaffolds and their canonical SMILES.
        max_atoms: largest number of atoms of a molecule.
    """
    fingerprints = Fingerprints(smiles, max_atoms=max_atoms, counts=True)
    changes = {
        (p.first, p.second): f"{_shown(p.transform.removed)} \u2192 {_shown(p.transform.added)}"
        for p in matched_pairs(smiles)
        if scaffolds[p.first] == scaffolds[p.second] != ""
    }
    found: list[SimilarPair] = []
    seconds: dict[int, list[int]] = defaultdict(list)
    for first, second in changes:
        seconds[first].append(second)
    for first in range(len(smiles)):
        similarity = fingerprints.similarities(first)
        near = np.flatnonzero(similarity[first + 1 :] >= SIMILAR) + first + 1
        for second in sorted({*near.tolist(), *seconds[first]}):
            if canonical[first] != canonical[second]:
                change = changes.get((first, second), "")
                found.append(SimilarPair(first, second, float(similarity[second]), change))
    return found


def activity_cliffs(
    target: TargetValues, pairs: Sequence[SimilarPair], count: int = 20
) -> tuple[list[SimilarPair], int, float]:
    """The pairs of similar molecules with the most different labels, how many cliffs there are, and their limit.

    A cliff is a pair whose labels differ by at least a standard deviation of all labels, or are different classes.

    Args:
        target: the values.
        pairs: similar molecules.
        count: at most this many are returned, those with the largest difference first.
    """
    known = target.true[np.isfinite(target.true)]
    limit = float(known.std()) if target.kind == "regression" and len(known) else 1.0
    differences = np.array([abs(target.true[p.first] - target.true[p.second]) for p in pairs])
    if target.kind != "regression":
        differences = np.where(np.isfinite(differences), (differences > 0).astype(float), np.nan)
        # Among pairs of two classes, those first of which the model knew one the least.
        order_by = np.array([max(target.error[p.first], target.error[p.second]) for p in pairs])
    else:
        order_by = differences
    cliffs = np.flatnonzero((differences >= limit) & (differences > 0)) if len(pairs) else np.zeros(0, dtype=int)
    order = cliffs[np.argsort(-order_by[cliffs], kind="stable")]
    return [pairs[i] for i in order[:count]], len(cliffs), limit


def training_similarity(smiles: Sequence[str], splits: Sequence[str], max_atoms: int = MAX_ATOMS) -> np.ndarray:
    """(n,) the largest Tanimoto similarity to a training molecule; NaN for training molecules and without any."""
    is_train = np.array([split == "train" for split in splits], dtype=bool)
    found = np.full(len(smiles), np.nan)
    if is_train.any() and not is_train.all():
        bits = morgan_bits(smiles, max_atoms=max_atoms)
        found[~is_train] = max_tanimoto(bits[~is_train], bits[is_train])
    return found


def errors_by_similarity(
    target: TargetValues, similarity: np.ndarray, rows: np.ndarray
) -> list[tuple[float, float, int, float]]:
    """(from, to, molecules, mean absolute error) of `rows` in each of `SIMILARITY_BINS`; the last includes its end."""
    error, found = np.abs(target.error), []
    for k, (low, high) in enumerate(pairwise(SIMILARITY_BINS)):
        last = k == len(SIMILARITY_BINS) - 2
        of = [i for i in rows.tolist() if low <= similarity[i] and (similarity[i] < high or last)]
        of = [i for i in of if np.isfinite(error[i])]
        if of:
            found.append((low, high, len(of), float(error[of].mean())))
    return found


def _shown(substituent: str) -> str:
    """A substituent with a plain asterisk where it is attached."""
    return substituent.replace("[*:1]", "*")
