"""Dropout, alone and fused with a residual addition or GELU; in C where the compiled kernels are available."""

import torch.nn.functional as F
from torch import Tensor, nn

from molattn.attention.arguments import check_dropout
from molattn.kernels import elementwise
from molattn.kernels.dispatch import Operation
from molattn.kernels.elementwise import new_key
from molattn.kernels.operations import eager_unsupported_reason


def active_dropout(p: float, training: bool) -> float:
    """The dropout probability that a module applies: p in training, 0 in evaluation."""
    return p if training else 0.0


def draw_dropout_mask(like: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
    """A dropout mask of this shape: 0 with probability p, else 1 / (1 - p); dtype and device are those of `like`.

    Raises:
        ValueError: p is not in [0, 1).
    """
    check_dropout(p)
    return _mask_op(like, shape, p)


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """`torch.nn.functional.dropout`: y = m x, with m = 0 with probability p, else 1 / (1 - p).

    Any shape. Returns x itself if not training or p = 0.
    """
    return x if not training or p == 0 else _dropout_op(x, p)


def add_dropout(a: Tensor, x: Tensor, p: float, training: bool = True) -> Tensor:
    """a + dropout(x) of two tensors of the same shape: a residual connection."""
    return a + x if not training or p == 0 else _add_dropout_op(a, x, p)


def dropout_gelu(x: Tensor, p: float = 0.0, training: bool = True) -> Tensor:
    """dropout(gelu(x)), gelu(x) = x Phi(x), Phi the standard normal CDF; any shape."""
    return _dropout_gelu_op(x, active_dropout(p, training))


class Dropout(nn.Dropout):
    """`torch.nn.Dropout`, computed by `dropout`."""

    def forward(self, input: Tensor) -> Tensor:
        return dropout(input, self.p, self.training)


def _unsupported_reason(p: float, *tensors: Tensor) -> str:
    """Why the C kernels do not support a dropout probability and tensors; empty if they do."""
    if not 0 <= p < 1:
        return "p is not in [0, 1)"
    if any(x.shape != tensors[0].shape for x in tensors):
        return "tensors of different shapes"
    return eager_unsupported_reason(*tensors) or elementwise.LIBRARY.unavailable_reason()


_mask_op, _dropout_op = Operation("dropout mask"), Operation("dropout")
_add_dropout_op, _dropout_gelu_op = Operation("add dropout"), Operation("dropout of gelu")
_mask_op.add(
    "compiled",
    lambda like, shape, p: elementwise.dropout_mask(shape, p, new_key()),  # noqa: ARG005
    lambda like, shape, p: _unsupported_reason(p, like),  # noqa: ARG005
)
_dropout_op.add("compiled", lambda x, p: elementwise.dropout(x, p, new_key()), lambda x, p: _unsupported_reason(p, x))
_add_dropout_op.add(
    "compiled",
    lambda a, x, p: elementwise.add_dropout(a, x, p, new_key()),
    lambda a, x, p: _unsupported_reason(p, a, x),
)
_dropout_gelu_op.add(
    "compiled",
    lambda x, p: elementwise.dropout_gelu(x, p, new_key() if p else 0),
    lambda x, p: _unsupported_reason(p, x),
)
_mask_op.add("reference", lambda like, shape, p: F.dropout(like.new_ones(shape), p))
_dropout_op.add("reference", F.dropout)
_add_dropout_op.add("reference", lambda a, x, p: a + F.dropout(x, p))
_dropout_gelu_op.add("reference", lambda x, p: F.dropout(F.gelu(x), p) if p else F.gelu(x))
