"""What the recurrent encoder-decoders share: the encoder, keys that stay, and the way along the target."""

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


def make_cell(cell: str, input_dim: int, hidden_dim: int, num_layers: int, **settings) -> nn.GRU | nn.LSTM:
    """A stack of recurrent layers, batch first, by the name of its cell in `CELLS`.

    Raises:
        ValueError: an unknown cell.
    """
    if cell not in CELLS:
        raise ValueError(f"unknown cell {cell!r}: choose one of {', '.join(CELLS)}")
    return CELLS[cell](input_dim, hidden_dim, num_layers, batch_first=True, **settings)


def run_cell(rnn: nn.GRU | nn.LSTM, x: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
    """`rnn` over x, (batch, n, input_dim), from `hidden`: what its last layer says, and the hidden state after it."""
    if isinstance(rnn, nn.LSTM):
        h, c = hidden
        return rnn(x, (h, c))
    y, h = rnn(x, hidden[0])
    return y, (h,)


def source_lengths(source: Int[Tensor, "b m"]) -> Int[Tensor, "b"]:
    """How many tokens each source has before its padding.

    Raises:
        ValueError: padding stands before a token, where a recurrent encoder would have to read it.
    """
    is_token = source != PAD
    if (is_token[:, 1:] & ~is_token[:, :-1]).any():
        raise ValueError(f"padding (token {PAD}) before a token: a recurrent encoder reads sources padded at the end")
    return is_token.sum(-1)


class RecurrentEncoder(nn.Module):
    """A recurrent encoder that reads no padding.

    h_j = f(h_(j-1), E x_j), and from the other end likewise if bidirectional, the two side by side

    Args:
        vocab: how many tokens there are, token 0 (the padding) included.
        embed_dim: channels of a token's embedding.
        hidden_dim: channels of h in one direction.
        num_layers: recurrent layers, one over the other.
        cell: f, "gru" or "lstm". torch's GRU applies the reset gate after the recurrent matrix, Cho's before.
        bidirectional: whether the source is read from both ends.
        dropout: on the embedding and between layers, in training.

    Raises:
        ValueError: an unknown cell.
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
        self.rnn = make_cell(cell, embed_dim, hidden_dim, num_layers, bidirectional=bidirectional, dropout=between)

    def forward(self, source: Int[Tensor, "b m"]) -> tuple[Float[Tensor, "b m c"], Hidden]:
        """Read the source.

        Returns:
            The memory (batch, source, memory_dim), zeros at padding, and the last hidden state, each tensor
            (layers * directions, batch, hidden_dim), the backward direction's being the one at the first token. A
            source of nothing but padding leaves zeros.

        Raises:
            ValueError: padding stands before a token.
        """
        lengths = source_lengths(source)
        x = self.dropout(self.embedding(source))
        if not source.numel():
            return self._nothing(x)
        # At least one step for each: what a source without a token leaves behind is blanked below.
        packed = pack_padded_sequence(x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        packed, last = self.rnn(packed)
        memory, _ = pad_packed_sequence(packed, batch_first=True, total_length=source.shape[1])
        empty = (lengths == 0)[:, None]
        hidden = (last,) if isinstance(last, Tensor) else last
        return memory.masked_fill(empty[:, :, None], 0.0), tuple(h.masked_fill(empty, 0.0) for h in hidden)

    def _nothing(self, x: Tensor) -> tuple[Tensor, Hidden]:
        rnn, b = self.rnn, len(x)
        h = x.new_zeros(rnn.num_layers * (2 if rnn.bidirectional else 1), b, rnn.hidden_size)
        return x.new_zeros(*x.shape[:2], self.memory_dim), (h, h) if isinstance(rnn, nn.LSTM) else (h,)


def fixed_keys(score: Score, memory: Tensor) -> Tensor:
    """The keys that `score_of_fixed` takes: what can be computed once, before the first query comes."""
    return score.w_k(memory) if isinstance(score, Additive) else memory


def score_of_fixed(score: Score) -> Score:
    """`score` over `fixed_keys`: the additive score would project the memory again for every target token."""
    return score.forward_projected if isinstance(score, Additive) else score


def unroll(
    advance: Callable[[Tensor, State, bool], tuple[Tensor, State, Tensor | None]],
    target: Int[Tensor, "b n"],
    state: State,
    return_weights: bool,
) -> tuple[Float[Tensor, "b n c"], Float[Tensor, "b n m"] | None]:
    """The target from its first token to its last.

    features_t, state_t, weights_t = advance(target_t, state_(t-1))

    Returns:
        The features side by side, (batch, target, c), and the weights, (batch, target, source), if asked for.

    Raises:
        ValueError: the target has no token.
    """
    if not target.shape[1]:
        raise ValueError("an empty target: it has at least the token that says start")
    features, alignment = [], []
    for tokens in target.unbind(-1):
        x, state, weights = advance(tokens, state, return_weights)
        features.append(x)
        if weights is not None:
            alignment.append(weights)
    return torch.stack(features, dim=1), torch.stack(alignment, dim=1) if return_weights else None
