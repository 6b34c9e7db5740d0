"""Parts of linear layers and normalizations whose calls a fused operation can replace."""

from torch import Tensor, nn

from molattn.attention import linear
from molattn.attention.unmodified import are_unmodified


def has_bias(layer: nn.Module) -> bool:
    """Whether an unmodified `torch.nn.Linear` or `LayerNorm` has a bias; a `LayerNorm` with one also has a weight."""
    return layer._parameters.get("bias", layer) is not None


def apply_linear(layer: nn.Module, x: Tensor) -> Tensor:
    """layer(x), computed by the faster `molattn.attention.linear` if the layer is an unmodified `torch.nn.Linear`."""
    return linear(x, layer.weight, layer.bias) if are_unmodified(nn.Linear, layer) else layer(x)  # pyright: ignore[reportArgumentType]
