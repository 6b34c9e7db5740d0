"""Battaglia's graph networks with attention as the edge update: the block, its parts, and the graphs they act on.

| equation                             | the line that computes it                                           |
|--------------------------------------|---------------------------------------------------------------------|
| 14.1 e'_k = phi_e(e_k, v_r, v_s, u)  | `phi_e(self._normed(graph))` in `GraphNetBlock._equations`          |
| 14.2 q = W_q v_r                     | `self.w_q` in `AttentionEdgeUpdate._project`                        |
| 14.3 K = W_k v_s                     | `self.w_k` in `AttentionEdgeUpdate._project`                        |
| 14.4 V = W_v v_s                     | `self.w_v` in `AttentionEdgeUpdate._project`                        |
| 14.5 b_k = softmax(q . K / sqrt(d))  | `attention_weights(q, k, ...)` in `AttentionEdgeUpdate.materialize` |
| 14.6 e'_k = b_k V                    | `.unsqueeze(-1) * v` in `AttentionEdgeUpdate.materialize`           |
| 14.7 e'_k, all of 14.2 to 14.6       | `AttentionEdgeUpdate.materialize`                                   |
| 14.8 ebar_i = sum_k e'_k             | `messages.sum()` in `sum_edges`                                     |
| 14.9 ebar_il = sum_kjh e'_ikjh w_jhl | `self.join(self.rho_ev(e))` in `GraphNetBlock._equations`           |

Equations 14.1 to 14.9 are those of the chapter on graph attention that docs/explanation/block.md describes; 14.1 and
14.8 are also in algorithm 1 of Battaglia et al. 2018, arXiv:1806.01261. Keys and values are computed from the sender
and its edge; `AttentionEdgeUpdate._add_edge_terms` adds the edge's part.
`AttentionEdgeUpdate.forward` computes the same result faster, without materializing e'_k: see `EdgeMessages`.
Published attention layers built from the same parts are in `molattn.graph.blocks`.
"""

from typing import TYPE_CHECKING

from molattn.graph.aggregate import (
    EDGES_TO_GRAPH,
    EDGES_TO_NODES,
    NODES_TO_GRAPH,
    READOUTS,
    AdditiveReadout,
    AttentionReadout,
    max_all_edges,
    max_edges,
    max_nodes,
    mean_all_edges,
    mean_edges,
    mean_nodes,
    sum_all_edges,
    sum_edges,
    sum_nodes,
)
from molattn.graph.block import EdgeUpdate, GraphNetBlock, PhiU, PhiV
from molattn.graph.edge_update import AttentionEdgeUpdate
from molattn.graph.embedding import SumEmbedding
from molattn.graph.encodings import (
    AdjacencyWeights,
    AttentionBias,
    Bessel,
    BondEncoding,
    BondOneHot,
    Concat,
    DegreeEncoding,
    DistanceEncoding,
    DistanceKernel,
    Encoding,
    Gaussians,
    Molecules,
    PathEdgeEncoding,
    PathEncoding,
    PathOneHot,
    RadialBases,
    RandomWalkEncoding,
    RandomWalkNodes,
    Sum,
)
from molattn.graph.graph import AnyGraph, DenseGraph, Graph
from molattn.graph.messages import EdgeMessages, MaterializedMessages
from molattn.graph.stack import EdgeEmbedding, fused_unsupported_reason, run_blocks
from molattn.graph.updates import GlobalUpdate, NodeUpdate, ResidualEdges
from molattn.graph.virtual_node import VirtualNode

if TYPE_CHECKING:
    from molattn.graph.conv import TensorDotConv

__all__ = [
    "EDGES_TO_GRAPH",
    "EDGES_TO_NODES",
    "NODES_TO_GRAPH",
    "READOUTS",
    "AdditiveReadout",
    "AdjacencyWeights",
    "AnyGraph",
    "AttentionBias",
    "AttentionEdgeUpdate",
    "AttentionReadout",
    "Bessel",
    "BondEncoding",
    "BondOneHot",
    "Concat",
    "DegreeEncoding",
    "DenseGraph",
    "DistanceEncoding",
    "DistanceKernel",
    "EdgeEmbedding",
    "EdgeMessages",
    "EdgeUpdate",
    "Encoding",
    "Gaussians",
    "GlobalUpdate",
    "Graph",
    "GraphNetBlock",
    "MaterializedMessages",
    "Molecules",
    "NodeUpdate",
    "PathEdgeEncoding",
    "PathEncoding",
    "PathOneHot",
    "PhiU",
    "PhiV",
    "RadialBases",
    "RandomWalkEncoding",
    "RandomWalkNodes",
    "ResidualEdges",
    "Sum",
    "SumEmbedding",
    "TensorDotConv",
    "VirtualNode",
    "fused_unsupported_reason",
    "max_all_edges",
    "max_edges",
    "max_nodes",
    "mean_all_edges",
    "mean_edges",
    "mean_nodes",
    "run_blocks",
    "sum_all_edges",
    "sum_edges",
    "sum_nodes",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    # Imported at first use (PEP 562): it needs PyG, whose import takes seconds, and no command uses it.
    if name == "TensorDotConv":
        from molattn.graph.conv import TensorDotConv

        return TensorDotConv
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
