"""Sequences on the attention core: the Transformer, the recurrent encoder-decoders before it, and decoding.

All three models are called alike, and each is a `StepDecoder` for `greedy` and `beam_search`:

    logits          = model(source, target)
    logits, weights = model(source, target, return_weights=True)

| model         | where it looks                     | weights                                              |
|---------------|------------------------------------|------------------------------------------------------|
| `Transformer` | every block, every head            | `TransformerWeights`, (batch, heads, query, key) each |
| `Bahdanau`    | before the decoder moves, s_(t-1)  | (batch, target, source)                              |
| `Luong`       | after the decoder moved, h_t       | (batch, target, source)                              |
"""

from molattn.attention import causal_mask
from molattn.sequence.bahdanau import Bahdanau, BahdanauState
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
from molattn.sequence.luong import LUONG_SCORES, Luong, LuongState
from molattn.sequence.masks import PAD, causal_padding_mask, padding_mask
from molattn.sequence.position_tasks import TASKS, TRAININGS, PositionResult, PositionTraining, train_on_positions
from molattn.sequence.positions import LAYOUTS, PositionalEmbedding, sinusoidal_positions
from molattn.sequence.recurrent import CELLS, RecurrentEncoder
from molattn.sequence.stacks import Decoder, DecoderWeights, Encoder
from molattn.sequence.transformer import Transformer, TransformerState, TransformerWeights

__all__ = [
    "ACTIVATIONS",
    "CELLS",
    "LAYOUTS",
    "LUONG_SCORES",
    "PAD",
    "TASKS",
    "TRAININGS",
    "Bahdanau",
    "BahdanauState",
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
    "Luong",
    "LuongState",
    "PositionResult",
    "PositionTraining",
    "PositionalEmbedding",
    "RecurrentEncoder",
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
    "train_on_positions",
]
