"""The weights of the targets in the loss: `training.task_weights`."""

import math
from collections.abc import Sequence

from molattn.data.tables.units import find_without_unit
from molattn.errors import UsageError, short_repr, unknown_choice


def task_weights(settings: Sequence[float | str], names: Sequence[str]) -> tuple[float, ...]:
    """The weight of each target, (T,); empty if all are 1.

    >>> task_weights([1.0, 2.5], ["logS", "logD"]), task_weights(["logD=2.5"], ["logS", "logD"])
    ((1.0, 2.5), (1.0, 2.5))

    Args:
        settings: a number for each target, in their order, or "NAME=NUMBER" for some of them; the others weigh 1.
        names: of the T targets.

    Raises:
        UsageError: another number of weights, a target that does not exist or has two, or a weight that is not a
            positive number.
    """
    named = [str(s) for s in settings if "=" in str(s)]
    if len(named) not in (0, len(settings)):
        raise UsageError("--task-weights mixes numbers and NAME=NUMBER: give only one of the two forms")
    if not named:
        if len(settings) not in (0, len(names)):
            given = f"{len(settings)} number{'s' * (len(settings) > 1)}"
            raise UsageError(
                f"--task-weights holds {given} for {len(names)} target{'s' * (len(names) > 1)}: give one for each, in "
                "their order, or NAME=NUMBER"
            )
        weights = [_number(s) for s in settings]
        return () if all(w == 1 for w in weights) else tuple(weights)
    found: dict[str, float] = {}
    for setting in named:
        name, _, number = setting.rpartition("=")
        name = find_without_unit(names, name.strip())
        if name not in names:
            raise UsageError(f"--task-weights {short_repr(setting)}: {unknown_choice('target', name, names)}")
        if name in found:
            raise UsageError(f"--task-weights gives {short_repr(name)} two weights: give it one")
        found[name] = _number(number)
    return task_weights([found.get(name, 1.0) for name in names], names)


def _number(text: float | str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight < math.inf:
        raise UsageError(f"--task-weights holds {short_repr(text)}: a weight is a number above 0")
    return weight
