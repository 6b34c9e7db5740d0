"""Checks of the data of a run before training: duplicates, salts, targets, classes and splits."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from molattn.data import ALL_SPLIT_LABELS
from molattn.models.tasks import Regression
from molattn.training.data_checks import (
    check_classes,
    check_duplicates,
    check_fragments,
    check_labels,
    check_ranges,
    check_sizes,
    check_split_sizes,
    check_splits,
    check_standardized,
)
from molattn.training.data_messages import Finding
from molattn.training.dataset import PreparedDataset

_NAMED_FILE = re.compile(r"[,;] see \w+\.csv")


@dataclass(frozen=True)
class DataReport:
    """The findings of all checks of the data of a run.

    Attributes:
        dataset: the data that was checked.
        findings: in the order of the checks.
    """

    dataset: PreparedDataset
    findings: tuple[Finding, ...]

    def summary(self, limit: int = 5) -> list[str]:
        """Up to `limit` lines on what needs attention, for a terminal, without the warnings from reading the data."""
        messages = [f.message for f in self.findings if f.needs_attention and f.check != "reading"]
        lines = [f"check of the data: {message}" for message in messages[:limit]]
        more = len(messages) - limit
        return [*lines, f"check of the data: {more} more in data_report.json"] if more > 0 else lines

    def to_dict(self) -> dict[str, Any]:
        """The content of `data_report.json`."""
        data = self.dataset
        labels, counts = np.unique(data.split_labels[data.rows], return_counts=True)
        sizes = dict(zip(labels.tolist(), counts.tolist(), strict=True))
        return {
            "rows": len(data.smiles),
            "used": len(data.rows) - int((data.split_labels[data.rows] == "").sum()),
            "merged": len(data.merged_rows),
            "rejected": len(data.rejected),
            "task": data.task.name,
            "targets": list(data.config.target_columns),
            "split": {label: sizes[label] for label in ALL_SPLIT_LABELS if label in sizes},
            "findings": [
                {"check": f.check, "needs_attention": f.needs_attention, "message": f.message, **f.details}
                for f in self.findings
            ],
        }


def check_data(dataset: PreparedDataset, before_training: bool = True, num_workers: int = 0) -> DataReport:
    """Check the data of a run.

    Args:
        dataset: as training reads it.
        before_training: whether a training follows; messages then name files of its run folder. If not, up to 2,000
            molecules are standardized to count those that `--standardize parent` would change, which takes seconds.
        num_workers: processes that standardize.
    """
    # Overflow near the limits of float64 must not stop a training here.
    with np.errstate(over="ignore", invalid="ignore"):
        return DataReport(
            dataset, tuple(_find(dataset, dataset.molecules.canonical_smiles, before_training, num_workers))
        )


def _find(dataset: PreparedDataset, keys: list[str], before_training: bool, num_workers: int) -> list[Finding]:
    warnings = dataset.warnings if before_training else [_NAMED_FILE.sub("", message) for message in dataset.warnings]
    skips_standardize = before_training or dataset.config.standardize
    return [
        *(Finding("reading", message) for message in warnings),
        *check_duplicates(dataset, keys),
        *check_fragments(dataset, keys),
        *(() if skips_standardize else check_standardized(dataset, keys, num_workers)),
        *check_sizes(dataset),
        *(check_ranges(dataset) if isinstance(dataset.task, Regression) else check_classes(dataset)),
        *check_labels(dataset),
        *check_split_sizes(dataset),
        *check_splits(dataset),
    ]
