"""The book's plain tensor-dot attention, molattn's default block, and Graphormer's."""

from molattn.graph.block import GraphNetBlock
from molattn.graph.blocks.config import BlockConfig
from molattn.graph.edge_update import AttentionEdgeUpdate


def tensor_dot(config: BlockConfig) -> GraphNetBlock:
    """Tensor-dot attention to the senders and their edges: equations 14.1 to 14.9 of the book chapter.

    e'_k = softmax_k( (W_q v_r) . (W_k v_s + W_ke e_k) / sqrt(d) ) (W_v v_s + W_ve e_k)

    `BlockConfig` can choose another score, normalizer and join.
    """
    return _block(config, ("keys", "values"))


def tensor_dot_with_bias(config: BlockConfig) -> GraphNetBlock:
    """Tensor-dot attention in which the edges are also a bias of the logits.

    e'_k = softmax_k( (W_q v_r) . (W_k v_s + W_ke e_k) / sqrt(d) + w_be . e_k ) (W_v v_s + W_ve e_k)

    `BlockConfig` can choose another score, normalizer and join.
    """
    return _block(config, ("keys", "values", "bias"))


def graphormer(config: BlockConfig) -> GraphNetBlock:
    """Graphormer's layer: edge features, one channel per head, are added to the logits.

    e'_k = softmax_k( (W_q v_r) . (W_k v_s) / sqrt(d) + e_k ) W_v v_s,    e_ij = b_phi(i,j) + c_ij

    b is learned for each length phi(i,j) of the shortest path, and c is computed from the edges along it; all layers
    share them. Both, and the centrality encoding, come from `molattn.graph.encodings`. The graph token is
    `molattn.graph.VirtualNode`.

    Source: Ying et al. 2021, arXiv:2106.05234, equations 5 to 9.

    Raises:
        ValueError: edge_dim is neither 0 nor the number of heads; a score, normalizer, join or temperature.
    """
    config.check_default_attention("Graphormer")
    return GraphNetBlock(
        **config.block_args, phi_e=AttentionEdgeUpdate(**config.edge_update_args, edge_roles=("logits",), bias=True)
    )


def _block(config: BlockConfig, edge_roles: tuple[str, ...]) -> GraphNetBlock:
    phi_e = AttentionEdgeUpdate(
        **config.edge_update_args, edge_roles=edge_roles, score=config.score, normalizer=config.normalizer_fn
    )
    return GraphNetBlock(**config.block_args, phi_e=phi_e, join=config.join_module)
