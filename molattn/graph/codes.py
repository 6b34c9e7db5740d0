"""Things described by several small integers: rows of tables, looked up and added.

In float32 on the CPU by `codes.c` where it can be built: torch takes the gradient of such a table a row at a time.
"""

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn

from molattn import compiled

SOURCE = Path(__file__).with_name("codes.c")


def look_up(rows: Float[Tensor, "c d"], codes: Integer[Tensor, "*things"]) -> Float[Tensor, "*things d"]:
    """x_i = rows[c_i], for any number of things with a small integer each.

    Shapes: rows (c, d) and codes (...,) -> (..., d).
    """
    if _can_be_compiled(rows, codes):
        return _SummedRows.apply(rows, codes.unsqueeze(-1).int())
    return rows.index_select(0, codes.flatten().int()).view(*codes.shape, rows.shape[-1])


class SumOfCodes(nn.Module):
    """Features of things described by several small integers: the sum of one learned row per integer.

    x_i = sum_f T_f[c_if]

    Shapes: codes (..., F) integers -> (..., dim).

    Args:
        sizes: how many codes each of the F integers can take.
        dim: channels.
    """

    offsets: Tensor

    def __init__(self, sizes: Sequence[int], dim: int):
        super().__init__()
        self.table = nn.Embedding(sum(sizes), dim)
        # Variance 1 of the sum, not of each term.
        nn.init.normal_(self.table.weight, std=len(sizes) ** -0.5)
        starts = torch.tensor([0, *sizes[:-1]]).cumsum(0)
        self.register_buffer("offsets", starts, persistent=False)

    def forward(self, codes: Integer[Tensor, "*things f"]) -> Float[Tensor, "*things d"]:
        rows = codes.long() + self.offsets
        if _can_be_compiled(self.table.weight, rows):
            return _SummedRows.apply(self.table.weight, rows.int())
        return self.table(rows).sum(-2)


@cache
def _library() -> ctypes.CDLL | None:
    loaded = compiled.library(SOURCE)
    for name in ("molattn_look_up", "molattn_look_up_backward") if loaded is not None else ():
        getattr(loaded, name).argtypes = (*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 4)
        getattr(loaded, name).restype = ctypes.c_int
    return loaded


def _can_be_compiled(rows: Tensor, codes: Tensor) -> bool:
    kind = rows.dtype == torch.float32 and rows.device.type == codes.device.type == "cpu"
    return kind and not torch.compiler.is_compiling() and _library() is not None


class _SummedRows(torch.autograd.Function):
    """x_i = sum_f rows[c_if]: rows (c, d), codes (..., F) of int32 -> (..., d)."""

    @staticmethod
    def forward(ctx, rows: Tensor, codes: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        rows, codes = rows.contiguous(), codes.contiguous()
        ctx.save_for_backward(codes)
        ctx.count = len(rows)
        y = rows.new_empty(*codes.shape[:-1], rows.shape[-1])
        _call("molattn_look_up", rows, codes, y, len(rows), y.shape[-1])
        return y

    @staticmethod
    def backward(ctx, dy: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        (codes,) = ctx.saved_tensors
        d = dy.shape[-1]
        if torch.is_grad_enabled():
            # Where a gradient of the gradient may be asked for, operations that have one.
            each = dy.unsqueeze(-2).expand(*codes.shape, d).reshape(-1, d)
            return dy.new_zeros(ctx.count, d).index_add(0, codes.flatten(), each), None
        d_rows = dy.new_empty(ctx.count, d)
        _call("molattn_look_up_backward", dy.contiguous(), codes, d_rows, ctx.count, d)
        return d_rows, None


def _call(name: str, x: Tensor, codes: Tensor, y: Tensor, count: int, d: int) -> None:
    parts = codes.shape[-1]
    n = codes.numel() // max(1, parts)
    if getattr(_library(), name)(x.data_ptr(), codes.data_ptr(), y.data_ptr(), n, parts, d, count):
        raise IndexError(f"a code is not from 0 to {count - 1}")
