"""Token embeddings with sinusoidal positions."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention import DenseLayout
from molattn.attention.arguments import check_sizes, resolve_name
from molattn.attention.dropout import Dropout

PAD = 0
"""The padding token."""


def zero_nonfinite_padding(x: Float[Tensor, "b n d"], mask: Tensor | None) -> Float[Tensor, "b n d"]:
    """`x` with zeros for NaN and infinity in rows that `mask` masks for every query.

    Such rows do not affect the output of other rows, but in the gradients of the weights 0 times NaN would be NaN.

    Args:
        x: (batch, n, d).
        mask: broadcastable to (batch, heads, query, n), boolean or float; None for no mask.
    """
    if mask is None or mask.shape[-1] not in (1, x.shape[-2]):  # wrong sizes: the attention raises the error
        return x
    return DenseLayout(mask if mask.dtype == torch.bool else mask != -torch.inf).zero_nonfinite_padding(x)


def check_tokens(**tokens: Tensor) -> None:
    """Checks that each is (batch, length), with the same batch size.

    Raises:
        ValueError: one is not; the message names it.
    """
    for name, x in tokens.items():
        if x.dim() != 2:
            raise ValueError(f"{name} is (batch, length) integers, not of shape {tuple(x.shape)}")
    if len({len(x) for x in tokens.values()}) > 1:
        sizes = " and ".join(f"{len(x)} {name}s" for name, x in tokens.items())
        raise ValueError(f"{sizes}: one target is needed for each source")


ChannelOrder = Callable[[Tensor, Tensor], Tensor]
"""An order of channels: from sines and cosines, (n, channels) each, to the positional encoding, (n, d_model)."""


def concatenated(sines: Tensor, cosines: Tensor) -> Tensor:
    """P_p = [sin(p w_0), sin(p w_1), ..., cos(p w_0), cos(p w_1), ...]"""
    return torch.cat([sines, cosines], dim=-1)


def interleaved(sines: Tensor, cosines: Tensor) -> Tensor:
    """P_p = [sin(p w_0), cos(p w_0), sin(p w_1), cos(p w_1), ...]"""
    columns = sines.new_empty(sines.shape[0], sines.shape[-1] + cosines.shape[-1])
    columns[:, 0::2], columns[:, 1::2] = sines, cosines
    return columns


CHANNEL_ORDERS: dict[str, ChannelOrder] = {"concatenated": concatenated, "interleaved": interleaved}
"""The orders of the channels of `sinusoidal_positions`, by name: functions of the sines and the cosines."""


def sinusoidal_positions(
    length: int | torch.SymInt,
    d_model: int,
    channel_order: str | ChannelOrder = "concatenated",
    *,
    offset: int = 0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "n d"]:
    """Sinusoidal positional encoding.

    P_(p, sine i)   = sin(p w_i)
    P_(p, cosine i) = cos(p w_i);    w_i = 10000^(-2i / d_model)

    The channel orders differ only in the order of the columns, which makes no difference to a learned layer after them.
    With an odd d_model the last cosine is left out.

    Args:
        length: number of positions; a `torch.SymInt` inside torch.export.
        d_model: channels.
        channel_order: a name in `CHANNEL_ORDERS` or a function that combines sines and cosines.
        offset: the first position, for decoding token by token.
        dtype, device: of the result; torch's defaults by default.

    Returns:
        (length, d_model), for the positions offset, ..., offset + length - 1.

    Raises:
        ValueError: the channel order is unknown.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5, whose formula is interleaved.

    >>> import torch
    >>> from molattn.sequence import sinusoidal_positions
    >>> sinusoidal_positions(2, 4, dtype=torch.float64).round(decimals=2).tolist()
    [[0.0, 0.0, 1.0, 1.0], [0.84, 0.01, 0.54, 1.0]]
    """
    combine = resolve_name(channel_order, CHANNEL_ORDERS, "channel order")
    # Computed in float64 for any dtype: float32 angles are off by 1e-4 at position 2000. Apple's GPUs have no float64.
    device = torch.get_default_device() if device is None else torch.device(device)
    float64_device = torch.device("cpu") if device.type == "mps" else device
    end: Any = offset + length  # Any, because the type hints of `torch.arange` exclude SymInt
    p = torch.arange(offset, end, dtype=torch.float64, device=float64_device)
    i = torch.arange((d_model + 1) // 2, dtype=torch.float64, device=float64_device)
    angles = torch.outer(p, 10000.0 ** (-2 * i / d_model))
    positions = combine(angles.sin(), angles.cos()[:, : d_model // 2])
    return positions.to(dtype or torch.get_default_dtype()).to(device)


class PositionalEmbedding(nn.Module):
    """Token embeddings with sinusoidal positional encoding.

    x_p = sqrt(d_model) E[token_p] + P_p

    Args:
        vocab_size: number of tokens, including token 0 (padding), whose embedding stays zero.
        d_model: channels.
        channel_order: of the positional encoding, a name in `CHANNEL_ORDERS` or a function.
        dropout: dropout probability of the sum, in training.

    Raises:
        ValueError: the channel order is unknown; a size is below 1; dropout is not in [0, 1].

    Shapes: tokens (batch, n) -> (batch, n, d_model). Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.4.

    >>> import torch
    >>> from molattn.sequence import PositionalEmbedding
    >>> embed, tokens = PositionalEmbedding(vocab_size=10, d_model=4), torch.tensor([[5, 7, 7]])
    >>> x = embed(tokens)
    >>> tuple(x.shape), torch.allclose(x[:, 1], x[:, 2])  # the same token at two positions
    ((1, 3, 4), False)
    >>> torch.allclose(embed(tokens[:, 2:], offset=2), x[:, 2:])
    True
    """

    def __init__(
        self, vocab_size: int, d_model: int, channel_order: str | ChannelOrder = "concatenated", dropout: float = 0.0
    ):
        super().__init__()
        check_sizes(vocab_size=vocab_size, d_model=d_model)
        self.channel_order = resolve_name(channel_order, CHANNEL_ORDERS, "channel order")
        self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=PAD)
        self.dropout = Dropout(dropout)
        # So that after the factor sqrt(d_model) of `forward`, embedding and positional encoding have the same scale.
        with torch.no_grad():
            self.embedding.weight.mul_(d_model**-0.5)

    def forward(self, tokens: Tensor, offset: int = 0) -> Float[Tensor, "b n d"]:
        """The embedded tokens, (batch, n, d_model).

        Args:
            tokens: (batch, n) integers, below vocab_size.
            offset: the position of the first token.
        """
        x = self.embedding(tokens)
        n, d = x.shape[-2:]
        positions = sinusoidal_positions(n, d, self.channel_order, offset=offset, dtype=x.dtype, device=x.device)
        return self.dropout(d**0.5 * x + positions)
