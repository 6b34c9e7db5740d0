"""GaAN: attention with a gate for each node and head."""

import torch
from torch import Tensor, nn

from molattn.graph.block import GraphNetBlock
from molattn.graph.blocks.config import BlockConfig
from molattn.graph.edge_update import AttentionEdgeUpdate
from molattn.graph.messages import Messages


class GatedSum(nn.Module):
    """rho e->v: the sum over the edges in each head, times a gate computed from the receiver and its senders.

    ebar_i = [ x_i, g_i1 sum_k e'_k1, ..., g_ih sum_k e'_kh ]
    g_i    = sigmoid( W_g [ x_i, max_j (W_m z_j + b_m), mean_j z_j ] + b_g )      over the senders z_j of node i's edges

    The maximum is elementwise; it and the mean are zeros for a node without incoming edges. In the block, x and z are
    the normalized nodes.

    Shapes: (..., n, d_v + h * d), the receiver's features followed by the concatenated heads.

    Args:
        node_dim: d_v.
        num_heads, head_dim: h and d.
        gate_dim: channels of W_m z_j; head_dim by default.

    Source: Zhang et al. 2018, arXiv:1803.07294.

    >>> import torch
    >>> from molattn.graph import AttentionEdgeUpdate, DenseGraph
    >>> from molattn.graph.blocks import GatedSum
    >>> graph = DenseGraph(torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool))
    >>> messages = AttentionEdgeUpdate(node_dim=16, num_heads=4, head_dim=8)(graph)
    >>> ebar = GatedSum(node_dim=16, num_heads=4, head_dim=8)(messages)
    >>> tuple(ebar.shape), torch.equal(ebar[..., :16], graph.v)
    ((2, 5, 48), True)
    """

    def __init__(self, node_dim: int, num_heads: int, head_dim: int, gate_dim: int | None = None):
        super().__init__()
        self.num_heads = num_heads
        gate_dim = head_dim if gate_dim is None else gate_dim
        self.w_m = nn.Linear(node_dim, gate_dim)
        self.w_g = nn.Linear(2 * node_dim + gate_dim, num_heads)

    def forward(self, messages: Messages) -> Tensor:
        """ebar_i of every node, (..., n, d_v + h * d), from the e'_k of every edge, `messages`."""
        graph, x = messages.graph, messages.graph.v
        largest, mean = graph.max_senders(self.w_m(x)), graph.mean_senders(x)
        gates = torch.sigmoid(self.w_g(torch.cat([x, largest, mean], dim=-1)))
        heads = messages.sum().unflatten(-1, (self.num_heads, -1))
        return torch.cat([x, (gates.unsqueeze(-1) * heads).flatten(-2)], dim=-1)


def gaan(config: BlockConfig) -> GraphNetBlock:
    """GaAN's gated attention aggregator; edge features, which the paper does not define, are a bias of the logits.

    e'_k = softmax_k( (W_q v_r + b_q) . (W_k v_s + b_k) + w_be . e_k ) leaky_relu_0.1(W_v v_s + b_v)
    ebar_i = W_o [ v_i, g_i1 sum_k e'_k1, ..., g_ih sum_k e'_kh ] + b_o      with the gates of `GatedSum`

    The products are not scaled. The residual steps are those of `GraphNetBlock`.

    Args:
        config: the sizes and settings of the block; those of the attention, and lambdas, keep their defaults.

    Raises:
        ValueError: a score, normalizer, join, temperature or lambdas; num_heads does not divide node_dim; an unknown
            global_aggr.

    Source: Zhang et al. 2018, arXiv:1803.07294.

    >>> import torch
    >>> from molattn.graph import DenseGraph
    >>> from molattn.graph.blocks import BlockConfig, gaan
    >>> block = gaan(BlockConfig(node_dim=16, num_heads=4, edge_dim=3))
    >>> v, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 3)
    >>> after, messages = block.forward_with_messages(DenseGraph(v, torch.ones(2, 5, dtype=torch.bool), e))
    >>> tuple(after.v.shape), tuple(messages.weights.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """
    config.check_ignored("GaAN")
    return GraphNetBlock(
        **config.block_args,
        phi_e=AttentionEdgeUpdate(
            **config.edge_update_args, edge_roles=("bias",), score="dot", bias=True, activation=nn.LeakyReLU(0.1)
        ),
        rho_ev=GatedSum(config.node_dim, config.num_heads, config.head_dim),
        join=nn.Linear(2 * config.node_dim, config.node_dim),
    )
