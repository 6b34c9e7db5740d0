"""Attention over dense graphs with edge features by `edge_attention.c`: forward, and its gradient."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from molattn.attention.arguments import check_argument
from molattn.graph.compiled import Graphs, Task, library
from molattn.graph.places import Place


def can_be_compiled(packed: Tensor, w_ke: Tensor, e: Tensor) -> bool:
    """Whether `CompiledEdgeAttention` takes these: float32 on the CPU, and a library that could be built."""
    kinds = {(x.dtype, x.device.type) for x in (packed, w_ke, e)}
    return kinds == {(torch.float32, "cpu")} and w_ke.shape[-1] > 0 and library() is not None


class CompiledEdgeAttention(torch.autograd.Function):
    """`edge_attention` of the graphs of a place, whose nodes are rows."""

    @staticmethod
    def forward(ctx, packed, w_ke, w_ve, w_be, place, kept, e):  # pyright: ignore[reportIncompatibleMethodOverride]
        packed, w_ke, w_ve, e = packed.contiguous(), w_ke.contiguous(), w_ve.contiguous(), e.contiguous()
        w_be, kept = (None if x is None else x.contiguous() for x in (w_be, kept))
        _check(packed, w_ke, w_ve, w_be, place, kept, e)
        output = torch.empty_like(packed[:, 0])
        graphs = _graphs(place, kept, e)
        task = task_of(packed.shape[1:], graphs, w_ke, w_ve, w_be)
        task.packed, task.output = packed.data_ptr(), output.data_ptr()
        _call("molattn_forward", task)
        ctx.save_for_backward(packed, w_ke, w_ve, w_be, e, kept)
        ctx.place = place
        return output

    @staticmethod
    def backward(ctx, dy):  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():
            raise RuntimeError("the gradient of edge_attention has none of its own: use plain_edge_attention for that")
        packed, w_ke, w_ve, w_be, e, kept = ctx.saved_tensors
        dy = dy.contiguous()
        d_e = torch.empty_like(e) if ctx.needs_input_grad[6] else None
        graphs = _graphs(ctx.place, kept, e, d_e)
        task = task_of(packed.shape[1:], graphs, w_ke, w_ve, w_be)
        d_packed, d_w_ke, d_w_ve = torch.empty_like(packed), torch.empty_like(w_ke), torch.empty_like(w_ve)
        d_w_be = torch.empty_like(w_be) if ctx.needs_input_grad[3] else None
        task.packed, task.dy, task.d_packed, task.d_w_ke, task.d_w_ve, task.d_w_be = map(
            address, (packed, dy, d_packed, d_w_ke, d_w_ve, d_w_be)
        )
        _call("molattn_backward", task)
        return d_packed, d_w_ke, d_w_ve, d_w_be, None, None, d_e


def _check(
    packed: Tensor,
    w_ke: Tensor,
    w_ve: Tensor,
    w_be: Tensor | None,
    place: Place,
    kept: Tensor | None,
    e: Tensor,
) -> None:
    """A ValueError for what the library would read beyond."""
    if packed.dim() != 4 or packed.shape[1] not in (3, 4) or not packed.shape[3]:
        raise ValueError(f"packed is (rows, 3 or 4, h, d), not {tuple(packed.shape)}")
    check_argument("packed", packed, packed.shape)
    h, d = packed.shape[2:]
    b, n = place.b, place.n
    if b < 0 or n < 0 or b * n != len(packed):
        raise ValueError(f"there are {len(packed)} rows for {b} graphs of {n} nodes, padding included")
    if place.sizes is not None:
        check_argument("the mask of nodes, summed,", place.sizes, (b,), torch.int64)
    if place.pairs is not None:
        check_argument("the mask of edges", place.pairs, (b, n, n), torch.uint8)
    if kept is not None:
        check_argument("kept", kept, (b, h, n, n))
    shape = (h, d, w_ke.shape[-1])
    check_argument("w_ke", w_ke, shape)
    check_argument("w_ve", w_ve, shape)
    if w_be is not None:
        check_argument("w_be", w_be, shape[::2])
    check_argument("e", e, (b, n, n, shape[2]))


def _graphs(place: Place, kept: Tensor | None, e: Tensor, d_e: Tensor | None = None) -> Graphs:
    """What the library reads of the graphs; the tensors must outlive the call."""
    graphs = Graphs(count=place.b, n=place.n)
    graphs.sizes, graphs.allowed = address(place.sizes), address(place.pairs)
    graphs.kept, graphs.e, graphs.d_e = map(address, (kept, e, d_e))
    return graphs


def task_of(
    shape: Sequence[int],
    graphs: Graphs,
    w_ke: Tensor | None = None,
    w_ve: Tensor | None = None,
    w_be: Tensor | None = None,
) -> Task:
    """What the library reads of h heads, d channels and so many parts of a row of packed; `shape` is that of a row."""
    parts, h, d = shape
    task = Task(h=h, d=d, parts=parts, scale=d**-0.5, graphs=ctypes.pointer(graphs))
    task.f = 0 if w_ke is None else w_ke.shape[-1]
    task.w_ke, task.w_ve, task.w_be = map(address, (w_ke, w_ve, w_be))
    return task


def address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def _call(name: str, task: Task) -> None:
    if getattr(library(), name)(ctypes.byref(task), torch.get_num_threads()):
        raise MemoryError("no memory is left for attention")
