"""Attention over dense graphs with a bias that each head has for the code of a pair, as one operation."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from molattn.attention import Rows, attention_weights
from molattn.graph.buckets import BucketedGraphs
from molattn.graph.codes import look_up
from molattn.graph.compiled import library
from molattn.graph.compiled_attention import CompiledCodeAttention
from molattn.graph.dense import is_one_operation


def code_attention(
    packed: Float[Tensor, "rows p h d"],
    graphs: BucketedGraphs,
    codes: Sequence[UInt8[Tensor, "_b _n _n"]],
    table: Float[Tensor, "h c"],
    kept: Sequence[Float[Tensor, "_b h _n _n"] | None] | None = None,
) -> Float[Tensor, "rows h d"]:
    """Every node attends to the nodes of its graph, and a pair's code says how much more or less.

    w_hij = softmax_j( q_hi . k_hj / sqrt(d) + table[h, code_ij] )
    o_hi  = sum_j w_hij v_hj

    Codes are path lengths, kinds of bonds or the like. They are looked up where they are needed: neither the biases nor
    the weights of all pairs are ever there as numbers of float, forward or backward.

    Args:
        packed: q, k and v of the rows of all buckets side by side, as one linear layer makes them: (rows, 3, h, d); or
            (rows, 4, h, d) with what is added to the output.
        graphs: where the rows belong; their edge features are not looked at.
        codes: of each bucket, [b, i, j] of the pair with sender j and receiver i. Those of padding change nothing, but
            the table has them too.
        table: the bias of each head and code.
        kept: of each bucket, what the weights are multiplied by before they meet the values: a dropout's.

    Returns:
        (rows, h, d); zeros (and what is added) for a node that no edge reaches.

    Raises:
        ValueError: codes of another number or shape than the buckets; on a CPU, where looking costs nothing, a code
            that the table does not have.

    In eager mode on a CPU, in float32 and with a C compiler, this is one operation with a gradient written by hand,
    which can be taken once. Otherwise it is `plain_code_attention`; `molattn.graph.flex` has a kernel for GPUs.
    """
    check_codes(graphs, codes, table)
    kept = kept or [None] * len(codes)
    kinds = {(x.dtype, x.device.type) for x in (packed, table)}
    if kinds == {(torch.float32, "cpu")} and is_one_operation(packed) and library() is not None:
        return CompiledCodeAttention.apply(packed, table, graphs.places, kept, *codes)
    return plain_code_attention(packed, graphs, codes, table, kept)


def plain_code_attention(
    packed: Float[Tensor, "rows p h d"],
    graphs: BucketedGraphs,
    codes: Sequence[UInt8[Tensor, "_b _n _n"]],
    table: Float[Tensor, "h c"],
    kept: Sequence[Float[Tensor, "_b h _n _n"] | None] | None = None,
) -> Float[Tensor, "rows h d"]:
    """`code_attention` in operations that autograd and compilers know: the same numbers, slower."""
    outputs = []
    kept = kept or [None] * len(codes)
    for part, code, place, dropped in zip(graphs.split(packed), codes, graphs.places, kept, strict=True):
        q, k, v, *added = part.permute(2, 0, 3, 1, 4)
        mask = place.allowed
        if mask is not None and place.hearing is not None:  # who is no node hears nobody
            mask = (mask & place.hearing.unsqueeze(-1)).unsqueeze(1)
        over = Rows(mask, blank=True)
        weights = attention_weights(q, k, over, bias=look_up(table.mT, code).permute(0, 3, 1, 2))
        output = (weights if dropped is None else weights * dropped) @ v
        outputs.append((output + added[0] if added else output).transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs)


def check_codes(graphs: BucketedGraphs, codes: Sequence[Tensor], table: Tensor) -> None:
    """A ValueError for codes of another number or shape than the buckets, not bytes, or on a CPU not in the table."""
    shapes = [(place.b, place.n, place.n) for place in graphs.places]
    if [tuple(code.shape) for code in codes] != shapes:
        raise ValueError(f"codes are {shapes} for these buckets, not {[tuple(code.shape) for code in codes]}")
    kinds = {code.dtype for code in codes} - {torch.uint8}
    if kinds:
        raise ValueError(f"codes are bytes, torch.uint8, not {kinds.pop()}")
    if table.device.type == "cpu":
        largest = max((int(code.max()) for code in codes if code.numel()), default=0)
        if largest >= table.shape[1]:
            raise ValueError(f"there is a code {largest}, but the table ends at {table.shape[1] - 1}")
