"""Dropout and GELU by `elementwise.c`: on the CPU, drawing random numbers takes longer than what is done with them.

    m     = 0 with probability p, else 1 / (1 - p)         `dropout_mask`; the key says which numbers are drawn
    y     = m x                                            `dropout`
    y     = a + m x                                        `add_dropout`
    y     = m gelu(x),  gelu(x) = x Phi(x)                 `dropout_gelu`

Any shape, float32 on the CPU. Each is an operation of `torch.ops.molattn`, whose gradient can be taken again.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from molattn.kernels import loader
from molattn.kernels.agreement import first_difference, undisturbed
from molattn.kernels.registration import register
from molattn.kernels.tensor_checks import check_argument

SOURCE = loader.SOURCE_FOLDER / "elementwise.c"
OPS: Any = torch.ops.molattn


class Dropping(ctypes.Structure):
    """`Dropping` of the C source."""

    _fields_ = (
        ("key", ctypes.c_uint64),
        ("threshold", ctypes.c_uint32),
        ("scale", ctypes.c_float),
    )


@cache
def load_library() -> ctypes.CDLL | None:
    """The built library, at the first call of a process; None where there is none to be had."""
    loaded = loader.load_library(SOURCE, (Dropping,), _disagreement)
    if loaded is not None:
        names = {"kept": 1, "drop": 2, "add_dropped": 3, "gelu": 2, "gelu_backward": 3}
        for name, tensors in names.items():
            function = getattr(loaded, f"molattn_{name}")
            function.argtypes = (ctypes.POINTER(Dropping), ctypes.c_int64, *[ctypes.c_void_p] * tensors)
            function.restype = None
    return loaded


def _disagreement() -> str:
    """Where the library differs from torch on a few numbers, not of whole vectors; empty for nowhere."""
    with undisturbed():
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
            found, wanted = (torch.autograd.grad(y, inputs, dy, allow_unused=True) for y in (ours, reference))
            pairs += [(f"the gradient of {name}", *both) for both in zip(found, wanted, strict=True)]
        share = float((m > 0).float().mean())
        return first_difference(pairs) or ("" if abs(share - 0.75) < 0.1 else f"{share:.2f} are kept, not 0.75")


def unavailable_reason() -> str:
    """Why there is no library, in words; empty where there is one."""
    return "" if load_library() is not None else loader.unavailable_reason(SOURCE)


def new_key() -> int:
    """The key of a dropout, from torch's generator: the same seed brings the same."""
    return int(torch.empty((), dtype=torch.int64, device="cpu").random_(-(2**63), None))


def dropping(p: float, key: int) -> Dropping:
    """A dropout as the C source has it; it keeps all where p is 0.

    Raises:
        ValueError: p is not from 0 to below 1.
    """
    if not 0 <= p < 1:
        raise ValueError(f"a probability of dropping is from 0 to below 1, not {p}")
    return Dropping(key & 0xFFFFFFFFFFFFFFFF, min(round(p * 2**32), 2**32 - 1), 1 / (1 - p))


def _call(name: str, p: float, key: int, *tensors: Tensor) -> None:
    """One of the library's functions, of tensors of one shape; the last is written to."""
    shape = tensors[-1].shape
    for x in tensors:
        check_argument(f"a tensor of {name}", x, shape)
    places = [x.data_ptr() for x in tensors]
    getattr(load_library(), f"molattn_{name}")(ctypes.byref(dropping(p, key)), tensors[-1].numel(), *places)


def _mask(shape: Sequence[int], p: float, key: int) -> Tensor:
    y = torch.empty(shape, dtype=torch.float32, device="cpu")  # whatever torch makes where it is not told
    _call("kept", p, key, y)
    return y


def _new(name: str, p: float, key: int, *tensors: Tensor) -> Tensor:
    """What one of the library's functions makes of these."""
    tensors = tuple(x.contiguous() for x in tensors)
    y = torch.empty_like(tensors[-1])
    _call(name, p, key, *tensors, y)
    return y


def _gelu_slope(x: Tensor) -> Tensor:
    return 0.5 * (1 + torch.erf(x * 2**-0.5)) + x * torch.exp(-0.5 * x * x) * (2 * torch.pi) ** -0.5


def _like_x(x: Tensor, *_: object) -> Tensor:
    return x.new_empty(x.shape)


def _keep_numbers(ctx, inputs, output) -> None:  # noqa: ARG001
    *_, ctx.p, ctx.key = inputs


def _keep_x(ctx, inputs, output) -> None:  # noqa: ARG001
    x, ctx.p, ctx.key = inputs
    ctx.save_for_backward(x)


def _gradient_of_gelu(ctx, dy: Tensor):
    (x,) = ctx.saved_tensors
    if torch.is_grad_enabled():
        # A gradient of the gradient may be asked for: operations that have one.
        return OPS.dropout(_gelu_slope(x) * dy, ctx.p, ctx.key), None, None
    return _dropout_gelu_backward(x, dy, ctx.p, ctx.key), None, None


dropout_mask = register(
    "dropout_mask",
    "(SymInt[] shape, float p, int key) -> Tensor",
    _mask,
    lambda shape, *_: torch.empty(shape),
    device="CompositeExplicitAutograd",
)
dropout = register(
    "dropout",
    "(Tensor x, float p, int key) -> Tensor",
    lambda x, p, key: _new("drop", p, key, x),
    _like_x,
    _keep_numbers,
    lambda ctx, dy: (OPS.dropout(dy, ctx.p, ctx.key), None, None),
)
add_dropout = register(
    "add_dropout",
    "(Tensor a, Tensor x, float p, int key) -> Tensor",
    lambda a, x, p, key: _new("add_dropped", p, key, a, x),
    _like_x,
    _keep_numbers,
    lambda ctx, dy: (dy, OPS.dropout(dy, ctx.p, ctx.key), None, None),
)
_dropout_gelu_backward = register(
    "dropout_gelu_backward",
    "(Tensor x, Tensor dy, float p, int key) -> Tensor",
    lambda x, dy, p, key: _new("gelu_backward", p, key, x, dy),
    _like_x,
)
dropout_gelu = register(
    "dropout_gelu",
    "(Tensor x, float p, int key) -> Tensor",
    lambda x, p, key: _new("gelu", p, key, x),
    _like_x,
    _keep_x,
    _gradient_of_gelu,
)
