"""Whether modules have no hooks and no replaced `forward`, so that a fused operation can replace their calls."""

from torch import nn
from torch.nn.modules import module as torch_module

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


def has_hooks(module: nn.Module) -> bool:
    """Whether the module has a hook, or a `forward` that replaces that of its class."""
    attributes = module.__dict__  # `getattr` of a module takes several times as long
    return bool(
        attributes["_forward_hooks"]
        or attributes["_forward_pre_hooks"]
        or attributes["_backward_hooks"]
        or attributes["_backward_pre_hooks"]
        or "forward" in attributes
    )
