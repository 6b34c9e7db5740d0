"""Bahdanau's and Luong's encoder-decoders: attention before the recurrent step, and after it."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from molattn.attention import SCORES, SCORES_WITH_WEIGHTS, Additive, Score, make_score
from molattn.attention.arguments import check_sizes
from molattn.errors import unknown_choice
from molattn.sequence.embedding import PAD
from molattn.sequence.recurrent import (
    Hidden,
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentState,
    attend_to_memory,
    make_rnn,
    precompute_keys,
    run_rnn,
)


@dataclass(frozen=True)
class BahdanauState(RecurrentState):
    """The decoding state after t target tokens.

    Attributes:
        memory: h_j, the encoder output, (batch, source, 2 * hidden_dim).
        keys: W_k h_j + b, computed once, (batch, source, attention_dim).
        source_mask: (batch, 1, source), True for tokens, False for padding.
        s: s_t, (batch, hidden_dim).

    >>> import torch
    >>> from molattn.sequence import Bahdanau
    >>> model = Bahdanau(source_vocab=11, target_vocab=13, embed_dim=6, hidden_dim=8)
    >>> state = model.init_state(torch.tensor([[3, 4, 5, 0]]))
    >>> tuple(state.memory.shape), state.source_mask.flatten().tolist()
    ((1, 4, 16), [True, True, True, False])
    >>> tuple(state.select(torch.tensor([0, 0])).s.shape)
    (2, 8)
    """

    s: Float[Tensor, "b d"]

    def select(self, rows: Int[Tensor, "k"]) -> "BahdanauState":
        """The state of these `rows` of the batch, (k,) integers, in that order; rows may be repeated."""
        return BahdanauState(self.memory[rows], self.keys[rows], self.source_mask[rows], self.s[rows])


class Bahdanau(RecurrentDecoder[BahdanauState]):
    """Recurrent encoder-decoder with Bahdanau's attention.

    h_j = [->h_j; <-h_j]                                a bidirectional GRU over the source
    s_0 = tanh(W_s <-h_1 + b_s)
    a_t = softmax_j( w . tanh(W_q s_(t-1) + W_k h_j + b) )
    c_t = sum_j a_tj h_j
    s_t = GRU([E y_(t-1); c_t], s_(t-1))
    r_t = maxout(W_r [s_t; E y_(t-1); c_t] + b_r)       the maximum of each pair of adjacent channels
    logits_t = W_o r_t + b_o                            of y_t

    The output depends on s_t, as in the paper's equation 4, not on s_(t-1), as in its appendix. Token 0 is padding: it
    is not encoded in the source, and not attended to.

    Args:
        source_vocab, target_vocab: vocabulary sizes, including token 0.
        embed_dim: channels of the token embeddings.
        hidden_dim: channels of s_t, and of h_j in one direction.
        attention_dim: hidden channels of the additive score; hidden_dim by default.
        readout_dim: channels of r_t; hidden_dim by default.
        dropout: dropout probability of the embeddings and of r_t, in training.

    Raises:
        ValueError: a size is below 1; dropout is not in [0, 1].

    Source: Bahdanau et al. 2015, arXiv:1409.0473. The GRU is torch's, with the reset gate after the recurrent
    matrix.

    >>> import torch
    >>> from molattn.sequence import Bahdanau
    >>> model = Bahdanau(source_vocab=11, target_vocab=13, embed_dim=6, hidden_dim=8)
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
        attention_dim: int | None = None,
        readout_dim: int | None = None,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_sizes(target_vocab=target_vocab, attention_dim=attention_dim, readout_dim=readout_dim)
        memory_dim, readout_dim = 2 * hidden_dim, hidden_dim if readout_dim is None else readout_dim
        self.encoder = RecurrentEncoder(source_vocab, embed_dim, hidden_dim, bidirectional=True, dropout=dropout)
        self.w_s = nn.Linear(hidden_dim, hidden_dim)
        self.embedding = nn.Embedding(target_vocab, embed_dim, padding_idx=PAD)
        self.score = Additive(hidden_dim, memory_dim, hidden_dim if attention_dim is None else attention_dim)
        self.cell = nn.GRUCell(embed_dim + memory_dim, hidden_dim)
        self.w_r = nn.Linear(hidden_dim + embed_dim + memory_dim, 2 * readout_dim)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(readout_dim, target_vocab)

    def init_state(self, source: Int[Tensor, "b m"]) -> BahdanauState:
        """Encodes the source, (batch, source): the state before the first target token.

        Raises:
            ValueError: the source has another shape; there is padding before a token.
        """
        memory, (last,) = self.encoder(source)
        s = torch.tanh(self.w_s(last[1]))
        return BahdanauState(memory, precompute_keys(self.score, memory), (source != PAD)[:, None, :], s)

    def _decode_step(
        self, tokens: Tensor, state: BahdanauState, return_weights: bool
    ) -> tuple[Tensor, BahdanauState, Tensor | None]:
        """r_t, the state with s_t, and a_t (None without `return_weights`)."""
        y = self.dropout(self.embedding(tokens))
        c, weights = attend_to_memory(self.score, state.s[:, None, :], state, return_weights)
        c = c[:, 0]
        s = self.cell(torch.cat([y, c], dim=-1), state.s)
        r = self.w_r(torch.cat([s, y, c], dim=-1)).unflatten(-1, (-1, 2)).amax(-1)
        return self.dropout(r), replace(state, s=s), weights


LUONG_SCORES = {"dot": "dot", "general": "general", "concat": "additive", "location": "location"}
"""The scores of `Luong`, from the paper's names to the names in `molattn.attention`."""


@dataclass(frozen=True)
class LuongState(RecurrentState):
    """The decoding state after t target tokens.

    Attributes:
        memory: hs_j, the encoder output, (batch, source, hidden_dim).
        keys: the keys of the score, (batch, source, ...): the memory, or its projection for "concat".
        source_mask: (batch, 1, source), True for tokens, False for padding.
        hidden: hidden state of the decoder's recurrent layers: h of a GRU, or h and c of an LSTM, each
            (layers, batch, hidden_dim).
        attentional: a~_t, (batch, hidden_dim), fed to the next step.

    >>> import torch
    >>> from molattn.sequence import Luong
    >>> model = Luong(source_vocab=11, target_vocab=13, embed_dim=6, hidden_dim=8, num_layers=2)
    >>> logits, state = model.step(torch.tensor([1]), model.init_state(torch.tensor([[3, 4, 5]])))
    >>> tuple(state.attentional.shape), [tuple(h.shape) for h in state.hidden]  # h and c of the LSTM
    ((1, 8), [(2, 1, 8), (2, 1, 8)])
    """

    hidden: Hidden
    attentional: Float[Tensor, "b d"]

    def select(self, rows: Int[Tensor, "k"]) -> "LuongState":
        """The state of these `rows` of the batch, (k,) integers, in that order; rows may be repeated."""
        hidden = tuple(h[:, rows] for h in self.hidden)
        return LuongState(self.memory[rows], self.keys[rows], self.source_mask[rows], hidden, self.attentional[rows])


class Luong(RecurrentDecoder[LuongState]):
    """Recurrent encoder-decoder with Luong's global attention.

    hs_j = stacked LSTM over the source                 its last state is the decoder's first one, layer by layer
    h_t  = stacked LSTM over [E y_(t-1); a~_(t-1)]      with a~_0 = 0; a~_(t-1) only with input feeding
    w_t  = softmax_j( score(h_t, hs_j) )
    c_t  = sum_j w_tj hs_j
    a~_t = tanh(W_c [c_t; h_t])                         the attentional vector
    logits_t = W_o a~_t + b_o                           of y_t

    Scores: dot h_t . hs_j; general h_t^T W hs_j; concat w . tanh(W [h_t; hs_j] + b); location (W h_t)_j, which depends
    on the position j and not on hs_j. Token 0 is padding: it is not encoded in the source, and not attended to.

    Args:
        source_vocab, target_vocab: vocabulary sizes, including token 0.
        embed_dim: channels of the token embeddings.
        hidden_dim: channels of hs_j, h_t and a~_t.
        num_layers: number of recurrent layers in the encoder and in the decoder.
        cell: "lstm" or "gru".
        score: a name in `LUONG_SCORES` or of `molattn.attention`, or a callable.
        max_source_length: maximum source length, including padding; required by the location score.
        input_feeding: whether a~_(t-1) is an input of step t.
        dropout: dropout probability of the embeddings, between recurrent layers and of a~_t before the output, in
            training.

    Raises:
        ValueError: the cell or score is unknown; the location score has no max_source_length; a size is below 1;
            dropout is not in [0, 1].

    Source: Luong et al. 2015, arXiv:1508.04025, sections 3.1 and 3.3.

    >>> import torch
    >>> from molattn.sequence import Luong
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
        check_sizes(target_vocab=target_vocab)
        self.input_feeding = input_feeding
        self.encoder = RecurrentEncoder(
            source_vocab, embed_dim, hidden_dim, num_layers=num_layers, cell=cell, dropout=dropout
        )
        self.embedding = nn.Embedding(target_vocab, embed_dim, padding_idx=PAD)
        input_dim = embed_dim + (hidden_dim if input_feeding else 0)
        self.rnn = make_rnn(cell, input_dim, hidden_dim, num_layers, dropout=dropout if num_layers > 1 else 0.0)
        names = {**LUONG_SCORES, **{name: name for name in (*SCORES, *SCORES_WITH_WEIGHTS)}}
        if isinstance(score, str):
            if score not in names:
                raise ValueError(unknown_choice("score", score, names, "a function"))
            score = names[score]
        self.score = make_score(score, hidden_dim, hidden_dim, max_length=max_source_length)
        self.w_c = nn.Linear(2 * hidden_dim, hidden_dim, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(hidden_dim, target_vocab)

    def init_state(self, source: Int[Tensor, "b m"]) -> LuongState:
        """Encodes the source, (batch, source): the state before the first target token.

        Raises:
            ValueError: the source has another shape; there is padding before a token.
        """
        memory, hidden = self.encoder(source)
        attentional = memory.new_zeros(len(memory), self.rnn.hidden_size)
        return LuongState(memory, precompute_keys(self.score, memory), (source != PAD)[:, None, :], hidden, attentional)

    def _decode_step(
        self, tokens: Tensor, state: LuongState, return_weights: bool
    ) -> tuple[Tensor, LuongState, Tensor | None]:
        """a~_t, the state with a~_t, and w_t (None without `return_weights`)."""
        x = self.dropout(self.embedding(tokens))
        if self.input_feeding:
            x = torch.cat([x, state.attentional], dim=-1)
        h, hidden = run_rnn(self.rnn, x[:, None, :], state.hidden)
        c, weights = attend_to_memory(self.score, h, state, return_weights)
        attentional = torch.tanh(self.w_c(torch.cat([c, h], dim=-1)))[:, 0]
        return self.dropout(attentional), replace(state, hidden=hidden, attentional=attentional), weights
