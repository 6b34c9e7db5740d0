"""MultiHeadAttention from and to keras.layers.MultiHeadAttention, the real one, on its torch backend.

All that needs Keras is in this file and in tests/documents, and imports it where it is used: that takes seconds, and
only those who run these tests should wait.
"""

import builtins
import inspect
import sys

import numpy as np
import pytest
import torch

from molattn.attention import MultiHeadAttention, Softmax, causal_mask
from molattn.errors import MissingExtra, UsageError
from tests.assertions import assert_close, assert_identical

# Raised inside Keras when it reads a torch parameter with numpy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

F64 = torch.float64
TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def keras_layer(query, value=None, key=None, **settings):
    """A built layer with nonzero biases (Keras initializes them with zeros)."""
    import keras

    layer = keras.layers.MultiHeadAttention(**settings)
    value = query if value is None else value
    layer.build(query.shape, value.shape, value.shape if key is None else key.shape)
    generator = np.random.default_rng(0)
    layer.set_weights([w if w.ndim == 3 else generator.normal(size=w.shape) for w in layer.get_weights()])
    return layer


def on_torch(*tensors):
    return [torch.as_tensor(x).detach() for x in tensors]


def inputs(*shapes, dtype="float64"):
    g = torch.Generator().manual_seed(0)
    return [torch.rand(*shape, generator=g, dtype=getattr(torch, dtype)) for shape in shapes]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("widths", ["same", "value_dim", "cross", "output_shape"])
@pytest.mark.parametrize("mask", ["none", "boolean", "causal"])
def test_keras_parity_both_ways(dtype, heads, use_bias, widths, mask):
    settings = {"num_heads": heads, "key_dim": 4, "use_bias": use_bias, "dtype": dtype, "dropout": 0.1}
    q, k, v = inputs((2, 5, 6), (2, 7, 3), (2, 7, 2), dtype=dtype)
    if widths != "cross":
        q, k, v = q, q, q
    if widths == "value_dim":
        settings["value_dim"] = 5
    if widths == "output_shape":
        settings["output_shape"] = 9
    theirs = keras_layer(q, v, k, **settings)

    allowed, theirs_masked = None, {}
    if mask == "boolean":
        g = torch.Generator().manual_seed(1)
        allowed = torch.rand(2, 5, k.shape[1], generator=g) > 0.4
        allowed[:, :, 0] = True  # without a valid key, Keras attends to all keys
        theirs_masked = {"attention_mask": allowed}
        allowed = allowed.unsqueeze(1)
    elif mask == "causal":
        allowed = torch.ones(5, k.shape[1], dtype=torch.bool).tril()
        theirs_masked = {"use_causal_mask": True}
        if widths != "cross":
            assert_identical(allowed, causal_mask(5))

    expected, scores = on_torch(*theirs(q, v, k, return_attention_scores=True, **theirs_masked))
    ours = MultiHeadAttention.from_keras(theirs).eval()
    assert ours.dropout == 0.1
    output, weights = ours(q, k, v, mask=allowed, return_weights=True)
    assert_close(weights, scores, TOLERANCE[dtype])
    assert_close(output, expected, TOLERANCE[dtype])
    assert_close(ours(q, k, v, mask=allowed), expected, TOLERANCE[dtype])

    back = ours.to_keras()
    assert back.get_config()["dropout"] == 0.1
    for mine, their in zip(back.get_weights(), theirs.get_weights(), strict=True):
        assert mine.dtype == their.dtype and mine.shape == their.shape and (mine == their).all()
    again, again_scores = on_torch(*back(q, v, k, return_attention_scores=True, **theirs_masked))
    assert_close(again, expected, TOLERANCE[dtype])
    assert_close(again_scores, scores, TOLERANCE[dtype])


def test_a_new_layer_converts_to_keras():
    torch.manual_seed(0)
    ours = MultiHeadAttention(6, 2, head_dim=5, key_dim=3, value_dim=4, value_head_dim=7).to(F64)
    q, k, v = inputs((2, 4, 6), (2, 5, 3), (2, 5, 4))
    expected, weights = ours(q, k, v, return_weights=True)
    theirs = ours.to_keras()
    output, scores = on_torch(*theirs(q, v, k, return_attention_scores=True))
    assert_close(output, expected)
    assert_close(scores, weights)


def test_bfloat16_converts_both_ways():
    torch.manual_seed(0)
    ours = MultiHeadAttention(6, 2, head_dim=5).bfloat16()
    theirs = ours.to_keras()
    back = MultiHeadAttention.from_keras(theirs)
    for mine, again in zip(ours.parameters(), back.parameters(), strict=True):
        assert again.dtype == torch.bfloat16
        assert_identical(again, mine)


def test_unsupported_keras_features_raise_by_name():
    import keras

    x, image = inputs((1, 5, 7), (1, 5, 5, 7))
    # Older versions of Keras have neither of these two.
    known = inspect.signature(keras.layers.MultiHeadAttention).parameters
    later = {name: value for name, value in {"use_gate": True, "sliding_window": 2}.items() if name in known}
    for layer, message in [
        *((keras_layer(x, num_heads=2, key_dim=3, **{name: value}), name) for name, value in later.items()),
        (keras_layer(x, num_heads=2, key_dim=3, output_shape=(2, 3)), "output_shape"),
        (keras_layer(image, num_heads=2, key_dim=3), "attention_axes"),
    ]:
        with pytest.raises(ValueError, match=message):
            MultiHeadAttention.from_keras(layer)
    adapted = keras_layer(x, num_heads=2, key_dim=3)
    adapted._value_dense.enable_lora(1)

    class Doubled(keras.layers.MultiHeadAttention):
        def call(self, *inputs, **settings):
            return 2 * super().call(*inputs, **settings)

    doubled = Doubled(2, 3)
    doubled.build(x.shape, x.shape)
    for layer, message in ((adapted, "LoRA in its value projection"), (doubled, "the class Doubled")):
        with pytest.raises(ValueError, match=f"a Keras layer with {message} is not supported"):
            MultiHeadAttention.from_keras(layer)
    with pytest.raises(ValueError, match="no weights yet"):
        MultiHeadAttention.from_keras(keras.layers.MultiHeadAttention(2, 3))
    with pytest.raises(TypeError, match="not a Dense"):
        MultiHeadAttention.from_keras(keras.layers.Dense(2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"score": "dot"}, "score"),
        ({"normalizer": Softmax(2.0)}, "normalizer"),
        ({"join": "w_h"}, "concatenation"),
        ({"key_bias": "per_position", "max_length": 4}, "per position"),
    ],
)
def test_features_that_keras_lacks_raise_by_name(settings, message):
    with pytest.raises(ValueError, match=f"Keras has no layer with.*{message}"):
        MultiHeadAttention(8, 2, **settings).to_keras()


@pytest.mark.parametrize(("missing", "error"), [("keras", MissingExtra), ("tensorflow", UsageError)])
def test_keras_or_its_backend_not_installed(monkeypatch, missing, error):
    real = builtins.__import__

    def no_keras(name, *args, **kwargs):
        if name == "keras":
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "keras", raising=False)
    monkeypatch.setattr(builtins, "__import__", no_keras)
    with pytest.raises(error, match=r"molattn\[keras\]" if missing == "keras" else "KERAS_BACKEND=torch"):
        MultiHeadAttention(4, 2).to_keras()
