"""Errors by molecule: the worst, by scaffold, of activity cliffs, and by similarity to the training set."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from molattn.chem import MAX_ATOMS, Fingerprints, matched_pairs, morgan_bits
from molattn.models.applicability_domain import max_tanimoto
from molattn.viewer.report.target_values import TargetValues

MIN_SIMILARITY = 0.9
"""Smallest Tanimoto similarity, of Morgan count fingerprints, of two molecules that are a similar pair."""

SIMILARITY_BINS = (0.0, 0.3, 0.4, 0.5, 0.7, 1.0)
"""The edges of bins of the similarity to the most similar training molecule."""


class SimilarPair(NamedTuple):
    """Two similar molecules.

    Attributes:
        first, second: their indices; `first` is smaller.
        similarity: the Tanimoto similarity of their Morgan count fingerprints.
        change: the substituents of both, such as "*Cl \u2192 *Br", if they differ only in one; otherwise empty.
    """

    first: int
    second: int
    similarity: float
    change: str


class ScaffoldErrors(NamedTuple):
    """The errors of the molecules of one scaffold.

    Attributes:
        scaffold: its SMILES.
        molecules: the number of its molecules with a label.
        mae: their mean absolute error; for classes, the mean of 1 - the probability of the true class.
        bias: their mean error.
        worst: the index of the one with the largest absolute error.
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
    """The errors by scaffold, the scaffold with the most molecules first; molecules without a label are left out.

    Args:
        target: the true and predicted values of n molecules.
        scaffolds: n scaffolds, see `structures.scaffolds`; molecules with "" are left out.
        rows: indices of the molecules to include.
    """
    members: dict[str, list[int]] = defaultdict(list)
    error = target.error
    for i in map(int, rows):
        if scaffolds[i] and np.isfinite(error[i]):
            members[scaffolds[i]].append(i)
    found = [
        ScaffoldErrors(
            scaffold,
            len(indices),
            float(np.abs(error[indices]).mean()),
            float(error[indices].mean()),
            max(indices, key=lambda i: abs(error[i])),
        )
        for scaffold, indices in members.items()
    ]
    return sorted(found, key=lambda s: (-s.molecules, s.scaffold))


def similar_pairs(
    smiles: Sequence[str], scaffolds: Sequence[str], canonical: Sequence[str], max_atoms: int = MAX_ATOMS
) -> list[SimilarPair]:
    """Pairs of different molecules that are similar.

    Their Tanimoto similarity is at least `MIN_SIMILARITY`, or they have the same scaffold and differ in one
    substituent, see `molattn.chem.matched_pairs`.

    Args:
        smiles, scaffolds, canonical: n SMILES, their scaffolds and their canonical SMILES.
        max_atoms: largest number of atoms of a molecule.
    """
    fingerprints = Fingerprints(smiles, max_atoms=max_atoms, counts=True)
    changes = {
        (p.first, p.second): f"{_substituent_text(p.transform.removed)} \u2192 {_substituent_text(p.transform.added)}"
        for p in matched_pairs(smiles)
        if scaffolds[p.first] == scaffolds[p.second] != ""
    }
    found: list[SimilarPair] = []
    matched: dict[int, list[int]] = defaultdict(list)
    for first, second in changes:
        matched[first].append(second)
    for first in range(len(smiles)):
        similarity = fingerprints.similarities(first)
        near = np.flatnonzero(similarity[first + 1 :] >= MIN_SIMILARITY) + first + 1
        for second in sorted({*near.tolist(), *matched[first]}):
            if canonical[first] != canonical[second]:
                change = changes.get((first, second), "")
                found.append(SimilarPair(first, second, float(similarity[second]), change))
    return found


def activity_cliffs(
    target: TargetValues, pairs: Sequence[SimilarPair], count: int = 20
) -> tuple[list[SimilarPair], int, float]:
    """The activity cliffs: pairs of similar molecules whose labels differ by at least their standard deviation.

    For classes, these are the pairs with different labels.

    Args:
        target: the true and predicted values.
        pairs: pairs of similar molecules.
        count: the largest number of pairs to return.

    Returns:
        At most `count` cliffs, the number of all cliffs, and the smallest difference of a cliff (1.0 for classes). The
        cliffs with the largest difference are first; for classes, those with the largest error of either molecule.
    """
    known = target.true[np.isfinite(target.true)]
    limit = float(known.std()) if target.kind == "regression" and len(known) else 1.0
    differences = np.array([abs(target.true[p.first] - target.true[p.second]) for p in pairs])
    if target.kind != "regression":
        differences = np.where(np.isfinite(differences), (differences > 0).astype(float), np.nan)
        priority = np.array([max(target.error[p.first], target.error[p.second]) for p in pairs])
    else:
        priority = differences
    cliffs = np.flatnonzero((differences >= limit) & (differences > 0)) if len(pairs) else np.zeros(0, dtype=int)
    order = cliffs[np.argsort(-priority[cliffs], kind="stable")]
    return [pairs[i] for i in order[:count]], len(cliffs), limit


def training_similarity(smiles: Sequence[str], splits: Sequence[str], max_atoms: int = MAX_ATOMS) -> np.ndarray:
    """The largest Tanimoto similarity of Morgan fingerprints to a training molecule, (n,).

    It is NaN for training molecules, and for all molecules if none or all of them are training molecules.
    """
    is_train = np.array([split == "train" for split in splits], dtype=bool)
    found = np.full(len(smiles), np.nan)
    if is_train.any() and not is_train.all():
        bits = morgan_bits(smiles, max_atoms=max_atoms)
        found[~is_train] = max_tanimoto(bits[~is_train], bits[is_train])
    return found


def errors_by_similarity(
    target: TargetValues, similarity: np.ndarray, rows: np.ndarray
) -> list[tuple[float, float, int, float]]:
    """The mean absolute error of `rows` in each of the `SIMILARITY_BINS` that has molecules; the last includes its end.

    Returns:
        (lower edge, upper edge, number of molecules, mean absolute error) of each bin.
    """
    error, found = np.abs(target.error), []
    for k, (low, high) in enumerate(pairwise(SIMILARITY_BINS)):
        last = k == len(SIMILARITY_BINS) - 2
        indices = [i for i in rows.tolist() if low <= similarity[i] and (similarity[i] < high or last)]
        indices = [i for i in indices if np.isfinite(error[i])]
        if indices:
            found.append((low, high, len(indices), float(error[indices].mean())))
    return found


def _substituent_text(substituent: str) -> str:
    """The SMILES of a substituent with a plain asterisk as its attachment point."""
    return substituent.replace("[*:1]", "*")
