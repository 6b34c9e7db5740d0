"""Metrics of predictions, in the units of the targets; a metric that is undefined is None, with a reason.

A metric is computed from the known labels, (n,), and scores: (n,) numbers, (n,) probabilities of the positive class,
or (n, classes) probabilities of every class. `METRICS` lists them by name. Their confidence intervals are percentile
intervals of the bootstrap, for which molecules are resampled, not labels: a resample is a row of counts, (n,), how
often each label is drawn.

Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 13.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from molattn.data.tables.cells import has_bounds
from molattn.errors import UsageError, unknown_choice
from molattn.models.predictions import Predictions
from molattn.models.task import Task
from molattn.training import metric_functions as functions
from molattn.training.metric_functions import UndefinedMetric, WeightedMetric

VAL_LOSS, TRAIN_LOSS = "val_loss", "train_loss"
LOSSES = (VAL_LOSS, TRAIN_LOSS)
"""The tracking metric that is not in `METRICS`: the loss of the validation molecules."""
RESAMPLES = 1000
INTERVAL = 0.95
MAX_NUMBERS = 2**22
"""The maximum number of counts of bootstrap resamples in memory at once."""


@dataclass(frozen=True)
class Metric:
    """A metric of predictions.

    Attributes:
        label: its name in a table.
        task_kinds: the kinds of tasks that it applies to.
        larger_is_better: whether larger values are better.
        function: computes its value from labels and scores; raises UndefinedMetric.
        has_unit: whether it is in the unit of the target.
        weighted: computes its values for all bootstrap resamples at once; None to call `function` for each.
    """

    label: str
    task_kinds: tuple[str, ...]
    larger_is_better: bool
    function: Callable[[np.ndarray, np.ndarray], float]
    has_unit: bool = False
    weighted: WeightedMetric | None = None

    def resampled(self, y: np.ndarray, p: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """(B,) the metric of each resample, NaN where it is undefined; counts (B, n): how often each label is drawn."""
        if self.weighted is not None:
            return self.weighted(y, p, counts)
        values = []
        for row in counts.astype(np.int64):
            try:
                values.append(float(self.function(np.repeat(y, row), np.repeat(p, row, axis=0))))
            except UndefinedMetric:
                values.append(np.nan)
        return np.array(values)


def _metric(
    label: str,
    tasks: tuple[str, ...],
    larger_is_better: bool,
    weighted: WeightedMetric,
    check: Callable[[np.ndarray, np.ndarray], None] | None = None,
    has_unit: bool = False,
) -> Metric:
    """The metric with the formula `weighted`, which is undefined where `check` raises UndefinedMetric."""

    def function(y: np.ndarray, p: np.ndarray) -> float:
        if check is not None:
            check(y, p)
        return float(weighted(y, p, np.ones((1, len(y))))[0])

    return Metric(label, tasks, larger_is_better, function, has_unit, weighted)


def compute_metrics(true: np.ndarray, scores: np.ndarray, names: Sequence[str]) -> dict[str, Any]:
    """Metrics of one target over the molecules that have a label: {name: value}.

    An undefined metric is None, and "why" has the reason: {"auroc": None, "why": {"auroc": "one class only"}}.

    Shapes: true (n,), NaN where the label is missing; scores (n,) or (n, classes).
    """
    labelled = np.isfinite(true)
    y, p = np.asarray(true, dtype=np.float64)[labelled], np.asarray(scores, dtype=np.float64)[labelled]
    values: dict[str, Any] = {}
    why: dict[str, str] = {}
    for name in names:
        try:
            if not len(y):
                raise UndefinedMetric("no labels")
            with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite are reported below
                value = float(METRICS[name].function(y, p))
            if not (np.isfinite(value) and np.isfinite(p).all()):
                raise UndefinedMetric("predictions that are not finite")
            values[name] = value
        except UndefinedMetric as reason:
            values[name], why[name] = None, str(reason)
    return {**values, "why": why} if why else values


def metrics_by_target(
    task: Task,
    targets: Sequence[str],
    true: np.ndarray,
    predictions: Predictions,
    names: Sequence[str],
    bounds: np.ndarray | None = None,
) -> dict[str, dict[str, Any]]:
    """The metrics `names` of every target, and how many labels it has; `true` is (n, T).

    The metrics leave out censored labels, of which only `bounds`, (n, T, 2), are known; "censored" is their number.
    """
    censored = None if bounds is None else has_bounds(bounds).sum(0).tolist()
    return {
        target: {
            **compute_metrics(true[:, t], task.scores(predictions, t), names),
            "n": int(np.isfinite(true[:, t]).sum()),
            **({} if censored is None else {"censored": censored[t]}),
        }
        for t, target in enumerate(targets)
    }


def mean_over_targets(measured: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """The mean of each metric over the targets where it is defined, and the number of these targets."""
    values = {name: [m[name] for m in measured.values() if m[name] is not None] for name in names}
    means: dict[str, Any] = {name: float(np.mean(v)) if v else None for name, v in values.items()}
    undefined = {name: "undefined for every target" for name, v in values.items() if not v}
    result = {**means, "targets": {name: len(v) for name, v in values.items()}}
    return {**result, "why": undefined} if undefined else result


def intervals_by_target(
    task: Task,
    targets: Sequence[str],
    true: np.ndarray,
    predictions: Predictions,
    names: Sequence[str],
    keys: Sequence[object],
    offsets: np.ndarray | None = None,
    seed: int = 0,
) -> dict[str, dict[str, Any]]:
    """The 95% intervals of the metrics of every target: {target: {metric: [lower, upper]}}.

    An interval of an undefined metric is None, and "why" has the reason, as in `compute_metrics`.

    Args:
        task, targets: of the model.
        true: (n, T), NaN where the label is missing; (N, T) for atom-level targets.
        predictions: of the labels.
        names: of the metrics.
        keys: n keys, such as canonical SMILES; rows with equal keys are one molecule, and are drawn together.
        offsets: (n + 1,) row pointers for atom-level targets, as in `LabelledMolecules`; the atoms of a molecule are
            drawn together. None for one row per molecule.
        seed: of the resamples.
    """
    molecules = np.array(keys, dtype=object)
    if offsets is not None:
        molecules = np.repeat(molecules, np.diff(offsets))
    return {
        target: metric_intervals(true[:, t], task.scores(predictions, t), names, molecules, seed)
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
    """The percentile intervals of metrics of one target: {name: [lower, upper]}; see `intervals_by_target`.

    Shapes: true (n,), NaN where missing; scores (n,) or (n, classes); molecules n, or None if each row is a molecule.
    """
    labelled = np.isfinite(true)
    y, p = np.asarray(true, dtype=np.float64)[labelled], np.asarray(scores, dtype=np.float64)[labelled]
    measured = compute_metrics(y, p, names)
    defined = [name for name in names if measured[name] is not None]
    result: dict[str, Any] = dict.fromkeys(names)
    why: dict[str, str] = dict(measured.get("why", {}))
    number: dict[object, int] = {}
    rows = range(len(true)) if molecules is None else molecules
    molecule_of_label = np.array(
        [number.setdefault(m, len(number)) for m, k in zip(rows, labelled, strict=True) if k], dtype=np.int64
    )
    if defined and len(number) < 2:
        why |= dict.fromkeys(defined, "labels of one molecule only")
        defined = []
    found: dict[str, list[np.ndarray]] = {name: [] for name in defined}
    for counts in _draw_counts(molecule_of_label, len(number), resamples, seed) if defined else ():
        for name in defined:
            with np.errstate(all="ignore"):  # values that are undefined are NaN
                found[name].append(METRICS[name].resampled(y, p, counts))
    for name, parts in found.items():
        values = np.concatenate(parts)
        values = values[np.isfinite(values)]
        if 2 * len(values) < resamples:
            why[name] = "undefined in most resamples"
            continue
        result[name] = np.quantile(values, [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2]).tolist()
    return {**result, "why": why} if why else result


def _draw_counts(molecule_of_label: np.ndarray, molecules: int, resamples: int, seed: int) -> Iterator[np.ndarray]:
    """How often each label is drawn, (b, n) float64, in parts of the B resamples; labels of one molecule together."""
    rng = np.random.default_rng(seed)
    size = max(1, MAX_NUMBERS // max(1, len(molecule_of_label)))
    for start in range(0, resamples, size):
        b = min(size, resamples - start)
        drawn = rng.integers(0, molecules, (b, molecules))
        flat = (drawn + molecules * np.arange(b)[:, None]).ravel()
        yield np.bincount(flat, minlength=b * molecules).reshape(b, molecules)[:, molecule_of_label].astype(np.float64)


def resolve_metrics(kind: str, default: Sequence[str], requested: Sequence[str]) -> tuple[str, ...]:
    """The metrics of a run: the requested ones, or the task's defaults.

    Raises:
        UsageError: one that does not exist or does not apply to targets of this kind.
    """
    applicable = [name for name, metric in METRICS.items() if kind in metric.task_kinds]
    for name in requested:
        if name not in METRICS:
            raise UsageError(unknown_choice("metric", name, METRICS))
        if name not in applicable:
            raise UsageError(
                f"the metric {name!r} does not apply to {kind} targets: choose among {', '.join(applicable)}"
            )
    return tuple(dict.fromkeys(requested)) or tuple(default)


def check_tracking_metric(kind: str, names: Sequence[str], requested: str) -> None:
    """Raise UsageError unless the tracking metric is one of `LOSSES`, or of the reported metrics `names`."""
    if requested not in (*LOSSES, *names):
        choices = f"choose among {', '.join((*LOSSES, *names))}"
        if requested not in METRICS or kind not in METRICS[requested].task_kinds:
            raise UsageError(f"the tracking metric {requested!r} does not apply to {kind} targets: {choices}")
        raise UsageError(f"the tracking metric {requested!r} is not reported: add --metric {requested}, or {choices}")


def why_undefined(name: str, kind: str, targets: np.ndarray) -> str:
    """Why a metric is undefined for every target, even for perfect predictions; empty if it is defined for one.

    Shapes: targets (n, T), NaN where the label is missing.
    """
    reasons = []
    for y in targets.T:
        perfect = np.eye(int(np.nanmax(y, initial=0)) + 1)[np.nan_to_num(y).astype(int)] if kind == "multiclass" else y
        measured = compute_metrics(y, perfect, (name,))
        if measured[name] is not None:
            return ""
        reasons.append(measured["why"][name])
    return ", ".join(dict.fromkeys(reasons))


def label_of(name: str) -> str:
    """The name of a tracking metric in a sentence: "loss", or the label of a metric."""
    return "loss" if name in LOSSES else METRICS[name].label


def tracked_label(name: str) -> str:
    """The name of a tracking metric with its molecules, such as "validation loss"."""
    return f"{'training' if name == TRAIN_LOSS else 'validation'} {label_of(name)}"


_REGRESSION, _BINARY, _CLASSIFICATION = ("regression",), ("binary",), ("binary", "multiclass")
METRICS: dict[str, Metric] = {
    "rmse": _metric("RMSE", _REGRESSION, False, functions.rmse, has_unit=True),
    "mae": _metric("MAE", _REGRESSION, False, functions.mae, has_unit=True),
    "r2": _metric("R2", _REGRESSION, True, functions.r2, functions.check_varying_labels),
    "spearman": _metric("Spearman", _REGRESSION, True, functions.spearman, functions.check_varying),
    "auroc": _metric("AUROC", _CLASSIFICATION, True, functions.auroc, functions.check_two_classes),
    "auprc": _metric("AUPRC", _BINARY, True, functions.auprc, functions.check_two_classes),
    "mcc": _metric("MCC", _CLASSIFICATION, True, functions.mcc, functions.check_two_classes),
    "accuracy": _metric("accuracy", _CLASSIFICATION, True, functions.accuracy),
    "f1": _metric("F1", _CLASSIFICATION, True, functions.f1, functions.check_any_positive),
}
"""The metrics by name."""
