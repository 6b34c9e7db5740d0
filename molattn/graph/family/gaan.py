"""GaAN: attention whose heads are switched on and off, node by node."""

import torch
from torch import Tensor, nn

from molattn.graph.aggregate import Messages
from molattn.graph.block import GraphNetBlock
from molattn.graph.edge_update import AttentionEdgeUpdate
from molattn.graph.family.sizes import BlockSizes


class GatedSum(nn.Module):
    """rho e->v: the sum over the edges of each head, times a gate that the receiver and its senders set.

    ebar_i = [ x_i, g_i1 sum_k e'_k1, ..., g_ih sum_k e'_kh ]
    g_i    = sigmoid( W_g [ x_i, max_j W_m z_j, mean_j z_j ] + b_g )      over the senders z_j of node i's edges

    Shapes: (..., n, d_v + h * d), the heads side by side behind the receiver.

    Args:
        node_dim: d_v.
        num_heads, head_dim: h and d.
        gate_dim: channels of W_m z_j; head_dim by default.

    Source: Zhang et al. 2018, arXiv:1803.07294.
    """

    def __init__(self, node_dim: int, num_heads: int, head_dim: int, gate_dim: int | None = None):
        super().__init__()
        self.num_heads = num_heads
        gate_dim = gate_dim or head_dim
        self.w_m = nn.Linear(node_dim, gate_dim)
        self.w_g = nn.Linear(2 * node_dim + gate_dim, num_heads)

    def forward(self, messages: Messages) -> Tensor:
        graph, x = messages.graph, messages.graph.v
        largest, mean = graph.max_senders(self.w_m(x)), graph.mean_senders(x)
        gates = torch.sigmoid(self.w_g(torch.cat([x, largest, mean], dim=-1)))
        heads = messages.sum().unflatten(-1, (self.num_heads, -1))
        return torch.cat([x, (gates.unsqueeze(-1) * heads).flatten(-2)], dim=-1)


def gaan(sizes: BlockSizes) -> GraphNetBlock:
    """GaAN's gated attention aggregator; edge features are a bias of the logits, which it leaves open.

    e'_k = softmax_k( (W_q v_r + b_q) . (W_k v_s + b_k) + w_be . e_k ) leaky_relu_0.1(W_v v_s + b_v)
    ebar_i = W_o [ v_i, g_i1 sum_k e'_k1, ..., g_ih sum_k e'_kh ] + b_o      with the gates of `GatedSum`

    The products are not scaled. The block's residual steps are those of every member of the family.

    Source: Zhang et al. 2018, arXiv:1803.07294.
    """
    return GraphNetBlock(
        *sizes.of_block,
        phi_e=AttentionEdgeUpdate(
            *sizes.of_edge_update, edges_as=("bias",), score="dot", bias=True, activation=nn.LeakyReLU(0.1)
        ),
        rho_ev=GatedSum(sizes.node_dim, sizes.num_heads, sizes.head_dim),
        join=nn.Linear(2 * sizes.node_dim, sizes.node_dim),
    )
