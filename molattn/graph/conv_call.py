"""What `TensorDotConv` is called with, in each of the forms that PyG's layers take: checked, and read into one."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.utils import to_edge_index
from torch_geometric.utils.sparse import set_sparse_value

from molattn.graph.graph import Graph

Pair = tuple[Tensor, Tensor]

SPARSE = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


@dataclass(frozen=True)
class ConvCall:
    """Edges and the nodes at both of their ends.

    Attributes:
        graph: the receivers, and the edges into them.
        senders: the nodes that `graph.sender` counts, where x is a pair; None where they are the receivers.
        edge_index: (2, m), its rows as the flow has them, as `MessagePassing.propagate` takes it.
        given: edge_index as the caller has it, which may be a sparse adjacency matrix.
        size: how many nodes the first and the second row of `edge_index` count.
    """

    graph: Graph
    senders: Graph | None
    edge_index: Tensor
    given: Any
    size: tuple[int, int]

    @property
    def sent(self) -> Tensor:
        """The senders' features."""
        return self.graph.v if self.senders is None else self.senders.v

    def with_weights(self, alpha: Tensor) -> tuple[Any, Tensor]:
        """What `return_attention_weights` adds to the output: the edges as they were given, and alpha.

        A sparse adjacency matrix holds alpha as its values, too: (receivers, senders, heads).
        """
        return (set_sparse_value(self.given, alpha) if is_sparse(self.given) else self.given), alpha


def read_call(
    x: Tensor | Pair,
    edge_index: Any,
    edge_attr: Tensor | None,
    u: Tensor | None,
    batch: Tensor | Pair | None,
    *,
    widths: tuple[int, int],
    edge_dim: int | None,
    flow: str,
) -> ConvCall:
    """The call, or what is wrong with it in one sentence; nothing is looked at that a GPU would have to be waited for.

    Args:
        x, edge_index, edge_attr, u, batch: as `TensorDotConv.forward` takes them.
        widths: channels of senders and receivers, -1 for any.
        edge_dim: of an edge, None for none and -1 for any.
        flow: PyG's, "source_to_target" where the first row of edge_index names senders.
    """
    senders, receivers = (x, x) if isinstance(x, Tensor) else x
    for nodes, width in ((senders, widths[0]), (receivers, widths[1])):
        if nodes.dim() != 2 or (width != -1 and nodes.shape[1] != width):
            raise ValueError(f"x is (nodes, {'channels' if width < 0 else width}), not {shape(nodes)}")
    forward = flow == "source_to_target"
    size = (senders.shape[0], receivers.shape[0]) if forward else (receivers.shape[0], senders.shape[0])
    rows, edge_attr = _edges(edge_index, edge_attr, size, edge_dim, forward)
    if edge_attr is not None and (edge_attr.dim() != 2 or edge_attr.shape[0] != rows.shape[1]):
        raise ValueError(f"edge_attr is (edges, channels) with {rows.shape[1]} edges, not {shape(edge_attr)}")
    if edge_dim == -1 and edge_attr is None:
        raise ValueError("edge_dim=-1 is what the first call says: it needs an edge_attr")
    batches = _batches(x, u, batch)
    if not torch.compiler.is_compiling():
        first, second = ("senders", "receivers") if forward else ("receivers", "senders")
        _check_range(rows[0], size[0], f"edge_index names {first}", "x")
        _check_range(rows[1], size[1], f"edge_index names {second}", "x")
        if u is not None and batch is not None:
            for of_nodes in (batch,) if isinstance(batch, Tensor) else batch:
                _check_range(of_nodes, u.shape[0], "batch names graphs", "u")
    sender_first = rows if forward else rows.flip(0)
    num_graphs = 1 if u is None else u.shape[0]
    graph = Graph.from_edge_index(receivers, sender_first, edge_attr, u, batches and batches[1], num_graphs)
    sent = None
    if not isinstance(x, Tensor):
        sent = Graph.from_edge_index(senders, sender_first, None, u, batches and batches[0], num_graphs)
    return ConvCall(graph, sent, rows, edge_index, size)


def is_sparse(edge_index: Any) -> bool:
    """Whether it is a sparse adjacency matrix of torch's."""
    return isinstance(edge_index, Tensor) and edge_index.layout in SPARSE


def shape(x: Tensor) -> tuple[int, ...]:
    return tuple(x.shape)


def _edges(
    edge_index: Any, edge_attr: Tensor | None, size: tuple[int, int], edge_dim: int | None, forward: bool
) -> tuple[Tensor, Tensor | None]:
    """Both rows of indices, (2, m) of 64 bits, and edge_attr as (m, channels), where it has these dimensions at all."""
    names = "senders over receivers" if forward else "receivers over senders"
    if is_sparse(edge_index):
        if not forward:
            raise ValueError("a sparse adj_t says itself who receives: transpose it, in place of flow=target_to_source")
        if tuple(edge_index.shape[:2]) != (size[1], size[0]):
            raise ValueError(f"a sparse adj_t is (receivers, senders), {size[::-1]} here, not {shape(edge_index)}")
        transposed, values = to_edge_index(edge_index)
        rows = transposed.flip(0)
        # As in PyG: one number for each edge is a weight, which is there in every such matrix, asked for or not.
        if edge_attr is None and (values.dim() > 1 or edge_dim in (1, -1)):
            edge_attr = values
    else:
        if type(edge_index) is EdgeIndex:
            edge_index = edge_index.as_tensor()
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided or not _is_integer(edge_index):
            raise TypeError(f"edge_index is a (2, m) tensor of integers, {names}, or a sparse adj_t of torch's")
        if edge_index.dim() != 2 or edge_index.shape[0] != 2:
            raise ValueError(f"edge_index is (2, edges), {names}, not {shape(edge_index)}")
        rows = edge_index.long()
    if edge_attr is not None and edge_attr.dim() == 1 and edge_dim in (1, -1):
        edge_attr = edge_attr.unsqueeze(-1)
    return rows, edge_attr


def _batches(x: Tensor | Pair, u: Tensor | None, batch: Tensor | Pair | None) -> Pair | None:
    """The graph of each sender and of each receiver."""
    if u is not None and u.dim() != 2:
        raise ValueError(f"u is (graphs, channels), not {shape(u)}")
    if batch is None:
        if u is not None and u.shape[0] != 1:
            raise ValueError(f"u has {u.shape[0]} rows: batch has to say to which of these graphs each node belongs")
        return None
    if isinstance(x, Tensor) != isinstance(batch, Tensor):
        raise ValueError("batch is a pair, the senders' and the receivers', where x is one, and only there")
    senders, receivers = (x, x) if isinstance(x, Tensor) else x
    of_senders, of_receivers = (batch, batch) if isinstance(batch, Tensor) else batch
    for nodes, of_nodes in ((senders, of_senders), (receivers, of_receivers)):
        if of_nodes.shape != nodes.shape[:1]:
            raise ValueError(f"batch names the graph of each of {nodes.shape[0]} nodes, not {shape(of_nodes)}")
    return of_senders, of_receivers


def _check_range(index: Tensor, size: int, says: str, of: str) -> None:
    if index.device.type != "cpu" or index.numel() == 0:
        return
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= size:
        raise ValueError(f"{says} from {low} to {high}, and {of} has {size} rows: 0 to {size - 1}")


def _is_integer(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)
