"""phi_e, the edge update: attention in which a receiver is the query, and its senders and their edges are the keys."""

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from molattn.attention import (
    EdgeTerms,
    Normalizer,
    PaddedGraphLayout,
    Score,
    attention_weights,
    linear,
    make_normalizer,
    make_score,
    softmax,
)
from molattn.attention.arguments import check_dropout, check_sizes
from molattn.attention.dropout import draw_dropout_mask
from molattn.attention.score import Location, scaled_dot
from molattn.attention.unmodified import are_unmodified
from molattn.errors import unknown_choice
from molattn.graph.graph import AnyGraph, DenseGraph, Graph
from molattn.graph.messages import (
    AttentionCall,
    EdgeMessages,
    LazyEdgeMessages,
    MaterializedMessages,
    apply_dropout,
    edge_value_terms,
    not_none,
)
from molattn.graph.unmodified import has_bias
from molattn.kernels.operations import all_true

EDGE_ROLES = ("keys", "values", "bias", "logits")
"""How edge features enter attention: in the keys, in the values, as a learned bias, or added to the logits as is."""


class AttentionEdgeUpdate(nn.Module):
    """Multi-head tensor-dot attention as Battaglia's edge update.

    e'_k    = alpha_k (W_v v_s + W_ve e_k)
    alpha_k = softmax_k( (W_q v_r) . (W_k v_s + W_ke e_k) / sqrt(d) + w_be . e_k )

    in each head, with v_r the receiver (the query), v_s the sender and e_k the edge between them. With graph features
    u, each of q, k and v also gets a term: W_q v_r + W_qu u, and so on. `score` replaces the scaled product of the
    query and the key, which includes W_ke e_k, and `normalizer` replaces the softmax.

    The softmax runs over the edges into one receiver, so this phi_e is not strictly a function of one edge. Without
    edge features it is equations 14.2 to 14.7 in the table of `molattn.graph`.

    If the score is a product, neither W_ke e_k nor W_ve e_k is materialized: q . (W_ke e) = (W_ke^T q) . e, and
    sum_k alpha_k W_ve e_k = W_ve sum_k alpha_k e_k. `materialize` does, with the same result.

    Args:
        node_dim, edge_dim, global_dim: d_v, d_e, d_u; edge_dim and global_dim are 0 for graphs without edge or graph
            features.
        num_heads, head_dim: h and d.
        dropout: probability of dropping a weight, in training.
        edge_roles: how edge features are used, names in `EDGE_ROLES`: "keys" (W_ke), "values" (W_ve), "bias" (w_be),
            and "logits": e_k itself, which then has one channel per head, is added to the logits.
        score: of queries and keys, a name or a module, as for `molattn.attention.make_score`; all heads share its
            weights. Not "location": nodes have no positions.
        normalizer: a name in `molattn.attention.NORMALIZERS`, or a function such as `Softmax(temperature)`.
        bias: whether W_q, W_k and W_v have a bias.
        activation: applied to the values; not possible together with the edge role "values".

    Raises:
        ValueError: a size below 1, or below 0 for edge_dim and global_dim; dropout is not in [0, 1); incompatible
            arguments; at a call, a graph whose edge or graph features do not have edge_dim or global_dim channels.

    Source: Battaglia et al. 2018, arXiv:1806.01261; Vaswani et al. 2017, arXiv:1706.03762.

    >>> import torch
    >>> from molattn.graph import AttentionEdgeUpdate, Graph
    >>> phi_e = AttentionEdgeUpdate(node_dim=16, num_heads=4, head_dim=8, edge_dim=3)
    >>> edge_index = torch.tensor([[0, 1, 2], [1, 0, 0]])  # 0 -> 1, 1 -> 0 and 2 -> 0
    >>> graph = Graph.from_edge_index(torch.randn(3, 16), edge_index, torch.randn(3, 3))
    >>> messages = phi_e(graph)
    >>> torch.allclose(messages.weights[1] + messages.weights[2], torch.ones(4))  # both edges into node 0
    True
    >>> torch.allclose(messages.sum(), phi_e.materialize(graph).sum(), atol=1e-5)
    True
    """

    def __init__(
        self,
        node_dim: int,
        num_heads: int,
        head_dim: int,
        edge_dim: int = 0,
        global_dim: int = 0,
        dropout: float = 0.0,
        *,
        edge_roles: Collection[str] = ("keys", "values", "bias"),
        score: str | Score = "scaled_dot",
        normalizer: str | Normalizer = "softmax",
        bias: bool = False,
        activation: nn.Module | None = None,
    ):
        super().__init__()
        if score == "location" or isinstance(score, Location):
            raise ValueError("the location score needs positions, which the nodes of a graph do not have")
        check_sizes(node_dim=node_dim, num_heads=num_heads, head_dim=head_dim)
        check_sizes(0, edge_dim=edge_dim, global_dim=global_dim)
        check_dropout(dropout)
        self._check_arguments(edge_dim, num_heads, edge_roles, activation)
        self.score = make_score(score, head_dim, head_dim)
        self.normalizer = make_normalizer(normalizer)
        self.num_heads, self.head_dim, self.dropout = num_heads, head_dim, dropout
        self.node_dim, self.edge_dim, self.global_dim = node_dim, edge_dim, global_dim
        self.adds_edges_to_logits = "logits" in edge_roles
        self.activation = activation
        width = num_heads * head_dim
        roles = edge_roles if edge_dim else ()
        self.w_q = nn.Linear(node_dim, width, bias=bias)
        self.w_k = nn.Linear(node_dim, width, bias=bias)
        self.w_v = nn.Linear(node_dim, width, bias=bias)
        self.w_ke = nn.Linear(edge_dim, width, bias=False) if "keys" in roles else None
        self.w_ve = nn.Linear(edge_dim, width, bias=False) if "values" in roles else None
        self.w_be = nn.Linear(edge_dim, num_heads, bias=False) if "bias" in roles else None
        self.w_qu = nn.Linear(global_dim, width, bias=False) if global_dim else None
        self.w_ku = nn.Linear(global_dim, width, bias=False) if global_dim else None
        self.w_vu = nn.Linear(global_dim, width, bias=False) if global_dim else None

    def forward(self, graph: AnyGraph, senders: Graph | None = None) -> EdgeMessages:
        """The e'_k of every edge, not materialized: `molattn.attention.attend` computes their sum.

        Args:
            graph: with edge_dim edge features and global_dim graph features.
            senders: for a bipartite graph, the nodes that `graph.sender` indexes. Only its node and graph features are
                read. W_k and W_v may take another number of channels than W_q.

        Raises:
            ValueError: edge or graph features of `graph` that do not have edge_dim or global_dim channels.
        """
        q, k, v = self._project(graph, senders)
        edges, bias = self._edge_terms(graph, q, k)
        kwargs = {"bias": bias, "edges": edges, "score": self.score, "normalizer": self.normalizer}
        layout = graph.attention_layout
        if isinstance(layout, PaddedGraphLayout):
            layout = layout.with_finite_padding()  # q, k and v are projections of nodes that are zero in the padding
        call = AttentionCall(q, k, v, layout, kwargs)
        mask = self._dropout_mask(graph, q)
        overridden = type(self)._transform_weights is not AttentionEdgeUpdate._transform_weights
        if not overridden and not torch.compiler.is_compiling():
            return LazyEdgeMessages.from_call(graph, call, mask)
        weights = self._transform_weights(call.weights(), graph)
        return EdgeMessages(graph, weights, apply_dropout(weights, mask), v, *edge_value_terms(edges))

    def materialize(self, graph: AnyGraph, senders: Graph | None = None) -> MaterializedMessages:
        """The e'_k of every edge, materialized; the reference for `forward`.

        Args:
            graph: as in `forward`; a dense graph is converted to an edge list.
            senders: as in `forward`.

        Raises:
            ValueError: as `forward`.
        """
        if isinstance(graph, DenseGraph):
            graph = graph.to_edge_list()
        q, k, v = self._project(graph, senders)
        k, v, bias = self._add_edge_terms(graph, k[graph.sender], v[graph.sender])
        layout = graph.attention_layout.with_key_per_edge()
        weights = attention_weights(q, k, layout, bias=bias, score=self.score, normalizer=self.normalizer)
        weights = self._transform_weights(weights, graph)
        after_dropout = apply_dropout(weights, self._dropout_mask(graph, q))
        return MaterializedMessages(graph, weights, after_dropout.unsqueeze(-1) * v)

    # What subclasses override: how edges enter the logits and the values, and how the weights are transformed.

    def _edge_terms(self, graph: AnyGraph, q: Tensor, k: Tensor) -> tuple[EdgeTerms | None, Tensor | None]:  # noqa: ARG002
        """The edge terms of keys, values and logits, and a further bias of the logits, or None."""
        logits = None
        if self.adds_edges_to_logits and graph.e is not None:
            logits = graph.e if isinstance(graph, Graph) else graph.e.permute(0, 3, 1, 2)
        if graph.e is None or self.w_ke is self.w_ve is self.w_be is None:
            return None, logits
        e, (w_ke, w_ve, w_be) = edge_factors(graph.e, self.w_ke, self.w_ve, self.w_be)
        w_ke, w_ve = (None if w is None else w.unflatten(0, (self.num_heads, -1)) for w in (w_ke, w_ve))
        return EdgeTerms(e, w_ke, w_ve, w_be), logits

    def _add_edge_terms(self, graph: Graph, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """k_k and v_k of every edge, (m, h, d), and the bias of its logits, (m, h), for the materialized form."""
        bias = graph.e if self.adds_edges_to_logits else None
        if self.w_ke is not None:
            k = k + self.w_ke(graph.e).unflatten(-1, (self.num_heads, -1))
        if self.w_ve is not None:
            v = v + self.w_ve(graph.e).unflatten(-1, (self.num_heads, -1))
        if self.w_be is not None:
            bias = self.w_be(graph.e) if bias is None else bias + self.w_be(graph.e)
        return k, v, bias

    def _transform_weights(self, weights: Tensor, graph: AnyGraph) -> Tensor:  # noqa: ARG002
        """The final weights, computed from the output of the normalizer; here the identity."""
        return weights

    def fused_unsupported_reason(self) -> str:
        """Why a block with this phi_e cannot run fused, as text; empty if it can."""
        if type(self) is not AttentionEdgeUpdate:
            return f"its phi_e is {type(self).__name__}"
        # From `_modules`, since `getattr` of a module takes longer. The layer of an unused role has no entry.
        layers = {name: layer for name, layer in self._modules.items() if name.startswith("w_")}
        if not are_unmodified(AttentionEdgeUpdate, self) or not are_unmodified(nn.Linear, *layers.values()):
            return "a hook of its phi_e, or a layer of it that is not an unmodified torch.nn.Linear"
        if self.score is not scaled_dot or self.normalizer != softmax:
            return "a score other than scaled_dot, or a normalizer other than softmax"
        if layers.get("w_ke") is None or layers.get("w_ve") is None or self.adds_edges_to_logits:
            return "edges that are not part of keys and values"
        if self.global_dim or self.activation is not None:
            return "graph features (global_dim)" if self.global_dim else "an activation of the values"
        biased = [name for name, layer in layers.items() if layer is not None and has_bias(layer)]
        return f"a bias of {biased[0]}" if biased else ""

    @property
    def scale(self) -> float:
        """The factor that the product of queries and keys is multiplied by: 1 / sqrt(d), or 1 for another score."""
        return self.head_dim**-0.5 if self.score is scaled_dot else 1.0

    def _project(self, graph: AnyGraph, senders: Graph | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v: (n, h, d) of an edge list, (b, h, n, d) of a dense graph; k and v of `senders` if it is given."""
        self._check_features(graph)
        if senders is None:
            q, k, v = self._project_heads(graph, (self.w_q, self.w_k, self.w_v), (self.w_qu, self.w_ku, self.w_vu))
        else:
            (q,) = self._project_heads(graph, (self.w_q,), (self.w_qu,))
            k, v = self._project_heads(senders, (self.w_k, self.w_v), (self.w_ku, self.w_vu))
        return q, k, v if self.activation is None else self.activation(v)

    def _project_heads(
        self, graph: AnyGraph, layers: Sequence[nn.Module], global_layers: Sequence[nn.Module | None]
    ) -> tuple[Tensor, ...]:
        """Each of `layers` applied to the nodes, plus each of `global_layers` to u; one matrix product if possible."""
        x = graph.v
        if isinstance(graph, DenseGraph) and not all_true(graph.node_mask):
            # NaN in the padding would reach the gradients of the weights.
            x = x.masked_fill(~graph.node_mask.unsqueeze(-1), 0.0)
        packed = _apply_concatenated(layers, x)
        if graph.u is not None:
            packed = packed + graph.broadcast_to_nodes(_apply_concatenated(list(map(not_none, global_layers)), graph.u))
        heads = packed.unflatten(-1, (len(layers), self.num_heads, self.head_dim)).unbind(-3)
        return tuple(x.transpose(1, 2) for x in heads) if isinstance(graph, DenseGraph) else heads

    def _check_features(self, graph: AnyGraph) -> None:
        """Raise a ValueError for features that the layer would otherwise ignore, or that are missing."""
        expected = ((graph.e, self.edge_dim, "e", "edge_dim"), (graph.u, self.global_dim, "u", "global_dim"))
        for features, size, name, argument in expected:
            width = 0 if features is None else features.shape[-1]
            if width != size:
                raise ValueError(f"the graph has {width} features in {name}, the layer was made with {argument}={size}")

    def _check_arguments(
        self, edge_dim: int, num_heads: int, edge_roles: Collection[str], activation: nn.Module | None
    ) -> None:
        unknown = [name for name in edge_roles if name not in EDGE_ROLES]
        if unknown:
            raise ValueError(unknown_choice("edge role", unknown[0], EDGE_ROLES))
        if "logits" in edge_roles and edge_dim not in (0, num_heads):
            raise ValueError(f"edges with the role 'logits' have one channel per head: {num_heads}, not {edge_dim}")
        if edge_dim and "values" in edge_roles and activation is not None:
            raise ValueError("the edge role 'values' cannot be combined with an activation of the values")

    def _dropout_mask(self, graph: AnyGraph, q: Tensor) -> Tensor | None:
        """The dropout mask, of the shape of the weights, which are multiplied by it; None for no dropout."""
        if not self.training or self.dropout == 0:
            return None
        if isinstance(graph, Graph):
            return draw_dropout_mask(q, (graph.receiver.shape[0], self.num_heads), self.dropout)
        b, n = graph.node_mask.shape
        return draw_dropout_mask(q, (b, self.num_heads, n, n), self.dropout)


def edge_factors(e: Tensor, *layers: nn.Module | None) -> tuple[Tensor, list[Tensor | None]]:
    """Features f of each edge, (..., f), and a matrix W_l for each layer, (outputs, f), such that W_l f = layer_l(e).

    f is e and W_l the weight of the layer, so that W_l f need not be materialized. If a layer must be called, such as
    an adapter of LoRA or one with a hook, all are called: f is then the concatenation of their outputs, and W_l selects
    those of layer l. W_l is None for a layer that is None.
    """
    if are_unmodified(nn.Linear, *layers):
        linear_layers: list[Any] = list(layers)
        if all(layer is None or layer.bias is None for layer in linear_layers):
            return e, [None if layer is None else layer.weight for layer in linear_layers]
    outputs = [layer(e) for layer in layers if layer is not None]
    f = torch.cat(outputs, dim=-1)
    selectors = torch.eye(f.shape[-1], dtype=f.dtype, device=f.device).split([x.shape[-1] for x in outputs])
    remaining = iter(selectors)
    return f, [None if layer is None else next(remaining) for layer in layers]


def _apply_concatenated(layers: Sequence[nn.Module], x: Tensor) -> Tensor:
    """The outputs of the layers for x, concatenated: one matrix product for unmodified layers, else a call of each."""
    if are_unmodified(nn.Linear, *layers):
        weights: list[Any] = [layer.weight for layer in layers]
        biases: list[Any] = [layer.bias for layer in layers if layer.bias is not None]
        if len(biases) in (0, len(layers)):
            return linear(x, torch.cat(weights), torch.cat(biases) if biases else None)
    return torch.cat([layer(x) for layer in layers], dim=-1)
