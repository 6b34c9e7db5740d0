"""Attention over dense graphs with edge features, as one operation whose gradient is written by hand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

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
    if not is_one_operation(terms.packed):
        return plain_edge_attention(terms)
    b, n = terms.packed.shape[:2]
    place = Place.of(terms.packed, 0, (b, n), terms.node_mask, terms.edge_mask)
    rows = terms.packed.flatten(0, 1)
    output = in_places(rows, terms.w_ke, terms.w_ve, terms.w_be, (place,), (terms.e,), (terms.kept,))
    return output.unflatten(0, (b, n))


def is_one_operation(packed: Tensor) -> bool:
    """Whether attention to these queries, keys and values is one operation: no compiler and no autocast at work."""
    return not torch.compiler.is_compiling() and not torch.is_autocast_enabled(packed.device.type)


def in_places(
    packed: Float[Tensor, "rows p h d"],
    w_ke: Float[Tensor, "h d f"],
    w_ve: Float[Tensor, "h d f"],
    w_be: Float[Tensor, "h f"] | None,
    places: Sequence["Place"],
    e: Sequence[Tensor],
    kept: Sequence[Tensor | None],
) -> Float[Tensor, "rows h d"]:
    """`edge_attention` of dense graphs of several sizes whose nodes are rows of one tensor, as one operation."""
    return _EdgeAttention.apply(packed, w_ke, w_ve, w_be, places, kept, *e)


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
_CHUNK = 2**18
# The floats of a vector register: torch's softmax of shorter rows goes one by one, ten times slower.
_VECTOR = 16
# From so many receivers on, a matrix widened to 16 columns is worth making.
_MANY = 512


@dataclass(frozen=True)
class Place:
    """Where b dense graphs of n nodes stand in rows of nodes, and what their masks mean for the logits.

    Attributes:
        start: the first row of theirs.
        b, n: how many graphs, of how many nodes.
        m: how many keys a query sees: n, or more where short rows are padded.
        bound: what logits may not exceed, broadcastable to (h, b, n, m); None where nothing is forbidden.
        alive: (b, n, 1), 1 for receivers that hear anybody and 0 for the others; None where all do.
        dead: the rows of the others.
    """

    start: int
    b: int
    n: int
    m: int
    bound: Tensor | None = None
    alive: Tensor | None = None
    dead: Tensor | None = None

    @classmethod
    def of(cls, like: Tensor, start: int, shape: tuple[int, int], node_mask: Tensor | None, edge_mask: Tensor | None):
        """The place of b graphs of n nodes, `shape`, with these masks; `like` has the logits' dtype and device.

        The smaller of the logit and the lowest number there is takes a pair out of the softmax, in a fifth of the
        time of `masked_fill`.
        """
        b, n = shape
        m = max(n, _VECTOR) if like.device.type == "cpu" else n
        lowest = torch.finfo(like.dtype).min
        if node_mask is not None and edge_mask is None and all_true(node_mask):
            node_mask = None
        allowed, alive = None, node_mask
        if edge_mask is not None:
            allowed = edge_mask if node_mask is None else edge_mask & node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2)
            alive = allowed.any(-1)
        elif node_mask is not None:
            allowed = node_mask.unsqueeze(1)
        if allowed is None or alive is None:
            bound = None
            if m > n:
                bound = like.new_full((1, 1, m), torch.inf)
                bound[..., n:] = lowest
            return cls(start, b, n, m, bound)
        alive = alive.unsqueeze(-1)
        bound = like.new_full((*allowed.shape[:-1], m), lowest)
        bound[..., :n].masked_fill_(allowed, torch.inf)
        dead = (~alive).flatten().nonzero().squeeze(-1) + start
        return cls(start, b, n, m, bound, alive.to(like.dtype), dead)

    def chunks(self, num_heads: int, on_cpu: bool) -> Iterator[tuple[slice, slice, int]]:
        """The graphs a few at a time: which of the b, which rows, how many."""
        if not self.b:
            return
        graphs = max(1, _CHUNK // max(1, num_heads * self.n * self.m)) if on_cpu else self.b
        size = -(-self.b // -(-self.b // graphs))
        for first in range(0, self.b, size):
            c = min(size, self.b - first)
            row = self.start + first * self.n
            yield slice(first, first + c), slice(row, row + c * self.n), c

    def lower_(self, logits: Tensor, here: slice) -> None:
        """Take the pairs that may not be out of logits (h, c, n, m)."""
        if self.bound is not None:
            torch.minimum(logits, self.bound if len(self.bound) == 1 else self.bound[here], out=logits)


class _EdgeAttention(torch.autograd.Function):
    """`edge_attention` of the graphs of several places, each with its own edges, a few graphs at a time.

    Letters: N = c n receivers of the c graphs of a chunk, m keys, f channels of the edges.

    Heads come first, (h, c, n, m), so that one matrix product per head and graph, (h c) of them, and one per receiver,
    N of them, both find their matrices in place: for the latter a matrix (h, m) has its rows c n m apart.
    """

    @staticmethod
    def forward(ctx, packed, w_ke, w_ve, w_be, places, kept, *e):  # pyright: ignore[reportIncompatibleMethodOverride]
        _, p, h, d = packed.shape
        f, scale, on_cpu = w_ke.shape[-1], d**-0.5, packed.device.type == "cpu"
        to_edges = _widened(w_ke, packed)
        output = packed.new_empty(len(packed), h, d)
        space, saved = _Space(packed), []
        for place, every_edge, of_dropout in zip(places, e, kept, strict=True):
            n, m = place.n, place.m
            for here, rows, c in place.chunks(h, on_cpu):
                N = c * n
                edge_logits, logits = space.of("edge logits", N, h, m), space.of("logits", h * c, n, m)
                sums = space.of("sums", h * c, n, d)
                q, k, v = _heads_first(packed[rows], c, m)
                edges = _padded_edges(every_edge[here], m)
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
                used = weights if of_dropout is None else _times(weights, of_dropout[here], h, c)
                torch.bmm(used, v, out=sums)
                edge_sums = torch.bmm(used.view(h, N, m).transpose(0, 1), edges)
                by_head = sums.view(h, N, d)
                torch.baddbmm(by_head, edge_sums.transpose(0, 1), w_ve.mT, out=by_head)
                output[rows].copy_(by_head.transpose(0, 1))
                saved += [q, k, v, asked, edge_sums, weights]
        if p == 4:
            output += packed[:, 3]
        ctx.save_for_backward(w_ke, w_ve, *e, *saved)
        ctx.places, ctx.kept, ctx.shape = places, kept, packed.shape
        return output

    @staticmethod
    def backward(ctx, dy):  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():
            raise RuntimeError("the gradient of edge_attention has none of its own: use plain_edge_attention for that")
        w_ke, w_ve, *saved = ctx.saved_tensors
        e, saved = saved[: len(ctx.places)], iter(saved[len(ctx.places) :])
        _, p, h, d = ctx.shape
        f, scale, on_cpu = w_ke.shape[-1], d**-0.5, dy.device.type == "cpu"
        from_edges = _widened(w_ve, dy)
        d_packed = dy.new_empty(ctx.shape)
        if p == 4:
            d_packed[:, 3].copy_(dy)
        dead = [place.dead for place in ctx.places if place.dead is not None]
        if dead:
            dy = dy.index_fill(0, torch.cat(dead), 0.0)
        d_w_ke, d_w_ve = dy.new_zeros(2, h, f, d)
        d_w_be = dy.new_zeros(h, f) if ctx.needs_input_grad[3] else None
        d_e = [torch.empty_like(x) if wanted else None for x, wanted in zip(e, ctx.needs_input_grad[6:], strict=True)]
        space = _Space(dy)
        for place, every_edge, d_every_edge, of_dropout in zip(ctx.places, e, d_e, ctx.kept, strict=True):
            n, m = place.n, place.m
            for here, rows, c in place.chunks(h, on_cpu):
                N = c * n
                edge_grads, d_weights = space.of("edge grads", N, h, m), space.of("weights", h * c, n, m)
                d_logits, grads = space.of("logits", h * c, n, m), space.of("grads", 3, h * c, m, d)
                q, k, v, asked, edge_sums, weights = (next(saved) for _ in range(6))
                edges = _padded_edges(every_edge[here], m)
                by_head = dy[rows].transpose(0, 1).contiguous()  # (h, N, d)
                d_sums = by_head.view(h * c, n, d)
                d_edge_sums = torch.bmm(by_head, from_edges)[..., :f]
                torch.bmm(d_edge_sums.transpose(0, 1), edges.mT, out=edge_grads)
                d_weights.view(h, N, m).transpose(0, 1).copy_(edge_grads)
                torch.baddbmm(d_weights, d_sums, v.mT, out=d_weights)
                used, d_used = weights, d_weights
                if of_dropout is not None:
                    used = _times(weights, of_dropout[here], h, c)
                    d_used = _times(d_weights, of_dropout[here], h, c)
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
                if d_every_edge is not None:
                    d_edges = torch.bmm(by_receiver.mT, asked.transpose(0, 1))  # (N, m, f)
                    of_values = used.view(h, N, m).permute(1, 2, 0)
                    torch.baddbmm(d_edges, of_values, d_edge_sums.transpose(0, 1), out=d_edges)
                    d_every_edge[here].copy_(d_edges.view(c, n, m, f)[:, :, :n])
                d_here = d_packed[rows]
                if m == n:
                    d_here[:, :3].copy_(grads.view(3, h, N, d).permute(2, 0, 1, 3))
                else:
                    d_here[:, 0].copy_(d_q_by_head.transpose(0, 1))
                    d_here = d_here.unflatten(0, (c, n))[:, :, 1:3]
                    d_here.copy_(grads[1:].view(2, h, c, m, d)[:, :, :, :n].permute(2, 3, 0, 1, 4))
        return d_packed, d_w_ke.mT, d_w_ve.mT, d_w_be, None, None, *d_e


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
    if f >= _VECTOR or len(rows) < _MANY or rows.device.type != "cpu":
        return w
    wide = w.new_zeros(h, d, _VECTOR)
    wide[..., :f] = w
    return wide


def _times(weights, kept, h, c):
    """Weights (h c, n, m) times (c, h, n, n)."""
    _, n, m = weights.shape
    kept = F.pad(kept, (0, m - n)) if m != n else kept
    return (weights.view(h, c, n, m) * kept.transpose(0, 1)).view(h * c, n, m)
