"""Learning rates of the parts of a model, and parts that are frozen: `training.rate_factors`."""

import math
from collections.abc import Sequence

from torch import nn

from molattn.errors import UsageError, short_repr, unknown_choice

ALL = "*"


def rate_factors(model: nn.Module, settings: Sequence[str]) -> dict[str, float]:
    """The factor on the learning rate of each parameter of a model, by its name; 0 freezes it.

    >>> model = nn.ModuleDict({"body": nn.Linear(2, 3), "head": nn.Linear(3, 1)})
    >>> rate_factors(model, ["*=0", "head=10", "head.bias=1"])
    {'body.weight': 0.0, 'body.bias': 0.0, 'head.weight': 10.0, 'head.bias': 1.0}

    Args:
        model: whose parameters and modules are named.
        settings: "NAME=FACTOR", with the name of a parameter, of a module or "*" for all; the last that fits a
            parameter counts, and a parameter that none fits has the factor 1.

    Raises:
        UsageError: another form, a name that fits no parameter, a factor that is negative or not finite, or no
            parameter that is not frozen.
    """
    factors = {name: 1.0 for name, _ in model.named_parameters()}
    for setting in settings:
        part, _, text = setting.rpartition("=")
        try:
            factor = float(text)
        except ValueError:
            factor = math.nan
        part = part.strip()
        if not part or not 0 <= factor < math.inf:
            raise UsageError(
                f"training.rate_factors holds {short_repr(setting)}: write NAME=FACTOR with a factor of 0 or more, for "
                "example head=10"
            )
        found = [name for name in factors if part in (ALL, name) or name.startswith(f"{part}.")]
        if not found:
            raise UsageError(f"training.rate_factors: {unknown_choice('part of the model', part, _parts(model))}")
        factors |= dict.fromkeys(found, factor)
    if settings and not any(factors.values()):
        raise UsageError("training.rate_factors freezes the whole model: leave a part out")
    return factors


def _parts(model: nn.Module) -> list[str]:
    """The names of the parts of a model, and of the parts of a list of them, that have parameters."""
    parts: dict[str, None] = {}
    for name, _ in model.named_parameters():
        first, *others = name.split(".")
        is_list = isinstance(getattr(model, first), nn.ModuleList)
        parts[f"{first}.{others[0]}" if is_list else first] = None
    return [*parts]
