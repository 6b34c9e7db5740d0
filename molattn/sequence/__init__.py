"""Sequences on the attention core: positions and masks, and the Transformer."""

from molattn.sequence.cache import KeyValues
from molattn.sequence.decoding import Decoded, DecodingState, StepDecoder, beam_search, greedy
from molattn.sequence.layers import (
    ACTIVATIONS,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LayerCache,
    Residual,
)
from molattn.sequence.masks import PAD, causal_mask, causal_padding_mask, padding_mask
from molattn.sequence.positions import LAYOUTS, PositionalEmbedding, sinusoidal_positions
from molattn.sequence.stacks import Decoder, DecoderWeights, Encoder
from molattn.sequence.transformer import Transformer, TransformerState, TransformerWeights

__all__ = [
    "ACTIVATIONS",
    "LAYOUTS",
    "PAD",
    "Decoded",
    "Decoder",
    "DecoderLayer",
    "DecoderWeights",
    "DecodingState",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "KeyValues",
    "LayerCache",
    "PositionalEmbedding",
    "Residual",
    "StepDecoder",
    "Transformer",
    "TransformerState",
    "TransformerWeights",
    "beam_search",
    "causal_mask",
    "causal_padding_mask",
    "greedy",
    "padding_mask",
    "sinusoidal_positions",
]
