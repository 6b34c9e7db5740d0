"""MAT and R-MAT, the Molecule Attention Transformers: fixed attention weights; relative terms in keys and values."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from molattn.attention import EdgeTerms
from molattn.attention.dropout import Dropout
from molattn.attention.edges import dot_edges, matmul_per_head
from molattn.graph.block import GraphNetBlock
from molattn.graph.blocks.config import LAMBDAS, TENSOR_DOT_SETTINGS, BlockConfig, require_edge_features
from molattn.graph.edge_update import AttentionEdgeUpdate, edge_factors
from molattn.graph.graph import AnyGraph, Graph
from molattn.graph.messages import not_none


class MixedEdgeUpdate(AttentionEdgeUpdate):
    """Attention whose weights are averaged with fixed weights, which are edge features.

    e'_k    = alpha_k W_v v_s
    alpha_k = lambda_0 softmax_k( (W_q v_r) . (W_k v_s) / sqrt(d) ) + sum_c lambda_c e_kc

    W_q, W_k and W_v have biases. The weights into a receiver sum to 1 if each channel of e does. With MAT's kernel
    exp(-d) they do not. The weights in the messages are these alpha_k.

    Args:
        node_dim, num_heads, head_dim, edge_dim, global_dim, dropout: as for `AttentionEdgeUpdate`; edge_dim is at
            least 1.
        lambdas: one for attention, then one for each channel of e; they sum to 1.

    Raises:
        ValueError: an edge_dim below 1, another number of lambdas than edge_dim + 1, or lambdas that do not sum to 1;
            at a call, a graph whose edge or graph features do not have edge_dim or global_dim channels.

    Source: Maziarka et al. 2020, arXiv:2002.08264.

    >>> import torch
    >>> from molattn.graph import DenseGraph
    >>> from molattn.graph.blocks import MixedEdgeUpdate
    >>> phi_e = MixedEdgeUpdate(node_dim=16, num_heads=4, head_dim=8, edge_dim=1, lambdas=(0.25, 0.75))
    >>> self_loops = torch.eye(3).view(1, 3, 3, 1)  # the fixed weights: each atom attends to itself
    >>> weights = phi_e(DenseGraph(torch.randn(1, 3, 16), torch.ones(1, 3, dtype=torch.bool), self_loops)).weights
    >>> torch.allclose(weights.sum(-1), torch.ones(1, 4, 3)), bool((weights[0, :, 0, 0] >= 0.75).all())
    (True, True)
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


def mat(config: BlockConfig) -> GraphNetBlock:
    """Molecule Attention Transformer's layer; e_ij = [g(d_ij), A_ij], the kernel of the distance and the adjacency.

    e'_k = ( lambda_a softmax_k( (W_q v_r) . (W_k v_s) / sqrt(d) ) + lambda_d g(d_k) + lambda_g A_k ) W_v v_s

    with g(d) = softmax(-d) or exp(-d). A includes self-loops, and each of its rows is divided by its sum, as in the
    authors' code. W_q, W_k and W_v have biases. `DistanceKernel` and `AdjacencyWeights` of `molattn.graph.encodings`
    return g(d) and A.

    Args:
        config: the sizes and settings of the block. Its edge_dim is the number of channels of fixed weights, 2 for the
            default lambdas: lambda_a, lambda_d and lambda_g, which sum to 1.

    Raises:
        ValueError: no edge features; another number of lambdas than edge_dim + 1, or lambdas that do not sum to 1; a
            score, normalizer, join or temperature; num_heads does not divide node_dim; an unknown global_aggr.

    Source: Maziarka et al. 2020, arXiv:2002.08264.

    >>> import torch
    >>> from molattn.graph import DenseGraph
    >>> from molattn.graph.blocks import BlockConfig, mat
    >>> block = mat(BlockConfig(node_dim=16, num_heads=4, edge_dim=2))
    >>> v, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 2)
    >>> after, messages = block.forward_with_messages(DenseGraph(v, torch.ones(2, 5, dtype=torch.bool), e))
    >>> tuple(after.v.shape), tuple(messages.weights.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """
    config.check_ignored("MAT", TENSOR_DOT_SETTINGS)
    return GraphNetBlock(**config.block_args, phi_e=MixedEdgeUpdate(**config.edge_update_args, lambdas=config.lambdas))


class RelativeEdgeUpdate(AttentionEdgeUpdate):
    """Relative attention: a network of the edge features adds a term to the keys and one to the values.

    e'_k    = alpha_k (v_k + b^V_k)
    alpha_k = softmax_k( ( q . k_k + (q + k_k) . b^K_k ) / sqrt(d) + u . k_k + t . b^K_k )
    q = W_q v_r;  k_k = W_k v_s;  v_k = W_v v_s;    b^K_k = W_ke f^K(e_k);  b^V_k = W_ve f^V(e_k)
    f(e) = dropout( leaky_relu_0.1( W e + b ) )

    with learned u and t in each head; this u is not the graph features. W_q, W_k and W_v have biases. W_ke and W_ve
    have none: a bias of W_ke would be redundant with u, and a bias of W_ve would add a constant to every e'_k, which
    the bias of the join can represent.

    Args:
        node_dim, num_heads, head_dim, edge_dim, global_dim, dropout: as for `AttentionEdgeUpdate`; edge_dim is at
            least 1, f has head_dim channels, and dropout is also that of f.

    Raises:
        ValueError: an edge_dim below 1; at a call, a graph whose edge or graph features do not have edge_dim or
            global_dim channels.

    Source: Maziarka et al. 2021, arXiv:2110.05841. In k_k . b^K_k the authors' code uses the receiver's key.

    >>> import torch
    >>> from molattn.graph import DenseGraph
    >>> from molattn.graph.blocks import RelativeEdgeUpdate
    >>> phi_e = RelativeEdgeUpdate(node_dim=16, num_heads=4, head_dim=8, edge_dim=3)
    >>> graph = DenseGraph(torch.randn(2, 5, 16), torch.ones(2, 5, dtype=torch.bool), torch.randn(2, 5, 5, 3))
    >>> messages = phi_e(graph)
    >>> tuple(messages.sum().shape), torch.allclose(messages.weights.sum(-1), torch.ones(2, 4, 5))
    ((2, 5, 32), True)
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
        f, (w_ke,) = edge_factors(self.f_k(graph.e), self.w_ke)
        layout = graph.attention_layout
        # b^K is not materialized: x . (W_ke f) = (W_ke^T x) . f
        w_ke_transposed = not_none(w_ke).unflatten(0, (self.num_heads, -1)).mT
        logits = dot_edges(matmul_per_head(q * self.scale + t, w_ke_transposed, layout), f, layout)
        logits = logits + _senders_dot_edges(graph, matmul_per_head(k * self.scale, w_ke_transposed, layout), f)
        sender_logits = (k * u).sum(-1)
        logits = logits + (sender_logits[graph.sender] if isinstance(graph, Graph) else sender_logits.unsqueeze(-2))
        f, (w_ve,) = edge_factors(self.f_v(graph.e), self.w_ve)
        return EdgeTerms(f, w_ve=not_none(w_ve).unflatten(0, (self.num_heads, -1))), logits

    def _add_edge_terms(self, graph: Graph, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        b_k = self.w_ke(self.f_k(graph.e)).unflatten(-1, (self.num_heads, -1))
        b_v = self.w_ve(self.f_v(graph.e)).unflatten(-1, (self.num_heads, -1))
        bias = (k * b_k).sum(-1) * self.scale + (k * self.u).sum(-1) + (b_k * self.t).sum(-1)
        return k + b_k, v + b_v, bias


def _senders_dot_edges(graph: AnyGraph, x: Tensor, e: Tensor) -> Tensor:
    """x_s . e_k for every edge k from s: (n, h, f), (m, f) -> (m, h) or (b, h, n, f), (b, n, n, f) -> (b, h, n, n)."""
    if isinstance(graph, Graph):
        return (graph.gather_senders(x) * e.unsqueeze(1)).sum(-1)
    return (x.transpose(1, 2) @ e.permute(0, 2, 3, 1)).permute(0, 2, 3, 1)


def rmat(config: BlockConfig) -> GraphNetBlock:
    """Relative Molecule Attention Transformer's layer: `RelativeEdgeUpdate` in the block.

    Args:
        config: the sizes and settings of the block; those of the attention, and lambdas, keep their defaults.

    Raises:
        ValueError: no edge features; a score, normalizer, join, temperature or lambdas; num_heads does not divide
            node_dim; an unknown global_aggr.

    Source: Maziarka et al. 2021, arXiv:2110.05841.

    >>> import torch
    >>> from molattn.graph import DenseGraph
    >>> from molattn.graph.blocks import BlockConfig, rmat
    >>> block = rmat(BlockConfig(node_dim=16, num_heads=4, edge_dim=3))
    >>> v, e = torch.randn(2, 5, 16), torch.randn(2, 5, 5, 3)
    >>> after, messages = block.forward_with_messages(DenseGraph(v, torch.ones(2, 5, dtype=torch.bool), e))
    >>> tuple(after.v.shape), tuple(messages.weights.shape)
    ((2, 5, 16), (2, 4, 5, 5))
    """
    config.check_ignored("R-MAT")
    return GraphNetBlock(**config.block_args, phi_e=RelativeEdgeUpdate(**config.edge_update_args))
