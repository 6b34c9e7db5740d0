"""The task of a run: configured, or inferred from the targets, with a message on what was inferred."""

from collections.abc import Sequence

import numpy as np

from molattn.data.tables.cells import format_bound, has_bounds
from molattn.errors import UsageError, unknown_choice
from molattn.models.loss_functions import DEFAULT_ALPHA
from molattn.models.losses import BOUNDED_LOSSES, LOSSES, losses_of
from molattn.models.names import ATOM_PREFIX
from molattn.models.task import Task
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.training.class_names import abbreviate, describe_binary_classes, hold_or_holds


def resolve_task(
    task_type: str,
    loss: str,
    targets: np.ndarray,
    names: Sequence[str],
    classes: tuple[tuple[str, ...], ...],
    atom_level: bool = False,
    alpha: float = Regression.alpha,
    bounds: np.ndarray | None = None,
) -> tuple[Task, str]:
    """The task of a run, and a message on what was inferred and how to override it; empty if it was configured.

    Targets are binary if all known values are 0 or 1 and some target has both; other numbers are regression targets,
    however few different ones there are.

    Args:
        task_type: from the user or the data set's card; empty to infer it.
        loss: the configured loss; the task's default when empty.
        targets: (n, T), NaN where missing.
        names: of the targets.
        classes: names of the classes of each target; empty for numbers.
        atom_level: whether the targets are atom-level.
        alpha: of the loss "quantile".
        bounds: (n, T, 2) of censored targets, NaN where there is none, or None. With bounds, the default loss reads
            them.

    Raises:
        InputError: the targets do not match the task type.
        UsageError: there is no such loss, or it is for another task.
    """
    kind = task_type.removeprefix(ATOM_PREFIX) or _infer_kind(targets, classes, bounds is not None)
    default = BOUNDED_LOSSES[0] if bounds is not None and kind == Regression.kind else ""
    task = _create_task(kind, loss or default, classes, atom_level, alpha)
    task.check(targets, names)
    if kind == "binary" and classes:
        return task, f"{'' if task_type else f'task: {task.name}, '}{describe_binary_classes(names, classes)}"
    if bounds is not None:
        message = f"{'' if task_type else f'task: {task.name}, '}{_describe_bounds(names, targets, bounds)}"
        return task, f"{message}: the loss is {task.loss}{'' if loss else '; --loss-function overrides it'}"
    if task_type:
        return task, ""
    what = names[0] if len(names) == 1 else f"{len(names)} targets"
    holds = f"{what} {hold_or_holds(names)}{' lists of' if atom_level else ''}"
    other = "--task-type overrides it"
    if kind == "multiclass":
        return task, f"task: {task.name}, {holds} words: {abbreviate(classes[0])}; {other}"
    if kind == "binary":
        return task, f"task: {task.name}, {holds} only 0 and 1; {other}"
    labels = targets[np.isfinite(targets)]
    values = np.unique(labels)
    if 2 <= len(values) <= 10 and not (values % 1).any() and len(labels) >= 10 * len(values):
        listed = ", ".join(f"{v:g}" for v in values)
        instead = f"if they are classes, add --task-type {ATOM_PREFIX if atom_level else ''}multiclass"
        return task, f"task: {task.name}, {holds} the numbers {listed}; {instead}"
    return task, f"task: {task.name}, {holds} numbers; {other}"


def constant_targets(targets: np.ndarray, names: Sequence[str], bounds: np.ndarray | None = None) -> list[str]:
    """The names of the targets, (n, T), whose training labels are all equal: nothing else can be learned.

    bounds: (n, T, 2) of censored targets, NaN where there is none, or None; a target with a bound is not constant.
    """
    labels = [column[np.isfinite(column)] for column in targets.T]
    bounded = np.zeros(len(names), bool) if bounds is None else np.any(has_bounds(bounds), axis=0)
    known = zip(names, labels, bounded.tolist(), strict=True)
    return [name for name, y, has_bound in known if len(y) and not has_bound and not (y != y[0]).any()]


def _describe_bounds(names: Sequence[str], targets: np.ndarray, bounds: np.ndarray) -> str:
    """How many of the targets are bounds, and the first of them."""
    found = has_bounds(bounds)
    first = format_bound(*bounds[tuple(np.argwhere(found)[0])]).removesuffix(".0")
    what = names[0] if len(names) == 1 else f"{len(names)} targets"
    total = int(found.sum() + np.isfinite(targets).sum())
    return f"{what} {hold_or_holds(names)} numbers, and {int(found.sum()):,} of {total:,} are bounds such as {first}"


def _infer_kind(targets: np.ndarray, classes: tuple[tuple[str, ...], ...], bounded: bool) -> str:
    if bounded:
        return Regression.kind
    if classes:
        return "binary" if all(len(names) == 2 for names in classes) else "multiclass"
    found = [set(np.unique(column[np.isfinite(column)]).tolist()) for column in targets.T]
    binary = all(values <= {0.0, 1.0} for values in found) and any(len(values) == 2 for values in found)
    return "binary" if binary else "regression"


def _create_task(kind: str, loss: str, classes: tuple[tuple[str, ...], ...], atom_level: bool, alpha: float) -> Task:
    losses = losses_of(kind)
    loss = loss or losses[0]
    if loss not in losses:
        if loss not in LOSSES:
            raise UsageError(unknown_choice("loss", loss, LOSSES))
        other_kind = LOSSES[loss].task_kinds[0]
        raise UsageError(
            f"the loss {loss!r} is for {other_kind} targets, and these are {kind}: choose {' or '.join(losses)}, or "
            f"add --task-type {ATOM_PREFIX if atom_level else ''}{other_kind}"
        )
    if kind == Multiclass.kind:
        return Multiclass(loss, classes, atom_level)
    if kind == Binary.kind:
        return Binary(loss, atom_level, classes)
    return Regression(loss, atom_level, alpha if LOSSES[loss].has_quantiles else DEFAULT_ALPHA)
