"""Heads: cutting channels into heads, and joining what the heads bring back."""

from jaxtyping import Float
from torch import Tensor, nn


def split_heads(x: Float[Tensor, "*b n hd"], num_heads: int) -> Float[Tensor, "*b h n d"]:
    """(..., n, h * d) -> (..., h, n, d)."""
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


def merge_heads(x: Float[Tensor, "*b h n d"]) -> Float[Tensor, "*b n h*d"]:
    """(..., h, n, d) -> (..., n, h * d), the inverse of `split_heads`."""
    return x.transpose(-3, -2).flatten(-2)


class ConcatHeads(nn.Module):
    """Heads joined by concatenation and a linear map.

    o_l = sum_jh x_jh w_jhl + b_l        (equation 14.9's weight tensor w_jhl)

    Shapes: (..., h * d) -> (..., out_dim), the heads' features side by side.
    """

    def __init__(self, num_heads: int, head_dim: int, out_dim: int, bias: bool = True):
        super().__init__()
        self.linear = nn.Linear(num_heads * head_dim, out_dim, bias=bias)

    def forward(self, x: Float[Tensor, "*n hd"]) -> Float[Tensor, "*n out"]:
        return self.linear(x)
