"""Further entries of a run's `metrics.json`: confidence intervals, and the metrics of transformed targets."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from molattn.models.predictions import Predictions
from molattn.training.bootstrap import interval_by_target
from molattn.training.dataset import PreparedDataset
from molattn.training.run_folder import split_names
from molattn.training.transforms import transformed_metrics


def intervals_of_test(
    dataset: PreparedDataset, answers: Predictions, names: Sequence[str], seed: int
) -> dict[str, dict[str, Any]]:
    """The "test_intervals" entry of `metrics.json`; see `molattn.training.bootstrap.interval_by_target`."""
    test = dataset.indices("test")
    rows, owners = dataset.targets_of(test), np.array(dataset.molecules[test].keys, dtype=object)
    if dataset.offsets is not None:
        owners = np.repeat(owners, np.diff(dataset.offsets)[test])
    targets = dataset.config.target_columns
    return interval_by_target(dataset.task, targets, dataset.targets[rows], answers[rows], names, owners, seed)


def transformed_by_split(dataset: PreparedDataset, raw: Predictions, names: Sequence[str]) -> dict[str, Any]:
    """The "transformed" entry of `metrics.json`: the metrics of the transformed targets; empty without transforms."""
    if not any(dataset.transforms):
        return {}
    rows_of = {split: dataset.targets_of(dataset.indices(split)) for split in split_names(dataset)}
    of_model = dataset.task, dataset.config.target_columns, dataset.units, dataset.transforms
    measured = {s: transformed_metrics(*of_model, dataset.targets[r], raw[r], names) for s, r in rows_of.items()}
    return {"transformed": measured}
