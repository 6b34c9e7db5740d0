"""A whole block of the default model by `block.c`: forward, and its gradient."""

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from molattn import compiled
from molattn.attention.elementwise import Dropping, dropping, new_key
from molattn.graph.compiled import Graphs, Task
from molattn.graph.compiled_attention import address, task_of

SOURCE = Path(__file__).with_name("block.c")
_LANES = 16


class _Weights(ctypes.Structure):
    """`Linear` of the C source: a matrix and what is added, and where their gradients go."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("w", "b", "d_w", "d_b"))


class _Norm(ctypes.Structure):
    """`Norm` of the C source."""

    _fields_ = (*_Weights._fields_, ("eps", ctypes.c_float))


class Step(ctypes.Structure):
    """`Step` of the C source."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "c", "hidden", "plain")),
        ("attention", Task),
        *((name, _Norm) for name in ("norm_v", "norm_x")),
        *((name, _Weights) for name in ("qkv", "o", "first", "last")),
        *((name, Dropping) for name in ("of_edges", "of_hidden", "of_nodes")),
        *((name, ctypes.c_void_p) for name in ("v", "out", "kept", "d_out", "d_v")),
    )


@dataclass(frozen=True)
class Dropouts:
    """The keys of a block's dropouts, in the order in which it draws them, and their probability; 0 for none."""

    p: float
    keys: tuple[int, ...] = (0, 0, 0, 0)

    @classmethod
    def drawn(cls, p: float, training: bool) -> "Dropouts":
        """As a block in training or outside of it draws them."""
        return cls(p, tuple(new_key() for _ in range(4))) if training and p > 0 else cls(0.0)


@cache
def library() -> ctypes.CDLL | None:
    """The built library, at the first call of a process; None where there is none to be had."""
    loaded = compiled.library(SOURCE)
    if loaded is not None:
        loaded.molattn_block_kept.argtypes = (ctypes.POINTER(Step),)
        loaded.molattn_block_kept.restype = ctypes.c_int64
        for name in ("molattn_block_forward", "molattn_block_backward"):
            getattr(loaded, name).argtypes = (ctypes.POINTER(Step), ctypes.c_int)
            getattr(loaded, name).restype = ctypes.c_int
    return loaded


def can_be_compiled(v: Tensor, e: Tensor, w_q: nn.Linear, first: nn.Linear) -> bool:
    """Whether `CompiledBlock` takes these: float32 on the CPU, whole vectors in a row, and a library to be had."""
    return (
        all(x.dtype == torch.float32 and x.device.type == "cpu" for x in (v, e, w_q.weight))
        and not (v.shape[-1] % _LANES or w_q.out_features % _LANES or first.out_features % _LANES)
        and e.shape[-1] > 0
        and library() is not None
    )


class CompiledBlock(torch.autograd.Function):
    """v' of v, (b, n, c), and e, (b, n, n, f): see `GraphNetBlock`.

    `counts` are the nodes of each graph, which stand first; None where there is no padding. `sizes` are the heads and
    the channels inside the feed-forward step, `eps` those of norm_v and norm_x. `weights` are norm_v's, w_q, w_k and w_v, w_ke, w_ve and w_be, w_jhl's, norm_x's, W_1's and W_2's, each matrix
    before what is added. Products are those of `torch.set_float32_matmul_precision`.
    """

    @staticmethod
    def forward(ctx, v, e, counts, edge_mask, sizes, eps, dropouts, *weights):  # pyright: ignore[reportIncompatibleMethodOverride]
        v, e = v.contiguous(), e.contiguous()
        weights = [None if weight is None else weight.contiguous() for weight in weights]
        ctx.qkv = torch.cat(weights[2:5])
        ctx.sizes, ctx.eps, ctx.dropouts = sizes, eps, dropouts
        ctx.masks = counts, None if edge_mask is None else edge_mask.contiguous().view(torch.uint8)
        out = torch.empty_like(v)
        step, alive = _step(ctx, v, e, weights)
        step.out = out.data_ptr()
        ctx.kept = None
        if any(ctx.needs_input_grad):
            ctx.kept = v.new_empty(_library().molattn_block_kept(ctypes.byref(step)))
            step.kept = ctx.kept.data_ptr()
        _call("molattn_block_forward", step)
        del alive
        ctx.save_for_backward(v, e, *weights)
        return out

    @staticmethod
    def backward(ctx, d_out):  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():
            raise RuntimeError("the gradient of a compiled block has none of its own: use its parts for that")
        v, e, *weights = ctx.saved_tensors
        d_out = d_out.contiguous()
        d_v, d_e = torch.empty_like(v), torch.empty_like(e) if ctx.needs_input_grad[1] else None
        step, alive = _step(ctx, v, e, weights, d_e)
        d_qkv = torch.empty_like(ctx.qkv)
        d_weights = [None if weight is None else torch.empty_like(weight) for weight in weights]
        step.kept, step.d_out, step.d_v, step.qkv.d_w = map(address, (ctx.kept, d_out, d_v, d_qkv))
        for at, w, b in _pairs(step, d_weights):
            at.d_w, at.d_b = w, b
        attention = step.attention
        attention.d_w_ke, attention.d_w_ve, attention.d_w_be = map(address, d_weights[5:8])
        _call("molattn_block_backward", step)
        del alive
        d_weights[2:5] = d_qkv.chunk(3)
        return d_v, d_e, *[None] * 5, *d_weights


def _step(
    ctx, v: Tensor, e: Tensor, weights: Sequence[Tensor], d_e: Tensor | None = None
) -> tuple[Step, tuple[ctypes.Array[Graphs], Dropping]]:
    """What the library reads, and what must outlive the call."""
    num_heads, hidden = ctx.sizes
    drops = [dropping(ctx.dropouts.p, key) for key in ctx.dropouts.keys]
    b, n, _ = v.shape
    counts, pairs = ctx.masks
    graphs = (Graphs * 1)(Graphs(count=b, n=n))
    graphs[0].sizes, graphs[0].allowed, graphs[0].e, graphs[0].d_e = map(address, (counts, pairs, e, d_e))
    w_ke, w_ve, w_be = weights[5:8]
    task = task_of((3, num_heads, len(w_ke) // num_heads), graphs, w_ke, w_ve, w_be)
    task.f = e.shape[-1]
    if ctx.dropouts.p:
        task.dropping = ctypes.addressof(drops[0])
    step = Step(
        rows=v.shape[0] * v.shape[1],
        c=v.shape[-1],
        hidden=hidden,
        plain=torch.get_float32_matmul_precision() == "highest",
        attention=task,
        of_edges=drops[1],
        of_hidden=drops[2],
        of_nodes=drops[3],
        v=v.data_ptr(),
    )
    step.qkv.w = ctx.qkv.data_ptr()
    for at, w, b in _pairs(step, weights):
        at.w, at.b = w, b
    step.norm_v.eps, step.norm_x.eps = ctx.eps
    return step, (graphs, drops[0])


def _pairs(step: Step, weights: Sequence[Tensor | None]) -> Iterator[tuple[ctypes.Structure, int | None, int | None]]:
    """Matrices, and what is added, beside where the library reads of them."""
    for at, first in ((step.norm_v, 0), (step.o, 8), (step.norm_x, 10), (step.first, 12), (step.last, 14)):
        yield at, address(weights[first]), address(weights[first + 1])


def _library() -> ctypes.CDLL:
    loaded = library()
    assert loaded is not None
    return loaded


def _call(name: str, step: Step) -> None:
    if getattr(_library(), name)(ctypes.byref(step), torch.get_num_threads()):
        raise MemoryError("no memory is left for a block")
