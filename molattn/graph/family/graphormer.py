"""Graphormer: attention biased by what lies between two nodes."""

from molattn.graph.block import GraphNetBlock
from molattn.graph.edge_update import AttentionEdgeUpdate
from molattn.graph.family.sizes import BlockSizes


def graphormer(sizes: BlockSizes) -> GraphNetBlock:
    """Graphormer's layer: what lies between two nodes is added to the logits, one channel of e per head.

    e'_k = softmax_k( (W_q v_r) . (W_k v_s) / sqrt(d) + e_k ) W_v v_s,    e_ij = b_phi(i,j) + c_ij

    b is learned by the length of the shortest path and c from the edges along it, once for all layers; they are made
    by the encodings, as are the centrality of the nodes and the graph token.

    Source: Ying et al. 2021, arXiv:2106.05234, equations 5 to 9.

    Raises:
        ValueError: edge_dim is neither 0 nor the number of heads.
    """
    return GraphNetBlock(
        *sizes.of_block, phi_e=AttentionEdgeUpdate(*sizes.of_edge_update, edges_as=("logits",), bias=True)
    )
