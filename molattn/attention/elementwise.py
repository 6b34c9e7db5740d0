"""Dropout and GELU by `elementwise.c`: on the CPU, drawing random numbers takes longer than what is done with them."""

import ctypes
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from molattn import compiled
from molattn.attention.agreement import first_difference, undisturbed
from molattn.attention.arguments import check_argument, check_dropout
from molattn.attention.transforms import is_transformed

SOURCE = Path(__file__).with_name("elementwise.c")


class Dropping(ctypes.Structure):
    """`Dropping` of the C source."""

    _fields_ = (
        ("key", ctypes.c_uint64),
        ("threshold", ctypes.c_uint32),
        ("scale", ctypes.c_float),
    )


@cache
def library() -> ctypes.CDLL | None:
    """The built library, at the first call of a process; None where there is none to be had."""
    loaded = compiled.library(SOURCE, (Dropping,), _disagreement)
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
        m = kept((n,), p, key)
        inputs = [a.requires_grad_(), x.requires_grad_()]
        pairs = [("kept", m, torch.where(m > 0, 1 / (1 - p), 0.0))]
        for name, ours, reference in (
            ("drop", Dropped.apply(x, p, key), m * x),
            ("add_dropped", AddDropped.apply(a, x, p, key), a + m * x),
            ("gelu", DroppedGelu.apply(x, p, key), m * F.gelu(x)),
        ):
            pairs.append((name, ours, reference))
            found, wanted = (torch.autograd.grad(y, inputs, dy, allow_unused=True) for y in (ours, reference))
            pairs += [(f"the gradient of {name}", *both) for both in zip(found, wanted, strict=True)]
        share = float((m > 0).float().mean())
        return first_difference(pairs) or ("" if abs(share - 0.75) < 0.1 else f"{share:.2f} are kept, not 0.75")


def can_be_compiled(*tensors: Tensor) -> bool:
    """Whether the functions here take these: float32 on the CPU, neither a compiler nor `torch.func` at work, and a
    library to be had."""
    return (
        all(x.dtype == torch.float32 and x.device.type == "cpu" for x in tensors)
        and not torch.compiler.is_compiling()
        and not is_transformed(*tensors)
        and library() is not None
    )


def new_key() -> int:
    """The key of a dropout, from torch's generator: the same seed brings the same."""
    return int(torch.empty((), dtype=torch.int64, device="cpu").random_(-(2**63), None)) & 0xFFFFFFFFFFFFFFFF


def kept(shape: tuple[int, ...], p: float, key: int) -> Tensor:
    """What a dropout multiplies by: 0 with probability p, else 1 / (1 - p)."""
    y = torch.empty(shape, dtype=torch.float32, device="cpu")  # whatever torch makes where it is not told
    _call("kept", p, key, y)
    return y


class Dropped(torch.autograd.Function):
    """m x, with the m of `kept`."""

    @staticmethod
    def forward(ctx, x: Tensor, p: float, key: int):  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.p, ctx.key = p, key
        x = x.contiguous()
        y = torch.empty_like(x)
        _call("drop", p, key, x, y)
        return y

    @staticmethod
    def backward(ctx, dy: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        return Dropped.apply(dy, ctx.p, ctx.key), None, None


class AddDropped(torch.autograd.Function):
    """a + m x, with the m of `kept`."""

    @staticmethod
    def forward(ctx, a: Tensor, x: Tensor, p: float, key: int):  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.p, ctx.key = p, key
        a, x = a.contiguous(), x.contiguous()
        y = torch.empty_like(x)
        _call("add_dropped", p, key, a, x, y)
        return y

    @staticmethod
    def backward(ctx, dy: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        return dy, Dropped.apply(dy, ctx.p, ctx.key), None, None


class DroppedGelu(torch.autograd.Function):
    """m gelu(x), with the m of `kept`; all of it where p is 0."""

    @staticmethod
    def forward(ctx, x: Tensor, p: float, key: int):  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.p, ctx.key = p, key
        x = x.contiguous()
        ctx.save_for_backward(x)
        y = torch.empty_like(x)
        _call("gelu", p, key, x, y)
        return y

    @staticmethod
    def backward(ctx, dy: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            # A gradient of the gradient may be asked for: operations that have one.
            slope = 0.5 * (1 + torch.erf(x * 2**-0.5)) + x * torch.exp(-0.5 * x * x) * (2 * torch.pi) ** -0.5
            return Dropped.apply(slope * dy, ctx.p, ctx.key), None, None
        dy = dy.contiguous()
        dx = torch.empty_like(x)
        _call("gelu_backward", ctx.p, ctx.key, x, dy, dx)
        return dx, None, None


def dropping(p: float, key: int) -> Dropping:
    """A dropout as the C source has it; it keeps all where p is 0.

    Raises:
        ValueError: p is not from 0 to below 1.
    """
    check_dropout(p)
    return Dropping(key, min(round(p * 2**32), 2**32 - 1), 1 / (1 - p))


def _call(name: str, p: float, key: int, *tensors: Tensor) -> None:
    """One of the library's functions, of tensors of one shape; the last is written to."""
    shape = tensors[-1].shape
    for x in tensors:
        check_argument(f"a tensor of {name}", x, shape)
    places = [x.data_ptr() for x in tensors]
    getattr(library(), f"molattn_{name}")(ctypes.byref(dropping(p, key)), tensors[-1].numel(), *places)
