"""Attention over padded graphs with edge features in torch's operations, a few graphs at a time, with its gradient.

The equations and shapes are those of `edge_attention`; any float type, on any device.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from molattn.kernels.batch_layout import VECTOR, BatchLayout
from molattn.kernels.edge_attention import edge_attention_reference

# From so many receivers on, a matrix widened to 16 columns is worth making.
_MANY = 512


def chunked_edge_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    e: Tensor,
    w_ke: Tensor,
    w_ve: Tensor,
    w_be: Tensor | None = None,
    node_mask: Tensor | None = None,
    edge_mask: Tensor | None = None,
    dropout_mask: Tensor | None = None,
) -> Tensor:
    """o, (b, n, h, d): see `molattn.kernels.edge_attention`."""
    b, n, *_ = q.shape
    layout = BatchLayout.of(q, (b, n), node_mask, edge_mask)
    return _ChunkedEdgeAttention.apply(q, k, v, e, w_ke, w_ve, w_be, node_mask, edge_mask, dropout_mask, layout)


class _ChunkedEdgeAttention(torch.autograd.Function):
    """Letters: N = c n receivers of the c graphs of a chunk, m keys, f channels of the edges.

    Heads come first, (h, c, n, m), so that one matrix product per head and graph, (h c) of them, and one per receiver,
    N of them, both find their matrices in place: for the latter a matrix (h, m) has its rows c n m apart.
    """

    @staticmethod
    def forward(ctx, q, k, v, e, w_ke, w_ve, w_be, node_mask, edge_mask, dropout_mask, layout):  # pyright: ignore
        ctx.inputs = node_mask, edge_mask, dropout_mask, layout
        inputs = q, k, v, e, w_ke, w_ve, w_be
        q, k, v = (x.flatten(0, 1) for x in (q, k, v))
        _, h, d = q.shape
        f, scale, on_cpu = w_ke.shape[-1], d**-0.5, q.device.type == "cpu"
        to_edges = _widened(w_ke, q)
        output = torch.empty_like(q, memory_format=torch.contiguous_format)
        space, saved = _Space(q), []
        n, m = layout.n, layout.m
        for here, rows, c in layout.chunks(h, on_cpu):
            N = c * n
            edge_logits, logits = space.of("edge logits", N, h, m), space.of("logits", h * c, n, m)
            sums = space.of("sums", h * c, n, d)
            queries, (keys, values) = _heads_first(q[rows], c, n), (_heads_first(x[rows], c, m) for x in (k, v))
            edges = _padded_edges(e[here], m)
            at_edges = q.new_empty(h, N, to_edges.shape[-1])
            torch.baddbmm(at_edges, queries.view(h, N, d), to_edges, beta=0, alpha=scale, out=at_edges)
            at_edges = at_edges[..., :f]
            if w_be is not None:
                at_edges += w_be.unsqueeze(1)
            torch.bmm(at_edges.transpose(0, 1), edges.mT, out=edge_logits)
            logits.view(h, N, m).transpose(0, 1).copy_(edge_logits)
            torch.baddbmm(logits, queries, keys.mT, alpha=scale, out=logits)
            layout.lower_(logits.view(h, c, n, m), here)
            weights = torch.softmax(logits, -1)
            if layout.row_mask is not None:
                weights.view(h, c, n, m).mul_(layout.row_mask[here])
            used = weights if dropout_mask is None else _times(weights, dropout_mask[here], h, c)
            torch.bmm(used, values, out=sums)
            edge_sums = torch.bmm(used.view(h, N, m).transpose(0, 1), edges)
            by_head = sums.view(h, N, d)
            torch.baddbmm(by_head, edge_sums.transpose(0, 1), w_ve.mT, out=by_head)
            output[rows].copy_(by_head.transpose(0, 1))
            saved += [queries, keys, values, at_edges, edge_sums, weights]
        ctx.save_for_backward(*inputs, *saved)
        return output.unflatten(0, (layout.b, n))

    @staticmethod
    def backward(ctx, dy):  # pyright: ignore[reportIncompatibleMethodOverride]
        q, k, v, e, w_ke, w_ve, w_be = ctx.saved_tensors[:7]
        node_mask, edge_mask, dropout_mask, layout = ctx.inputs
        if torch.is_grad_enabled():
            # A gradient of the gradient may be asked for: that of the reference, which has one.
            inputs = (q, k, v, e, w_ke, w_ve, w_be)
            wanted = [x for x, needed in zip(inputs, ctx.needs_input_grad, strict=False) if needed]
            output = edge_attention_reference(q, k, v, e, w_ke, w_ve, w_be, node_mask, edge_mask, dropout_mask)
            found = iter(torch.autograd.grad(output, wanted, dy, create_graph=True))
            return tuple(next(found) if needed else None for needed in ctx.needs_input_grad)
        *_, h, d = q.shape
        saved = iter(ctx.saved_tensors[7:])
        f, scale, on_cpu = w_ke.shape[-1], d**-0.5, dy.device.type == "cpu"
        dy = dy.flatten(0, 1)
        from_edges = _widened(w_ve, dy)
        d_q, d_k, d_v = (dy.new_empty(dy.shape) for _ in range(3))
        if layout.empty_rows is not None:
            dy = dy.index_fill(0, layout.empty_rows, 0.0)
        d_w_ke, d_w_ve = dy.new_zeros(2, h, f, d)
        d_w_be = dy.new_zeros(h, f) if ctx.needs_input_grad[6] else None
        d_e = torch.empty_like(e) if ctx.needs_input_grad[3] else None
        space = _Space(dy)
        n, m = layout.n, layout.m
        for here, rows, c in layout.chunks(h, on_cpu):
            N = c * n
            edge_grads, d_weights = space.of("edge grads", N, h, m), space.of("weights", h * c, n, m)
            d_queries = space.of("queries", h * c, n, d)
            d_keys, d_values = space.of("keys", h * c, m, d), space.of("values", h * c, m, d)
            queries, keys, values, at_edges, edge_sums, weights = (next(saved) for _ in range(6))
            edges = _padded_edges(e[here], m)
            by_head = dy[rows].transpose(0, 1).contiguous()  # (h, N, d)
            d_sums = by_head.view(h * c, n, d)
            d_edge_sums = torch.bmm(by_head, from_edges)[..., :f]
            torch.bmm(d_edge_sums.transpose(0, 1), edges.mT, out=edge_grads)
            d_weights.view(h, N, m).transpose(0, 1).copy_(edge_grads)
            torch.baddbmm(d_weights, d_sums, values.mT, out=d_weights)
            used = weights
            if dropout_mask is not None:
                used = _times(weights, dropout_mask[here], h, c)
                d_weights = _times(d_weights, dropout_mask[here], h, c)
            # dL/da_ij = w_ij (dL/dw_ij - sum_j w_ij dL/dw_ij)
            d_logits = torch.mul(weights, d_weights, out=space.of("logits", h * c, n, m))
            d_logits.addcmul_(weights, d_logits.sum(-1, keepdim=True), value=-1)
            torch.bmm(used.mT, d_sums, out=d_values)
            torch.baddbmm(d_keys, d_logits.mT, queries, alpha=scale, beta=0, out=d_keys)
            torch.baddbmm(d_queries, d_logits, keys, alpha=scale, beta=0, out=d_queries)
            by_receiver = d_logits.view(h, N, m).transpose(0, 1)
            d_at_edges = torch.bmm(by_receiver, edges)
            d_q_by_head, q_by_head = d_queries.view(h, N, d), queries.view(h, N, d)
            torch.baddbmm(d_q_by_head, d_at_edges.transpose(0, 1), w_ke.mT, alpha=scale, out=d_q_by_head)
            # The larger size last: (f, N) x (N, d) is four times as fast as its transpose.
            torch.baddbmm(d_w_ke, d_at_edges.permute(1, 2, 0), q_by_head, alpha=scale, out=d_w_ke)
            torch.baddbmm(d_w_ve, edge_sums.permute(1, 2, 0), by_head, out=d_w_ve)
            if d_w_be is not None:
                d_w_be += d_at_edges.sum(0)
            if d_e is not None:
                d_edges = torch.bmm(by_receiver.mT, at_edges.transpose(0, 1))  # (N, m, f)
                of_values = used.view(h, N, m).permute(1, 2, 0)
                torch.baddbmm(d_edges, of_values, d_edge_sums.transpose(0, 1), out=d_edges)
                d_e[here].copy_(d_edges.view(c, n, m, f)[:, :, :n])
            for to, x in ((d_q, d_queries), (d_k, d_keys), (d_v, d_values)):
                to[rows].unflatten(0, (c, n)).copy_(x.view(h, c, -1, d)[:, :, :n].permute(1, 2, 0, 3))
        shape = (layout.b, n, h, d)
        gradients = d_q.view(shape), d_k.view(shape), d_v.view(shape), d_e, d_w_ke.mT, d_w_ve.mT, d_w_be
        return *gradients, None, None, None, None


class _Space:
    """Tensors to write to, the same ones for chunk after chunk of one shape: they stay in the cache."""

    def __init__(self, like: Tensor):
        self.like, self.tensors = like, {}

    def of(self, name: str, *shape: int) -> Tensor:
        tensor = self.tensors.get(name)
        if tensor is None or tensor.shape != shape:
            self.tensors[name] = tensor = self.like.new_empty(shape)
        return tensor


def _heads_first(x, c, m):
    """(h c, m, d) of rows (c n, h, d); those beyond n zero."""
    N, h, d = x.shape
    n = N // c
    if m == n:
        return x.transpose(0, 1).reshape(h * c, n, d)
    padded = x.new_zeros(h, c, m, d)
    padded[:, :, :n].copy_(x.view(c, n, h, d).permute(2, 0, 1, 3))
    return padded.view(h * c, m, d)


def _padded_edges(e, m):
    """(N, m, f), those beyond n zero."""
    c, n, _, f = e.shape
    return (e if m == n else F.pad(e, (0, 0, 0, m - n))).reshape(c * n, m, f)


def _widened(w, rows):
    """(h, d, f) with f filled up with zeros: products with 16 columns take half the time of those with 8."""
    h, d, f = w.shape
    if f >= VECTOR or len(rows) < _MANY or rows.device.type != "cpu":
        return w
    wide = w.new_zeros(h, d, VECTOR)
    wide[..., :f] = w
    return wide


def _times(weights, kept, h, c):
    """Weights (h c, n, m) times (c, h, n, n)."""
    _, n, m = weights.shape
    kept = F.pad(kept, (0, m - n)) if m != n else kept
    return (weights.view(h, c, n, m) * kept.transpose(0, 1)).view(h * c, n, m)
