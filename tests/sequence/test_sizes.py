"""Sizes of sequence layers and of scores are checked when they are made."""

import pytest

from molattn.attention import Additive, General, Location
from molattn.sequence import (
    Bahdanau,
    Decoder,
    Encoder,
    FeedForward,
    Luong,
    PositionalEmbedding,
    RecurrentEncoder,
    Residual,
    Transformer,
)
from tests.sequence.models import ALL, SOURCE, TARGET, make

LAYERS = {
    "general": (General, {"query_dim": 4, "key_dim": 4}),
    "additive": (Additive, {"query_dim": 4, "key_dim": 4, "hidden_dim": 8}),
    "location": (Location, {"query_dim": 4, "max_length": 5}),
    "feed-forward": (FeedForward, {"d_model": 4, "hidden_dim": 8}),
    "residual": (Residual, {"d_model": 4}),
    "embedding": (PositionalEmbedding, {"vocab_size": 7, "d_model": 4}),
    "encoder": (RecurrentEncoder, {"vocab": 7, "embed_dim": 4, "hidden_dim": 8, "num_layers": 1}),
    "luong": (Luong, {"source_vocab": 7, "target_vocab": 7, "embed_dim": 4, "hidden_dim": 8, "num_layers": 1}),
    "bahdanau": (
        Bahdanau,
        {"source_vocab": 7, "target_vocab": 7, "embed_dim": 4, "hidden_dim": 8, "attention_dim": 8, "readout_dim": 8},
    ),
}
SIZES = [(name, size) for name, (_, sizes) in LAYERS.items() for size in sizes]


@pytest.mark.parametrize(("name", "size"), SIZES)
@pytest.mark.parametrize("wrong", [0, -1])
def test_a_size_below_1_is_refused_by_its_name(name, size, wrong):
    layer, sizes = LAYERS[name]
    layer(**sizes)
    with pytest.raises(ValueError, match=f"{size.removeprefix('source_')} must be at least 1, not {wrong}"):
        layer(**{**sizes, size: wrong})


@pytest.mark.parametrize("stack", [Encoder, Decoder])
def test_a_stack_may_have_no_layers_but_not_fewer(stack):
    assert len(stack(0, 8, 2).layers) == 0
    with pytest.raises(ValueError, match="num_layers must be at least 0, not -1"):
        stack(-1, 8, 2)
    with pytest.raises(ValueError, match="num_layers must be at least 0, not -1"):
        Transformer(5, 5, 8, 2, num_layers=-1)


@pytest.mark.parametrize("name", ALL)
def test_tokens_of_other_shapes_raise(name):
    model = make(name)
    refused = (ValueError, TypeError)  # the check of annotations has its own error
    with pytest.raises(refused, match=r"source is \(batch, length\) integers, not of shape \(5,\)|Type-check error"):
        model.init_state(SOURCE[0])
    with pytest.raises(refused, match=r"target is \(batch, length\) integers, not of shape \(4,\)|Type-check error"):
        model(SOURCE, TARGET[0])
    with pytest.raises(refused, match="3 sources and 2 targets: one target is needed for each source|Type-check error"):
        model(SOURCE, TARGET[:2])
