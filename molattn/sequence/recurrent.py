"""Shared parts of the recurrent encoder-decoders: the encoder, precomputed keys, and unrolling over the target."""

from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from molattn.attention import Additive, Score
from molattn.sequence.masks import PAD

# The h of a GRU, or the h and the c of an LSTM, each (layers, batch, hidden_dim).
Hidden = tuple[Tensor, ...]
State = TypeVar("State")

CELLS: dict[str, type[nn.GRU] | type[nn.LSTM]] = {"gru": nn.GRU, "lstm": nn.LSTM}


def make_rnn(cell: str, input_dim: int, hidden_dim: int, num_layers: int, **settings) -> nn.GRU | nn.LSTM:
    """A batch-first stack of recurrent layers, from the name of its cell in `CELLS`.

    Raises:
        ValueError: the cell is unknown.
    """
    if cell not in CELLS:
        raise ValueError(f"unknown cell {cell!r}: choose one of {', '.join(CELLS)}")
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
        cell: f, "gru" or "lstm". torch's GRU applies the reset gate after the recurrent matrix, Cho et al. before it.
        bidirectional: whether the source is read in both directions.
        dropout: dropout probability of the embeddings and between layers, in training.

    Raises:
        ValueError: the cell is unknown.
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
        self.memory_dim = hidden_dim * (2 if bidirectional else 1)
        self.embedding = nn.Embedding(vocab, embed_dim, padding_idx=PAD)
        self.dropout = nn.Dropout(dropout)
        between = dropout if num_layers > 1 else 0.0
        self.rnn = make_rnn(cell, embed_dim, hidden_dim, num_layers, bidirectional=bidirectional, dropout=between)

    def forward(self, source: Int[Tensor, "b m"]) -> tuple[Float[Tensor, "b m c"], Hidden]:
        """Encodes the source.

        Returns:
            The memory (batch, source, memory_dim), zeros at padding, and the last hidden state, each tensor
            (layers * directions, batch, hidden_dim); that of the backward direction is at the first token. A source
            that is all padding gives zeros.

        Raises:
            ValueError: there is padding before a token.
        """
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
        rnn, b = self.rnn, len(x)
        h = x.new_zeros(rnn.num_layers * (2 if rnn.bidirectional else 1), b, rnn.hidden_size)
        return x.new_zeros(*x.shape[:2], self.memory_dim), (h, h) if isinstance(rnn, nn.LSTM) else (h,)


def precompute_keys(score: Score, memory: Tensor) -> Tensor:
    """The keys that `score_of_precomputed` takes, computed once before the first query."""
    return score.w_k(memory) if isinstance(score, Additive) else memory


def score_of_precomputed(score: Score) -> Score:
    """`score` for keys from `precompute_keys`: the additive score would project them again for every target token."""
    return score.forward_projected if isinstance(score, Additive) else score


def unroll(
    decode_step: Callable[[Tensor, State, bool], tuple[Tensor, State, Tensor | None]],
    target: Int[Tensor, "b n"],
    state: State,
    return_weights: bool,
) -> tuple[Float[Tensor, "b n c"], Float[Tensor, "b n m"] | None]:
    """Runs `decode_step` over the target tokens in order.

    features_t, state_t, weights_t = decode_step(target_t, state_(t-1))

    Returns:
        The stacked features, (batch, target, c), and the weights, (batch, target, source), or None without
        `return_weights`.

    Raises:
        ValueError: the target is empty.
    """
    if not target.shape[1]:
        raise ValueError("an empty target: it needs at least the start token")
    features, alignment = [], []
    for tokens in target.unbind(-1):
        x, state, weights = decode_step(tokens, state, return_weights)
        features.append(x)
        if weights is not None:
            alignment.append(weights)
    return torch.stack(features, dim=1), torch.stack(alignment, dim=1) if return_weights else None
