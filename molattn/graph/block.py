"""The graph network block: Battaglia's six equations."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

from torch import Tensor, nn

from molattn.attention import ConcatHeads
from molattn.attention.arguments import check_dropout, check_sizes, resolve_name
from molattn.attention.dropout import active_dropout
from molattn.attention.unmodified import are_unmodified
from molattn.graph.aggregate import (
    EDGES_TO_GRAPH,
    EDGES_TO_NODES,
    NODES_TO_GRAPH,
    EdgesToGraph,
    EdgesToNodes,
    NodesToGraph,
    sum_edges,
)
from molattn.graph.edge_update import AttentionEdgeUpdate
from molattn.graph.graph import AnyGraph, DenseGraph
from molattn.graph.messages import EdgeMessages, MaterializedMessages, Messages
from molattn.graph.stack import forward_block
from molattn.graph.unmodified import has_bias
from molattn.graph.updates import GlobalUpdate, NodeUpdate
from molattn.kernels.blocks import BlockTensors, BlockWeights

M = TypeVar("M", EdgeMessages, MaterializedMessages, Messages)
EdgeFeatureUpdate = Callable[[Messages, Tensor | None], Tensor]


@runtime_checkable
class EdgeUpdate(Protocol):
    """The interface of a phi_e: a module with `forward` and `materialize`, as `AttentionEdgeUpdate` has them.

    e'_k = phi_e(e_k, v_r, v_s, u), for all edges at once. The block passes a graph whose nodes and u are normalized. If
    the heads of e'_k differ from the block's in number or size, phi_e must have the attributes `num_heads` and
    `head_dim`.

    Source: Battaglia et al. 2018, arXiv:1806.01261, algorithm 1.

    A phi_e for edge lists, whose e'_k is the sender's features:

    >>> import torch
    >>> from molattn.graph import EdgeUpdate, Graph, GraphNetBlock, MaterializedMessages
    >>> class Copy(torch.nn.Module):
    ...     def forward(self, graph):
    ...         v_s = graph.gather_senders(graph.v)
    ...         return MaterializedMessages(graph, torch.ones(len(v_s), 1), v_s.unsqueeze(1))
    ...     materialize = forward
    >>> block = GraphNetBlock(node_dim=4, num_heads=1, phi_e=Copy())
    >>> tuple(block(Graph.from_edge_index(torch.randn(3, 4), torch.tensor([[1, 2], [0, 0]]))).v.shape)
    (3, 4)
    >>> isinstance(Copy(), EdgeUpdate)
    True
    """

    def __call__(self, graph: AnyGraph) -> Messages:
        """The e'_k of every edge of `graph`; `EdgeMessages`, which are not materialized, if that is faster."""
        ...

    def materialize(self, graph: AnyGraph) -> MaterializedMessages:
        """The e'_k of every edge of `graph`, materialized; a dense graph is converted to an edge list."""
        ...


@runtime_checkable
class PhiV(Protocol):
    """The interface of a phi_v: a module, such as `NodeUpdate`, or a function.

    v'_i = phi_v(ebar'_i, v_i, u), for all nodes at once.

    Source: Battaglia et al. 2018, arXiv:1806.01261, algorithm 1.

    >>> import torch
    >>> from molattn.graph import DenseGraph, GraphNetBlock
    >>> def only_edges(ebar, graph):  # v'_i = ebar'_i
    ...     return ebar
    >>> block = GraphNetBlock(node_dim=16, num_heads=4, phi_v=only_edges)
    >>> tuple(block(DenseGraph(torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool))).v.shape)
    (2, 5, 16)
    """

    def __call__(self, ebar: Tensor, graph: AnyGraph, /) -> Tensor:
        """The new nodes, (n, c) of an edge list or (b, n, c) of a dense graph.

        Args:
            ebar: the edges into each node, aggregated by rho_ev and joined: (n, d) or (b, n, d).
            graph: the block's input: `graph.v` is v_i, and `graph.broadcast_to_nodes(graph.u)` is u for each node.
        """
        ...


@runtime_checkable
class PhiU(Protocol):
    """The interface of a phi_u: a module, such as `GlobalUpdate`, or a function.

    u' = phi_u(ebar', vbar', u), for all graphs at once.

    Source: Battaglia et al. 2018, arXiv:1806.01261, algorithm 1.

    >>> import torch
    >>> from molattn.graph import DenseGraph, GraphNetBlock
    >>> def only_nodes(ebar, vbar, u):  # u' = vbar'
    ...     return vbar
    >>> block = GraphNetBlock(node_dim=16, num_heads=4, phi_u=only_nodes)
    >>> after = block(DenseGraph(torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool)))
    >>> torch.allclose(after.u, after.v.sum(1), atol=1e-5)
    True
    """

    def __call__(self, ebar: Tensor, vbar: Tensor, u: Tensor | None, /) -> Tensor:
        """The new graph features, (b, c).

        Args:
            ebar: (b, h * d), the e'_k of each graph, aggregated by rho_eu.
            vbar: (b, c), the v'_i of each graph, aggregated by rho_vu.
            u: (b, d_u), or None for graphs without u.
        """
        ...


class GraphNetBlock(nn.Module):
    """A graph network block whose edge update is attention.

    e'_k    = phi_e(e_k, v_r, v_s, u)        multi-head attention of a receiver to its senders and edges
    ebar'_i = rho_ev(E'_i)                   a sum, the heads joined by `join`
    v'_i    = phi_v(ebar'_i, v_i, u)         residual, feed-forward
    ebar'   = rho_eu(E')                     over all edges of the graph, heads concatenated
    vbar'   = rho_vu(V')
    u'      = phi_u(ebar', vbar', u)

    The inputs of phi_e are the normalized nodes and u (pre-norm; `norm_v` and `norm_u` can be set to `nn.Identity()`),
    and the output graph has the input's e, unless `edges` is given. Every part can be replaced by passing another; the
    layers in `molattn.graph.blocks` are built in this way.

    With a global_dim of 0 and no phi_u passed, the block stops after v'. A phi_u that is passed always runs, as in
    graph_nets and jraph, and may create u for graphs without one. The default phi_e reads u, so that graphs with u need
    their global_dim.

    Args:
        node_dim, edge_dim, global_dim: d_v, d_e, d_u; 0 for graphs without edge or graph features.
        num_heads: h; a head has node_dim / h channels.
        hidden_dim: channels inside the feed-forward steps; 2 * node_dim by default.
        global_aggr: the default of rho_eu and rho_vu, a name in `EDGES_TO_GRAPH` and `NODES_TO_GRAPH`.
        dropout: dropout probability, in training.
        phi_e: the edge update; `AttentionEdgeUpdate` of these sizes by default.
        rho_ev: the aggregation of edges, a name in `EDGES_TO_NODES` or a function or module of the messages.
        join: the layer from the aggregated heads to node_dim channels; `ConcatHeads` by default.
        edges: the update of the edge features, a function or module of the messages and of e, such as `ResidualEdges`;
            None leaves e unchanged.
        phi_v: the node update, a module or function with the interface `PhiV`; `NodeUpdate` by default.
        rho_eu: the aggregation of a graph's edges, a name in `EDGES_TO_GRAPH` or a function or module of the messages.
        rho_vu: the aggregation of a graph's nodes, a name in `NODES_TO_GRAPH` or a function or module of v' and the
            graph.
        phi_u: the global update, a module or function with the interface `PhiU`; `GlobalUpdate` by default, which needs
            a phi_v that keeps node_dim channels, and a rho_eu and rho_vu that keep the channels of e' and v'.

    Raises:
        ValueError: a size below 1, or below 0 for edge_dim and global_dim; num_heads does not divide node_dim; dropout
            is not in [0, 1); an unknown aggregation; or, at a call, a graph whose edge or graph features do not have
            edge_dim or global_dim channels.
        TypeError: a global_aggr that is not a name.

    Source: Battaglia et al. 2018, arXiv:1806.01261, algorithm 1.

    >>> import torch
    >>> from molattn.graph import DenseGraph, GraphNetBlock
    >>> block = GraphNetBlock(node_dim=16, num_heads=4, edge_dim=3, global_dim=8)
    >>> two_molecules = DenseGraph(
    ...     v=torch.randn(2, 5, 16), node_mask=torch.tensor([[True] * 5, [True] * 3 + [False] * 2]),
    ...     e=torch.randn(2, 5, 5, 3), u=torch.zeros(2, 8))
    >>> after, messages = block.forward_with_messages(two_molecules)
    >>> tuple(after.v.shape), tuple(after.u.shape), tuple(messages.weights.shape)
    ((2, 5, 16), (2, 8), (2, 4, 5, 5))

    Custom parts can be functions, here in a block that counts edges:

    >>> block = GraphNetBlock(
    ...     node_dim=16, num_heads=4, edge_dim=3, phi_v=lambda ebar, graph: graph.v + ebar,
    ...     rho_eu=lambda messages: messages.graph.count_all_edges().unsqueeze(-1).float(),
    ...     phi_u=lambda ebar, vbar, u: ebar)
    >>> block(two_molecules.replace(u=None)).u.flatten().tolist()
    [25.0, 9.0]
    """

    phi_e: EdgeUpdate
    phi_v: PhiV
    phi_u: PhiU | None

    def __init__(
        self,
        node_dim: int,
        num_heads: int,
        edge_dim: int = 0,
        global_dim: int = 0,
        hidden_dim: int | None = None,
        global_aggr: str = "sum",
        dropout: float = 0.0,
        *,
        phi_e: EdgeUpdate | None = None,
        rho_ev: str | EdgesToNodes = "sum",
        join: nn.Module | None = None,
        edges: EdgeFeatureUpdate | None = None,
        phi_v: PhiV | None = None,
        rho_eu: str | EdgesToGraph | None = None,
        rho_vu: str | NodesToGraph | None = None,
        phi_u: PhiU | None = None,
    ):
        super().__init__()
        if not isinstance(global_aggr, str):
            raise TypeError("global_aggr is a name: pass a function of nodes as rho_vu, a function of edges as rho_eu")
        check_sizes(node_dim=node_dim, num_heads=num_heads, hidden_dim=hidden_dim)
        check_sizes(0, edge_dim=edge_dim, global_dim=global_dim)
        check_dropout(dropout)
        if node_dim % num_heads:
            raise ValueError(f"{num_heads} heads do not divide {node_dim} node channels")
        self.node_dim, self.edge_dim, self.global_dim = node_dim, edge_dim, global_dim
        head_dim, hidden_dim = node_dim // num_heads, 2 * node_dim if hidden_dim is None else hidden_dim
        self.norm_v = nn.LayerNorm(node_dim)
        self.norm_u = nn.LayerNorm(global_dim) if global_dim else None
        if phi_e is None:
            phi_e = AttentionEdgeUpdate(node_dim, num_heads, head_dim, edge_dim, global_dim, dropout)
        self.phi_e = phi_e
        num_heads, head_dim = getattr(phi_e, "num_heads", num_heads), getattr(phi_e, "head_dim", head_dim)
        self.rho_ev = resolve_name(rho_ev, EDGES_TO_NODES, "aggregation")
        self.join = ConcatHeads(num_heads, head_dim, node_dim) if join is None else join
        if phi_v is None:
            phi_v = NodeUpdate(node_dim, global_dim=global_dim, hidden_dim=hidden_dim, dropout=dropout)
        self.phi_v = phi_v
        if phi_u is None and global_dim:
            width = num_heads * head_dim
            phi_u = GlobalUpdate(node_dim, global_dim=global_dim, hidden_dim=hidden_dim, message_dim=width)
        self.phi_u = phi_u
        self.rho_eu = resolve_name(global_aggr if rho_eu is None else rho_eu, EDGES_TO_GRAPH, "aggregation")
        self.rho_vu = resolve_name(global_aggr if rho_vu is None else rho_vu, NODES_TO_GRAPH, "aggregation")
        self.edges = edges

    def forward(self, graph: AnyGraph) -> AnyGraph:
        """The updated graph, of the same form (edge list or dense) as `graph`; the default parts keep all shapes.

        Args:
            graph: with edge_dim edge features and global_dim graph features.

        Returns:
            The graph with v', zero in the padding of a dense graph, and the other features that are updated.

        Raises:
            ValueError: nodes or edge features with another number of channels, or edge features of another dtype.
            TypeError: a node_mask that is not boolean.
        """
        return forward_block(self, graph) if isinstance(graph, DenseGraph) else self.forward_unfused(graph)

    def forward_unfused(self, graph: AnyGraph) -> AnyGraph:
        """`forward(graph)` without the fused operation."""
        return self._equations(graph, self.phi_e)[0]

    def forward_with_messages(self, graph: AnyGraph) -> tuple[AnyGraph, Messages]:
        """`forward(graph)`, and the e'_k, whose attention weights are those that the sum used."""
        return self._equations(graph, self._with_weights)

    def _with_weights(self, graph: AnyGraph) -> Messages:
        messages = self.phi_e(graph)
        _ = messages.weights  # from now on, messages.sum() uses these weights
        return messages

    def materialize(self, graph: AnyGraph) -> tuple[AnyGraph, MaterializedMessages]:
        """`forward_with_messages(graph)` with every e'_k materialized; returns an edge list. Same result, slower."""
        if isinstance(graph, DenseGraph):
            graph = graph.to_edge_list()
        return self._equations(graph, self.phi_e.materialize)

    def _equations(self, graph: AnyGraph, phi_e: Callable[[AnyGraph], M]) -> tuple[AnyGraph, M]:
        """The six equations, with the fast or the materialized form of phi_e."""
        e = phi_e(self._normed(graph))
        ebar_i = self.join(self.rho_ev(e))
        v = self.phi_v(ebar_i, graph)
        if isinstance(graph, DenseGraph):
            v = graph.zero_padding(v)
        graph = graph.replace(v=v, e=graph.e if self.edges is None else self.edges(e, graph.e))
        if self.phi_u is None:
            return graph, e
        ebar = self.rho_eu(e)
        vbar = self.rho_vu(v, graph)
        u = self.phi_u(ebar, vbar, graph.u)
        return graph.replace(u=u), e

    def fused_unsupported_reason(self, edge_dim: int) -> str:
        """Why this block cannot run fused with edges of `edge_dim` channels, as text; empty if it can.

        It can if each of its parts is exactly of the default class with the default settings, and has no hook. Hooks of
        the block itself are not checked.
        """
        phi_e, phi_v, join = self.phi_e, self.phi_v, self.join
        if type(self) is not GraphNetBlock:
            return f"{type(self).__name__} is a subclass of GraphNetBlock"
        if not isinstance(phi_e, AttentionEdgeUpdate):
            return f"its phi_e is {type(phi_e).__name__}"
        if why := phi_e.fused_unsupported_reason():
            return why
        if phi_e.edge_dim != edge_dim:
            return f"edges of {edge_dim} channels, not {phi_e.edge_dim}"
        if self.phi_u is not None or self.edges is not None or self.rho_ev is not sum_edges:
            return "a phi_u, edges that are updated, or a rho_ev other than the sum"
        if not isinstance(phi_v, NodeUpdate) or not are_unmodified(NodeUpdate, phi_v) or phi_v.w_u is not None:
            return "a phi_v other than the default, or with a hook"
        if not isinstance(join, ConcatHeads) or not are_unmodified(ConcatHeads, join):
            return "a join other than the default, or with a hook"
        if not phi_v.fuses_gelu():
            return "a feed-forward network other than the default, or with a hook"
        first, _, _, last = phi_v.feed_forward
        norms, linear_layers = (self.norm_v, phi_v.norm), (join.linear, first, last)
        if not are_unmodified(nn.LayerNorm, *norms) or not are_unmodified(nn.Linear, *linear_layers):
            return "a norm or a linear layer that was replaced or has a hook"
        if not all(map(has_bias, (*norms, *linear_layers))):
            return "a norm or a linear layer without a bias"
        if active_dropout(phi_e.dropout, phi_e.training) != active_dropout(phi_v.dropout, phi_v.training):
            return "different dropouts in phi_e and phi_v"
        return ""

    def fused_weights(self) -> BlockWeights:
        """The weights of the fused operation, for a block that supports it: see `fused_unsupported_reason`."""
        phi_e: Any = self.phi_e
        phi_v: Any = self.phi_v
        first, _, _, last = phi_v.feed_forward
        join: Any = self.join
        o, norm_v, norm_x = join.linear, self.norm_v, phi_v.norm
        tensors: dict[str, Any] = {
            **{"norm_v_w": norm_v.weight, "norm_v_b": norm_v.bias},
            **{"w_q": phi_e.w_q.weight, "w_k": phi_e.w_k.weight, "w_v": phi_e.w_v.weight},
            **{"w_ke": phi_e.w_ke.weight, "w_ve": phi_e.w_ve.weight},
            "w_be": None if phi_e.w_be is None else phi_e.w_be.weight,
            **{"o_w": o.weight, "o_b": o.bias, "norm_x_w": norm_x.weight, "norm_x_b": norm_x.bias},
            **{"first_w": first.weight, "first_b": first.bias, "last_w": last.weight, "last_b": last.bias},
        }
        dropout = active_dropout(phi_v.dropout, phi_v.training)
        return BlockWeights(phi_e.num_heads, (norm_v.eps, norm_x.eps), dropout, BlockTensors(**tensors))

    def _normed(self, graph: AnyGraph) -> AnyGraph:
        u = graph.u if self.norm_u is None or graph.u is None else self.norm_u(graph.u)
        return graph.replace(v=self.norm_v(graph.v), u=u)
