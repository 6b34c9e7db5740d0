"""Dropout, alone and with what stands beside it in a network; by C where that can be built."""

import torch.nn.functional as F
from torch import Tensor, nn

from molattn.attention.arguments import check_dropout
from molattn.kernels import elementwise
from molattn.kernels.dispatch import Operation
from molattn.kernels.elementwise import new_key
from molattn.kernels.tensor_checks import eager_unsupported_reason


def dropout_mask(like: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
    """What weights are multiplied by in a dropout: 0 with probability p, else 1 / (1 - p); `like` says of which type.

    Raises:
        ValueError: p is not from 0 to below 1.
    """
    check_dropout(p)
    return _mask(like, shape, p)


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """`torch.nn.functional.dropout`: y = m x, with m = 0 with probability p, else 1 / (1 - p).

    Any shape. Outside training, and for p = 0, it is x itself.
    """
    return x if not training or p == 0 else _dropout(x, p)


def add_dropped(a: Tensor, x: Tensor, p: float, training: bool = True) -> Tensor:
    """a + dropout(x), of two tensors of one shape: the step of a residual layer."""
    return a + x if not training or p == 0 else _add_dropout(a, x, p)


def dropped_gelu(x: Tensor, p: float = 0.0, training: bool = True) -> Tensor:
    """dropout(gelu(x)), gelu(x) = x Phi(x) with the normal distribution Phi; any shape."""
    return _dropout_gelu(x, p if training else 0.0)


class Dropout(nn.Dropout):
    """`torch.nn.Dropout` by `dropout`."""

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p, self.training)


def _why_not(*arguments: object) -> str:
    """Of tensors and a probability behind them."""
    *tensors, p = arguments
    if not 0 <= p < 1:  # pyright: ignore[reportOperatorIssue]
        return "everything is dropped"
    if any(x.shape != tensors[0].shape for x in tensors):  # pyright: ignore[reportAttributeAccessIssue]
        return "shapes that differ"
    return eager_unsupported_reason(*tensors) or elementwise.unavailable_reason()  # pyright: ignore[reportArgumentType]


_mask, _dropout = Operation("dropout mask"), Operation("dropout")
_add_dropout, _dropout_gelu = Operation("add dropout"), Operation("dropout of gelu")
_mask.add(
    "compiled",
    lambda like, shape, p: elementwise.dropout_mask(shape, p, new_key()),  # noqa: ARG005
    lambda like, shape, p: _why_not(like, p),  # noqa: ARG005
)
_dropout.add("compiled", lambda x, p: elementwise.dropout(x, p, new_key()), _why_not)
_add_dropout.add("compiled", lambda a, x, p: elementwise.add_dropout(a, x, p, new_key()), _why_not)
_dropout_gelu.add("compiled", lambda x, p: elementwise.dropout_gelu(x, p, new_key() if p else 0), _why_not)
_mask.add("reference", lambda like, shape, p: F.dropout(like.new_ones(shape), p))
_dropout.add("reference", F.dropout)
_add_dropout.add("reference", lambda a, x, p: a + F.dropout(x, p))
_dropout_gelu.add("reference", lambda x, p: F.dropout(F.gelu(x), p) if p else F.gelu(x))
