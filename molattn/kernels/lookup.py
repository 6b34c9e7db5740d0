"""Sums of embedding rows by `lookup.c`: torch computes the gradient of an embedding table one row at a time.

    y_i = sum_f rows[offset_f + codes_if]        offset_f = sum of the sizes of the tables before f

Shapes: rows (sum of sizes, d), codes (..., F) of int32, sizes of F tables -> (..., d). float32 on the CPU. It is the
operation `torch.ops.molattn.sum_of_rows`, with higher-order gradients.
"""

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

import torch
from torch import Tensor

from molattn.kernels.loader import Library
from molattn.kernels.operations import check_argument, first_mismatch, isolated_state, register

MAX_ROWS = 2**31 - 1
"""The maximum number of rows of a table, because codes are int32."""


def _self_test() -> str:
    """How the library differs from torch on a few codes; empty if it agrees."""
    with isolated_state():
        sizes = [3, 5]
        rows, dy = torch.randn(sum(sizes), 20, requires_grad=True), torch.randn(2, 7, 20)
        codes = torch.stack([torch.randint(size, (2, 7), dtype=torch.int32) for size in sizes], -1)
        ours, reference = sum_of_rows(rows, codes, sizes), sum_of_rows_reference(rows, codes, sizes)
        (found,), (expected,) = (torch.autograd.grad(y, rows, dy) for y in (ours, reference))
        return first_mismatch([("the sum", ours, reference), ("its gradient", found, expected)])


_POINTERS_AND_SIZES = (*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3, *[ctypes.POINTER(ctypes.c_int64)] * 2)
LIBRARY = Library(
    "lookup.c",
    {
        "molattn_look_up": (_POINTERS_AND_SIZES, ctypes.c_int),
        "molattn_look_up_backward": ((*_POINTERS_AND_SIZES, ctypes.c_int64), ctypes.c_int),
    },
    (),
    _self_test,
)


def sum_of_rows_reference(rows: Tensor, codes: Tensor, sizes: Sequence[int]) -> Tensor:
    """`sum_of_rows` by torch's indexing, without its check: a code that is too large selects a row of a later table."""
    return rows[codes.long() + codes.new_tensor(table_offsets(sizes), dtype=torch.int64)].sum(-2)


def table_offsets(sizes: Sequence[int]) -> list[int]:
    """The index of the first row of each table in the concatenation of tables of these sizes."""
    return [0, *accumulate(sizes)][: len(sizes)]


@lru_cache(256)
def _tables(sizes: tuple[int, ...]) -> tuple[ctypes.Array[ctypes.c_int64], ctypes.Array[ctypes.c_int64]]:
    """The offsets and sizes of the tables, as C arrays."""
    array = ctypes.c_int64 * len(sizes)
    return array(*table_offsets(sizes)), array(*sizes)


def _forward(rows: Tensor, codes: Tensor, sizes: Sequence[int]) -> Tensor:
    rows, codes = rows.contiguous(), codes.contiguous()
    check_argument("the tables", rows, (sum(sizes), *rows.shape[1:2]))
    check_argument("codes", codes, (*codes.shape[:-1], len(sizes)), torch.int32)
    y = rows.new_empty(*codes.shape[:-1], rows.shape[1])
    _call("molattn_look_up", rows, codes, y, y.shape[-1], sizes)
    return y


def _backward(dy: Tensor, codes: Tensor, sizes: Sequence[int]) -> Tensor:
    codes = codes.contiguous()
    d = dy.shape[-1]
    check_argument("the gradient of the sums", dy, (*codes.shape[:-1], d))
    check_argument("codes", codes, (*codes.shape[:-1], len(sizes)), torch.int32)
    d_rows = dy.new_empty(sum(sizes), d)
    _call("molattn_look_up_backward", dy.contiguous(), codes, d_rows, d, sizes, sum(sizes))
    return d_rows


def _call(name: str, x: Tensor, codes: Tensor, y: Tensor, d: int, sizes: Sequence[int], *count: int) -> None:
    num_tables = len(sizes)
    n = codes.numel() // max(1, num_tables)
    if LIBRARY[name](x.data_ptr(), codes.data_ptr(), y.data_ptr(), n, num_tables, d, *_tables(tuple(sizes)), *count):
        raise IndexError(f"a code is negative, or not below the size of its table: the sizes are {list(sizes[:8])}")


def _fake(rows: Tensor, codes: Tensor, sizes: Sequence[int]) -> Tensor:  # noqa: ARG001
    return rows.new_empty(*codes.shape[:-1], rows.shape[1])


def _setup(ctx, inputs, output) -> None:  # noqa: ARG001
    _, codes, ctx.sizes = inputs
    ctx.save_for_backward(codes)


def _gradient(ctx, dy: Tensor):
    (codes,) = ctx.saved_tensors
    if not torch.is_grad_enabled():
        return _sum_of_rows_backward(dy, codes, ctx.sizes), None, None
    # For double backward: operations that are differentiable themselves.
    dy_of_codes = dy.unsqueeze(-2).expand(*codes.shape, dy.shape[-1]).reshape(-1, dy.shape[-1])
    index = (codes.long() + codes.new_tensor(table_offsets(ctx.sizes), dtype=torch.int64)).flatten()
    return dy.new_zeros(sum(ctx.sizes), dy.shape[-1]).index_add(0, index, dy_of_codes), None, None


_sum_of_rows_backward = register(
    "sum_of_rows_backward",
    "(Tensor dy, Tensor codes, int[] sizes) -> Tensor",
    _backward,
    lambda dy, _codes, sizes: dy.new_empty(sum(sizes), dy.shape[-1]),
)
sum_of_rows = register(
    "sum_of_rows", "(Tensor rows, Tensor codes, int[] sizes) -> Tensor", _forward, _fake, _setup, _gradient
)
