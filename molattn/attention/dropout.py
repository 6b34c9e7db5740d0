"""Dropout, alone and with what stands beside it in a network; on the CPU by `elementwise.c` where it can be built."""

import torch.nn.functional as F
from torch import Tensor, nn

from molattn.attention.arguments import check_dropout
from molattn.attention.elementwise import AddDropped, Dropped, DroppedGelu, can_be_compiled, kept, new_key


def dropout_mask(like: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
    """What weights are multiplied by in a dropout: 0 with probability p, else 1 / (1 - p); `like` says of which type.

    Raises:
        ValueError: p is not from 0 to below 1.
    """
    check_dropout(p)
    if can_be_compiled(like):
        return kept(shape, p, new_key())
    return F.dropout(like.new_ones(shape), p)


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """`torch.nn.functional.dropout`: y = m x, with m = 0 with probability p, else 1 / (1 - p).

    Any shape. Outside training, and for p = 0, it is x itself.
    """
    if not training or p == 0:
        return x
    if p >= 1 or not can_be_compiled(x):
        return F.dropout(x, p)
    return Dropped.apply(x, p, new_key())


def add_dropped(a: Tensor, x: Tensor, p: float, training: bool = True) -> Tensor:
    """a + dropout(x), of two tensors of one shape: the step of a residual layer."""
    if not training or p == 0:
        return a + x
    if p >= 1 or a.shape != x.shape or not can_be_compiled(a, x):
        return a + dropout(x, p)
    return AddDropped.apply(a, x, p, new_key())


def dropped_gelu(x: Tensor, p: float = 0.0, training: bool = True) -> Tensor:
    """dropout(gelu(x)), gelu(x) = x Phi(x) with the normal distribution Phi; any shape."""
    p = p if training else 0.0
    if p >= 1 or not can_be_compiled(x):
        return dropout(F.gelu(x), p)
    return DroppedGelu.apply(x, p, new_key() if p else 0)


class Dropout(nn.Dropout):
    """`torch.nn.Dropout` by `dropout`."""

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p, self.training)
