"""Checks of the data of a run before training: replicates, salts, targets, classes and splits."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from molattn.data import ALL_SPLIT_LABELS
from molattn.models.tasks import Regression
from molattn.training.dataset import PreparedDataset
from molattn.training.findings import Finding
from molattn.training.label_checks import check_classes, check_labels, check_ranges, check_splits
from molattn.training.molecule_checks import check_fragments, check_replicates, check_sizes, check_standardized

_NAMED_FILE = re.compile(r"[,;] see \w+\.csv")


@dataclass(frozen=True)
class Curation:
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
        return [*lines, f"check of the data: {more} more in curation.json"] if more > 0 else lines

    def to_dict(self) -> dict[str, Any]:
        """The content of `curation.json`."""
        data = self.dataset
        labels, counts = np.unique(data.split_labels[data.rows], return_counts=True)
        of_label = dict(zip(labels.tolist(), counts.tolist(), strict=True))
        return {
            "rows": len(data.smiles),
            "used": len(data.rows),
            "merged": len(data.merged_rows),
            "left_out": len(data.rejected),
            "task": data.task.name,
            "targets": list(data.config.target_columns),
            "split": {label: of_label[label] for label in ALL_SPLIT_LABELS if label in of_label},
            "findings": [
                {"check": f.check, "needs_attention": f.needs_attention, "message": f.message, **f.details}
                for f in self.findings
            ],
        }


def curate(dataset: PreparedDataset, in_run: bool = True, num_workers: int = 0) -> Curation:
    """Check the data of a run.

    Args:
        dataset: as training reads it.
        in_run: whether a training follows; messages then name files of its run folder. If not, up to 2,000 molecules
            are standardised to count those that `--standardize parent` would change, which takes seconds.
        num_workers: processes that standardise.
    """
    keys = dataset.molecules.keys
    # Overflow near the limits of float64 must not stop a training here.
    with np.errstate(over="ignore", invalid="ignore"):
        found = _find(dataset, keys, in_run, num_workers)
    return Curation(dataset, tuple(found))


def _find(dataset: PreparedDataset, keys: list[str], in_run: bool, num_workers: int) -> list[Finding]:
    warnings = dataset.warnings if in_run else [_NAMED_FILE.sub("", message) for message in dataset.warnings]
    return [
        *(Finding("reading", message) for message in warnings),
        *check_replicates(dataset, keys),
        *check_fragments(dataset, keys),
        *(check_standardized(dataset, keys, num_workers) if not (in_run or dataset.config.standardize) else ()),
        *check_sizes(dataset),
        *(check_ranges(dataset) if isinstance(dataset.task, Regression) else check_classes(dataset)),
        *check_labels(dataset),
        *check_splits(dataset),
    ]
