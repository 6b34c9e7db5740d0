"""Decoding: from a model of the next token to whole sequences, greedily or with a beam."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from molattn.sequence.masks import PAD


@runtime_checkable
class DecodingState(Protocol):
    """What a model remembers between two tokens: a value, passed in and out."""

    def select(self, rows: Tensor) -> Any:
        """That of the given members of the batch, (k,) integers, in that order; one may come back several times."""
        ...


@runtime_checkable
class StepDecoder(Protocol):
    """What decoding asks of a model; the Transformer and the recurrent encoder-decoders all have it."""

    def begin(self, source: Tensor) -> Any:
        """The state (`DecodingState`) before the first target token, for source tokens (batch, source)."""
        ...

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One more target token, (batch,): the logits of the next one, (batch, vocab), and the state after it."""
        ...


@dataclass(frozen=True)
class Decoded:
    """What decoding found.

    Attributes:
        tokens: (batch, length) of greedy decoding, (batch, beam, length) of a beam, best first. Without the start
            token; with the end token unless `max_length` came first; filled up with 0.
        scores: (batch,) or (batch, beam); log P(tokens | source) / |tokens|^length_penalty. Minus infinity where
            a beam found fewer sequences than it may hold.
    """

    tokens: Int[Tensor, "*b length"]
    scores: Float[Tensor, "*b"]


@torch.no_grad()
def greedy(model: StepDecoder, source: Int[Tensor, "b m"], *, start: int, end: int, max_length: int) -> Decoded:
    """Greedy decoding: always the most probable next token.

    y_t = argmax_y P(y | y_<t, source)

    Put the model in evaluation mode first, or dropout will have its say.

    Args:
        model: e.g. a `Transformer`.
        source: (batch, source) integers, 0 being padding.
        start: the token that every target starts with.
        end: the token that ends one.
        max_length: the most tokens of a target, the end token included, the start token not.

    Returns:
        tokens (batch, length) and their log-probabilities (batch,). Padding is never predicted.

    Raises:
        ValueError: max_length is below 1, or the start or the end token is the padding.
    """
    _check(start, end, max_length)
    state = model.begin(source)
    last = source.new_full((len(source),), start)
    ended = torch.zeros_like(last, dtype=torch.bool)
    columns, scores = [], None
    while len(columns) < max_length and not ended.all():
        log_p, state = _next(model, last, state)
        best, last = log_p.max(-1)
        best, last = best.masked_fill(ended, 0.0), last.masked_fill(ended, PAD)
        scores = best if scores is None else scores + best
        columns.append(last)
        ended = ended | (last == end)
    if scores is None:
        return Decoded(source.new_empty(0, 0), torch.empty(0, device=source.device))
    return Decoded(torch.stack(columns, dim=-1), scores)


@torch.no_grad()
def beam_search(
    model: StepDecoder,
    source: Int[Tensor, "b m"],
    *,
    beam: int,
    start: int,
    end: int,
    max_length: int,
    length_penalty: float = 1.0,
) -> Decoded:
    """Beam search: the `beam` most probable beginnings are kept, step by step.

    score(y) = log P(y | source) / |y|^length_penalty

    At every step each beginning is continued by every token, and the best `beam` continuations are looked at: those
    with the end token are set aside as found, and the search goes on with the best `beam` of those without it. A
    source is done when `beam` sequences have been found. At `max_length`, sequences without an end fill the places
    that are left. With `beam=1` this is greedy decoding.

    Put the model in evaluation mode first, or dropout will have its say.

    Args:
        model, source, start, end, max_length: those of `greedy`.
        beam: how many beginnings are kept, and how many sequences are returned.
        length_penalty: 0 compares log-probabilities, which favours short sequences; 1 their mean per token. |y|
            counts the end token and not the start token.

    Returns:
        tokens (batch, beam, length) and scores (batch, beam), best first, sequences with an end before those without.

    Raises:
        ValueError: beam or max_length is below 1, or the start or the end token is the padding.

    Source: Wu et al. 2016, arXiv:1609.08144, section 7, for normalising by length; the power itself is the simpler
    one of their first experiments.
    """
    _check(start, end, max_length)
    if beam < 1:
        raise ValueError(f"a beam keeps at least one beginning, got {beam}")
    b, device = len(source), source.device
    state = model.begin(source).select(torch.arange(b, device=device).repeat_interleave(beam))
    last = source.new_full((b * beam,), start)
    found = _Found(source.new_empty(b, beam, 0), torch.full((b, beam), -torch.inf, device=device))
    # The beginnings start out all alike: only the first of them counts, or the beam would hold copies.
    log_p_so_far = torch.full((b, beam), -torch.inf, device=device)
    log_p_so_far[:, 0] = 0.0
    so_far = source.new_empty(b, beam, 0)
    members = torch.arange(b, device=device)[:, None]

    for length in range(1, max_length + 1):
        if found.done().all():
            break
        log_p, state = _next(model, last, state)
        vocab = log_p.shape[-1]
        total = log_p_so_far.to(log_p.dtype)[:, :, None] + log_p.unflatten(0, (b, beam))
        # At most `beam` of these end, so at least `beam` go on.
        best, index = total.flatten(1).topk(min(2 * beam, beam * vocab), dim=-1)
        parent, token = index // vocab, index % vocab
        ends = token == end
        tokens = torch.cat([so_far[members, parent], token[:, :, None]], dim=-1)

        new = best[:, :beam].masked_fill(~ends[:, :beam] | found.done()[:, None], -torch.inf)
        found = found.grown().with_also(tokens[:, :beam], new / length**length_penalty)

        # A stable sort keeps the order of the probabilities among those that go on.
        going_on = ends.int().argsort(dim=-1, stable=True)[:, :beam]
        log_p_so_far = best.gather(1, going_on).masked_fill(ends.gather(1, going_on), -torch.inf)
        so_far, last = tokens[members, going_on], token.gather(1, going_on).flatten()
        state = state.select((members * beam + parent.gather(1, going_on)).flatten())
        if length == max_length:
            found = found.filled_up(so_far, log_p_so_far / length**length_penalty)
    return Decoded(found.tokens.masked_fill(found.scores.isinf()[:, :, None], PAD), found.scores)


@dataclass(frozen=True)
class _Found:
    """The best sequences found so far: tokens (batch, beam, length) and scores (batch, beam), best first."""

    tokens: Tensor
    scores: Tensor

    def done(self) -> Tensor:
        """(batch,), True where there are as many as a beam may hold."""
        return self.scores.isfinite().all(-1)

    def grown(self) -> "_Found":
        """The same, one token of padding longer."""
        return _Found(torch.nn.functional.pad(self.tokens, (0, 1), value=PAD), self.scores)

    def with_also(self, tokens: Tensor, scores: Tensor) -> "_Found":
        """The best of these and those."""
        beam = self.scores.shape[-1]
        every = torch.cat([self.scores.to(scores.dtype), scores], dim=-1)
        # Sorted stably, not topk: which of two equal scores comes first must not depend on the batch.
        scores, index = every.sort(dim=-1, descending=True, stable=True)
        tokens = torch.cat([self.tokens, tokens], dim=1)
        members = torch.arange(len(tokens), device=tokens.device)[:, None]
        return _Found(tokens[members, index[:, :beam]], scores[:, :beam])

    def filled_up(self, tokens: Tensor, scores: Tensor) -> "_Found":
        """These, and in the places that are left the first of those, which are sorted."""
        free = self.scores.isinf()
        nth = (free.cumsum(-1) - 1).clamp(min=0)
        members = torch.arange(len(tokens), device=tokens.device)[:, None]
        return _Found(
            torch.where(free[:, :, None], tokens[members, nth], self.tokens),
            torch.where(free, scores.gather(1, nth), self.scores),
        )


def _next(model: StepDecoder, last: Tensor, state: Any) -> tuple[Tensor, Any]:
    """The log-probabilities of the next token, that of padding zero, and the state."""
    logits, state = model.step(last, state)
    log_p = torch.log_softmax(logits, dim=-1)
    log_p[:, PAD] = -torch.inf
    return log_p, state


def _check(start: int, end: int, max_length: int) -> None:
    if max_length < 1:
        raise ValueError(f"max_length counts at least the end token, got {max_length}")
    if PAD in (start, end):
        raise ValueError(f"token {PAD} is padding: it can neither start nor end a sequence")
