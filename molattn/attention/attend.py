"""`attention_weights` and `attend`: the single entry point of every attention in the library."""

from typing import Any, Literal, overload

import torch
from torch import Tensor

from molattn.attention.arguments import check_dropout, resolve_name
from molattn.attention.edges import EdgeTerms
from molattn.attention.implementations import AttendArguments, attention, compute_weights, reference
from molattn.attention.layout import AttentionLayout, DenseLayout, EdgeListLayout
from molattn.attention.normalize import Normalizer, make_normalizer
from molattn.attention.score import SCORES, SCORES_WITH_WEIGHTS, Score, dot, scaled_dot
from molattn.kernels.operations import is_autocast_enabled


def attention_weights(
    q: Tensor,
    k: Tensor,
    layout: AttentionLayout | Tensor | None = None,
    *,
    bias: Tensor | None = None,
    edges: EdgeTerms | None = None,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer = "softmax",
) -> Tensor:
    """The attention weights: how much each query attends to each of its valid keys.

    w_ij = normalize_j( score(q_i, k_j) + bias_ij )

    Args:
        q: queries, (..., i, d); a single one, (d,), with keys (j, d); or (receivers, ..., d) with an `EdgeListLayout`.
        k: keys, (..., j, d), or (senders, ..., d) with an `EdgeListLayout`.
        layout: a `DenseLayout` or an `EdgeListLayout`. A tensor is used as the mask of a `DenseLayout`: a boolean mask
            is True where a query may attend, a float mask is added to the logits, minus infinity masking the pair.
            None: no mask.
        bias: finite, added to the logits; broadcastable to their shape.
        edges: edge features that are added to the key and to the logit of a pair; with a `DenseLayout`, q and k are
            then (b, h, n, d), with an `EdgeListLayout` (nodes, h, d).
        score: a name in `SCORES`, a function, or a module such as `Additive`.
        normalizer: a name in `NORMALIZERS`, or a function such as `Softmax(temperature)`.

    Returns:
        (..., i, j) or, with an `EdgeListLayout`, (edges, ...): sums to 1 over the valid keys of a query, all zeros for
        a query without a valid key.

    Raises:
        ValueError: an unknown score or normalizer, or the name of a score with weights, which `make_score` creates;
            queries and keys with different numbers of channels for a dot product; a mask whose size does not match the
            queries or keys; a number of queries that is not the `num_receivers` of an edge list.
        TypeError: an integer mask, which is ambiguous, or a bias that is not floating-point.
        IndexError: on a CPU, an edge refers to a node that does not exist.

    >>> import torch
    >>> from molattn.attention import attention_weights
    >>> rows = [[0, 0, 0], [2, 0, 1], [1, -1, -2], [2, 3, 1], [-2, 0, 0], [0, 2, 1]]
    >>> sentence = torch.tensor(rows, dtype=torch.float64)
    >>> attention_weights(sentence[5], sentence, score="dot").round(decimals=2).tolist()
    [0.0, 0.0, 0.0, 0.88, 0.0, 0.12]
    """
    layout, bias = _as_layout(layout, bias, q)
    score = _look_up_score(score)
    _check_queries_and_keys(q, k, layout, score)
    return compute_weights(q, k, layout, bias, edges, score, make_normalizer(normalizer))


@overload
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    layout: AttentionLayout | Tensor | None = None,
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
    layout: AttentionLayout | Tensor | None = None,
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
    layout: AttentionLayout | Tensor | None = None,
    *,
    bias: Tensor | None = None,
    edges: EdgeTerms | None = None,
    score: str | Score = "scaled_dot",
    normalizer: str | Normalizer = "softmax",
    dropout: float = 0.0,
    dropout_mask: Tensor | None = None,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Attention: the sum of the values, weighted by `attention_weights`.

    o_i = sum_j w_ij v_j                 with edges: sum_j w_ij (v_j + W_ve e_ij)

    `molattn.attention.backend` chooses the implementation; with `return_weights` it is always the reference, which
    computes the weights explicitly. All implementations give the same result up to rounding.

    Args:
        q, k, layout, bias, edges, score, normalizer: as for `attention_weights`.
        v: values, (..., j, c), or (senders, ..., c) with an `EdgeListLayout`.
        dropout: probability of dropping a weight; the others are scaled by 1 / (1 - dropout). Pass 0 outside training.
        dropout_mask: factors for the weights, of their shape, used instead of drawing a dropout mask.
        return_weights: also return the weights, before dropout.

    Returns:
        (..., i, c) or, with an `EdgeListLayout`, (receivers, ..., c); zeros for a query without a valid key. With
        `return_weights`, a tuple of this and the weights.

    Raises:
        ValueError: the numbers of keys and values differ; dropout is not in [0, 1); and as `attention_weights`.
        TypeError, IndexError: as `attention_weights`.

    >>> import torch
    >>> from molattn.attention import attend, causal_mask
    >>> q, k, v = torch.randn(3, 2, 5, 4)
    >>> output, weights = attend(q, k, v, causal_mask(5), return_weights=True)
    >>> torch.allclose(weights.sum(-1), torch.ones(2, 5)), torch.equal(weights, weights.tril())
    (True, True)
    >>> torch.allclose(output, attend(q, k, v, causal_mask(5)), atol=1e-5)
    True
    """
    layout, bias = _as_layout(layout, bias, q)
    score, normalizer = _look_up_score(score), make_normalizer(normalizer)
    check_dropout(dropout)
    _check_keys_and_values(k, v, layout)
    _check_queries_and_keys(q, k, layout, score)
    args = AttendArguments(q, k, v, layout, bias, edges, score, normalizer, dropout, dropout_mask)
    return reference(args) if return_weights else attention(args)


def split_mask(mask: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """A boolean mask and a bias: a float mask is False where it is minus infinity, and is added to `bias` elsewhere."""
    if not mask.is_floating_point():
        return mask, bias
    valid = mask != -torch.inf
    added = mask.masked_fill(~valid, 0.0)
    return valid, added if bias is None else bias + added


def _as_layout(layout: Any, bias: Tensor | None, q: Tensor) -> tuple[AttentionLayout, Tensor | None]:
    """The layout and the bias: a mask becomes a `DenseLayout`, and a float mask is first split into mask and bias."""
    if layout is None:
        layout = DenseLayout()
    elif isinstance(layout, Tensor):
        mask, bias = split_mask(layout, bias)
        layout = DenseLayout(mask)
    elif not hasattr(layout, "pairwise_dot"):  # isinstance with a Protocol takes ten times as long
        kind = type(layout).__name__
        raise TypeError(f"the mask is a tensor or a layout, not of type {kind}: pass torch.as_tensor(mask)")
    return layout, None if bias is None else _as_bias(bias, layout, q)


def _as_bias(bias: Tensor, layout: AttentionLayout, q: Tensor) -> Tensor:
    """The bias in the dtype of the queries, and above the number that masks a pair.

    Masked logits are the lowest finite number, which some masks have for pairs that are not to be attended to: with
    half of it, a pair that `layout` masks is still below.
    """
    if not bias.is_floating_point():
        raise TypeError(f"bias is added to the logits: it has to be floating-point, not {bias.dtype}; see mask")
    dtype = bias.dtype if is_autocast_enabled(q) else q.dtype
    # Another dtype may have a smaller range, beyond which a number would be infinite.
    if bias.dtype != dtype or (isinstance(layout, DenseLayout) and layout.mask is not None):
        bias = bias.clamp(min=torch.finfo(dtype).min / 2).to(dtype)
    return bias


def _check_keys_and_values(k: Tensor, v: Tensor, layout: AttentionLayout) -> None:
    # The kernels read as many values as there are keys, without a bounds check.
    if isinstance(layout, DenseLayout):
        keys, values = (x.shape[0] if x.dim() == 1 else x.shape[-2] for x in (k, v))
    elif isinstance(layout, EdgeListLayout):
        keys, values = k.shape[0], v.shape[0]
    else:
        return
    if keys != values:
        raise ValueError(f"{keys} keys and {values} values: every key needs one value")


def _check_queries_and_keys(q: Tensor, k: Tensor, layout: AttentionLayout, score: Score) -> None:
    if (score is dot or score is scaled_dot) and q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"queries of {q.shape[-1]} channels and keys of {k.shape[-1]}: a dot product needs the same number"
        )
    # Not inside torch.compile and torch.export, which would make a guard of the comparison of sizes.
    if isinstance(layout, EdgeListLayout) and not torch.compiler.is_compiling() and q.shape[0] != layout.num_receivers:
        raise ValueError(f"{q.shape[0]} queries for {layout.num_receivers} receivers: every receiver needs one query")
    if isinstance(layout, DenseLayout) and layout.mask is not None and min(q.dim(), k.dim(), layout.mask.dim()) > 1:
        pairs = q.shape[-2], k.shape[-2]
        if any(size != n and 1 not in (size, n) for size, n in zip(layout.mask.shape[-2:], pairs, strict=True)):
            raise ValueError(
                f"a mask {tuple(layout.mask.shape)} does not broadcast to {pairs[0]} queries and {pairs[1]} keys"
            )


def _look_up_score(score: str | Score) -> Score:
    if isinstance(score, str) and score in SCORES_WITH_WEIGHTS:
        raise ValueError(f"score {score!r} has weights: create it once with make_score and pass it here")
    return resolve_name(score, SCORES, "score")
