"""The bond between two atoms as features of their edge, learned or not."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor

from molattn.graph.embedding import SumEmbedding, look_up
from molattn.graph.encodings.molecules import Encoding, Molecules, pairs
from molattn.graph.stack import EdgeEmbedding


def bond_codes(molecules: Molecules) -> Integer[Tensor, "b n n"]:
    """(b, n, n) bytes: the bond codes, 0 in the padding whatever stands there."""
    return molecules.bond_codes.masked_fill(~pairs(molecules), 0)


class BondEncoding(Encoding):
    """A learned row per bond.

    e_ij = B[bond_ij]
    B[c] = sum_f T_f[c_f]                a bond code is a few small integers packed in a byte

    B is formed once per call, not once per pair. Pairs that no bond joins have a code, and so a row, too.

    Shapes: molecules of n atoms -> (b, n, n, dim).

    Args:
        parts: (bonds, F), what the integers of each packed bond code are.
        sizes: how many values each of the F integers can take.
        dim: channels.
    """

    parts: Tensor

    def __init__(self, parts: Tensor, sizes: Sequence[int], dim: int):
        super().__init__()
        self.dim = dim
        self.bond = SumEmbedding(sizes, dim)
        self.register_buffer("parts", parts.long(), persistent=False)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n d"]:
        return look_up(self.bond(self.parts), bond_codes(molecules))

    def edge_embedding(self, molecules: Molecules) -> EdgeEmbedding:
        """A row for each packed bond code."""
        return EdgeEmbedding((self.bond(self.parts),), (molecules.bond_codes,))


class BondOneHot(Encoding):
    """Bond features as ones and zeros: nothing is learned.

    e_ij = [onehot(c_1), ..., onehot(c_F)]        for bond_ij = (c_1, ..., c_F)

    Shapes: molecules of n atoms -> (b, n, n, dim), dim being the sum of `sizes`.

    Args:
        parts: (bonds, F), what the integers of each packed bond code are.
        sizes: how many values each of the F integers can take.

    Source: the bond features of the relative self-attention of R-MAT, Maziarka et al. 2021, arXiv:2110.05841.
    """

    table: Tensor

    def __init__(self, parts: Tensor, sizes: Sequence[int]):
        super().__init__()
        self.dim = sum(sizes)
        columns = [F.one_hot(codes, size) for codes, size in zip(parts.long().unbind(-1), sizes, strict=True)]
        table = torch.cat(columns, dim=-1).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n d"]:
        return look_up(self.table, bond_codes(molecules))
