"""Dropout and GELU by `elementwise.c`: on the CPU, drawing random numbers takes longer than the operation itself.

    m     = 0 with probability p, else 1 / (1 - p)         `dropout_mask`; its key is the seed
    y     = m x                                            `dropout`
    y     = a + m x                                        `add_dropout`
    y     = m gelu(x),  gelu(x) = x Phi(x)                 `dropout_gelu`

Any shape, float32 on the CPU. Each is an operation of `torch.ops.molattn` with higher-order gradients.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from molattn.kernels.loader import Library
from molattn.kernels.operations import check_argument, first_mismatch, isolated_state, register

OPS: Any = torch.ops.molattn


class Dropout(ctypes.Structure):
    """`Dropout` of the C source."""

    _fields_ = (
        ("key", ctypes.c_uint64),
        ("threshold", ctypes.c_uint32),
        ("scale", ctypes.c_float),
    )


def _self_test() -> str:
    """How the library differs from torch on a small example that does not fill its last vector; empty if it agrees."""
    with isolated_state():
        p, key, n = 0.25, new_key(), 1003
        a, x, dy = (torch.randn(n) for _ in range(3))
        m = dropout_mask([n], p, key)
        inputs = [a.requires_grad_(), x.requires_grad_()]
        pairs = [("dropout_mask", m, torch.where(m > 0, 1 / (1 - p), 0.0))]
        for name, ours, reference in (
            ("dropout", dropout(x, p, key), m * x),
            ("add_dropout", add_dropout(a, x, p, key), a + m * x),
            ("dropout_gelu", dropout_gelu(x, p, key), m * F.gelu(x)),
        ):
            pairs.append((name, ours, reference))
            found, expected = (torch.autograd.grad(y, inputs, dy, allow_unused=True) for y in (ours, reference))
            pairs += [(f"the gradient of {name}", *both) for both in zip(found, expected, strict=True)]
        kept_fraction = float((m > 0).float().mean())
        return first_mismatch(pairs) or (
            "" if abs(kept_fraction - 0.75) < 0.1 else f"a fraction of {kept_fraction:.2f} is kept, not 0.75"
        )


_NUM_TENSORS = {"dropout_mask": 1, "dropout": 2, "add_dropout": 3, "dropout_gelu": 2, "dropout_gelu_backward": 3}
LIBRARY = Library(
    "elementwise.c",
    {
        f"molattn_{name}": ((ctypes.POINTER(Dropout), ctypes.c_int64, *[ctypes.c_void_p] * n), None)
        for name, n in _NUM_TENSORS.items()
    },
    (Dropout,),
    _self_test,
)


def new_key() -> int:
    """A random key, the seed of a dropout mask, from torch's default generator: reproducible by `torch.manual_seed`."""
    return int(torch.empty((), dtype=torch.int64, device="cpu").random_(-(2**63), None))


def make_dropout(p: float, key: int) -> Dropout:
    """The C struct of a dropout mask with probability p and this key; all elements are kept if p is 0.

    Raises:
        ValueError: p is not in [0, 1).
    """
    if not 0 <= p < 1:
        raise ValueError(f"a dropout probability is from 0 to below 1, not {p}")
    return Dropout(key & 0xFFFFFFFFFFFFFFFF, min(round(p * 2**32), 2**32 - 1), 1 / (1 - p))


def _call(name: str, p: float, key: int, *tensors: Tensor) -> None:
    """Call a function of the library with tensors of the same shape; it writes to the last."""
    shape = tensors[-1].shape
    for x in tensors:
        check_argument(f"a tensor of {name}", x, shape)
    pointers = [x.data_ptr() for x in tensors]
    LIBRARY[f"molattn_{name}"](ctypes.byref(make_dropout(p, key)), tensors[-1].numel(), *pointers)


def _mask(shape: Sequence[int], p: float, key: int) -> Tensor:
    y = torch.empty(shape, dtype=torch.float32, device="cpu")  # not the default dtype and device
    _call("dropout_mask", p, key, y)
    return y


def _apply(name: str, p: float, key: int, *tensors: Tensor) -> Tensor:
    """The result of a function of the library for inputs of the same shape, in a new tensor."""
    tensors = tuple(x.contiguous() for x in tensors)
    y = torch.empty_like(tensors[-1])
    _call(name, p, key, *tensors, y)
    return y


def _gelu_derivative(x: Tensor) -> Tensor:
    """gelu'(x) = Phi(x) + x phi(x), by torch's functions."""
    return 0.5 * (1 + torch.erf(x * 2**-0.5)) + x * torch.exp(-0.5 * x * x) * (2 * torch.pi) ** -0.5


def _fake_like_x(x: Tensor, *_: object) -> Tensor:
    return x.new_empty(x.shape)


def _save_p_and_key(ctx, inputs, output) -> None:  # noqa: ARG001
    *_, ctx.p, ctx.key = inputs


def _save_x(ctx, inputs, output) -> None:  # noqa: ARG001
    x, ctx.p, ctx.key = inputs
    ctx.save_for_backward(x)


def _gelu_gradient(ctx, dy: Tensor):
    (x,) = ctx.saved_tensors
    if torch.is_grad_enabled():
        # For double backward: operations that are differentiable themselves.
        return OPS.dropout(_gelu_derivative(x) * dy, ctx.p, ctx.key), None, None
    return _dropout_gelu_backward(x, dy, ctx.p, ctx.key), None, None


dropout_mask = register(
    "dropout_mask",
    "(SymInt[] shape, float p, int key) -> Tensor",
    _mask,
    lambda shape, *_: torch.empty(shape, dtype=torch.float32, device="cpu"),
    device="CompositeExplicitAutograd",
)
dropout = register(
    "dropout",
    "(Tensor x, float p, int key) -> Tensor",
    lambda x, p, key: _apply("dropout", p, key, x),
    _fake_like_x,
    _save_p_and_key,
    lambda ctx, dy: (OPS.dropout(dy, ctx.p, ctx.key), None, None),
)
add_dropout = register(
    "add_dropout",
    "(Tensor a, Tensor x, float p, int key) -> Tensor",
    lambda a, x, p, key: _apply("add_dropout", p, key, a, x),
    _fake_like_x,
    _save_p_and_key,
    lambda ctx, dy: (dy, OPS.dropout(dy, ctx.p, ctx.key), None, None),
)
_dropout_gelu_backward = register(
    "dropout_gelu_backward",
    "(Tensor x, Tensor dy, float p, int key) -> Tensor",
    lambda x, dy, p, key: _apply("dropout_gelu_backward", p, key, x, dy),
    _fake_like_x,
)
dropout_gelu = register(
    "dropout_gelu",
    "(Tensor x, float p, int key) -> Tensor",
    lambda x, p, key: _apply("dropout_gelu", p, key, x),
    _fake_like_x,
    _save_x,
    _gelu_gradient,
)
