"""Decoding: generating sequences from a next-token model, by greedy or beam search."""

import math
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from molattn.sequence.embedding import PAD

MAX_LOG = 80.0
"""The largest logarithm of the divisor of a score, below that of the largest float32."""


@runtime_checkable
class DecodingState(Protocol):
    """The interface of a model's state between two tokens: a result of one step and an argument of the next.

    >>> import torch
    >>> from molattn.sequence import DecodingState, Luong
    >>> model = Luong(source_vocab=11, target_vocab=13, embed_dim=6, hidden_dim=8)
    >>> state = model.init_state(torch.tensor([[3, 4, 5], [6, 7, 0]]))
    >>> isinstance(state, DecodingState), state.select(torch.tensor([1, 1, 0])).source_mask[:, 0, 2].tolist()
    (True, [False, False, True])
    """

    def select(self, rows: Tensor) -> Any:
        """The state of these `rows` of the batch, (k,) integers, in that order; rows may be repeated."""
        ...


@runtime_checkable
class StepDecoder(Protocol):
    """The interface of a model for decoding; the Transformer and the recurrent encoder-decoders implement it.

    >>> import torch
    >>> from molattn.sequence import StepDecoder, greedy_search
    >>> class Copy:  # repeats the source, which is its state
    ...     def init_state(self, source):
    ...         return source
    ...     def step(self, tokens, state):
    ...         return 9.0 * torch.nn.functional.one_hot(state[:, 0], 10), state[:, 1:]
    >>> isinstance(Copy(), StepDecoder)
    True
    >>> greedy_search(Copy(), torch.tensor([[5, 3, 2]]), start_token=1, end_token=2, max_length=8).tokens.tolist()
    [[5, 3, 2]]
    """

    def init_state(self, source: Tensor) -> Any:
        """The `DecodingState` before the first target token, from source tokens (batch, source)."""
        ...

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Consumes one target token: the logits of the next one and the new state.

        Args:
            tokens: (batch,) integers.
            state: from `init_state` or the previous step.

        Returns:
            (batch, vocab), and the state after this token.
        """
        ...


@dataclass(frozen=True)
class DecodedSequences:
    """The result of decoding.

    Attributes:
        tokens: (batch, length) from greedy search, (batch, beam_size, length) from beam search, best first. Without
            the start token; with the end token unless `max_length` was reached; padded with 0.
        scores: (batch,), log P(tokens | source), from greedy search; (batch, beam_size), the same divided by
            |tokens|^length_penalty, from beam search, minus infinity where fewer than beam_size sequences were found.
            The probabilities are the model's; they are not renormalized although the padding token is never chosen.

    >>> import torch
    >>> from molattn.sequence import Transformer, greedy_search
    >>> model = Transformer(source_vocab=11, target_vocab=13, d_model=8, num_heads=2, num_layers=1).eval()
    >>> source = torch.tensor([[3, 4, 5], [6, 7, 0]])
    >>> found = greedy_search(model, source, start_token=1, end_token=2, max_length=5)
    >>> len(found.tokens), tuple(found.scores.shape), bool((found.scores < 0).all())
    (2, (2,), True)
    """

    tokens: Int[Tensor, "*b length"]
    scores: Float[Tensor, "*b"]


@torch.no_grad()
def greedy_search(
    model: StepDecoder, source: Int[Tensor, "b m"], *, start_token: int, end_token: int, max_length: int
) -> DecodedSequences:
    """Greedy search: the most probable next token at each step.

    y_t = argmax_y P(y | y_<t, source)

    Put the model in evaluation mode first, or dropout stays active.

    Args:
        model: e.g. a `Transformer`.
        source: (batch, source) integers; 0 is padding.
        start_token: the first token of every target.
        end_token: the last token of every target.
        max_length: maximum number of target tokens, including the end token but not the start token.

    Returns:
        tokens (batch, length) and their log-probabilities (batch,). Padding is never predicted. Of tokens that are
        equally probable, the first in the vocabulary is chosen.

    Raises:
        ValueError: max_length is below 1, the start or end token is the padding token, or the end token is not in the
            vocabulary.
        TypeError: max_length or a token is not an integer.

    >>> import torch
    >>> from molattn.sequence import greedy_search
    >>> class Chain:  # 10 P(next token | token), a row for each token; 1 is the start token, 2 the end token
    ...     p = torch.tensor([[0, 0, 10, 0, 0], [0, 0, 0, 6, 4], [0, 0, 10, 0, 0], [0, 0, 5, 3, 2], [0, 0, 9, 1, 0]])
    ...     init_state = lambda self, source: None
    ...     step = lambda self, tokens, state: (self.p[tokens].log(), state)
    >>> found = greedy_search(Chain(), torch.tensor([[5]]), start_token=1, end_token=2, max_length=4)
    >>> found.tokens.tolist(), round(found.scores.exp().item(), 2)  # 0.6 * 0.5; 4 and 2 have 0.4 * 0.9
    ([[3, 2]], 0.3)
    """
    _check_arguments(start_token, end_token, max_length)
    state = model.init_state(source)
    last = source.new_full((len(source),), start_token)
    ended = torch.zeros_like(last, dtype=torch.bool)
    columns, scores = [], None
    while len(columns) < max_length and not ended.all():
        log_p, state = _next_log_p(model, last, state, end_token)
        best, last = log_p.max(-1)
        best, last = best.masked_fill(ended, 0.0), last.masked_fill(ended, PAD)
        scores = best if scores is None else scores + best
        columns.append(last)
        ended = ended | (last == end_token)
    if scores is None:
        return DecodedSequences(source.new_empty(0, 0), torch.empty(0, device=source.device))
    return DecodedSequences(torch.stack(columns, dim=-1), scores)


@torch.no_grad()
def beam_search(
    model: StepDecoder,
    source: Int[Tensor, "b m"],
    *,
    beam_size: int,
    start_token: int,
    end_token: int,
    max_length: int,
    length_penalty: float = 1.0,
) -> DecodedSequences:
    """Beam search: the `beam_size` most probable partial sequences at each step.

    score(y) = log P(y | source) / |y|^length_penalty

    At every step each partial sequence is extended by every token. Those of the best `beam_size` extensions that end
    with the end token are finished, and the search continues with the best `beam_size` extensions without it. The
    search of a source ends when `beam_size` sequences are finished. At `max_length`, if fewer are finished, the best
    unfinished sequences are returned after them. With `beam_size=1` this is greedy search, up to rounding. Of equally
    probable extensions, those of the better partial sequence come first, and then the order of the vocabulary.

    Put the model in evaluation mode first, or dropout stays active.

    Args:
        model, source, start_token, end_token, max_length: as in `greedy_search`.
        beam_size: number of partial sequences at each step, and of sequences returned.
        length_penalty: 0 ranks by log-probability, which favours short sequences; 1 by its mean per token. |y|
            counts the end token but not the start token.

    Returns:
        tokens (batch, beam_size, length) and scores (batch, beam_size), best first, finished sequences
        before unfinished ones.

    Raises:
        ValueError: beam_size or max_length is below 1, length_penalty is not finite or too large for max_length, the
            start or end token is the padding token, or the end token is not in the vocabulary.
        TypeError: beam_size, max_length or a token is not an integer.

    Source: Wu et al. 2016, arXiv:1609.08144, section 7, for length normalization; the plain power of the
    length is that of their first experiments.

    >>> import torch
    >>> from molattn.sequence import beam_search
    >>> class Chain:  # 10 P(next token | token), a row for each token; 1 is the start token, 2 the end token
    ...     p = torch.tensor([[0, 0, 10, 0, 0], [0, 0, 0, 6, 4], [0, 0, 10, 0, 0], [0, 0, 5, 3, 2], [0, 0, 9, 1, 0]])
    ...     init_state = select = lambda self, _: self  # no state
    ...     step = lambda self, tokens, state: (self.p[tokens].log(), state)
    >>> source, ends = torch.tensor([[5]]), {"start_token": 1, "end_token": 2, "max_length": 4}
    >>> found = beam_search(Chain(), source, beam_size=2, length_penalty=0.0, **ends)
    >>> found.tokens.tolist(), [round(p, 2) for p in found.scores[0].exp().tolist()]  # greedy search finds the second
    ([[[4, 2], [3, 2]]], [0.36, 0.3])
    """
    _check_arguments(start_token, end_token, max_length)
    if not isinstance(beam_size, Integral):
        raise TypeError(f"beam_size is an integer, not {beam_size!r}")
    if beam_size < 1:
        raise ValueError(f"beam_size must be at least 1, got {beam_size}")
    if not math.isfinite(length_penalty):
        raise ValueError(f"length_penalty is a finite number, not {length_penalty}")
    if abs(length_penalty) * math.log(max_length) > MAX_LOG:
        raise ValueError(f"length_penalty {length_penalty} is too large for {max_length} tokens: it overflows")
    b, device = len(source), source.device
    state = model.init_state(source).select(torch.arange(b, device=device).repeat_interleave(beam_size))
    last = source.new_full((b * beam_size,), start_token)
    no_scores = torch.full((b, beam_size), -torch.inf, device=device)
    finished = _FinishedSequences(source.new_empty(b, beam_size, 0), no_scores)
    # All partial sequences are equal at first: only the first has a probability, or the beam would have duplicates.
    log_p_so_far = torch.full((b, beam_size), -torch.inf, device=device)
    log_p_so_far[:, 0] = 0.0
    so_far = source.new_empty(b, beam_size, 0)
    batch_index = torch.arange(b, device=device)[:, None]

    for length in range(1, max_length + 1):
        if finished.all_found().all():
            break
        log_p, state = _next_log_p(model, last, state, end_token)
        vocab = log_p.shape[-1]
        total = log_p_so_far.to(log_p.dtype)[:, :, None] + log_p.unflatten(0, (b, beam_size))
        # Each partial sequence has one extension that ends, so of 2 beam_size extensions at least beam_size continue.
        best, index = _stable_topk(total.flatten(1), min(2 * beam_size, beam_size * vocab))
        parent, token = index // vocab, index % vocab
        ends = token == end_token
        tokens = torch.cat([so_far[batch_index, parent], token[:, :, None]], dim=-1)

        new = best[:, :beam_size].masked_fill(~ends[:, :beam_size] | finished.all_found()[:, None], -torch.inf)
        finished = finished.pad_by_one().merge(tokens[:, :beam_size], new / length**length_penalty)

        # A stable sort keeps the order by probability among those that continue.
        continuing = ends.int().argsort(dim=-1, stable=True)[:, :beam_size]
        log_p_so_far = best.gather(1, continuing).masked_fill(ends.gather(1, continuing), -torch.inf)
        so_far, last = tokens[batch_index, continuing], token.gather(1, continuing).flatten()
        state = state.select((batch_index * beam_size + parent.gather(1, continuing)).flatten())
        if length == max_length:
            finished = finished.fill_up(so_far, log_p_so_far / length**length_penalty)
    return DecodedSequences(finished.tokens.masked_fill(finished.scores.isinf()[:, :, None], PAD), finished.scores)


@dataclass(frozen=True)
class _FinishedSequences:
    """The best finished sequences so far: tokens (batch, beam_size, length), scores (batch, beam_size), best first."""

    tokens: Tensor
    scores: Tensor

    def all_found(self) -> Tensor:
        """(batch,), True if there are beam_size of them."""
        return self.scores.isfinite().all(-1)

    def pad_by_one(self) -> "_FinishedSequences":
        """The same sequences with one more column of padding."""
        return _FinishedSequences(torch.nn.functional.pad(self.tokens, (0, 1), value=PAD), self.scores)

    def merge(self, tokens: Tensor, scores: Tensor) -> "_FinishedSequences":
        """The best beam_size of these sequences and of others with these tokens and scores."""
        beam_size = self.scores.shape[-1]
        all_scores = torch.cat([self.scores.to(scores.dtype), scores], dim=-1)
        # A stable sort, not topk: the order of equal scores must not depend on the batch.
        scores, index = all_scores.sort(dim=-1, descending=True, stable=True)
        tokens = torch.cat([self.tokens, tokens], dim=1)
        batch_index = torch.arange(len(tokens), device=tokens.device)[:, None]
        return _FinishedSequences(tokens[batch_index, index[:, :beam_size]], scores[:, :beam_size])

    def fill_up(self, tokens: Tensor, scores: Tensor) -> "_FinishedSequences":
        """These sequences, followed by as many of others, which are sorted by score, as are missing to beam_size."""
        free = self.scores.isinf()
        nth = (free.cumsum(-1) - 1).clamp(min=0)
        batch_index = torch.arange(len(tokens), device=tokens.device)[:, None]
        return _FinishedSequences(
            torch.where(free[:, :, None], tokens[batch_index, nth], self.tokens),
            torch.where(free, scores.gather(1, nth), self.scores),
        )


def _stable_topk(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest numbers of each row and their indices, in descending order; of equal numbers the first ones.

    `torch.topk` chooses any of the numbers that are equal to the smallest one, and returns equal ones in any order.
    """
    values, index = x.topk(k, dim=-1)
    if ((x >= values[:, -1:]).sum(-1) > k).any():
        values, index = x.sort(dim=-1, descending=True, stable=True)
        return values[:, :k], index[:, :k]
    by_index = index.argsort(dim=-1)
    values, index = values.gather(1, by_index), index.gather(1, by_index)
    values, order = values.sort(dim=-1, descending=True, stable=True)
    return values, index.gather(1, order)


def _next_log_p(model: StepDecoder, last: Tensor, state: Any, end_token: int) -> tuple[Tensor, Any]:
    """The log-probabilities of the next token, minus infinity for padding, and the new state."""
    logits, state = model.step(last, state)
    if not 0 < end_token < logits.shape[-1]:
        raise ValueError(f"the end token {end_token} is not in the vocabulary of {logits.shape[-1]} tokens")
    # float32, as the sum over the tokens of a sequence would stop growing with 16 bits.
    log_p = torch.log_softmax(logits, dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    log_p[:, PAD] = -torch.inf
    return log_p, state


def _check_arguments(start_token: object, end_token: object, max_length: object) -> None:
    if not isinstance(max_length, Integral):
        raise TypeError(f"max_length is an integer, not {max_length!r}")
    if max_length < 1:
        raise ValueError(f"max_length must be at least 1, got {max_length}")
    for name, token in (("start_token", start_token), ("end_token", end_token)):
        if not isinstance(token, Integral):
            raise TypeError(f"{name} is an integer, not {token!r}")
    if PAD in (start_token, end_token):
        raise ValueError(f"token {PAD} is padding: it cannot be the start or end token")
