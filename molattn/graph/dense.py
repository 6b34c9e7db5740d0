"""Attention over dense graphs with edge features, as one operation whose gradient is written by hand."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from molattn.attention import Rows, attention_weights
from molattn.attention.competitors import all_true


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
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(terms.packed.device.type):
        return plain_edge_attention(terms)
    node_mask = terms.node_mask
    if node_mask is not None and terms.edge_mask is None and all_true(node_mask):
        node_mask = None
    return _EdgeAttention.apply(
        terms.packed, terms.e, terms.w_ke, terms.w_ve, terms.w_be, node_mask, terms.edge_mask, terms.kept
    )


def plain_edge_attention(terms: EdgeTerms) -> Float[Tensor, "b n h d"]:
    """`edge_attention` in operations that autograd and compilers know: the same numbers, slower."""
    weights = terms.dropped(terms.weights())
    output = (weights @ terms.packed[:, :, 2].transpose(1, 2)).transpose(1, 2)
    edges = weights.transpose(1, 2) @ terms.e  # (b, i, h, f)
    output = output + torch.einsum("bihf,hdf->bihd", edges, terms.w_ve)
    return output + terms.packed[:, :, 3] if terms.packed.shape[2] == 4 else output


def dropout_mask(like: Tensor, shape: tuple[int, ...], p: float) -> Tensor:
    """What weights are multiplied by in a dropout: 0 with probability p, else 1 / (1 - p).

    p is rounded to a multiple of 1 / 65536: four elements share one draw of 64 bits, as drawing takes most of the time.
    """
    if not 0 <= p < 1:
        raise ValueError(f"a probability of dropping is from 0 to below 1, not {p}")
    if like.device.type != "cpu":
        return F.dropout(like.new_ones(shape), p)
    size = torch.Size(shape).numel()
    draws = torch.empty((size + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    kept = draws.view(torch.int16)[:size] >= round(p * 65536) - 32768
    return kept.to(like.dtype).mul_(1 / (1 - p)).view(shape)


def _pairs(node_mask: Tensor | None, edge_mask: Tensor | None) -> Tensor | None:
    """(b, n, n), True where i may attend to j."""
    if node_mask is None:
        return edge_mask
    pairs = node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2)
    return pairs if edge_mask is None else pairs & edge_mask


# As many weights of all heads as are worked on at a time: what belongs to them stays in a CPU's second-level cache.
_CHUNK = 200_000
# The floats of a vector register: torch's softmax of shorter rows goes one by one, ten times slower.
_VECTOR = 16


class _EdgeAttention(torch.autograd.Function):
    """Letters: N = c n receivers of the c graphs of a chunk, m keys (n, or more where short rows are padded).

    Heads come first, (h, c, n, m), so that one matrix product per head and graph, (h c) of them, and one per receiver,
    N of them, both find their matrices in place: for the latter a matrix (h, m) has its rows c n m apart.
    """

    @staticmethod
    def forward(ctx, packed, e, w_ke, w_ve, w_be, node_mask, edge_mask, kept):
        b, n, p, h, d = packed.shape
        f, scale = e.shape[-1], d**-0.5
        m = n
        if packed.device.type == "cpu":
            m = max(n, _VECTOR)
            graphs = max(1, _CHUNK // max(1, h * n * m))
            chunk = -(-b // -(-b // graphs)) if b else 1
        else:
            chunk = max(1, b)
        bound, alive = _limits(node_mask, edge_mask, m, packed)
        to_edges = _widened(w_ke * scale)
        output = packed.new_empty(b, n, h, d)
        edge_logits = logits = sums = None
        saved = []
        for start in range(0, b, chunk):
            here = slice(start, start + chunk)
            c = min(chunk, b - start)
            N = c * n
            if logits is None or logits.shape[0] != h * c:
                edge_logits, logits = packed.new_empty(N, h, m), packed.new_empty(h * c, n, m)
                sums = packed.new_empty(h * c, n, d)
            q, k, v = _heads_first(packed[here], m)
            edges = _padded_edges(e[here], m)
            at_receiver = torch.bmm(q.view(h, N, d), to_edges)[..., :f]
            if w_be is not None:
                at_receiver += w_be.unsqueeze(1)
            torch.bmm(at_receiver.transpose(0, 1), edges.mT, out=edge_logits)
            logits.view(h, N, m).transpose(0, 1).copy_(edge_logits)
            torch.baddbmm(logits, q, k.mT, alpha=scale, out=logits)
            if bound is not None:
                rows = logits.view(h, c, n, m)
                torch.minimum(rows, bound[here] if len(bound) > 1 else bound, out=rows)
            weights = Rows().softmax(logits)
            if alive is not None:
                weights.view(h, c, n, m).mul_(alive[here])
            used = weights if kept is None else _times(weights, kept[here], h, c)
            torch.bmm(used, v, out=sums)
            edge_sums = torch.bmm(used.view(h, N, m).transpose(0, 1), edges)
            by_head = sums.view(h, N, d)
            torch.baddbmm(by_head, edge_sums.transpose(0, 1), w_ve.mT, out=by_head)
            output[here].copy_(sums.view(h, c, n, d).permute(1, 2, 0, 3))
            saved += [q, k, v, at_receiver, edge_sums, weights]
        if p == 4:
            output += packed[:, :, 3]
        ctx.save_for_backward(e, w_ke, w_ve, alive, kept, *saved)
        ctx.shape = (b, n, p, h, d, m, chunk)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        e, w_ke, w_ve, alive, kept, *saved = ctx.saved_tensors
        b, n, p, h, d, m, chunk = ctx.shape
        f, scale = e.shape[-1], d**-0.5
        d_packed = dy.new_empty(b, n, p, h, d)
        d_e = torch.empty_like(e) if ctx.needs_input_grad[1] else None
        d_w_ke, d_w_ve = dy.new_zeros(h, f, d), dy.new_zeros(h, f, d)
        d_w_be = dy.new_zeros(h, f) if ctx.needs_input_grad[4] else None
        from_edges = _widened(w_ve)
        if p == 4:
            d_packed[:, :, 3].copy_(dy)
        if alive is not None:
            dy = dy.masked_fill(alive.view(b, n, 1, 1) == 0, 0.0)
        edge_grads = d_weights = d_logits = grads = None
        for start in range(0, b, chunk):
            here = slice(start, start + chunk)
            c = min(chunk, b - start)
            N = c * n
            if d_weights is None or d_weights.shape[0] != h * c:
                edge_grads = dy.new_empty(N, h, m)
                d_weights, d_logits = dy.new_empty(h * c, n, m), dy.new_empty(h * c, n, m)
                grads = dy.new_empty(3, h * c, m, d)
            q, k, v, at_receiver, edge_sums, weights = saved[:6]
            del saved[:6]
            edges = _padded_edges(e[here], m)
            d_sums = dy[here].permute(2, 0, 1, 3).contiguous().view(h * c, n, d)
            by_head = d_sums.view(h, N, d)
            d_edge_sums = torch.bmm(by_head, from_edges)[..., :f]
            torch.bmm(d_edge_sums.transpose(0, 1), edges.mT, out=edge_grads)
            d_weights.view(h, N, m).transpose(0, 1).copy_(edge_grads)
            torch.baddbmm(d_weights, d_sums, v.mT, out=d_weights)
            used = weights
            if kept is not None:
                used = _times(weights, kept[here], h, c)
                d_weights = _times(d_weights, kept[here], h, c)
            # dL/da_ij = w_ij (dL/dw_ij - sum_j w_ij dL/dw_ij)
            torch.ops.aten._softmax_backward_data.out(d_weights, weights, -1, weights.dtype, grad_input=d_logits)
            d_q, d_k, d_v = grads
            d_q = d_q.view(-1)[: h * N * d].view(h * c, n, d)
            torch.bmm(used.mT, d_sums, out=d_v)
            torch.baddbmm(d_k, d_logits.mT, q, alpha=scale, beta=0, out=d_k)
            torch.baddbmm(d_q, d_logits, k, alpha=scale, beta=0, out=d_q)
            by_receiver = d_logits.view(h, N, m).transpose(0, 1)
            d_at_receiver = torch.bmm(by_receiver, edges)
            d_q_by_head = d_q.view(h, N, d)
            torch.baddbmm(d_q_by_head, d_at_receiver.transpose(0, 1), w_ke.mT, alpha=scale, out=d_q_by_head)
            # The larger size last: (f, N) x (N, d) is four times as fast as its transpose.
            torch.baddbmm(d_w_ke, d_at_receiver.permute(1, 2, 0), q.view(h, N, d), alpha=scale, out=d_w_ke)
            torch.baddbmm(d_w_ve, edge_sums.permute(1, 2, 0), by_head, out=d_w_ve)
            if d_w_be is not None:
                d_w_be += d_at_receiver.sum(0)
            if d_e is not None:
                d_edges = torch.bmm(by_receiver.mT, at_receiver.transpose(0, 1))  # (N, m, f)
                of_values = used.view(h, N, m).permute(1, 2, 0)
                torch.baddbmm(d_edges, of_values, d_edge_sums.transpose(0, 1), out=d_edges)
                d_e[here].copy_(d_edges.view(c, n, m, f)[:, :, :n])
            d_here = d_packed[here]
            if m == n:
                d_here[:, :, :3].copy_(grads.view(3, h, c, n, d).permute(2, 3, 0, 1, 4))
            else:
                d_here[:, :, 0].copy_(d_q.view(h, c, n, d).permute(1, 2, 0, 3))
                d_here[:, :, 1:3].copy_(grads[1:].view(2, h, c, m, d)[:, :, :, :n].permute(2, 3, 0, 1, 4))
        return d_packed, d_e, d_w_ke.mT, d_w_ve.mT, d_w_be, None, None, None


def _limits(node_mask, edge_mask, m, like):
    """What logits may not exceed, broadcastable to (h, c, n, m), and which receivers hear anybody, (b, n, 1).

    The smaller of the logit and the lowest number there is takes a pair out of the softmax: a fifth of the time of
    `masked_fill`.
    """
    n = like.shape[1]
    lowest = torch.finfo(like.dtype).min
    if node_mask is None and edge_mask is None:
        if m == n:
            return None, None
        bound = like.new_full((1, 1, m), torch.inf)
        bound[..., n:] = lowest
        return bound, None
    allowed = _pairs(node_mask, edge_mask) if edge_mask is not None else node_mask.unsqueeze(1)
    alive = allowed.any(-1, keepdim=True) if edge_mask is not None else node_mask.unsqueeze(-1)
    allowed = F.pad(allowed, (0, m - n))
    bound = like.new_full(allowed.shape, torch.inf).masked_fill_(~allowed, lowest)
    return bound, alive.to(like.dtype)


def _heads_first(packed, m):
    """q (h c, n, d), k and v (h c, m, d), contiguous, those beyond n zero."""
    c, n, _, h, d = packed.shape
    heads_first = packed[:, :, :3].permute(2, 3, 0, 1, 4)
    if m == n:
        return heads_first.reshape(3, h * c, n, d).unbind(0)
    k, v = F.pad(heads_first[1:], (0, 0, 0, m - n)).view(2, h * c, m, d)
    return heads_first[0].reshape(h * c, n, d), k, v


def _padded_edges(e, m):
    """(N, m, f), those beyond n zero."""
    c, n, _, f = e.shape
    return (e if m == n else F.pad(e, (0, 0, 0, m - n))).reshape(c * n, m, f)


def _widened(w):
    """(h, d, f) with f filled up with zeros: products with 16 columns take half the time of those with 8."""
    return F.pad(w, (0, max(0, _VECTOR - w.shape[-1])))


def _times(weights, kept, h, c):
    """Weights (h c, n, m) times (c, h, n, n)."""
    _, n, m = weights.shape
    kept = F.pad(kept, (0, m - n)) if m != n else kept
    return (weights.view(h, c, n, m) * kept.transpose(0, 1)).view(h * c, n, m)
