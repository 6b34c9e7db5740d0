"""Luong's encoder-decoder: the decoder moves, then asks where to look."""

from dataclasses import dataclass
from typing import Literal, overload

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from molattn.attention import Score, attend, make_score
from molattn.sequence.masks import PAD
from molattn.sequence.recurrent import (
    Hidden,
    RecurrentEncoder,
    fixed_keys,
    make_cell,
    run_cell,
    score_of_fixed,
    unroll,
)

# The paper's names of the scores, and the core's.
LUONG_SCORES = {"dot": "dot", "general": "general", "concat": "additive", "location": "location"}


@dataclass(frozen=True)
class LuongState:
    """Decoding, after t target tokens.

    Attributes:
        memory: hs_j, what the encoder made of the source, (batch, source, hidden_dim).
        keys: what the score compares with, (batch, source, ...): the memory, or its projection for "concat".
        source_mask: (batch, 1, source), True where there is a token.
        hidden: of the decoder's recurrent layers, each (layers, batch, hidden_dim).
        attentional: a~_t, (batch, hidden_dim), fed to the next step.
    """

    memory: Float[Tensor, "b m c"]
    keys: Float[Tensor, "b m a"]
    source_mask: Bool[Tensor, "b 1 m"]
    hidden: Hidden
    attentional: Float[Tensor, "b d"]

    def select(self, rows: Int[Tensor, "k"]) -> "LuongState":
        """That of the given members of the batch, in that order; a member may come back several times."""
        hidden = tuple(h[:, rows] for h in self.hidden)
        return LuongState(self.memory[rows], self.keys[rows], self.source_mask[rows], hidden, self.attentional[rows])


class Luong(nn.Module):
    """Recurrent encoder-decoder with Luong's global attention.

    hs_j = stacked LSTM over the source;    the decoder starts from its last state, layer by layer
    h_t  = stacked LSTM over [E y_(t-1); a~_(t-1)]      a~_0 = 0; input feeding
    w_t  = softmax_j( score(h_t, hs_j) )
    c_t  = sum_j w_tj hs_j
    a~_t = tanh(W_c [c_t; h_t])                         the attentional vector
    logits_t = W_o a~_t + b_o                           of y_t

    Scores: dot h_t . hs_j; general h_t^T W hs_j; concat w . tanh(W [h_t; hs_j] + b); location (W h_t)_j, from the
    decoder's state alone. Token 0 is padding: it is not read in the source, and its place there is not looked at.

    Args:
        source_vocab, target_vocab: how many tokens there are, token 0 included.
        embed_dim: channels of a token's embedding.
        hidden_dim: channels of hs_j, h_t and a~_t.
        num_layers: recurrent layers, in the encoder and in the decoder.
        cell: "lstm" or "gru".
        score: a name of the paper's or of the core's, or a score.
        max_source_length: the most source tokens, padding included; the location score needs it.
        input_feeding: whether a~_(t-1) goes into step t.
        dropout: on the embeddings, between layers and on a~_t before the output, in training.

    Raises:
        ValueError: an unknown cell or score; the location score without max_source_length.

    Source: Luong et al. 2015, arXiv:1508.04025, sections 3.1 and 3.3.

    >>> model = Luong(source_vocab=11, target_vocab=13, embed_dim=6, hidden_dim=8, num_layers=2, score="concat")
    >>> source, target = torch.tensor([[3, 4, 5, 0]]), torch.tensor([[1, 6, 7]])
    >>> logits, alignment = model(source, target, return_weights=True)
    >>> tuple(logits.shape), tuple(alignment.shape)
    ((1, 3, 13), (1, 3, 4))
    """

    def __init__(
        self,
        source_vocab: int,
        target_vocab: int,
        embed_dim: int,
        hidden_dim: int,
        *,
        num_layers: int = 1,
        cell: str = "lstm",
        score: str | Score = "general",
        max_source_length: int | None = None,
        input_feeding: bool = True,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.input_feeding = input_feeding
        self.encoder = RecurrentEncoder(
            source_vocab, embed_dim, hidden_dim, num_layers=num_layers, cell=cell, dropout=dropout
        )
        self.embedding = nn.Embedding(target_vocab, embed_dim, padding_idx=PAD)
        fed = embed_dim + (hidden_dim if input_feeding else 0)
        self.rnn = make_cell(cell, fed, hidden_dim, num_layers, dropout=dropout if num_layers > 1 else 0.0)
        name = LUONG_SCORES.get(score, score) if isinstance(score, str) else score
        self.score = make_score(name, hidden_dim, hidden_dim, max_length=max_source_length)
        self.w_c = nn.Linear(2 * hidden_dim, hidden_dim, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden_dim, target_vocab)

    @overload
    def forward(self, source: Tensor, target: Tensor, return_weights: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(self, source: Tensor, target: Tensor, *, return_weights: Literal[True]) -> tuple[Tensor, Tensor]: ...

    def forward(
        self, source: Int[Tensor, "b m"], target: Int[Tensor, "b n"], return_weights: bool = False
    ) -> Float[Tensor, "b n vocab"] | tuple[Float[Tensor, "b n vocab"], Float[Tensor, "b n m"]]:
        """The logits of the token that follows each target token, given the source and the target up to there.

        Args:
            source: (batch, source) integers, padded at the end.
            target: (batch, target) integers, the first of which says "start".
            return_weights: also return the alignment.

        Returns:
            (batch, target, target_vocab); if asked for, also the alignment, (batch, target, source).

        Raises:
            ValueError: padding stands before a token of the source; the target has no token, not even "start"; with
                the location score, the source is longer than max_source_length.
        """
        vectors, alignment = unroll(self._advance, target, self.begin(source), return_weights)
        logits = self.output(vectors)
        return logits if alignment is None else (logits, alignment)

    def begin(self, source: Int[Tensor, "b m"]) -> LuongState:
        """Read the source, (batch, source): the state before the first target token."""
        memory, hidden = self.encoder(source)
        nothing = memory.new_zeros(len(memory), self.w_c.out_features)
        return LuongState(memory, fixed_keys(self.score, memory), (source != PAD)[:, None, :], hidden, nothing)

    def step(self, tokens: Int[Tensor, "b"], state: LuongState) -> tuple[Float[Tensor, "b vocab"], LuongState]:
        """One more target token, (batch,): the logits of the next one, (batch, target_vocab), and the state."""
        vector, state, _ = self._advance(tokens, state, False)
        return self.output(vector), state

    def _advance(
        self, tokens: Tensor, state: LuongState, return_weights: bool
    ) -> tuple[Tensor, LuongState, Tensor | None]:
        """a~_t, the state with it, and w_t if asked for."""
        x, weights = self.dropout(self.embedding(tokens)), None
        if self.input_feeding:
            x = torch.cat([x, state.attentional], dim=-1)
        h, hidden = run_cell(self.rnn, x[:, None, :], state.hidden)
        seen, score = (h, state.keys, state.memory, state.source_mask), score_of_fixed(self.score)
        if return_weights:
            c, weights = attend(*seen, score=score, return_weights=True)
            weights = weights[:, 0]
        else:
            c = attend(*seen, score=score)
        attentional = torch.tanh(self.w_c(torch.cat([c, h], dim=-1)))[:, 0]
        after = LuongState(state.memory, state.keys, state.source_mask, hidden, attentional)
        return self.dropout(attentional), after, weights
