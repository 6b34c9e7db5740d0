"""The bond between two atoms as features of their edge, and the degree of an atom as its features."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from molattn.graph.embedding import SumEmbedding, look_up, table_of
from molattn.graph.encodings.base import Encoding, Molecules, adjacency, pair_mask
from molattn.graph.stack import EdgeEmbedding


def bond_codes(molecules: Molecules) -> Integer[Tensor, "b n n"]:
    """The bond codes of `molecules`, set to 0 in the padding: (b, n, n) bytes."""
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

    Raises:
        ValueError: at a call, another number of `sizes` than F.
        IndexError: at a call, a bond code that is out of range.

    >>> import torch
    >>> from molattn.chem import BOND_FEATURES, BOND_SIZE, molecule_graph, unpack_bond
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import BondEncoding
    >>> codes = torch.from_numpy(unpack_bond(range(BOND_SIZE)))
    >>> encoding = BondEncoding(codes, [feature.size for feature in BOND_FEATURES], dim=8)
    >>> e = encoding(collate([molecule_graph("CCC=O")]))
    >>> torch.equal(e[0, 0, 1], e[0, 1, 2]), torch.equal(e[0, 0, 1], e[0, 2, 3])  # single, single; single, double
    (True, False)
    """

    unpacked_codes: Tensor

    def __init__(self, unpacked_codes: Tensor, sizes: Sequence[int], dim: int):
        super().__init__()
        self.dim = dim
        self.bond = SumEmbedding(sizes, dim)
        self.register_buffer("unpacked_codes", unpacked_codes.long(), persistent=False)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n d"]:
        """e_ij of every pair of atoms of `molecules`: (b, n, n, dim)."""
        return look_up(self.bond(self.unpacked_codes), bond_codes(molecules))

    def edge_embedding(self, molecules: Molecules) -> EdgeEmbedding:
        """The bonds of `molecules` as embeddings: a table with a row for each packed bond code."""
        return EdgeEmbedding((self.bond(self.unpacked_codes),), (molecules.bond_codes,))


class BondOneHot(Encoding):
    """One-hot bond features, without learned parameters.

    e_ij = [onehot(c_1), ..., onehot(c_F)]        for bond_ij = (c_1, ..., c_F)

    Shapes: molecules of n atoms -> (b, n, n, dim), dim being the sum of `sizes`.

    Args:
        unpacked_codes: (bonds, F), the F integers of each packed bond code.
        sizes: the number of values of each of the F integers.

    Raises:
        ValueError: another number of `sizes` than F.
        IndexError: at a call, a bond code that is out of range.

    Source: the bond features of the relative self-attention of R-MAT, Maziarka et al. 2021, arXiv:2110.05841.

    >>> import torch
    >>> from molattn.chem import BOND_FEATURES, BOND_SIZE, molecule_graph, unpack_bond
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import BondOneHot
    >>> codes = torch.from_numpy(unpack_bond(range(BOND_SIZE)))
    >>> e = BondOneHot(codes, [feature.size for feature in BOND_FEATURES])(collate([molecule_graph("C=C")]))
    >>> bond_type = BOND_FEATURES[0]
    >>> [bond_type.labels[k] for k in e[0, 0, :, : bond_type.size].argmax(-1).tolist()]  # atom 0 with atoms 0 and 1
    ['self', 'double']
    >>> e.sum(-1).unique().tolist()  # a one for each of the four features
    [4.0]
    """

    table: Tensor

    def __init__(self, unpacked_codes: Tensor, sizes: Sequence[int]):
        super().__init__()
        self.dim = sum(sizes)
        columns = [F.one_hot(codes, size) for codes, size in zip(unpacked_codes.long().unbind(-1), sizes, strict=True)]
        table = torch.cat(columns, dim=-1).to(torch.get_default_dtype())
        self.register_buffer("table", table, persistent=False)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n d"]:
        """e_ij of every pair of atoms of `molecules`: (b, n, n, dim)."""
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

    >>> import torch
    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import DegreeEncoding
    >>> x = DegreeEncoding(dim=8, max_degree=4)(collate([molecule_graph("CCO")]))
    >>> tuple(x.shape), torch.equal(x[0, 0], x[0, 2]), torch.equal(x[0, 0], x[0, 1])  # 1, 2 and 1 neighbours
    ((1, 3, 8), True, False)
    """

    def __init__(self, dim: int, max_degree: int):
        super().__init__()
        self.dim, self.max_degree = dim, max_degree
        self.degree = nn.Embedding(max_degree + 1, dim)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n d"]:
        """x_i of every atom of `molecules`: (b, n, dim)."""
        degrees = adjacency(molecules).sum(-1).clamp(max=self.max_degree)
        return look_up(table_of(self.degree, self.max_degree + 1, degrees.device), degrees)
