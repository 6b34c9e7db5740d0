"""Blocks one after another as one operation, where they can be."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from molattn.graph.codes import look_up
from molattn.graph.edge_update import not_none
from molattn.graph.graph import AnyGraph, DenseGraph
from molattn.kernels import blocks as compiled
from molattn.kernels.blocks import BlockWeights
from molattn.kernels.dispatch import Operation


@dataclass(frozen=True)
class CodedEdges:
    """Edges that are sums of rows of tables: e_ij = sum_t rows_t[codes_tij]. What stands in the padding is not read.

    Attributes:
        rows: (codes, f) for each table, as many rows as a code may say.
        codes: (b, n, n) bytes for each table; [b, i, j] is of the edge from sender j to receiver i.
    """

    rows: tuple[Float[Tensor, "_ f"], ...]
    codes: tuple[UInt8[Tensor, "b n n"], ...]

    def features(self) -> Float[Tensor, "b n n f"]:
        """e_ij of every pair, formed."""
        of_tables = [look_up(rows, codes) for rows, codes in zip(self.rows, self.codes, strict=True)]
        return sum(of_tables[1:], of_tables[0])

    def __add__(self, other: "CodedEdges") -> "CodedEdges":
        return CodedEdges(self.rows + other.rows, self.codes + other.codes)


class Fusable(Protocol):
    """A block that may be part of a fused stack: `GraphNetBlock` is one."""

    def why_not_fusable(self, edge_dim: int) -> str:
        """Why it cannot be over edges of so many channels, in words; empty where it can."""
        ...

    def weights(self) -> BlockWeights:
        """What it is made of, where it can be."""
        ...

    def update(self, graph: AnyGraph) -> AnyGraph:
        """The graph after it, by itself."""
        ...


def run_blocks(blocks: Iterable[Any], graph: DenseGraph, edges: CodedEdges | None = None) -> DenseGraph:
    """The graph after all blocks: fused, as one operation, where every block allows it, else one after another.

    Args:
        edges: in place of `graph.e`; the graph that comes back has no edges where they were not formed.

    Raises:
        IndexError: an edge with a code without a row.
    """
    return _run_blocks(_Given(list(blocks), graph, edges))


def why_not_fused(blocks: Sequence[Any], edge_dim: int) -> str:
    """Why blocks over edges of so many channels are not run as one operation on the CPU, in words; or nothing."""
    return _why_not_blocks(blocks, edge_dim) or compiled.unavailable_reason()


def _why_not_blocks(blocks: Sequence[Any], edge_dim: int) -> str:
    if not blocks:
        return "there are no blocks"
    for block in blocks:
        if not hasattr(block, "why_not_fusable"):  # a tenth of the time of looking for all of `Fusable`
            return f"{type(block).__name__} is no block of molattn"
        if why := block.why_not_fusable(edge_dim):
            return why
    return ""


@dataclass(frozen=True)
class _Given:
    """What `run_blocks` is called with."""

    blocks: Sequence[Any]
    graph: DenseGraph
    edges: CodedEdges | None

    @property
    def features(self) -> tuple[Tensor, ...]:
        """The tables of edges, or the edges."""
        e = self.graph.e
        return self.edges.rows if self.edges is not None else () if e is None else (e,)

    @cached_property
    def weights(self) -> list[BlockWeights]:
        """Of all blocks, which have to be fusable."""
        return [block.weights() for block in self.blocks]


def _why_not_compiled(of: _Given) -> str:
    graph, features = of.graph, of.features
    if torch.compiler.is_compiling():
        return "a compiler is at work"
    if not features:
        return "no edge features"
    if graph.u is not None:
        return "graph features (global_dim)"
    if torch.is_autocast_enabled(graph.v.device.type):
        return "autocast is at work"
    if why := _why_not_blocks(of.blocks, features[0].shape[-1]) or compiled.blocks_unsupported_reason(
        of.weights, graph.v, features
    ):
        return why
    return "" if graph.leading is not None else "nodes that do not stand before the padding"


def _compiled(of: _Given) -> DenseGraph:
    graph, edges = of.graph, of.edges
    layout = compiled.EdgeLayout(not_none(graph.leading), graph.edge_mask, () if edges is None else edges.codes)
    return graph.replace(v=compiled.compiled_blocks(of.weights, graph.v, of.features, layout))


def _one_by_one(of: _Given) -> DenseGraph:
    graph: Any = of.graph if of.edges is None else of.graph.replace(e=of.edges.features())
    block: Any
    for block in of.blocks:
        graph = block.update(graph) if hasattr(block, "update") else block(graph)
    return graph


_run_blocks = Operation("blocks")
_run_blocks.add("compiled", _compiled, _why_not_compiled)
_run_blocks.add("reference", _one_by_one)
