"""Attention over dense graphs with edge features in torch's operations, a few graphs at a time, with its gradient."""

import torch
import torch.nn.functional as F
from torch import Tensor

from molattn.attention import Rows
from molattn.graph.places import VECTOR

# From so many receivers on, a matrix widened to 16 columns is worth making.
_MANY = 512


class ChunkedEdgeAttention(torch.autograd.Function):
    """`edge_attention` of the graphs of a place, whose nodes are rows, a few graphs at a time.

    Letters: N = c n receivers of the c graphs of a chunk, m keys, f channels of the edges.

    Heads come first, (h, c, n, m), so that one matrix product per head and graph, (h c) of them, and one per receiver,
    N of them, both find their matrices in place: for the latter a matrix (h, m) has its rows c n m apart.
    """

    @staticmethod
    def forward(ctx, packed, w_ke, w_ve, w_be, place, kept, e):  # pyright: ignore[reportIncompatibleMethodOverride]
        _, p, h, d = packed.shape
        f, scale, on_cpu = w_ke.shape[-1], d**-0.5, packed.device.type == "cpu"
        to_edges = _widened(w_ke, packed)
        output = packed.new_empty(len(packed), h, d)
        space, saved = _Space(packed), []
        n, m = place.n, place.m
        for here, rows, c in place.chunks(h, on_cpu):
            N = c * n
            edge_logits, logits = space.of("edge logits", N, h, m), space.of("logits", h * c, n, m)
            sums = space.of("sums", h * c, n, d)
            q, k, v = _heads_first(packed[rows], c, m)
            edges = _padded_edges(e[here], m)
            asked = packed.new_empty(h, N, to_edges.shape[-1])
            torch.baddbmm(asked, q.view(h, N, d), to_edges, beta=0, alpha=scale, out=asked)
            asked = asked[..., :f]
            if w_be is not None:
                asked += w_be.unsqueeze(1)
            torch.bmm(asked.transpose(0, 1), edges.mT, out=edge_logits)
            logits.view(h, N, m).transpose(0, 1).copy_(edge_logits)
            torch.baddbmm(logits, q, k.mT, alpha=scale, out=logits)
            place.lower_(logits.view(h, c, n, m), here)
            weights = Rows().softmax(logits)
            if place.alive is not None:
                weights.view(h, c, n, m).mul_(place.alive[here])
            used = weights if kept is None else _times(weights, kept[here], h, c)
            torch.bmm(used, v, out=sums)
            edge_sums = torch.bmm(used.view(h, N, m).transpose(0, 1), edges)
            by_head = sums.view(h, N, d)
            torch.baddbmm(by_head, edge_sums.transpose(0, 1), w_ve.mT, out=by_head)
            output[rows].copy_(by_head.transpose(0, 1))
            saved += [q, k, v, asked, edge_sums, weights]
        if p == 4:
            output += packed[:, 3]
        ctx.save_for_backward(w_ke, w_ve, e, *saved)
        ctx.place, ctx.kept, ctx.shape = place, kept, packed.shape
        return output

    @staticmethod
    def backward(ctx, dy):  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():
            raise RuntimeError("the gradient of edge_attention has none of its own: use plain_edge_attention for that")
        w_ke, w_ve, e, *saved = ctx.saved_tensors
        place, kept, saved = ctx.place, ctx.kept, iter(saved)
        _, p, h, d = ctx.shape
        f, scale, on_cpu = w_ke.shape[-1], d**-0.5, dy.device.type == "cpu"
        from_edges = _widened(w_ve, dy)
        d_packed = dy.new_empty(ctx.shape)
        if p == 4:
            d_packed[:, 3].copy_(dy)
        if place.dead is not None:
            dy = dy.index_fill(0, place.dead, 0.0)
        d_w_ke, d_w_ve = dy.new_zeros(2, h, f, d)
        d_w_be = dy.new_zeros(h, f) if ctx.needs_input_grad[3] else None
        d_e = torch.empty_like(e) if ctx.needs_input_grad[6] else None
        space = _Space(dy)
        n, m = place.n, place.m
        for here, rows, c in place.chunks(h, on_cpu):
            N = c * n
            edge_grads, d_weights = space.of("edge grads", N, h, m), space.of("weights", h * c, n, m)
            d_logits, grads = space.of("logits", h * c, n, m), space.of("grads", 3, h * c, m, d)
            q, k, v, asked, edge_sums, weights = (next(saved) for _ in range(6))
            edges = _padded_edges(e[here], m)
            by_head = dy[rows].transpose(0, 1).contiguous()  # (h, N, d)
            d_sums = by_head.view(h * c, n, d)
            d_edge_sums = torch.bmm(by_head, from_edges)[..., :f]
            torch.bmm(d_edge_sums.transpose(0, 1), edges.mT, out=edge_grads)
            d_weights.view(h, N, m).transpose(0, 1).copy_(edge_grads)
            torch.baddbmm(d_weights, d_sums, v.mT, out=d_weights)
            used, d_used = weights, d_weights
            if kept is not None:
                used = _times(weights, kept[here], h, c)
                d_used = _times(d_weights, kept[here], h, c)
            # dL/da_ij = w_ij (dL/dw_ij - sum_j w_ij dL/dw_ij)
            torch.ops.aten._softmax_backward_data.out(d_used, weights, -1, weights.dtype, grad_input=d_logits)
            d_q, d_k, d_v = grads
            d_q = d_q if m == n else d_q.flatten()[: h * N * d].view(h * c, n, d)
            torch.bmm(used.mT, d_sums, out=d_v)
            torch.baddbmm(d_k, d_logits.mT, q, alpha=scale, beta=0, out=d_k)
            torch.baddbmm(d_q, d_logits, k, alpha=scale, beta=0, out=d_q)
            by_receiver = d_logits.view(h, N, m).transpose(0, 1)
            d_asked = torch.bmm(by_receiver, edges)
            d_q_by_head, q_by_head = d_q.view(h, N, d), q.view(h, N, d)
            torch.baddbmm(d_q_by_head, d_asked.transpose(0, 1), w_ke.mT, alpha=scale, out=d_q_by_head)
            # The larger size last: (f, N) x (N, d) is four times as fast as its transpose.
            torch.baddbmm(d_w_ke, d_asked.permute(1, 2, 0), q_by_head, alpha=scale, out=d_w_ke)
            torch.baddbmm(d_w_ve, edge_sums.permute(1, 2, 0), by_head, out=d_w_ve)
            if d_w_be is not None:
                d_w_be += d_asked.sum(0)
            if d_e is not None:
                d_edges = torch.bmm(by_receiver.mT, asked.transpose(0, 1))  # (N, m, f)
                of_values = used.view(h, N, m).permute(1, 2, 0)
                torch.baddbmm(d_edges, of_values, d_edge_sums.transpose(0, 1), out=d_edges)
                d_e[here].copy_(d_edges.view(c, n, m, f)[:, :, :n])
            d_here = d_packed[rows]
            if m == n:
                d_here[:, :3].copy_(grads.view(3, h, N, d).permute(2, 0, 1, 3))
            else:
                d_here[:, 0].copy_(d_q_by_head.transpose(0, 1))
                d_here = d_here.unflatten(0, (c, n))[:, :, 1:3]
                d_here.copy_(grads[1:].view(2, h, c, m, d)[:, :, :, :n].permute(2, 3, 0, 1, 4))
        return d_packed, d_w_ke.mT, d_w_ve.mT, d_w_be, None, None, d_e


class _Space:
    """Tensors to write to, the same ones for chunk after chunk of one shape: they stay in the cache."""

    def __init__(self, like: Tensor):
        self.like, self.tensors = like, {}

    def of(self, name: str, *shape: int) -> Tensor:
        tensor = self.tensors.get(name)
        if tensor is None or tensor.shape != shape:
            self.tensors[name] = tensor = self.like.new_empty(shape)
        return tensor


def _heads_first(packed, c, m):
    """q (h c, n, d), k and v (h c, m, d) of rows (N, p, h, d); those beyond n zero."""
    N, _, h, d = packed.shape
    n = N // c
    heads_first = packed[:, :3].permute(1, 2, 0, 3)
    if m == n:
        return heads_first.reshape(3, h * c, n, d).unbind(0)
    k_and_v = packed.new_zeros(2, h, c, m, d)
    k_and_v[:, :, :, :n].copy_(heads_first[1:].unflatten(2, (c, n)))
    k, v = k_and_v.view(2, h * c, m, d)
    return heads_first[0].reshape(h * c, n, d), k, v


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
