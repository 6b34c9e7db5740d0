"""`attention_weights` and `attend`: the one entry that every attention in the project goes through."""

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, TypeVar, overload

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from molattn.attention.arguments import check_dropout
from molattn.attention.competitors import Competitors, PaddedNodes, Rows, Segments, any_along, either
from molattn.attention.dropout import dropout_mask as draw_dropout_mask
from molattn.attention.edges import EdgeTerms
from molattn.attention.normalize import NORMALIZERS, Normalizer, Softmax
from molattn.attention.score import SCORES, SCORES_WITH_WEIGHTS, Score, dot, scaled_dot
from molattn.kernels import edge_attention, segments
from molattn.kernels.chunked import chunked_edge_attention
from molattn.kernels.dispatch import Operation
from molattn.kernels.tensor_checks import all_true, eager_unsupported_reason, has_concrete_values, is_transformed

T = TypeVar("T")


def attention_weights(
    q: Tensor,
    k: Tensor,
    over: Competitors | Tensor | None = None,
    *,
    bias: Tensor | None = None,
    edges: EdgeTerms | None = None,
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
        edges: what the edge between a query and a key adds to the key and to the logit; over `Rows`, q and k are then
            (b, h, n, d), over `Segments` (nodes, h, d).
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
    logits = score(q, k, over) if edges is None else edges.logits(q, k, over, score)
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
    edges: EdgeTerms | None = None,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer = "softmax",
    dropout: float = 0.0,
    dropout_mask: Tensor | None = None,
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
    edges: EdgeTerms | None = None,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer = "softmax",
    dropout: float = 0.0,
    dropout_mask: Tensor | None = None,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    over: Competitors | Tensor | None = None,
    *,
    bias: Tensor | None = None,
    edges: EdgeTerms | None = None,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer = "softmax",
    dropout: float = 0.0,
    dropout_mask: Tensor | None = None,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention: the values, averaged with the weights of `attention_weights`.

    o_i = sum_j w_ij v_j                 with edges: sum_j w_ij (v_j + W_ve e_ij)

    Which implementation runs, decides `molattn.attention.backend`; with `return_weights` it is the reference, whose
    weights are those of the sum. What it returns is the same to rounding.

    Args:
        v: values, (..., j, c), or (senders, ..., c) over `Segments`.
        dropout: probability of dropping a weight, the rest scaled by 1 / (1 - dropout). Give 0 outside training.
        dropout_mask: what the weights are multiplied by instead, of their shape: a dropout's, drawn before.
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
    _check_queries_and_keys(q, k, over, score)
    given = _Given(q, k, v, over, bias, edges, score, normalizer, dropout, dropout_mask)
    return _reference(given) if return_weights else _attend(given)


class _Given(NamedTuple):
    """What `attend` is called with."""

    q: Tensor
    k: Tensor
    v: Tensor
    over: Competitors
    bias: Tensor | None
    edges: EdgeTerms | None
    score: Score
    normalizer: Normalizer
    dropout: float
    dropout_mask: Tensor | None


def _reference(of: _Given) -> tuple[Tensor, Tensor]:
    """The equations: score, normalizer, sum; and the weights."""
    weights = attention_weights(
        of.q, of.k, of.over, bias=of.bias, edges=of.edges, score=of.score, normalizer=of.normalizer
    )
    dropped = weights
    if of.dropout_mask is not None:
        dropped = weights * of.dropout_mask
    elif of.dropout:
        dropped = F.dropout(weights, of.dropout)
    reduce = of.over.reduce if of.edges is None else partial(of.edges.reduce, over=of.over)
    return reduce(dropped, of.v), weights


def _is_softmax_of_products(of: _Given) -> bool:
    return (
        (of.score is scaled_dot or of.score is dot)
        and isinstance(of.normalizer, Softmax)
        and of.normalizer.temperature == 1
    )


def _why_not_fused(of: _Given) -> str:
    if of.edges is not None or of.dropout_mask is not None:
        return "edge features, or a dropout that is given"
    if not _is_softmax_of_products(of):
        return "a score or normalizer other than the softmax of products"
    if not isinstance(of.over, Rows) or min(of.q.dim(), of.k.dim(), of.v.dim()) < 2:
        return "an edge list, or a single query"
    if not torch.compiler.is_compiling() and is_transformed(of.q, of.k, of.v, of.over.mask, of.bias):
        return "torch.func is at work"
    return ""


def _why_not_softmax_kernel(of: _Given) -> str:
    """Of what the kernels that know edges have in common."""
    if torch.compiler.is_compiling():
        return "a compiler is at work"
    if of.score is not scaled_dot or not _is_softmax_of_products(of):
        return "a score or normalizer other than the softmax of scaled products"
    if of.bias is not None or of.k.shape != of.v.shape:
        return "a bias, or values of other channels than the keys"
    if torch.is_autocast_enabled(of.q.device.type):
        return "autocast is at work"
    if is_transformed(*_tensors(of)):
        return "torch.func is at work"
    return "" if has_concrete_values(of.q) else "tensors without numbers"


def _why_not_padded_graphs(of: _Given) -> str:
    edges = of.edges
    if edges is None or edges.w_ke is None or edges.w_ve is None:
        return "no edge features in the keys and in the values"
    if not isinstance(of.over, PaddedNodes) or of.q.shape != of.k.shape:
        return "an edge list, or queries that are not the keys"
    return _why_not_softmax_kernel(of)


def _why_not_compiled(of: _Given) -> str:
    if isinstance(of.over, Segments):
        why = "" if of.q.dim() == 3 else "no heads"
        return (
            why
            or _why_not_softmax_kernel(of)
            or eager_unsupported_reason(*_tensors(of))
            or segments.unavailable_reason()
        )
    why = _why_not_padded_graphs(of) or eager_unsupported_reason(*_tensors(of))
    if not why and of.edges is not None and not of.edges.e.shape[-1]:
        why = "no edge features"
    return why or edge_attention.unavailable_reason()


def _tensors(of: _Given) -> tuple[Tensor | None, ...]:
    edges = (None,) * 4 if of.edges is None else (of.edges.e, of.edges.w_ke, of.edges.w_ve, of.edges.w_be)
    return of.q, of.k, of.v, *edges, of.dropout_mask


def _compiled(of: _Given) -> Tensor:
    over, edges, mask = of.over, of.edges, of.dropout_mask
    if not isinstance(over, Segments):
        return _padded_graphs(edge_attention.edge_attention, of)
    if mask is None and of.dropout:
        mask = draw_dropout_mask(of.q, (len(over.receiver), of.q.shape[1]), of.dropout)
    terms = (None,) * 4 if edges is None else (edges.e, edges.w_ke, edges.w_ve, edges.w_be)
    return segments.segment_attention(of.q, of.k, of.v, over.sender.long(), over.receiver.long(), *terms, mask)[0]


def _padded_graphs(way: Callable[..., Tensor], of: _Given) -> Tensor:
    """An implementation whose nodes come before their heads."""
    edges, over, mask = of.edges, of.over, of.dropout_mask
    assert edges is not None and isinstance(over, PaddedNodes)
    if mask is None and of.dropout:
        b, h, n, _ = of.q.shape
        mask = draw_dropout_mask(of.q, (b, h, n, n), of.dropout)
    q, k, v = (x.transpose(1, 2) for x in (of.q, of.k, of.v))
    output = way(q, k, v, edges.e, edges.w_ke, edges.w_ve, edges.w_be, over.node_mask, over.edge_mask, mask)
    return output.transpose(1, 2)


def _fused(of: _Given) -> Tensor:
    q, k, v, over, bias, dropout = of.q, of.k, of.v, of.over, of.bias, of.dropout
    assert isinstance(over, Rows)
    scale = None if of.score is scaled_dot else 1.0
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


_attend = Operation("attention")
_attend.add("compiled", _compiled, _why_not_compiled)
_attend.add("chunked", partial(_padded_graphs, chunked_edge_attention), _why_not_padded_graphs)
_attend.add("fused", _fused, _why_not_fused)
_attend.add("reference", lambda of: _reference(of)[0])
