"""A virtual node, connected to every node of a graph in both directions."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from molattn.graph.graph import AnyGraph, DenseGraph


class VirtualNode(nn.Module):
    """Adds a virtual node to each graph, connected to all others.

    v_0 = a learned vector
    e_0j, e_i0, e_00 = three learned vectors: edges to the virtual node, edges from it, its self-loop

    The virtual node is node 0, and node i becomes node i + 1. Nodes, edges and masks grow by one; u is unchanged. The
    virtual node has no bonds, and so degree 0. If there is an `edge_mask`, it is True for the new edges; the padding
    has no edges.

    Args:
        node_dim, edge_dim: d_v and d_e; edge_dim 0 for graphs without edge features.
        edge_features: (3, d_e), fixed features of the edges to the virtual node, of those from it and of its self-loop,
            instead of learned ones.

    Raises:
        ValueError: edge_features of another shape; at a call, a graph whose edge features do not have edge_dim
            channels.
        TypeError: at a call, a graph that is not a `DenseGraph`.

    Source: the special node of Graphormer, Ying et al. 2021, arXiv:2106.05234, section 3.2.

    >>> import torch
    >>> from molattn.graph import DenseGraph, VirtualNode
    >>> mask = torch.tensor([[True, True, True], [True, False, False]])
    >>> graph = VirtualNode(node_dim=8, edge_dim=2)(DenseGraph(torch.randn(2, 3, 8), mask, torch.randn(2, 3, 3, 2)))
    >>> tuple(graph.v.shape), tuple(graph.e.shape), graph.count_nodes().tolist()
    ((2, 4, 8), (2, 4, 4, 2), [4, 2])
    >>> torch.equal(graph.v[0, 0], graph.v[1, 0])  # the same learned vector in each graph
    True
    """

    edge_features: Tensor

    def __init__(self, node_dim: int, edge_dim: int = 0, edge_features: Float[Tensor, "3 d_e"] | None = None):
        super().__init__()
        self.edge_dim = edge_dim
        self.v = nn.Parameter(torch.randn(node_dim))
        if edge_features is not None and edge_features.shape != (3, edge_dim):
            shape = tuple(edge_features.shape)
            raise ValueError(f"edge_features {shape} are not 3 rows of edge_dim={edge_dim} channels")
        if edge_features is None:
            self.edge_features = nn.Parameter(torch.randn(3, edge_dim))
        else:
            self.register_buffer("edge_features", edge_features.clone())

    def forward(self, graph: AnyGraph) -> DenseGraph:
        """The graphs with a virtual node each: v, (b, n, d_v), becomes (b, n + 1, d_v), and so on.

        Args:
            graph: with edge_dim edge features.

        Raises:
            TypeError: a graph that is not a `DenseGraph`; a mask that is not boolean.
            ValueError: edge features that do not have edge_dim channels; masks of another shape than the nodes.
        """
        if not isinstance(graph, DenseGraph):
            raise TypeError(f"VirtualNode takes a DenseGraph, not a {type(graph).__name__}")
        graph.check_masks()
        b, _ = graph.node_mask.shape
        is_node = graph.node_mask.new_ones(b, 1)
        return DenseGraph(
            v=torch.cat([self.v.expand(b, 1, -1), graph.v], dim=1),
            node_mask=torch.cat([is_node, graph.node_mask], dim=1),
            e=self._edges(graph),
            u=graph.u,
            edge_mask=None if graph.edge_mask is None else _prepend_true(graph.edge_mask),
            degree=None if graph.degree is None else F.pad(graph.degree, (1, 0)),
        )

    def _edges(self, graph: DenseGraph) -> Float[Tensor, "b m m d_e"] | None:
        width = 0 if graph.e is None else graph.e.shape[-1]
        if self.edge_dim != width:
            raise ValueError(f"the graph has {width} features in e, the layer was made with edge_dim={self.edge_dim}")
        if graph.e is None:
            return None
        b, n = graph.node_mask.shape
        to_virtual, from_virtual, self_loop = self.edge_features
        column = torch.cat([from_virtual.expand(b, n, 1, -1), graph.e], dim=2)
        row = torch.cat([self_loop.expand(b, 1, 1, -1), to_virtual.expand(b, 1, n, -1)], dim=2)
        return torch.cat([row, column], dim=1)


def _prepend_true(mask: Tensor) -> Tensor:
    """(b, n, n) -> (b, n + 1, n + 1), True in the new row and column."""
    b, n, _ = mask.shape
    with_column = torch.cat([mask.new_ones(b, n, 1), mask], dim=2)
    return torch.cat([mask.new_ones(b, 1, n + 1), with_column], dim=1)
