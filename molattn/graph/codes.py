"""Things described by several small integers: rows of tables, looked up and added.

In float32 on the CPU by `codes.c` where it can be built: torch takes the gradient of such a table a row at a time.
"""

import ctypes
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from molattn import compiled
from molattn.attention.agreement import first_difference, undisturbed
from molattn.attention.arguments import check_argument

SOURCE = Path(__file__).with_name("codes.c")
_MOST = 2**31 - 1
"""The largest code that C is given."""


def look_up(rows: Float[Tensor, "c d"], codes: Integer[Tensor, "*things"]) -> Float[Tensor, "*things d"]:
    """x_i = rows[c_i], for any number of things with a small integer each.

    Shapes: rows (c, d) and codes (...,) -> (..., d).

    Raises:
        IndexError: a code without a row; on a GPU, where torch asserts that, a RuntimeError.
        ValueError: codes that are no integers.
    """
    if _can_be_compiled(rows, codes):
        return _SummedRows.apply(rows, _as_int32(codes).unsqueeze(-1), (len(rows),))
    return rows.index_select(0, _integers(codes).flatten()).view(*codes.shape, rows.shape[-1])


class SumOfCodes(nn.Module):
    """Features of things described by several small integers: the sum of one learned row per integer.

    x_i = sum_f T_f[c_if]

    Shapes: codes (..., F) integers -> (..., dim).

    Args:
        sizes: how many codes each of the F integers can take.
        dim: channels.

    Raises:
        IndexError: a code that is not below its size; on a GPU, where torch asserts that, a RuntimeError.
        ValueError: codes of another number, or that are no integers.
    """

    offsets: Tensor
    limits: Tensor

    def __init__(self, sizes: Sequence[int], dim: int):
        super().__init__()
        self.table = nn.Embedding(sum(sizes), dim)
        # Variance 1 of the sum, not of each term.
        nn.init.normal_(self.table.weight, std=len(sizes) ** -0.5)
        self.sizes = tuple(sizes)
        self.register_buffer("offsets", torch.tensor(_starts(self.sizes), dtype=torch.int64), persistent=False)
        self.register_buffer("limits", torch.tensor(self.sizes, dtype=torch.int64), persistent=False)

    def forward(self, codes: Integer[Tensor, "*things f"]) -> Float[Tensor, "*things d"]:
        if codes.shape[-1] != len(self.sizes):
            raise ValueError(f"{len(self.sizes)} codes make a thing, not {codes.shape[-1]}")
        if _can_be_compiled(self.table.weight, codes):
            return _SummedRows.apply(self.table.weight, _as_int32(codes), self.sizes)
        codes = _integers(codes).long()
        # One beyond its own rows would find those of a neighbour: it is sent to where there are none.
        known = (codes >= 0) & (codes < self.limits)
        return self.table(torch.where(known, codes + self.offsets, self.table.num_embeddings)).sum(-2)


def _starts(sizes: Sequence[int]) -> list[int]:
    """Where tables of these sizes begin that stand one after another."""
    return [sum(sizes[:f]) for f in range(len(sizes))]


_SMALL = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16)


def _integers(codes: Tensor) -> Tensor:
    """The same numbers as int32 or int64; of those that are too large for that, some that are no code either."""
    if codes.dtype.is_floating_point or codes.dtype.is_complex or codes.dtype == torch.bool:
        raise ValueError(f"codes are integers, not {codes.dtype}")
    return codes.int() if codes.dtype in _SMALL else codes.long()


def _as_int32(codes: Tensor) -> Tensor:
    """The same numbers as int32; in place of those that are too large for that, some that are no code either."""
    codes = _integers(codes)
    return codes if codes.dtype == torch.int32 else codes.clamp(-1, _MOST).int()


@cache
def _library() -> ctypes.CDLL | None:
    loaded = compiled.library(SOURCE, disagreement=_disagreement)
    if loaded is not None:
        numbers = (*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3, *[ctypes.POINTER(ctypes.c_int64)] * 2)
        loaded.molattn_look_up.argtypes = numbers
        loaded.molattn_look_up_backward.argtypes = (*numbers, ctypes.c_int64)
    return loaded


def _disagreement() -> str:
    """Where the library differs from torch on a few codes; empty for nowhere."""
    with undisturbed():
        sizes = (3, 5)
        rows, dy = torch.randn(sum(sizes), 20, requires_grad=True), torch.randn(2, 7, 20)
        codes = torch.stack([torch.randint(size, (2, 7), dtype=torch.int32) for size in sizes], -1)
        ours = _SummedRows.apply(rows, codes, sizes)
        reference = rows[(codes + torch.tensor(_starts(sizes))).long()].sum(-2)
        (found,), (wanted,) = (torch.autograd.grad(y, rows, dy) for y in (ours, reference))
        return first_difference([("the sum", ours, reference), ("its gradient", found, wanted)])


def _can_be_compiled(rows: Tensor, codes: Tensor) -> bool:
    kind = rows.dtype == torch.float32 and rows.device.type == codes.device.type == "cpu" and len(rows) <= _MOST
    return kind and not torch.compiler.is_compiling() and _library() is not None


@lru_cache(256)
def _tables(sizes: tuple[int, ...]) -> tuple[ctypes.Array[ctypes.c_int64], ctypes.Array[ctypes.c_int64]]:
    """Where each table begins, and its size, as C has them."""
    numbers = ctypes.c_int64 * len(sizes)
    return numbers(*_starts(sizes)), numbers(*sizes)


class _SummedRows(torch.autograd.Function):
    """x_i = sum_f rows[starts_f + c_if]: rows (c, d), codes (..., F) of int32, sizes of F tables -> (..., d)."""

    @staticmethod
    def forward(ctx, rows: Tensor, codes: Tensor, sizes: tuple[int, ...]):  # pyright: ignore[reportIncompatibleMethodOverride]
        rows, codes = rows.contiguous(), codes.contiguous()
        check_argument("a table", rows, (sum(sizes), *rows.shape[1:2]))
        check_argument("codes", codes, (*codes.shape[:-1], len(sizes)), torch.int32)
        ctx.save_for_backward(codes)
        ctx.sizes, ctx.count = sizes, len(rows)
        y = rows.new_empty(*codes.shape[:-1], rows.shape[1])
        _call("molattn_look_up", rows, codes, y, y.shape[-1], sizes)
        return y

    @staticmethod
    def backward(ctx, dy: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        (codes,) = ctx.saved_tensors
        d = dy.shape[-1]
        if torch.is_grad_enabled():
            # Where a gradient of the gradient may be asked for, operations that have one.
            each = dy.unsqueeze(-2).expand(*codes.shape, d).reshape(-1, d)
            places = (codes.long() + torch.tensor(_starts(ctx.sizes))).flatten()
            return dy.new_zeros(ctx.count, d).index_add(0, places, each), None, None
        d_rows = dy.new_empty(ctx.count, d)
        _call("molattn_look_up_backward", dy.contiguous(), codes, d_rows, d, ctx.sizes, ctx.count)
        return d_rows, None, None


def _call(name: str, x: Tensor, codes: Tensor, y: Tensor, d: int, sizes: tuple[int, ...], *count: int) -> None:
    parts = len(sizes)
    n = codes.numel() // max(1, parts)
    function = getattr(_library(), name)
    if function(x.data_ptr(), codes.data_ptr(), y.data_ptr(), n, parts, d, *_tables(sizes), *count):
        raise IndexError(f"a code is not from 0 to below {' or '.join(map(str, sizes[:8]))}, as the size of its table")
