"""Things described by several small integers: rows of tables, looked up and added."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Integer
from torch import Tensor, nn


def look_up(rows: Float[Tensor, "c d"], codes: Integer[Tensor, "*things"]) -> Float[Tensor, "*things d"]:
    """x_i = rows[c_i], for any number of things with a small integer each.

    Shapes: rows (c, d) and codes (...,) -> (..., d).
    """
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
        return self.table(codes.long() + self.offsets).sum(-2)
