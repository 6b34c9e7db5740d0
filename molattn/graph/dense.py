"""Attention over dense graphs with edge features, as one operation whose gradient is written by hand."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from molattn.attention import Rows, attention_weights
from molattn.graph.chunked import ChunkedEdgeAttention
from molattn.graph.compiled_attention import CompiledEdgeAttention, can_be_compiled
from molattn.graph.places import Place


@dataclass(frozen=True)
class EdgeTerms:
    """What the attention of b dense graphs of n nodes with edge features is made of.

    Attributes:
        packed: q, k and v side by side, as one linear layer makes them: (b, n, 3, h, d); or (b, n, 4, h, d) with
            what is added to the output, such as a skip connection.
        e: [b, i, j] is the edge from sender j to receiver i.
        w_ke, w_ve, w_be: what edges add to keys, values and logits.
        node_mask: True where there is a node; None where there is one everywhere.
        edge_mask: True where there is an edge; None where every pair of nodes has one.
        kept: the weights are multiplied by it before they meet the values: a dropout's, from `dropout_mask`.

    What stands in the padding is finite; then it changes nothing, and gets gradients of zero.
    """

    packed: Float[Tensor, "b n p h d"]
    e: Float[Tensor, "b n n f"]
    w_ke: Float[Tensor, "h d f"]
    w_ve: Float[Tensor, "h d f"]
    w_be: Float[Tensor, "h f"] | None = None
    node_mask: Bool[Tensor, "b n"] | None = None
    edge_mask: Bool[Tensor, "b n n"] | None = None
    kept: Float[Tensor, "b h n n"] | None = None

    def weights(self) -> Float[Tensor, "b h n n"]:
        """The weights w_hij of `edge_attention` before any dropout; [b, h, i, j] is how much i attends to j."""
        q, k = self.packed[:, :, 0].transpose(1, 2), self.packed[:, :, 1].transpose(1, 2)
        at_receiver = (q @ (self.w_ke * self.w_ke.shape[1] ** -0.5)).transpose(1, 2)  # (b, i, h, f)
        if self.w_be is not None:
            at_receiver = at_receiver + self.w_be
        mask = _pairs(self.node_mask, self.edge_mask)
        over = Rows(None if mask is None else mask.unsqueeze(1), blank=True)
        return attention_weights(q, k, over, bias=(at_receiver @ self.e.mT).transpose(1, 2))

    def dropped(self, weights: Float[Tensor, "b h n n"]) -> Float[Tensor, "b h n n"]:
        """The weights after dropout."""
        return weights if self.kept is None else weights * self.kept


def edge_attention(terms: EdgeTerms) -> Float[Tensor, "b n h d"]:
    """Every node attends to the nodes of its graph and to the edges between it and them.

    w_hij = softmax_j( q_hi . (k_hj + W_ke e_ij) / sqrt(d) + w_be . e_ij )
    o_hi  = sum_j w_hij (v_hj + W_ve e_ij)

    The edge terms are factored, so that nothing of the size n x n x d is ever formed:
    q . (W_ke e) = (W_ke^T q) . e and sum_j w_j W_ve e_j = W_ve sum_j w_j e_j.

    Returns:
        (b, n, h, d); zeros (and what is added) for a node that no edge reaches.

    In eager mode this is one operation with a gradient written by hand, which can be taken once: for a gradient of a
    gradient, and while a compiler or autocast is at work, `plain_edge_attention` is the way.
    """
    if not is_one_operation(terms.packed):
        return plain_edge_attention(terms)
    b, n = terms.packed.shape[:2]
    place = Place.of(terms.packed, (b, n), terms.node_mask, terms.edge_mask)
    rows = terms.packed.flatten(0, 1)
    way = CompiledEdgeAttention if can_be_compiled(rows, terms.w_ke, terms.e) else ChunkedEdgeAttention
    output = way.apply(rows, terms.w_ke, terms.w_ve, terms.w_be, place, terms.kept, terms.e)
    return output.unflatten(0, (b, n))


def is_one_operation(packed: Tensor) -> bool:
    """Whether attention to these queries, keys and values is one operation: no compiler and no autocast at work."""
    return not torch.compiler.is_compiling() and not torch.is_autocast_enabled(packed.device.type)


def plain_edge_attention(terms: EdgeTerms) -> Float[Tensor, "b n h d"]:
    """`edge_attention` in operations that autograd and compilers know: the same numbers, slower."""
    weights = terms.dropped(terms.weights())
    output = (weights @ terms.packed[:, :, 2].transpose(1, 2)).transpose(1, 2)
    edges = weights.transpose(1, 2) @ terms.e  # (b, i, h, f)
    output = output + torch.einsum("bihf,hdf->bihd", edges, terms.w_ve)
    return output + terms.packed[:, :, 3] if terms.packed.shape[2] == 4 else output


def _pairs(node_mask: Tensor | None, edge_mask: Tensor | None) -> Tensor | None:
    """(b, n, n), True where i may attend to j."""
    if node_mask is None:
        return edge_mask
    pairs = node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2)
    return pairs if edge_mask is None else pairs & edge_mask
