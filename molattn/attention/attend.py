"""`attention_weights` and `attend`: the one entry that every attention in the project goes through."""

from typing import Literal, TypeVar, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from molattn.attention.competitors import Competitors, Rows, all_true, any_along
from molattn.attention.normalize import NORMALIZERS, Normalizer, softmax
from molattn.attention.score import SCORES, SCORES_WITH_WEIGHTS, Score, dot, scaled_dot

T = TypeVar("T")


def attention_weights(
    q: Tensor,
    k: Tensor,
    over: Competitors | Tensor | None = None,
    *,
    bias: Tensor | None = None,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer = "softmax",
) -> Tensor:
    """How much each query attends to each of its competitors.

    w_ij = normalize_j( score(q_i, k_j) + bias_ij )

    Args:
        q: queries, (..., i, d); a single one, (d,), with keys (j, d); or (receivers, ..., d) over `Segments`.
        k: keys, (..., j, d), or (senders, ..., d) over `Segments`.
        over: `Rows` or `Segments`; a tensor is the mask of `Rows`: a boolean one is True where a query may attend,
            a float one is added to the logits, minus infinity forbidding the pair. None: everyone competes.
        bias: finite, added to the logits; broadcastable to their shape.
        score: a name in `SCORES`, a function, or a module such as `Additive`.
        normalizer: a name in `NORMALIZERS`, or a function such as `Softmax(temperature)`.

    Returns:
        (..., i, j) or, over `Segments`, (edges, ...): sums to 1 over the competitors of a query, all zeros for a
        query that has none.

    Raises:
        ValueError: an unknown score or normalizer.
        TypeError: a mask of integers, which could mean either.

    >>> import torch
    >>> sentence = torch.tensor([[0, 0, 0], [2, 0, 1], [1, -1, -2], [2, 3, 1], [-2, 0, 0], [0, 2, 1.0]])
    >>> attention_weights(sentence[5], sentence, score="dot").round(decimals=2).tolist()
    [0.0, 0.0, 0.0, 0.8799999952316284, 0.0, 0.11999999731779099]
    """
    over, bias = _competitors(over, bias)
    logits = _look_up_score(score)(q, k, over)
    if bias is not None:
        logits = logits + bias
    return _look_up(normalizer, NORMALIZERS, "normalizer")(logits, over)


@overload
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    over: Competitors | Tensor | None = None,
    *,
    bias: Tensor | None = None,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer = "softmax",
    dropout: float = 0.0,
    return_weights: Literal[False] = False,
) -> Tensor: ...


@overload
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    over: Competitors | Tensor | None = None,
    *,
    bias: Tensor | None = None,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer = "softmax",
    dropout: float = 0.0,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    over: Competitors | Tensor | None = None,
    *,
    bias: Tensor | None = None,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer = "softmax",
    dropout: float = 0.0,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention: the values, averaged with the weights of `attention_weights`.

    o_i = sum_j w_ij v_j

    Takes the fused kernel (`torch.nn.functional.scaled_dot_product_attention`) whenever score, normalizer and
    competitors allow it and nobody asks for the weights; what it returns is the same to rounding.

    Args:
        v: values, (..., j, c), or (senders, ..., c) over `Segments`.
        dropout: probability of dropping a weight, the rest scaled by 1 / (1 - dropout). Give 0 outside training.
        return_weights: also return the weights, before dropout.

        The others are those of `attention_weights`.

    Returns:
        (..., i, c) or, over `Segments`, (receivers, ..., c); zeros for a query with nobody to attend to. With
        `return_weights`, that and the weights.
    """
    over, bias = _competitors(over, bias)
    score, normalizer = _look_up_score(score), _look_up(normalizer, NORMALIZERS, "normalizer")
    products = score is scaled_dot or score is dot
    if (
        products
        and normalizer == softmax
        and isinstance(over, Rows)
        and min(q.dim(), v.dim()) > 1
        and not return_weights
    ):
        return _fused(q, k, v, over, bias, dropout, scale=None if score is scaled_dot else 1.0)
    weights = attention_weights(q, k, over, bias=bias, score=score, normalizer=normalizer)
    output = over.reduce(F.dropout(weights, dropout, training=dropout > 0), v)
    return (output, weights) if return_weights else output


def _fused(
    q: Tensor, k: Tensor, v: Tensor, over: Rows, bias: Tensor | None, dropout: float, scale: float | None
) -> Tensor:
    # The kernel takes masks and biases of two dimensions or more.
    if bias is not None and bias.dim() < 2:
        bias = torch.atleast_2d(bias)
    mask = over.mask
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout, scale=scale)
    if mask.dim() < 2:
        mask = torch.atleast_2d(mask)
    if not over.blank:
        seen = over.seen_by_any()
        if not all_true(seen):
            k, v = k.masked_fill(~seen, 0.0), v.masked_fill(~seen, 0.0)
    # A query with nobody to attend to would be NaN in some kernels, forward or backward: let it attend to everyone
    # (whose hidden rows are zero by now) and blank what comes out.
    somebody = any_along(mask, -1)
    nobody = None if all_true(somebody) else ~somebody.unsqueeze(-1)
    if nobody is not None:
        mask = (mask.view(torch.uint8) | nobody.view(torch.uint8)).view(torch.bool)  # bytes are the faster to combine
    if bias is not None:
        mask = bias.masked_fill(~mask, torch.finfo(bias.dtype).min)
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale)
    return output if nobody is None else output.masked_fill(nobody, 0.0)


def _competitors(over: Competitors | Tensor | None, bias: Tensor | None) -> tuple[Competitors, Tensor | None]:
    """`over` as an object, with a float mask split into who may attend and what is added."""
    if not isinstance(over, Tensor):
        return (Rows() if over is None else over), bias
    if not over.is_floating_point():
        return Rows(over), bias
    allowed = over != -torch.inf
    added = over.masked_fill(~allowed, 0.0)
    return Rows(allowed), added if bias is None else bias + added


def _look_up_score(score: str | Score) -> Score:
    if isinstance(score, str) and score in SCORES_WITH_WEIGHTS:
        raise ValueError(f"score {score!r} has weights: make it once with make_score, then pass it here")
    return _look_up(score, SCORES, "score")


def _look_up(choice: str | T, table: dict[str, T], what: str) -> T:
    if not isinstance(choice, str):
        return choice
    if choice not in table:
        raise ValueError(f"unknown {what} {choice!r}: choose one of {', '.join(table)}, or pass a function")
    return table[choice]
