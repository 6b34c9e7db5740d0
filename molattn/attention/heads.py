"""Heads: splitting channels into heads, and joining the outputs of the heads. `JOINS` lists the joins by name.

Every join is a module from the concatenated heads, (..., h * d), as `merge_heads` returns them, to (..., out_dim). A
join that leaves the channels of one head, such as a mean, outputs (..., d) and is also named in `KEEPS_HEAD_DIM`: the
layers give it an out_dim of d.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from molattn.errors import unknown_choice


def split_heads(x: Float[Tensor, "*b n hd"], num_heads: int) -> Float[Tensor, "*b h n d"]:
    """Split channels into heads: (..., n, h * d) -> (..., h, n, d), the inverse of `merge_heads`.

    Args:
        x: (..., n, h * d), head after head.
        num_heads: h.

    >>> import torch
    >>> from molattn.attention import split_heads
    >>> split_heads(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), num_heads=2).tolist()
    [[[1.0, 2.0]], [[3.0, 4.0]]]
    """
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


def merge_heads(x: Float[Tensor, "*b h n d"]) -> Float[Tensor, "*b n h*d"]:
    """Concatenate the channels of heads: (..., h, n, d) -> (..., n, h * d), the inverse of `split_heads`.

    Args:
        x: (..., h, n, d).

    >>> import torch
    >>> from molattn.attention import merge_heads, split_heads
    >>> x = torch.randn(5, 12)
    >>> torch.equal(merge_heads(split_heads(x, num_heads=3)), x)
    True
    """
    return x.transpose(-3, -2).flatten(-2)


class ConcatHeads(nn.Module):
    """Heads joined by concatenation and a linear map.

    o_l = sum_jh x_jh w_jhl + b_l        (w_jhl as in equation 14.9 of the book chapter; see `molattn.graph`)

    Args:
        num_heads, head_dim: h and d.
        out_dim: channels of the output.
        bias: whether there is b_l.

    Shapes: (..., h * d) -> (..., out_dim).

    >>> import torch
    >>> from molattn.attention import ConcatHeads
    >>> tuple(ConcatHeads(num_heads=2, head_dim=3, out_dim=5)(torch.randn(7, 6)).shape)
    (7, 5)
    """

    def __init__(self, num_heads: int, head_dim: int, out_dim: int, bias: bool = True):
        super().__init__()
        self.linear = nn.Linear(num_heads * head_dim, out_dim, bias=bias)

    def forward(self, x: Float[Tensor, "*n hd"]) -> Float[Tensor, "*n out"]:
        """The joined heads, (..., out_dim), of the concatenated heads `x`, (..., h * d)."""
        return self.linear(x)


class TensorHeads(nn.Module):
    """Heads joined by a tensor: `ConcatHeads` without a bias, its weight stored as (channel, head, output).

    o_l = sum_jh x_jh w_jhl

    Args:
        num_heads, head_dim: h and d.
        out_dim: channels of the output.

    Shapes: (..., h * d) -> (..., out_dim); `w_jhl` is (d, h, out_dim).

    >>> import torch
    >>> from molattn.attention import TensorHeads
    >>> join = TensorHeads(num_heads=2, head_dim=3, out_dim=5)
    >>> tuple(join.w_jhl.shape), tuple(join(torch.randn(7, 6)).shape)
    ((3, 2, 5), (7, 5))
    """

    def __init__(self, num_heads: int, head_dim: int, out_dim: int):
        super().__init__()
        bound = (num_heads * head_dim) ** -0.5
        self.w_jhl = nn.Parameter(torch.empty(head_dim, num_heads, out_dim).uniform_(-bound, bound))

    def forward(self, x: Float[Tensor, "*n hd"]) -> Float[Tensor, "*n out"]:
        """The joined heads, (..., out_dim), of the concatenated heads `x`, (..., h * d)."""
        return torch.einsum("...hj,jhl->...l", x.unflatten(-1, (self.w_jhl.shape[1], -1)), self.w_jhl)


class VectorHeads(nn.Module):
    """Heads joined by a weighted sum with one learned weight per head.

    o_j = sum_h w_h x_jh

    Args:
        num_heads: h.

    Shapes: (..., h * d) -> (..., d); `w_h` is (h,).

    >>> import torch
    >>> from molattn.attention import VectorHeads
    >>> join = VectorHeads(num_heads=2)
    >>> _ = torch.nn.init.constant_(join.w_h, 0.5)
    >>> join(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist()  # 0.5 [1, 2] + 0.5 [3, 4]
    [2.0, 3.0]
    """

    def __init__(self, num_heads: int):
        super().__init__()
        bound = num_heads**-0.5
        self.w_h = nn.Parameter(torch.empty(num_heads).uniform_(-bound, bound))

    def forward(self, x: Float[Tensor, "*n hd"]) -> Float[Tensor, "*n d"]:
        """The joined heads, (..., d), of the concatenated heads `x`, (..., h * d)."""
        return torch.einsum("...hj,h->...j", x.unflatten(-1, (len(self.w_h), -1)), self.w_h)


class MeanHeads(nn.Module):
    """Heads joined by their mean.

    o_j = sum_h x_jh / H

    Args:
        num_heads: H.

    Shapes: (..., H * d) -> (..., d).

    >>> import torch
    >>> from molattn.attention import MeanHeads
    >>> MeanHeads(num_heads=2)(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist()  # of [1, 2] and [3, 4]
    [2.0, 3.0]
    """

    def __init__(self, num_heads: int):
        super().__init__()
        self.num_heads = num_heads

    def forward(self, x: Float[Tensor, "*n hd"]) -> Float[Tensor, "*n d"]:
        """The joined heads, (..., d), of the concatenated heads `x`, (..., H * d)."""
        return x.unflatten(-1, (self.num_heads, -1)).mean(-2)


class MaxHeads(nn.Module):
    """Heads joined by their maximum, elementwise.

    o_j = max_h x_jh

    Args:
        num_heads: h.

    Shapes: (..., h * d) -> (..., d). Tied heads share the gradient.

    >>> import torch
    >>> from molattn.attention import MaxHeads
    >>> MaxHeads(num_heads=2)(torch.tensor([1.0, 5.0, 3.0, 4.0])).tolist()  # of [1, 5] and [3, 4]
    [3.0, 5.0]
    """

    def __init__(self, num_heads: int):
        super().__init__()
        self.num_heads = num_heads

    def forward(self, x: Float[Tensor, "*n hd"]) -> Float[Tensor, "*n d"]:
        """The joined heads, (..., d), of the concatenated heads `x`, (..., h * d)."""
        return x.unflatten(-1, (self.num_heads, -1)).amax(-2)


def make_join(join: str, num_heads: int, head_dim: int, out_dim: int, bias: bool = True) -> nn.Module:
    """A module that joins heads, from its name.

    Args:
        join: a name in `JOINS`.
        num_heads, head_dim: h and d.
        out_dim: channels of the output; must be head_dim for the names in `KEEPS_HEAD_DIM`.
        bias: whether the "concat" join has a bias; the others have none.

    Raises:
        ValueError: the name is unknown, or the join cannot output out_dim channels.

    >>> from molattn.attention import make_join
    >>> make_join("concat", num_heads=2, head_dim=4, out_dim=8)
    ConcatHeads(
      (linear): Linear(in_features=8, out_features=8, bias=True)
    )
    """
    if join not in JOINS:
        raise ValueError(unknown_choice("join", join, JOINS))
    if join in KEEPS_HEAD_DIM and out_dim != head_dim:
        raise ValueError(f"join {join!r} outputs the {head_dim} channels of a head, not {out_dim}")
    return JOINS[join](num_heads, head_dim, out_dim, bias)


# Called with (num_heads, head_dim, out_dim, bias); each uses the ones it needs.
JOINS: dict[str, Callable[[int, int, int, bool], nn.Module]] = {
    "concat": ConcatHeads,
    "w_jhl": lambda num_heads, head_dim, out_dim, _bias: TensorHeads(num_heads, head_dim, out_dim),
    "w_h": lambda num_heads, _head_dim, _out_dim, _bias: VectorHeads(num_heads),
    "mean": lambda num_heads, _head_dim, _out_dim, _bias: MeanHeads(num_heads),
    "max": lambda num_heads, _head_dim, _out_dim, _bias: MaxHeads(num_heads),
}
"""The joins by name: functions that return a new module; `make_join` calls them."""
KEEPS_HEAD_DIM = {"w_h", "mean", "max"}
"""The joins whose output has the channels of one head."""
