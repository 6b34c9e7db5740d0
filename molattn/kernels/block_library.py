"""The library of `blocks.c`: its ctypes structures, the checks of its arguments, and its calls."""

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor

from molattn.kernels.edge_attention import MAX_TABLES, AttentionTask, Graphs
from molattn.kernels.elementwise import Dropout, make_dropout
from molattn.kernels.loader import Library
from molattn.kernels.operations import (
    FLOATS_PER_VECTOR,
    check_argument,
    data_pointer,
    first_mismatch,
    isolated_state,
)


class _Linear(ctypes.Structure):
    """`Linear` of the C source: the addresses of a weight, a bias and their gradients."""

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
        ("attention", AttentionTask),
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


class BlockArguments(NamedTuple):
    """The arguments of `torch.ops.molattn.blocks` for b graphs of n nodes.

    Attributes:
        v: (b, n, c), the nodes.
        edges: the edge features, (b, n, n, f), or the tables of which they are sums, each (rows, f).
        weights: the `BlockTensors` of all blocks, one after another; an empty tensor in place of a missing w_be.
        counts, edge_mask, codes: as in `BatchEdges`.
        num_heads: h.
        eps: two for each block, of the layer norms norm_v and norm_x.
        p: the dropout probability.
        keys: four for each block, of the dropout masks m_0 to m_3.
    """

    v: Tensor
    edges: Sequence[Tensor]
    weights: Sequence[Tensor]
    counts: Tensor
    edge_mask: Tensor | None
    codes: Sequence[Tensor]
    num_heads: int
    eps: Sequence[float]
    p: float
    keys: Sequence[int]

    def tensors(self) -> list[Tensor | None]:
        """All tensors, those of a list one after another."""
        return [self.v, *self.edges, *self.weights, self.counts, self.edge_mask, *self.codes]


def _self_test() -> str:
    """How the library differs from the equations of the blocks on two molecules; empty if it agrees."""
    # Imported here, because `molattn.graph` and `molattn.kernels.blocks` import this module.
    from molattn.graph.block import GraphNetBlock
    from molattn.graph.graph import DenseGraph
    from molattn.kernels.blocks import BatchEdges, compiled_blocks

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
            reference: Any = graph
            for block in blocks:
                reference, _ = block.materialize(reference)
            ours = compiled_blocks(weights, v, [rows], BatchEdges(mask.sum(1), edge_mask, tables))
            inputs = [v, rows, *(x for block in blocks for x in block.parameters())]
            found = torch.autograd.grad((ours * probe).sum(), inputs)
            expected = torch.autograd.grad((reference.v * probe[mask]).sum(), inputs)
            names = ["v", "the edges", *(name for block in blocks for name, _ in block.named_parameters())]
            pairs.append(("a node", ours[mask], reference.v))
            pairs += [(f"the gradient of {name}", *both) for name, *both in zip(names, found, expected, strict=True)]
        return first_mismatch(pairs)


_TYPES = (ctypes.POINTER(_Stack), ctypes.c_int), ctypes.c_int
LIBRARY = Library(
    "blocks.c",
    {
        "molattn_blocks_saved_size": ((ctypes.POINTER(_Stack),), ctypes.c_int64),
        "molattn_blocks_forward": _TYPES,
        "molattn_blocks_backward": _TYPES,
    },
    (_Linear, _Norm, _Layer, _Stack, AttentionTask, Graphs, Dropout),
    _self_test,
)


def group_by_block(weights: Sequence[Tensor]) -> list[BlockTensors]:
    """The weights of each block, from those of all blocks one after another."""
    per_block = len(BlockTensors._fields)
    return [BlockTensors(*weights[i : i + per_block]) for i in range(0, len(weights), per_block)]


def _check(arguments: BlockArguments) -> None:
    """Raise a ValueError for a wrong shape, dtype or device; the library checks the values of counts and codes."""
    v, edges, weights, counts, edge_mask, codes, num_heads, eps, p, keys = arguments
    per_block, h = len(BlockTensors._fields), num_heads
    if not weights or len(weights) % per_block or not edges or v.dim() != 3:
        raise ValueError(
            f"the blocks need {per_block} weights each, tensors of edges, and nodes (b, n, c); got {len(weights)} "
            f"weights, {len(edges)} tensors of edges, and nodes {tuple(v.shape)}"
        )
    blocks = group_by_block(weights)
    if len(eps) != 2 * len(blocks) or len(keys) != 4 * len(blocks) or not 0 <= p < 1:
        raise ValueError(
            f"{len(blocks)} blocks need {2 * len(blocks)} eps, {4 * len(blocks)} dropout keys and a dropout in [0, 1); "
            f"got {len(eps)}, {len(keys)} and {p}"
        )
    b, n, c = v.shape
    w, hidden, f = blocks[0].w_q.shape[0], blocks[0].first_w.shape[0], edges[0].shape[-1]
    if h < 1 or w % h or f < 1 or any(size < 1 or size % FLOATS_PER_VECTOR for size in (c, w, hidden)):
        raise ValueError(
            f"the compiled blocks need heads that divide {w} channels, edge features, and multiples of "
            f"{FLOATS_PER_VECTOR} channels; got {h} heads, {f} edge features, and {c}, {w} and {hidden} channels"
        )
    check_argument("v", v, v.shape)
    if not codes:
        check_argument("e", edges[0], (b, n, n, f))
    if len(edges) > MAX_TABLES or len(edges) != max(1, len(codes)):
        raise ValueError(
            f"got {len(edges)} tensors of edges: it needs one table for each tensor of codes, of which there are "
            f"{len(codes)} (at most {MAX_TABLES}), or the edge features if there are none"
        )
    for rows, index in zip(edges, codes, strict=False):
        check_argument("a table of the edges", rows, (len(rows), f))
        check_argument("the codes of the edges", index, (b, n, n), torch.uint8)
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


class PreparedCall:
    """The arguments of the library in its structures, and the tensors whose addresses they hold.

    Between a forward pass and its backward pass autograd has the tensors: see `release`.
    """

    def __init__(self, arguments: BlockArguments):
        _check(arguments)
        v, edges, weights, counts, _, _, num_heads, eps, p, keys = arguments
        self.num_edge_tensors, self.num_weights, self.lock = len(edges), len(weights), Lock()
        self._set_tensors([None if x is None else x.contiguous() for x in arguments.tensors()], [])
        # A copy, because the size of the saved activations depends on the counts.
        self.counts = counts.clone()
        self.qkv = [torch.cat((block.w_q, block.w_k, block.w_v)) for block in self.weights]
        b, n, c = v.shape
        block = self.weights[0]
        width, hidden = len(block.w_q), len(block.first_w)
        self.graphs = Graphs(count=b, n=n)
        self.graphs.allowed, self.graphs.sizes = map(data_pointer, (self.edge_mask, self.counts))
        d = width // num_heads
        task = AttentionTask(h=num_heads, d=d, f=edges[0].shape[-1], scale=d**-0.5, graphs=ctypes.pointer(self.graphs))
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

    def _set_tensors(self, tensors: Sequence[Any], qkv: Sequence[Tensor]) -> None:
        """Set the tensors, in the order of `BlockArguments.tensors`, and the concatenations of W_q, W_k and W_v."""
        self.v, *tensors = tensors
        self.edges, tensors = tensors[: self.num_edge_tensors], tensors[self.num_edge_tensors :]
        self.weights = group_by_block(tensors[: self.num_weights])
        self.counts, self.edge_mask, *self.codes = tensors[self.num_weights :]
        self.qkv = qkv

    def _tensors(self) -> list[Tensor | None]:
        weights = [x for block in self.weights for x in block]
        return [self.v, *self.edges, *weights, self.counts, self.edge_mask, *self.codes]

    def release(self, arguments: BlockArguments) -> list[Tensor | None]:
        """Drop all tensors, and return those that are not the arguments themselves, for `ctx.save_for_backward`.

        Autograd frees what it saved after the backward pass, and gives it to hooks for saved tensors; what the call
        kept would stay alive as long as the loss.
        """
        tensors = self._tensors()
        self.pointers = [data_pointer(x) for x in (*tensors, *self.qkv)]
        copies = [None if x is y else x for x, y in zip(tensors, arguments.tensors(), strict=True)]
        saved = [*copies, *self.qkv]
        self._set_tensors([None] * len(tensors), [])
        return saved

    @contextmanager
    def reacquired(self, arguments: BlockArguments, saved: Sequence[Tensor | None]) -> Iterator["PreparedCall"]:
        """A context in which a call has its tensors again, for one thread alone: two can differentiate one graph.

        It is this call, or a new one if a hook for saved tensors has returned tensors at other addresses.

        Args:
            arguments: those of this call, from autograd.
            saved: what `release` returned, from autograd.
        """
        inputs = arguments.tensors()
        tensors = [x if copy is None else copy for copy, x in zip(saved, inputs, strict=False)]
        qkv = [x for x in saved[len(inputs) :] if x is not None]
        if [data_pointer(x) for x in (*tensors, *qkv)] != self.pointers:
            yield PreparedCall(arguments)
            return
        with self.lock:
            self._set_tensors(tensors, qkv)
            try:
                yield self
            finally:
                self._set_tensors([None] * len(tensors), [])

    def num_saved(self) -> int:
        """The number of floats that the forward pass saves for the gradient.

        Raises:
            IndexError: a number of nodes is negative or larger than n.
        """
        count = LIBRARY["molattn_blocks_saved_size"](ctypes.byref(self.stack))
        if count < 0:
            raise IndexError(_INVALID_COUNT)
        return count

    def allocate_gradients(self, edges_need_grad: bool) -> tuple[list[Tensor], list[Tensor]]:
        """Empty tensors for the gradients of edges and weights, whose addresses are set in the structures.

        With tables they are always computed; an empty gradient of the edge features means that none is needed.
        """
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
        for d, d_qkv in zip(group_by_block(d_weights), self.d_qkv, strict=True):
            for to, x in zip((d.w_q, d.w_k, d.w_v), d_qkv.chunk(3), strict=True):
                to.copy_(x)

    def forward(self, save: bool) -> tuple[Tensor, Tensor]:
        """The nodes, (b, n, c), and the saved activations: (`num_saved()`,), or (0,) without `save`."""
        out = torch.empty_like(self.v)
        saved = self.v.new_empty(self.num_saved() if save else 0)
        self.stack.out, self.stack.saved = out.data_ptr(), data_pointer(saved) if save else None
        self.run("molattn_blocks_forward")
        return out, saved

    def backward(
        self, d_out: Tensor, saved: Tensor, edges_need_grad: bool
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """The gradients of the nodes, of the edges and of the weights; see `allocate_gradients` for those of the edges.

        Args:
            d_out: the gradient of the nodes that `forward` returns.
            saved: the activations that `forward` returns.
            edges_need_grad: whether the edges need a gradient.
        """
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
        """Call a function of the library, and raise the error of its status.

        Raises:
            MemoryError, IndexError: see `run_stack` of the C source.
        """
        status = LIBRARY[name](ctypes.byref(self.stack), torch.get_num_threads())
        if status == 1:
            raise MemoryError("no memory is left for the blocks")
        if status:
            raise IndexError(_INVALID_COUNT if status == 3 else "an edge has a code without a row in its table")


def _none_if_empty(x: Tensor | None) -> Tensor | None:
    """None for an empty tensor, which represents an optional tensor that is missing."""
    return x if x is not None and x.numel() else None


def _weights_and_biases(layer: _Layer, block: BlockTensors) -> tuple[tuple[ctypes.Structure, Tensor, Tensor], ...]:
    """The structures of the norms and linear layers that have a bias, with their weights and biases."""
    return (
        (layer.norm_v, block.norm_v_w, block.norm_v_b),
        (layer.o, block.o_w, block.o_b),
        (layer.norm_x, block.norm_x_w, block.norm_x_b),
        (layer.first, block.first_w, block.first_b),
        (layer.last, block.last_w, block.last_b),
    )
