"""Graphormer: attention with a bias from the shortest path between two nodes."""

from molattn.graph.block import GraphNetBlock
from molattn.graph.edge_update import AttentionEdgeUpdate
from molattn.graph.published.tensor_dot import BlockConfig


def graphormer(config: BlockConfig) -> GraphNetBlock:
    """Graphormer's layer: edge features, one channel per head, are added to the logits.

    e'_k = softmax_k( (W_q v_r) . (W_k v_s) / sqrt(d) + e_k ) W_v v_s,    e_ij = b_phi(i,j) + c_ij

    b is learned for each length phi(i,j) of the shortest path, and c is computed from the edges along it; all layers
    share them. Both, and the centrality encoding, come from `molattn.graph.encodings`. The graph token is
    `molattn.graph.VirtualNode`.

    Source: Ying et al. 2021, arXiv:2106.05234, equations 5 to 9.

    Raises:
        ValueError: edge_dim is neither 0 nor the number of heads.
    """
    return GraphNetBlock(
        *config.block_args, phi_e=AttentionEdgeUpdate(*config.edge_update_args, edge_roles=("logits",), bias=True)
    )
