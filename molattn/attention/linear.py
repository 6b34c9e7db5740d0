"""A linear layer that takes the faster of torch's two matrix libraries."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from molattn.kernels.tensor_checks import is_transformed

# Below so many multiplications, setting oneDNN up costs more than it saves.
_SMALL = 2**20
_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def linear(
    x: Float[Tensor, "*rows i"], weight: Float[Tensor, "o i"], bias: Float[Tensor, "o"] | None = None
) -> Float[Tensor, "*rows o"]:
    """`torch.nn.functional.linear`, the same numbers to rounding, by oneDNN where torch has it and it pays.

    y = x W^T + b

    For float32 on the CPU torch calls MKL, which keeps to AVX2 on AMD processors; oneDNN uses AVX-512 wherever there
    is one, and is twice as fast there. Elsewhere the two are alike. Everything but large float32 products on the CPU
    (other devices and types, autocast, a compiler or `torch.func` at work) is torch's own function.
    """
    if not _pays(x, weight):
        return F.linear(x, weight, bias)
    x = x.contiguous() if 0 in x.stride() else x
    return _OneDNNLinear.apply(x.flatten(0, -2), weight, bias).unflatten(0, x.shape[:-1])


def _pays(x: Tensor, weight: Tensor) -> bool:
    return (
        x.dim() > 1
        and x.numel() * weight.shape[0] >= _SMALL
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
        and _HAS_ONEDNN
        and bool(torch.backends.mkldnn.enabled)
        and not is_transformed(x, weight)
    )


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b of matrices, by oneDNN."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _OneDNNLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # pyright: ignore
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)

    @staticmethod
    def backward(ctx, dy: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        # The gradient of a plain sum is one number, expanded; oneDNN goes through such strides a hundred times slower.
        dy = dy.contiguous() if 0 in dy.stride() else dy
        of_x, of_weight, of_bias = ctx.needs_input_grad
        # Where a gradient of the gradient may be asked for, operations that have one.
        product = F.linear if torch.is_grad_enabled() else _product
        dx = product(dy, weight.t()) if of_x else None
        dw = product(x.t(), dy.t()).t() if of_weight else None
        return dx, dw, dy.sum(0) if of_bias else None
