"""GRIT: attention whose logits are computed from edge representations, which every block updates."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molattn.attention import softmax
from molattn.attention.arguments import check_dropout, check_sizes
from molattn.attention.dropout import Dropout, dropout
from molattn.graph.block import GraphNetBlock
from molattn.graph.blocks.config import BlockConfig, require_edge_features
from molattn.graph.graph import AnyGraph, DenseGraph, Graph
from molattn.graph.messages import EdgeMessages, MaterializedMessages, Messages, not_none

# rho(x) = sign(x) sqrt(|x|) has an infinite slope at 0; this makes the gradient finite.
_EPS = 1e-6


class GritEdgeUpdate(nn.Module):
    """GRIT's attention: queries, keys and edge features give h_k, from which the logits and the new edges are computed.

    h_k     = relu( rho( (W_q v_r + b_q + W_k v_s) * (W_ew e_k + b_ew) ) + W_eb e_k + b_eb )      (h, d) of each edge
    alpha_k = softmax_k( w_a . h_k )
    e'_k    = alpha_k (W_v v_s + W_ve h_k)                                                        in each head

    with * elementwise, rho(x) = sign(x) sqrt(|x|), computed as x / sqrt(|x| + 1e-6), and the edges normalized
    first (pre-norm). h_k is materialized for every edge and returned as `edges` of the messages.

    Args:
        node_dim, edge_dim: d_v and d_e.
        num_heads, head_dim: h and d.
        dropout: probability of dropping a weight, in training.

    Raises:
        ValueError: no edge features; a size below 1; dropout is not in [0, 1); at a call, a graph without edge features
            of that size, or with graph features.

    Source: Ma et al. 2023, arXiv:2305.17589, whose logits are not bounded; the authors' code clamps them to [-5, 5].

    >>> import torch
    >>> from molattn.graph import DenseGraph
    >>> from molattn.graph.blocks import GritEdgeUpdate
    >>> phi_e = GritEdgeUpdate(node_dim=16, num_heads=4, head_dim=8, edge_dim=3)
    >>> graph = DenseGraph(torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool), torch.randn(2, 5, 5, 3))
    >>> messages = phi_e(graph)
    >>> tuple(messages.edges.shape), torch.allclose(messages.weights.sum(-1), torch.ones(2, 4, 5))
    ((2, 5, 5, 4, 8), True)
    """

    def __init__(self, node_dim: int, num_heads: int, head_dim: int, edge_dim: int, dropout: float = 0.0):
        super().__init__()
        require_edge_features(edge_dim)
        check_sizes(node_dim=node_dim, num_heads=num_heads, head_dim=head_dim)
        check_dropout(dropout)
        self.num_heads, self.head_dim, self.dropout = num_heads, head_dim, dropout
        self.node_dim, self.edge_dim = node_dim, edge_dim
        width = num_heads * head_dim
        self.norm_e = nn.LayerNorm(edge_dim)
        self.w_q = nn.Linear(node_dim, width)
        self.w_k = nn.Linear(node_dim, width, bias=False)
        self.w_v = nn.Linear(node_dim, width, bias=False)
        self.w_ew = nn.Linear(edge_dim, width)
        self.w_eb = nn.Linear(edge_dim, width)
        self.w_a = nn.Parameter(torch.randn(num_heads, head_dim) * head_dim**-0.5)
        self.w_ve = nn.Parameter(torch.randn(num_heads, head_dim, head_dim) * head_dim**-0.5)

    def forward(self, graph: AnyGraph) -> EdgeMessages:
        """The e'_k of every edge, not materialized; h_k is.

        Raises:
            ValueError: a graph without edge_dim edge features, or with graph features.
        """
        h, v = self._pair_features(graph)
        logits = (h * self.w_a).sum(-1)
        weights = softmax(logits if isinstance(graph, Graph) else logits.permute(0, 3, 1, 2), graph.attention_layout)
        values = v if isinstance(graph, Graph) else v.transpose(1, 2)
        return EdgeMessages(graph, weights, self._drop(weights), values, h, self.w_ve)

    def materialize(self, graph: AnyGraph) -> MaterializedMessages:
        """The e'_k of every edge of `graph`, materialized; a dense graph is converted to an edge list.

        Raises:
            ValueError: as `forward`.
        """
        if isinstance(graph, DenseGraph):
            graph = graph.to_edge_list()
        h, v = self._pair_features(graph)
        weights = softmax((h * self.w_a).sum(-1), graph.attention_layout)
        values = v[graph.sender] + torch.einsum("mhf,hdf->mhd", h, self.w_ve)
        return MaterializedMessages(graph, weights, self._drop(weights).unsqueeze(-1) * values, h)

    def _pair_features(self, graph: AnyGraph) -> tuple[Tensor, Tensor]:
        """h_k of every edge, (m, h, d) or (b, i, j, h, d), zeros where there is no edge, and v, (..., n, h, d)."""
        num_features = 0 if graph.e is None else graph.e.shape[-1]
        if num_features != self.edge_dim or graph.u is not None:
            raise ValueError(
                f"this layer takes {self.edge_dim} edge features and no graph features, not {num_features}"
            )
        q, k, v = (w(graph.v).unflatten(-1, (self.num_heads, -1)) for w in (self.w_q, self.w_k, self.w_v))
        e = self.norm_e(not_none(graph.e))
        scale, shift = (w(e).unflatten(-1, (self.num_heads, -1)) for w in (self.w_ew, self.w_eb))
        x = (graph.gather_receivers(q) + graph.gather_senders(k)) * scale
        h = F.relu(x / (x.abs() + _EPS).sqrt() + shift)
        return (h if isinstance(graph, Graph) else h.masked_fill(~graph.edges[..., None, None], 0.0)), v

    def _drop(self, weights: Tensor) -> Tensor:
        return dropout(weights, self.dropout, self.training)


class DegreeScaledSum(nn.Module):
    """rho e->v: the sum over the edges, scaled by the node's degree, which normalized weights do not represent.

    ebar_i = a * sum_k e'_k + b * log(1 + degree_i) sum_k e'_k,    a and b learned, channel by channel

    degree_i is the `degree` of the graph, or the number of edges into node i if it has none. a is initialized with ones
    and b with zeros.

    Shapes: (n, h * d) of an edge list, (b, n, h * d) of a dense graph.

    Args:
        width: h * d.

    Source: Ma et al. 2023, arXiv:2305.17589.

    >>> import torch
    >>> from molattn.graph import Graph, MaterializedMessages
    >>> from molattn.graph.blocks import DegreeScaledSum
    >>> graph = Graph.from_edge_index(torch.zeros(3, 2), torch.tensor([[1, 2], [0, 0]]))  # 1 -> 0 and 2 -> 0
    >>> messages = MaterializedMessages(graph, torch.ones(2, 1), torch.ones(2, 1, 2))
    >>> DegreeScaledSum(width=2)(messages).tolist()  # before training: the sum
    [[2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
    """

    def __init__(self, width: int):
        super().__init__()
        self.a = nn.Parameter(torch.ones(width))
        self.b = nn.Parameter(torch.zeros(width))

    def forward(self, messages: Messages) -> Tensor:
        """ebar_i of every node from the e'_k of every edge, `messages`."""
        graph, total = messages.graph, messages.sum()
        degree = graph.count_edges() if graph.degree is None else graph.degree
        return self.a * total + self.b * torch.log1p(degree.to(total.dtype)).unsqueeze(-1) * total


class GritEdges(nn.Module):
    """GRIT's update of the edge features, a residual step with the h_k of `GritEdgeUpdate`.

    e_k <- e_k + dropout(W h_k + b)

    Args:
        edge_dim: d_e.
        width: h * d, the channels of h_k.
        dropout: dropout probability, in training.

    Raises:
        ValueError: dropout is not in [0, 1).

    Source: Ma et al. 2023, arXiv:2305.17589.

    >>> import torch
    >>> from molattn.graph import DenseGraph
    >>> from molattn.graph.blocks import GritEdges, GritEdgeUpdate
    >>> phi_e = GritEdgeUpdate(node_dim=16, num_heads=4, head_dim=8, edge_dim=3)
    >>> v, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 3)
    >>> messages = phi_e(DenseGraph(v, torch.ones(2, 5, dtype=torch.bool), e))
    >>> tuple(GritEdges(edge_dim=3, width=32)(messages, e).shape)
    (2, 5, 5, 3)
    """

    def __init__(self, edge_dim: int, width: int, dropout: float = 0.0):
        super().__init__()
        check_dropout(dropout)
        self.w = nn.Linear(width, edge_dim)
        self.dropout = Dropout(dropout)

    def forward(self, messages: Messages, e: Tensor) -> Tensor:
        """The edge features after the block, of the shape of `e`.

        Args:
            messages: those of `GritEdgeUpdate`, whose `edges` are h_k.
            e: the edge features before the block: (m, d_e) of an edge list, (b, n, n, d_e) of a dense graph.
        """
        return e + self.dropout(self.w(not_none(messages.edges).flatten(-2)))


def grit(config: BlockConfig) -> GraphNetBlock:
    """GRIT's layer: `GritEdgeUpdate`, `DegreeScaledSum` and `GritEdges` in the block.

    It has the block's layer norms before each step in place of the authors' batch norms after it: with batch norms, the
    output for a molecule would depend on the rest of the batch.

    Args:
        config: the sizes and settings of the block; those of the attention, and lambdas, keep their defaults.

    Raises:
        ValueError: a global_dim, since GRIT has no graph features; no edge features; a score, normalizer, join,
            temperature or lambdas; num_heads does not divide node_dim; an unknown global_aggr.

    Source: Ma et al. 2023, arXiv:2305.17589.

    >>> import torch
    >>> from molattn.graph import DenseGraph
    >>> from molattn.graph.blocks import BlockConfig, grit
    >>> block = grit(BlockConfig(node_dim=16, num_heads=4, edge_dim=3))
    >>> v, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 3)
    >>> after, messages = block.forward_with_messages(DenseGraph(v, torch.ones(2, 5, dtype=torch.bool), e))
    >>> tuple(after.v.shape), tuple(messages.weights.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """
    if config.global_dim:
        raise ValueError("GRIT has no graph features: set global_dim to 0")
    config.check_ignored("GRIT")
    return GraphNetBlock(
        **config.block_args,
        phi_e=GritEdgeUpdate(config.node_dim, config.num_heads, config.head_dim, config.edge_dim, config.dropout),
        rho_ev=DegreeScaledSum(config.node_dim),
        edges=GritEdges(config.edge_dim, config.node_dim, config.dropout),
    )
