"""The book's plain tensor-dot attention, and the block that molattn trains by default."""

from molattn.graph.block import GraphNetBlock
from molattn.graph.edge_update import AttentionEdgeUpdate
from molattn.graph.family.sizes import BlockSizes


def tensor_dot(sizes: BlockSizes) -> GraphNetBlock:
    """Tensor-dot attention to the senders and their edges: equations 14.1 to 14.9 of the book chapter.

    e'_k = softmax_k( (W_q v_r) . (W_k v_s + W_ke e_k) / sqrt(d) ) (W_v v_s + W_ve e_k)

    The score, the normalizer and the join can be others: see `BlockSizes`.
    """
    return _block(sizes, ("keys", "values"))


def molattn(sizes: BlockSizes) -> GraphNetBlock:
    """Tensor-dot attention in which the edges are also a bias of the logits.

    e'_k = softmax_k( (W_q v_r) . (W_k v_s + W_ke e_k) / sqrt(d) + w_be . e_k ) (W_v v_s + W_ve e_k)

    The score, the normalizer and the join can be others: see `BlockSizes`.
    """
    return _block(sizes, ("keys", "values", "bias"))


def _block(sizes: BlockSizes, edges_as: tuple[str, ...]) -> GraphNetBlock:
    phi_e = AttentionEdgeUpdate(
        *sizes.of_edge_update, edges_as=edges_as, score=sizes.score, normalizer=sizes.own_normalizer
    )
    return GraphNetBlock(*sizes.of_block, phi_e=phi_e, join=sizes.own_join)
