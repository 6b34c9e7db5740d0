"""Sequences on the attention core: positions and masks."""

from molattn.sequence.masks import PAD, causal_mask, causal_padding_mask, padding_mask
from molattn.sequence.positions import LAYOUTS, PositionalEmbedding, sinusoidal_positions

__all__ = [
    "LAYOUTS",
    "PAD",
    "PositionalEmbedding",
    "causal_mask",
    "causal_padding_mask",
    "padding_mask",
    "sinusoidal_positions",
]
