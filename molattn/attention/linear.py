"""A linear map that uses the faster of torch's two CPU matrix libraries."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from molattn.kernels.operations import tracing_reason

# Below this number of multiplications, the overhead of oneDNN outweighs its speed.
_MIN_MULTIPLICATIONS = 2**20
_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def linear(
    x: Float[Tensor, "*rows i"], weight: Float[Tensor, "o i"], bias: Float[Tensor, "o"] | None = None
) -> Float[Tensor, "*rows o"]:
    """`torch.nn.functional.linear` up to rounding, computed by oneDNN if available and faster.

    y = x W^T + b

    For float32 on the CPU torch calls MKL, which uses only AVX2 on AMD processors; oneDNN uses AVX-512 on any processor
    that has it, and is twice as fast there. Otherwise both are equally fast. Only large float32 products on the CPU use
    oneDNN; all else (other devices and dtypes, autocast, torch.compile, `torch.func`) calls torch's own function.

    Args:
        x: (..., i).
        weight: W, (o, i).
        bias: b, (o,); none by default.

    Returns:
        (..., o).

    >>> import torch
    >>> from molattn.attention import linear
    >>> x, weight, bias = torch.randn(7, 3), torch.randn(5, 3), torch.randn(5)
    >>> torch.allclose(linear(x, weight, bias), torch.nn.functional.linear(x, weight, bias), atol=1e-5)
    True
    """
    if not _use_onednn(x, weight, bias):
        return F.linear(x, weight, bias)
    x = x.contiguous() if 0 in x.stride() else x
    return _OneDNNLinear.apply(x.flatten(0, -2), weight, bias).unflatten(0, x.shape[:-1])


def _use_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    return (
        # First: torch.export would make a guard of the comparison of sizes below, and torch.jit.trace a tensor.
        not tracing_reason(x, weight, bias)
        and x.dim() > 1
        and x.numel() * weight.shape[0] >= _MIN_MULTIPLICATIONS
        and x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and _HAS_ONEDNN
        and bool(torch.backends.mkldnn.enabled)
    )


def _onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b of matrices, by oneDNN."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


class _OneDNNLinear(torch.autograd.Function):
    """`_onednn_linear` with its gradient, which is also computed by oneDNN; x (rows, i)."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # pyright: ignore
        ctx.save_for_backward(x, weight)
        return _onednn_linear(x, weight, bias)

    @staticmethod
    def backward(ctx, dy: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        x, weight = ctx.saved_tensors
        # The gradient of a sum is an expanded scalar with strides of 0, with which oneDNN is a hundred times slower.
        dy = dy.contiguous() if 0 in dy.stride() else dy
        need_x, need_weight, need_bias = ctx.needs_input_grad
        # With create_graph=True, the operation must be differentiable itself.
        matmul = F.linear if torch.is_grad_enabled() else _onednn_linear
        dx = matmul(dy, weight.t()) if need_x else None
        dw = matmul(x.t(), dy.t()).t() if need_weight else None
        return dx, dw, dy.sum(0) if need_bias else None
