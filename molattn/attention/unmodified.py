"""Whether modules have no hooks and no replaced `forward`, so that their weights say what their calls compute.

Then a fused operation can replace the calls, and a layer of another library with the same weights the modules.
"""

from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.utils.parametrize import type_before_parametrizations
from torch.nn.utils.weight_norm import WeightNorm

# The hooks that torch runs for every module; torch changes these dictionaries in place.
_GLOBAL_HOOKS = (
    torch_module._global_forward_hooks,
    torch_module._global_forward_pre_hooks,
    torch_module._global_backward_hooks,
    torch_module._global_backward_pre_hooks,
)


def are_unmodified(cls: type[nn.Module], *modules: nn.Module | None) -> bool:
    """Whether calling each module runs the `forward` of `cls` and nothing else; None, an absent module, is ignored.

    False for a module of a subclass or of another class, such as an adapter of LoRA, and for one with a hook or with a
    `forward` of its own.
    """
    for module in modules:
        if module is not None and (type(module) is not cls or has_hooks(module)):
            return False
    return not any(_GLOBAL_HOOKS)


def check_convertible(modules: Mapping[str, Any], *classes: type[nn.Module]) -> None:
    """Checks that a conversion, which reads weights, loses nothing of what calling each module computes.

    Weights that are parametrized or pruned can be read. Hooks of all modules, which run for a converted one too, and an
    absent module, None, are ignored.

    Args:
        modules: the modules by name.
        classes: those a module can be of; not of a subclass of them, such as an adapter of LoRA.

    Raises:
        ValueError: a module is of another class, has a hook or has a `forward` of its own; the message names it.
    """
    from torch.nn.utils.prune import BasePruningMethod  # imported here, because predictions need none of it

    for name, module in modules.items():
        if module is None:
            continue
        if type_before_parametrizations(module) not in classes:
            raise ValueError(f"{name} is a {type(module).__name__}, not a {classes[0].__name__}: that is not supported")
        if has_hooks(module, (BasePruningMethod, WeightNorm)):  # these set a weight, which can be read
            raise ValueError(f"{name} has a hook or a forward of its own: that is not supported")


def has_hooks(module: nn.Module, ignored: tuple[type, ...] = ()) -> bool:
    """Whether the module has a hook, or a `forward` that replaces that of its class.

    Args:
        module: the module.
        ignored: classes of hooks before `forward` that do not count.
    """
    attributes = module.__dict__  # `getattr` of a module takes several times as long
    before = attributes["_forward_pre_hooks"]
    if ignored:
        before = [hook for hook in before.values() if not isinstance(hook, ignored)]
    return bool(
        attributes["_forward_hooks"]
        or before
        or attributes["_backward_hooks"]
        or attributes["_backward_pre_hooks"]
        or "forward" in attributes
    )
