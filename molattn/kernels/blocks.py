"""The blocks of the default model in sequence, by `blocks.c`: forward, and the gradient.

    x  = v + m_1 (W_o attention(norm_v(v)) + b_o)
    v' = x + m_3 (W_last (m_2 gelu(W_first norm_x(x) + b_first)) + b_last)

for each block, v' being the v of the next. The attention is that of `molattn.kernels.edge_attention`, with a dropout
mask m_0 of its weights; m_1 to m_3 are dropout masks too. It is the operation `torch.ops.molattn.blocks`; double
backward uses `blocks_reference`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from molattn.kernels.block_library import LIBRARY, BlockArguments, BlockTensors, PreparedCall, group_by_block
from molattn.kernels.edge_attention import MAX_TABLES, edge_attention_reference
from molattn.kernels.elementwise import dropout_mask, new_key
from molattn.kernels.operations import (
    FLOATS_PER_VECTOR,
    differentiable_gradients,
    eager_unsupported_reason,
    needs_reference,
    register,
)


@dataclass(frozen=True)
class BlockWeights:
    """The weights and settings of a block.

    Attributes:
        num_heads: h.
        eps: of the layer norms norm_v and norm_x, added to the variance.
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
class BatchEdges:
    """The nodes and edges of the graphs of a batch.

    Attributes:
        counts: (b,) the number of nodes of each graph, which precede its padding.
        edge_mask: (b, n, n), True for edges; None if every pair of nodes has one.
        codes: for each edge table, the row of every edge, (b, n, n) uint8; empty if edges are given by features.
    """

    counts: Tensor
    edge_mask: Tensor | None
    codes: tuple[Tensor, ...] = ()


def unsupported_reason(blocks: Sequence[BlockWeights], v: Tensor, edges: Sequence[Tensor]) -> str:
    """Why `compiled_blocks` does not support these; empty if it does.

    It needs a library, float32 on the CPU, and sizes that are multiples of the vector length.
    """
    sizes = {block.sizes for block in blocks}
    tensors = (v, *edges, *(x for block in blocks for x in block.tensors if x is not None))
    if len(sizes) != 1 or len({(block.num_heads, block.dropout) for block in blocks}) != 1:
        return "blocks of different sizes or dropouts"
    if any(size % FLOATS_PER_VECTOR for size in sizes.pop()):
        return f"channels that are not multiples of {FLOATS_PER_VECTOR}"
    if not 0 < len(edges) <= MAX_TABLES or edges[0].shape[-1] == 0:
        return "no edge features"
    return eager_unsupported_reason(*tensors) or LIBRARY.unavailable_reason()


def compiled_blocks(blocks: Sequence[BlockWeights], v: Tensor, edges: Sequence[Tensor], batch: BatchEdges) -> Tensor:
    """The nodes after a sequence of blocks: see `GraphNetBlock`.

    `torch.set_float32_matmul_precision` sets the precision of products: float32 for "highest"; lower settings use
    bfloat16 on processors with AMX, with 16 bits of precision.

    Args:
        blocks: of the same sizes, number of heads and dropout.
        v: nodes, (b, n, c).
        edges: [e], the edge features (b, n, n, f); or, if `batch` has codes, one embedding table (rows, f) for each of
            them: the features of an edge are then the sum of the rows that its codes select.
        batch: the numbers of nodes, the edge mask and the codes of the edges.

    Returns:
        (b, n, c), zeros in the padding.

    Raises:
        IndexError: a code has no row, or a graph has more than n nodes.
        ValueError: there are no blocks, they differ in size or settings, or a shape, dtype or device is wrong.
    """
    if not blocks:
        raise ValueError("there are no blocks")
    first, count = blocks[0], len(BlockTensors._fields)
    for block in blocks:
        if (block.num_heads, block.dropout) != (first.num_heads, first.dropout) or len(block.tensors) != count:
            raise ValueError("the blocks differ in the number of heads, the number of weights or the dropout")
        for name, x in zip(BlockTensors._fields, block.tensors, strict=True):
            if x is None and name != "w_be":
                raise ValueError(f"{name} of a block is missing")
    weights = [v.new_empty(0) if x is None else x for block in blocks for x in block.tensors]
    keys = [new_key() if first.dropout else 0 for _ in range(4 * len(blocks))]
    eps = [eps for block in blocks for eps in block.eps]
    constants = (batch.counts, batch.edge_mask, list(batch.codes), first.num_heads, eps, first.dropout, keys)
    # Decided here: inside `forward` of an autograd function, gradients are always disabled.
    save = torch.is_grad_enabled() and any(x.requires_grad for x in (v, *edges, *weights))
    return _Blocks.apply(constants, save, len(edges), v, *edges, *weights)


def blocks_reference(arguments: BlockArguments) -> Tensor:
    """The reference implementation, by `molattn.attention.attend` and torch's functions."""
    v, edges, weights, counts, edge_mask, codes, num_heads, eps, p, keys = arguments
    b, n, c = v.shape
    e: Any = sum(rows[index.long()] for rows, index in zip(edges, codes, strict=True)) if codes else edges[0]
    node_mask = torch.arange(n, device=v.device) < counts.unsqueeze(-1)
    padding = ~node_mask.unsqueeze(-1)

    def mask(key: int, *shape: int) -> Tensor | float:
        return dropout_mask(shape, p, key) if p else 1.0

    for i, block in enumerate(group_by_block(weights)):
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


class _Blocks(torch.autograd.Function):
    """`torch.ops.molattn.blocks` and its gradient for eager mode, without torch's dispatcher.

    For this many tensors the dispatcher takes as long as the operation itself takes for three molecules.
    """

    @staticmethod
    def forward(ctx, constants, save, num_edge_tensors, v, *tensors):  # pyright: ignore[reportIncompatibleMethodOverride]
        counts, edge_mask, codes, *settings = constants
        edges, weights = tensors[:num_edge_tensors], tensors[num_edge_tensors:]
        arguments = BlockArguments(v, edges, weights, counts, edge_mask, codes, *settings)
        call = PreparedCall(arguments)
        out, saved = call.forward(save)
        if save:
            ctx.call, ctx.settings, ctx.num_edge_tensors, ctx.num_codes = call, settings, num_edge_tensors, len(codes)
            ctx.save_for_backward(saved, *arguments.tensors(), *call.release(arguments))
        return out

    @staticmethod
    def backward(ctx, d_out):  # pyright: ignore[reportIncompatibleMethodOverride]
        needed, count = ctx.needs_input_grad[3:], ctx.num_edge_tensors
        saved, *tensors = ctx.saved_tensors  # raises if one was modified in place
        v, *others = inputs = tensors[: len(needed)]
        counts, edge_mask, *tensors = tensors[len(needed) :]
        codes, released = tensors[: ctx.num_codes], tensors[ctx.num_codes :]
        arguments = BlockArguments(v, others[:count], others[count:], counts, edge_mask, codes, *ctx.settings)
        if needs_reference(d_out):
            with torch.enable_grad():
                gradients = differentiable_gradients(blocks_reference(arguments), inputs, needed, d_out)
            return None, None, None, *gradients
        with ctx.call.reacquired(arguments, released) as call:
            d_v, d_edges, d_weights = call.backward(d_out, saved, any(needed[1 : 1 + count]))
        gradients = (d_v, *d_edges, *d_weights)
        return None, None, None, *(d if need else None for d, need in zip(gradients, needed, strict=True))


def _forward(*arguments_and_save: Any) -> tuple[Tensor, Tensor]:
    *arguments, save = arguments_and_save
    return PreparedCall(BlockArguments(*arguments)).forward(save)


def _backward(d_out: Tensor, saved: Tensor, *arguments_and_flag: Any) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    *arguments, edges_need_grad = arguments_and_flag
    return PreparedCall(BlockArguments(*arguments)).backward(d_out, saved, edges_need_grad)


_ARGUMENTS = (
    "Tensor v, Tensor[] edges, Tensor[] weights, Tensor counts, Tensor? edge_mask, Tensor[] codes, int num_heads, "
    "float[] eps, float p, int[] keys"
)


def _fake_forward(v, *arguments):
    *_, save = arguments
    # The number of saved floats depends on the values of `counts`.
    size = torch.library.get_ctx().new_dynamic_size() if save else 0
    return v.new_empty(v.shape), v.new_empty(size)


def _fake_backward(d_out, saved, v, edges, weights, counts, edge_mask, codes, *settings_and_flag):  # noqa: ARG001
    *_, edges_need_grad = settings_and_flag
    d_edges = [x.new_empty(x.shape if edges_need_grad or codes else 0) for x in edges]
    return v.new_empty(v.shape), d_edges, [x.new_empty(x.shape) for x in weights]


def _setup(ctx, inputs, output) -> None:
    v, edges, weights, counts, edge_mask, codes, *settings, _save = inputs
    ctx.settings, ctx.num_tensors = settings, (len(edges), len(weights))
    ctx.save_for_backward(output[1], v, counts, edge_mask, *edges, *weights, *codes)
    ctx.mark_non_differentiable(output[1])


def _gradient(ctx, d_out: Tensor, _d_saved: Tensor | None):
    saved, v, counts, edge_mask, *tensors = ctx.saved_tensors
    num_edge_tensors, num_weights = ctx.num_tensors
    end = num_edge_tensors + num_weights
    edges, weights, codes = tensors[:num_edge_tensors], tensors[num_edge_tensors:end], tensors[end:]
    arguments = BlockArguments(v, edges, weights, counts, edge_mask, codes, *ctx.settings)
    no_gradients = [None, None, [None] * len(codes), *[None] * (len(ctx.settings) + 1)]
    if torch.is_grad_enabled():
        inputs = v, *edges, *weights
        needed = [x.requires_grad for x in inputs]
        d_v, *others = differentiable_gradients(blocks_reference(arguments), inputs, needed, d_out)
        return d_v, others[:num_edge_tensors], others[num_edge_tensors:], *no_gradients
    edges_need_grad = any(x.requires_grad for x in edges)
    d_v, d_edges, d_weights = _blocks_backward(d_out, saved, *arguments, edges_need_grad)
    d_edges = [d if x.requires_grad else None for d, x in zip(d_edges, edges, strict=True)]
    d_weights = [d if x.requires_grad else None for d, x in zip(d_weights, weights, strict=True)]
    return d_v, d_edges, d_weights, *no_gradients


_blocks_backward = register(
    "blocks_backward",
    f"(Tensor d_out, Tensor saved, {_ARGUMENTS}, bool edges_need_grad) -> (Tensor, Tensor[], Tensor[])",
    _backward,
    _fake_backward,
)
register("blocks", f"({_ARGUMENTS}, bool save) -> (Tensor, Tensor)", _forward, _fake_forward, _setup, _gradient)
