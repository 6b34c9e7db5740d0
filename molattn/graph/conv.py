"""Tensor-dot attention as a layer for PyG graphs: PyG's names and calls around the project's one edge update."""

from collections.abc import Collection
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn

from molattn.attention import MeanHeads, linear
from molattn.attention.competitors import all_true
from molattn.graph.aggregate import sum_edges
from molattn.graph.edge_update import AttentionEdgeUpdate, LiteralMessages
from molattn.graph.graph import DenseGraph, Graph

Pair = tuple[Tensor, Tensor]


class TensorDotConv(nn.Module):
    """Tensor-dot attention over the edges of any PyG graph, called as `torch_geometric.nn.TransformerConv` is.

    x'_i  = W_r x_i + b_r + join_h sum_k e'_k          over the edges k into node i
    e'_k  = w_k (W_v x_s + b_v + W_ve e_k)
    w_k   = softmax_k( (W_q x_i + b_q) . (W_k x_s + b_k + W_ke e_k) / sqrt(d) )

    in each head h, with s the sender of edge k (row 0 of `edge_index`), i its receiver (row 1) and d = out_channels.
    The join puts the heads side by side, or takes their mean. With graph features u, each of q, k and v also gets a
    term: W_q x_i + W_qu u, and so on. A node that no edge reaches keeps W_r x_i + b_r.

    e'_k is `AttentionEdgeUpdate`'s, summed without forming one wherever edges have fewer features than heads have
    channels; `literal` forms each of them. `forward_dense` gives the same numbers for padded batches, without an edge
    list: the fast way where every pair of nodes is an edge. With `share_edge_weight`, which makes W_ve and W_ke one, it
    is `TransformerConv`, equation by equation;
    `from_pyg` and `to_pyg` trade weights with it.

    Weights and biases start as those of `torch.nn.Linear`, uniform within 1 / sqrt(inputs), as `TransformerConv`'s.

    Shapes: x (n, in_channels), edge_index (2, m), edge_attr (m, edge_dim), u (b, global_dim), batch (n,) give
    (n, heads * out_channels), or (n, out_channels) with concat=False, and alpha (m, heads).

    Args:
        in_channels: of a node.
        out_channels: of a head.
        heads: h.
        concat: heads side by side; False takes their mean.
        dropout: probability of dropping a weight w_k, in training.
        edge_dim, global_dim: of an edge and of a graph; None for graphs without such features.
        bias: whether W_q, W_k, W_v and W_r have one.
        root_weight: whether there is a W_r.
        edges_as: what the edges speak as, as `AttentionEdgeUpdate` takes it: "keys" is W_ke, "values" is W_ve, and
            "bias" adds w_be . e_k to the logits.
        share_edge_weight: W_ve = W_ke, one matrix.

    Raises:
        ValueError: settings that do not go together; at a call, shapes that do not fit the layer or each other, and,
            on a CPU, where looking costs nothing, an index that no node has.
        TypeError: an edge_index that is not a tensor of integers, such as a sparse matrix.

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
        in_channels: int,
        out_channels: int,
        heads: int = 1,
        concat: bool = True,
        dropout: float = 0.0,
        edge_dim: int | None = None,
        global_dim: int | None = None,
        bias: bool = True,
        root_weight: bool = True,
        *,
        edges_as: Collection[str] = ("keys", "values"),
        share_edge_weight: bool = False,
    ):
        super().__init__()
        for name, size in (("in_channels", in_channels), ("out_channels", out_channels), ("heads", heads)):
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{name} is a whole number of at least 1, said when the layer is made, not {size!r}")
        self.in_channels, self.out_channels, self.heads, self.concat = in_channels, out_channels, heads, concat
        self.dropout, self.bias, self.root_weight = dropout, bias, root_weight
        self.edge_dim, self.global_dim = edge_dim or None, global_dim or None
        self.edges_as, self.share_edge_weight = tuple(edges_as), share_edge_weight
        self.phi_e = AttentionEdgeUpdate(
            in_channels, heads, out_channels, edge_dim or 0, global_dim or 0, dropout, edges_as=edges_as, bias=bias
        )
        if share_edge_weight:
            if self.phi_e.w_ke is None or self.phi_e.w_ve is None:
                raise ValueError("share_edge_weight needs an edge_dim and edges that speak as keys and as values")
            self.phi_e.w_ve = self.phi_e.w_ke
        self.join = nn.Identity() if concat else MeanHeads(heads)
        width = heads * out_channels if concat else out_channels
        self.w_root = nn.Linear(in_channels, width, bias=bias) if root_weight else None

    def reset_parameters(self) -> None:
        """Every weight and bias drawn anew."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.reset_parameters()

    @overload
    def forward(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        u: Tensor | None = None,
        batch: Tensor | Pair | None = None,
        return_attention_weights: Literal[False] | None = None,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        u: Tensor | None = None,
        batch: Tensor | Pair | None = None,
        *,
        return_attention_weights: Literal[True],
    ) -> tuple[Tensor, Pair]: ...

    def forward(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        u: Tensor | None = None,
        batch: Tensor | Pair | None = None,
        return_attention_weights: bool | None = None,
    ) -> Tensor | tuple[Tensor, Pair]:
        """Attend along the edges.

        Args:
            x: (n, in_channels); or a pair, the senders' (n_s, in_channels) and the receivers' (n, in_channels), when
                edges go from one set of nodes to another and row 0 of `edge_index` counts the first.
            edge_index: (2, m) integers, senders over receivers.
            edge_attr: (m, edge_dim).
            u: (b, global_dim).
            batch: (n,) the graph of each node, which u of several graphs needs; a pair where x is one.
            return_attention_weights: True also returns the weights. False does not.

        Returns:
            (n, heads * out_channels), or (n, out_channels) with concat=False; with the weights, (out, (edge_index,
            alpha)), alpha (m, heads) before dropout, summing to 1 over the edges into a node.
        """
        graph, receivers = self._graph(x, edge_index, edge_attr, u, batch)
        messages = self.phi_e.literal(graph) if self._projects_edges_first else self.phi_e(graph)
        ebar = sum_edges(messages)[graph.v.shape[0] - receivers.shape[0] :]  # of a pair, the receivers alone
        out = self._with_root(self.join(ebar), receivers)
        return (out, (edge_index, messages.weights)) if return_attention_weights else out

    def literal(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        u: Tensor | None = None,
        batch: Tensor | Pair | None = None,
    ) -> LiteralMessages:
        """e'_k of every edge, formed: `e` (m, heads, out_channels) and `weights` (m, heads), in edge_index's order.

        Their sum over the edges into a node, joined, and W_r x_i + b_r, is what `forward` returns for it.
        """
        return self.phi_e.literal(self._graph(x, edge_index, edge_attr, u, batch)[0])

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
        if x.dim() != 3 or x.shape[-1] != self.in_channels:
            raise ValueError(f"x is (graphs, nodes, {self.in_channels}), not {_shape(x)}")
        b, n, _ = x.shape
        mask = torch.ones(b, n, dtype=torch.bool, device=x.device) if mask is None else mask
        for name, given, wanted in (
            ("mask", mask, (b, n)),
            ("edge_attr", edge_attr, (b, n, n, self.edge_dim)),
            ("u", u, (b, self.global_dim)),
            ("edge_mask", edge_mask, (b, n, n)),
        ):
            if given is not None and None not in wanted and given.shape != wanted:
                raise ValueError(f"{name} is {wanted} for these {b} graphs of {n} nodes, not {_shape(given)}")
        messages = self.phi_e(DenseGraph(x, mask, edge_attr, u, edge_mask))
        out = self._with_root(self.join(sum_edges(messages)), x)
        out = out if all_true(mask) else out.masked_fill(~mask.unsqueeze(-1), 0.0)
        return (out, messages.weights) if return_attention_weights else out

    @classmethod
    def from_pyg(cls, layer: Any) -> "TensorDotConv":
        """The layer with the weights of a `torch_geometric.nn.TransformerConv`: same outputs, weights and gradients.

        Raises:
            TypeError: another layer.
            ValueError: one with beta=True, an aggregation other than "add", the flow "target_to_source", or senders and
                receivers of different widths; one whose sizes are not known before its first call.
        """
        from molattn.graph.exchange import conv_from_pyg

        return conv_from_pyg(layer)

    def to_pyg(self) -> Any:
        """A `torch_geometric.nn.TransformerConv` with the weights of this layer: the inverse of `from_pyg`.

        Without root_weight, TransformerConv's lin_skip, which it then has and never reads, stays as it was drawn.

        Raises:
            ValueError: a layer that TransformerConv cannot be: with graph features, with edges as anything but keys
                and values, or with a W_ve that is not W_ke.
        """
        from molattn.graph.exchange import conv_to_pyg

        return conv_to_pyg(self)

    def extra_repr(self) -> str:
        usual = {"concat": True, "dropout": 0.0, "edge_dim": None, "global_dim": None, "bias": True}
        usual |= {"root_weight": True, "edges_as": ("keys", "values"), "share_edge_weight": False}
        said = [f"{name}={getattr(self, name)!r}" for name, value in usual.items() if getattr(self, name) != value]
        return ", ".join([str(self.in_channels), str(self.out_channels), f"heads={self.heads}", *said])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.extra_repr()})"

    @property
    def _projects_edges_first(self) -> bool:
        """Whether W_ke e_k and W_ve e_k are less work than e_k: each head then sees d numbers of an edge, not f."""
        projected = self.phi_e.w_ke is not None or self.phi_e.w_ve is not None
        return projected and (self.edge_dim or 0) >= self.out_channels

    def _with_root(self, ebar: Tensor, receivers: Tensor) -> Tensor:
        return ebar if self.w_root is None else ebar + linear(receivers, self.w_root.weight, self.w_root.bias)

    def _graph(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        u: Tensor | None,
        batch: Tensor | Pair | None,
    ) -> tuple[Graph, Tensor]:
        """The graph that phi_e sees, and the receivers' features. Of a pair, the receivers come behind the senders."""
        self._check(x, edge_index, edge_attr, u, batch)
        edge_index = edge_index.long()
        receivers = x if isinstance(x, Tensor) else x[1]
        if not isinstance(x, Tensor):
            edge_index = torch.stack([edge_index[0], edge_index[1] + x[0].shape[0]])
            x = torch.cat(x)
        batch = torch.cat(batch) if isinstance(batch, tuple) else batch
        num_graphs = 1 if u is None else u.shape[0]
        return Graph.from_edge_index(x, edge_index, edge_attr, u, batch, num_graphs), receivers

    def _check(
        self,
        x: Tensor | Pair,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        u: Tensor | None,
        batch: Tensor | Pair | None,
    ) -> None:
        """What is wrong with a call, in one sentence; nothing that a GPU would have to be waited for."""
        senders, receivers = (x, x) if isinstance(x, Tensor) else x
        for nodes in (senders, receivers):
            if nodes.dim() != 2 or nodes.shape[1] != self.in_channels:
                raise ValueError(f"x is (nodes, {self.in_channels}), not {_shape(nodes)}")
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided or not _is_integer(edge_index):
            raise TypeError("edge_index is a (2, m) tensor of integers, senders over receivers; no sparse matrix")
        if edge_index.dim() != 2 or edge_index.shape[0] != 2:
            raise ValueError(f"edge_index is (2, edges), senders over receivers, not {_shape(edge_index)}")
        edges = edge_index.shape[1]
        if edge_attr is not None and (edge_attr.dim() != 2 or edge_attr.shape[0] != edges):
            raise ValueError(f"edge_attr is (edges, channels) with {edges} edges, not {_shape(edge_attr)}")
        if u is not None and u.dim() != 2:
            raise ValueError(f"u is (graphs, channels), not {_shape(u)}")
        if u is not None and batch is None and u.shape[0] != 1:
            raise ValueError(f"u has {u.shape[0]} rows: batch has to say to which of these graphs each node belongs")
        if batch is not None and isinstance(x, Tensor) != isinstance(batch, Tensor):
            raise ValueError("batch is a pair, the senders' and the receivers', where x is one, and only there")
        batches = () if batch is None else (batch,) if isinstance(batch, Tensor) else batch
        # Torch 2.7 compiles a zip that is not strict as if it were.
        for nodes, of_nodes in zip((senders, receivers)[: len(batches)], batches, strict=True):
            if of_nodes.shape != nodes.shape[:1]:
                raise ValueError(f"batch names the graph of each of {nodes.shape[0]} nodes, not {_shape(of_nodes)}")
        if not torch.compiler.is_compiling():
            for row, nodes, what in ((edge_index[0], senders, "senders"), (edge_index[1], receivers, "receivers")):
                _check_range(row, nodes.shape[0], f"edge_index names {what}", "x")
            if u is not None:
                for of_nodes in batches:
                    _check_range(of_nodes, u.shape[0], "batch names graphs", "u")


def _check_range(index: Tensor, size: int, says: str, of: str) -> None:
    if index.device.type != "cpu" or index.numel() == 0:
        return
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= size:
        raise ValueError(f"{says} from {low} to {high}, and {of} has {size} rows: 0 to {size - 1}")


def _is_integer(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


def _shape(x: Tensor) -> tuple[int, ...]:
    return tuple(x.shape)
