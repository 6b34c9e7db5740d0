"""The implementations of `attend`: the reference, torch's fused attention, and molattn's kernels.

Each takes the same arguments and gives the same result up to rounding. All but the reference have a function that
returns why they do not support the arguments; `molattn/kernels/dispatch.py` runs the first that does and is allowed.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from molattn.attention.dropout import draw_dropout_mask
from molattn.attention.edges import EdgeTerms
from molattn.attention.layout import (
    AttentionLayout,
    DenseLayout,
    EdgeListLayout,
    PaddedGraphLayout,
    mask_any,
    mask_or,
)
from molattn.attention.normalize import Normalizer, Softmax
from molattn.attention.score import Score, dot, scaled_dot
from molattn.kernels import edge_attention, segments
from molattn.kernels.chunked import chunked_edge_attention
from molattn.kernels.dispatch import Operation
from molattn.kernels.operations import (
    all_true,
    differentiable_gradients,
    eager_unsupported_reason,
    has_concrete_values,
    is_autocast_enabled,
    is_transformed,
    tracing_reason,
)


class AttendArguments(NamedTuple):
    """The arguments of `attend`, after name lookup."""

    q: Tensor
    k: Tensor
    v: Tensor
    layout: AttentionLayout
    bias: Tensor | None
    edges: EdgeTerms | None
    score: Score
    normalizer: Normalizer
    dropout: float
    dropout_mask: Tensor | None


def compute_weights(
    q: Tensor,
    k: Tensor,
    layout: AttentionLayout,
    bias: Tensor | None,
    edges: EdgeTerms | None,
    score: Score,
    normalizer: Normalizer,
) -> Tensor:
    """The weights by the equation of `attention_weights`, from checked arguments."""
    if isinstance(layout, DenseLayout):
        q = layout.zero_queries_without_keys(q)
    logits = score(q, k, layout) if edges is None else edges.logits(q, k, layout, score)
    return normalizer(logits if bias is None else logits + bias, layout)


def reference(args: AttendArguments) -> tuple[Tensor, Tensor]:
    """Score, normalizer and weighted sum as in the equations; returns the output and the weights."""
    weights = compute_weights(args.q, args.k, args.layout, args.bias, args.edges, args.score, args.normalizer)
    dropped = weights
    if args.dropout_mask is not None:
        dropped = weights * args.dropout_mask
    elif args.dropout:
        dropped = F.dropout(weights, args.dropout)
    if args.edges is None:
        return args.layout.weighted_sum(dropped, args.v), weights
    return args.edges.weighted_sum(dropped, args.v, args.layout), weights


def _is_dot_product_softmax(args: AttendArguments) -> bool:
    """Whether the weights are the softmax, at temperature 1, of plain or scaled dot products."""
    return (
        (args.score is scaled_dot or args.score is dot)
        and isinstance(args.normalizer, Softmax)
        and type(args.normalizer) is Softmax  # a subclass may normalize in another way
        and args.normalizer.temperature == 1
    )


def _fused_unsupported_reason(args: AttendArguments) -> str:
    """Why torch's `scaled_dot_product_attention` does not support the arguments; empty if it does."""
    if args.edges is not None or args.dropout_mask is not None:
        return "edge features" if args.edges is not None else "a dropout mask"
    if not _is_dot_product_softmax(args):
        return "a score or normalizer other than the softmax of dot products"
    if not isinstance(args.layout, DenseLayout):
        return "a layout that is not dense"
    if min(args.q.dim(), args.k.dim(), args.v.dim()) < 2:
        return "a single query"
    if not torch.compiler.is_compiling() and is_transformed(args.q, args.k, args.v, args.layout.mask, args.bias):
        return "inside a torch.func transform"
    return ""


def _edge_kernel_unsupported_reason(args: AttendArguments) -> str:
    """The first requirement of the compiled and chunked kernels that is not met; empty if all are met."""
    if reason := tracing_reason(*_tensors(args)):
        return reason
    if args.score is not scaled_dot or not _is_dot_product_softmax(args):
        return "a score or normalizer other than the softmax of scaled dot products"
    if args.bias is not None or args.k.shape != args.v.shape:
        return "a bias" if args.bias is not None else "values and keys of different shapes"
    if is_autocast_enabled(args.q):
        return "inside autocast"
    return "" if has_concrete_values(args.q) else "tensors without data (fake, meta or traced)"


def _padded_graphs_unsupported_reason(args: AttendArguments) -> str:
    """Why the kernels for padded graphs do not support the arguments; empty if they do."""
    edges = args.edges
    if edges is None or edges.w_ke is None or edges.w_ve is None:
        return "no edge features in the keys and in the values"
    if not isinstance(args.layout, PaddedGraphLayout):
        return "a layout that is not of padded graphs"
    if args.q.shape != args.k.shape:
        return "queries and keys of different shapes"
    return _edge_kernel_unsupported_reason(args)


def _compiled_unsupported_reason(args: AttendArguments) -> str:
    """Why the C kernels, for padded graphs or edge lists, do not support the arguments; empty if one does."""
    if isinstance(args.layout, EdgeListLayout):
        reason = "" if args.q.dim() == 3 and args.q.shape[1] else "no heads"
        return (
            reason
            or _edge_kernel_unsupported_reason(args)
            or eager_unsupported_reason(*_tensors(args))
            or segments.LIBRARY.unavailable_reason()
        )
    reason = _padded_graphs_unsupported_reason(args) or eager_unsupported_reason(*_tensors(args))
    if not reason and args.edges is not None and not args.edges.e.shape[-1]:
        reason = "no edge features"
    return reason or edge_attention.LIBRARY.unavailable_reason()


def _tensors(args: AttendArguments) -> tuple[Tensor | None, ...]:
    """q, k, v, the edge features and their weights, and the dropout mask; None for those that are missing."""
    edges = (None,) * 4 if args.edges is None else (args.edges.e, args.edges.w_ke, args.edges.w_ve, args.edges.w_be)
    return args.q, args.k, args.v, *edges, args.dropout_mask


def _compiled(args: AttendArguments) -> Tensor:
    """The C kernel for padded graphs or edge lists."""
    layout, edges, mask = args.layout, args.edges, args.dropout_mask
    if not isinstance(layout, EdgeListLayout):
        return _padded_graphs(edge_attention.edge_attention, args)
    if mask is None and args.dropout:
        mask = draw_dropout_mask(args.q, (layout.receiver.shape[0], args.q.shape[1]), args.dropout)
    terms = (None,) * 4 if edges is None else (edges.e, edges.w_ke, edges.w_ve, edges.w_be)
    sender, receiver = layout.sender.long(), layout.receiver.long()
    return segments.segment_attention(args.q, args.k, args.v, sender, receiver, *terms, mask)[0]


def _padded_graphs(kernel: Callable[..., Tensor], args: AttendArguments) -> Tensor:
    """Run a kernel for padded graphs, which takes q, k and v as (b, n, h, d)."""
    edges, layout, mask = args.edges, args.layout, args.dropout_mask
    assert edges is not None and isinstance(layout, PaddedGraphLayout)
    if mask is None and args.dropout:
        b, h, n, _ = args.q.shape
        mask = draw_dropout_mask(args.q, (b, h, n, n), args.dropout)
    q, k, v = args.q, args.k, args.v
    if layout.mask is not None and not layout.padding_is_finite:
        q = layout.zero_queries_without_keys(q)
        k, v = _zero_rows(layout.attended_keys(), k, v)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    output = kernel(q, k, v, edges.e, edges.w_ke, edges.w_ve, edges.w_be, layout.node_mask, layout.edge_mask, mask)
    return output.transpose(1, 2)


def _fused(args: AttendArguments) -> Tensor:
    """torch's `scaled_dot_product_attention`, with zeros for queries without a valid key."""
    q, k, v, layout, bias, dropout = args.q, args.k, args.v, args.layout, args.bias, args.dropout
    assert isinstance(layout, DenseLayout)
    scale = None if args.score is scaled_dot else 1.0
    # The kernel needs masks and biases of at least two dimensions.
    if bias is not None and bias.dim() < 2:
        bias = torch.atleast_2d(bias)
    mask = layout.mask
    if mask is None:
        return _sdpa(q, k, v, bias, dropout, scale)
    if mask.dim() < 2:
        mask = torch.atleast_2d(mask)
    if not layout.padding_is_finite:
        k, v = _zero_rows(layout.attended_keys(), k, v)
    # Some kernels return NaN for a query without a valid key, in the output or the gradients. Such a query attends to
    # all keys instead (those that no query attends to are finite here), and its output is set to zero.
    has_valid_key = mask_any(mask, -1)
    no_valid_key = None if all_true(has_valid_key) else ~has_valid_key.unsqueeze(-1)
    if no_valid_key is not None:
        mask = mask_or(mask, no_valid_key)
        if not layout.padding_is_finite:
            q = q.masked_fill(no_valid_key, 0.0)
    if bias is not None:
        mask = bias.masked_fill(~mask, torch.finfo(bias.dtype).min)
    output = _sdpa(q, k, v, mask, dropout, scale)
    return output if no_valid_key is None else output.masked_fill(no_valid_key, 0.0)


def _zero_rows(used: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors, with zeros in the rows where `used` is False: a weight of zero times NaN would be NaN."""
    return tensors if all_true(used) else tuple(x.masked_fill(~used, 0.0) for x in tensors)


def _sdpa(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, scale: float | None) -> Tensor:
    """`scaled_dot_product_attention`, with second derivatives where possible; a scale of None is 1 / sqrt(d)."""
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale)
    # No second derivatives with dropout, because the kernel does not return its mask, nor inside torch.compile, which
    # supports first derivatives only.
    if dropout or not output.requires_grad or torch.compiler.is_compiling():
        return output
    return _DoubleBackward.apply(output, q, k, v, mask, scale)


class _DoubleBackward(torch.autograd.Function):
    """Second derivatives, which the fused kernels lack.

    Without `create_graph=True`, output and gradient pass unchanged between the kernel and its caller. With it, the
    gradients are those of torch's unfused (math) attention, which is differentiable twice, and the kernel gets none.
    """

    @staticmethod
    def forward(ctx, output: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None):  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(q, k, v, mask)
        ctx.scale = scale
        return output.detach()  # a view of the output could not be modified in place

    @staticmethod
    def backward(ctx, dy: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        if not torch.is_grad_enabled():
            return dy, None, None, None, None, None
        q, k, v, mask = ctx.saved_tensors
        with sdpa_kernel(SDPBackend.MATH):
            output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=ctx.scale)
        return None, *differentiable_gradients(output, (q, k, v, mask), ctx.needs_input_grad[1:5], dy), None


attention = Operation("attention")
attention.add("compiled", _compiled, _compiled_unsupported_reason)
attention.add("chunked", partial(_padded_graphs, chunked_edge_attention), _padded_graphs_unsupported_reason)
attention.add("fused", _fused, _fused_unsupported_reason)
attention.add("reference", lambda args: reference(args)[0])
