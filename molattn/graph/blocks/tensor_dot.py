"""Tensor-dot attention, with and without an attention bias of the edges, and Graphormer's block."""

from molattn.graph.block import GraphNetBlock
from molattn.graph.blocks.config import BlockConfig
from molattn.graph.edge_update import AttentionEdgeUpdate


def tensor_dot(config: BlockConfig) -> GraphNetBlock:
    """Tensor-dot attention to the senders and their edges: equations 14.1 to 14.9 in the table of `molattn.graph`.

    e'_k = softmax_k( (W_q v_r) . (W_k v_s + W_ke e_k) / sqrt(d) ) (W_v v_s + W_ve e_k)

    Args:
        config: the sizes and settings of the block; it can choose another score, normalizer and join.

    Raises:
        ValueError: an unknown score, normalizer, join or global_aggr; the score "location"; a temperature that is
            negative or infinite, or other than 1 with a normalizer other than the softmax; lambdas; num_heads does not
            divide node_dim.

    Source: Battaglia et al. 2018, arXiv:1806.01261; Vaswani et al. 2017, arXiv:1706.03762.

    >>> import torch
    >>> from molattn.graph import DenseGraph
    >>> from molattn.graph.blocks import BlockConfig, tensor_dot
    >>> block = tensor_dot(BlockConfig(node_dim=16, num_heads=4, edge_dim=3))
    >>> v, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 3)
    >>> after, messages = block.forward_with_messages(DenseGraph(v, torch.ones(2, 5, dtype=torch.bool), e))
    >>> tuple(after.v.shape), tuple(messages.weights.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """
    return _block(config, ("keys", "values"))


def tensor_dot_with_bias(config: BlockConfig) -> GraphNetBlock:
    """Tensor-dot attention in which the edges are also a bias of the logits; the default block of molattn.

    e'_k = softmax_k( (W_q v_r) . (W_k v_s + W_ke e_k) / sqrt(d) + w_be . e_k ) (W_v v_s + W_ve e_k)

    Args:
        config: the sizes and settings of the block; it can choose another score, normalizer and join.

    Raises:
        ValueError: an unknown score, normalizer, join or global_aggr; the score "location"; a temperature that is
            negative or infinite, or other than 1 with a normalizer other than the softmax; lambdas; num_heads does not
            divide node_dim.

    Source: Battaglia et al. 2018, arXiv:1806.01261; Vaswani et al. 2017, arXiv:1706.03762.

    >>> import torch
    >>> from molattn.graph import DenseGraph
    >>> from molattn.graph.blocks import BlockConfig, tensor_dot_with_bias
    >>> block = tensor_dot_with_bias(BlockConfig(node_dim=16, num_heads=4, edge_dim=3, normalizer="sparsemax"))
    >>> v, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 3)
    >>> after, messages = block.forward_with_messages(DenseGraph(v, torch.ones(2, 5, dtype=torch.bool), e))
    >>> tuple(after.v.shape), tuple(messages.weights.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """
    return _block(config, ("keys", "values", "bias"))


def graphormer(config: BlockConfig) -> GraphNetBlock:
    """Graphormer's layer: edge features, one channel per head, are added to the logits.

    e'_k = softmax_k( (W_q v_r) . (W_k v_s) / sqrt(d) + e_k ) W_v v_s,    e_ij = b_phi(i,j) + c_ij

    b is learned for each length phi(i,j) of the shortest path, and c is computed from the edges along it; all layers
    share them. Both, and the centrality encoding, come from `molattn.graph.encodings`. The graph token is
    `molattn.graph.VirtualNode`. W_q, W_k and W_v have biases.

    Args:
        config: the sizes and settings of the block; those of the attention, and lambdas, keep their defaults.

    Raises:
        ValueError: edge_dim is neither 0 nor num_heads; a score, normalizer, join, temperature or lambdas; num_heads
            does not divide node_dim; an unknown global_aggr.

    Source: Ying et al. 2021, arXiv:2106.05234, equations 5 to 9.

    >>> import torch
    >>> from molattn.graph import DenseGraph
    >>> from molattn.graph.blocks import BlockConfig, graphormer
    >>> block = graphormer(BlockConfig(node_dim=16, num_heads=4, edge_dim=4))
    >>> v, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 4)
    >>> after, messages = block.forward_with_messages(DenseGraph(v, torch.ones(2, 5, dtype=torch.bool), e))
    >>> tuple(after.v.shape), tuple(messages.weights.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """
    config.check_ignored("Graphormer")
    return GraphNetBlock(
        **config.block_args, phi_e=AttentionEdgeUpdate(**config.edge_update_args, edge_roles=("logits",), bias=True)
    )


def _block(config: BlockConfig, edge_roles: tuple[str, ...]) -> GraphNetBlock:
    config.check_ignored("tensor-dot attention", ("lambdas",))
    phi_e = AttentionEdgeUpdate(
        **config.edge_update_args, edge_roles=edge_roles, score=config.score, normalizer=config.normalizer_fn
    )
    return GraphNetBlock(**config.block_args, phi_e=phi_e, join=config.join_module)
