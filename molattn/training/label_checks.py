"""Checks of the labels of a run: their range, the balance of classes, and the number of labels in each split."""

import math
from collections.abc import Callable

import numpy as np

from molattn.errors import short_repr
from molattn.models.predictions import normal_quantile
from molattn.models.target_transform import LOG10, NEG_LOG10_MOLAR, parse_molar
from molattn.training.dataset import PreparedDataset
from molattn.training.findings import Finding, count_noun

MIN_LABELS = 50
"""Targets with fewer labels than this are reported."""
MIN_SHARE = 0.05
"""Classes with a smaller share of the labels than this are reported."""
ORDERS = 3.0
"""Positive, skewed targets whose central 98% spans this many orders of magnitude are better learned as logarithms."""
MAX_HALF_WIDTH = {"RMSE": 0.2, "AUROC": 0.1, "accuracy": 0.1}
"""Splits are reported if the half-width of the metric's 95% interval exceeds this: relative for the RMSE, for an AUROC
of 0.8, for an accuracy of 1/2."""

U = normal_quantile(0.975)


def check_ranges(dataset: PreparedDataset) -> list[Finding]:
    """Positive, skewed targets over several orders of magnitude."""
    found = []
    for t, (name, y) in enumerate(zip(dataset.config.target_columns, dataset.targets.T, strict=True)):
        known = y[np.isfinite(y)]
        if len(known) < 2 or known.min() <= 0 or (dataset.transforms and dataset.transforms[t] is not None):
            continue
        low, high = np.quantile(known, [0.01, 0.99])
        orders = float(np.log10(high) - np.log10(low))
        skew, skew_of_log = _skewness(known), _skewness(np.log10(known))
        if orders >= ORDERS and math.isfinite(skew) and skew > max(1.0, abs(skew_of_log)):
            transform = NEG_LOG10_MOLAR if parse_molar(dataset.units[t]) else LOG10
            message = (
                f"column {short_repr(name)} spans {orders:.1f} orders of magnitude, {known.min():g} to "
                f"{known.max():g}; the largest values decide the loss: try --target-transform {transform}"
            )
            found.append(Finding("range", message, True, {"target": name, "orders": orders, "skewness": skew}))
    return found


def _skewness(x: np.ndarray) -> float:
    """mean ((x - mean x) / std x)^3; 0 for equal numbers."""
    std = float(x.std())
    return float(np.mean(((x - x.mean()) / std) ** 3)) if std > 0 else 0.0


def check_classes(dataset: PreparedDataset) -> list[Finding]:
    """Classes with few of the labels of their target."""
    rare = []
    for t, (name, y) in enumerate(zip(dataset.config.target_columns, dataset.targets.T, strict=True)):
        known = y[np.isfinite(y)].astype(int)
        names = dataset.task.class_names(t)
        for c, count in enumerate(np.bincount(known, minlength=len(names)).tolist() if len(known) else ()):
            if count < MIN_SHARE * len(known):
                rare.append({"target": name, "class": names[c], "labels": count, "of": len(known)})
    if not rare:
        return []
    first = min(rare, key=lambda r: r["labels"] / r["of"])
    rarest = "it" if len(rare) == 1 else "the rarest"
    message = (
        f"{count_noun(len(rare), 'class has', 'classes have')} under {100 * MIN_SHARE:g}% of the labels of the target; "
        f"{rarest}, {short_repr(first['class'])} of {short_repr(first['target'])}, has {first['labels']:,} of "
        f"{first['of']:,}: --class-balance gives the classes equal weight"
    )
    return [Finding("classes", message, True, {"rare": rare})]


def check_labels(dataset: PreparedDataset) -> list[Finding]:
    """Targets with few labels."""
    counts = np.isfinite(dataset.targets).sum(0)
    few = [(name, int(n)) for name, n in zip(dataset.config.target_columns, counts, strict=True) if n < MIN_LABELS]
    if not few:
        return []
    name, n = min(few, key=lambda item: item[1])
    fewest = "" if len(few) == 1 else ", the fewest"
    message = (
        f"{count_noun(len(few), 'target has', 'targets have')} under {MIN_LABELS} labels{fewest}: {short_repr(name)} "
        f"has {n}; a network learns little from so few"
    )
    return [Finding("labels", message, True, {"targets": dict(few)})]


def check_splits(dataset: PreparedDataset) -> list[Finding]:
    """Test and validation splits that are too small for a meaningful metric."""
    found = []
    measure: Callable[[np.ndarray], tuple[str, float]] = {"regression": _rmse_width, "binary": _auroc_width}.get(
        dataset.task.kind, _accuracy_width
    )
    for split, label in (("test", "test"), ("val", "validation")):
        targets = dataset.targets[dataset.targets_of(dataset.indices(split))]
        known = [y[np.isfinite(y)] for y in targets.T]
        measured = [(*measure(y), name, len(y)) for y, name in zip(known, dataset.config.target_columns, strict=True)]
        wide = [m for m in measured if not m[1] <= MAX_HALF_WIDTH[m[0]]]
        if not wide:
            continue
        metric, width, name, n = max(wide, key=lambda m: (math.isnan(m[1]), m[1]))
        what = f" of {short_repr(name)}" if len(known) > 1 else ""
        labels = f"{count_noun(n, f'{label} label', f'{label} labels')}{what}"
        if math.isnan(width):
            message = f"{labels} do not have both classes, so that the {metric} is undefined"
        elif metric == "RMSE":
            message = f"{labels}: the 95% interval of the RMSE would be about +-{100 * width:.0f}% of it"
        else:
            at = "0.8" if metric == "AUROC" else "0.5"
            message = (
                f"{labels}: the 95% interval of an {metric} of {at} would be about {width:.2f} wide to either side"
            )
        details = {"split": split, "metric": metric, "targets": [m[2] for m in wide], "smallest": n}
        details["half_width"] = None if math.isnan(width) else width
        advice = "; --num-folds 5 tests every molecule once" if split == "test" else ""
        found.append(Finding("splits", f"{message}{advice}", True, details))
    return found


def _rmse_width(y: np.ndarray) -> tuple[str, float]:
    """The RMSE of n normal errors has the relative standard error 1 / sqrt(2 n)."""
    return "RMSE", U / math.sqrt(2 * len(y)) if len(y) else math.nan


def _auroc_width(y: np.ndarray) -> tuple[str, float]:
    """The standard error of an AUROC A = 0.8 by Hanley and McNeil, Radiology 1982, 143, 29; NaN for one class.

    n+ n- SE^2 = A (1 - A) + (n+ - 1) (A / (2 - A) - A^2) + (n- - 1) (2 A^2 / (1 + A) - A^2)
    """
    positive = int(y.sum())
    negative = len(y) - positive
    if not positive or not negative:
        return "AUROC", math.nan
    a = 0.8
    more = (positive - 1) * (a / (2 - a) - a**2) + (negative - 1) * (2 * a**2 / (1 + a) - a**2)
    return "AUROC", U * math.sqrt((a * (1 - a) + more) / (positive * negative))


def _accuracy_width(y: np.ndarray) -> tuple[str, float]:
    """The standard error of an accuracy of 1/2 is 1 / (2 sqrt(n))."""
    return "accuracy", U / (2 * math.sqrt(len(y))) if len(y) else math.nan
