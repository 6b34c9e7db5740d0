"""Blocks one after another as one operation, where they can be."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, UInt8
from torch import Tensor

from molattn.graph.compiled_blocks import BlockWeights, Places, can_be_compiled, compiled_blocks
from molattn.graph.dense import is_one_operation
from molattn.graph.graph import DenseGraph


@dataclass(frozen=True)
class CodedEdges:
    """Edges that are sums of rows of tables: e_ij = sum_t rows_t[codes_tij]. What stands in the padding is not read.

    Attributes:
        rows: (codes, f) for each table, as many rows as a code may say.
        codes: (b, n, n) bytes for each table; [b, i, j] is of the edge from sender j to receiver i.
    """

    rows: tuple[Float[Tensor, "_ f"], ...]
    codes: tuple[UInt8[Tensor, "b n n"], ...]

    def __add__(self, other: "CodedEdges") -> "CodedEdges":
        return CodedEdges(self.rows + other.rows, self.codes + other.codes)


@runtime_checkable
class Stackable(Protocol):
    """A block that may be part of a stack."""

    def weights(self, edge_dim: int) -> BlockWeights | None:
        """What it is made of, for edges of so many channels; None where `compiled_blocks` does not do what it does."""
        ...


def stacked(
    blocks: Iterable[object], graph: DenseGraph, edges: CodedEdges | None = None
) -> Float[Tensor, "b n c"] | None:
    """The nodes of a graph after all blocks, as one operation; None where they have to be taken one by one.

    Args:
        edges: in place of `graph.e`.

    Raises:
        IndexError: an edge with a code without a row.
    """
    features = edges.rows if edges is not None else () if graph.e is None else (graph.e,)
    if not features or graph.u is not None or not is_one_operation(graph.v):
        return None
    of_blocks = [b.weights(features[0].shape[-1]) if isinstance(b, Stackable) else None for b in blocks]
    known = [of for of in of_blocks if of is not None]
    if not known or len(known) < len(of_blocks) or not can_be_compiled(known, graph.v, features):
        return None
    if graph.leading is None:
        return None
    places = Places(graph.leading, graph.edge_mask, () if edges is None else edges.codes)
    return compiled_blocks(known, graph.v, features, places)
