"""The target transforms of the settings: which target each applies to, and rows for which one is undefined."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from molattn.data import Records, Table
from molattn.data.tables.units import find_without_unit
from molattn.errors import UsageError, short_repr, unknown_choice
from molattn.models.names import AUTO_TRANSFORM, NEG_LOG10_MOLAR, NO_TRANSFORM, TRANSFORM_CHOICES
from molattn.models.predictions import Predictions
from molattn.models.target_transform import (
    MOLAR,
    TargetTransform,
    Transforms,
    parse_molar,
    transform_targets,
)
from molattn.models.task import Task
from molattn.models.tasks import Regression
from molattn.training.data_messages import count_noun, no_row_error
from molattn.training.labels import MatchedLabels
from molattn.training.metrics import metrics_by_target
from molattn.training.skewed_targets import recognize_transform

_UNRESOLVED = (AUTO_TRANSFORM, NO_TRANSFORM)
"""Settings for which a target has no transform before `fit_transforms`."""


def resolve_transforms(settings: Sequence[str], names: Sequence[str], units: Sequence[str], task: Task) -> Transforms:
    """The transform of each target, None for none and for "auto"; empty if no target can have one.

    Args:
        settings: `data.target_transform`: "log10" for all targets, or "name=log10" for one of them.
        names, units: of the targets, units empty where unknown.
        task: of the targets.

    Raises:
        UsageError: a transform or target that does not exist, two for one target, targets that are not numbers of
            molecules, or a unit that is needed and not known.
    """
    chosen = _chosen_transforms(settings, names, task)
    if not chosen:
        return ()
    found = [
        None if chosen.get(name, NO_TRANSFORM) in _UNRESOLVED else _transform(chosen[name], name, unit)
        for name, unit in zip(names, units, strict=True)
    ]
    return tuple(found)


def _chosen_transforms(settings: Sequence[str], names: Sequence[str], task: Task) -> dict[str, str]:
    """The setting of each target that has one, by its name; UsageError as for `resolve_transforms`."""
    check_transforms(settings)
    chosen: dict[str, str] = {}
    for setting in settings:
        target, equals, transform = setting.rpartition("=")
        target = find_without_unit(names, target)
        if equals and target not in names:
            raise UsageError(f"--target-transform {setting}: {unknown_choice('target', target, names)}")
        for name in (target,) if equals else names:
            if name in chosen:
                raise UsageError(f"--target-transform gives {short_repr(name)} two transforms: give it one")
            chosen[name] = transform.strip()
    if isinstance(task, Regression) and not task.atom_level:
        return chosen
    if any(transform not in _UNRESOLVED for transform in chosen.values()):
        raise UsageError(
            f"--target-transform applies only to molecule-level regression, and the task is {task.name}: leave it out, "
            "or add --task-type regression"
        )
    return {}


def check_transforms(settings: Sequence[str]) -> None:
    """Raise UsageError for a transform that does not exist, before any table is read."""
    for setting in settings:
        text = setting.rpartition("=")[2].strip()
        kind, _, given = text.partition(":")
        if kind not in TRANSFORM_CHOICES or (given and kind != NEG_LOG10_MOLAR):
            raise UsageError(unknown_choice("target transform", text, TRANSFORM_CHOICES))


def _transform(text: str, name: str, unit: str) -> TargetTransform:
    kind, _, given = text.partition(":")
    if kind != NEG_LOG10_MOLAR:
        return TargetTransform(kind)
    molar = parse_molar(given or unit)
    if molar:
        return TargetTransform(kind, molar)
    what = f"is in {short_repr(given or unit)}" if given or unit else "has no known unit"
    raise UsageError(
        f"--target-transform {kind}: column {short_repr(name)} {what}, and a concentration is needed, one of "
        f"{', '.join(MOLAR)}: write {kind}:nM if it is in nM"
    )


@dataclass(frozen=True)
class FittedTransforms:
    """The transforms of the targets, fitted to the training targets.

    Attributes:
        transforms: of each target, None for none; empty if no target has one.
        reasons: for each target for which the setting "auto" selects log10, the reason, a phrase.
    """

    transforms: Transforms = ()
    reasons: tuple[str, ...] = ()


def fit_transforms(
    transforms: Transforms,
    settings: Sequence[str],
    names: Sequence[str],
    task: Task,
    targets: np.ndarray,
    train: np.ndarray,
    bounds: np.ndarray | None = None,
) -> FittedTransforms:
    """The transforms, fitted to the training targets; for "auto", selected by `recognize_transform`.

    Args:
        transforms: of `resolve_transforms`, with the same settings, names and task.
        settings: `data.target_transform`.
        names: of the targets.
        task: of the targets.
        targets: (n, T) of all rows, NaN where missing.
        train: (n,) of booleans, or indices: the training rows.
        bounds: (n, T, 2) of all rows, NaN where there is none; None if no target is a bound.
    """
    chosen = _chosen_transforms(settings, names, task)
    fitted: list[TargetTransform | None] = []
    reasons = []
    for t, (name, f) in enumerate(zip(names, transforms, strict=False)):
        if chosen.get(name) == AUTO_TRANSFORM:
            labels = targets[:, t] if bounds is None else np.hstack([targets[:, t], bounds[:, t].ravel()])
            f, reason = recognize_transform(targets[train, t], labels)
            if f is not None:
                reasons.append(f"{name}: {reason}, so the model learns log10 of {name}")
        fitted.append(f and f.fit(targets[train, t]))
    return FittedTransforms(tuple(fitted) if any(fitted) else (), tuple(reasons))


def describe_recognized(reasons: Sequence[str]) -> list[str]:
    """The `FittedTransforms.reasons` as messages, those of the first three targets and a count of the others."""
    if len(reasons) <= 3:
        return list(reasons)
    count = count_noun(len(reasons) - 3, "more target", "more targets")
    return [*reasons[:3], f"and log10 of {count}"]


def undefined_target(transforms: Transforms, targets: Sequence[float], names: Sequence[str]) -> str:
    """Why the transform of one of the T targets of a row is undefined, with its column; empty if all are defined."""
    for f, y, name in zip(transforms, targets, names, strict=False):
        if f is not None and np.isfinite(y) and (reason := f.undefined(float(y))):
            return f"column {short_repr(name)}: {reason}"
    return ""


def reject_undefined(
    matched: MatchedLabels,
    transforms: Transforms,
    names: Sequence[str],
    records: Records,
    table: Table,
) -> MatchedLabels:
    """`matched` without the rows for which a transform is undefined; these are rejected, with the reason.

    Raises:
        InputError: no row is left.
    """
    values = matched.targets
    if matched.bounds is not None:
        values = np.where(np.isfinite(values), values, np.fmax(matched.bounds[..., 0], matched.bounds[..., 1]))
    reasons = [undefined_target(transforms, row, names) for row in values.tolist()] if any(transforms) else []
    if not any(reasons):
        return matched
    rejected = list(matched.rejected)
    for i, reason in zip(matched.indices.tolist(), reasons, strict=True):
        if reason:
            row = int(records.rows[i])
            rejected.append(table.reject(row, records.smiles[i], reason))
    rejected.sort(key=lambda r: r.row)
    kept = np.array([not reason for reason in reasons])
    if not kept.any():
        raise no_row_error(table.source, rejected)
    bounds = None if matched.bounds is None else matched.bounds[kept]
    indices, targets = matched.indices[kept], matched.targets[kept]
    return replace(matched, indices=indices, targets=targets, rejected=rejected, bounds=bounds)


def transformed_metrics(
    task: Task,
    targets: Sequence[str],
    units: Sequence[str],
    transforms: Transforms,
    true: np.ndarray,
    uncalibrated: Predictions,
    names: Sequence[str],
) -> dict[str, dict[str, Any]]:
    """The metrics of the transformed targets, each with its "unit": {target: {metric: value}}.

    Targets without a transform are left out.

    Args:
        task, targets, units, transforms: of the model.
        true: (n, T) in the units of the targets, NaN where missing.
        uncalibrated: the predictions of the transformed targets.
        names: of the metrics.
    """
    if not any(transforms):
        return {}
    measured = metrics_by_target(task, targets, transform_targets(transforms, true), uncalibrated, names)
    return {
        name: {"unit": f.transformed_unit(unit), **measured[name]}
        for f, name, unit in zip(transforms, targets, units, strict=True)
        if f is not None
    }


def describe_transforms(transforms: Transforms, names: Sequence[str], units: Sequence[str]) -> str:
    """A message on what is learned in place of the targets; empty without transforms."""
    learned = [
        f"{name} as {f.transformed_unit(unit)}" for f, name, unit in zip(transforms, names, units, strict=False) if f
    ]
    if not learned:
        return ""
    more = ", ..." if len(learned) > 3 else ""
    return (
        f"learned with a transform: {', '.join(learned[:3])}{more}; losses and validation errors of epochs are in that "
        "unit, predictions and final metrics in the unit of the target"
    )
