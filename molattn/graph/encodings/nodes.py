"""Encodings of single atoms: their degree."""

from jaxtyping import Float
from torch import Tensor, nn

from molattn.graph.embedding import look_up
from molattn.graph.encodings.base import Encoding, Molecules, adjacency


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
