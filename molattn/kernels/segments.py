"""Attention over edge lists by `segments.c`: forward, and its gradient.

    w_hk = softmax_k( q_hi . (k_hj + W_ke e_k) / sqrt(d) + w_be . e_k )        over the edges k from j into i
    o_hi = sum_k m_hk w_hk (v_hj + W_ve e_k)

with optional edge features e and an optional dropout mask m. Shapes: q (receivers, h, d),
k and v (senders, h, d), sender and receiver (edges,), e (edges, f), w_ke and w_ve (h, d, f), w_be (h, f), m (edges, h)
-> (receivers, h, d), and the weights before dropout, (edges, h); float32 on the CPU. It is the operation
`torch.ops.molattn.segment_attention`; double backward uses the reference.
"""

import ctypes
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from molattn.kernels.loader import Library
from molattn.kernels.operations import (
    FLOATS_PER_VECTOR,
    check_argument,
    data_pointer,
    differentiable_gradients,
    first_mismatch,
    isolated_state,
    register,
)


class SegmentTask(ctypes.Structure):
    """`SegmentTask` of the C source."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("receivers", "senders", "edges", "h", "d", "f", "q_stride", "k_stride")),
        ("scale", ctypes.c_float),
        *(
            (name, ctypes.c_void_p)
            for name in (
                *("q", "k", "v", "sender", "receiver", "e", "w_ke", "w_ve", "w_be", "dropout_mask"),
                *("weights", "output", "dy"),
                *("d_logits", "d_q", "d_k", "d_v", "d_e", "d_w_ke", "d_w_ve", "d_w_be"),
            )
        ),
    )


def _self_test() -> str:
    """How the library differs from the reference on two small graphs; empty if it agrees."""
    with isolated_state():
        receivers, senders, edges, h, d, f = 9, 11, 70, 2, 5, 3  # more edges into a node than a vector has lanes
        receiver = torch.randint(3, (edges,)) * torch.randint(4, (edges,))
        sender = torch.randint(senders, (edges,))
        dy, pairs = torch.randn(receivers, h, d), []
        for with_edges in (False, True):
            shapes = [(receivers, h, d), (senders, h, d), (senders, h, d)]
            shapes += [(edges, f), (h, d, f), (h, d, f), (h, f)] if with_edges else []
            inputs: Any = [torch.randn(shape, requires_grad=True) for shape in shapes]
            terms: Any = inputs[3:] if with_edges else [None] * 4
            rest: Any = (*inputs[:3], sender, receiver, *terms, (torch.rand(edges, h) < 0.8) / 0.8)
            ours, reference = segment_attention(*rest)[0], segment_attention_reference(*rest)
            found, expected = (torch.autograd.grad(y, inputs, dy) for y in (ours, reference))
            pairs.append(("attention", ours, reference))
            names = ("q", "k", "v", "e", "w_ke", "w_ve", "w_be")
            pairs += [(f"the gradient of {name}", *both) for name, *both in zip(names, found, expected, strict=False)]
        return first_mismatch(pairs)


_TYPES = (ctypes.POINTER(SegmentTask), ctypes.c_int), ctypes.c_int
LIBRARY = Library(
    "segments.c",
    {"molattn_segments_forward": _TYPES, "molattn_segments_backward": _TYPES},
    (SegmentTask,),
    _self_test,
)


def segment_attention_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sender: Tensor,
    receiver: Tensor,
    e: Tensor | None = None,
    w_ke: Tensor | None = None,
    w_ve: Tensor | None = None,
    w_be: Tensor | None = None,
    dropout_mask: Tensor | None = None,
) -> Tensor:
    """The reference implementation, by `molattn.attention.attend`."""
    from molattn.attention import EdgeListLayout, EdgeTerms, attend

    layout, edges = EdgeListLayout(sender, receiver, len(q)), None if e is None else EdgeTerms(e, w_ke, w_ve, w_be)
    # `return_weights` selects the reference, whatever backends are allowed.
    return attend(q, k, v, layout, edges=edges, dropout_mask=dropout_mask, return_weights=True)[0]


def _padded(x: Tensor | None, dim: int) -> Tensor | None:
    """`x` with its channels, dimension -1 or -2, padded with zeros to a multiple of the vector length."""
    if x is None or not (missing := -x.shape[dim] % FLOATS_PER_VECTOR):
        return x
    return F.pad(x, (0, missing) if dim == -1 else (0, 0, 0, missing))


def _with_contiguous_rows(x: Tensor) -> tuple[Tensor, int]:
    """`x`, (n, h, d), with contiguous rows (h, d), and the stride of the rows; copied only if necessary."""
    n, h, d = x.shape
    if x.stride(2) == 1 and (h == 1 or x.stride(1) == d) and n > 1:
        return x, x.stride(0)
    return x.contiguous(), h * d


def _prepare(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    sender: Tensor,
    receiver: Tensor,
    e: Tensor | None,
    w_ke: Tensor | None,
    w_ve: Tensor | None,
    w_be: Tensor | None,
    dropout_mask: Tensor | None,
) -> tuple[SegmentTask, tuple[Tensor | None, ...]]:
    """The arguments of the library, and the tensors to keep alive during the call.

    Raises:
        ValueError: a shape, dtype or device is wrong, so that the library would read out of bounds. It checks the
            indices in sender and receiver itself.
    """
    if q.dim() != 3 or not q.shape[2] or not q.shape[1]:
        raise ValueError(f"q is (receivers, h, d), not {tuple(q.shape)}")
    _, h, d = q.shape
    edges = len(receiver) if receiver.dim() else 0
    check_argument("q", q, q.shape)
    check_argument("k", k, (*k.shape[:1], h, d))
    check_argument("v", v, k.shape)
    check_argument("sender", sender, (edges,), torch.int64)
    check_argument("receiver", receiver, (edges,), torch.int64)
    f = 0 if e is None else e.shape[-1]
    if e is not None:
        check_argument("e", e, (edges, f))
    elif w_ke is not None or w_ve is not None or w_be is not None:
        raise ValueError("w_ke, w_ve and w_be need edge features, e")
    for name, x, shape in (
        ("w_ke", w_ke, (h, d, f)),
        ("w_ve", w_ve, (h, d, f)),
        ("w_be", w_be, (h, f)),
        ("dropout_mask", dropout_mask, (edges, h)),
    ):
        if x is not None:
            check_argument(name, x, shape)
    padded: Any = [_padded(x, -1) for x in (q, k, v)]
    (q, q_stride), (k, k_stride), (v, v_stride) = map(_with_contiguous_rows, padded)
    if v_stride != k_stride:
        k, v, k_stride = k.contiguous(), v.contiguous(), k.shape[1] * k.shape[2]
    others = (sender, receiver, e, _padded(w_ke, -2), _padded(w_ve, -2), w_be, dropout_mask)
    tensors = (q, k, v, *(None if x is None else x.contiguous() for x in others))
    task = SegmentTask(receivers=len(q), senders=len(k), edges=len(receiver), h=q.shape[1], d=q.shape[2], scale=d**-0.5)
    task.f, task.q_stride, task.k_stride = f, q_stride, k_stride
    task.q, task.k, task.v, task.sender, task.receiver, task.e, task.w_ke, task.w_ve, task.w_be, task.dropout_mask = (
        map(data_pointer, tensors)
    )
    return task, tensors


def _run(name: str, task: SegmentTask) -> None:
    failed = LIBRARY[name](ctypes.byref(task), torch.get_num_threads())
    if failed == 1:
        raise MemoryError("no memory is left for attention")
    if failed:
        raise IndexError(
            f"an edge refers to a node that does not exist: there are {task.senders} senders and {task.receivers} "
            "receivers"
        )


def _forward(*arguments: Any) -> tuple[Tensor, Tensor]:
    task, tensors = _prepare(*arguments)
    q = arguments[0]
    d = q.shape[2]
    # With the dtype and device of q, not the defaults.
    output, weights = q.new_empty(task.receivers, task.h, task.d), q.new_empty(task.edges, task.h)
    task.output, task.weights = output.data_ptr(), weights.data_ptr()
    _run("molattn_segments_forward", task)
    del tensors
    return output if task.d == d else output[..., :d].contiguous(), weights


def _backward(dy: Tensor, weights: Tensor, *arguments_and_flag: Any) -> tuple[Tensor, ...]:
    *arguments, e_needs_grad = arguments_and_flag
    q, k, _, _, _, e, w_ke, w_ve, w_be, _ = arguments
    d = q.shape[2]
    check_argument("the gradient of the output", dy, q.shape)
    check_argument("weights", weights, (len(arguments[4]), q.shape[1]))
    task, tensors = _prepare(*arguments)
    padded_dy: Any = _padded(dy, -1)
    dy, weights = padded_dy.contiguous(), weights.contiguous()
    h, f = task.h, task.f
    d_q, d_k, d_v = (q.new_empty(len(x), h, task.d) for x in (q, k, k))
    d_w_ke, d_w_ve = (q.new_zeros(0 if x is None else (h, task.d, f)) for x in (w_ke, w_ve))
    d_w_be, d_e = q.new_zeros(0 if w_be is None else (h, f)), q.new_empty((len(e), f) if e_needs_grad else 0)
    d_logits = q.new_empty(task.edges, h)
    task.dy, task.weights, task.d_logits, task.d_q, task.d_k, task.d_v = map(
        data_pointer, (dy, weights, d_logits, d_q, d_k, d_v)
    )
    task.d_e, task.d_w_ke, task.d_w_ve, task.d_w_be = (
        x.data_ptr() if x.numel() else None for x in (d_e, d_w_ke, d_w_ve, d_w_be)
    )
    _run("molattn_segments_backward", task)
    del tensors
    if task.d != d:
        d_q, d_k, d_v = (x[..., :d].contiguous() for x in (d_q, d_k, d_v))
        d_w_ke, d_w_ve = (x[:, :d].contiguous() if x.numel() else x for x in (d_w_ke, d_w_ve))
    return d_q, d_k, d_v, d_e, d_w_ke, d_w_ve, d_w_be


def _fake(q, k, v, sender, receiver, *_):  # noqa: ARG001
    return q.new_empty(q.shape), q.new_empty(receiver.shape[0], q.shape[1])


def _fake_backward(dy, weights, q, k, v, sender, receiver, e, w_ke, w_ve, w_be, dropout_mask, e_needs_grad):  # noqa: ARG001
    others = (e if e_needs_grad else None, w_ke, w_ve, w_be)
    return *(x.new_empty(x.shape) for x in (q, k, v)), *(q.new_empty(0 if x is None else x.shape) for x in others)


def _setup(ctx, inputs, output) -> None:
    ctx.save_for_backward(output[1], *inputs)
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx, dy: Tensor, _d_weights: Tensor | None):
    weights, *inputs = ctx.saved_tensors
    needed = ctx.needs_input_grad
    if torch.is_grad_enabled():
        return differentiable_gradients(segment_attention_reference(*inputs), inputs, needed, dy)
    d_q, d_k, d_v, *d_edge_terms = _segment_attention_backward(dy, weights, *inputs, needed[5])
    gradients = (d_q, d_k, d_v, None, None, *d_edge_terms, None)
    return tuple(x if need else None for x, need in zip(gradients, needed, strict=True))


_ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, Tensor sender, Tensor receiver, Tensor? e, Tensor? w_ke, Tensor? w_ve, "
    "Tensor? w_be, Tensor? dropout_mask"
)
_segment_attention_backward = register(
    "segment_attention_backward",
    f"(Tensor dy, Tensor weights, {_ARGUMENTS}, bool e_needs_grad) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _backward,
    _fake_backward,
)
segment_attention = register(
    "segment_attention", f"({_ARGUMENTS}) -> (Tensor, Tensor)", _forward, _fake, _setup, _gradient
)
