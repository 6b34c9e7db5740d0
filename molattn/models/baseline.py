"""Descriptions of the baseline, a constant prediction, by the transforms of the targets."""

from collections.abc import Sequence

from molattn.data.tables.columns import format_names
from molattn.models.names import LOG1P, LOG10, NEG_LOG10_MOLAR, RANK
from molattn.models.target_transform import Transforms
from molattn.models.task import Task

_GEOMETRIC = ("the geometric mean of the training targets", "the geometric training mean")

# For each transform f, what f^-1 of the mean of f(y) is, and its label.
_TRANSFORMED = {
    LOG10: _GEOMETRIC,
    NEG_LOG10_MOLAR: _GEOMETRIC,
    LOG1P: ("the mean of log(1 + y) of the training targets y, transformed back", "the training mean of log(1 + y)"),
    RANK: ("the mean of the normal scores of the training targets, transformed back", "the mean training rank"),
}


def describe_baseline(task: Task, targets: Sequence[str], transforms: Transforms) -> str:
    """What the baseline predicts, a phrase that names the targets where it differs between them.

    Args:
        task: of the targets.
        targets: their names.
        transforms: of each target, None for none; empty if no target has one.
    """
    by_text: dict[str, list[str]] = {}
    for target, f in zip(targets, transforms, strict=False):
        by_text.setdefault(task.baseline if f is None else _TRANSFORMED[f.name][0], []).append(target)
    if len(by_text) < 2:
        return next(iter(by_text), task.baseline)
    return "; ".join(f"of {format_names(names)} {text}" for text, names in by_text.items())


def baseline_labels(task: Task, targets: Sequence[str], transforms: Transforms) -> dict[str, str]:
    """A short description of what the baseline predicts for each target, by its name; arguments as above."""
    labels = dict.fromkeys(targets, task.baseline_label)
    return labels | {t: _TRANSFORMED[f.name][1] for t, f in zip(targets, transforms, strict=False) if f is not None}
