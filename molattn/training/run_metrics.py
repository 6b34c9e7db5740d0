"""The metrics of a run, the content of its `metrics.json`: of every split, with intervals, and of uncertainties."""

import math
from collections.abc import Sequence
from typing import Any

from molattn.data import ALL_SPLIT_LABELS, SPLIT_LABELS
from molattn.models.artifact import Artifact
from molattn.models.predictions import Predictions
from molattn.training.dataset import PreparedDataset
from molattn.training.metrics import METRICS, intervals_by_target, mean_over_targets, metrics_by_target
from molattn.training.transforms import transformed_metrics
from molattn.training.uncertainty_metrics import evaluate_uncertainty


def metrics_by_split(
    dataset: PreparedDataset, predictions: Predictions, names: Sequence[str]
) -> dict[str, dict[str, dict[str, Any]]]:
    """The metrics `names` of every split and target: {split: {target: {metric: value, "n": labels}}}.

    With several targets, "mean" holds for every split their mean over the targets where they are defined.
    """
    result = {
        split: metrics_by_target(
            dataset.task,
            dataset.config.target_columns,
            dataset.targets[rows],
            predictions[rows],
            names,
            None if dataset.bounds is None else dataset.bounds[rows],
        )
        for split, rows in _rows_by_split(dataset).items()
    }
    if len(dataset.config.target_columns) == 1:
        return result
    return {**result, "mean": {split: mean_over_targets(by_target, names) for split, by_target in result.items()}}


def _rows_by_split(dataset: PreparedDataset) -> dict[str, Any]:
    """The rows of `targets` of train, val and test, and of the calibration split if there is one."""
    splits = ALL_SPLIT_LABELS if dataset.has_calibration else SPLIT_LABELS
    return {split: dataset.target_rows(dataset.indices(split)) for split in splits}


def intervals_on_test_split(
    dataset: PreparedDataset, predictions: Predictions, names: Sequence[str], seed: int
) -> dict[str, dict[str, Any]]:
    """The "test_intervals" entry of `metrics.json`; see `molattn.training.metrics.intervals_by_target`."""
    test, targets = dataset.indices("test"), dataset.config.target_columns
    rows, offsets = dataset.target_rows(test), dataset.subset("test").offsets
    true, keys = dataset.targets[rows], dataset.molecules[test].canonical_smiles
    return intervals_by_target(dataset.task, targets, true, predictions[rows], names, keys, offsets, seed)


def transformed_metrics_by_split(
    dataset: PreparedDataset, uncalibrated: Predictions, names: Sequence[str]
) -> dict[str, Any]:
    """The "transformed" entry of `metrics.json`: the metrics of the transformed targets; empty without transforms."""
    if not any(dataset.transforms):
        return {}
    described = dataset.task, dataset.config.target_columns, dataset.units, dataset.transforms
    rows_by_split = _rows_by_split(dataset)
    measured = {
        s: transformed_metrics(*described, dataset.targets[r], uncalibrated[r], names) for s, r in rows_by_split.items()
    }
    return {"transformed": measured}


def uncertainty_by_split(dataset: PreparedDataset, artifact: Artifact, uncalibrated: Predictions) -> dict[str, Any]:
    """The "uncertainty" entry of `metrics.json`, from predictions before calibration; empty without uncertainties."""
    rows_by_split = {split: dataset.target_rows(dataset.indices(split)) for split in ("val", "test")}
    found = evaluate_uncertainty(
        artifact, {split: (dataset.targets[rows], uncalibrated[rows]) for split, rows in rows_by_split.items()}
    )
    return {"uncertainty": found} if found else {}


def test_metrics_to_log(metrics: dict[str, Any]) -> dict[str, float]:
    """The test metrics of `metrics.json` for loggers: "test_rmse", of several targets their mean, and "test_rmse/NAME".

    A metric that is undefined is NaN.
    """
    by_target = metrics["test"]
    parts = {"": next(iter(by_target.values()))} if len(by_target) == 1 else {"": metrics["mean"]["test"]}
    if len(by_target) > 1:
        parts |= {f"/{target}": found for target, found in by_target.items()}
    return {
        f"test_{name}{suffix}": math.nan if value is None else float(value)
        for suffix, found in parts.items()
        for name, value in found.items()
        if name in METRICS
    }
