"""A stack of blocks, run as one fused operation where possible."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from molattn.attention.unmodified import has_hooks
from molattn.graph.embedding import look_up
from molattn.graph.graph import DenseGraph
from molattn.graph.messages import not_none
from molattn.kernels import blocks as kernel
from molattn.kernels.blocks import BlockWeights
from molattn.kernels.dispatch import Operation
from molattn.kernels.operations import all_true, eager_unsupported_reason, is_autocast_enabled, tracing_reason


@dataclass(frozen=True)
class EdgeEmbedding:
    """Edge features as sums of embeddings, not yet looked up: e_ij = sum_t tables_t[codes_tij].

    `run_blocks` does not read the codes in the padding of a graph.

    Attributes:
        tables: each (codes, f), a row for each possible code.
        codes: for each table, (b, n, n) bytes; [b, i, j] is the code of the edge from sender j to receiver i.

    >>> import torch
    >>> from molattn.graph import EdgeEmbedding
    >>> codes = torch.tensor([[[0, 1], [1, 0]]], dtype=torch.uint8)  # one graph of two nodes
    >>> edges = EdgeEmbedding((torch.tensor([[0.0], [5.0]]),), (codes,))
    >>> edges.features().squeeze(-1).tolist()
    [[[0.0, 5.0], [5.0, 0.0]]]
    >>> (edges + edges).features().squeeze(-1).tolist()
    [[[0.0, 10.0], [10.0, 0.0]]]
    """

    tables: tuple[Float[Tensor, "_ f"], ...]
    codes: tuple[UInt8[Tensor, "b n n"], ...]

    def features(self, node_mask: Bool[Tensor, "b n"] | None = None) -> Float[Tensor, "b n n f"]:
        """e_ij of every pair of nodes, (b, n, n, f); no block reads the features in the padding.

        Args:
            node_mask: True for nodes. If it is given, codes in the padding may have no row in their table.

        Raises:
            IndexError: a code without a row in its table.
        """
        codes = self.codes
        if node_mask is not None and not all_true(node_mask):
            padding = ~(node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2))
            codes = [
                x.masked_fill(padding, 0) if len(table) < 256 else x  # 256 rows: one for every byte
                for table, x in zip(self.tables, codes, strict=True)
            ]
        embeddings = [look_up(table, x) for table, x in zip(self.tables, codes, strict=True)]
        return sum(embeddings[1:], embeddings[0])

    def __add__(self, other: "EdgeEmbedding") -> "EdgeEmbedding":
        return EdgeEmbedding(self.tables + other.tables, self.codes + other.codes)


def run_blocks(blocks: Iterable[Any], graph: DenseGraph, edge_embedding: EdgeEmbedding | None = None) -> DenseGraph:
    """The graph after all blocks: as one fused operation if every block supports it, else by calling each block.

    The fused operation calls no module. It runs only if each part of each block is exactly of its default class and has
    no hook, so that hooks run and layers that were replaced are called.

    Args:
        blocks: in the order in which they are applied.
        graph: the input of the first block.
        edge_embedding: used instead of `graph.e`. Only if the blocks run unfused, the features are looked up and
            returned as e.

    Raises:
        IndexError: an edge code that is out of range.
        ValueError: nodes with another number of channels than the first block, edge features of another dtype, or masks
            of another shape than the nodes.
        TypeError: a mask that is not boolean.

    >>> import torch
    >>> from molattn.graph import DenseGraph, GraphNetBlock, run_blocks
    >>> first, second = (GraphNetBlock(node_dim=16, num_heads=4, edge_dim=3) for _ in range(2))
    >>> v, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 3)
    >>> graph = DenseGraph(v, torch.ones(2, 5, dtype=torch.bool), e)
    >>> torch.allclose(run_blocks([first, second], graph).v, second(first(graph)).v, atol=1e-5)
    True
    """
    blocks = list(blocks)
    _check_inputs(blocks, graph)
    return _run_blocks(_BlockCall(blocks, graph, edge_embedding))


def forward_block(block: Any, graph: DenseGraph) -> DenseGraph:
    """The `forward` of a block: as a fused operation if the block supports it, else its `forward_unfused`."""
    _check_inputs([block], graph)
    return _run_blocks(_BlockCall([block], graph, in_forward=True))


def _check_inputs(blocks: Sequence[Any], graph: DenseGraph) -> None:
    """Raise one sentence for inputs of which the implementations would say different things."""
    node_dim = getattr(blocks[0], "node_dim", None) if blocks else None
    if node_dim is not None and graph.v.shape[-1] != node_dim:
        raise ValueError(f"the nodes have {graph.v.shape[-1]} channels, and the block has node_dim={node_dim}")
    graph.check_masks()
    if graph.e is not None and graph.e.dtype != graph.v.dtype and not is_autocast_enabled(graph.v):
        raise ValueError(f"the edge features are {graph.e.dtype}, the nodes {graph.v.dtype}: convert one of them")


def fused_unsupported_reason(blocks: Sequence[Any], edge_dim: int) -> str:
    """Why blocks do not run fused on the CPU, as text; empty if they do.

    Args:
        blocks: in the order in which they are applied.
        edge_dim: channels of the edges.

    >>> from molattn.graph import GraphNetBlock, fused_unsupported_reason
    >>> block = GraphNetBlock(node_dim=16, num_heads=4, edge_dim=3, rho_ev="mean")
    >>> fused_unsupported_reason([block], edge_dim=3)
    'a phi_u, edges that are updated, or a rho_ev other than the sum'
    """
    return _blocks_unsupported_reason(blocks, edge_dim, False) or kernel.LIBRARY.unavailable_reason()


def _blocks_unsupported_reason(blocks: Sequence[Any], edge_dim: int, in_forward: bool) -> str:
    if not blocks:
        return "there are no blocks"
    for block in blocks:
        if not hasattr(block, "fused_unsupported_reason"):  # isinstance with a Protocol takes ten times as long
            return f"{type(block).__name__} is not a GraphNetBlock"
        if not in_forward and has_hooks(block):  # `Module.__call__` runs them around `forward`
            return "a hook of a block"
        if why := block.fused_unsupported_reason(edge_dim):
            return why
    return ""


@dataclass(frozen=True)
class _BlockCall:
    """The arguments of `run_blocks`, or of `forward_block`.

    Attributes:
        in_forward: whether the call is from the `forward` of the only block, so that hooks of the block run anyway.
    """

    blocks: Sequence[Any]
    graph: DenseGraph
    edge_embedding: EdgeEmbedding | None = None
    in_forward: bool = False

    @property
    def features(self) -> tuple[Tensor, ...]:
        """The embedding tables of the edges, or the edge features."""
        e = self.graph.e
        return self.edge_embedding.tables if self.edge_embedding is not None else () if e is None else (e,)

    @cached_property
    def weights(self) -> list[BlockWeights]:
        """The weights of all blocks, which must support fusion."""
        return [block.fused_weights() for block in self.blocks]


def _unsupported_reason(call: _BlockCall) -> str:
    graph, features = call.graph, call.features
    if reason := tracing_reason():
        return reason
    if not features:
        return "no edge features"
    if graph.u is not None:
        return "graph features (global_dim)"
    if is_autocast_enabled(graph.v):
        return "autocast is enabled"
    why = (
        eager_unsupported_reason(graph.v)  # first: on a GPU the others need not be computed
        or _blocks_unsupported_reason(call.blocks, features[0].shape[-1], call.in_forward)
        or kernel.unsupported_reason(call.weights, graph.v, features)
    )
    if why:
        return why
    return "" if graph.right_padded_sizes is not None else "padding that does not follow the nodes"


def _compiled(call: _BlockCall) -> DenseGraph:
    graph, embedding = call.graph, call.edge_embedding
    codes = () if embedding is None else embedding.codes
    edges = kernel.BatchEdges(not_none(graph.right_padded_sizes), graph.edge_mask, codes)
    return graph.replace(v=kernel.compiled_blocks(call.weights, graph.v, call.features, edges))


def _reference(call: _BlockCall) -> DenseGraph:
    graph: Any = call.graph
    if call.edge_embedding is not None:
        graph = graph.replace(e=call.edge_embedding.features(graph.node_mask))
    for block in call.blocks:
        graph = block.forward_unfused(graph) if call.in_forward else block(graph)
    return graph


_run_blocks = Operation("blocks")
_run_blocks.add("compiled", _compiled, _unsupported_reason)
_run_blocks.add("reference", _reference)
