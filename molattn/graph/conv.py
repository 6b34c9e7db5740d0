"""Tensor-dot attention as a PyG layer: `AttentionEdgeUpdate` with the interface of `TransformerConv`."""

from collections.abc import Collection
from numbers import Integral
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.nn import Aggregation, MessagePassing, SumAggregation
from torch_geometric.typing import OptTensor

from molattn.attention import MeanHeads, Normalizer, Score
from molattn.attention.arguments import check_dropout
from molattn.graph.aggregate import sum_edges
from molattn.graph.conv_inputs import ConvInputs, Pair, check_dense_inputs, parse_inputs
from molattn.graph.edge_update import AttentionEdgeUpdate
from molattn.graph.graph import DenseGraph
from molattn.graph.messages import EdgeMessages, MaterializedMessages
from molattn.graph.unmodified import apply_linear
from molattn.kernels import segments
from molattn.kernels.operations import all_true, eager_unsupported_reason


class TensorDotConv(MessagePassing):
    """Tensor-dot attention over the edges of any PyG graph, with the interface of `torch_geometric.nn.TransformerConv`.

    x'_i    = W_root x_i + b_root + join_h sum_k e'_k          over the edges k into node i
    e'_k    = alpha_k (W_v x_s + b_v + W_ve e_k)
    alpha_k = softmax_k( (W_q x_i + b_q) . (W_k x_s + b_k + W_ke e_k) / sqrt(d) )

    in each head h, with s the sender of edge k (row 0 of `edge_index`), i its receiver (row 1) and d = out_channels.
    The join concatenates the heads, or takes their mean. With graph features u, each of q, k and v also gets a term:
    W_q x_i + W_qu u, and so on. For a node without incoming edges, x'_i is W_root x_i + b_root. With `beta`,

    x'_i = g_i r_i + (1 - g_i) m_i,    g_i = sigmoid(w_beta . [m_i, r_i, m_i - r_i]),    r_i = W_root x_i + b_root

    where m_i is the aggregated e'_k, with the heads joined.

    e'_k is that of `AttentionEdgeUpdate`. If edge_dim is below out_channels, it is not materialized; `materialize`
    returns it for every edge. `forward_dense` returns the same result for padded batches, without an edge list, and is
    faster for complete graphs. With `share_edge_weight`, which makes W_ve and W_ke one
    matrix, the equations are those of `TransformerConv`; `from_pyg` and `to_pyg` convert the weights.

    It is a `MessagePassing` and works with PyG's explainers, hooks, `to_hetero` and `HeteroConv`. `message` and
    `propagate` are called only if an explainer, a hook, another aggregation or a subclass needs every e'_k; the result
    is the same.

    Weights and biases are initialized as those of `torch.nn.Linear`, uniform within 1 / sqrt(inputs), as in
    `TransformerConv`.

    Shapes: x (n, in_channels), edge_index (2, m), edge_attr (m, edge_dim), u (b, global_dim), batch (n,) give
    (n, heads * out_channels), or (n, out_channels) with concat=False, and alpha (m, heads).

    Args:
        in_channels: channels of a node, or a pair (senders, receivers); -1 to infer it from the first call.
        out_channels: channels of a head.
        heads: h.
        concat: concatenate the heads; False takes their mean.
        beta: use the gate g_i; ignored without root_weight, as in `TransformerConv`.
        dropout: probability of dropping a weight alpha_k, in training.
        edge_dim: channels of an edge; None for graphs without edge features, -1 to infer it from the first call.
        bias: whether W_q, W_k, W_v and W_root have a bias.
        root_weight: whether there is a W_root.
        global_dim: channels of u; None for graphs without u.
        edge_roles: how edge features are used, as in `AttentionEdgeUpdate`: "keys" is W_ke, "values" is W_ve, and
            "bias" adds w_be . e_k to the logits.
        share_edge_weight: W_ve = W_ke, one matrix.
        score, normalizer: used in place of the scaled product and of the softmax, as in `AttentionEdgeUpdate`: names in
            `molattn.attention.SCORES`, `SCORES_WITH_WEIGHTS` and `NORMALIZERS`, or a module or function.
        aggr: the aggregation of the e'_k of a node, a name or a PyG `Aggregation`.
        flow: "source_to_target", or "target_to_source": then row 0 of `edge_index` is the receivers and row 1 the
            senders.

    Raises:
        ValueError: a size that is not an integer of at least 1, or -1 where that is possible; a beta that is not a
            bool; several aggregations; edge_dim -1 with the edge role "logits"; share_edge_weight without an edge_dim
            or without the edge roles "keys" and "values"; arguments that `AttentionEdgeUpdate` rejects. At a call,
            shapes that do not match the layer or each other, and, on a CPU, where the check does not synchronize, an
            index out of range.
        TypeError: an edge_index that is neither a tensor of integers nor a sparse torch tensor.

    Source: Battaglia et al. 2018, arXiv:1806.01261; Vaswani et al. 2017, arXiv:1706.03762; with one edge weight, Shi et
    al. 2020, arXiv:2009.03509.

    >>> import torch
    >>> from molattn.graph import TensorDotConv
    >>> conv = TensorDotConv(16, 8, heads=4, edge_dim=3)
    >>> conv
    TensorDotConv(16, 8, heads=4, edge_dim=3)
    >>> x, edge_index = torch.randn(5, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 1, 2]])
    >>> out, (_, alpha) = conv(x, edge_index, torch.randn(4, 3), return_attention_weights=True)
    >>> tuple(out.shape), tuple(alpha.shape)
    ((5, 32), (4, 4))
    >>> messages = conv.materialize(x, edge_index, torch.randn(4, 3))
    >>> tuple(messages.e.shape)  # e'_k of every edge and head
    (4, 4, 8)
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        beta: bool = False,
        dropout: float = 0.0,
        edge_dim: int | None = None,
        bias: bool = True,
        root_weight: bool = True,
        *,
        global_dim: int | None = None,
        edge_roles: Collection[str] = ("keys", "values"),
        share_edge_weight: bool = False,
        score: str | Score = "scaled_dot",
        normalizer: str | Normalizer = "softmax",
        aggr: str | Aggregation = "add",
        flow: str = "source_to_target",
    ):
        if not isinstance(aggr, str | Aggregation):
            raise ValueError(f"aggr is one aggregation, a name or a PyG Aggregation, not {aggr!r}")
        super().__init__(aggr, flow=flow, node_dim=0)
        pair = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        if len(pair) != 2:
            raise ValueError(f"in_channels is one size or a pair (senders, receivers), not {in_channels!r}")
        for name, size, may_be_lazy in (
            ("in_channels", pair[0], True),
            ("in_channels", pair[-1], True),
            ("out_channels", out_channels, False),
            ("heads", heads, False),
            ("edge_dim", edge_dim or 1, True),
        ):
            is_integer = isinstance(size, Integral) and not isinstance(size, bool)
            if not is_integer or not (size >= 1 or (may_be_lazy and size == -1)):
                or_lazy = ", or -1 to infer it from the first call" if may_be_lazy else ""
                raise ValueError(f"{name} must be an integer of at least 1{or_lazy}, not {size!r}")
        pair, out_channels, heads = (int(pair[0]), int(pair[1])), int(out_channels), int(heads)  # from numpy's integers
        in_channels = pair if isinstance(in_channels, tuple) else pair[0]
        edge_dim = None if edge_dim is None else int(edge_dim)
        if not isinstance(beta, bool):
            raise ValueError(f"beta is True or False, not {beta!r}: as in TransformerConv, it comes before dropout")
        if edge_dim == -1 and "logits" in edge_roles:
            raise ValueError(f"edges with the role 'logits' have one channel per head: edge_dim={heads}")
        self.in_channels, self.out_channels, self.heads, self.concat = in_channels, out_channels, heads, concat
        self.bias, self.root_weight, self.beta = bias, root_weight, beta and root_weight
        self.edge_dim, self.global_dim = edge_dim or None, global_dim or None
        self.edge_roles, self.share_edge_weight = tuple(edge_roles), share_edge_weight
        # Only their names, for `extra_repr`; the edge update holds the modules and functions.
        self.score = score if isinstance(score, str) else getattr(score, "__name__", type(score).__name__)
        self.normalizer = (
            normalizer if isinstance(normalizer, str) else getattr(normalizer, "__name__", str(normalizer))
        )
        senders, receivers = pair
        self.phi_e = AttentionEdgeUpdate(
            max(receivers, 1), heads, out_channels, abs(edge_dim or 0), global_dim or 0, dropout,
            edge_roles=edge_roles, score=score, normalizer=normalizer, bias=bias,
        )  # fmt: skip
        for name, inputs in (("w_q", receivers), ("w_k", senders), ("w_v", senders)):
            self._set_in_features(name, inputs)
        for name in ("w_ke", "w_ve", "w_be") if edge_dim == -1 else ():
            self._set_in_features(name, -1)
        if share_edge_weight:
            if self.phi_e.w_ke is None or self.phi_e.w_ve is None:
                raise ValueError("share_edge_weight needs an edge_dim and the edge roles 'keys' and 'values'")
            self.phi_e.w_ve = self.phi_e.w_ke
        self.join = nn.Identity() if concat else MeanHeads(heads)
        width = heads * out_channels if concat else out_channels
        self.w_root = _linear(receivers, width, bias) if root_weight else None
        self.w_beta = nn.Linear(3 * width, 1, bias=False) if self.beta else None

    @property
    def dropout(self) -> float:
        """The probability of dropping a weight alpha_k, in training; it can be set.

        Raises:
            ValueError: set to a number that is not in [0, 1).
        """
        return self.phi_e.dropout

    @dropout.setter
    def dropout(self, p: float) -> None:
        check_dropout(p)
        self.phi_e.dropout = p

    def reset_parameters(self) -> None:
        """Reinitialize every weight and bias."""
        super().reset_parameters()
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()

    @overload
    def forward(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        return_attention_weights: Literal[False] | None = None,
        *,
        u: Tensor | None = None,
        batch: Tensor | Pair | None = None,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        *,
        return_attention_weights: Literal[True],
        u: Tensor | None = None,
        batch: Tensor | Pair | None = None,
    ) -> tuple[Tensor, Pair]: ...

    @overload
    def forward(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        return_attention_weights: Literal[True],
        *,
        u: Tensor | None = None,
        batch: Tensor | Pair | None = None,
    ) -> tuple[Tensor, Pair]: ...

    def forward(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        return_attention_weights: bool | None = None,
        *,
        u: Tensor | None = None,
        batch: Tensor | Pair | None = None,
    ) -> Tensor | tuple[Tensor, Pair]:
        """The output for every node: attention over the edges into it.

        Args:
            x: (n, in_channels); or, for bipartite graphs, a pair of the senders' (n_s, in_channels), which row 0 of
                `edge_index` indexes, and the receivers' (n, in_channels).
            edge_index: (2, m) integers, senders in row 0 and receivers in row 1; or PyG's adj_t, a sparse tensor (COO,
                CSR or CSC) of shape (receivers, senders). If edge_attr is None, the values of adj_t, one vector for
                each edge, are used instead.
            edge_attr: (m, edge_dim), or (m,) where edge_dim is 1.
            return_attention_weights: whether to return the weights too.
            u: (b, global_dim).
            batch: (n,) the graph of each node, required if u has several graphs; a pair if x is a pair.

        Returns:
            (n, heads * out_channels), or (n, out_channels) with concat=False; with the weights, (out, (edge_index,
            alpha)), alpha (m, heads) before dropout, summing to 1 over the edges into a node. An adj_t comes back with
            alpha as its values.

        Raises:
            ValueError: shapes that do not match the layer or each other; an edge_attr or u that is missing, or that the
                layer does not take; an index out of range, on a CPU.
            TypeError: an edge_index that is neither a tensor of integers nor a sparse torch tensor; a tensor as
                return_attention_weights.
        """
        if isinstance(return_attention_weights, Tensor):
            raise TypeError("return_attention_weights is True or False: pass u and batch by keyword")
        inputs = self._parse_inputs(x, edge_index, edge_attr, u, batch)
        if self._needs_propagate:
            messages = self.phi_e(inputs.graph, inputs.senders)
            ebar = self._propagate_messages(messages, inputs)
        else:
            phi_e = self.phi_e.materialize if self._materializes_edge_terms(inputs.graph.v) else self.phi_e
            messages = phi_e(inputs.graph, inputs.senders)
            if return_attention_weights:
                _ = messages.weights  # from now on, messages.sum() uses these weights
            ebar = sum_edges(messages)
        out = self._add_root(self.join(ebar), inputs.graph.v)
        return (out, inputs.with_weights(messages.weights)) if return_attention_weights else out

    def materialize(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        *,
        u: Tensor | None = None,
        batch: Tensor | Pair | None = None,
    ) -> MaterializedMessages:
        """e'_k of every edge, materialized: `e` (m, heads, out_channels) and `weights` (m, heads), in edge order.

        `forward` returns, for each node, their sum over the edges into it, joined, plus W_root x_i + b_root.

        Args:
            x, edge_index, edge_attr, u, batch: as in `forward`.

        Raises:
            ValueError, TypeError: as `forward`.
        """
        inputs = self._parse_inputs(x, edge_index, edge_attr, u, batch)
        return self.phi_e.materialize(inputs.graph, inputs.senders)

    # PyG passes the arguments of propagate by name.
    def message(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, value_j: Tensor, alpha: Tensor, edge_attr: OptTensor
    ) -> Tensor:
        """e'_k of every edge, (m, heads, out_channels), for explainers, hooks and aggregations of PyG.

        Args:
            value_j: (m, heads, out_channels), W_v x_s + b_v.
            alpha: (m, heads), alpha_k after dropout.
            edge_attr: (m, edge_dim) or None.
        """
        if edge_attr is not None and self.phi_e.w_ve is not None:
            value_j = value_j + self.phi_e.w_ve(edge_attr).unflatten(-1, (self.heads, -1))
        return alpha.unsqueeze(-1) * value_j

    @overload
    def forward_dense(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        edge_attr: Tensor | None = None,
        u: Tensor | None = None,
        edge_mask: Tensor | None = None,
        return_attention_weights: Literal[False] | None = None,
    ) -> Tensor: ...

    @overload
    def forward_dense(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        edge_attr: Tensor | None = None,
        u: Tensor | None = None,
        edge_mask: Tensor | None = None,
        *,
        return_attention_weights: Literal[True],
    ) -> Pair: ...

    def forward_dense(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        edge_attr: Tensor | None = None,
        u: Tensor | None = None,
        edge_mask: Tensor | None = None,
        return_attention_weights: bool | None = None,
    ) -> Tensor | Pair:
        """`forward` for padded graphs in which every pair of nodes is an edge, with self-loops; the same result.

        `Graph.from_pyg(batch).to_dense()` converts a PyG batch to this form.

        Args:
            x: (b, n, in_channels), finite in the padding too.
            mask: (b, n) True where there is a node; all by default. `torch_geometric.utils.to_dense_batch` returns x
                and mask.
            edge_attr: (b, n, n, edge_dim), [b, i, j] of the edge from sender j to receiver i; finite everywhere.
            u: (b, global_dim).
            edge_mask: (b, n, n) True where there is an edge, for graphs that are not complete.
            return_attention_weights: whether to return the weights too.

        Returns:
            (b, n, heads * out_channels), or (b, n, out_channels) with concat=False, zeros in the padding; with the
            weights, (out, alpha), alpha (b, heads, n, n): how much i attends to j.

        Raises:
            ValueError: a layer with another aggregation than "add", or for bipartite graphs; shapes that do not match
                the layer or each other.
        """
        if not isinstance(self.aggr_module, SumAggregation):
            raise ValueError(f"forward_dense needs aggr='add', not {self.aggr!r}")
        mask = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        check_dense_inputs(
            x, mask, edge_attr, u, edge_mask, widths=self._widths, edge_dim=self.edge_dim, global_dim=self.global_dim
        )
        if -1 in (*self._widths, self.edge_dim):
            self._infer_sizes(x, x, edge_attr)
        messages = self.phi_e(DenseGraph(x, mask, edge_attr, u, edge_mask))
        if return_attention_weights:
            _ = messages.weights  # from now on, messages.sum() uses these weights
        out = self._add_root(self.join(sum_edges(messages)), x)
        out = out if all_true(mask) else out.masked_fill(~mask.unsqueeze(-1), 0.0)
        return (out, messages.weights) if return_attention_weights else out

    @classmethod
    def from_pyg(cls, layer: Any) -> "TensorDotConv":
        """The layer with the weights of a `torch_geometric.nn.TransformerConv`: same outputs, weights and gradients.

        Args:
            layer: a `TransformerConv`; it is not changed, and shares no weights.

        Raises:
            TypeError: another layer.
            ValueError: a layer with several aggregations, with lazily initialized weights, or with what its weights do
                not include, such as a hook, a subclass or an adapter; the message names it.
        """
        from molattn.graph.convert import conv_from_pyg

        return conv_from_pyg(layer)

    def to_pyg(self) -> Any:
        """A `torch_geometric.nn.TransformerConv` with the weights of this layer: the inverse of `from_pyg`.

        Without root_weight, TransformerConv still has a lin_skip, which it never reads; it keeps its initial values.

        Raises:
            ValueError: a layer that TransformerConv does not support: with graph features, with edge roles other than
                keys and values, with a W_ve that is not W_ke, with another score or normalizer, or with what its
                weights do not include, such as a hook, a subclass or an adapter; lazily initialized weights before the
                first call.
        """
        from molattn.graph.convert import conv_to_pyg

        return conv_to_pyg(self)

    def extra_repr(self) -> str:
        """The channels, the heads and the arguments that are not the defaults, as text."""
        defaults = {"concat": True, "beta": False, "dropout": 0.0, "edge_dim": None, "global_dim": None, "bias": True}
        defaults |= {"root_weight": True, "edge_roles": ("keys", "values"), "share_edge_weight": False}
        defaults |= {"score": "scaled_dot", "normalizer": "softmax", "aggr": "add", "flow": "source_to_target"}
        values = {name: getattr(self, name) for name in defaults}
        other = [f"{name}={value!r}" for name, value in values.items() if value != defaults[name]]
        return ", ".join([str(self.in_channels), str(self.out_channels), f"heads={self.heads}", *other])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def _materializes_edge_terms(self, x: Tensor) -> bool:
        """Whether to materialize W_ke e_k and W_ve e_k: without a kernel, that is faster if edge_dim >= out_channels.

        Each head then reads out_channels values of an edge instead of edge_dim.
        """
        projected = self.phi_e.w_ke is not None or self.phi_e.w_ve is not None
        wide = projected and (self.edge_dim or 0) >= self.out_channels
        return wide and bool(
            torch.compiler.is_compiling() or eager_unsupported_reason(x) or segments.LIBRARY.unavailable_reason()
        )

    @property
    def _needs_propagate(self) -> bool:
        """Whether an explainer, a hook, the aggregation or a subclass needs every e'_k; if not, none is computed."""
        cls = type(self)
        return (
            bool(self.explain)
            or not isinstance(self.aggr_module, SumAggregation)
            or cls.message is not TensorDotConv.message
            or cls.aggregate is not MessagePassing.aggregate
            or cls.update is not MessagePassing.update
            or any(getattr(self, hooks) for hooks in MESSAGE_HOOKS)
        )

    def _propagate_messages(self, messages: EdgeMessages, inputs: ConvInputs) -> Tensor:
        """The e'_k aggregated by `propagate`, which calls `message`; heads concatenated."""
        # propagate_type: (value: Tensor, alpha: Tensor, edge_attr: OptTensor)
        alpha = messages.weights_after_dropout
        ebar = self.propagate(
            inputs.edge_index, size=inputs.size, value=messages.values, alpha=alpha, edge_attr=inputs.graph.e
        )
        return ebar.flatten(1)

    def _add_root(self, ebar: Tensor, receivers: Tensor) -> Tensor:
        if self.w_root is None:
            return ebar
        root = apply_linear(self.w_root, receivers)
        if self.w_beta is None:
            return ebar + root
        gate = torch.sigmoid(self.w_beta(torch.cat([ebar, root, ebar - root], dim=-1)))
        return gate * root + (1 - gate) * ebar

    def _parse_inputs(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        u: Tensor | None,
        batch: Tensor | Pair | None,
    ) -> ConvInputs:
        widths, edge_dim = self._widths, self.edge_dim
        inputs = parse_inputs(x, edge_index, edge_attr, u, batch, widths=widths, edge_dim=edge_dim, flow=self.flow)
        if -1 in (*widths, edge_dim):
            self._infer_sizes(inputs.sender_features, inputs.graph.v, inputs.graph.e)
        return inputs

    @property
    def _widths(self) -> tuple[int, int]:
        """Channels of senders and of receivers."""
        return self.in_channels if isinstance(self.in_channels, tuple) else (self.in_channels, self.in_channels)

    def _set_in_features(self, name: str, inputs: int) -> None:
        """Replace the linear layer `name` of phi_e, if there is one, unless it already has `inputs` input channels."""
        old = getattr(self.phi_e, name)
        if old is not None and old.in_features != inputs:
            setattr(self.phi_e, name, _linear(inputs, old.out_features, old.bias is not None))

    def _infer_sizes(self, senders: Tensor, receivers: Tensor, e: Tensor | None) -> None:
        """Infer the sizes that are -1 from the first call, and initialize the lazy layers."""
        phi_e = self.phi_e
        inputs = ((senders, (phi_e.w_k, phi_e.w_v)), (receivers, (phi_e.w_q, self.w_root)))
        inputs = (*inputs, (e, (phi_e.w_ke, phi_e.w_ve, phi_e.w_be)))
        lazy = [(layer, x) for x, layers in inputs for layer in layers if isinstance(layer, nn.LazyLinear)]
        for layer, x in lazy:
            loaded = None if is_lazy(layer.weight) else layer.weight.shape[1]
            if x is not None and loaded not in (None, x.shape[-1]):
                raise ValueError(f"the weights that were loaded are for {loaded} channels, not {x.shape[-1]}")
        for layer, x in lazy:
            if x is not None and isinstance(layer, nn.LazyLinear):  # no longer lazy if W_ve is W_ke
                layer(x[:0])
        widths = senders.shape[-1], receivers.shape[-1]
        equal = isinstance(self.in_channels, int) and widths[0] == widths[1]
        self.in_channels = widths[0] if equal else widths
        phi_e.node_dim = widths[1]
        if self.edge_dim == -1 and e is not None:
            self.edge_dim = phi_e.edge_dim = e.shape[-1]


MESSAGE_HOOKS = tuple(
    f"_{step}_forward{when}_hooks" for step in ("propagate", "message", "aggregate") for when in ("_pre", "")
)
"""Attributes of `MessagePassing` with the hooks of these steps; without hooks, `forward` can skip the steps."""


def _linear(inputs: int, outputs: int, bias: bool) -> nn.Linear:
    """A linear layer, lazy if `inputs` is -1."""
    return nn.LazyLinear(outputs, bias) if inputs == -1 else nn.Linear(inputs, outputs, bias)
