"""Validation of the inputs of `TensorDotConv`, in every form that PyG layers accept, and conversion to a `Graph`."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.utils import to_edge_index

from molattn.graph.graph import Graph
from molattn.kernels.operations import tracing_reason

Pair = tuple[Tensor, Tensor]

SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


@dataclass(frozen=True)
class ConvInputs:
    """The validated inputs of a call.

    Attributes:
        graph: the receivers, and the edges into them.
        senders: the nodes that `graph.sender` indexes, if x is a pair; None if they are the receivers.
        edge_index: (2, m), for `MessagePassing.propagate`; `flow` defines which row has the senders.
        passed_edge_index: edge_index as the caller passed it, which may be a sparse adjacency matrix.
        size: the number of nodes that row 0 of `edge_index` can index, and the number that row 1 can.
    """

    graph: Graph
    senders: Graph | None
    edge_index: Tensor
    passed_edge_index: Any
    size: tuple[int, int]

    @property
    def sender_features(self) -> Tensor:
        """The senders' features."""
        return self.graph.v if self.senders is None else self.senders.v

    def with_weights(self, alpha: Tensor) -> tuple[Any, Tensor]:
        """The second output with `return_attention_weights`: edge_index as it was passed, and alpha.

        A sparse adjacency matrix also gets alpha as its values: (receivers, senders, heads).
        """
        edge_index = self.passed_edge_index
        return (_with_values(edge_index, alpha) if is_sparse(edge_index) else edge_index), alpha


def parse_inputs(
    x: Tensor | Pair,
    edge_index: Any,
    edge_attr: Tensor | None,
    u: Tensor | None,
    batch: Tensor | Pair | None,
    *,
    widths: tuple[int, int],
    edge_dim: int | None,
    flow: str,
) -> ConvInputs:
    """Validate and convert the inputs, without checks that would synchronize with a GPU.

    Args:
        x, edge_index, edge_attr, u, batch: as `TensorDotConv.forward` takes them.
        widths: channels of senders and receivers, -1 for any.
        edge_dim: channels of an edge, None for none and -1 for any.
        flow: as in PyG, "source_to_target" if the first row of edge_index is senders.

    Raises:
        ValueError: a wrong shape, or, on a CPU, an index out of range.
        TypeError: an edge_index that is neither integers nor a sparse tensor.
    """
    senders, receivers = (x, x) if isinstance(x, Tensor) else x
    for nodes, width in ((senders, widths[0]), (receivers, widths[1])):
        if nodes.dim() != 2 or (width != -1 and nodes.shape[1] != width):
            raise ValueError(f"x is (nodes, {'channels' if width < 0 else width}), not {_shape(nodes)}")
    forward = flow == "source_to_target"
    size = (senders.shape[0], receivers.shape[0]) if forward else (receivers.shape[0], senders.shape[0])
    rows, edge_attr = _edges(edge_index, edge_attr, size, edge_dim, forward)
    if edge_attr is not None and (edge_attr.dim() != 2 or edge_attr.shape[0] != rows.shape[1]):
        raise ValueError(f"edge_attr is (edges, channels) with {rows.shape[1]} edges, not {_shape(edge_attr)}")
    if edge_dim == -1 and edge_attr is None:
        raise ValueError("edge_dim=-1 is inferred from the first call: it needs an edge_attr")
    batches = _batches(x, u, batch)
    if not tracing_reason():
        first, second = ("senders", "receivers") if forward else ("receivers", "senders")
        _check_range(rows[0], size[0], f"edge_index has {first}", "x")
        _check_range(rows[1], size[1], f"edge_index has {second}", "x")
        if u is not None and batch is not None:
            for node_graph in (batch,) if isinstance(batch, Tensor) else batch:
                _check_range(node_graph, u.shape[0], "batch has graphs", "u")
    sender_first = rows if forward else rows.flip(0)
    num_graphs = 1 if u is None else u.shape[0]
    graph = Graph.from_edge_index(receivers, sender_first, edge_attr, u, batches and batches[1], num_graphs)
    sender_features = None
    if not isinstance(x, Tensor):
        sender_features = Graph.from_edge_index(senders, sender_first, None, u, batches and batches[0], num_graphs)
    return ConvInputs(graph, sender_features, rows, edge_index, size)


def check_dense_inputs(
    x: Tensor,
    mask: Tensor,
    edge_attr: Tensor | None,
    u: Tensor | None,
    edge_mask: Tensor | None,
    *,
    widths: tuple[int, int],
    edge_dim: int | None,
    global_dim: int | None,
) -> None:
    """Check the inputs of `TensorDotConv.forward_dense`. A size of -1 is not checked; None is for an absent input.

    Raises:
        ValueError: a wrong shape, or a layer for bipartite graphs.
        TypeError: a mask that is not boolean.
    """
    if -1 not in widths and widths[0] != widths[1]:
        raise ValueError(f"forward_dense does not support bipartite graphs: in_channels={widths}")
    width = max(widths)
    if x.dim() != 3 or (width != -1 and x.shape[-1] != width):
        raise ValueError(f"x is (graphs, nodes, {'channels' if width < 0 else width}), not {_shape(x)}")
    if edge_dim == -1 and edge_attr is None:
        raise ValueError("edge_dim=-1 is inferred from the first call: it needs an edge_attr")
    for name, tensor in (("mask", mask), ("edge_mask", edge_mask)):
        if tensor is not None and tensor.dtype != torch.bool:
            raise TypeError(f"{name} is boolean, not {tensor.dtype}")
    b, n, _ = x.shape
    if edge_dim == -1 and edge_attr is not None:
        edge_dim = edge_attr.shape[-1]
    for name, tensor, size in (
        ("mask", mask, (b, n)),
        ("edge_attr", edge_attr, (b, n, n, edge_dim)),
        ("u", u, (b, global_dim)),
        ("edge_mask", edge_mask, (b, n, n)),
    ):
        if tensor is not None and None not in size and tensor.shape != size:
            raise ValueError(f"{name} is {size} for these {b} graphs of {n} nodes, not {_shape(tensor)}")


def is_sparse(edge_index: Any) -> bool:
    """Whether `edge_index` is a sparse adjacency matrix, as a torch tensor."""
    return isinstance(edge_index, Tensor) and edge_index.layout in SPARSE


def _with_values(adj_t: Tensor, values: Tensor) -> Tensor:
    """A sparse adjacency matrix with other values, in the order of `to_edge_index`."""
    # PyG's set_sparse_value would keep the channels of the edge features in the size.
    size = (*adj_t.shape[:2], *values.shape[1:])
    if adj_t.layout == torch.sparse_coo:
        return torch.sparse_coo_tensor(adj_t.coalesce().indices(), values, size, is_coalesced=True)
    if adj_t.layout == torch.sparse_csr:
        return torch.sparse_csr_tensor(adj_t.crow_indices(), adj_t.col_indices(), values, size)
    return torch.sparse_csc_tensor(adj_t.ccol_indices(), adj_t.row_indices(), values, size)


def _shape(x: Tensor) -> tuple[int, ...]:
    return tuple(x.shape)


def _edges(
    edge_index: Any, edge_attr: Tensor | None, size: tuple[int, int], edge_dim: int | None, forward: bool
) -> tuple[Tensor, Tensor | None]:
    """edge_index as a (2, m) tensor of int64, and edge_attr as (m, channels) if it is (m,) or the values of adj_t."""
    names = "senders in row 0, receivers in row 1" if forward else "receivers in row 0, senders in row 1"
    if is_sparse(edge_index):
        if not forward:
            raise ValueError("a sparse adj_t needs flow=source_to_target: transpose it instead")
        if tuple(edge_index.shape[:2]) != (size[1], size[0]):
            raise ValueError(f"a sparse adj_t is (receivers, senders), {size[::-1]} here, not {_shape(edge_index)}")
        transposed, values = to_edge_index(edge_index)
        rows = transposed.flip(0)
        # As in PyG: every sparse matrix has one number per edge, which is edge_attr only if the layer takes one.
        if edge_attr is None and (values.dim() > 1 or edge_dim in (1, -1)):
            edge_attr = values
    else:
        if type(edge_index) is EdgeIndex:
            edge_index = edge_index.as_tensor()
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided or not _is_integer(edge_index):
            raise TypeError(f"edge_index is a (2, m) tensor of integers, {names}, or a sparse torch tensor (adj_t)")
        if edge_index.dim() != 2 or edge_index.shape[0] != 2:
            raise ValueError(f"edge_index is (2, edges), {names}, not {_shape(edge_index)}")
        rows = edge_index.long()
    if edge_attr is not None and edge_attr.dim() == 1 and edge_dim in (1, -1):
        edge_attr = edge_attr.unsqueeze(-1)
    return rows, edge_attr


def _batches(x: Tensor | Pair, u: Tensor | None, batch: Tensor | Pair | None) -> Pair | None:
    """The graph of each sender and of each receiver."""
    if u is not None and u.dim() != 2:
        raise ValueError(f"u is (graphs, channels), not {_shape(u)}")
    if batch is None:
        if u is not None and u.shape[0] != 1:
            raise ValueError(f"u has {u.shape[0]} rows: pass batch, the graph of each node")
        return None
    if isinstance(x, Tensor) != isinstance(batch, Tensor):
        raise ValueError("batch must be a pair, for senders and receivers, if and only if x is a pair")
    senders, receivers = (x, x) if isinstance(x, Tensor) else x
    sender_batch, receiver_batch = (batch, batch) if isinstance(batch, Tensor) else batch
    for nodes, node_graph in ((senders, sender_batch), (receivers, receiver_batch)):
        if node_graph.shape != nodes.shape[:1]:
            raise ValueError(f"batch is ({nodes.shape[0]},), the graph of each node, not {_shape(node_graph)}")
    return sender_batch, receiver_batch


def _check_range(index: Tensor, size: int, what: str, name: str) -> None:
    if index.device.type != "cpu" or index.numel() == 0:
        return
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= size:
        raise ValueError(f"{what} from {low} to {high}, and {name} has {size} rows: 0 to {size - 1}")


def _is_integer(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)
