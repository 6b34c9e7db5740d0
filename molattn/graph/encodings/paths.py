"""Shortest paths and random walks along bonds, as features of the edge between two atoms or of an atom."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float, Integer
from torch import Tensor, nn

from molattn.attention.arguments import check_sizes
from molattn.graph.embedding import SumEmbedding, look_up, table_of
from molattn.graph.encodings.base import Encoding, Molecules, adjacency, pair_mask
from molattn.graph.encodings.bonds import bond_codes
from molattn.graph.stack import EdgeEmbedding

DISCONNECTED = 255
"""The path length of pairs of atoms without a path, as in `molattn.chem.DISCONNECTED`."""


def path_codes(molecules: Molecules, max_path: int) -> Integer[Tensor, "b n n"]:
    """The length of the shortest path between each pair of atoms as a code, limited to `max_path`.

    c_ij = min(length_ij, max_path), or max_path + 1 without a path between i and j

    Args:
        molecules: of n atoms.
        max_path: paths of this length or longer share one code; in bonds.

    Returns:
        (b, n, n) integers, bytes if they suffice, 0 in the padding.

    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import path_codes
    >>> path_codes(collate([molecule_graph("CCCC.O")]), max_path=2)[0].tolist()  # 3: no path
    [[0, 1, 2, 2, 3], [1, 0, 1, 2, 3], [2, 1, 0, 1, 3], [2, 2, 1, 0, 3], [3, 3, 3, 3, 0]]
    """
    lengths = molecules.path_lengths
    codes = lengths if max_path < DISCONNECTED else lengths.int()
    codes = codes.clamp(max=max_path).masked_fill(lengths == DISCONNECTED, max_path + 1)
    return codes.masked_fill(~pair_mask(molecules), 0)


class PathEncoding(Encoding):
    """A learned embedding of the length of the shortest path.

    e_ij = P[min(length_ij, max_path)]        P has one more row for pairs of atoms without a path

    Shapes: molecules of n atoms -> (b, n, n, dim).

    Args:
        dim: channels.
        max_path: paths of this length or longer share one row; in bonds.

    Raises:
        ValueError: a size below 1, or a max_path below 0.

    Source: the distance of the spatial encoding of Graphormer, Ying et al. 2021, arXiv:2106.05234, here with `dim`
    channels.

    >>> import torch
    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import PathEncoding
    >>> e = PathEncoding(dim=8, max_path=2)(collate([molecule_graph("CCCC")]))
    >>> tuple(e.shape), torch.equal(e[0, 0, 2], e[0, 0, 3])  # paths of 2 and of 3 bonds
    ((1, 4, 4, 8), True)
    """

    code_of_length: Tensor

    def __init__(self, dim: int, max_path: int):
        super().__init__()
        check_sizes(dim=dim)
        check_sizes(0, max_path=max_path)
        self.dim, self.max_path = dim, max_path
        self.path = nn.Embedding(max_path + 2, dim)
        lengths = torch.arange(256).clamp(max=max_path)
        lengths[DISCONNECTED] = max_path + 1
        self.register_buffer("code_of_length", lengths, persistent=False)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n d"]:
        """e_ij of every pair of atoms of `molecules`: (b, n, n, dim)."""
        return look_up(self._table(), path_codes(molecules, self.max_path))

    def edge_embedding(self, molecules: Molecules) -> EdgeEmbedding:
        """The paths of `molecules` as embeddings: a table with a row for each possible byte."""
        return EdgeEmbedding((look_up(self._table(), self.code_of_length),), (molecules.path_lengths,))

    def _table(self) -> Tensor:
        return table_of(self.path, self.max_path + 2, self.code_of_length.device)


class AttentionBias(Encoding):
    """A learned bias of the logits, for each head and each code of a pair of atoms.

    e_ijh = T[c_ij, h]

    T is initialized with zeros, so that it has no effect before training.

    Shapes: molecules of n atoms -> (b, n, n, num_heads).

    Args:
        num_codes: the number of codes; at least 2 with the default `codes`.
        num_heads: h, which is also `dim`.
        codes: a function from molecules to (b, n, n) integers below `num_codes`, whose values in the padding are
            ignored. By default the code is the length of the shortest path, at most num_codes - 2, and num_codes - 1
            without a path.

    Raises:
        ValueError: a size below 1, or, for path lengths, a num_codes below 2.

    Source: with path lengths, the spatial encoding of Graphormer, Ying et al. 2021, arXiv:2106.05234, equation 6.

    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import AttentionBias
    >>> bias = AttentionBias(num_codes=12, num_heads=4)  # paths of 0 to 9, 10 or more bonds, and no path
    >>> e = bias(collate([molecule_graph("CCO")]))
    >>> tuple(e.shape), int(e.count_nonzero())
    ((1, 3, 3, 4), 0)
    """

    def __init__(self, num_codes: int, num_heads: int, codes: Callable[[Molecules], Tensor] | None = None):
        super().__init__()
        check_sizes(num_heads=num_heads)
        check_sizes(2 if codes is None else 1, num_codes=num_codes)
        self.dim, self.num_codes = num_heads, num_codes
        self.codes = codes or partial(path_codes, max_path=num_codes - 2)
        self.table = nn.Parameter(torch.zeros(num_codes, num_heads))

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n h"]:
        """e_ijh of every pair of atoms of `molecules` and every head: (b, n, n, h).

        Raises:
            IndexError: a code that is out of range; on a GPU it is the RuntimeError of a device-side assertion.
        """
        return look_up(self.table, self.codes(molecules).masked_fill(~pair_mask(molecules), 0))


class PathOneHot(Encoding):
    """The one-hot length of the shortest path, without learned parameters.

    e_ij = onehot(min(length_ij, max_path))        with one more column for pairs of atoms without a path

    Shapes: molecules of n atoms -> (b, n, n, dim), dim being max_path + 2.

    Args:
        max_path: paths of this length or longer share one column; in bonds.

    Raises:
        ValueError: a max_path below 0.

    Source: the neighbourhood embedding of R-MAT, Maziarka et al. 2021, arXiv:2110.05841.

    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import PathOneHot
    >>> e = PathOneHot(max_path=2)(collate([molecule_graph("CCO.O")]))
    >>> e[0, 0].int().tolist()  # from atom 0: to itself, to C, to O, to the other molecule
    [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    """

    table: Tensor

    def __init__(self, max_path: int):
        super().__init__()
        check_sizes(0, max_path=max_path)
        self.dim, self.max_path = max_path + 2, max_path
        self.register_buffer("table", torch.eye(self.dim), persistent=False)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n d"]:
        """e_ij of every pair of atoms of `molecules`: (b, n, n, dim)."""
        return look_up(self.table, path_codes(molecules, self.max_path))


class PathEdgeEncoding(Encoding):
    """The bonds along the shortest path, as the mean of a learned embedding of each bond at its position.

    e_ij = 1/L sum_(p=1..L) T_p[bond(a_(p-1), a_p)]        on the path i = a_0, a_1, ..., a_L = j, if L <= max_path
    T_p[c] = sum_f T_pf[c_f]                               a bond code is F small integers packed in a byte

    If there are several shortest paths, as in rings, e_ij is the mean over all of them, so that it does not depend on
    the order of the atoms. Position 1 is the bond at the receiver i. Every bond is read in the direction i -> j: its
    code is that of the pair (a_(p-1), a_p); only dative bonds have another code in the other direction. e_ij is zero
    for longer paths, without a path, and for an atom with itself.

    The paths are not enumerated. With A the adjacency, F_L(i, j) the number of shortest paths if length_ij = L and
    zero otherwise, and U_L(i, j) the sum, over these paths, of the embeddings of their bonds,

    F_1 = A,                F_L = [length = L] (F_(L-1) A)
    U_1 = A * T_1[bond],    U_L(i, j) = [length_ij = L] sum_k ( U_(L-1)(i, k) A_kj + F_(L-1)(i, k) A_kj T_L[bond_kj] )
    e_ij = U_L(i, j) / (L F_L(i, j))        with L = length_ij, and * elementwise

    Shapes: molecules of n atoms -> (b, n, n, dim). Costs 2 (max_path - 1) products of (n, n) with (n, n dim) matrices.

    Args:
        unpacked_codes: (bonds, F), the F integers of each packed bond code.
        sizes: the number of values of each of the F integers.
        dim: channels.
        max_path: the length of the longest path that is read; in bonds.

    Raises:
        ValueError: max_path below 1; at a call, another number of `sizes` than F.
        IndexError: at a call, a bond code that is out of range.

    Source: the edge encoding of Graphormer, Ying et al. 2021, arXiv:2106.05234, equation 7, which uses only
    one of the shortest paths.

    >>> import torch
    >>> from molattn.chem import BOND_FEATURES, BOND_SIZE, molecule_graph, unpack_bond
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import PathEdgeEncoding
    >>> codes, sizes = torch.from_numpy(unpack_bond(range(BOND_SIZE))), [feature.size for feature in BOND_FEATURES]
    >>> e = PathEdgeEncoding(codes, sizes, dim=8, max_path=2)(collate([molecule_graph("CCCO")]))
    >>> tuple(e.shape), e[0, 0].any(-1).tolist()  # from atom 0: 0 bonds, 1, 2, and 3, which is too long
    ((1, 4, 4, 8), [False, True, True, False])
    """

    unpacked_codes: Tensor

    def __init__(self, unpacked_codes: Tensor, sizes: Sequence[int], dim: int, max_path: int = 5):
        super().__init__()
        check_sizes(max_path=max_path)
        self.dim, self.max_path = dim, max_path
        self.positions = nn.ModuleList(SumEmbedding(sizes, dim) for _ in range(max_path))
        self.register_buffer("unpacked_codes", unpacked_codes.long(), persistent=False)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n d"]:
        """e_ij of every pair of atoms of `molecules`: (b, n, n, dim)."""
        bonded = adjacency(molecules)
        bonds = bond_codes(molecules).int().masked_fill(~bonded, len(self.unpacked_codes))
        # The last row, of zeros, is for pairs without a bond.
        first, *others = (F.pad(table(self.unpacked_codes), (0, 0, 0, 1)) for table in self.positions)
        f = a = bonded.to(first.dtype)  # F_1
        u = look_up(first, bonds.mT)  # U_1, transposed: [b, j, i] is the pair (i, j), so that no product copies it
        # U_L and L F_L, summed over L: each pair has one path length, and so only one nonzero term.
        embedding_sum, num_bonds = u, a
        for length, table in enumerate(others, start=2):
            has_length = (molecules.path_lengths == length).to(a.dtype)
            u = torch.einsum("bkj,bkid->bjid", a, u) + torch.einsum("bik,bkjd->bjid", f, look_up(table, bonds))
            u, f = u * has_length.unsqueeze(-1), (f @ a) * has_length
            embedding_sum, num_bonds = embedding_sum + u, num_bonds + length * f
        return (embedding_sum / num_bonds.clamp_min(1.0).unsqueeze(-1)).transpose(1, 2).contiguous()


def random_walks(molecules: Molecules, steps: int, dtype: torch.dtype | None = None) -> Float[Tensor, "b n n k"]:
    """The probabilities of random walks along the bonds between each pair of atoms.

    R_ij = [I, M, M^2, ..., M^(K-1)]_ij        with M = D^-1 A, D the diagonal matrix of the degrees

    R_ijk is the probability that a walk from i is at j after k steps, each along a random bond. For an atom without
    bonds, the row of M is zero.

    Args:
        molecules: of n atoms.
        steps: K, at least 1; the powers are those from 0 to K - 1.
        dtype: of the returned tensor; torch's default dtype if None.

    Returns:
        (b, n, n, K), zeros in the padding.

    Raises:
        ValueError: steps below 1.

    Source: Ma et al. 2023, arXiv:2305.17589.

    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import random_walks
    >>> walks = random_walks(collate([molecule_graph("CCO")]), steps=3)
    >>> walks[0, 0].tolist()  # from atom 0 to each atom, in 0, 1 and 2 steps
    [[1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 0.5]]
    """
    check_sizes(steps=steps)
    a = adjacency(molecules).to(dtype or torch.get_default_dtype())
    m = a / a.sum(-1, keepdim=True).clamp_min(1.0)
    powers = [torch.eye(a.shape[-1], dtype=a.dtype, device=a.device) * pair_mask(molecules)]
    for _ in range(steps - 1):
        powers.append(powers[-1] @ m)
    return torch.stack(powers, dim=-1)


class RandomWalkEncoding(Encoding):
    """Relative random-walk probabilities between pairs of atoms.

    e_ij = W R_ij + b
    R_ij = [I, M, M^2, ..., M^(K-1)]_ij        with M = D^-1 A

    Shapes: molecules of n atoms -> (b, n, n, dim).

    Args:
        steps: K, at least 1.
        dim: channels.

    Raises:
        ValueError: steps below 1.

    Source: the RRWP of GRIT, Ma et al. 2023, arXiv:2305.17589.

    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import RandomWalkEncoding
    >>> encoding = RandomWalkEncoding(steps=8, dim=16)
    >>> tuple(encoding(collate([molecule_graph("c1ccccc1O")])).shape)
    (1, 7, 7, 16)
    """

    def __init__(self, steps: int, dim: int):
        super().__init__()
        check_sizes(steps=steps)
        self.dim, self.steps = dim, steps
        self.linear = nn.Linear(steps, dim)

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n n d"]:
        """e_ij of every pair of atoms of `molecules`: (b, n, n, dim)."""
        return self.linear(random_walks(molecules, self.steps, self.linear.weight.dtype))


class RandomWalkNodes(RandomWalkEncoding):
    """The return probabilities of random walks, as features of one atom.

    x_i = W R_ii + b        with R as in `random_walks`

    Shapes: molecules of n atoms -> (b, n, dim).

    Args:
        steps: K, at least 1.
        dim: channels.

    Raises:
        ValueError: steps below 1.

    Source: Ma et al. 2023, arXiv:2305.17589.

    >>> import torch
    >>> from molattn.chem import molecule_graph
    >>> from molattn.data.store.batches import collate
    >>> from molattn.graph.encodings import RandomWalkNodes
    >>> x = RandomWalkNodes(steps=8, dim=16)(collate([molecule_graph("c1ccccc1")]))
    >>> tuple(x.shape), torch.allclose(x[0, 0], x[0, 1], atol=1e-5)  # the atoms of benzene have the same walks
    ((1, 6, 16), True)
    """

    def forward(self, molecules: Molecules) -> Float[Tensor, "b n d"]:
        """x_i of every atom of `molecules`: (b, n, dim)."""
        walks = random_walks(molecules, self.steps, self.linear.weight.dtype)
        return self.linear(walks.diagonal(dim1=1, dim2=2).mT)
