"""The formulas of the metrics, for weighted labels.

Each function takes labels y, (n,), scores p, (n,) or (n, classes), and counts, (B, n): how often each label is counted.
It returns B values, one for each row of counts, NaN where the metric is undefined. With counts of one, (1, n), that is
the metric itself; with the counts of B bootstrap resamples it is the metric of each.
"""

from collections.abc import Callable

import numpy as np

from molattn.models.magnitude import power_of_two

THRESHOLD = 0.5
"""The positive class is predicted from this probability on."""

WeightedMetric = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class UndefinedMetric(Exception):
    """Raised where a metric is undefined; the message is the reason."""


def check_two_classes(y: np.ndarray, _: np.ndarray) -> None:
    """Raise UndefinedMetric if all labels are of one class."""
    if not (y != y[0]).any():
        raise UndefinedMetric("one class only")


def check_varying_labels(y: np.ndarray, _: np.ndarray) -> None:
    """Raise UndefinedMetric if there is one label only, or if all labels are equal."""
    if len(y) < 2:
        raise UndefinedMetric("fewer than two labels")
    if not (y != y[0]).any():
        raise UndefinedMetric("all labels are equal")


def check_varying(y: np.ndarray, p: np.ndarray) -> None:
    """As `check_varying_labels`, also for the predictions."""
    check_varying_labels(y, p)
    if not (p != p[0]).any():
        raise UndefinedMetric("all predictions are equal")


def check_any_positive(y: np.ndarray, p: np.ndarray) -> None:
    """Raise UndefinedMetric if no label of two classes is positive, and none is predicted."""
    if p.ndim == 1 and not y.any() and not (p >= THRESHOLD).any():
        raise UndefinedMetric("no positive label, and none predicted")


def rmse(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """sqrt(mean (y - p)^2)"""
    scale = power_of_two(y - p)
    return scale * np.sqrt(counts @ ((y - p) / scale) ** 2 / counts.sum(1))


def mae(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """mean |y - p|"""
    return counts @ np.abs(y - p) / counts.sum(1)


def r2(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """1 - sum (y - p)^2 / sum (y - mean y)^2

    The total sum of squares is sum_i w_i (y_i - c)^2 - W (mean y - c)^2, c near the mean, to avoid cancellation.
    """
    scale = power_of_two(y)
    y, p = y / scale, p / scale
    centered, total = y - y.mean(), counts.sum(1)
    squares = counts @ centered**2 - (counts @ centered) ** 2 / total
    constant = _is_constant(y, counts)
    return np.where(constant, np.nan, 1 - counts @ (y - p) ** 2 / np.where(constant, 1.0, squares))


def spearman(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Pearson's correlation of the ranks; equal values have the mean of their ranks.

    As `scipy.stats.spearmanr`, whose import takes longer than a small training.
    """
    total = counts.sum(1, keepdims=True)
    a, b = (_ranks(x, counts) - (total + 1) / 2 for x in (y, p))
    correlation = (counts * a * b).sum(1) / np.sqrt((counts * a**2).sum(1) * (counts * b**2).sum(1))
    return np.where(_is_constant(y, counts) | _is_constant(p, counts), np.nan, correlation)


def _is_constant(y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(B,) whether all counted values are equal."""
    counted = counts > 0
    return np.where(counted, y, -np.inf).max(1) == np.where(counted, y, np.inf).min(1)


def _ranks(x: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(B, n) the mean rank of each value among those counted, from 1."""
    value_counts, inverse = _count_values(x, counts)
    return (np.cumsum(value_counts, 1) - (value_counts - 1) / 2)[:, inverse]


def _count_values(x: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(B, k) the counts of the k unique values of x, ascending, and (n,) the index of each x_i among them."""
    order = np.argsort(x, kind="stable")
    starts = np.flatnonzero(np.concatenate([[True], x[order][1:] != x[order][:-1]]))
    inverse = np.empty(len(x), dtype=np.int64)
    inverse[order] = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(x)))
    return np.add.reduceat(counts[:, order], starts, axis=1), inverse


def auroc(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Area under the ROC curve; for several classes the macro average, one-vs-rest, over the classes that occur."""
    if p.ndim == 1:
        return _binary_auroc(y, p, counts)
    occurs = np.stack([counts @ (y == c) > 0 for c in range(p.shape[1])])
    by_class = np.stack([_binary_auroc((y == c).astype(float), p[:, c], counts) for c in range(p.shape[1])])
    total = np.where(occurs, np.nan_to_num(by_class), 0.0).sum(0)
    return np.where(occurs.sum(0) > 1, total / np.maximum(occurs.sum(0), 1), np.nan)


def _binary_auroc(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The probability that a positive has a larger score than a negative, ties counted half; NaN for one class."""
    positive, _ = _count_values(p, counts * y)
    negative, _ = _count_values(p, counts * (1 - y))
    below = np.cumsum(negative, 1) - negative / 2
    pairs = positive.sum(1) * negative.sum(1)
    return np.where(pairs > 0, (positive * below).sum(1) / np.where(pairs > 0, pairs, 1.0), np.nan)


def auprc(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Average precision: the area under the precision-recall curve, without interpolation.

    sum_k (R_k - R_k-1) P_k over the thresholds from the largest score down, P precision and R recall
    """
    positive, negative = (_count_values(-p, counts * is_class)[0] for is_class in (y, 1 - y))
    true_positives, predicted = np.cumsum(positive, 1), np.cumsum(positive + negative, 1)
    positives = positive.sum(1)
    has_both = (positives > 0) & (negative.sum(1) > 0)
    area = (positive * true_positives / np.maximum(predicted, 1)).sum(1) / np.maximum(positives, 1)
    return np.where(has_both, area, np.nan)


def _predicted_classes(p: np.ndarray) -> np.ndarray:
    """(n,) the index of the predicted class: by `THRESHOLD`, or the most probable."""
    return (p >= THRESHOLD).astype(int) if p.ndim == 1 else p.argmax(1)


def _confusion_matrix(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(B, C, C) how often class i, the label, is predicted as class j."""
    classes = 2 if p.ndim == 1 else p.shape[1]
    cells = y.astype(int) * classes + _predicted_classes(p)
    matrices = [np.bincount(cells, weights=row, minlength=classes**2) for row in counts]
    return np.stack(matrices).reshape(len(counts), classes, classes)


def accuracy(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The fraction of predictions that are correct."""
    return counts @ (y == _predicted_classes(p)) / counts.sum(1)


def mcc(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Matthews' correlation coefficient; 0 if only one class is predicted.

    (c s - t . k) / sqrt((s^2 - k . k) (s^2 - t . t)),   c correct of s, t labels and k predictions of each class

    Source: Gorodkin, Comput. Biol. Chem. 2004, 28, 367 (https://doi.org/10.1016/j.compbiolchem.2004.09.006).
    """
    matrix = _confusion_matrix(y, p, counts)
    t, k, s = matrix.sum(2), matrix.sum(1), matrix.sum((1, 2))
    numerator = np.trace(matrix, axis1=1, axis2=2) * s - (t * k).sum(1)
    label_term, prediction_term = s**2 - (t**2).sum(1), s**2 - (k**2).sum(1)
    product = label_term * prediction_term
    value = np.where(product > 0, numerator / np.sqrt(np.where(product > 0, product, 1.0)), 0.0)
    return np.where(label_term > 0, value, np.nan)


def f1(y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """2 TP / (2 TP + FP + FN); for several classes the macro average over those that occur or are predicted."""
    matrix = _confusion_matrix(y, p, counts)
    true_positives, total = np.diagonal(matrix, axis1=1, axis2=2), matrix.sum(1) + matrix.sum(2)
    by_class = 2 * true_positives / np.where(total > 0, total, 1.0)
    if p.ndim == 1:
        return np.where(total[:, 1] > 0, by_class[:, 1], np.nan)
    return np.where(total > 0, by_class, 0.0).sum(1) / np.maximum((total > 0).sum(1), 1)
