"""Relative Molecule Attention Transformer: keys and values with relative terms computed from the edge features."""

import torch
from torch import Tensor, nn

from molattn.attention import EdgeTerms
from molattn.attention.dropout import Dropout
from molattn.graph.block import GraphNetBlock
from molattn.graph.edge_update import (
    AttentionEdgeUpdate,
    query_in_edge_space,
    receivers_dot_edges,
    senders_dot_edges,
)
from molattn.graph.graph import AnyGraph, Graph
from molattn.graph.published.config import BlockConfig, require_edge_features


class RelativeEdgeUpdate(AttentionEdgeUpdate):
    """Relative attention: a network of the edge features adds a term to the keys and one to the values.

    e'_k    = alpha_k (v_k + b^V_k)
    alpha_k = softmax_k( ( q . k_k + (q + k_k) . b^K_k ) / sqrt(d) + u . k_k + t . b^K_k )
    q = W_q v_r;  k_k = W_k v_s;  v_k = W_v v_s;    b^K_k = W_ke f^K(e_k);  b^V_k = W_ve f^V(e_k)
    f(e) = dropout( leaky_relu_0.1( W e + b ) )

    with learned u and t in each head. W_ke and W_ve have no bias: a bias of W_ke would be redundant with u, and a bias
    of W_ve would add a constant to every e'_k, which the bias of the join can represent.

    Args:
        node_dim, num_heads, head_dim, edge_dim, global_dim, dropout: as for `AttentionEdgeUpdate`; f has head_dim
            channels.

    Raises:
        ValueError: no edge features.

    Source: Maziarka et al. 2021, arXiv:2110.05841. In k_k . b^K_k the authors' code uses the receiver's key.
    """

    w_ke: nn.Linear
    w_ve: nn.Linear

    def __init__(
        self,
        node_dim: int,
        num_heads: int,
        head_dim: int,
        edge_dim: int,
        global_dim: int = 0,
        dropout: float = 0.0,
    ):
        require_edge_features(edge_dim)
        super().__init__(node_dim, num_heads, head_dim, edge_dim, global_dim, dropout, edge_roles=(), bias=True)
        self.f_k = nn.Sequential(nn.Linear(edge_dim, head_dim), nn.LeakyReLU(0.1), Dropout(dropout))
        self.f_v = nn.Sequential(nn.Linear(edge_dim, head_dim), nn.LeakyReLU(0.1), Dropout(dropout))
        self.w_ke = nn.Linear(head_dim, num_heads * head_dim, bias=False)
        self.w_ve = nn.Linear(head_dim, num_heads * head_dim, bias=False)
        self.u = nn.Parameter(torch.randn(num_heads, head_dim) * head_dim**-0.5)
        self.t = nn.Parameter(torch.randn(num_heads, head_dim) * head_dim**-0.5)

    def _edge_terms(self, graph: AnyGraph, q: Tensor, k: Tensor) -> tuple[EdgeTerms, Tensor]:
        u, t = (x if isinstance(graph, Graph) else x.unsqueeze(1) for x in (self.u, self.t))
        f = self.f_k(graph.e)
        logits = receivers_dot_edges(graph, query_in_edge_space(q * self.scale + t, self.w_ke, self.num_heads), f)
        logits = logits + senders_dot_edges(graph, query_in_edge_space(k * self.scale, self.w_ke, self.num_heads), f)
        content = (k * u).sum(-1)
        logits = logits + (content[graph.sender] if isinstance(graph, Graph) else content.unsqueeze(-2))
        w_ve = self.w_ve.weight.unflatten(0, (self.num_heads, -1))
        return EdgeTerms(self.f_v(graph.e), w_ve=w_ve), logits

    def _add_edge_terms(self, graph: Graph, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b_k = self.w_ke(self.f_k(graph.e)).unflatten(-1, (self.num_heads, -1))
        b_v = self.w_ve(self.f_v(graph.e)).unflatten(-1, (self.num_heads, -1))
        bias = (k * b_k).sum(-1) * self.scale + (k * self.u).sum(-1) + (b_k * self.t).sum(-1)
        return k + b_k, v + b_v, bias


def rmat(config: BlockConfig) -> GraphNetBlock:
    """Relative Molecule Attention Transformer's layer: `RelativeEdgeUpdate` in the block.

    Source: Maziarka et al. 2021, arXiv:2110.05841.
    """
    return GraphNetBlock(*config.block_args, phi_e=RelativeEdgeUpdate(*config.edge_update_args))
