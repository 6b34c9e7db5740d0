"""Blocks of the default model, one after another, by `blocks.c`: forward, and their gradient."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from molattn import compiled
from molattn.attention.agreement import first_difference, undisturbed
from molattn.attention.arguments import check_argument
from molattn.attention.elementwise import Dropping, dropping, new_key
from molattn.graph.compiled import TABLES, Graphs, Task
from molattn.graph.compiled_attention import address, task_of

SOURCE = Path(__file__).with_name("blocks.c")
_LANES = 16


class _Linear(ctypes.Structure):
    """`Linear` of the C source: a matrix and what is added, and where their gradients go."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in ("w", "b", "d_w", "d_b"))


class _Norm(ctypes.Structure):
    """`Norm` of the C source."""

    _fields_ = (*_Linear._fields_, ("eps", ctypes.c_float))


class _Layer(ctypes.Structure):
    """`Layer` of the C source."""

    _fields_ = (
        *((name, _Norm) for name in ("norm_v", "norm_x")),
        *((name, _Linear) for name in ("qkv", "o", "first", "last")),
        *((name, ctypes.c_void_p) for name in ("w_ke", "w_ve", "w_be", "d_w_ke", "d_w_ve", "d_w_be")),
        *((name, Dropping) for name in ("of_weights", "of_edges", "of_hidden", "of_nodes")),
    )


class _Stack(ctypes.Structure):
    """`Stack` of the C source."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "c", "hidden", "plain", "count")),
        ("attention", Task),
        ("layers", ctypes.POINTER(_Layer)),
        *((name, ctypes.c_void_p) for name in ("v", "out", "kept", "d_out", "d_v")),
    )


_BEYOND = "there is a graph with fewer than 0 or more nodes than it has places"


class BlockTensors(NamedTuple):
    """The weights of a block of c channels, h heads of w channels together and f channels of the edges."""

    norm_v_w: Tensor  # (c,)
    norm_v_b: Tensor  # (c,)
    w_q: Tensor  # (w, c)
    w_k: Tensor  # (w, c)
    w_v: Tensor  # (w, c)
    w_ke: Tensor  # (w, f)
    w_ve: Tensor  # (w, f)
    w_be: Tensor | None  # (h, f)
    o_w: Tensor  # (c, w)
    o_b: Tensor  # (c,)
    norm_x_w: Tensor  # (c,)
    norm_x_b: Tensor  # (c,)
    first_w: Tensor  # (hidden, c)
    first_b: Tensor  # (hidden,)
    last_w: Tensor  # (c, hidden)
    last_b: Tensor  # (c,)


@dataclass(frozen=True)
class BlockWeights:
    """What a block is made of.

    Attributes:
        num_heads: h.
        eps: of norm_v and norm_x.
        dropout: the probability of dropping, 0 outside of training.
        tensors: the weights.
    """

    num_heads: int
    eps: tuple[float, float]
    dropout: float
    tensors: BlockTensors

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Channels of a node, of all heads, inside the feed-forward step."""
        return len(self.tensors.norm_v_w), len(self.tensors.w_q), len(self.tensors.first_w)


@dataclass(frozen=True)
class Places:
    """Where the graphs of a batch have their nodes and edges.

    Attributes:
        counts: (b,) nodes of each graph; they stand before its padding.
        edge_mask: (b, n, n) True where there is an edge; None where every pair of nodes has one.
        codes: (b, n, n) bytes for each table of rows; none where edges have features of their own.
    """

    counts: Tensor
    edge_mask: Tensor | None
    codes: tuple[Tensor, ...] = ()


@cache
def library() -> ctypes.CDLL | None:
    """The built library, at the first call of a process; None where there is none to be had."""
    loaded = compiled.library(SOURCE, (_Linear, _Norm, _Layer, _Stack, Task, Graphs, Dropping), _disagreement)
    if loaded is not None:
        loaded.molattn_blocks_kept.argtypes = (ctypes.POINTER(_Stack),)
        loaded.molattn_blocks_kept.restype = ctypes.c_int64
        for name in ("molattn_blocks_forward", "molattn_blocks_backward"):
            getattr(loaded, name).argtypes = (ctypes.POINTER(_Stack), ctypes.c_int)
            getattr(loaded, name).restype = ctypes.c_int
    return loaded


def _disagreement() -> str:
    """Where the library differs from the blocks' own equations on two molecules; empty for nowhere."""
    from molattn.graph.block import GraphNetBlock  # whose operation this library is part of
    from molattn.graph.graph import DenseGraph

    with undisturbed():
        c, f, n = 32, 3, 19  # more receivers than a vector has lanes
        blocks = [GraphNetBlock(c, 2, f).eval() for _ in range(2)]
        weights = [block.weights(f) for block in blocks]
        mask = torch.arange(n) < torch.tensor([[n], [4]])
        probe = torch.randn(2, n, c).masked_fill(~mask.unsqueeze(-1), 0.0)
        edges = (torch.rand(2, n, n) < 0.7) & mask.unsqueeze(1) & mask.unsqueeze(2)
        codes = torch.randint(4, (2, n, n), dtype=torch.uint8)
        pairs = []
        for edge_mask, tables in ((None, ()), (edges, (codes,))):
            v = torch.randn(2, n, c, requires_grad=True)
            rows = torch.randn((4, f) if tables else (2, n, n, f), requires_grad=True)
            graph = DenseGraph(v, mask, rows[codes.long()] if tables else rows, edge_mask=edge_mask)
            listed: Any = graph
            for block in blocks:
                listed, _ = block.literal(listed)
            places = Places(mask.sum(1), edge_mask, tables)
            ours = compiled_blocks([x for x in weights if x is not None], v, [rows], places)
            learned = [v, rows, *(x for block in blocks for x in block.parameters())]
            found = torch.autograd.grad((ours * probe).sum(), learned)
            wanted = torch.autograd.grad((listed.v * probe[mask]).sum(), learned)
            names = ["v", "the edges", *(name for block in blocks for name, _ in block.named_parameters())]
            pairs.append(("a node", ours[mask], listed.v))
            pairs += [(f"the gradient of {name}", *both) for name, *both in zip(names, found, wanted, strict=True)]
        return first_difference(pairs)


def can_be_compiled(blocks: Sequence[BlockWeights], v: Tensor, edges: Sequence[Tensor]) -> bool:
    """Whether `compiled_blocks` takes these: float32 on the CPU, sizes of whole vectors, a library to be had."""
    sizes = {block.sizes for block in blocks}
    tensors = (v, *edges, *(x for block in blocks for x in block.tensors if x is not None))
    return (
        len(sizes) == len({block.num_heads for block in blocks}) == 1
        and not any(size % _LANES for size in sizes.pop())
        and all(x.dtype == torch.float32 and x.device.type == "cpu" for x in tensors)
        and 0 < len(edges) <= TABLES
        and edges[0].shape[-1] > 0
        and library() is not None
    )


def compiled_blocks(blocks: Sequence[BlockWeights], v: Tensor, edges: Sequence[Tensor], places: Places) -> Tensor:
    """The nodes v, (b, n, c), after some blocks: see `GraphNetBlock`; zeros in the padding.

    `edges` are e, (b, n, n, f), or where `places` has codes a table of rows for each of them, (codes, f): an edge is
    then the sum of its rows. Products have the precision that `torch.set_float32_matmul_precision` says: all of
    float32's for "highest"; for less, on processors with matrix units for bfloat16, 16 bits.

    Raises:
        IndexError: a code without a row, or a graph of more nodes than n.
        ValueError: tensors that are not what `BlockWeights`, `Places` and this say.
    """
    _check(blocks, v, edges, places)
    keys = [tuple(new_key() for _ in range(4)) if block.dropout else (0,) * 4 for block in blocks]
    tensors = (*edges, *(x for block in blocks for x in block.tensors))
    # `needs_input_grad` does not know whether gradients are asked for at all.
    keep = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (v, *tensors))
    return _CompiledBlocks.apply(v, tuple(blocks), keys, places, keep, len(edges), *tensors)


def _check(blocks: Sequence[BlockWeights], v: Tensor, edges: Sequence[Tensor], places: Places) -> None:
    """A ValueError for what the library would read beyond. What is in counts and codes it looks at itself."""
    if not blocks or not edges or v.dim() != 3:
        raise ValueError(f"there are {len(blocks)} blocks and {len(edges)} edges for nodes of {tuple(v.shape)}")
    b, n, c = v.shape
    h, (_, w, hidden), f = blocks[0].num_heads, blocks[0].sizes, edges[0].shape[-1]
    if h < 1 or w % h or f < 1 or any(size < 1 or size % _LANES for size in (c, w, hidden)):
        raise ValueError(f"{h} heads, {c}, {w} and {hidden} channels and {f} of the edges are not for compiled blocks")
    check_argument("v", v, v.shape)
    if not places.codes:
        check_argument("e", edges[0], (b, n, n, f))
    if len(edges) > TABLES or len(edges) != max(1, len(places.codes)):
        raise ValueError(f"there are {len(edges)} tables for {len(places.codes)} codes of edges, of {TABLES} at most")
    for rows, codes in zip(edges, places.codes, strict=False):
        check_argument("a table of edges", rows, (len(rows), f))
        check_argument("codes of edges", codes, (b, n, n), torch.uint8)
    check_argument("counts", places.counts, (b,), torch.int64)
    if places.edge_mask is not None:
        check_argument("edge_mask", places.edge_mask, (b, n, n), torch.bool)
    shapes = {
        **dict.fromkeys(("norm_v_w", "norm_v_b", "norm_x_w", "norm_x_b", "o_b", "last_b"), (c,)),
        **dict.fromkeys(("w_q", "w_k", "w_v"), (w, c)),
        **dict.fromkeys(("w_ke", "w_ve"), (w, f)),
        **{"w_be": (h, f), "o_w": (c, w), "first_w": (hidden, c), "first_b": (hidden,), "last_w": (c, hidden)},
    }
    for block in blocks:
        if block.num_heads != h or not 0 <= block.dropout < 1 or len(block.tensors) != len(shapes):
            raise ValueError("the blocks have other numbers of heads or of weights, or a dropout that is none")
        for name, x in zip(BlockTensors._fields, block.tensors, strict=True):
            if x is not None:
                check_argument(f"{name} of a block", x, shapes[name])
            elif name != "w_be":
                raise ValueError(f"{name} of a block is missing")


class _CompiledBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, v, blocks, keys, places, keep, num_edges, *tensors):  # pyright: ignore
        v = v.contiguous()
        edges = [x.contiguous() for x in tensors[:num_edges]]
        weights = [None if x is None else x.contiguous() for x in tensors[num_edges:]]
        call = _Call(v, blocks, keys, places, edges, weights)
        out = torch.empty_like(v)
        call.stack.out = out.data_ptr()
        kept = None
        if keep:
            kept = v.new_empty(call.count_kept())
            call.stack.kept = kept.data_ptr()
        call("molattn_blocks_forward")
        ctx.call, ctx.kept = call, kept
        ctx.save_for_backward(v, *edges, *weights)
        return out

    @staticmethod
    def backward(ctx, d_out):  # pyright: ignore[reportIncompatibleMethodOverride]
        if torch.is_grad_enabled():
            raise RuntimeError("the gradient of compiled blocks has none of its own: use their parts for that")
        ctx.saved_tensors  # noqa: B018  (raises where one was changed since, as autograd's own functions do)
        call, d_out = ctx.call, d_out.contiguous()
        d_v = torch.empty_like(call.v)
        d_edges, d_weights = call.make_gradients(ctx.needs_input_grad[6])
        call.stack.d_out, call.stack.d_v = d_out.data_ptr(), d_v.data_ptr()
        call("molattn_blocks_backward")
        return d_v, *[None] * 5, *d_edges, *d_weights


class _Call:
    """What the library reads and writes, and the tensors that it belongs to."""

    def __init__(
        self,
        v: Tensor,
        blocks: Sequence[BlockWeights],
        keys: Sequence[tuple[int, ...]],
        places: Places,
        edges: Sequence[Tensor],
        weights: Sequence[Tensor | None],
    ):
        self.v, self.edges = v, edges
        each = len(BlockTensors._fields)
        parts: Any = (weights[i : i + each] for i in range(0, len(weights), each))
        self.weights = [BlockTensors(*part) for part in parts]
        self.qkv = [torch.cat((of.w_q, of.w_k, of.w_v)) for of in self.weights]
        # The counts as they are now: what is kept for the gradient is as large as they say.
        self.masks = [None if places.edge_mask is None else places.edge_mask.contiguous(), places.counts.clone()]
        self.codes = [codes.contiguous() for codes in places.codes]
        b, n, c = v.shape
        _, width, hidden = blocks[0].sizes
        num_heads = blocks[0].num_heads
        self.graphs = Graphs(count=b, n=n)
        self.graphs.allowed, self.graphs.sizes = map(address, self.masks)
        task = task_of((3, num_heads, width // num_heads), self.graphs)
        task.f = edges[0].shape[-1]
        if self.codes:
            task.tables = len(edges)
            for i, (rows, codes) in enumerate(zip(edges, self.codes, strict=True)):
                task.num_rows[i], task.rows[i], self.graphs.edge_codes[i] = len(rows), *map(address, (rows, codes))
        else:
            self.graphs.e = address(edges[0])
        self.layers = (_Layer * len(blocks))()
        for layer, block, of, qkv, four in zip(self.layers, blocks, self.weights, self.qkv, keys, strict=True):
            for at, x, y in _pairs(layer, of):
                at.w, at.b = address(x), address(y)
            layer.qkv.w = address(qkv)
            layer.w_ke, layer.w_ve, layer.w_be = address(of.w_ke), address(of.w_ve), address(of.w_be)
            layer.norm_v.eps, layer.norm_x.eps = block.eps
            drops = (dropping(block.dropout, key) for key in four)
            layer.of_weights, layer.of_edges, layer.of_hidden, layer.of_nodes = drops
        self.stack = _Stack(
            rows=b * n,
            c=c,
            hidden=hidden,
            plain=torch.get_float32_matmul_precision() == "highest",
            count=len(blocks),
            attention=task,
            layers=self.layers,
            v=v.data_ptr(),
        )

    def count_kept(self) -> int:
        """How many numbers the gradient needs of the forward pass."""
        count = _library().molattn_blocks_kept(ctypes.byref(self.stack))
        if count < 0:
            raise IndexError(_BEYOND)
        return count

    def make_gradients(self, of_edges: bool) -> tuple[list[Tensor | None], list[Tensor | None]]:
        """Where the gradients of edges and weights go to."""
        tables = bool(self.codes)
        d_edges = [torch.empty_like(x) if of_edges or tables else None for x in self.edges]
        for i, d_rows in enumerate(d_edges if tables else ()):
            self.stack.attention.d_rows[i] = address(d_rows)
        if not tables:
            self.graphs.d_e = address(d_edges[0])
        d_weights: list[Tensor | None] = []
        self.gradients = []
        for layer, of, qkv in zip(self.layers, self.weights, self.qkv, strict=True):
            d_qkv = torch.empty_like(qkv)
            d_q, d_k, d_v = d_qkv.chunk(3)
            d = BlockTensors(*(None if x is None else torch.empty_like(x) for x in of))  # pyright: ignore
            d = d._replace(w_q=d_q, w_k=d_k, w_v=d_v)
            for at, x, y in _pairs(layer, d):
                at.d_w, at.d_b = address(x), address(y)
            layer.qkv.d_w = address(d_qkv)
            layer.d_w_ke, layer.d_w_ve, layer.d_w_be = address(d.w_ke), address(d.w_ve), address(d.w_be)
            d_weights += d
        return d_edges, d_weights

    def __call__(self, name: str) -> None:
        done = getattr(_library(), name)(ctypes.byref(self.stack), torch.get_num_threads())
        if done == 1:
            raise MemoryError("no memory is left for the blocks")
        if done:
            raise IndexError(_BEYOND if done == 3 else "there is an edge with a code that no row is for")


def _pairs(layer: _Layer, of: BlockTensors) -> tuple[tuple[ctypes.Structure, Tensor, Tensor], ...]:
    """Where the library reads of matrices and of what is added, with both."""
    return (
        (layer.norm_v, of.norm_v_w, of.norm_v_b),
        (layer.o, of.o_w, of.o_b),
        (layer.norm_x, of.norm_x_w, of.norm_x_b),
        (layer.first, of.first_w, of.first_b),
        (layer.last, of.last_w, of.last_b),
    )


def _library() -> ctypes.CDLL:
    loaded = library()
    assert loaded is not None
    return loaded
