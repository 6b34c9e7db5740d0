"""Attention over dense graphs with edge features by `edge_attention.c`: forward, and its gradient."""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from molattn.attention.arguments import check_argument
from molattn.graph.compiled import Graphs, Task, library
from molattn.graph.places import Place


def can_be_compiled(packed: Tensor, w_ke: Tensor, e: Sequence[Tensor]) -> bool:
    """Whether `CompiledEdgeAttention` takes these: float32 on the CPU, and a library that could be built."""
    kinds = {(x.dtype, x.device.type) for x in (packed, w_ke, *e)}
    return kinds == {(torch.float32, "cpu")} and w_ke.shape[-1] > 0 and library() is not None


class CompiledEdgeAttention(torch.autograd.Function):
    """`edge_attention` of the graphs of several places, each with its own edges."""

    @staticmethod
    def forward(ctx, packed, w_ke, w_ve, w_be, places, kept, *e):  # pyright: ignore[reportIncompatibleMethodOverride]
        packed, w_ke, w_ve = packed.contiguous(), w_ke.contiguous(), w_ve.contiguous()
        w_be = None if w_be is None else w_be.contiguous()
        e, kept = [x.contiguous() for x in e], [None if x is None else x.contiguous() for x in kept]
        _check_places(packed, places, kept)
        h, d = packed.shape[2:]
        shape = (h, d, w_ke.shape[-1])
        check_argument("w_ke", w_ke, shape)
        check_argument("w_ve", w_ve, shape)
        if w_be is not None:
            check_argument("w_be", w_be, shape[::2])
        for place, edges in zip(places, e, strict=True):
            check_argument("e", edges, (place.b, place.n, place.n, shape[2]))
        output = torch.empty_like(packed[:, 0])
        task = task_of(packed.shape[1:], _graphs(places, kept, e), w_ke, w_ve, w_be)
        task.packed, task.output = packed.data_ptr(), output.data_ptr()
        _call("molattn_forward", task)
        ctx.save_for_backward(packed, w_ke, w_ve, w_be, *e, *kept)
        ctx.places = places
        return output

    @staticmethod
    def backward(ctx, dy):  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():
            raise RuntimeError("the gradient of edge_attention has none of its own: use plain_edge_attention for that")
        packed, w_ke, w_ve, w_be, *saved = ctx.saved_tensors
        count = len(ctx.places)
        e, kept = saved[:count], saved[count:]
        dy = dy.contiguous()
        d_e = [torch.empty_like(x) if wanted else None for x, wanted in zip(e, ctx.needs_input_grad[6:], strict=True)]
        task = task_of(packed.shape[1:], _graphs(ctx.places, kept, e, d_e=d_e), w_ke, w_ve, w_be)
        d_packed, d_w_ke, d_w_ve = torch.empty_like(packed), torch.empty_like(w_ke), torch.empty_like(w_ve)
        d_w_be = torch.empty_like(w_be) if ctx.needs_input_grad[3] else None
        task.packed, task.dy, task.d_packed, task.d_w_ke, task.d_w_ve, task.d_w_be = map(
            address, (packed, dy, d_packed, d_w_ke, d_w_ve, d_w_be)
        )
        _call("molattn_backward", task)
        return d_packed, d_w_ke, d_w_ve, d_w_be, None, None, *d_e


class CompiledCodeAttention(torch.autograd.Function):
    """`code_attention` of the graphs of several places, each with its own codes."""

    @staticmethod
    def forward(ctx, packed, table, places, kept, *codes):  # pyright: ignore[reportIncompatibleMethodOverride]
        packed, table = packed.contiguous(), table.contiguous()
        codes, kept = [x.contiguous() for x in codes], [None if x is None else x.contiguous() for x in kept]
        _check_places(packed, places, kept)
        check_argument("the table of codes", table, (packed.shape[2], *table.shape[1:2]))
        for place, code in zip(places, codes, strict=True):
            check_argument("codes", code, (place.b, place.n, place.n), torch.uint8)
        output = torch.empty_like(packed[:, 0])
        task = task_of(packed.shape[1:], _graphs(places, kept, codes=codes), table=table)
        task.packed, task.output = packed.data_ptr(), output.data_ptr()
        _call("molattn_forward", task)
        ctx.save_for_backward(packed, table, *codes, *kept)
        ctx.places = places
        return output

    @staticmethod
    def backward(ctx, dy):  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():
            raise RuntimeError("the gradient of code_attention has none of its own: use plain_code_attention for that")
        packed, table, *saved = ctx.saved_tensors
        count = len(ctx.places)
        codes, kept = saved[:count], saved[count:]
        dy = dy.contiguous()
        task = task_of(packed.shape[1:], _graphs(ctx.places, kept, codes=codes), table=table)
        d_packed, d_table = torch.empty_like(packed), torch.empty_like(table)
        task.packed, task.dy, task.d_packed, task.d_table = map(address, (packed, dy, d_packed, d_table))
        _call("molattn_backward", task)
        return d_packed, d_table, None, None, *(None for _ in codes)


def _check_places(packed: Tensor, places: Sequence[Place], kept: Sequence[Tensor | None]) -> None:
    """That every place is where the rows are that it says, its masks and dropout of its size: else a ValueError."""
    if packed.dim() != 4 or packed.shape[1] not in (3, 4) or not packed.shape[3]:
        raise ValueError(f"packed is (rows, 3 or 4, h, d), not {tuple(packed.shape)}")
    check_argument("packed", packed, packed.shape)
    rows = 0
    for place, dropped in zip(places, kept, strict=True):
        b, n = place.b, place.n
        if place.start != rows or b < 0 or n < 0:
            raise ValueError(f"{b} graphs of {n} nodes begin at row {place.start}, where those before end at {rows}")
        rows += b * n
        if place.sizes is not None:
            check_argument("the mask of nodes, summed,", place.sizes, (b,), torch.int64)
        if place.pairs is not None:
            check_argument("the mask of edges", place.pairs, (b, n, n), torch.uint8)
        if dropped is not None:
            check_argument("kept", dropped, (b, packed.shape[2], n, n))
    if rows != len(packed):
        raise ValueError(f"there are {len(packed)} rows for graphs of {rows} nodes, padding included")


def _graphs(
    places: Sequence[Place],
    kept: Sequence[Tensor | None],
    e: Sequence[Tensor] | None = None,
    codes: Sequence[Tensor] | None = None,
    d_e: Sequence[Tensor | None] | None = None,
) -> ctypes.Array[Graphs]:
    """What the library reads of every place; the tensors must outlive the call."""
    graphs = (Graphs * len(places))()
    nothing = [None] * len(places)
    for to, place, *tensors in zip(graphs, places, kept, e or nothing, codes or nothing, d_e or nothing, strict=True):
        to.start, to.count, to.n = place.start, place.b, place.n
        to.sizes, to.allowed = address(place.sizes), address(place.pairs)
        to.kept, to.e, to.codes, to.d_e = map(address, tensors)
    return graphs


def task_of(
    shape: Sequence[int],
    graphs: ctypes.Array[Graphs],
    w_ke: Tensor | None = None,
    w_ve: Tensor | None = None,
    w_be: Tensor | None = None,
    table: Tensor | None = None,
) -> Task:
    """What the library reads of h heads, d channels and so many parts of a row of packed; `shape` is that of a row."""
    parts, h, d = shape
    task = Task(h=h, d=d, parts=parts, count=len(graphs), scale=d**-0.5)
    task.f = 0 if w_ke is None else w_ke.shape[-1]
    task.num_codes = 0 if table is None else table.shape[-1]
    task.w_ke, task.w_ve, task.w_be, task.table = map(address, (w_ke, w_ve, w_be, table))
    task.graphs = graphs
    return task


def address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()


def _call(name: str, task: Task) -> None:
    if getattr(library(), name)(ctypes.byref(task), torch.get_num_threads()):
        raise MemoryError("no memory is left for attention")
