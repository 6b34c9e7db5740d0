"""Molecule Attention Transformer: attention weights averaged with fixed weights from distance and adjacency."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from molattn.graph.block import GraphNetBlock
from molattn.graph.edge_update import AttentionEdgeUpdate, not_none
from molattn.graph.graph import AnyGraph, Graph
from molattn.graph.published.config import BlockConfig, require_edge_features

LAMBDAS = (1 / 3, 1 / 3, 1 / 3)


class MixedEdgeUpdate(AttentionEdgeUpdate):
    """Attention whose weights are averaged with fixed weights, given as edge features.

    e'_k    = alpha_k W_v v_s
    alpha_k = lambda_0 softmax_k( (W_q v_r) . (W_k v_s) / sqrt(d) ) + sum_c lambda_c e_kc

    The weights into a receiver sum to 1 if each channel of e does. With MAT's kernel exp(-d) they do not. The weights
    in the messages are these alpha_k.

    Args:
        node_dim, num_heads, head_dim, edge_dim, global_dim, dropout: as for `AttentionEdgeUpdate`.
        lambdas: one for attention, then one for each channel of e; they sum to 1.

    Raises:
        ValueError: no edge features, another number of lambdas, or lambdas that do not sum to 1.
    """

    def __init__(
        self,
        node_dim: int,
        num_heads: int,
        head_dim: int,
        edge_dim: int,
        global_dim: int = 0,
        dropout: float = 0.0,
        *,
        lambdas: Sequence[float] = LAMBDAS,
    ):
        require_edge_features(edge_dim)
        super().__init__(node_dim, num_heads, head_dim, edge_dim, global_dim, dropout, edge_roles=(), bias=True)
        if len(lambdas) != edge_dim + 1:
            raise ValueError(f"attention and {edge_dim} channels of fixed weights take {edge_dim + 1} lambdas")
        if not math.isclose(sum(lambdas), 1.0, abs_tol=1e-6):
            raise ValueError(f"the lambdas must sum to 1, not to {sum(lambdas):g}")
        self.lambdas = tuple(lambdas)

    def _transform_weights(self, weights: Tensor, graph: AnyGraph) -> Tensor:
        e = not_none(graph.e)
        fixed = (e * torch.tensor(self.lambdas[1:], dtype=e.dtype, device=e.device)).sum(-1)
        fixed = fixed.unsqueeze(-1) if isinstance(graph, Graph) else fixed.unsqueeze(1)
        return self.lambdas[0] * weights + graph.attention_layout.zero_masked(fixed.expand_as(weights))


def mat(config: BlockConfig, lambdas: Sequence[float] = LAMBDAS) -> GraphNetBlock:
    """Molecule Attention Transformer's layer; e_ij = [g(d_ij), A_ij], the kernel of the distance and the adjacency.

    e'_k = ( lambda_a softmax_k( (W_q v_r) . (W_k v_s) / sqrt(d) ) + lambda_d g(d_k) + lambda_g A_k ) W_v v_s

    with g(d) = softmax(-d) or exp(-d). A includes self-loops, and each of its rows is divided by its sum, as in the
    authors' code.

    Source: Maziarka et al. 2020, arXiv:2002.08264.
    """
    return GraphNetBlock(*config.block_args, phi_e=MixedEdgeUpdate(*config.edge_update_args, lambdas=lambdas))
