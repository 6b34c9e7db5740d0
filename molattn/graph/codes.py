"""What edges say: pairs of small integers (bond, path length) become edge features e_ij."""

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


class PairCodes(nn.Module):
    """Edge features from the bond between two atoms and the length of the shortest path between them.

    e_ij = B[bond_ij] + P[min(length_ij, max_path)]        P has one more row for atoms that no path joins
    B[c] = sum_f T_f[c_f]                                  a bond code is a few small integers packed in a byte

    The codes stay bytes until they reach this layer, and B is formed once per call, not once per pair.

    Shapes: bond and length (...,) bytes -> (..., dim).

    Args:
        bond_parts: (bonds, F), what the integers of each packed bond code are.
        bond_sizes: how many values each of the F integers can take.
        dim: channels.
        max_path: longer paths share one row.
        disconnected: the byte that says that no path joins the two.
    """

    parts: Tensor

    def __init__(self, bond_parts: Tensor, bond_sizes: Sequence[int], dim: int, max_path: int, disconnected: int = 255):
        super().__init__()
        self.max_path, self.disconnected = max_path, disconnected
        self.bond = SumOfCodes(bond_sizes, dim)
        self.path = nn.Embedding(max_path + 2, dim)
        self.register_buffer("parts", bond_parts.long(), persistent=False)

    def forward(self, bond: Integer[Tensor, "*pairs"], length: Integer[Tensor, "*pairs"]) -> Float[Tensor, "*pairs d"]:
        bonds = self.bond(self.parts)
        row = length.clamp(max=self.max_path).masked_fill(length == self.disconnected, self.max_path + 1)
        features = bonds.index_select(0, bond.flatten().int()) + self.path.weight.index_select(0, row.flatten().int())
        return features.view(*bond.shape, features.shape[-1])
