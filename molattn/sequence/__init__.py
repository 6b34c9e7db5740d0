"""Sequence models: the Transformer, the recurrent encoder-decoders of Bahdanau and of Luong, and decoding.

All three models have the same interface, and each is a `StepDecoder` for `greedy_search` and `beam_search`:

    logits          = model(source, target)
    logits, weights = model(source, target, return_weights=True)

| model         | attention                              | weights                                               |
|---------------|----------------------------------------|-------------------------------------------------------|
| `Transformer` | every layer, every head                | `TransformerWeights`, (batch, heads, query, key) each |
| `Bahdanau`    | before the recurrent step, from s_(t-1)| (batch, target, source)                               |
| `Luong`       | after the recurrent step, from h_t     | (batch, target, source)                               |
"""

from molattn.attention import causal_mask, causal_padding_mask, padding_mask
from molattn.sequence.caches import DecoderLayerCache, KVCache
from molattn.sequence.decoders import LUONG_SCORES, Bahdanau, BahdanauState, Luong, LuongState
from molattn.sequence.decoding import DecodedSequences, DecodingState, StepDecoder, beam_search, greedy_search
from molattn.sequence.embedding import (
    CHANNEL_ORDERS,
    PAD,
    PositionalEmbedding,
    sinusoidal_positions,
)
from molattn.sequence.layers import ACTIVATIONS, DecoderLayer, EncoderLayer, FeedForward, Residual
from molattn.sequence.recurrent import CELLS, RecurrentEncoder
from molattn.sequence.stacks import Decoder, DecoderWeights, Encoder
from molattn.sequence.transformer import Transformer, TransformerState, TransformerWeights

__all__ = [
    "ACTIVATIONS",
    "CELLS",
    "CHANNEL_ORDERS",
    "LUONG_SCORES",
    "PAD",
    "Bahdanau",
    "BahdanauState",
    "DecodedSequences",
    "Decoder",
    "DecoderLayer",
    "DecoderLayerCache",
    "DecoderWeights",
    "DecodingState",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "KVCache",
    "Luong",
    "LuongState",
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
    "greedy_search",
    "padding_mask",
    "sinusoidal_positions",
]
