"""`attention_weights` and `attend`: the one entry that every attention in the project goes through."""

from typing import Literal, TypeVar, overload

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from molattn.attention.arguments import check_dropout
from molattn.attention.competitors import Competitors, Rows, Segments, all_true, any_along, either
from molattn.attention.normalize import NORMALIZERS, Normalizer, Softmax
from molattn.attention.score import SCORES, SCORES_WITH_WEIGHTS, Score, dot, scaled_dot
from molattn.attention.transforms import is_transformed

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
        ValueError: an unknown score or normalizer; queries and keys of different channels for a product of the two;
            a mask of other queries or keys.
        TypeError: a mask of integers, which could mean either.

    >>> import torch
    >>> sentence = torch.tensor([[0, 0, 0], [2, 0, 1], [1, -1, -2], [2, 3, 1], [-2, 0, 0], [0, 2, 1.0]])
    >>> attention_weights(sentence[5], sentence, score="dot").round(decimals=2).tolist()
    [0.0, 0.0, 0.0, 0.8799999952316284, 0.0, 0.11999999731779099]
    """
    over, bias = _competitors(over, bias)
    score = _look_up_score(score)
    _check_queries_and_keys(q, k, over, score)
    logits = score(q, k, over)
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

    Raises:
        ValueError: other numbers of values than of keys; a dropout that is not from 0 to below 1; and as
            `attention_weights`.
    """
    over, bias = _competitors(over, bias)
    score, normalizer = _look_up_score(score), _look_up(normalizer, NORMALIZERS, "normalizer")
    check_dropout(dropout)
    _check_keys_and_values(k, v, over)
    if (
        (score is scaled_dot or score is dot)
        and isinstance(normalizer, Softmax)
        and normalizer.temperature == 1
        and isinstance(over, Rows)
        and min(q.dim(), k.dim(), v.dim()) > 1
        and not return_weights
        and (torch.compiler.is_compiling() or not is_transformed(q, k, v, over.mask, bias))
    ):
        _check_queries_and_keys(q, k, over, score)
        return _fused(q, k, v, over, bias, dropout, scale=None if score is scaled_dot else 1.0)
    weights = attention_weights(q, k, over, bias=bias, score=score, normalizer=normalizer)
    output = over.reduce(F.dropout(weights, dropout) if dropout else weights, v)
    return (output, weights) if return_weights else output


def _fused(
    q: Tensor, k: Tensor, v: Tensor, over: Rows, bias: Tensor | None, dropout: float, scale: float | None
) -> Tensor:
    # The kernel takes masks and biases of two dimensions or more.
    if bias is not None and bias.dim() < 2:
        bias = torch.atleast_2d(bias)
    mask = over.mask
    if mask is None:
        return _kernel(q, k, v, bias, dropout, scale)
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
        mask = either(mask, nobody)
    if bias is not None:
        mask = bias.masked_fill(~mask, torch.finfo(bias.dtype).min)
    output = _kernel(q, k, v, mask, dropout, scale)
    return output if nobody is None else output.masked_fill(nobody, 0.0)


def _kernel(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout: float, scale: float | None) -> Tensor:
    output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=scale)
    # What was dropped is not to be had again; and a compiler has first gradients only.
    if dropout or not output.requires_grad or torch.compiler.is_compiling():
        return output
    return _MoreGradients.apply(output, q, k, v, mask, scale)


class _MoreGradients(torch.autograd.Function):
    """What the fused kernels lack: gradients of their gradients.

    It hands on what the kernel gave and the gradient of it. Where a gradient of the gradient may be asked for, the
    kernel's backward pass gets nothing, and the gradients are those of torch's composed attention.
    """

    @staticmethod
    def forward(ctx, output: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None):  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx.save_for_backward(q, k, v, mask)
        ctx.scale = scale
        return output.detach()  # no view, which could not be changed in place

    @staticmethod
    def backward(ctx, dy: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        if not torch.is_grad_enabled():
            return dy, None, None, None, None, None
        q, k, v, mask = ctx.saved_tensors
        with sdpa_kernel(SDPBackend.MATH):
            output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=ctx.scale)
        wanted = [x for x, needed in zip((q, k, v, mask), ctx.needs_input_grad[1:5], strict=True) if needed]
        found = iter(torch.autograd.grad(output, wanted, dy, create_graph=True))
        return None, *(next(found) if needed else None for needed in ctx.needs_input_grad[1:5]), None


def split_mask(mask: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """A mask as who may attend and what is added: of a float one, minus infinity forbids and the rest joins `bias`."""
    if not mask.is_floating_point():
        return mask, bias
    allowed = mask != -torch.inf
    added = mask.masked_fill(~allowed, 0.0)
    return allowed, added if bias is None else bias + added


def _competitors(over: Competitors | Tensor | None, bias: Tensor | None) -> tuple[Competitors, Tensor | None]:
    """`over` as an object, with a float mask split into who may attend and what is added."""
    if not isinstance(over, Tensor):
        return (Rows() if over is None else over), bias
    allowed, bias = split_mask(over, bias)
    return Rows(allowed), bias


def _check_keys_and_values(k: Tensor, v: Tensor, over: Competitors) -> None:
    # The kernels go by the number of the one through the memory of the other.
    if isinstance(over, Rows):
        keys, values = (x.shape[0] if x.dim() == 1 else x.shape[-2] for x in (k, v))
    elif isinstance(over, Segments):
        keys, values = k.shape[0], v.shape[0]
    else:
        return
    if keys != values:
        raise ValueError(f"{keys} keys and {values} values: every key has one value")


def _check_queries_and_keys(q: Tensor, k: Tensor, over: Competitors, score: Score) -> None:
    if (score is dot or score is scaled_dot) and q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"queries of {q.shape[-1]} channels and keys of {k.shape[-1]}: their product needs the same number"
        )
    if isinstance(over, Rows) and over.mask is not None and min(q.dim(), k.dim(), over.mask.dim()) > 1:
        pairs = q.shape[-2], k.shape[-2]
        if any(size != n and 1 not in (size, n) for size, n in zip(over.mask.shape[-2:], pairs, strict=True)):
            raise ValueError(f"a mask {tuple(over.mask.shape)} for {pairs[0]} queries and {pairs[1]} keys")


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
