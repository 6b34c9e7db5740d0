"""Blocks of the default model, one after another, by `blocks.c`: forward, and their gradient.

    x  = v + m_1 (W_o attention(norm_v(v)) + b_o)                            `edge_attention`, with a mask m_0
    v' = x + m_3 (W_last (m_2 gelu(W_first norm_x(x) + b_first)) + b_last)   in each block

with dropout masks m. It is the operation `torch.ops.molattn.blocks`; its gradient has one where it is asked for, that
of `blocks_reference`.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from molattn.kernels import loader
from molattn.kernels.agreement import first_difference, undisturbed
from molattn.kernels.edge_attention import TABLES, Graphs, Task, edge_attention_reference
from molattn.kernels.elementwise import Dropping, dropout_mask, dropping, new_key
from molattn.kernels.registration import register
from molattn.kernels.tensor_checks import check_argument, data_pointer, eager_unsupported_reason

SOURCE = loader.SOURCE_FOLDER / "blocks.c"
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
class EdgeLayout:
    """Which nodes and edges the graphs of a batch have.

    Attributes:
        counts: (b,) nodes of each graph; they stand before its padding.
        edge_mask: (b, n, n) True where there is an edge; None where every pair of nodes has one.
        codes: (b, n, n) bytes for each table of rows; none where edges have features of their own.
    """

    counts: Tensor
    edge_mask: Tensor | None
    codes: tuple[Tensor, ...] = ()


@cache
def load_library() -> ctypes.CDLL | None:
    """The built library, at the first call of a process; None where there is none to be had."""
    loaded = loader.load_library(SOURCE, (_Linear, _Norm, _Layer, _Stack, Task, Graphs, Dropping), _disagreement)
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
        weights = [block.fused_weights() for block in blocks]
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
            layout = EdgeLayout(mask.sum(1), edge_mask, tables)
            ours = compiled_blocks(weights, v, [rows], layout)
            learned = [v, rows, *(x for block in blocks for x in block.parameters())]
            found = torch.autograd.grad((ours * probe).sum(), learned)
            wanted = torch.autograd.grad((listed.v * probe[mask]).sum(), learned)
            names = ["v", "the edges", *(name for block in blocks for name, _ in block.named_parameters())]
            pairs.append(("a node", ours[mask], listed.v))
            pairs += [(f"the gradient of {name}", *both) for name, *both in zip(names, found, wanted, strict=True)]
        return first_difference(pairs)


def unavailable_reason() -> str:
    """Why there is no library, in words; empty where there is one."""
    return "" if load_library() is not None else loader.unavailable_reason(SOURCE)


def blocks_unsupported_reason(blocks: Sequence[BlockWeights], v: Tensor, edges: Sequence[Tensor]) -> str:
    """Why `compiled_blocks` does not take these, in words: float32 on the CPU, sizes of whole vectors, a library."""
    sizes = {block.sizes for block in blocks}
    tensors = (v, *edges, *(x for block in blocks for x in block.tensors if x is not None))
    if len(sizes) != 1 or len({(block.num_heads, block.dropout) for block in blocks}) != 1:
        return "blocks of different sizes or dropouts"
    if any(size % _LANES for size in sizes.pop()):
        return f"channels that are no multiples of {_LANES}"
    if not 0 < len(edges) <= TABLES or edges[0].shape[-1] == 0:
        return "no edge features"
    return eager_unsupported_reason(*tensors) or unavailable_reason()


def compiled_blocks(blocks: Sequence[BlockWeights], v: Tensor, edges: Sequence[Tensor], layout: EdgeLayout) -> Tensor:
    """The nodes v, (b, n, c), after some blocks: see `GraphNetBlock`; zeros in the padding.

    `edges` are e, (b, n, n, f), or where the layout has codes a table of rows for each of them, (codes, f): an edge is
    then the sum of its rows. Products have the precision that `torch.set_float32_matmul_precision` says: all of
    float32's for "highest"; for less, on processors with matrix units for bfloat16, 16 bits.

    Raises:
        IndexError: a code without a row, or a graph of more nodes than n.
        ValueError: tensors that are not what `BlockWeights`, `EdgeLayout` and this say.
    """
    if not blocks:
        raise ValueError("there are no blocks")
    first, count = blocks[0], len(BlockTensors._fields)
    for block in blocks:
        if (block.num_heads, block.dropout) != (first.num_heads, first.dropout) or len(block.tensors) != count:
            raise ValueError("the blocks have other numbers of heads or of weights, or another dropout")
        for name, x in zip(BlockTensors._fields, block.tensors, strict=True):
            if x is None and name != "w_be":
                raise ValueError(f"{name} of a block is missing")
    weights = [v.new_empty(0) if x is None else x for block in blocks for x in block.tensors]
    keys = [new_key() if first.dropout else 0 for _ in range(4 * len(blocks))]
    eps = [eps for block in blocks for eps in block.eps]
    rest = (layout.counts, layout.edge_mask, list(layout.codes), first.num_heads, eps, first.dropout, keys)
    # An operation does not know whether gradients are asked for.
    save = torch.is_grad_enabled() and any(x.requires_grad for x in (v, *edges, *weights))
    return _Blocks.apply(rest, save, len(edges), v, *edges, *weights)


def blocks_reference(
    v: Tensor,
    edges: Sequence[Tensor],
    weights: Sequence[Tensor],
    counts: Tensor,
    edge_mask: Tensor | None,
    codes: Sequence[Tensor],
    num_heads: int,
    eps: Sequence[float],
    p: float,
    keys: Sequence[int],
) -> Tensor:
    """The same by the attention core and torch's functions."""
    b, n, c = v.shape
    e: Any = sum(rows[of.long()] for rows, of in zip(edges, codes, strict=True)) if codes else edges[0]
    node_mask = torch.arange(n, device=v.device) < counts.unsqueeze(-1)
    padding = ~node_mask.unsqueeze(-1)

    def mask(key: int, *shape: int) -> Tensor | float:
        return dropout_mask(shape, p, key) if p else 1.0

    for i, of in enumerate(_by_block(weights)):
        of_weights, of_edges, of_hidden, of_nodes = keys[4 * i : 4 * i + 4]
        x = F.layer_norm(v, (c,), of.norm_v_w, of.norm_v_b, eps[2 * i]).masked_fill(padding, 0.0)
        q, k, values = ((x @ w.T).unflatten(-1, (num_heads, -1)) for w in (of.w_q, of.w_k, of.w_v))
        w_ke, w_ve = (w.unflatten(0, (num_heads, -1)) for w in (of.w_ke, of.w_ve))
        w_be = of.w_be if of.w_be is not None and of.w_be.numel() else None
        dropped = dropout_mask((b, num_heads, n, n), p, of_weights) if p else None
        o = edge_attention_reference(q, k, values, e, w_ke, w_ve, w_be, node_mask, edge_mask, dropped).flatten(-2)
        x = v + mask(of_edges, b, n, c) * F.linear(o, of.o_w, of.o_b)
        y = F.gelu(F.linear(F.layer_norm(x, (c,), of.norm_x_w, of.norm_x_b, eps[2 * i + 1]), of.first_w, of.first_b))
        v = x + mask(of_nodes, b, n, c) * F.linear(mask(of_hidden, *y.shape) * y, of.last_w, of.last_b)
    return v.masked_fill(padding, 0.0)


def _by_block(weights: Sequence[Tensor]) -> list[BlockTensors]:
    each = len(BlockTensors._fields)
    return [BlockTensors(*weights[i : i + each]) for i in range(0, len(weights), each)]


def _check(
    v: Tensor,
    edges: Sequence[Tensor],
    weights: Sequence[Tensor],
    counts: Tensor,
    edge_mask: Tensor | None,
    codes: Sequence[Tensor],
    num_heads: int,
    eps: Sequence[float],
    p: float,
    keys: Sequence[int],
) -> None:
    """A ValueError for what the library would read beyond. What is in counts and codes it looks at itself."""
    each, h = len(BlockTensors._fields), num_heads
    if not weights or len(weights) % each or not edges or v.dim() != 3:
        raise ValueError(f"there are {len(weights)} weights and {len(edges)} edges for nodes of {tuple(v.shape)}")
    blocks = _by_block(weights)
    if len(eps) != 2 * len(blocks) or len(keys) != 4 * len(blocks) or not 0 <= p < 1:
        raise ValueError(f"{len(eps)} eps, {len(keys)} keys and a dropout of {p} are not for {len(blocks)} blocks")
    b, n, c = v.shape
    w, hidden, f = blocks[0].w_q.shape[0], blocks[0].first_w.shape[0], edges[0].shape[-1]
    if h < 1 or w % h or f < 1 or any(size < 1 or size % _LANES for size in (c, w, hidden)):
        raise ValueError(f"{h} heads, {c}, {w} and {hidden} channels and {f} of the edges are not for compiled blocks")
    check_argument("v", v, v.shape)
    if not codes:
        check_argument("e", edges[0], (b, n, n, f))
    if len(edges) > TABLES or len(edges) != max(1, len(codes)):
        raise ValueError(f"there are {len(edges)} tables for {len(codes)} codes of edges, of {TABLES} at most")
    for rows, of in zip(edges, codes, strict=False):
        check_argument("a table of edges", rows, (len(rows), f))
        check_argument("codes of edges", of, (b, n, n), torch.uint8)
    check_argument("counts", counts, (b,), torch.int64)
    if edge_mask is not None:
        check_argument("edge_mask", edge_mask, (b, n, n), torch.bool)
    shapes = {
        **dict.fromkeys(("norm_v_w", "norm_v_b", "norm_x_w", "norm_x_b", "o_b", "last_b"), (c,)),
        **dict.fromkeys(("w_q", "w_k", "w_v"), (w, c)),
        **dict.fromkeys(("w_ke", "w_ve"), (w, f)),
        **{"w_be": (h, f), "o_w": (c, w), "first_w": (hidden, c), "first_b": (hidden,), "last_w": (c, hidden)},
    }
    for block in blocks:
        x: Any
        for name, x in zip(BlockTensors._fields, block, strict=True):
            if name != "w_be" or _or_none(x) is not None:
                check_argument(f"{name} of a block", x, shapes[name])


class _Prepared:
    """What the library reads and writes, and the tensors that it belongs to."""

    def __init__(
        self,
        v: Tensor,
        edges: Sequence[Tensor],
        weights: Sequence[Tensor],
        counts: Tensor,
        edge_mask: Tensor | None,
        codes: Sequence[Tensor],
        num_heads: int,
        eps: Sequence[float],
        p: float,
        keys: Sequence[int],
    ):
        _check(v, edges, weights, counts, edge_mask, codes, num_heads, eps, p, keys)
        self.v, self.edges = v.contiguous(), [x.contiguous() for x in edges]
        self.weights = _by_block([x.contiguous() for x in weights])
        self.qkv = [torch.cat((of.w_q, of.w_k, of.w_v)) for of in self.weights]
        # The counts as they are now: what is kept for the gradient is as large as they say.
        self.masks = [None if edge_mask is None else edge_mask.contiguous(), counts.clone()]
        self.codes = [of.contiguous() for of in codes]
        b, n, c = v.shape
        of = self.weights[0]
        width, hidden = len(of.w_q), len(of.first_w)
        self.graphs = Graphs(count=b, n=n)
        self.graphs.allowed, self.graphs.sizes = map(data_pointer, self.masks)
        d = width // num_heads
        task = Task(h=num_heads, d=d, f=edges[0].shape[-1], scale=d**-0.5, graphs=ctypes.pointer(self.graphs))
        if self.codes:
            task.tables = len(edges)
            for i, (rows, of_edges) in enumerate(zip(self.edges, self.codes, strict=True)):
                task.num_rows[i], task.rows[i], self.graphs.edge_codes[i] = (
                    len(rows),
                    *map(data_pointer, (rows, of_edges)),
                )
        else:
            self.graphs.e = data_pointer(self.edges[0])
        self.layers = (_Layer * len(self.weights))()
        for i, (layer, of, qkv) in enumerate(zip(self.layers, self.weights, self.qkv, strict=True)):
            for at, x, y in _pairs(layer, of):
                at.w, at.b = data_pointer(x), data_pointer(y)
            layer.qkv.w = data_pointer(qkv)
            layer.w_ke, layer.w_ve, layer.w_be = map(data_pointer, (of.w_ke, of.w_ve, _or_none(of.w_be)))
            layer.norm_v.eps, layer.norm_x.eps = eps[2 * i : 2 * i + 2]
            drops = (dropping(p, key) for key in keys[4 * i : 4 * i + 4])
            layer.of_weights, layer.of_edges, layer.of_hidden, layer.of_nodes = drops
        self.stack = _Stack(
            rows=b * n,
            c=c,
            hidden=hidden,
            plain=torch.get_float32_matmul_precision() == "highest",
            count=len(self.weights),
            attention=task,
            layers=self.layers,
            v=self.v.data_ptr(),
        )

    def count_saved(self) -> int:
        """How many numbers the gradient needs of the forward pass."""
        count = _loaded_library().molattn_blocks_kept(ctypes.byref(self.stack))
        if count < 0:
            raise IndexError(_BEYOND)
        return count

    def make_gradients(self, of_edges: bool) -> tuple[list[Tensor], list[Tensor]]:
        """Where the gradients of edges and weights go to."""
        tables = bool(self.codes)
        d_edges = [torch.empty_like(x) if of_edges or tables else x.new_empty(0) for x in self.edges]
        for i, d_rows in enumerate(d_edges if tables else ()):
            self.stack.attention.d_rows[i] = data_pointer(d_rows)
        if of_edges and not tables:
            self.graphs.d_e = data_pointer(d_edges[0])
        d_weights: list[Tensor] = []
        self.d_qkv = [torch.empty_like(qkv) for qkv in self.qkv]
        for layer, of, d_qkv in zip(self.layers, self.weights, self.d_qkv, strict=True):
            d = BlockTensors(*(torch.empty_like(x) for x in of if x is not None))
            for at, x, y in _pairs(layer, d):
                at.d_w, at.d_b = data_pointer(x), data_pointer(y)
            layer.qkv.d_w = data_pointer(d_qkv)
            layer.d_w_ke, layer.d_w_ve, layer.d_w_be = map(data_pointer, (d.w_ke, d.w_ve, _or_none(d.w_be)))
            d_weights += d  # pyright: ignore[reportOperatorIssue]
        return d_edges, d_weights

    def split_qkv(self, d_weights: list[Tensor]) -> None:
        """The gradients of W_q, W_k and W_v, which the library has written side by side, to where they belong."""
        for d, d_qkv in zip(_by_block(d_weights), self.d_qkv, strict=True):
            for to, x in zip((d.w_q, d.w_k, d.w_v), d_qkv.chunk(3), strict=True):
                to.copy_(x)

    def forward(self, save: bool) -> tuple[Tensor, Tensor]:
        """The nodes, and what the gradient needs of the way there."""
        out = torch.empty_like(self.v)
        saved = self.v.new_empty(self.count_saved() if save else 0)
        self.stack.out, self.stack.kept = out.data_ptr(), data_pointer(saved) if save else None
        self.run("molattn_blocks_forward")
        return out, saved

    def backward(self, d_out: Tensor, saved: Tensor, of_edges: bool) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The gradients of the nodes, of the edges and of the weights."""
        check_argument("the gradient of the nodes", d_out, self.v.shape)
        check_argument("what is kept of the forward pass", saved, (self.count_saved(),))
        d_out = d_out.contiguous()
        d_v = torch.empty_like(self.v)
        d_edges, d_weights = self.make_gradients(of_edges)
        self.stack.kept, self.stack.d_out, self.stack.d_v = map(data_pointer, (saved, d_out, d_v))
        self.run("molattn_blocks_backward")
        self.split_qkv(d_weights)
        return d_v, d_edges, d_weights

    def run(self, name: str) -> None:
        done = getattr(_loaded_library(), name)(ctypes.byref(self.stack), torch.get_num_threads())
        if done == 1:
            raise MemoryError("no memory is left for the blocks")
        if done:
            raise IndexError(_BEYOND if done == 3 else "there is an edge with a code that no row is for")


class _Blocks(torch.autograd.Function):
    """The operation with its gradient, as `torch.ops.molattn.blocks` has it.

    What torch does to lists of so many tensors on their way through an operation takes as long as three molecules.
    """

    @staticmethod
    def forward(ctx, rest, save, num_edges, v, *tensors):  # pyright: ignore[reportIncompatibleMethodOverride]
        call = _Prepared(v, tensors[:num_edges], tensors[num_edges:], *rest)
        out, ctx.saved = call.forward(save)
        ctx.call, ctx.rest, ctx.num_edges = call, rest, num_edges
        counts, edge_mask, codes, *_ = rest
        ctx.save_for_backward(v, *tensors, counts, edge_mask, *codes)
        return out

    @staticmethod
    def backward(ctx, d_out):  # pyright: ignore[reportIncompatibleMethodOverride]
        needed = ctx.needs_input_grad[3:]
        v, *tensors = ctx.saved_tensors[: len(needed)]  # raises where one was changed since
        if torch.is_grad_enabled():
            # A gradient of the gradient may be asked for: that of the reference, which has one.
            out = blocks_reference(v, tensors[: ctx.num_edges], tensors[ctx.num_edges :], *ctx.rest)
            wanted = [x for x, of in zip((v, *tensors), needed, strict=True) if of]
            found = iter(torch.autograd.grad(out, wanted, d_out, create_graph=True))
            return None, None, None, *(next(found) if of else None for of in needed)
        d_v, d_edges, d_weights = ctx.call.backward(d_out, ctx.saved, any(needed[1 : 1 + ctx.num_edges]))
        gradients = (d_v, *d_edges, *d_weights)
        return None, None, None, *(d if of else None for d, of in zip(gradients, needed, strict=True))


def _or_none(x: Tensor | None) -> Tensor | None:
    """None for a tensor of nothing, which stands for one that is missing."""
    return x if x is not None and x.numel() else None


def _pairs(layer: _Layer, of: BlockTensors) -> tuple[tuple[ctypes.Structure, Tensor, Tensor], ...]:
    """Where the library reads of matrices and of what is added, with both."""
    return (
        (layer.norm_v, of.norm_v_w, of.norm_v_b),
        (layer.o, of.o_w, of.o_b),
        (layer.norm_x, of.norm_x_w, of.norm_x_b),
        (layer.first, of.first_w, of.first_b),
        (layer.last, of.last_w, of.last_b),
    )


def _loaded_library() -> ctypes.CDLL:
    loaded = load_library()
    assert loaded is not None
    return loaded


def _forward(*given: Any) -> tuple[Tensor, Tensor]:
    *arguments, save = given
    return _Prepared(*arguments).forward(save)


def _backward(d_out: Tensor, saved: Tensor, *given: Any) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    *arguments, of_edges = given
    return _Prepared(*arguments).backward(d_out, saved, of_edges)


_ARGUMENTS = (
    "Tensor v, Tensor[] edges, Tensor[] weights, Tensor counts, Tensor? edge_mask, Tensor[] codes, int num_heads, "
    "float[] eps, float p, int[] keys"
)


def _fake_forward(v, *arguments):
    # How much is kept depends on how many nodes the graphs have.
    size = torch.library.get_ctx().new_dynamic_size() if arguments[-1] else 0
    return v.new_empty(v.shape), v.new_empty(size)


def _fake_backward(d_out, saved, v, edges, weights, counts, edge_mask, codes, *rest):  # noqa: ARG001
    d_edges = [x.new_empty(x.shape if rest[-1] or codes else 0) for x in edges]
    return v.new_empty(v.shape), d_edges, [x.new_empty(x.shape) for x in weights]


def _setup(ctx, inputs, output) -> None:
    v, edges, weights, counts, edge_mask, codes, *numbers, _save = inputs
    ctx.numbers, ctx.lengths = numbers, (len(edges), len(weights))
    ctx.save_for_backward(output[1], v, counts, edge_mask, *edges, *weights, *codes)
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx, d_out: Tensor, _d_saved: Tensor | None):
    saved, v, counts, edge_mask, *tensors = ctx.saved_tensors
    num_edges, num_weights = ctx.lengths
    edges, weights = tensors[:num_edges], tensors[num_edges : num_edges + num_weights]
    arguments = (v, edges, weights, counts, edge_mask, tensors[num_edges + num_weights :], *ctx.numbers)
    rest = [None, None, [None] * len(arguments[5]), *[None] * (len(ctx.numbers) + 1)]
    if torch.is_grad_enabled():
        # A gradient of the gradient may be asked for: that of the reference, which has one.
        inputs = [v, *edges, *weights]
        wanted = [x for x in inputs if x.requires_grad]
        found = iter(torch.autograd.grad(blocks_reference(*arguments), wanted, d_out, create_graph=True))
        d_v, *others = [next(found) if x.requires_grad else None for x in inputs]
        return d_v, others[:num_edges], others[num_edges:], *rest
    of_edges = any(x.requires_grad for x in edges)
    d_v, d_edges, d_weights = _blocks_backward(d_out, saved, *arguments, of_edges)
    d_edges = [d if x.requires_grad else None for d, x in zip(d_edges, edges, strict=True)]
    d_weights = [d if x.requires_grad else None for d, x in zip(d_weights, weights, strict=True)]
    return d_v, d_edges, d_weights, *rest


_blocks_backward = register(
    "blocks_backward",
    f"(Tensor d_out, Tensor saved, {_ARGUMENTS}, bool of_edges) -> (Tensor, Tensor[], Tensor[])",
    _backward,
    _fake_backward,
)
register("blocks", f"({_ARGUMENTS}, bool save) -> (Tensor, Tensor)", _forward, _fake_forward, _setup, _gradient)
