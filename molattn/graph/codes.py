"""Things described by several small integers: rows of tables, looked up and added.

In float32 on the CPU by `molattn.kernels.lookup` where it can be built.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from molattn.kernels import lookup
from molattn.kernels.dispatch import Operation
from molattn.kernels.tensor_checks import eager_unsupported_reason


def look_up(rows: Float[Tensor, "c d"], codes: Integer[Tensor, "*things"]) -> Float[Tensor, "*things d"]:
    """x_i = rows[c_i], for any number of things with a small integer each.

    Shapes: rows (c, d) and codes (...,) -> (..., d).

    Raises:
        IndexError: a code without a row; on a GPU, where torch asserts that, a RuntimeError.
        ValueError: codes that are no integers.
    """
    return _sum_of_rows(rows, codes.unsqueeze(-1), (len(rows),), None, None)


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
        # For a GPU, which would be waited for if they were made at every call.
        self.register_buffer("offsets", torch.tensor(lookup.starts(self.sizes), dtype=torch.int64), persistent=False)
        self.register_buffer("limits", torch.tensor(self.sizes, dtype=torch.int64), persistent=False)

    def forward(self, codes: Integer[Tensor, "*things f"]) -> Float[Tensor, "*things d"]:
        if codes.shape[-1] != len(self.sizes):
            raise ValueError(f"{len(self.sizes)} codes make a thing, not {codes.shape[-1]}")
        return _sum_of_rows(self.table.weight, codes, self.sizes, self.offsets, self.limits)


_SMALL = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16)


def _integers(codes: Tensor) -> Tensor:
    """The same numbers as int32 or int64; of those that are too large for that, some that are no code either."""
    if codes.dtype.is_floating_point or codes.dtype.is_complex or codes.dtype == torch.bool:
        raise ValueError(f"codes are integers, not {codes.dtype}")
    return codes.int() if codes.dtype in _SMALL else codes.long()


def _as_int32(codes: Tensor) -> Tensor:
    """The same numbers as int32; in place of those that are too large for that, some that are no code either."""
    codes = _integers(codes)
    return codes if codes.dtype == torch.int32 else codes.clamp(-1, lookup.MOST_ROWS).int()


def _compiled(rows: Tensor, codes: Tensor, sizes: Sequence[int], *_: Tensor | None) -> Tensor:
    return lookup.sum_of_rows(rows, _as_int32(codes), sizes)


def _why_not_compiled(rows: Tensor, codes: Tensor, *_: object) -> str:
    if codes.device.type != "cpu" or len(rows) > lookup.MOST_ROWS:
        return "codes that are not on the CPU, or a table of more than 2^31 rows"
    return eager_unsupported_reason(rows) or lookup.unavailable_reason()


def _reference(
    rows: Tensor, codes: Tensor, sizes: Sequence[int], offsets: Tensor | None, limits: Tensor | None
) -> Tensor:
    codes = _integers(codes)
    if offsets is None or limits is None:  # one table
        return rows.index_select(0, codes.flatten()).view(*codes.shape[:-1], rows.shape[-1])
    # One beyond its own rows would find those of the next table: it is sent to where there are none.
    codes = codes.long()
    known = (codes >= 0) & (codes < limits)
    return F.embedding(torch.where(known, codes + offsets, sum(sizes)), rows).sum(-2)


_sum_of_rows = Operation("sum of rows")
_sum_of_rows.add("compiled", _compiled, _why_not_compiled)
_sum_of_rows.add("reference", _reference)
