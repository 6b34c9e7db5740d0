"""A batch of graphs of mixed sizes as a few dense batches of like size: padding costs the square of the size."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from molattn.graph.dense import EdgeTerms, in_places, is_one_operation, plain_edge_attention
from molattn.graph.graph import DenseGraph, Graph
from molattn.graph.places import Place

# What a layer does for one dense batch, whatever its size, and for one node, in pairs of nodes (measured on a CPU with
# 64 channels in 4 heads and torch's operations alone: 0.1 ms, 1.2 us and 0.03 us). Compiled attention pays for no
# padding, and is as fast with a third or a tenth of this.
_PER_BUCKET = 3500
_PER_NODE = 40


def cut_by_size(
    sizes: Sequence[int], per_bucket: int | float = _PER_BUCKET, per_node: int | float = _PER_NODE
) -> list[list[int]]:
    """Graphs put into buckets of like size, so that the work on all of them is least.

    work = sum_buckets( per_bucket + count * (largest^2 + per_node * largest) )

    The buckets are runs of the sorted sizes; the best cut is found exactly, from the smallest graphs up.

    Args:
        sizes: the number of nodes of each graph.
        per_bucket: the work of a bucket, however small; in pairs of nodes.
        per_node: the work of a node, in pairs of nodes.

    Returns:
        For each bucket, smallest graphs first, the positions of its graphs in `sizes`; of equal ones in order.

    >>> cut_by_size([9, 30, 10, 9, 31], per_bucket=10)
    [[0, 3], [2], [1], [4]]
    >>> cut_by_size([9, 30, 10, 9, 31], per_bucket=1000)
    [[0, 3, 2], [1, 4]]
    """
    order = sorted(range(len(sizes)), key=lambda i: sizes[i])
    # A cut between graphs of one size never helps: only the ends of runs of equal sizes come into question.
    ends = [i + 1 for i in range(len(order)) if i + 1 == len(order) or sizes[order[i]] != sizes[order[i + 1]]]
    least = {0: (0.0, 0)}  # the least work of the first so many graphs, and where its last bucket starts
    for end in ends:
        largest = sizes[order[end - 1]]
        each = largest**2 + per_node * largest
        least[end] = min((work + per_bucket + (end - start) * each, start) for start, (work, _) in least.items())
    buckets, end = [], len(order)
    while end:
        start = least[end][1]
        buckets.append(order[start:end])
        end = start
    return buckets[::-1]


@dataclass(frozen=True)
class BucketedGraphs:
    """Graphs as a few dense batches, and where the nodes of the edge list stand in them.

    Rows are the nodes of all buckets one after another, padding included: what is done to nodes alone, such as a
    linear layer, is done to all rows at once.

    Attributes:
        buckets: dense graphs of like size.
        place: (n,) the row of each node, in the order of the edge list.
    """

    buckets: tuple[DenseGraph, ...]
    place: Int[Tensor, "n"]

    @classmethod
    def from_graph(cls, graph: Graph, per_bucket: int | float = _PER_BUCKET) -> "BucketedGraphs":
        """Cut by `cut_by_size`; edges in any order, at most one from a node to another.

        Raises:
            ValueError: an edge is there twice.
        """
        counts = graph.count_nodes()
        position = torch.arange(len(graph.v), device=graph.v.device) - (counts.cumsum(0) - counts)[graph.node_graph]
        edge_graph = graph.node_graph[graph.receiver]
        i, j = position[graph.receiver], position[graph.sender]
        place = torch.empty_like(graph.node_graph)
        buckets, rows = [], 0
        for members in cut_by_size(counts.tolist(), per_bucket):
            b, n = len(members), int(counts[members[-1]])
            of_bucket = counts.new_full((graph.num_graphs,), -1)
            of_bucket[members] = torch.arange(b, device=counts.device)
            nodes, edges = of_bucket[graph.node_graph] >= 0, of_bucket[edge_graph] >= 0
            at = of_bucket[graph.node_graph[nodes]] * n + position[nodes]
            pairs = (of_bucket[edge_graph[edges]] * n + i[edges]) * n + j[edges]
            place[nodes] = rows + at
            rows += b * n
            node_mask = torch.zeros(b * n, dtype=torch.bool, device=counts.device).index_fill(0, at, True).view(b, n)
            edge_mask = torch.zeros(b * n * n, dtype=torch.bool, device=counts.device).index_fill(0, pairs, True)
            if int(edge_mask.sum()) != len(pairs):
                raise ValueError("an edge is there twice: dense graphs have one from a node to another")
            complete = len(pairs) == int((counts[members] ** 2).sum())
            buckets.append(
                DenseGraph(
                    v=graph.v.new_zeros(b * n, graph.v.shape[-1]).index_copy(0, at, graph.v[nodes]).view(b, n, -1),
                    node_mask=node_mask,
                    e=None if graph.e is None else _placed(graph.e[edges], pairs, b, n),
                    u=None if graph.u is None else graph.u[members],
                    edge_mask=None if complete else edge_mask.view(b, n, n),
                )
            )
        return cls(tuple(buckets), place)

    @property
    def v(self) -> Float[Tensor, "rows d"]:
        """The nodes of all buckets."""
        return torch.cat([bucket.v.flatten(0, 1) for bucket in self.buckets])

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Where each bucket stands in the rows, and what its masks mean for logits of the nodes' dtype."""
        places, start = [], 0
        for bucket in self.buckets:
            b, n = bucket.node_mask.shape
            places.append(Place.of(bucket.v, start, (b, n), bucket.node_mask, bucket.edge_mask))
            start += b * n
        return tuple(places)

    def in_order(self, x: Float[Tensor, "rows *d"]) -> Float[Tensor, "n *d"]:
        """What belongs to the rows, for the nodes in the order of the edge list."""
        return x[self.place]

    def split(self, x: Float[Tensor, "rows *d"]) -> list[Tensor]:
        """What belongs to the rows, for each bucket: (b, n, ...)."""
        parts = x.split([bucket.node_mask.numel() for bucket in self.buckets])
        return [part.unflatten(0, bucket.node_mask.shape) for part, bucket in zip(parts, self.buckets, strict=True)]


def bucketed_edge_attention(
    packed: Float[Tensor, "rows p h d"],
    graphs: BucketedGraphs,
    w_ke: Float[Tensor, "h d f"],
    w_ve: Float[Tensor, "h d f"],
    w_be: Float[Tensor, "h f"] | None = None,
) -> Float[Tensor, "rows h d"]:
    """`edge_attention` of each bucket, for the rows of all of them."""
    edges = [bucket.e for bucket in graphs.buckets if bucket.e is not None]
    if len(edges) < len(graphs.buckets):
        raise ValueError("the graphs have no edge features")
    if is_one_operation(packed):
        return in_places(packed, w_ke, w_ve, w_be, graphs.places, edges, [None] * len(edges))
    outputs = []
    for part, e, bucket in zip(graphs.split(packed), edges, graphs.buckets, strict=True):
        terms = EdgeTerms(part, e, w_ke, w_ve, w_be, bucket.node_mask, bucket.edge_mask)
        outputs.append(plain_edge_attention(terms).flatten(0, 1))
    return torch.cat(outputs)


def _placed(e: Tensor, pairs: Tensor, b: int, n: int) -> Tensor:
    return e.new_zeros(b * n * n, e.shape[-1]).index_copy(0, pairs, e).view(b, n, n, -1)
