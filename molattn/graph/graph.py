"""Batches of graphs, as one edge list (`Graph`) or padded to one size (`DenseGraph`)."""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from molattn.attention import DenseLayout, EdgeListLayout, PaddedGraphLayout
from molattn.attention.layout import scatter_sum
from molattn.kernels.operations import all_true


# eq=False: == of tensors is a tensor, which has no truth value.
@dataclass(frozen=True, eq=False)
class Graph:
    """b graphs as one edge list, in Battaglia's notation: nodes v_i, edges e_k from s_k to r_k, globals u.

    Attributes:
        v: (n, d_v) node features, the graphs one after another.
        sender: (m,) s_k, the node that edge k comes from: row 0 of PyG's `edge_index`.
        receiver: (m,) r_k, the node that edge k goes to: row 1 of PyG's `edge_index`.
        node_graph: (n,) the graph that each node belongs to: PyG's `batch`.
        num_graphs: b; passed explicitly, never inferred from the largest index.
        e: (m, d_e) edge features, or None.
        u: (b, d_u) graph features, or None.
        degree: (n,) the number of neighbours of each node, if it is not the number of edges into it: in a complete
            graph of atoms, the number of bonds. None for the number of edges into each node.

    >>> import torch
    >>> from molattn.graph import Graph
    >>> x, edge_index = torch.randn(3, 4), torch.tensor([[0, 1, 1], [1, 0, 2]])  # 0 -> 1, 1 -> 0 and 1 -> 2
    >>> graph = Graph.from_edge_index(x, edge_index)
    >>> graph.count_edges().tolist(), graph.num_graphs
    ([1, 1, 1], 1)
    >>> graph.to_dense().edges.int().tolist()  # row: receiver, column: sender
    [[[0, 1, 0], [1, 0, 0], [0, 1, 0]]]
    """

    v: Float[Tensor, "n d_v"]
    sender: Int[Tensor, "m"]
    receiver: Int[Tensor, "m"]
    node_graph: Int[Tensor, "n"]
    num_graphs: int
    e: Float[Tensor, "m d_e"] | None = None
    u: Float[Tensor, "b d_u"] | None = None
    degree: Int[Tensor, "n"] | None = None

    @classmethod
    def from_edge_index(
        cls,
        x: Float[Tensor, "n d_v"],
        edge_index: Int[Tensor, "2 m"],
        edge_attr: Float[Tensor, "m d_e"] | None = None,
        u: Float[Tensor, "b d_u"] | None = None,
        batch: Int[Tensor, "n"] | None = None,
        num_graphs: int = 1,
    ) -> "Graph":
        """The graph, or graphs, of the tensors of a `torch_geometric.data.Data` or `Batch`.

        Args:
            x: (n, d_v) node features.
            edge_index: (2, m), the senders in row 0 and the receivers in row 1.
            edge_attr: (m, d_e) edge features, or None.
            u: (b, d_u) graph features, or None.
            batch: (n,) the graph of each node; all nodes are of one graph by default.
            num_graphs: b, the number of graphs in `batch`.

        Raises:
            TypeError: an edge_index that is not of integers.
            ValueError: an edge_index that is not (2, m), an edge_attr that is not (m, d_e), or a u that is not
                (num_graphs, d_u).

        >>> import torch
        >>> from molattn.graph import Graph
        >>> graph = Graph.from_edge_index(torch.randn(3, 4), torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]]))
        >>> graph.sender.tolist(), graph.receiver.tolist()
        ([0, 1, 0, 2], [1, 0, 2, 0])
        """
        if edge_index.is_floating_point() or edge_index.dtype == torch.bool:
            raise TypeError(f"edge_index is of integers, not {edge_index.dtype}")
        if edge_index.dim() != 2 or edge_index.shape[0] != 2:
            raise ValueError(f"edge_index is (2, edges), not {tuple(edge_index.shape)}")
        if edge_attr is not None and (edge_attr.dim() != 2 or edge_attr.shape[0] != edge_index.shape[1]):
            shape = tuple(edge_attr.shape)
            raise ValueError(f"edge_attr is (edges, channels) for {edge_index.shape[1]} edges, not of shape {shape}")
        if u is not None and u.dim() != 2:
            raise ValueError(f"u is (graphs, channels), not of shape {tuple(u.shape)}")
        if batch is None:
            batch = edge_index.new_zeros(x.shape[0])
        return cls(x, edge_index[0], edge_index[1], batch, num_graphs, edge_attr, u)

    @classmethod
    def from_pyg(cls, data: Any) -> "Graph":
        """The graph, or graphs, of a `torch_geometric.data.Data` or `Batch`.

        Reads x, edge_index and, if present, edge_attr, u, batch, num_graphs and degree. A `Data` stores u as (1, d_u),
        so that a `Batch` of them has (b, d_u). An edge_attr of one number per edge, (m,), has one channel.

        Args:
            data: the `Data` or `Batch`; x and edge_attr are floating point.

        Raises:
            ValueError: no x or edge_index, a batch without num_graphs, or integers in x or edge_attr.

        >>> import torch
        >>> from torch_geometric.data import Batch, Data
        >>> from molattn.graph import Graph
        >>> water = Data(x=torch.randn(3, 4), edge_index=torch.tensor([[0, 1, 0, 2], [1, 0, 2, 0]]), u=torch.ones(1, 2))
        >>> graph = Graph.from_pyg(Batch.from_data_list([water, water]))
        >>> graph.num_graphs, tuple(graph.v.shape), tuple(graph.u.shape), graph.sender.tolist()
        (2, (6, 4), (2, 2), [0, 1, 0, 2, 3, 4, 3, 5])
        >>> tuple(graph.to_dense().v.shape)
        (2, 3, 4)
        """
        x, edge_index = getattr(data, "x", None), getattr(data, "edge_index", None)
        edge_attr, batch = getattr(data, "edge_attr", None), getattr(data, "batch", None)
        if x is None or edge_index is None:
            raise ValueError(f"the {type(data).__name__} has no {'x' if x is None else 'edge_index'}")
        for name, features in (("x", x), ("edge_attr", edge_attr)):
            if features is not None and not features.is_floating_point():
                raise ValueError(f"{name} is {features.dtype}, not floating point: embed integer codes first")
        num_graphs = 1 if batch is None else getattr(data, "num_graphs", None)
        if num_graphs is None:
            raise ValueError("the Data has a batch but no num_graphs: pass a torch_geometric.data.Batch")
        if edge_attr is not None and edge_attr.dim() == 1:
            edge_attr = edge_attr.unsqueeze(-1)
        graph = cls.from_edge_index(x, edge_index, edge_attr, getattr(data, "u", None), batch, num_graphs)
        return graph.replace(degree=getattr(data, "degree", None))

    def to_pyg(self) -> Any:
        """These graphs as a `torch_geometric.data.Batch`, the inverse of `from_pyg`; edges are ordered by graph.

        Raises:
            ValueError: num_graphs is 0, since PyG has no empty batch; or an edge joins nodes of two graphs.
        """
        from torch_geometric.data import Batch, Data

        if not self.num_graphs:
            raise ValueError("num_graphs is 0, and PyG has no empty batch")
        graphs = []
        edge_graph, receiver_graph = self.node_graph[self.sender], self.node_graph[self.receiver]
        if len(crossing := (edge_graph != receiver_graph).nonzero().flatten()):
            k = int(crossing[0])
            raise ValueError(
                f"edge {k} is from a node of graph {int(edge_graph[k])} to a node of graph {int(receiver_graph[k])}: "
                "PyG has no edges between the graphs of a batch"
            )
        for g in range(self.num_graphs):
            nodes, edges = (self.node_graph == g).nonzero().flatten(), (edge_graph == g).nonzero().flatten()
            new_index = self.node_graph.new_zeros(self.v.shape[0])
            new_index[nodes] = torch.arange(len(nodes), device=nodes.device)
            optional = {"edge_attr": (self.e, edges), "u": (self.u, slice(g, g + 1)), "degree": (self.degree, nodes)}
            graphs.append(
                Data(
                    x=self.v[nodes],
                    edge_index=new_index[torch.stack([self.sender[edges], self.receiver[edges]])],
                    **{name: x[rows] for name, (x, rows) in optional.items() if x is not None},
                )
            )
        return Batch.from_data_list(graphs)

    @property
    def attention_layout(self) -> EdgeListLayout:
        """Attention of each receiver over the edges into it."""
        return EdgeListLayout(self.sender, self.receiver, self.v.shape[0])

    def to(self, device: torch.device | str | torch.dtype | None = None, dtype: torch.dtype | None = None) -> "Graph":
        """These graphs on another device, or with features of another dtype; masks and indices keep their dtype.

        Args:
            device: the device, or, as in `torch.Tensor.to`, the dtype.
            dtype: of the features, a floating-point dtype.

        >>> import torch
        >>> from molattn.graph import Graph
        >>> graph = Graph.from_edge_index(torch.randn(2, 4), torch.tensor([[0], [1]]))
        >>> graph.to("cpu", torch.float64).v.dtype
        torch.float64
        """
        return move_features(self, device, dtype)

    def replace(self, **fields: Tensor | None) -> "Graph":
        """This graph with some fields changed.

        Args:
            fields: the new values, by the name of the field.

        Raises:
            TypeError: a name that is not a field.
        """
        return replace(self, **fields)

    def broadcast_to_nodes(self, x: Float[Tensor, "b d"]) -> Float[Tensor, "n d"]:
        """Graph features `x` repeated for each node of the graph: (b, d) -> (n, d)."""
        return x[self.node_graph]

    def sum_nodes(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "b d"]:
        """The sum of `x` over each graph's nodes: (n, d) -> (b, d)."""
        return scatter_sum(x, self.node_graph, self.num_graphs)

    def count_nodes(self) -> Int[Tensor, "b"]:
        """The number of nodes of each graph, (b,)."""
        return scatter_sum(torch.ones_like(self.node_graph), self.node_graph, self.num_graphs)

    def readout_layout(self) -> EdgeListLayout:
        """Attention of one query per graph over the nodes of that graph."""
        nodes = torch.arange(self.v.shape[0], device=self.v.device)
        return EdgeListLayout(nodes, self.node_graph, self.num_graphs)

    def count_edges(self) -> Int[Tensor, "n"]:
        """The number of edges into each node, (n,)."""
        return scatter_sum(torch.ones_like(self.receiver), self.receiver, self.v.shape[0])

    def count_all_edges(self) -> Int[Tensor, "b"]:
        """The number of edges of each graph, (b,); an edge belongs to the graph of its receiver."""
        edge_graph = self.node_graph[self.receiver]
        return scatter_sum(torch.ones_like(edge_graph), edge_graph, self.num_graphs)

    def max_nodes(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "b d"]:
        """The maximum of `x` over each graph's nodes, zeros for a graph without nodes: (n, d) -> (b, d)."""
        return _scatter_max(x, self.node_graph, self.num_graphs)

    def sum_edges(self, x: Float[Tensor, "m *d"]) -> Float[Tensor, "n *d"]:
        """The sum of `x` over the edges into each node: (m, ...) -> (n, ...)."""
        return scatter_sum(x, self.receiver, self.v.shape[0])

    def max_edges(self, x: Float[Tensor, "m *d"]) -> Float[Tensor, "n *d"]:
        """The maximum of `x` over the edges into each node, zeros for a node without edges: (m, ...) -> (n, ...)."""
        return _scatter_max(x, self.receiver, self.v.shape[0])

    def max_all_edges(self, x: Float[Tensor, "m d"]) -> Float[Tensor, "b d"]:
        """The maximum of `x` over each graph's edges, zeros for a graph without edges: (m, d) -> (b, d)."""
        return _scatter_max(x, self.node_graph[self.receiver], self.num_graphs)

    def mean_senders(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The mean of `x` over the senders of the edges into each node: (n, d) -> (n, d).

        Zeros for a node without edges.
        """
        return self.sum_edges(x[self.sender]) / self.count_edges().clamp_min(1).to(x.dtype).unsqueeze(-1)

    def max_senders(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """The maximum of `x` over the senders of the edges into each node: (n, d) -> (n, d).

        Zeros for a node without edges.
        """
        return self.max_edges(x[self.sender])

    def gather_receivers(self, x: Float[Tensor, "n *d"]) -> Float[Tensor, "m *d"]:
        """Node features `x` of each edge's receiver: (n, ...) -> (m, ...)."""
        return x.index_select(0, self.receiver)

    def gather_senders(self, x: Float[Tensor, "n *d"]) -> Float[Tensor, "m *d"]:
        """Node features `x` of each edge's sender: (n, ...) -> (m, ...)."""
        return x.index_select(0, self.sender)

    def to_dense(self) -> "DenseGraph":
        """The same graphs padded to the size of the largest one: the inverse of `DenseGraph.to_edge_list`.

        Raises:
            ValueError: a duplicate edge, or an edge between two graphs, which a dense graph cannot represent; nodes
                that are not one graph after another.
        """
        if (self.node_graph.diff() < 0).any():
            raise ValueError("the nodes of the graphs are not one graph after another: sort them by node_graph")
        counts, graph = self.count_nodes(), self.node_graph[self.receiver]
        n = int(counts.max()) if len(counts) else 0
        position = torch.arange(self.v.shape[0], device=self.v.device) - (counts.cumsum(0) - counts)[self.node_graph]
        index = graph, position[self.receiver], position[self.sender]
        if (graph != self.node_graph[self.sender]).any():
            raise ValueError("an edge joins two graphs, which a dense graph cannot represent")
        edges = torch.zeros(self.num_graphs, n, n, dtype=torch.bool, device=self.v.device)
        edges[index] = True
        if int(edges.sum()) != len(graph):
            raise ValueError("an edge occurs twice, and a dense graph has each edge once")

        def padded(x: Tensor) -> Tensor:
            return x.new_zeros(self.num_graphs, n, *x.shape[1:]).index_put((self.node_graph, position), x)

        return DenseGraph(
            v=padded(self.v),
            node_mask=padded(torch.ones_like(self.node_graph, dtype=torch.bool)),
            e=None if self.e is None else self.e.new_zeros(*edges.shape, self.e.shape[1]).index_put(index, self.e),
            u=self.u,
            edge_mask=None if len(graph) == int((counts * counts).sum()) else edges,
            degree=None if self.degree is None else padded(self.degree),
        )


_STORED_SIZES = "_right_padded_sizes"
"""The attribute of a `DenseGraph` with the version of its mask and the `right_padded_sizes` of that version."""


@dataclass(frozen=True, eq=False)
class DenseGraph:
    """b graphs padded to n nodes each; every pair of nodes is an edge, unless `edge_mask` is given.

    Attributes:
        v: (b, n, d_v) node features, finite everywhere; values in the padding have no effect.
        node_mask: (b, n) True where there is a node.
        e: (b, n, n, d_e) edge features, [b, i, j] being the edge from sender j to receiver i; or None. Finite
            everywhere; values in the padding have no effect.
        u: (b, d_u) graph features, or None.
        edge_mask: (b, n, n) True where there is an edge; None for complete graphs with self-loops.
        degree: (b, n) as in `Graph`.

    >>> import torch
    >>> from molattn.graph import DenseGraph
    >>> mask = torch.tensor([[True, True, True], [True, True, False]])
    >>> graph = DenseGraph(v=torch.randn(2, 3, 4), node_mask=mask)
    >>> graph.count_nodes().tolist(), graph.count_all_edges().tolist()  # all pairs of nodes, with self-loops
    ([3, 2], [9, 4])
    >>> edge_list = graph.to_edge_list()
    >>> tuple(edge_list.v.shape), edge_list.node_graph.tolist()
    ((5, 4), [0, 0, 0, 1, 1])
    """

    v: Float[Tensor, "b n d_v"]
    node_mask: Bool[Tensor, "b n"]
    e: Float[Tensor, "b n n d_e"] | None = None
    u: Float[Tensor, "b d_u"] | None = None
    edge_mask: Bool[Tensor, "b n n"] | None = None
    degree: Int[Tensor, "b n"] | None = None

    def check_masks(self) -> None:
        """Check the masks, whose errors could otherwise be silent: an integer mask selects rows instead of nodes.

        Raises:
            TypeError: a mask that is not boolean.
            ValueError: a mask, or edge features, of another number of graphs or nodes than v.
        """
        nodes = self.v.shape[:2]
        pairs = (*nodes, nodes[1])
        for name, mask in (("node_mask", self.node_mask), ("edge_mask", self.edge_mask)):
            if mask is not None and mask.dtype != torch.bool:
                what = "a node" if name == "node_mask" else "an edge"
                raise TypeError(f"{name} is boolean, True where there is {what}, not {mask.dtype}")
        e = None if self.e is None else self.e.shape[:3]
        edge_mask = None if self.edge_mask is None else self.edge_mask.shape
        for name, shape, size in (
            ("node_mask", self.node_mask.shape, nodes),
            ("edge_mask", edge_mask, pairs),
            ("e", e, pairs),
        ):
            if shape is not None and shape != size:
                channels = ", channels" if name == "e" else ""
                expected = ", ".join(map(str, size))
                raise ValueError(
                    f"{name} is ({expected}{channels}) for {nodes[0]} graphs of {nodes[1]} nodes, not of shape "
                    f"{tuple(getattr(self, name).shape)}"
                )

    @property
    def edges(self) -> Bool[Tensor, "b n n"]:
        """(b, n, n) True where there is an edge, [b, i, j] from j to i; False in the padding."""
        pairs = self.node_mask.unsqueeze(-1) & self.node_mask.unsqueeze(-2)
        return pairs if self.edge_mask is None else pairs & self.edge_mask

    @property
    def attention_layout(self) -> DenseLayout:
        """Attention of each receiver over the senders of its edges, the same in every head."""
        if torch.compiler.is_compiling():  # the compiler cannot trace a mask that is computed lazily
            return DenseLayout(self.edges.unsqueeze(-3))
        return PaddedGraphLayout(None if all_true(self.node_mask) else self.node_mask, self.edge_mask)

    @property
    def right_padded_sizes(self) -> Int[Tensor, "b"] | None:
        """`count_nodes`, (b,), if the padding of every graph comes after its nodes; else None."""
        # Stored until the mask is modified in place. Inference tensors do not count their modifications.
        version = None if self.node_mask.is_inference() else self.node_mask._version
        stored = self.__dict__.get(_STORED_SIZES)
        if stored is None or version is None or stored[0] != version:
            counts = self.count_nodes()
            first = torch.arange(self.node_mask.shape[1], device=counts.device) < counts.unsqueeze(-1)
            stored = version, counts if torch.equal(first, self.node_mask) else None
            self.__dict__[_STORED_SIZES] = stored
        return stored[1]

    def to(
        self, device: torch.device | str | torch.dtype | None = None, dtype: torch.dtype | None = None
    ) -> "DenseGraph":
        """These graphs on another device, or with features of another dtype; masks and indices keep their dtype.

        Args:
            device: the device, or, as in `torch.Tensor.to`, the dtype.
            dtype: of the features, a floating-point dtype.

        >>> import torch
        >>> from molattn.graph import DenseGraph
        >>> graph = DenseGraph(torch.randn(1, 2, 4), torch.ones(1, 2, dtype=torch.bool))
        >>> graph.to("cpu", torch.float64).v.dtype
        torch.float64
        """
        return move_features(self, device, dtype)

    def replace(self, **fields: Tensor | None) -> "DenseGraph":
        """This graph with some fields changed.

        Args:
            fields: the new values, by the name of the field.

        Raises:
            TypeError: a name that is not a field.
        """
        changed = replace(self, **fields)
        if "node_mask" not in fields and _STORED_SIZES in self.__dict__:
            changed.__dict__[_STORED_SIZES] = self.__dict__[_STORED_SIZES]
        return changed

    def zero_padding(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """`x` with zeros in the padding: (b, n, d)."""
        return x if all_true(self.node_mask) else x.masked_fill(~self.node_mask.unsqueeze(-1), 0.0)

    def broadcast_to_nodes(self, x: Float[Tensor, "b d"]) -> Float[Tensor, "b 1 d"]:
        """Graph features `x` in a shape that broadcasts over the nodes: (b, d) -> (b, 1, d)."""
        return x.unsqueeze(1)

    def sum_nodes(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b d"]:
        """The sum of `x` over each graph's nodes: (b, n, d) -> (b, d)."""
        return x.masked_fill(~self.node_mask.unsqueeze(-1), 0.0).sum(1)

    def count_nodes(self) -> Int[Tensor, "b"]:
        """The number of nodes of each graph, (b,)."""
        return self.node_mask.sum(-1)

    def count_edges(self) -> Int[Tensor, "b n"]:
        """The number of edges into each node, (b, n)."""
        return self.edges.sum(-1)

    def count_all_edges(self) -> Int[Tensor, "b"]:
        """The number of edges of each graph, (b,)."""
        return self.edges.sum((-2, -1))

    def max_nodes(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b d"]:
        """The maximum of `x` over each graph's nodes, zeros for a graph without nodes: (b, n, d) -> (b, d)."""
        return _masked_max(x, self.node_mask, 1)

    def sum_edges(self, x: Float[Tensor, "b n n *d"]) -> Float[Tensor, "b n *d"]:
        """The sum of `x` over the edges into each node: (b, i, j, ...) -> (b, i, ...)."""
        return x.masked_fill(~_unsqueeze_like(self.edges, x), 0.0).sum(2)

    def max_edges(self, x: Float[Tensor, "b n n *d"]) -> Float[Tensor, "b n *d"]:
        """The maximum of `x` over the edges into each node: (b, i, j, ...) -> (b, i, ...).

        Zeros for a node without edges.
        """
        return _masked_max(x, self.edges, 2)

    def max_all_edges(self, x: Float[Tensor, "b n n d"]) -> Float[Tensor, "b d"]:
        """The maximum of `x` over each graph's edges, zeros for a graph without edges: (b, i, j, d) -> (b, d)."""
        return _masked_max(x.flatten(1, 2), self.edges.flatten(1), 1)

    def mean_senders(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """The mean of `x` over the senders of the edges into each node: (b, j, d) -> (b, i, d).

        Zeros for a node without edges.
        """
        total = self.edges.to(x.dtype) @ x.masked_fill(~self.node_mask.unsqueeze(-1), 0.0)
        return total / self.count_edges().clamp_min(1).to(x.dtype).unsqueeze(-1)

    def max_senders(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """The maximum of `x` over the senders of the edges into each node: (b, j, d) -> (b, i, d).

        Zeros for a node without edges.
        """
        return _masked_max(x.unsqueeze(1), self.edges, 2)

    def gather_receivers(self, x: Float[Tensor, "b n *d"]) -> Float[Tensor, "b n 1 *d"]:
        """Node features `x` in a shape that broadcasts over the edges into each node: (b, i, ...) -> (b, i, 1, ...)."""
        return x.unsqueeze(2)

    def gather_senders(self, x: Float[Tensor, "b n *d"]) -> Float[Tensor, "b 1 n *d"]:
        """Node features `x` in a shape that broadcasts over the edges from each node: (b, j, ...) -> (b, 1, j, ...)."""
        return x.unsqueeze(1)

    def to_edge_list(self) -> Graph:
        """The same graphs without padding: nodes in order, edges in the order of (graph, receiver, sender).

        Raises:
            TypeError, ValueError: masks as for `check_masks`.
        """
        self.check_masks()
        b, _ = self.node_mask.shape
        position = self.node_mask.flatten().cumsum(0).view_as(self.node_mask) - 1
        graph, i, j = self.edges.nonzero(as_tuple=True)
        return Graph(
            v=self.v[self.node_mask],
            sender=position[graph, j],
            receiver=position[graph, i],
            node_graph=self.node_mask.nonzero(as_tuple=True)[0],
            num_graphs=b,
            e=None if self.e is None else self.e[graph, i, j],
            u=self.u,
            degree=None if self.degree is None else self.degree[self.node_mask],
        )


def move_features(graph: Graph | DenseGraph, device: Any, dtype: torch.dtype | None) -> Any:
    """The graph with its tensors on a device, and with its floating-point ones of a dtype; None for no change."""
    if isinstance(device, torch.dtype):
        device, dtype = None, device
    changed = {}
    for field in fields(graph):
        x = getattr(graph, field.name)
        if isinstance(x, Tensor):
            changed[field.name] = x.to(device=device, dtype=dtype if x.is_floating_point() else None)
    return graph.replace(**changed)


def _unsqueeze_like(mask: Tensor, x: Tensor) -> Tensor:
    """`mask` with trailing dimensions of size 1, up to the number of dimensions of x."""
    return mask.view(*mask.shape, *[1] * (x.dim() - mask.dim()))


def _masked_max(x: Tensor, mask: Tensor, dim: int) -> Tensor:
    mask = _unsqueeze_like(mask, x)
    x = x.masked_fill(~mask, torch.finfo(x.dtype).min)
    if x.shape[dim] == 0:
        return x.sum(dim)  # zeros; amax raises on an empty dimension
    return x.amax(dim).masked_fill(~mask.any(dim), 0.0)


def _scatter_max(x: Tensor, index: Tensor, size: int) -> Tensor:
    index = index.long().view(-1, *[1] * (x.dim() - 1)).expand_as(x)
    return x.new_zeros(size, *x.shape[1:]).scatter_reduce(0, index, x, "amax", include_self=False)


AnyGraph = Graph | DenseGraph
"""A batch of graphs in either form: the type of arguments that can be a `Graph` or a `DenseGraph`."""
