"""The blocks of the default model in sequence, by `blocks.c`: forward, and their gradient.

    x  = v + m_1 (W_o attention(norm_v(v)) + b_o)
    v' = x + m_3 (W_last (m_2 gelu(W_first norm_x(x) + b_first)) + b_last)

for each block, v' being the v of the next. The attention is that of `molattn.kernels.edge_attention`, with a dropout
mask m_0; m_1 to m_3 are dropout masks too. It is the operation `torch.ops.molattn.blocks`; double backward uses
`blocks_reference`.
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
from molattn.kernels.edge_attention import MAX_TABLES, Graphs, Task, edge_attention_reference
from molattn.kernels.elementwise import Dropout, dropout_mask, make_dropout, new_key
from molattn.kernels.operations import (
    check_argument,
    data_pointer,
    eager_unsupported_reason,
    first_mismatch,
    isolated_state,
    register,
)

SOURCE = loader.SOURCE_FOLDER / "blocks.c"
_LANES = 16


class _Linear(ctypes.Structure):
    """`Linear` of the C source: addresses of a weight, a bias and their gradients."""

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
        *((name, Dropout) for name in ("weights_dropout", "edges_dropout", "hidden_dropout", "nodes_dropout")),
    )


class _Stack(ctypes.Structure):
    """`Stack` of the C source."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "c", "hidden", "highest_precision", "count")),
        ("attention", Task),
        ("layers", ctypes.POINTER(_Layer)),
        *((name, ctypes.c_void_p) for name in ("v", "out", "saved", "d_out", "d_v")),
    )


_INVALID_COUNT = "a graph has fewer than 0 nodes, or more than its tensors have rows"


class BlockTensors(NamedTuple):
    """The weights of a block with c node channels, h heads of w channels in total and f edge channels."""

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
    """The parameters of a block.

    Attributes:
        num_heads: h.
        eps: of norm_v and norm_x.
        dropout: the dropout probability, 0 in evaluation.
        tensors: the weights.
    """

    num_heads: int
    eps: tuple[float, float]
    dropout: float
    tensors: BlockTensors

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(c, w, hidden): the channels of a node, of all heads together, and inside the feed-forward network."""
        return len(self.tensors.norm_v_w), len(self.tensors.w_q), len(self.tensors.first_w)


@dataclass(frozen=True)
class EdgeLayout:
    """The nodes and edges of the graphs of a batch.

    Attributes:
        counts: (b,) the number of nodes of each graph, which precede its padding.
        edge_mask: (b, n, n), True for edges; None if every pair of nodes has one.
        codes: for each edge table, the row of every edge, (b, n, n) uint8; empty if edges are given by features.
    """

    counts: Tensor
    edge_mask: Tensor | None
    codes: tuple[Tensor, ...] = ()


@cache
def load_library() -> ctypes.CDLL | None:
    """The library, built if needed and loaded once per process; None if unavailable: see `unavailable_reason`."""
    loaded = loader.load_library(SOURCE, (_Linear, _Norm, _Layer, _Stack, Task, Graphs, Dropout), _self_test)
    if loaded is not None:
        loaded.molattn_blocks_saved_size.argtypes = (ctypes.POINTER(_Stack),)
        loaded.molattn_blocks_saved_size.restype = ctypes.c_int64
        for name in ("molattn_blocks_forward", "molattn_blocks_backward"):
            getattr(loaded, name).argtypes = (ctypes.POINTER(_Stack), ctypes.c_int)
            getattr(loaded, name).restype = ctypes.c_int
    return loaded


def _self_test() -> str:
    """How the library differs from the equations of the blocks on two molecules; empty if it agrees."""
    from molattn.graph.block import GraphNetBlock  # here, because graph imports kernels
    from molattn.graph.graph import DenseGraph

    with isolated_state():
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
            literal: Any = graph
            for block in blocks:
                literal, _ = block.literal(literal)
            layout = EdgeLayout(mask.sum(1), edge_mask, tables)
            ours = compiled_blocks(weights, v, [rows], layout)
            learned = [v, rows, *(x for block in blocks for x in block.parameters())]
            found = torch.autograd.grad((ours * probe).sum(), learned)
            expected = torch.autograd.grad((literal.v * probe[mask]).sum(), learned)
            names = ["v", "the edges", *(name for block in blocks for name, _ in block.named_parameters())]
            pairs.append(("a node", ours[mask], literal.v))
            pairs += [(f"the gradient of {name}", *both) for name, *both in zip(names, found, expected, strict=True)]
        return first_mismatch(pairs)


def unavailable_reason() -> str:
    """Why `load_library` returns None; empty if it returns a library."""
    return "" if load_library() is not None else loader.unavailable_reason(SOURCE)


def blocks_unsupported_reason(blocks: Sequence[BlockWeights], v: Tensor, edges: Sequence[Tensor]) -> str:
    """Why `compiled_blocks` does not support these; empty if it does.

    It needs a library, float32 on the CPU, and sizes that are multiples of the vector length.
    """
    sizes = {block.sizes for block in blocks}
    tensors = (v, *edges, *(x for block in blocks for x in block.tensors if x is not None))
    if len(sizes) != 1 or len({(block.num_heads, block.dropout) for block in blocks}) != 1:
        return "blocks of different sizes or dropouts"
    if any(size % _LANES for size in sizes.pop()):
        return f"channels that are no multiples of {_LANES}"
    if not 0 < len(edges) <= MAX_TABLES or edges[0].shape[-1] == 0:
        return "no edge features"
    return eager_unsupported_reason(*tensors) or unavailable_reason()


def compiled_blocks(blocks: Sequence[BlockWeights], v: Tensor, edges: Sequence[Tensor], layout: EdgeLayout) -> Tensor:
    """The nodes v, (b, n, c), after a sequence of blocks: see `GraphNetBlock`; zeros in the padding.

    `edges` is [e], (b, n, n, f), or, if the layout has codes, one table, (rows, f), for each of them: the features of
    an edge are then the sum of its rows. `torch.set_float32_matmul_precision` sets the precision of products: float32
    for "highest"; lower settings use bfloat16 on processors with AMX, with 16 bits of precision.

    Raises:
        IndexError: a code has no row, or a graph has more than n nodes.
        ValueError: a tensor is not as `BlockWeights`, `EdgeLayout` and this function require.
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
    # Inside an autograd function it is not known whether gradients are needed.
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
    """The reference implementation, by `molattn.attention.attend` and torch's functions."""
    b, n, c = v.shape
    e: Any = sum(rows[index.long()] for rows, index in zip(edges, codes, strict=True)) if codes else edges[0]
    node_mask = torch.arange(n, device=v.device) < counts.unsqueeze(-1)
    padding = ~node_mask.unsqueeze(-1)

    def mask(key: int, *shape: int) -> Tensor | float:
        return dropout_mask(shape, p, key) if p else 1.0

    for i, block in enumerate(_group_by_block(weights)):
        weights_key, edges_key, hidden_key, nodes_key = keys[4 * i : 4 * i + 4]
        x = F.layer_norm(v, (c,), block.norm_v_w, block.norm_v_b, eps[2 * i]).masked_fill(padding, 0.0)
        q, k, values = ((x @ w.T).unflatten(-1, (num_heads, -1)) for w in (block.w_q, block.w_k, block.w_v))
        w_ke, w_ve = (w.unflatten(0, (num_heads, -1)) for w in (block.w_ke, block.w_ve))
        w_be = block.w_be if block.w_be is not None and block.w_be.numel() else None
        dropped = dropout_mask((b, num_heads, n, n), p, weights_key) if p else None
        o = edge_attention_reference(q, k, values, e, w_ke, w_ve, w_be, node_mask, edge_mask, dropped).flatten(-2)
        x = v + mask(edges_key, b, n, c) * F.linear(o, block.o_w, block.o_b)
        normalized = F.layer_norm(x, (c,), block.norm_x_w, block.norm_x_b, eps[2 * i + 1])
        y = F.gelu(F.linear(normalized, block.first_w, block.first_b))
        v = x + mask(nodes_key, b, n, c) * F.linear(mask(hidden_key, *y.shape) * y, block.last_w, block.last_b)
    return v.masked_fill(padding, 0.0)


def _group_by_block(weights: Sequence[Tensor]) -> list[BlockTensors]:
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
    """Raise a ValueError for a wrong shape, dtype or device; the library checks the values of counts and codes."""
    each, h = len(BlockTensors._fields), num_heads
    if not weights or len(weights) % each or not edges or v.dim() != 3:
        raise ValueError(f"there are {len(weights)} weights and {len(edges)} edges for nodes of {tuple(v.shape)}")
    blocks = _group_by_block(weights)
    if len(eps) != 2 * len(blocks) or len(keys) != 4 * len(blocks) or not 0 <= p < 1:
        raise ValueError(f"{len(eps)} eps, {len(keys)} keys and a dropout of {p} are not for {len(blocks)} blocks")
    b, n, c = v.shape
    w, hidden, f = blocks[0].w_q.shape[0], blocks[0].first_w.shape[0], edges[0].shape[-1]
    if h < 1 or w % h or f < 1 or any(size < 1 or size % _LANES for size in (c, w, hidden)):
        raise ValueError(f"{h} heads, {c}, {w} and {hidden} channels and {f} of the edges are not for compiled blocks")
    check_argument("v", v, v.shape)
    if not codes:
        check_argument("e", edges[0], (b, n, n, f))
    if len(edges) > MAX_TABLES or len(edges) != max(1, len(codes)):
        raise ValueError(f"there are {len(edges)} tables for {len(codes)} codes of edges, of {MAX_TABLES} at most")
    for rows, index in zip(edges, codes, strict=False):
        check_argument("a table of edges", rows, (len(rows), f))
        check_argument("codes of edges", index, (b, n, n), torch.uint8)
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
            if name != "w_be" or _none_if_empty(x) is not None:
                check_argument(f"{name} of a block", x, shapes[name])


class _PreparedCall:
    """The arguments of the library, and the tensors that it reads and writes."""

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
        self.weights = _group_by_block([x.contiguous() for x in weights])
        self.qkv = [torch.cat((block.w_q, block.w_k, block.w_v)) for block in self.weights]
        # A copy, because the size of the saved activations depends on the counts.
        self.masks = [None if edge_mask is None else edge_mask.contiguous(), counts.clone()]
        self.codes = [x.contiguous() for x in codes]
        b, n, c = v.shape
        block = self.weights[0]
        width, hidden = len(block.w_q), len(block.first_w)
        self.graphs = Graphs(count=b, n=n)
        self.graphs.allowed, self.graphs.sizes = map(data_pointer, self.masks)
        d = width // num_heads
        task = Task(h=num_heads, d=d, f=edges[0].shape[-1], scale=d**-0.5, graphs=ctypes.pointer(self.graphs))
        if self.codes:
            task.tables = len(edges)
            for i, (rows, index) in enumerate(zip(self.edges, self.codes, strict=True)):
                task.num_rows[i] = len(rows)
                task.rows[i], self.graphs.edge_codes[i] = map(data_pointer, (rows, index))
        else:
            self.graphs.e = data_pointer(self.edges[0])
        self.layers = (_Layer * len(self.weights))()
        for i, (layer, block, qkv) in enumerate(zip(self.layers, self.weights, self.qkv, strict=True)):
            for struct, x, y in _weights_and_biases(layer, block):
                struct.w, struct.b = data_pointer(x), data_pointer(y)
            layer.qkv.w = data_pointer(qkv)
            layer.w_ke, layer.w_ve, layer.w_be = map(data_pointer, (block.w_ke, block.w_ve, _none_if_empty(block.w_be)))
            layer.norm_v.eps, layer.norm_x.eps = eps[2 * i : 2 * i + 2]
            dropouts = (make_dropout(p, key) for key in keys[4 * i : 4 * i + 4])
            layer.weights_dropout, layer.edges_dropout, layer.hidden_dropout, layer.nodes_dropout = dropouts
        self.stack = _Stack(
            rows=b * n,
            c=c,
            hidden=hidden,
            highest_precision=torch.get_float32_matmul_precision() == "highest",
            count=len(self.weights),
            attention=task,
            layers=self.layers,
            v=self.v.data_ptr(),
        )

    def num_saved(self) -> int:
        """The number of floats that the forward pass saves for the gradient."""
        count = _loaded_library().molattn_blocks_saved_size(ctypes.byref(self.stack))
        if count < 0:
            raise IndexError(_INVALID_COUNT)
        return count

    def allocate_gradients(self, edges_need_grad: bool) -> tuple[list[Tensor], list[Tensor]]:
        """Tensors for the gradients of edges and weights."""
        tables = bool(self.codes)
        d_edges = [torch.empty_like(x) if edges_need_grad or tables else x.new_empty(0) for x in self.edges]
        for i, d_rows in enumerate(d_edges if tables else ()):
            self.stack.attention.d_rows[i] = data_pointer(d_rows)
        if edges_need_grad and not tables:
            self.graphs.d_e = data_pointer(d_edges[0])
        d_weights: list[Tensor] = []
        self.d_qkv = [torch.empty_like(qkv) for qkv in self.qkv]
        for layer, block, d_qkv in zip(self.layers, self.weights, self.d_qkv, strict=True):
            d = BlockTensors(*(torch.empty_like(x) for x in block if x is not None))
            for struct, x, y in _weights_and_biases(layer, d):
                struct.d_w, struct.d_b = data_pointer(x), data_pointer(y)
            layer.qkv.d_w = data_pointer(d_qkv)
            layer.d_w_ke, layer.d_w_ve, layer.d_w_be = map(data_pointer, (d.w_ke, d.w_ve, _none_if_empty(d.w_be)))
            d_weights += d  # pyright: ignore[reportOperatorIssue]
        return d_edges, d_weights

    def split_qkv(self, d_weights: list[Tensor]) -> None:
        """Copy the gradients of W_q, W_k and W_v from the concatenated gradient that the library writes."""
        for d, d_qkv in zip(_group_by_block(d_weights), self.d_qkv, strict=True):
            for to, x in zip((d.w_q, d.w_k, d.w_v), d_qkv.chunk(3), strict=True):
                to.copy_(x)

    def forward(self, save: bool) -> tuple[Tensor, Tensor]:
        """The nodes, and the saved activations."""
        out = torch.empty_like(self.v)
        saved = self.v.new_empty(self.num_saved() if save else 0)
        self.stack.out, self.stack.saved = out.data_ptr(), data_pointer(saved) if save else None
        self.run("molattn_blocks_forward")
        return out, saved

    def backward(
        self, d_out: Tensor, saved: Tensor, edges_need_grad: bool
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The gradients of the nodes, of the edges and of the weights."""
        check_argument("the gradient of the nodes", d_out, self.v.shape)
        check_argument("the saved activations", saved, (self.num_saved(),))
        d_out = d_out.contiguous()
        d_v = torch.empty_like(self.v)
        d_edges, d_weights = self.allocate_gradients(edges_need_grad)
        self.stack.saved, self.stack.d_out, self.stack.d_v = map(data_pointer, (saved, d_out, d_v))
        self.run("molattn_blocks_backward")
        self.split_qkv(d_weights)
        return d_v, d_edges, d_weights

    def run(self, name: str) -> None:
        status = getattr(_loaded_library(), name)(ctypes.byref(self.stack), torch.get_num_threads())
        if status == 1:
            raise MemoryError("no memory is left for the blocks")
        if status:
            raise IndexError(_INVALID_COUNT if status == 3 else "an edge has a code without a row in its table")


class _Blocks(torch.autograd.Function):
    """`torch.ops.molattn.blocks` and its gradient for eager mode.

    For lists of so many tensors, torch's dispatcher takes as long as the operation itself for three molecules.
    """

    @staticmethod
    def forward(ctx, rest, save, num_edges, v, *tensors):  # pyright: ignore[reportIncompatibleMethodOverride]
        call = _PreparedCall(v, tensors[:num_edges], tensors[num_edges:], *rest)
        out, ctx.saved = call.forward(save)
        ctx.call, ctx.rest, ctx.num_edges = call, rest, num_edges
        counts, edge_mask, codes, *_ = rest
        ctx.save_for_backward(v, *tensors, counts, edge_mask, *codes)
        return out

    @staticmethod
    def backward(ctx, d_out):  # pyright: ignore[reportIncompatibleMethodOverride]
        needed = ctx.needs_input_grad[3:]
        v, *tensors = ctx.saved_tensors[: len(needed)]  # raises if one was modified in place
        if torch.is_grad_enabled():
            # For double backward: the gradient of the reference, which is differentiable itself.
            out = blocks_reference(v, tensors[: ctx.num_edges], tensors[ctx.num_edges :], *ctx.rest)
            requested = [x for x, need in zip((v, *tensors), needed, strict=True) if need]
            computed = iter(torch.autograd.grad(out, requested, d_out, create_graph=True))
            return None, None, None, *(next(computed) if need else None for need in needed)
        d_v, d_edges, d_weights = ctx.call.backward(d_out, ctx.saved, any(needed[1 : 1 + ctx.num_edges]))
        gradients = (d_v, *d_edges, *d_weights)
        return None, None, None, *(d if need else None for d, need in zip(gradients, needed, strict=True))


def _none_if_empty(x: Tensor | None) -> Tensor | None:
    """None for an empty tensor, which represents an optional tensor that is missing."""
    return x if x is not None and x.numel() else None


def _weights_and_biases(layer: _Layer, block: BlockTensors) -> tuple[tuple[ctypes.Structure, Tensor, Tensor], ...]:
    """The structures of the layers with a bias, with their weights and biases."""
    return (
        (layer.norm_v, block.norm_v_w, block.norm_v_b),
        (layer.o, block.o_w, block.o_b),
        (layer.norm_x, block.norm_x_w, block.norm_x_b),
        (layer.first, block.first_w, block.first_b),
        (layer.last, block.last_w, block.last_b),
    )


def _loaded_library() -> ctypes.CDLL:
    loaded = load_library()
    assert loaded is not None
    return loaded


def _forward(*arguments_and_flag: Any) -> tuple[Tensor, Tensor]:
    *arguments, save = arguments_and_flag
    return _PreparedCall(*arguments).forward(save)


def _backward(d_out: Tensor, saved: Tensor, *arguments_and_flag: Any) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    *arguments, edges_need_grad = arguments_and_flag
    return _PreparedCall(*arguments).backward(d_out, saved, edges_need_grad)


_ARGUMENTS = (
    "Tensor v, Tensor[] edges, Tensor[] weights, Tensor counts, Tensor? edge_mask, Tensor[] codes, int num_heads, "
    "float[] eps, float p, int[] keys"
)


def _fake_forward(v, *arguments):
    # The number of saved floats depends on the number of nodes of the graphs.
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
        # For double backward: the gradient of the reference, which is differentiable itself.
        inputs = [v, *edges, *weights]
        requested = [x for x in inputs if x.requires_grad]
        computed = iter(torch.autograd.grad(blocks_reference(*arguments), requested, d_out, create_graph=True))
        d_v, *others = [next(computed) if x.requires_grad else None for x in inputs]
        return d_v, others[:num_edges], others[num_edges:], *rest
    edges_need_grad = any(x.requires_grad for x in edges)
    d_v, d_edges, d_weights = _blocks_backward(d_out, saved, *arguments, edges_need_grad)
    d_edges = [d if x.requires_grad else None for d, x in zip(d_edges, edges, strict=True)]
    d_weights = [d if x.requires_grad else None for d, x in zip(d_weights, weights, strict=True)]
    return d_v, d_edges, d_weights, *rest


_blocks_backward = register(
    "blocks_backward",
    f"(Tensor d_out, Tensor saved, {_ARGUMENTS}, bool edges_need_grad) -> (Tensor, Tensor[], Tensor[])",
    _backward,
    _fake_backward,
)
register("blocks", f"({_ARGUMENTS}, bool save) -> (Tensor, Tensor)", _forward, _fake_forward, _setup, _gradient)
