"""Positions: where a token stands, as a vector that is added to what it is. The table at the foot names the layouts."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from molattn.attention.dropout import Dropout
from molattn.sequence.masks import PAD

Layout = Callable[[Tensor, Tensor], Tensor]


def concatenated(sines: Tensor, cosines: Tensor) -> Tensor:
    """P_p = [sin(p w_0), sin(p w_1), ..., cos(p w_0), cos(p w_1), ...]"""
    return torch.cat([sines, cosines], dim=-1)


def interleaved(sines: Tensor, cosines: Tensor) -> Tensor:
    """P_p = [sin(p w_0), cos(p w_0), sin(p w_1), cos(p w_1), ...]"""
    columns = sines.new_empty(len(sines), sines.shape[-1] + cosines.shape[-1])
    columns[:, 0::2], columns[:, 1::2] = sines, cosines
    return columns


LAYOUTS: dict[str, Layout] = {"concatenated": concatenated, "interleaved": interleaved}


def sinusoidal_positions(
    length: int,
    d_model: int,
    layout: str | Layout = "concatenated",
    *,
    first: int = 0,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Float[Tensor, "n d"]:
    """Sinusoidal positional encoding.

    P_(p, sine i)   = sin(p w_i)
    P_(p, cosine i) = cos(p w_i);    w_i = 10000^(-2i / d_model)

    The two layouts hold the same columns in another order, so a layer that follows can learn either. With an odd
    d_model the last cosine has no column.

    Args:
        length: how many positions; any number, nothing has to be known beforehand.
        d_model: channels.
        layout: a name in `LAYOUTS` or a function that joins sines and cosines.
        first: the first position, for decoding one token after the other.
        dtype, device: of what is returned; torch's defaults.

    Returns:
        (length, d_model), for the positions first, ..., first + length - 1.

    Raises:
        ValueError: an unknown layout.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.5, whose formula interleaves.

    >>> sinusoidal_positions(2, 4).round(decimals=2).tolist()
    [[0.0, 0.0, 1.0, 1.0], [0.8399999737739563, 0.009999999776482582, 0.5400000214576721, 1.0]]
    """
    join = layout_of(layout)
    # In float64 whatever is asked for: float32 angles are off by 1e-4 at position 2000.
    p = torch.arange(first, first + length, dtype=torch.float64, device=device)
    i = torch.arange((d_model + 1) // 2, dtype=torch.float64, device=device)
    angles = torch.outer(p, 10000.0 ** (-2 * i / d_model))
    return join(angles.sin(), angles.cos()[:, : d_model // 2]).to(dtype or torch.get_default_dtype())


def layout_of(layout: str | Layout) -> Layout:
    """A layout by its name in `LAYOUTS`, or the function itself."""
    if not isinstance(layout, str):
        return layout
    if layout not in LAYOUTS:
        raise ValueError(f"unknown layout {layout!r}: choose one of {', '.join(LAYOUTS)}, or pass a function")
    return LAYOUTS[layout]


class PositionalEmbedding(nn.Module):
    """What a token is and where it stands.

    x_p = sqrt(d_model) E[token_p] + P_p

    Args:
        vocab_size: how many tokens there are, token 0 (the padding) included; its embedding stays at zero.
        d_model: channels.
        layout: of the sinusoidal positions.
        dropout: on the sum, in training.

    Raises:
        ValueError: an unknown layout.

    Shapes: tokens (batch, n) -> (batch, n, d_model). Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.4.
    """

    def __init__(self, vocab_size: int, d_model: int, layout: str | Layout = "concatenated", dropout: float = 0.0):
        super().__init__()
        self.layout = layout_of(layout)
        self.embedding = nn.Embedding(vocab_size, d_model, padding_idx=PAD)
        self.dropout = Dropout(dropout)
        # After the factor sqrt(d_model) a token weighs as much as its position, not sqrt(d_model) times as much.
        with torch.no_grad():
            self.embedding.weight.mul_(d_model**-0.5)

    def forward(self, tokens: Tensor, first: int = 0) -> Float[Tensor, "b n d"]:
        """The embedding of integer `tokens`, (batch, n), the first of which stands at position `first`."""
        x = self.embedding(tokens)
        n, d = x.shape[-2:]
        positions = sinusoidal_positions(n, d, self.layout, first=first, dtype=x.dtype, device=x.device)
        return self.dropout(d**0.5 * x + positions)
