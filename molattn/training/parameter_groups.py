"""Learning rates of the parts of a model, and parts that are frozen: `training.rate_factors` and `training.freeze`."""

import math
from collections.abc import Container, Sequence

from torch import nn

from molattn.errors import UsageError, short_repr, unknown_choice
from molattn.training.config import TrainingConfig

ALL = "*"


def rate_factors(model: nn.Module, settings: Sequence[str]) -> dict[str, float]:
    """The factor on the learning rate of each parameter of a model, by its name; 0 freezes it.

    >>> model = nn.ModuleDict({"body": nn.Linear(2, 3), "head": nn.Linear(3, 1)})
    >>> rate_factors(model, ["*=0", "head=10", "head.bias=1"])
    {'body.weight': 0.0, 'body.bias': 0.0, 'head.weight': 10.0, 'head.bias': 1.0}

    Args:
        model: whose parameters and modules are named.
        settings: "NAME=FACTOR", with the name of a parameter, of a module or "*" for all. The last setting that
            matches a parameter applies; a parameter that no setting matches has the factor 1.

    Raises:
        UsageError: another form, a name that matches no parameter, a factor that is negative or not finite, or factors
            that freeze all parameters.
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
        factors |= dict.fromkeys(_parameters(model, part, "training.rate_factors"), factor)
    if settings and not any(factors.values()):
        raise UsageError("training.rate_factors freezes the whole model: leave a part out")
    return factors


def frozen_parameters(model: nn.Module, parts: Sequence[str]) -> set[str]:
    """The names of the parameters in parts of a model.

    >>> model = nn.ModuleDict({"body": nn.Linear(2, 3), "head": nn.Linear(3, 1)})
    >>> sorted(frozen_parameters(model, ["body"]))
    ['body.bias', 'body.weight']

    Args:
        model: whose parameters and modules are named.
        parts: names of parameters or modules, as for `rate_factors`.

    Raises:
        UsageError: a name that matches no parameter.
    """
    return {name for part in parts for name in _parameters(model, part.strip(), "--freeze")}


def trained_parts(model: nn.Module, config: TrainingConfig) -> tuple[dict[str, float], set[str]]:
    """The factor on the learning rate of each parameter, and those that are frozen for `config.freeze_epochs`.

    A part that is frozen for the whole training has the factor 0.

    Args:
        model: to train.
        config: `rate_factors`, `freeze` and `freeze_epochs`.

    Raises:
        UsageError: a name that matches no parameter, or nothing is left to train.
    """
    factors, frozen = rate_factors(model, config.rate_factors), frozen_parameters(model, config.freeze)
    if factors.keys() == frozen or not any(f for name, f in factors.items() if name not in frozen):
        raise UsageError("training.freeze and training.rate_factors freeze the whole model: leave a part out")
    if config.freeze_epochs:
        return factors, {name for name in frozen if factors[name]}
    return factors | dict.fromkeys(frozen, 0.0), set()


def frozen_norms(model: nn.Module, frozen: Container[str]) -> list[nn.Module]:
    """The norms with running statistics in frozen parts, which stay as they are in evaluation mode.

    A norm without parameters is frozen with the module that it is in.

    Args:
        model: whose modules are searched.
        frozen: names of parameters.
    """
    found = []
    for name, module in model.named_modules():
        if not getattr(module, "track_running_stats", False):
            continue
        owner = name
        while owner and not any(True for _ in model.get_submodule(owner).parameters()):
            owner = owner.rpartition(".")[0]
        prefix = f"{owner}." if owner else ""
        names = [f"{prefix}{parameter}" for parameter, _ in model.get_submodule(owner).named_parameters()]
        if all(n in frozen for n in names):
            found.append(module)
    return found


def _parameters(model: nn.Module, part: str, setting: str) -> list[str]:
    """The names of the parameters in a part; UsageError if there are none."""
    found = [name for name, _ in model.named_parameters() if part in (ALL, name) or name.startswith(f"{part}.")]
    if not found:
        raise UsageError(f"{setting}: {unknown_choice('part of the model', part, _parts(model))}")
    return found


def _parts(model: nn.Module) -> list[str]:
    """The names of the parts of a model that have parameters; of a list of modules also those of its items."""
    parts: dict[str, None] = {}
    for name, _ in model.named_parameters():
        first, *others = name.split(".")
        parts[first] = None
        if isinstance(getattr(model, first), nn.ModuleList):
            parts[f"{first}.{others[0]}"] = None
    return [*parts]
