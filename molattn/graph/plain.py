"""Whether modules do what their classes do and nothing else, so that one fused operation can replace their calls."""

from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from molattn.attention import linear

# The hooks of all modules: torch changes these dictionaries in place.
_GLOBAL_HOOKS = (
    torch_module._global_forward_hooks,
    torch_module._global_forward_pre_hooks,
    torch_module._global_backward_hooks,
    torch_module._global_backward_pre_hooks,
)


def are_plain(kind: type[nn.Module], *modules: nn.Module | None) -> bool:
    """Whether calling each module does exactly what `kind` does; None, a part that is absent, counts as plain.

    It is not so for a subclass or another class, such as the adapters of LoRA, nor with a hook or a replaced `forward`.
    """
    for module in modules:
        if module is not None and (type(module) is not kind or has_hooks(module)):
            return False
    return not any(_GLOBAL_HOOKS)


def has_hooks(module: nn.Module) -> bool:
    """Whether calling the module runs more than, or other than, the `forward` of its class."""
    own = module.__dict__  # `getattr` of a module takes several times as long
    return bool(
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or "forward" in own
    )


def has_bias(layer: nn.Module) -> bool:
    """Whether a plain `torch.nn.Linear` or `LayerNorm` has a bias; a `LayerNorm` that has one has a weight, too."""
    return layer._parameters.get("bias", layer) is not None


def apply_linear(layer: nn.Module, x: Tensor) -> Tensor:
    """layer(x), by the faster `molattn.attention.linear` if the layer is exactly a `torch.nn.Linear`."""
    return linear(x, layer.weight, layer.bias) if are_plain(nn.Linear, layer) else layer(x)  # pyright: ignore[reportArgumentType]
