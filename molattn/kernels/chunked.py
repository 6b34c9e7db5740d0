"""Attention over padded graphs with edge features by torch operations, a few graphs at a time, and its gradient.

The equations and shapes are those of `edge_attention`; any float type, on any device.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from molattn.kernels.batch_layout import PaddedBatch
from molattn.kernels.edge_attention import edge_attention_reference
from molattn.kernels.operations import FLOATS_PER_VECTOR, differentiable_gradients, needs_reference

# With fewer receivers, padding the columns of a weight matrix takes more time than it saves.
_MIN_PADDED_ROWS = 512


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
    """Attention, (b, n, h, d): equations and arguments of `molattn.kernels.edge_attention`."""
    batch = PaddedBatch.from_queries(q, node_mask, edge_mask)
    return _ChunkedEdgeAttention.apply(q, k, v, e, w_ke, w_ve, w_be, node_mask, edge_mask, dropout_mask, batch)


class _ChunkedEdgeAttention(torch.autograd.Function):
    """Notation: N = c n receivers of the c graphs of a chunk, m keys, f edge channels.

    Logits and weights are (h, c, n, m), heads first: then the operands of the matrix products for each head and graph
    (h c matrices) and for each receiver (N matrices of shape (h, m), with row stride c n m) are views, not copies.
    """

    @staticmethod
    def forward(ctx, q, k, v, e, w_ke, w_ve, w_be, node_mask, edge_mask, dropout_mask, batch):  # pyright: ignore
        ctx.inputs = node_mask, edge_mask, dropout_mask, batch
        inputs = q, k, v, e, w_ke, w_ve, w_be
        q, k, v = (x.flatten(0, 1) for x in (q, k, v))
        _, h, d = q.shape
        f, scale, on_cpu = w_ke.shape[-1], d**-0.5, q.device.type == "cpu"
        w_ke_padded = _pad_columns(w_ke, q)
        output = torch.empty_like(q, memory_format=torch.contiguous_format)
        buffers, saved = _Buffers(q), []
        n, m = batch.n, batch.num_keys
        for graphs, rows, c in batch.chunks(h, on_cpu):
            N = c * n
            edge_logits, logits = buffers.get("edge logits", N, h, m), buffers.get("logits", h * c, n, m)
            value_sums = buffers.get("value sums", h * c, n, d)
            queries, (keys, values) = _heads_first(q[rows], c, n), (_heads_first(x[rows], c, m) for x in (k, v))
            edges = _padded_edges(e[graphs], m)
            edge_queries = q.new_empty(h, N, w_ke_padded.shape[-1])
            torch.baddbmm(edge_queries, queries.view(h, N, d), w_ke_padded, beta=0, alpha=scale, out=edge_queries)
            edge_queries = edge_queries[..., :f]
            if w_be is not None:
                edge_queries += w_be.unsqueeze(1)
            torch.bmm(edge_queries.transpose(0, 1), edges.mT, out=edge_logits)
            logits.view(h, N, m).transpose(0, 1).copy_(edge_logits)
            torch.baddbmm(logits, queries, keys.mT, alpha=scale, out=logits)
            batch.mask_logits_(logits.view(h, c, n, m), graphs)
            weights = torch.softmax(logits, -1)
            if batch.row_mask is not None:
                weights.view(h, c, n, m).mul_(batch.row_mask[graphs])
            dropped = weights if dropout_mask is None else _apply_dropout(weights, dropout_mask[graphs], h, c)
            torch.bmm(dropped, values, out=value_sums)
            edge_sums = torch.bmm(dropped.view(h, N, m).transpose(0, 1), edges)
            output_by_head = value_sums.view(h, N, d)
            torch.baddbmm(output_by_head, edge_sums.transpose(0, 1), w_ve.mT, out=output_by_head)
            output[rows].copy_(output_by_head.transpose(0, 1))
            saved += [queries, keys, values, edge_queries, edge_sums, weights]
        ctx.save_for_backward(*inputs, *saved)
        return output.unflatten(0, (batch.b, n))

    @staticmethod
    def backward(ctx, dy):  # pyright: ignore[reportIncompatibleMethodOverride]
        q, k, v, e, w_ke, w_ve, w_be = ctx.saved_tensors[:7]
        node_mask, edge_mask, dropout_mask, batch = ctx.inputs
        if needs_reference(dy):
            inputs = q, k, v, e, w_ke, w_ve, w_be
            with torch.enable_grad():
                output = edge_attention_reference(*inputs, node_mask, edge_mask, dropout_mask)
                gradients = differentiable_gradients(output, inputs, ctx.needs_input_grad[:7], dy)
            return *gradients, None, None, None, None
        *_, h, d = q.shape
        saved = iter(ctx.saved_tensors[7:])
        f, scale, on_cpu = w_ke.shape[-1], d**-0.5, dy.device.type == "cpu"
        dy = dy.flatten(0, 1)
        w_ve_padded = _pad_columns(w_ve, dy)
        d_q, d_k, d_v = (dy.new_empty(dy.shape) for _ in range(3))
        if batch.empty_rows is not None:
            dy = dy.index_fill(0, batch.empty_rows, 0.0)
        d_w_ke, d_w_ve = dy.new_zeros(2, h, f, d)
        d_w_be = dy.new_zeros(h, f) if ctx.needs_input_grad[6] else None
        d_e = torch.empty_like(e) if ctx.needs_input_grad[3] else None
        buffers = _Buffers(dy)
        n, m = batch.n, batch.num_keys
        for graphs, rows, c in batch.chunks(h, on_cpu):
            N = c * n
            edge_grads, d_weights = buffers.get("edge grads", N, h, m), buffers.get("weights", h * c, n, m)
            d_queries = buffers.get("queries", h * c, n, d)
            d_keys, d_values = buffers.get("keys", h * c, m, d), buffers.get("values", h * c, m, d)
            queries, keys, values, edge_queries, edge_sums, weights = (next(saved) for _ in range(6))
            edges = _padded_edges(e[graphs], m)
            dy_by_head = dy[rows].transpose(0, 1).contiguous()  # (h, N, d)
            d_value_sums = dy_by_head.view(h * c, n, d)
            d_edge_sums = torch.bmm(dy_by_head, w_ve_padded)[..., :f]
            torch.bmm(d_edge_sums.transpose(0, 1), edges.mT, out=edge_grads)
            d_weights.view(h, N, m).transpose(0, 1).copy_(edge_grads)
            torch.baddbmm(d_weights, d_value_sums, values.mT, out=d_weights)
            dropped = weights
            if dropout_mask is not None:
                dropped = _apply_dropout(weights, dropout_mask[graphs], h, c)
                d_weights = _apply_dropout(d_weights, dropout_mask[graphs], h, c)
            # dL/da_ij = w_ij (dL/dw_ij - sum_j w_ij dL/dw_ij)
            d_logits = torch.mul(weights, d_weights, out=buffers.get("logits", h * c, n, m))
            d_logits.addcmul_(weights, d_logits.sum(-1, keepdim=True), value=-1)
            torch.bmm(dropped.mT, d_value_sums, out=d_values)
            torch.baddbmm(d_keys, d_logits.mT, queries, alpha=scale, beta=0, out=d_keys)
            torch.baddbmm(d_queries, d_logits, keys, alpha=scale, beta=0, out=d_queries)
            by_receiver = d_logits.view(h, N, m).transpose(0, 1)
            d_edge_queries = torch.bmm(by_receiver, edges)
            d_q_by_head, q_by_head = d_queries.view(h, N, d), queries.view(h, N, d)
            torch.baddbmm(d_q_by_head, d_edge_queries.transpose(0, 1), w_ke.mT, alpha=scale, out=d_q_by_head)
            # The larger size last: (f, N) x (N, d) takes a quarter of the time of its transpose.
            torch.baddbmm(d_w_ke, d_edge_queries.permute(1, 2, 0), q_by_head, alpha=scale, out=d_w_ke)
            torch.baddbmm(d_w_ve, edge_sums.permute(1, 2, 0), dy_by_head, out=d_w_ve)
            if d_w_be is not None:
                d_w_be += d_edge_queries.sum(0)
            if d_e is not None:
                d_edges = torch.bmm(by_receiver.mT, edge_queries.transpose(0, 1))  # (N, m, f)
                weights_by_sender = dropped.view(h, N, m).permute(1, 2, 0)
                torch.baddbmm(d_edges, weights_by_sender, d_edge_sums.transpose(0, 1), out=d_edges)
                d_e[graphs].copy_(d_edges.view(c, n, m, f)[:, :, :n])
            for gradient, x in ((d_q, d_queries), (d_k, d_keys), (d_v, d_values)):
                gradient[rows].unflatten(0, (c, n)).copy_(x.view(h, c, -1, d)[:, :, :n].permute(1, 2, 0, 3))
        shape = (batch.b, n, h, d)
        gradients = d_q.view(shape), d_k.view(shape), d_v.view(shape), d_e, d_w_ke.mT, d_w_ve.mT, d_w_be
        return *gradients, None, None, None, None


class _Buffers:
    """Output buffers by name; chunks of the same shape reuse them, so that they stay in the cache of the CPU."""

    def __init__(self, like: Tensor):
        self.like, self.tensors = like, {}

    def get(self, name: str, *shape: int) -> Tensor:
        tensor = self.tensors.get(name)
        if tensor is None or tensor.shape != shape:
            self.tensors[name] = tensor = self.like.new_empty(shape)
        return tensor


def _heads_first(x: Tensor, c: int, m: int) -> Tensor:
    """(h c, m, d) from the rows x, (c n, h, d), of c graphs; zeros in the rows from n to m."""
    N, h, d = x.shape
    n = N // c
    if m == n:
        return x.transpose(0, 1).reshape(h * c, n, d)
    padded = x.new_zeros(h, c, m, d)
    padded[:, :, :n].copy_(x.view(c, n, h, d).permute(2, 0, 1, 3))
    return padded.view(h * c, m, d)


def _padded_edges(e: Tensor, m: int) -> Tensor:
    """(c n, m, f) from e, (c, n, n, f); zeros for the keys from n to m."""
    c, n, _, f = e.shape
    if m != n:
        # torch 2.7 does not pad tensors without elements.
        e = F.pad(e, (0, 0, 0, m - n)) if f else e.new_zeros(c, n, m, 0)
    return e.reshape(c * n, m, f)


def _pad_columns(w: Tensor, rows: Tensor) -> Tensor:
    """w, (h, d, f), with zeros up to 16 columns: with 16 of them, products with `rows` take half the time of 8.

    Returned unchanged with more columns, for few rows, and on other devices than the CPU.
    """
    h, d, f = w.shape
    if f >= FLOATS_PER_VECTOR or len(rows) < _MIN_PADDED_ROWS or rows.device.type != "cpu":
        return w
    padded = w.new_zeros(h, d, FLOATS_PER_VECTOR)
    padded[..., :f] = w
    return padded


def _apply_dropout(weights: Tensor, dropout_mask: Tensor, h: int, c: int) -> Tensor:
    """Weights, (h c, n, m), times a dropout mask, (c, h, n, n)."""
    _, n, m = weights.shape
    dropout_mask = F.pad(dropout_mask, (0, m - n)) if m != n else dropout_mask
    return (weights.view(h, c, n, m) * dropout_mask.transpose(0, 1)).view(h * c, n, m)
