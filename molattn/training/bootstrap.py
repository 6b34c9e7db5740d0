"""Bootstrap confidence intervals of metrics, by resampling the molecules that they were computed on.

A resample of n labels is a row of n counts, how often each label is drawn. The metrics of all resamples are computed at
once from a matrix of counts, (B, n).

Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 13: the percentile interval.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from molattn.models.predictions import Predictions
from molattn.models.tasks import Task
from molattn.training.metrics import METRICS, THRESHOLD, UndefinedMetric, compute_metrics

RESAMPLES = 1000
INTERVAL = 0.95
MAX_NUMBERS = 2**22
"""The maximum number of counts in memory at once."""

Resampled = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
"""From labels (n,), scores (n,) or (n, classes), and counts (B, n), to a metric of every resample, (B,); NaN where it
is undefined."""


def interval_by_target(
    task: Task,
    targets: Sequence[str],
    true: np.ndarray,
    answers: Predictions,
    names: Sequence[str],
    molecules: Sequence[object] | np.ndarray,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """The 95% intervals of the metrics of every target: {target: {metric: [lower, upper]}}.

    An interval of an undefined metric is None, and "why" has the reason, as in `compute_metrics`.

    Args:
        task, targets: of the model.
        true: (n, T), NaN where the label is missing.
        answers: the predictions.
        names: of the metrics.
        molecules: n keys, the molecule of each row of `true`, such as its canonical SMILES: the rows of a molecule,
            such as its atoms, are drawn together.
        seed: of the resamples.
    """
    return {
        target: metric_intervals(true[:, t], task.scores(answers, t), names, molecules, seed)
        for t, target in enumerate(targets)
    }


def metric_intervals(
    true: np.ndarray,
    scores: np.ndarray,
    names: Sequence[str],
    molecules: Sequence[object] | np.ndarray | None = None,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """The percentile intervals of metrics of one target: {name: [lower, upper]}; see `interval_by_target`.

    Shapes: true (n,), NaN where missing; scores (n,) or (n, classes); molecules n, or None if each row is a molecule.
    """
    known = np.isfinite(true)
    y, p = np.asarray(true, dtype=np.float64)[known], np.asarray(scores, dtype=np.float64)[known]
    measured = compute_metrics(y, p, names)
    defined = [name for name in names if measured[name] is not None]
    result: dict[str, Any] = dict.fromkeys(names)
    why: dict[str, str] = dict(measured.get("why", {}))
    number: dict[object, int] = {}
    rows = range(len(true)) if molecules is None else molecules
    owners = np.array(
        [number.setdefault(m, len(number)) for m, k in zip(rows, known, strict=True) if k], dtype=np.int64
    )
    if defined and len(number) < 2:
        why |= dict.fromkeys(defined, "labels of one molecule only")
        defined = []
    found: dict[str, list[np.ndarray]] = {name: [] for name in defined}
    for counts in _counts(owners, len(number), resamples, seed) if defined else ():
        for name in defined:
            with np.errstate(all="ignore"):  # values that are undefined are NaN
                found[name].append(RESAMPLED.get(name, _one_by_one(name))(y, p, counts))
    for name, parts in found.items():
        values = np.concatenate(parts)
        values = values[np.isfinite(values)]
        if 2 * len(values) < resamples:
            why[name] = "undefined in most resamples"
            continue
        result[name] = np.quantile(values, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2]).tolist()
    return {**result, "why": why} if why else result


def _counts(owners: np.ndarray, molecules: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each label is drawn, (b, n) float64, in parts of the B resamples; labels of one molecule together."""
    rng = np.random.default_rng(seed)
    size = max(1, MAX_NUMBERS // max(1, len(owners)))
    for start in range(0, resamples, size):
        b = min(size, resamples - start)
        drawn = rng.integers(0, molecules, (b, molecules))
        flat = (drawn + molecules * np.arange(b)[:, None]).ravel()
        yield np.bincount(flat, minlength=b * molecules).reshape(b, molecules)[:, owners].astype(np.float64)


def _one_by_one(name: str) -> Resampled:
    """A metric computed resample by resample, for those that are not in `RESAMPLED`, such as one of a plugin."""

    def resampled(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
        values = []
        for row in counts.astype(np.int64):
            try:
                values.append(float(METRICS[name].function(np.repeat(y, row), np.repeat(p, row, axis=0))))
            except UndefinedMetric:
                values.append(np.nan)
        return np.array(values)

    return resampled


def _rmse(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.sqrt(counts @ (y - p) ** 2 / counts.sum(1))


def _mae(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return counts @ np.abs(y - p) / counts.sum(1)


def _r2(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The total sum of squares is sum_i w_i (y_i - c)^2 - W (mean y - c)^2, c near the mean, to avoid cancellation."""
    centred, total = y - y.mean(), counts.sum(1)
    squares = counts @ centred**2 - (counts @ centred) ** 2 / total
    constant = _is_constant(y, counts)
    return np.where(constant, np.nan, 1 - counts @ (y - p) ** 2 / np.where(constant, 1.0, squares))


def _is_constant(y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(B,) whether all drawn values are equal."""
    drawn = counts > 0
    return np.where(drawn, y, -np.inf).max(1) == np.where(drawn, y, np.inf).min(1)


def _spearman(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Pearson's correlation of the ranks in each resample, weighted by the counts."""
    total = counts.sum(1, keepdims=True)
    a, b = (_ranks(x, counts) - (total + 1) / 2 for x in (y, p))
    correlation = (counts * a * b).sum(1) / np.sqrt((counts * a**2).sum(1) * (counts * b**2).sum(1))
    return np.where(_is_constant(y, counts) | _is_constant(p, counts), np.nan, correlation)


def _ranks(x: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(B, n) the mean rank of each value among those drawn, from 1."""
    of_value, value_of = _by_value(x, counts)
    return (np.cumsum(of_value, 1) - (of_value - 1) / 2)[:, value_of]


def _by_value(x: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, k) the counts of the k different values of x, ascending, and (n,) the index of each value."""
    order = np.argsort(x, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], x[order][1:] != x[order][:-1]]))
    value_of = np.empty(len(x), dtype=np.int64)
    value_of[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(x)))
    return np.add.reduceat(counts[:, order], starts, axis=1), value_of


def _binary_auroc(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The probability that a positive has a larger score than a negative, ties counted half; NaN for one class."""
    positive, _ = _by_value(p, counts * y)
    negative, _ = _by_value(p, counts * (1 - y))
    below = np.cumsum(negative, 1) - negative / 2
    pairs = positive.sum(1) * negative.sum(1)
    return np.where(pairs > 0, (positive * below).sum(1) / np.where(pairs > 0, pairs, 1.0), np.nan)


def _auroc(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    if p.ndim == 1:
        return _binary_auroc(y, p, counts)
    # The mean over the classes among the labels drawn.
    drawn = np.stack([counts @ (y == c) > 0 for c in range(p.shape[1])])
    each = np.stack([_binary_auroc((y == c).astype(float), p[:, c], counts) for c in range(p.shape[1])])
    several = drawn.sum(0) > 1
    total = np.where(drawn, np.nan_to_num(each), 0.0).sum(0)
    return np.where(several, total / np.maximum(drawn.sum(0), 1), np.nan)


def _auprc(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """sum_k (R_k - R_k-1) P_k over the thresholds from the largest score down, P precision and R recall."""
    positive, negative = (_by_value(-p, counts * of)[0] for of in (y, 1 - y))
    found, predicted = np.cumsum(positive, 1), np.cumsum(positive + negative, 1)
    positives = positive.sum(1)
    both = (positives > 0) & (negative.sum(1) > 0)
    area = (positive * found / np.maximum(predicted, 1)).sum(1) / np.maximum(positives, 1)
    return np.where(both, area, np.nan)


def _confusion(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(B, C, C) how often class i, the label, is predicted as class j."""
    classes = 2 if p.ndim == 1 else p.shape[1]
    predicted = (p >= THRESHOLD).astype(int) if p.ndim == 1 else p.argmax(1)
    cells = np.zeros((len(y), classes**2))
    cells[np.arange(len(y)), y.astype(int) * classes + predicted] = 1.0
    return (counts @ cells).reshape(len(counts), classes, classes)


def _accuracy(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    table = _confusion(y, p, counts)
    return np.trace(table, axis1=1, axis2=2) / table.sum((1, 2))


def _mcc(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(c s - t . k) / sqrt((s^2 - k . k) (s^2 - t . t)),   c correct of s, t labels and k predictions of each class.

    0 if only one class is predicted; NaN if there is one class only. Source: Gorodkin, Comput. Biol. Chem. 2004, 28,
    367 (https://doi.org/10.1016/j.compbiolchem.2004.09.006).
    """
    table = _confusion(y, p, counts)
    t, k, s = table.sum(2), table.sum(1), table.sum((1, 2))
    numerator = np.trace(table, axis1=1, axis2=2) * s - (t * k).sum(1)
    of_labels, of_predictions = s**2 - (t**2).sum(1), s**2 - (k**2).sum(1)
    product = of_labels * of_predictions
    value = np.where(product > 0, numerator / np.sqrt(np.where(product > 0, product, 1.0)), 0.0)
    return np.where(of_labels > 0, value, np.nan)


def _f1(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """2 TP / (2 TP + FP + FN); for several classes the macro average over those that occur."""
    table = _confusion(y, p, counts)
    correct, both = np.diagonal(table, axis1=1, axis2=2), table.sum(1) + table.sum(2)
    each = 2 * correct / np.where(both > 0, both, 1.0)
    if p.ndim == 1:
        return np.where(both[:, 1] > 0, each[:, 1], np.nan)
    return np.where(both > 0, each, 0.0).sum(1) / np.maximum((both > 0).sum(1), 1)


RESAMPLED: dict[str, Resampled] = {
    "rmse": _rmse,
    "mae": _mae,
    "r2": _r2,
    "spearman": _spearman,
    "auroc": _auroc,
    "auprc": _auprc,
    "mcc": _mcc,
    "accuracy": _accuracy,
    "f1": _f1,
}
"""The metrics by name, for all resamples at once; other metrics are computed resample by resample."""
