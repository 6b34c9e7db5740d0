"""Tensor-dot attention as a layer for PyG graphs: PyG's names and calls around the project's one edge update."""

from collections.abc import Collection
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.nn import Aggregation, MessagePassing, SumAggregation
from torch_geometric.typing import OptTensor

from molattn.attention import MeanHeads, Normalizer, Score, linear
from molattn.graph.aggregate import sum_edges
from molattn.graph.conv_call import ConvCall, Pair, read_call, shape
from molattn.graph.edge_update import AttentionEdgeUpdate, EdgeMessages, LiteralMessages
from molattn.graph.graph import DenseGraph
from molattn.kernels import segments
from molattn.kernels.tensor_checks import all_true, eager_unsupported_reason


class TensorDotConv(MessagePassing):
    """Tensor-dot attention over the edges of any PyG graph, called as `torch_geometric.nn.TransformerConv` is.

    x'_i  = W_r x_i + b_r + join_h sum_k e'_k          over the edges k into node i
    e'_k  = w_k (W_v x_s + b_v + W_ve e_k)
    w_k   = softmax_k( (W_q x_i + b_q) . (W_k x_s + b_k + W_ke e_k) / sqrt(d) )

    in each head h, with s the sender of edge k (row 0 of `edge_index`), i its receiver (row 1) and d = out_channels.
    The join puts the heads side by side, or takes their mean. With graph features u, each of q, k and v also gets a
    term: W_q x_i + W_qu u, and so on. A node that no edge reaches keeps W_r x_i + b_r. With `beta`, x'_i is
    g_i (W_r x_i + b_r) + (1 - g_i) m_i, where m_i is what the edges bring and
    g_i = sigmoid(w_beta . [m_i, W_r x_i + b_r, m_i - W_r x_i - b_r]).

    e'_k is `AttentionEdgeUpdate`'s, summed without forming one wherever edges have fewer features than heads have
    channels; `literal` forms each of them. `forward_dense` gives the same numbers for padded batches, without an edge
    list: the fast way where every pair of nodes is an edge. With `share_edge_weight`, which makes W_ve and W_ke one, it
    is `TransformerConv`, equation by equation; `from_pyg` and `to_pyg` trade weights with it.

    It is a `MessagePassing`: PyG's explainers, its hooks, `to_hetero` and `HeteroConv` take it. Where an explainer, a
    hook, another aggregation or a subclass has to see messages, e'_k goes through `message` and `propagate`, edge by
    edge; otherwise it does not, and the numbers are the same.

    Weights and biases start as those of `torch.nn.Linear`, uniform within 1 / sqrt(inputs), as `TransformerConv`'s.

    Shapes: x (n, in_channels), edge_index (2, m), edge_attr (m, edge_dim), u (b, global_dim), batch (n,) give
    (n, heads * out_channels), or (n, out_channels) with concat=False, and alpha (m, heads).

    Args:
        in_channels: of a node, or a pair, of senders and of receivers; -1 for what the first call has.
        out_channels: of a head.
        heads: h.
        concat: heads side by side; False takes their mean.
        beta: the gate g_i, where there is a W_r.
        dropout: probability of dropping a weight w_k, in training.
        edge_dim: of an edge; None for graphs without edge features, -1 for what the first call has.
        bias: whether W_q, W_k, W_v and W_r have one.
        root_weight: whether there is a W_r.
        global_dim: of a graph; None for graphs without such features.
        edges_as: what the edges speak as, as `AttentionEdgeUpdate` takes it: "keys" is W_ke, "values" is W_ve, and
            "bias" adds w_be . e_k to the logits.
        share_edge_weight: W_ve = W_ke, one matrix.
        score, normalizer: what takes the place of the scaled product and of the softmax, as `AttentionEdgeUpdate` takes
            them: names in `molattn.attention.SCORES`, `SCORES_WITH_WEIGHTS` and `NORMALIZERS`, or one's own.
        aggr: how the e'_k of a node become one, a name or an `Aggregation` of PyG's.
        flow: "source_to_target", or "target_to_source", where row 0 of `edge_index` names receivers and row 1 senders.

    Raises:
        ValueError: settings that do not go together; at a call, shapes that do not fit the layer or each other, and,
            on a CPU, where looking costs nothing, an index that no node has.
        TypeError: an edge_index that is neither a tensor of integers nor a sparse adjacency matrix of torch's.

    Source: Battaglia et al. 2018, arXiv:1806.01261; Vaswani et al. 2017, arXiv:1706.03762; with one edge weight, Shi et
    al. 2020, arXiv:2009.03509.

    >>> import torch
    >>> conv = TensorDotConv(16, 8, heads=4, edge_dim=3)
    >>> conv
    TensorDotConv(16, 8, heads=4, edge_dim=3)
    >>> x, edge_index = torch.randn(5, 16), torch.tensor([[0, 1, 2, 3], [1, 0, 1, 2]])
    >>> out, (_, alpha) = conv(x, edge_index, torch.randn(4, 3), return_attention_weights=True)
    >>> tuple(out.shape), tuple(alpha.shape)
    ((5, 32), (4, 4))
    >>> messages = conv.literal(x, edge_index, torch.randn(4, 3))
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
        edges_as: Collection[str] = ("keys", "values"),
        share_edge_weight: bool = False,
        score: str | Score = "scaled_dot",
        normalizer: str | Normalizer = "softmax",
        aggr: str | Aggregation = "add",
        flow: str = "source_to_target",
    ):
        if not isinstance(aggr, str | Aggregation):
            raise ValueError(f"aggr is one aggregation, a name or an Aggregation of PyG's, not {aggr!r}")
        super().__init__(aggr, flow=flow, node_dim=0)
        pair = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        for name, size, open_too in (
            ("in_channels", pair[0], True),
            ("in_channels", pair[-1], True),
            ("out_channels", out_channels, False),
            ("heads", heads, False),
            ("edge_dim", edge_dim or 1, True),
        ):
            if not isinstance(size, int) or not (size >= 1 or (open_too and size == -1)):
                known = ", or -1 for what the first call has" if open_too else ""
                raise ValueError(f"{name} is a whole number of at least 1{known}, not {size!r}")
        if not isinstance(beta, bool):
            raise ValueError(f"beta is True or False, not {beta!r}: as in TransformerConv, it comes before dropout")
        if edge_dim == -1 and "logits" in edges_as:
            raise ValueError(f"edges that speak as logits have one channel per head: edge_dim={heads}")
        self.in_channels, self.out_channels, self.heads, self.concat = in_channels, out_channels, heads, concat
        self.dropout, self.bias, self.root_weight, self.beta = dropout, bias, root_weight, beta and root_weight
        self.edge_dim, self.global_dim = edge_dim or None, global_dim or None
        self.edges_as, self.share_edge_weight = tuple(edges_as), share_edge_weight
        # Their names: what they are, the edge update has.
        self.score = score if isinstance(score, str) else getattr(score, "__name__", type(score).__name__)
        self.normalizer = (
            normalizer if isinstance(normalizer, str) else getattr(normalizer, "__name__", str(normalizer))
        )
        senders, receivers = pair
        self.phi_e = AttentionEdgeUpdate(
            max(receivers, 1), heads, out_channels, abs(edge_dim or 0), global_dim or 0, dropout,
            edges_as=edges_as, score=score, normalizer=normalizer, bias=bias,
        )  # fmt: skip
        for name, inputs in (("w_q", receivers), ("w_k", senders), ("w_v", senders)):
            self._of_width(name, inputs)
        for name in ("w_ke", "w_ve", "w_be") if edge_dim == -1 else ():
            self._of_width(name, -1)
        if share_edge_weight:
            if self.phi_e.w_ke is None or self.phi_e.w_ve is None:
                raise ValueError("share_edge_weight needs an edge_dim and edges that speak as keys and as values")
            self.phi_e.w_ve = self.phi_e.w_ke
        self.join = nn.Identity() if concat else MeanHeads(heads)
        width = heads * out_channels if concat else out_channels
        self.w_root = _linear(receivers, width, bias) if root_weight else None
        self.w_beta = nn.Linear(3 * width, 1, bias=False) if self.beta else None

    def reset_parameters(self) -> None:
        """Every weight and bias drawn anew."""
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
        """Attend along the edges.

        Args:
            x: (n, in_channels); or a pair, the senders' (n_s, in_channels) and the receivers' (n, in_channels), when
                edges go from one set of nodes to another and row 0 of `edge_index` counts the first.
            edge_index: (2, m) integers, senders over receivers; or PyG's adj_t, a sparse tensor (COO, CSR or CSC) of
                (receivers, senders), whose values, one vector for each edge, are edge_attr where none is given.
            edge_attr: (m, edge_dim), or (m,) where edge_dim is 1.
            return_attention_weights: True also returns the weights. False does not.
            u: (b, global_dim).
            batch: (n,) the graph of each node, which u of several graphs needs; a pair where x is one.

        Returns:
            (n, heads * out_channels), or (n, out_channels) with concat=False; with the weights, (out, (edge_index,
            alpha)), alpha (m, heads) before dropout, summing to 1 over the edges into a node. An adj_t comes back with
            alpha as its values.
        """
        if isinstance(return_attention_weights, Tensor):
            raise TypeError("return_attention_weights is True or False: u and batch are given by name")
        call = self._read(x, edge_index, edge_attr, u, batch)
        if self._passes_messages:
            messages = self.phi_e(call.graph, call.senders)
            ebar = self._propagated(messages, call)
        else:
            messages = (self.phi_e.literal if self._forms_edges(call.graph.v) else self.phi_e)(call.graph, call.senders)
            if return_attention_weights:
                _ = messages.weights  # the sum is then made of them
            ebar = sum_edges(messages)
        out = self._with_root(self.join(ebar), call.graph.v)
        return (out, call.with_weights(messages.weights)) if return_attention_weights else out

    def literal(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        *,
        u: Tensor | None = None,
        batch: Tensor | Pair | None = None,
    ) -> LiteralMessages:
        """e'_k of every edge, formed: `e` (m, heads, out_channels) and `weights` (m, heads), in edge_index's order.

        Their sum over the edges into a node, joined, and W_r x_i + b_r, is what `forward` returns for it.
        """
        call = self._read(x, edge_index, edge_attr, u, batch)
        return self.phi_e.literal(call.graph, call.senders)

    # PyG finds the arguments by name, and gives those of propagate.
    def message(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, value_j: Tensor, alpha: Tensor, edge_attr: OptTensor
    ) -> Tensor:
        """e'_k of every edge, (m, heads, out_channels), as explainers, hooks and aggregations of PyG see it.

        Args:
            value_j: (m, heads, out_channels), W_v x_s + b_v.
            alpha: (m, heads), w_k after dropout.
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
        """The same numbers for padded graphs in which every pair of nodes is an edge, each node its own neighbour too.

        Args:
            x: (b, n, in_channels), finite in the padding too.
            mask: (b, n) True where there is a node; all by default. `torch_geometric.utils.to_dense_batch` gives both.
            edge_attr: (b, n, n, edge_dim), [b, i, j] of the edge from sender j to receiver i; finite everywhere.
            u: (b, global_dim).
            edge_mask: (b, n, n) True where there is an edge, for graphs that are not complete.
            return_attention_weights: True also returns the weights.

        Returns:
            (b, n, heads * out_channels), or (b, n, out_channels) with concat=False, zeros in the padding; with the
            weights, (out, alpha), alpha (b, heads, n, n): how much i attends to j.

        `Graph.from_pyg(batch).to_dense()` makes all of this of a PyG batch.
        """
        if not isinstance(self.aggr_module, SumAggregation):
            raise ValueError(f"the dense form sums what the edges bring: aggr='add', not {self.aggr!r}")
        senders, receivers = self._widths
        if -1 not in (senders, receivers) and senders != receivers:
            raise ValueError(f"the dense form has one set of nodes: not {senders} and {receivers} channels of a node")
        width = max(senders, receivers)
        if x.dim() != 3 or (width != -1 and x.shape[-1] != width):
            raise ValueError(f"x is (graphs, nodes, {'channels' if width < 0 else width}), not {shape(x)}")
        if self.edge_dim == -1 and edge_attr is None:
            raise ValueError("edge_dim=-1 is what the first call says: it needs an edge_attr")
        b, n, _ = x.shape
        edge_dim = edge_attr.shape[-1] if self.edge_dim == -1 and edge_attr is not None else self.edge_dim
        mask = torch.ones(b, n, dtype=torch.bool, device=x.device) if mask is None else mask
        for name, given, wanted in (
            ("mask", mask, (b, n)),
            ("edge_attr", edge_attr, (b, n, n, edge_dim)),
            ("u", u, (b, self.global_dim)),
            ("edge_mask", edge_mask, (b, n, n)),
        ):
            if given is not None and None not in wanted and given.shape != wanted:
                raise ValueError(f"{name} is {wanted} for these {b} graphs of {n} nodes, not {shape(given)}")
        if -1 in (senders, receivers, self.edge_dim):
            self._take_sizes(x, x, edge_attr)
        messages = self.phi_e(DenseGraph(x, mask, edge_attr, u, edge_mask))
        if return_attention_weights:
            _ = messages.weights  # the sum is then made of them
        out = self._with_root(self.join(sum_edges(messages)), x)
        out = out if all_true(mask) else out.masked_fill(~mask.unsqueeze(-1), 0.0)
        return (out, messages.weights) if return_attention_weights else out

    @classmethod
    def from_pyg(cls, layer: Any) -> "TensorDotConv":
        """The layer with the weights of a `torch_geometric.nn.TransformerConv`: same outputs, weights and gradients.

        Raises:
            TypeError: another layer.
            ValueError: one with several aggregations, or whose sizes are not known before its first call.
        """
        from molattn.graph.exchange import conv_from_pyg

        return conv_from_pyg(layer)

    def to_pyg(self) -> Any:
        """A `torch_geometric.nn.TransformerConv` with the weights of this layer: the inverse of `from_pyg`.

        Without root_weight, TransformerConv's lin_skip, which it then has and never reads, stays as it was drawn.

        Raises:
            ValueError: a layer that TransformerConv cannot be: with graph features, with edges as anything but keys
                and values, or with a W_ve that is not W_ke; one whose sizes are not known before its first call.
        """
        from molattn.graph.exchange import conv_to_pyg

        return conv_to_pyg(self)

    def extra_repr(self) -> str:
        usual = {"concat": True, "beta": False, "dropout": 0.0, "edge_dim": None, "global_dim": None, "bias": True}
        usual |= {"root_weight": True, "edges_as": ("keys", "values"), "share_edge_weight": False}
        usual |= {"score": "scaled_dot", "normalizer": "softmax", "aggr": "add", "flow": "source_to_target"}
        said = [f"{name}={getattr(self, name)!r}" for name, value in usual.items() if getattr(self, name) != value]
        return ", ".join([str(self.in_channels), str(self.out_channels), f"heads={self.heads}", *said])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    def _forms_edges(self, x: Tensor) -> bool:
        """Whether W_ke e_k and W_ve e_k are formed: without a kernel they are less work than e_k, where it is wide.

        Each head then sees d numbers of an edge, not f.
        """
        projected = self.phi_e.w_ke is not None or self.phi_e.w_ve is not None
        wide = projected and (self.edge_dim or 0) >= self.out_channels
        return wide and bool(
            torch.compiler.is_compiling() or eager_unsupported_reason(x) or segments.unavailable_reason()
        )

    @property
    def _passes_messages(self) -> bool:
        """Whether anybody has to see the e'_k one by one; if not, no time is spent on forming them."""
        kind = type(self)
        return (
            bool(self.explain)
            or not isinstance(self.aggr_module, SumAggregation)
            or kind.message is not TensorDotConv.message
            or kind.aggregate is not MessagePassing.aggregate
            or kind.update is not MessagePassing.update
            or any(getattr(self, hooks) for hooks in _HOOKS)
        )

    def _propagated(self, messages: EdgeMessages, call: ConvCall) -> Tensor:
        """The aggregated e'_k, heads side by side, by way of `message`."""
        # propagate_type: (value: Tensor, alpha: Tensor, edge_attr: OptTensor)
        ebar = self.propagate(
            call.edge_index, size=call.size, value=messages.values, alpha=messages.dropped, edge_attr=call.graph.e
        )
        return ebar.flatten(1)

    def _with_root(self, ebar: Tensor, receivers: Tensor) -> Tensor:
        if self.w_root is None:
            return ebar
        root = linear(receivers, self.w_root.weight, self.w_root.bias)
        if self.w_beta is None:
            return ebar + root
        gate = torch.sigmoid(self.w_beta(torch.cat([ebar, root, ebar - root], dim=-1)))
        return gate * root + (1 - gate) * ebar

    def _read(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        u: Tensor | None,
        batch: Tensor | Pair | None,
    ) -> ConvCall:
        widths, edge_dim = self._widths, self.edge_dim
        call = read_call(x, edge_index, edge_attr, u, batch, widths=widths, edge_dim=edge_dim, flow=self.flow)
        if -1 in (*widths, edge_dim):
            self._take_sizes(call.sent, call.graph.v, call.graph.e)
        return call

    @property
    def _widths(self) -> tuple[int, int]:
        """Channels of senders and of receivers."""
        return self.in_channels if isinstance(self.in_channels, tuple) else (self.in_channels, self.in_channels)

    def _of_width(self, name: str, inputs: int) -> None:
        """One of phi_e's matrices for as many inputs, where it is there and has others."""
        old = getattr(self.phi_e, name)
        if old is not None and old.in_features != inputs:
            setattr(self.phi_e, name, _linear(inputs, old.out_features, old.bias is not None))

    def _take_sizes(self, senders: Tensor, receivers: Tensor, e: Tensor | None) -> None:
        """The sizes that were left open, from the first call."""
        phi_e = self.phi_e
        of_inputs = ((senders, (phi_e.w_k, phi_e.w_v)), (receivers, (phi_e.w_q, self.w_root)))
        of_inputs = (*of_inputs, (e, (phi_e.w_ke, phi_e.w_ve, phi_e.w_be)))
        lazy = [(layer, x) for x, layers in of_inputs for layer in layers if isinstance(layer, nn.LazyLinear)]
        for layer, x in lazy:
            loaded = None if is_lazy(layer.weight) else layer.weight.shape[1]
            if x is not None and loaded not in (None, x.shape[-1]):
                raise ValueError(f"the weights that were loaded are for {loaded} channels, not {x.shape[-1]}")
        for layer, x in lazy:
            if x is not None and isinstance(layer, nn.LazyLinear):  # W_ve may be W_ke, which then is lazy no more
                layer(x[:0])
        widths = senders.shape[-1], receivers.shape[-1]
        whole = isinstance(self.in_channels, int) and widths[0] == widths[1]
        self.in_channels = widths[0] if whole else widths
        phi_e.node_dim = widths[1]
        if self.edge_dim == -1 and e is not None:
            self.edge_dim = phi_e.edge_dim = e.shape[-1]


_HOOKS = tuple(
    f"_{step}_forward{when}_hooks" for step in ("propagate", "message", "aggregate") for when in ("_pre", "")
)
"""Where `MessagePassing` keeps the hooks of the steps that the edge update goes through without taking them."""


def _linear(inputs: int, outputs: int, bias: bool) -> nn.Linear:
    """A linear map; one of which the first call says how many inputs it has, where `inputs` is -1."""
    return nn.LazyLinear(outputs, bias) if inputs == -1 else nn.Linear(inputs, outputs, bias)
