"""Embeddings of integer codes: rows of tables, looked up and summed.

In float32 on the CPU, `molattn.kernels.lookup` computes them if it can be built.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from molattn.attention.arguments import check_sizes
from molattn.attention.unmodified import are_unmodified
from molattn.kernels import lookup
from molattn.kernels.dispatch import Operation
from molattn.kernels.operations import eager_unsupported_reason


def look_up(table: Float[Tensor, "c d"], codes: Integer[Tensor, "*items"]) -> Float[Tensor, "*items d"]:
    """x_i = table[c_i]: `torch.nn.functional.embedding` for codes of any integer type.

    Shapes: table (c, d) and codes (...,) -> (..., d).

    Args:
        table: a row for each code.
        codes: integers from 0 to c - 1.

    Raises:
        IndexError: a code that is out of range; on a GPU it is the RuntimeError of a device-side assertion.
        ValueError: codes that are not integers.
    """
    return _sum_of_rows(table, codes.unsqueeze(-1), (len(table),), None, None)


def table_of(embedding: nn.Module, size: int, device: torch.device) -> Float[Tensor, "c d"]:
    """The rows of the codes 0 to size - 1: the weights of a `torch.nn.Embedding`.

    An embedding with a hook, or that was replaced, as by an adapter, is called.
    """
    if are_unmodified(nn.Embedding, embedding):
        return embedding.weight  # pyright: ignore[reportReturnType]
    return embedding(torch.arange(size, device=device))


class SumEmbedding(nn.Module):
    """The embedding of items with several integer codes each: the sum of a learned embedding of each code.

    x_i = sum_f T_f[c_if]

    Shapes: codes (..., F) integers -> (..., dim).

    The F tables are one matrix, `table`, one below the other, initialized so that the sum has a variance of 1.

    Args:
        sizes: the number of values of each of the F codes.
        dim: channels.

    Raises:
        IndexError: at a call, a code that is out of range; on a GPU it is the RuntimeError of a device-side assertion.
        ValueError: no sizes, or one of them or `dim` below 1; at a call, another number of codes than F, or codes that
            are not integers.

    >>> import torch
    >>> from molattn.chem import ATOM_FEATURES, molecule_graph
    >>> from molattn.graph import SumEmbedding
    >>> embed = SumEmbedding([feature.size for feature in ATOM_FEATURES], dim=16)
    >>> x = embed(torch.from_numpy(molecule_graph("CCO").atom_codes))
    >>> tuple(x.shape)  # of ethanol's three atoms
    (3, 16)
    """

    offsets: Tensor
    limits: Tensor

    def __init__(self, sizes: Sequence[int], dim: int):
        if not sizes:
            raise ValueError("sizes must have the number of values of at least one code")
        check_sizes(dim=dim, **{f"sizes[{f}]": size for f, size in enumerate(sizes)})
        super().__init__()
        self.table = nn.Embedding(sum(sizes), dim)
        # Initialized so that the sum of the rows, not each row, has a variance of 1.
        nn.init.normal_(self.table.weight, std=len(sizes) ** -0.5)
        self.sizes = tuple(sizes)
        # Buffers, since creating them at every call would synchronize with a GPU.
        self.register_buffer(
            "offsets", torch.tensor(lookup.table_offsets(self.sizes), dtype=torch.int64), persistent=False
        )
        self.register_buffer("limits", torch.tensor(self.sizes, dtype=torch.int64), persistent=False)

    def forward(self, codes: Integer[Tensor, "*items f"]) -> Float[Tensor, "*items d"]:
        """The embeddings, (..., dim), of the items whose `codes` are (..., F) integers of any type.

        Raises:
            IndexError: a code that is out of range; on a GPU it is the RuntimeError of a device-side assertion.
            ValueError: another number of codes than F, or codes that are not integers.
        """
        if codes.shape[-1] != len(self.sizes):
            raise ValueError(f"codes has {codes.shape[-1]} codes in its last dimension, not {len(self.sizes)}")
        table = table_of(self.table, sum(self.sizes), self.offsets.device)
        return _sum_of_rows(table, codes, self.sizes, self.offsets, self.limits)


_FITS_INT32 = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16)


def _integers(codes: Tensor) -> Tensor:
    """The codes as int32 or int64; a code that is too large for these types stays out of range of any table."""
    if codes.dtype.is_floating_point or codes.dtype.is_complex or codes.dtype == torch.bool:
        raise ValueError(f"codes must be integers, not {codes.dtype}")
    return codes.int() if codes.dtype in _FITS_INT32 else codes.long()


def _as_int32(codes: Tensor) -> Tensor:
    """The codes as int32; a code that is too large for int32 stays out of range of any table."""
    codes = _integers(codes)
    return codes if codes.dtype == torch.int32 else codes.clamp(-1, lookup.MAX_ROWS).int()


def _compiled(rows: Tensor, codes: Tensor, sizes: Sequence[int], *_: Tensor | None) -> Tensor:
    return lookup.sum_of_rows(rows, _as_int32(codes), sizes)


def _unsupported_reason(rows: Tensor, codes: Tensor, *_: object) -> str:
    if codes.device.type != "cpu" or len(rows) > lookup.MAX_ROWS:
        return "codes that are not on the CPU, or a table of more than 2^31 rows"
    return eager_unsupported_reason(rows) or lookup.LIBRARY.unavailable_reason()


def _reference(
    rows: Tensor, codes: Tensor, sizes: Sequence[int], offsets: Tensor | None, limits: Tensor | None
) -> Tensor:
    codes = _integers(codes)
    if offsets is None or limits is None:  # one table
        return rows.index_select(0, codes.flatten()).view(*codes.shape[:-1], rows.shape[-1])
    # A code that is out of range would read a row of another table: it is mapped to an index that F.embedding rejects.
    codes = codes.long()
    in_range = (codes >= 0) & (codes < limits)
    return F.embedding(torch.where(in_range, codes + offsets, sum(sizes)), rows).sum(-2)


_sum_of_rows = Operation("sum of rows")
_sum_of_rows.add("compiled", _compiled, _unsupported_reason)
_sum_of_rows.add("reference", _reference)
