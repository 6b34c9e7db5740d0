"""The book's plain tensor-dot attention, and the block that molattn trains by default."""

from molattn.graph.block import GraphNetBlock
from molattn.graph.edge_update import AttentionEdgeUpdate
from molattn.graph.published.config import BlockConfig


def tensor_dot(config: BlockConfig) -> GraphNetBlock:
    """Tensor-dot attention to the senders and their edges: equations 14.1 to 14.9 of the book chapter.

    e'_k = softmax_k( (W_q v_r) . (W_k v_s + W_ke e_k) / sqrt(d) ) (W_v v_s + W_ve e_k)

    `BlockConfig` can choose another score, normalizer and join.
    """
    return _block(config, ("keys", "values"))


def molattn(config: BlockConfig) -> GraphNetBlock:
    """Tensor-dot attention in which the edges are also a bias of the logits.

    e'_k = softmax_k( (W_q v_r) . (W_k v_s + W_ke e_k) / sqrt(d) + w_be . e_k ) (W_v v_s + W_ve e_k)

    `BlockConfig` can choose another score, normalizer and join.
    """
    return _block(config, ("keys", "values", "bias"))


def _block(config: BlockConfig, edge_roles: tuple[str, ...]) -> GraphNetBlock:
    phi_e = AttentionEdgeUpdate(
        *config.edge_update_args, edge_roles=edge_roles, score=config.score, normalizer=config.normalizer_fn
    )
    return GraphNetBlock(*config.block_args, phi_e=phi_e, join=config.join_module)
