"""Attention with a bias by code through torch's FlexAttention: on a GPU one kernel, which looks the bias up by code."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import no_type_check

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from molattn.graph.buckets import BucketedGraphs
from molattn.graph.coded import check_codes
from molattn.graph.places import Place

# Kernels take heads whose channels are a power of two, and at least so many.
_LEAST = 16


def flex_code_attention(
    packed: Float[Tensor, "rows p h d"],
    graphs: BucketedGraphs,
    codes: Sequence[UInt8[Tensor, "_b _n _n"]],
    table: Float[Tensor, "h c"],
) -> Float[Tensor, "rows h d"]:
    """`code_attention` without dropout, for a GPU: no number of float for each pair is ever kept.

    w_hij = softmax_j( q_hi . k_hj / sqrt(d) + table[h, code_ij] )
    o_hi  = sum_j w_hij v_hj

    On a GPU the kernel is compiled at the first call, and has a gradient. On a CPU torch works it out step by step,
    without a gradient, which is of use for comparison alone.

    Raises:
        ValueError: as `code_attention`.

    Source: Dong et al. 2024, Flex Attention, arXiv:2412.05496.
    """
    check_codes(graphs, codes, table)
    attend = flex_attention if packed.device.type == "cpu" else _kernel()
    outputs = []
    for part, code, place in zip(graphs.split(packed), codes, graphs.places, strict=True):
        q, k, v, *added = part.permute(2, 0, 3, 1, 4)
        output = _of_place(q, k, v, code, place, table, attend)
        outputs.append((output + added[0] if added else output).transpose(1, 2).flatten(0, 1))
    return torch.cat(outputs)


def _of_place(
    q: Tensor, k: Tensor, v: Tensor, code: Tensor, place: Place, table: Tensor, attend: Callable[..., Tensor]
) -> Tensor:
    """(b, h, n, d) of the graphs of one place."""
    allowed = None if place.allowed is None else place.allowed.expand(place.b, place.n, place.n)
    lowest = torch.finfo(q.dtype).min

    @no_type_check  # it is traced: checks of its arguments, where they are on, would be part of the kernel
    def biased(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        score = score + table[h, code[b, i, j].int()]
        return score if allowed is None else torch.where(allowed[b, i, j], score, lowest)

    d = q.shape[-1]
    room = max(_LEAST, 1 << (d - 1).bit_length()) - d
    q, k, v = (F.pad(x, (0, room)) for x in (q, k, v))
    output = attend(q, k, v, score_mod=biased, scale=d**-0.5)[..., :d]
    # Of receivers that hear nobody all scores are the lowest, and so alike.
    return output if place.hearing is None else output.masked_fill(~place.hearing[:, None, :, None], 0.0)


@cache
def _kernel() -> Callable[..., Tensor]:
    return torch.compile(flex_attention, dynamic=True)
