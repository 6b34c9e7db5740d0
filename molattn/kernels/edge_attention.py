"""Attention over padded graphs with edge features by `edge_attention.c`: forward, and its gradient.

    w_hij = softmax_j( q_hi . (k_hj + W_ke e_ij) / sqrt(d) + w_be . e_ij )
    o_hi  = sum_j m_hij w_hij (v_hj + W_ve e_ij)

with an optional dropout mask m. Shapes: q, k, v (b, n, h, d), e (b, n, n, f), with [b, i, j] for the edge from
sender j to receiver i, w_ke and w_ve (h, d, f), w_be (h, f), node_mask (b, n), edge_mask (b, n, n), m (b, h, n, n) ->
(b, n, h, d); float32 on the CPU. It is the operation `torch.ops.molattn.edge_attention`; double backward
uses the reference.
"""

import ctypes
from typing import Any

import torch
from torch import Tensor

from molattn.kernels.batch_layout import PaddedBatch
from molattn.kernels.loader import Library
from molattn.kernels.operations import (
    check_argument,
    data_pointer,
    differentiable_gradients,
    first_mismatch,
    isolated_state,
    register,
)

MAX_TABLES = 4
"""The maximum number of tables whose rows add up to the features of an edge."""


class Graphs(ctypes.Structure):
    """`Graphs` of the C source."""

    _fields_ = (
        ("count", ctypes.c_int64),
        ("n", ctypes.c_int64),
        ("sizes", ctypes.c_void_p),
        ("e", ctypes.c_void_p),
        ("allowed", ctypes.c_void_p),
        ("dropout_mask", ctypes.c_void_p),
        ("d_e", ctypes.c_void_p),
        ("edge_codes", ctypes.c_void_p * MAX_TABLES),
    )


class AttentionTask(ctypes.Structure):
    """`AttentionTask` of the C source."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("h", "d", "f")),
        ("scale", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in ("q", "k", "v")),
        ("stride", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("w_ke", "w_ve", "w_be")),
        ("graphs", ctypes.POINTER(Graphs)),
        *((name, ctypes.c_void_p) for name in ("output", "dy", "d_q", "d_k", "d_v")),
        ("d_stride", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("d_w_ke", "d_w_ve", "d_w_be")),
        ("dropout", ctypes.c_void_p),
        ("tables", ctypes.c_int64),
        ("num_rows", ctypes.c_int64 * MAX_TABLES),
        ("rows", ctypes.c_void_p * MAX_TABLES),
        ("d_rows", ctypes.c_void_p * MAX_TABLES),
        ("accumulate_d_e", ctypes.c_int64),
    )


def _self_test() -> str:
    """How the library differs from the reference on two molecules; empty if it agrees."""
    with isolated_state():
        b, n, h, d, f = 2, 19, 2, 5, 3  # more receivers than a vector has lanes
        mask = torch.arange(n) < torch.tensor([[n], [4]])
        edges = (torch.rand(b, n, n) < 0.7) & mask.unsqueeze(1) & mask.unsqueeze(2)
        dy = torch.randn(b, n, h, d).masked_fill(~mask[:, :, None, None], 0.0)
        pairs = []
        for masked in (False, True):
            shapes = (*[(b, n, h, d)] * 3, (b, n, n, f), (h, d, f), (h, d, f), (h, f))
            inputs: Any = [torch.randn(shape, requires_grad=True) for shape in shapes]
            dropout_mask = (torch.rand(b, h, n, n) < 0.8) / 0.8 if masked else None
            rest: Any = (mask, edges if masked else None, dropout_mask)
            ours, reference = (attend(*inputs, *rest) for attend in (edge_attention, edge_attention_reference))
            found, expected = (torch.autograd.grad(y, inputs, dy) for y in (ours, reference))
            pairs.append(("attention", ours[mask], reference[mask]))
            names = ("q", "k", "v", "e", "w_ke", "w_ve", "w_be")
            pairs += [(f"the gradient of {name}", *both) for name, *both in zip(names, found, expected, strict=True)]
        return first_mismatch(pairs)


_TYPES = (ctypes.POINTER(AttentionTask), ctypes.c_int), ctypes.c_int
LIBRARY = Library(
    "edge_attention.c",
    {"molattn_forward": _TYPES, "molattn_backward": _TYPES},
    (Graphs, AttentionTask),
    _self_test,
)


def edge_attention_reference(
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
    """The reference implementation, by `molattn.attention.attend`."""
    from molattn.attention import EdgeTerms, PaddedGraphLayout, attend

    layout, edges = PaddedGraphLayout(node_mask, edge_mask), EdgeTerms(e, w_ke, w_ve, w_be)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    # `return_weights` selects the reference, whatever backends are allowed. The context manager `backend` would apply
    # to all threads of the process.
    output, _ = attend(q, k, v, layout, edges=edges, dropout_mask=dropout_mask, return_weights=True)
    return output.transpose(1, 2)


def _row_stride(x: Tensor) -> int | None:
    """The stride of the b n rows of (b, n, h, d); None if rows are not contiguous or not equally spaced."""
    b, n, h, d = x.shape
    graph_stride, node_stride, head_stride, channel_stride = x.stride()
    if (d > 1 and channel_stride != 1) or (h > 1 and head_stride != d):
        return None
    if n > 1:
        return None if b > 1 and graph_stride != n * node_stride else node_stride
    return graph_stride if b > 1 else h * d


def _with_row_stride(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
    """q, k and v with a common row stride, and that stride; copied only if necessary."""
    strides = {_row_stride(x) for x in (q, k, v)}
    if len(strides) == 1 and (stride := strides.pop()) is not None:
        return q, k, v, stride
    return q.contiguous(), k.contiguous(), v.contiguous(), q.shape[2] * q.shape[3]


def _prepare(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    e: Tensor,
    w_ke: Tensor,
    w_ve: Tensor,
    w_be: Tensor | None,
    node_mask: Tensor | None,
    edge_mask: Tensor | None,
    dropout_mask: Tensor | None,
) -> tuple[AttentionTask, tuple[Tensor | None, ...]]:
    """The arguments of the library, and the tensors to keep alive during the call.

    Raises:
        ValueError: a shape, dtype or device is wrong, so that the library would read out of bounds.
    """
    if q.dim() != 4 or not q.shape[3]:
        raise ValueError(f"q is (b, n, h, d), not {tuple(q.shape)}")
    b, n, h, d = q.shape
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_argument(name, x, (b, n, h, d))
    shape = (h, d, w_ke.shape[-1])
    check_argument("w_ke", w_ke, shape)
    check_argument("w_ve", w_ve, shape)
    if w_be is not None:
        check_argument("w_be", w_be, shape[::2])
    check_argument("e", e, (b, n, n, shape[2]))
    if node_mask is not None:
        check_argument("node_mask", node_mask, (b, n), torch.bool)
    if edge_mask is not None:
        check_argument("edge_mask", edge_mask, (b, n, n), torch.bool)
    if dropout_mask is not None:
        check_argument("dropout_mask", dropout_mask, (b, h, n, n))
    batch = PaddedBatch.from_queries(q, node_mask, edge_mask)
    q, k, v, stride = _with_row_stride(q, k, v)
    others = tuple(None if x is None else x.contiguous() for x in (w_ke, w_ve, w_be, dropout_mask, e))
    graphs = Graphs(count=b, n=n)
    graphs.sizes, graphs.allowed, graphs.dropout_mask, graphs.e = map(
        data_pointer, (batch.sizes, batch.allowed_bytes, *others[3:])
    )
    task = AttentionTask(h=h, d=d, f=shape[2], scale=d**-0.5, graphs=ctypes.pointer(graphs), stride=stride)
    task.q, task.k, task.v, task.w_ke, task.w_ve, task.w_be = map(data_pointer, (q, k, v, *others[:3]))
    return task, (q, k, v, *others, batch.sizes, batch.allowed_bytes)


def _run(name: str, task: AttentionTask) -> None:
    if LIBRARY[name](ctypes.byref(task), torch.get_num_threads()):
        raise MemoryError("no memory is left for attention")


def _forward(*arguments: Any) -> Tensor:
    task, tensors = _prepare(*arguments)
    output = torch.empty(arguments[0].shape, dtype=torch.float32, device="cpu")
    task.output = output.data_ptr()
    _run("molattn_forward", task)
    del tensors
    return output


def _backward(dy: Tensor, *arguments_and_flag: Any) -> tuple[Tensor, ...]:
    *arguments, e_needs_grad = arguments_and_flag
    q, _, _, e, w_ke, w_ve, *_ = arguments
    check_argument("the gradient of the output", dy, q.shape)
    task, tensors = _prepare(*arguments)
    dy = dy.contiguous()
    # With the dtype and device of q, not the defaults.
    d_q, d_k, d_v = (q.new_empty(q.shape) for _ in range(3))
    task.d_stride = task.h * task.d
    d_w_ke, d_w_ve, d_w_be = (q.new_empty(x.shape) for x in (w_ke, w_ve, w_ke[:, 0]))
    d_e = q.new_empty(e.shape if e_needs_grad else (0,))
    task.dy, task.d_q, task.d_k, task.d_v, task.d_w_ke, task.d_w_ve, task.d_w_be = map(
        data_pointer, (dy, d_q, d_k, d_v, d_w_ke, d_w_ve, d_w_be)
    )
    if e_needs_grad:
        task.graphs.contents.d_e = d_e.data_ptr()
    _run("molattn_backward", task)
    del tensors
    return d_q, d_k, d_v, d_e, d_w_ke, d_w_ve, d_w_be


def _fake_backward(dy, q, k, v, e, w_ke, w_ve, w_be, node_mask, edge_mask, dropout_mask, e_needs_grad):  # noqa: ARG001
    d_e = e.new_empty(e.shape if e_needs_grad else (0,))
    return *(q.new_empty(q.shape) for _ in range(3)), d_e, *(x.new_empty(x.shape) for x in (w_ke, w_ve, w_ke[:, 0]))


def _setup(ctx, inputs, output) -> None:  # noqa: ARG001
    ctx.save_for_backward(*inputs)


def _gradient(ctx, dy: Tensor):
    inputs = ctx.saved_tensors
    if torch.is_grad_enabled():
        return differentiable_gradients(edge_attention_reference(*inputs), inputs, ctx.needs_input_grad, dy)
    *gradients, d_w_be = _edge_attention_backward(dy, *inputs, ctx.needs_input_grad[3])
    gradients += [d_w_be if inputs[6] is not None else None, None, None, None]
    return tuple(x if needed else None for x, needed in zip(gradients, ctx.needs_input_grad, strict=True))


_ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, Tensor e, Tensor w_ke, Tensor w_ve, Tensor? w_be, Tensor? node_mask, "
    "Tensor? edge_mask, Tensor? dropout_mask"
)
_edge_attention_backward = register(
    "edge_attention_backward",
    f"(Tensor dy, {_ARGUMENTS}, bool e_needs_grad) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _backward,
    _fake_backward,
)
edge_attention = register(
    "edge_attention", f"({_ARGUMENTS}) -> Tensor", _forward, lambda q, *_: q.new_empty(q.shape), _setup, _gradient
)
