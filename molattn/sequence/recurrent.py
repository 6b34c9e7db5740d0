"""Shared parts of the recurrent encoder-decoders: the encoder, attention to its output, and the decoder's steps."""

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, overload

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from molattn.attention import Additive, Score, attend
from molattn.attention.arguments import check_sizes
from molattn.attention.unmodified import are_unmodified
from molattn.errors import unknown_choice
from molattn.sequence.embedding import PAD, check_tokens

Hidden = tuple[Tensor, ...]
"""The hidden state: h of a GRU, or h and c of an LSTM, each (layers * directions, batch, hidden_dim)."""
State = TypeVar("State")


@dataclass(frozen=True)
class RecurrentState:
    """What the decoding states of the recurrent encoder-decoders have in common.

    Attributes:
        memory: h_j, the encoder output, (batch, source, channels).
        keys: the keys of the score, (batch, source, ...): the memory, or its projection for the additive score.
        source_mask: (batch, 1, source), True for tokens, False for padding.
    """

    memory: Float[Tensor, "b m c"]
    keys: Float[Tensor, "b m a"]
    source_mask: Bool[Tensor, "b 1 m"]


CELLS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}
"""torch's recurrent layers by name, for the argument `cell` of `Luong` and `RecurrentEncoder`."""


def make_rnn(cell: str, input_dim: int, hidden_dim: int, num_layers: int, **settings) -> nn.GRU | nn.LSTM:
    """A batch-first stack of recurrent layers, from the name of its cell in `CELLS`; `settings` are those of torch.

    Raises:
        ValueError: the cell is unknown.
    """
    if cell not in CELLS:
        raise ValueError(unknown_choice("cell", cell, CELLS))
    return CELLS[cell](input_dim, hidden_dim, num_layers, batch_first=True, **settings)


def run_rnn(rnn: nn.GRU | nn.LSTM, x: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
    """Runs `rnn` over x, (batch, n, input_dim), from `hidden`: the last layer's output and the new hidden state."""
    if isinstance(rnn, nn.LSTM):
        h, c = hidden
        return rnn(x, (h, c))
    y, h = rnn(x, hidden[0])
    return y, (h,)


def source_lengths(source: Int[Tensor, "b m"]) -> Int[Tensor, "b"]:
    """The number of tokens of each source, without padding.

    Raises:
        ValueError: there is padding before a token, which a recurrent encoder would have to read.
    """
    is_token = source != PAD
    if (is_token[:, 1:] & ~is_token[:, :-1]).any():
        raise ValueError(f"padding (token {PAD}) before a token: a recurrent encoder needs sources padded at the end")
    return is_token.sum(-1)


class RecurrentEncoder(nn.Module):
    """A recurrent encoder of packed sequences: padding is skipped.

    h_j = f(h_(j-1), E x_j); if bidirectional, concatenated with the same in the backward direction

    Args:
        vocab: vocabulary size, including token 0 (padding).
        embed_dim: channels of the token embeddings.
        hidden_dim: channels of h in one direction.
        num_layers: number of stacked recurrent layers.
        cell: f, "gru" or "lstm". torch's GRU applies the reset gate after the product with the recurrent matrix, Cho et
            al. before it.
        bidirectional: whether the source is read in both directions.
        dropout: dropout probability of the embeddings and between recurrent layers, in training.

    Raises:
        ValueError: the cell is unknown; a size is below 1; dropout is not in [0, 1].

    Source: Cho et al. 2014, arXiv:1406.1078, for the GRU; Hochreiter & Schmidhuber 1997,
    doi:10.1162/neco.1997.9.8.1735, for the LSTM.

    >>> import torch
    >>> from molattn.sequence import RecurrentEncoder
    >>> encoder = RecurrentEncoder(vocab=10, embed_dim=4, hidden_dim=8)
    >>> memory, (last,) = encoder(torch.tensor([[3, 5, 0], [4, 6, 7]]))
    >>> tuple(memory.shape), memory[0, 2].any().item()
    ((2, 3, 8), False)
    >>> torch.allclose(last[0, 0], memory[0, 1])  # of the last token, not of the padding
    True
    """

    def __init__(
        self,
        vocab: int,
        embed_dim: int,
        hidden_dim: int,
        *,
        num_layers: int = 1,
        cell: str = "gru",
        bidirectional: bool = False,
        dropout: float = 0.0,
    ):
        super().__init__()
        check_sizes(vocab=vocab, embed_dim=embed_dim, hidden_dim=hidden_dim, num_layers=num_layers)
        self.memory_dim = hidden_dim * (2 if bidirectional else 1)
        self.embedding = nn.Embedding(vocab, embed_dim, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        rnn_dropout = dropout if num_layers > 1 else 0.0  # torch warns of dropout between layers if there is one layer
        self.rnn = make_rnn(cell, embed_dim, hidden_dim, num_layers, bidirectional=bidirectional, dropout=rnn_dropout)

    def forward(self, source: Int[Tensor, "b m"]) -> tuple[Float[Tensor, "b m c"], Hidden]:
        """Encodes the source.

        Args:
            source: (batch, source) integers, padded at the end with 0.

        Returns:
            The memory (batch, source, memory_dim), zeros at padding, and the last hidden state, each tensor
            (layers * directions, batch, hidden_dim); that of the backward direction is at the first token. A source
            of padding alone gives zeros.

        Raises:
            ValueError: the source has another shape; there is padding before a token.
        """
        check_tokens(source=source)
        lengths = source_lengths(source)
        x = self.dropout(self.embedding(source))
        if not source.numel():
            return self._empty_output(x)
        # pack_padded_sequence needs lengths of at least 1; outputs of empty sources are zeroed below.
        packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        packed, last = self.rnn(packed)
        memory, _ = pad_packed_sequence(packed, batch_first=True, total_length=source.shape[1])
        empty = (lengths == 0)[:, None]
        hidden = (last,) if isinstance(last, Tensor) else last
        return memory.masked_fill(empty[:, :, None], 0.0), tuple(h.masked_fill(empty, 0.0) for h in hidden)

    def _empty_output(self, x: Tensor) -> tuple[Tensor, Hidden]:
        """The memory and the hidden state of a batch without tokens: zeros."""
        rnn, b = self.rnn, len(x)
        h = x.new_zeros(rnn.num_layers * (2 if rnn.bidirectional else 1), b, rnn.hidden_size)
        return x.new_zeros(*x.shape[:2], self.memory_dim), (h, h) if isinstance(rnn, nn.LSTM) else (h,)


def precompute_keys(score: Score, memory: Tensor) -> Tensor:
    """The keys of `RecurrentState`, computed once for all target tokens: the memory, or its projection if additive.

    An additive score with a hook, or of a subclass, is called with the memory.
    """
    return score.w_k(memory) if isinstance(score, Additive) and are_unmodified(Additive, score) else memory


def attend_to_memory(
    score: Score, query: Tensor, state: RecurrentState, return_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """The context of one query and, with `return_weights`, its attention weights.

    c = sum_j softmax_j(score(query, key_j)) memory_j

    Args:
        score: of the query and the keys of `state`.
        query: (batch, 1, channels).
        state: the memory, its keys and its mask.
        return_weights: also return the weights.

    Returns:
        (batch, 1, channels of the memory), and the weights (batch, source), or None without `return_weights`.

    Raises:
        ValueError: with the location score, the source is longer than its maximum.
    """
    # The keys are projected already; `Additive.forward` would project them again for every target token.
    if isinstance(score, Additive) and are_unmodified(Additive, score):
        score = score.forward_projected
    inputs = query, state.keys, state.memory, state.source_mask
    if not return_weights:
        return attend(*inputs, score=score), None
    context, weights = attend(*inputs, score=score, return_weights=True)
    return context, weights[:, 0]


class RecurrentDecoder(nn.Module, Generic[State]):
    """The base class of the recurrent encoder-decoders: decoding step by step, and the logits of each step."""

    output: nn.Linear

    def init_state(self, source: Int[Tensor, "b m"]) -> State:
        """Encodes the source, (batch, source): the state before the first target token.

        Raises:
            NotImplementedError: the subclass does not define it.
        """
        raise NotImplementedError

    def _decode_step(self, tokens: Tensor, state: State, return_weights: bool) -> tuple[Tensor, State, Tensor | None]:
        """The features of one target token, (batch, c), the new state, and the weights or None."""
        raise NotImplementedError

    @overload
    def forward(self, source: Tensor, target: Tensor, return_weights: Literal[False] = False) -> Tensor: ...

    @overload
    def forward(self, source: Tensor, target: Tensor, *, return_weights: Literal[True]) -> tuple[Tensor, Tensor]: ...

    def forward(
        self, source: Int[Tensor, "b m"], target: Int[Tensor, "b n"], return_weights: bool = False
    ) -> Float[Tensor, "b n vocab"] | tuple[Float[Tensor, "b n vocab"], Float[Tensor, "b n m"]]:
        """The logits of the next token after each target token.

        Args:
            source: (batch, source) integers, padded at the end.
            target: (batch, target) integers, beginning with the start token.
            return_weights: also return the alignment.

        Returns:
            (batch, target, target_vocab); with `return_weights` also the alignment, (batch, target, source).

        Raises:
            ValueError: source or target has another shape, or their numbers differ; the source has padding before a
                token; the target is empty; with the location score, the source is longer than its maximum.
        """
        check_tokens(source=source, target=target)
        if not target.shape[1]:
            raise ValueError("an empty target: it needs at least the start token")
        state, features, alignment = self.init_state(source), [], []
        for tokens in target.unbind(-1):
            x, state, weights = self._decode_step(tokens, state, return_weights)
            features.append(x)
            if weights is not None:
                alignment.append(weights)
        logits = self.output(torch.stack(features, dim=1))
        return (logits, torch.stack(alignment, dim=1)) if return_weights else logits

    def step(self, tokens: Int[Tensor, "b"], state: State) -> tuple[Float[Tensor, "b vocab"], State]:
        """Consumes one target token: the logits of the next one and the new state.

        Args:
            tokens: (batch,) integers.
            state: from `init_state` or the previous step.

        Returns:
            (batch, target_vocab), and the state after this token.

        Raises:
            ValueError: with the location score, the source is longer than its maximum.
        """
        features, state, _ = self._decode_step(tokens, state, False)
        return self.output(features), state
