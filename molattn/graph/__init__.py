"""Battaglia's graph networks with attention as the edge update: the block, its parts, and the graphs they act on.

| equation (book chapter, 14)           | the line that computes it                              |
|---------------------------------------|--------------------------------------------------------|
| 14.1 e'_k = phi_e(e_k, v_r, v_s, u)   | `phi_e(...)` in `GraphNetBlock._equations`             |
| 14.2 - 14.4 q, K, V                   | `AttentionEdgeUpdate._project`                         |
| 14.5 b_k = softmax(q . K / sqrt(d))   | `attention_weights(...)` in `AttentionEdgeUpdate`      |
| 14.6, 14.7 e'_k = b V                 | `AttentionEdgeUpdate.literal`, `EdgeMessages`          |
| 14.8 ebar_i = sum_k e'_k              | `sum_edges`                                            |
| 14.9 ebar_il = sum_kjh e'_ikjh w_jhl  | `self.w_jhl(self.rho_ev(e))`, there                    |
"""

from molattn.graph.aggregate import (
    TO_GRAPH,
    TO_NODE,
    AttentionOverEdges,
    max_edges,
    max_nodes,
    mean_edges,
    mean_nodes,
    sum_edges,
    sum_nodes,
)
from molattn.graph.block import EdgeUpdate, GraphNetBlock
from molattn.graph.buckets import BucketedGraphs, bucketed_edge_attention, cut_by_size
from molattn.graph.codes import PairCodes, SumOfCodes
from molattn.graph.dense import EdgeTerms, edge_attention, plain_edge_attention
from molattn.graph.edge_update import AttentionEdgeUpdate, EdgeMessages, LiteralMessages
from molattn.graph.encodings import (
    AdjacencyWeights,
    Bessel,
    BondEncoding,
    BondOneHot,
    Concat,
    DegreeEncoding,
    DistanceEncoding,
    DistanceKernel,
    Encoding,
    Gaussians,
    HeadTable,
    Molecules,
    NeighbourhoodOrder,
    PathEdgeEncoding,
    PathEncoding,
    RadialBases,
    RandomWalkEncoding,
    RandomWalkNodes,
    Sum,
)
from molattn.graph.graph import AnyGraph, DenseGraph, Graph
from molattn.graph.readout import READOUTS, AdditiveReadout, AttentionReadout
from molattn.graph.updates import GlobalUpdate, NodeUpdate, ResidualEdges
from molattn.graph.virtual_node import VirtualNode

__all__ = [
    "READOUTS",
    "TO_GRAPH",
    "TO_NODE",
    "AdditiveReadout",
    "AdjacencyWeights",
    "AnyGraph",
    "AttentionEdgeUpdate",
    "AttentionOverEdges",
    "AttentionReadout",
    "Bessel",
    "BondEncoding",
    "BondOneHot",
    "BucketedGraphs",
    "Concat",
    "DegreeEncoding",
    "DenseGraph",
    "DistanceEncoding",
    "DistanceKernel",
    "EdgeMessages",
    "EdgeTerms",
    "EdgeUpdate",
    "Encoding",
    "Gaussians",
    "GlobalUpdate",
    "Graph",
    "GraphNetBlock",
    "HeadTable",
    "LiteralMessages",
    "Molecules",
    "NeighbourhoodOrder",
    "NodeUpdate",
    "PairCodes",
    "PathEdgeEncoding",
    "PathEncoding",
    "RadialBases",
    "RandomWalkEncoding",
    "RandomWalkNodes",
    "ResidualEdges",
    "Sum",
    "SumOfCodes",
    "VirtualNode",
    "bucketed_edge_attention",
    "cut_by_size",
    "edge_attention",
    "max_edges",
    "max_nodes",
    "mean_edges",
    "mean_nodes",
    "plain_edge_attention",
    "sum_edges",
    "sum_nodes",
]
