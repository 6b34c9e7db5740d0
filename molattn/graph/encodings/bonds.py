"""The bond between two atoms as features of their edge, and the degree of an atom."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from molattn.graph.embedding import SumEmbedding, look_up
from molattn.graph.encodings.base import Encoding, Molecules, adjacency, pair_mask
from molattn.graph.stack import EdgeEmbedding


def bond_codes(molecules: Molecules) -> Integer[Tensor, "b n n"]:
    """(b, n, n) bytes: the bond codes, set to 0 in the padding."""
    return molecules.bond_codes.masked_fill(~pair_mask(molecules), 0)


class BondEncoding(Encoding):
    """A learned embedding of each bond.

    e_ij = B[bond_ij]
    B[c] = sum_f T_f[c_f]                a bond code is F small integers packed in a byte

    B is computed once per call, not once per pair. Pairs without a bond have a code of their own, and so an embedding.

    Shapes: molecules of n atoms -> (b, n, n, dim).

    Args:
        unpacked_codes: (bonds, F), the F integers of each packed bond code.
        sizes: the number of values of each of the F integers.
        dim: channels.
    """

    unpacked_codes: Tensor

    def __init__(self, unpacked_codes: Tensor, sizes: Sequence[int], dim: int):
        super().__init__()
        self.dim = dim
        self.bond = SumEmbedding(sizes, dim)
        self.register_buffer("unpacked_codes", unpacked_codes.long(), persistent=False)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n d"]:
        return look_up(self.bond(self.unpacked_codes), bond_codes(molecules))

    def edge_embedding(self, molecules: Molecules) -> EdgeEmbedding:
        """A table with a row for each packed bond code."""
        return EdgeEmbedding((self.bond(self.unpacked_codes),), (molecules.bond_codes,))


class BondOneHot(Encoding):
    """One-hot bond features, without learned parameters.

    e_ij = [onehot(c_1), ..., onehot(c_F)]        for bond_ij = (c_1, ..., c_F)

    Shapes: molecules of n atoms -> (b, n, n, dim), dim being the sum of `sizes`.

    Args:
        unpacked_codes: (bonds, F), the F integers of each packed bond code.
        sizes: the number of values of each of the F integers.

    Source: the bond features of the relative self-attention of R-MAT, Maziarka et al. 2021, arXiv:2110.05841.
    """

    table: Tensor

    def __init__(self, unpacked_codes: Tensor, sizes: Sequence[int]):
        super().__init__()
        self.dim = sum(sizes)
        columns = [F.one_hot(codes, size) for codes, size in zip(unpacked_codes.long().unbind(-1), sizes, strict=True)]
        table = torch.cat(columns, dim=-1).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n d"]:
        return look_up(self.table, bond_codes(molecules))


class DegreeEncoding(Encoding):
    """A learned embedding of the number of neighbours.

    x_i = Z[min(deg_i, max_degree)]        deg_i = sum_j A_ij

    Shapes: molecules of n atoms -> (b, n, dim).

    Args:
        dim: channels.
        max_degree: atoms with this many neighbours or more share one row.

    Source: the centrality encoding of Graphormer, Ying et al. 2021, arXiv:2106.05234, equation 5; bonds have no
    direction here, so one table serves for both of its degrees.
    """

    def __init__(self, dim: int, max_degree: int):
        super().__init__()
        self.dim, self.max_degree = dim, max_degree
        self.degree = nn.Embedding(max_degree + 1, dim)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n d"]:
        return look_up(self.degree.weight, adjacency(molecules).sum(-1).clamp(max=self.max_degree))
