"""What is off with the data of a run: replicates, salts, targets, classes and splits, before a model is trained."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from molattn.data import ALL_SPLIT_LABELS
from molattn.models.tasks import Regression
from molattn.training.dataset import PreparedDataset
from molattn.training.findings import Finding
from molattn.training.label_checks import check_classes, check_labels, check_ranges, check_splits
from molattn.training.molecule_checks import check_fragments, check_replicates, check_sizes, check_standardized


@dataclass(frozen=True)
class Curation:
    """What was found in the data of a run.

    Attributes:
        dataset: what was looked at.
        findings: in the order of the checks.
    """

    dataset: PreparedDataset
    findings: tuple[Finding, ...]

    def summary(self, limit: int = 5) -> list[str]:
        """Up to `limit` lines on what needs attention, for a terminal, without the warnings of the data set itself."""
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
            "left_out": len(data.rejected),
            "task": data.task.name,
            "targets": list(data.config.target_columns),
            "split": {label: of_label[label] for label in ALL_SPLIT_LABELS if label in of_label},
            "findings": [
                {"check": f.check, "needs_attention": f.needs_attention, "message": f.message, **f.details}
                for f in self.findings
            ],
        }


def curate(dataset: PreparedDataset, standardize: bool = False, num_workers: int = 0) -> Curation:
    """Look at the data of a run.

    Args:
        dataset: as training reads it.
        standardize: whether to count, by standardising up to 2,000 molecules, how many `--standardize
            parent` would change, which takes seconds.
        num_workers: processes that standardise.
    """
    keys = dataset.molecules.keys
    found = [
        *(Finding("reading", message) for message in dataset.warnings),
        *check_replicates(dataset, keys),
        *check_fragments(dataset, keys),
        *(check_standardized(dataset, keys, num_workers) if standardize and not dataset.config.standardize else ()),
        *check_sizes(dataset),
        *(check_ranges(dataset) if isinstance(dataset.task, Regression) else check_classes(dataset)),
        *check_labels(dataset),
        *check_splits(dataset),
    ]
    return Curation(dataset, tuple(found))
