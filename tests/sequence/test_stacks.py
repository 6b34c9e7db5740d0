"""Encoder and decoder stacks against torch's."""

import pytest
import torch

from molattn.attention import MultiHeadAttention, causal_mask
from molattn.sequence import Decoder, DecoderLayer, Encoder, EncoderLayer, FeedForward, padding_mask
from tests.assertions import assert_close
from tests.sequence.torch_stacks import F64, pair_of_stacks, randomize

kinds = [
    pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"]),
    pytest.mark.parametrize("activation", ["relu", "gelu"]),
]


def over_kinds(test):
    for kind in kinds:
        test = kind(test)
    return test


SOURCE = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0], [5, 0, 0, 0, 0]])
TARGET = torch.tensor([[2, 7, 1, 8], [2, 8, 1, 0], [8, 4, 0, 0]])


@over_kinds
@pytest.mark.parametrize("mask", ["none", "padding", "causal", "both"])
def test_the_encoder_equals_torch_with_the_same_weights(norm_first, activation, mask):
    theirs, ours = pair_of_stacks(False, norm_first, activation)
    x = torch.randn(3, 5, 8, dtype=F64)
    padding = padding_mask(SOURCE != 0) if mask in ("padding", "both") else None
    causal = causal_mask(5) if mask in ("causal", "both") else None
    expected = theirs(
        x,
        mask=None if causal is None else ~causal,
        src_key_padding_mask=None if padding is None else ~padding[:, 0, 0],
    )
    masks = [m for m in (padding, causal) if m is not None]
    together = None if not masks else masks[0] if len(masks) == 1 else masks[0] & masks[1]
    assert_close(ours(x, together), expected, tol=1e-10)
    y, weights = ours(x, together, return_weights=True)
    assert_close(y, expected, tol=1e-10)
    assert len(weights) == 2


@over_kinds
@pytest.mark.parametrize("mask", ["none", "causal", "padding", "memory", "all", "float"])
def test_the_decoder_equals_torch_with_the_same_weights(norm_first, activation, mask):
    theirs, ours = pair_of_stacks(True, norm_first, activation)
    x, memory = torch.randn(3, 4, 8, dtype=F64), torch.randn(3, 5, 8, dtype=F64)
    of_theirs, own, of_memory = {}, torch.ones(3, 1, 4, 4, dtype=torch.bool), torch.ones(3, 1, 4, 5, dtype=torch.bool)
    if mask in ("causal", "all"):
        of_theirs["tgt_mask"] = ~causal_mask(4)
        own = own & causal_mask(4)
    if mask in ("padding", "all"):
        of_theirs["tgt_key_padding_mask"] = TARGET == 0
        of_theirs["memory_key_padding_mask"] = SOURCE == 0
        own, of_memory = own & padding_mask(TARGET != 0), of_memory & padding_mask(SOURCE != 0)
    if mask in ("memory", "all"):
        allowed = torch.rand(4, 5) > 0.5
        allowed[:, 0] = True
        of_theirs["memory_mask"] = ~allowed
        of_memory = of_memory & allowed
    if mask == "float":
        own, of_memory = torch.randn(4, 4, dtype=F64), torch.randn(4, 5, dtype=F64)
        of_theirs = {"tgt_mask": own, "memory_mask": of_memory}
    expected = theirs(x, memory, **of_theirs)
    masks = (None, None) if mask == "none" else (own, of_memory)
    assert_close(ours(x, memory, *masks), expected, tol=1e-10)
    assert_close(ours(x, memory, *masks, return_weights=True)[0], expected, tol=1e-10)


@over_kinds
def test_the_stacks_have_the_gradients_of_torch(norm_first, activation):
    theirs, ours = pair_of_stacks(True, norm_first, activation)
    x, memory = (torch.randn(2, n, 8, dtype=F64, requires_grad=True) for n in (4, 5))
    of_theirs = torch.autograd.grad(theirs(x, memory, tgt_mask=~causal_mask(4)).sin().sum(), [x, memory])
    of_ours = torch.autograd.grad(ours(x, memory, causal_mask(4)).sin().sum(), [x, memory])
    for a, b in zip(of_ours, of_theirs, strict=True):
        assert_close(a, b, tol=1e-10)


def test_a_key_bias_per_position_continues_after_cached_keys():
    torch.manual_seed(0)
    layer = MultiHeadAttention(6, 2, head_dim=5, key_bias="per_position", max_length=4).to(F64)
    x, y = torch.randn(2, 3, 6, dtype=F64), torch.randn(2, 4, 6, dtype=F64)
    mask = padding_mask(torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0]]) != 0)
    expected, expected_weights = layer(x, y, mask=mask, return_weights=True)
    (k, v), (later_k, later_v) = (
        layer.project_keys_and_values(y[:, :3]),
        layer.project_keys_and_values(y[:, 3:], offset=3),
    )
    seen = torch.cat([k, later_k], dim=-2), torch.cat([v, later_v], dim=-2)
    output, weights = layer.attend_to(x, *seen, mask, return_weights=True)
    assert weights is not None
    assert_close(output, expected)
    assert_close(weights, expected_weights)
    assert layer.attend_to(x, *seen, mask)[1] is None
    with pytest.raises(ValueError, match="5 keys are more than the 4 positions"):
        layer.project_keys_and_values(y[:, :2], offset=3)


@pytest.mark.parametrize("norm_first", [False, True])
def test_forward_with_cache_in_pieces_equals_forward(norm_first):
    torch.manual_seed(0)
    layer = randomize(DecoderLayer(8, 2, norm_first=norm_first))
    x, memory = torch.randn(2, 5, 8, dtype=F64), torch.randn(2, 3, 8, dtype=F64)
    expected, (own, cross) = layer(x, memory, causal_mask(5), return_weights=True)
    cache, at = layer.init_cache(memory), 0
    for piece in (x[:, :2], x[:, 2:3], x[:, 3:]):
        until = at + piece.shape[1]
        mask = causal_mask(piece.shape[1], until)
        y, cache, weights = layer.forward_with_cache(piece, cache, mask, return_weights=True)
        assert weights is not None
        assert_close(y, expected[:, at:until])
        assert_close(weights[0], own[:, :, at:until, :until])
        assert_close(weights[1], cross[:, :, at:until])
        at = until


def test_a_decoder_needs_a_cache_for_each_layer():
    decoder = Decoder(2, 8, 2)
    caches = decoder.init_cache(torch.randn(1, 3, 8))
    for wrong in ((), caches[:1], (*caches, caches[0])):
        with pytest.raises(ValueError, match=f"{len(wrong)} caches for 2 layers: pass those of init_cache"):
            decoder.forward_with_cache(torch.randn(1, 1, 8), wrong)


@pytest.mark.parametrize("norm_first", [False, True])
def test_gradients_of_the_layers_in_float64(norm_first):
    torch.manual_seed(0)
    x, memory = (torch.randn(2, n, 4, dtype=F64, requires_grad=True) for n in (3, 2))
    mask = padding_mask(torch.tensor([[1, 2, 0], [0, 0, 0]]) != 0)
    encoder = randomize(EncoderLayer(4, 2, 6, activation="gelu", norm_first=norm_first))
    assert torch.autograd.gradcheck(lambda x: encoder(x, mask), x)
    decoder = randomize(DecoderLayer(4, 2, 6, activation="gelu", norm_first=norm_first))
    assert torch.autograd.gradcheck(lambda x, memory: decoder(x, memory, causal_mask(3)), (x, memory))


STACKS = {
    "encoder layer": lambda norm_first: EncoderLayer(8, 2, 12, norm_first=norm_first),
    "encoder": lambda norm_first: Encoder(2, 8, 2, 12, norm_first=norm_first),
    "decoder layer": lambda norm_first: DecoderLayer(8, 2, 12, norm_first=norm_first),
    "decoder": lambda norm_first: Decoder(2, 8, 2, 12, norm_first=norm_first),
}


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf])
@pytest.mark.parametrize("kind", ["boolean", "float"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("name", STACKS)
def test_nan_in_the_padding_reaches_no_token_and_no_gradient(name, norm_first, return_weights, causal, kind, garbage):
    torch.manual_seed(0)
    stack = randomize(STACKS[name](norm_first))
    mask, memory_mask = padding_mask(TARGET != 0), padding_mask(SOURCE != 0)
    mask = mask & causal_mask(4) if causal else mask
    if kind == "float":
        mask = torch.zeros(3, 1, 4, 4, dtype=F64).masked_fill(~mask, -torch.inf)
        memory_mask = torch.zeros(3, 1, 1, 5, dtype=F64).masked_fill(~memory_mask, -torch.inf)

    def run(fill):
        g = torch.Generator().manual_seed(1)
        x, memory = (torch.randn(3, n, 8, generator=g, dtype=F64) for n in (4, 5))
        x[TARGET == 0], memory[SOURCE == 0] = fill, fill
        inputs = [x.requires_grad_()]
        if "decoder" in name:
            inputs.append(memory.requires_grad_())
        masks = (mask, memory_mask)[: len(inputs)]
        result = stack(*inputs, *masks, return_weights=return_weights)
        output = (result[0] if return_weights else result)[TARGET != 0]
        return [output, *torch.autograd.grad(output.sin().sum(), [*inputs, *stack.parameters()])]

    for clean, dirty in zip(run(0.0), run(garbage), strict=True):
        assert clean.isfinite().all()
        assert_close(dirty, clean)


def test_feed_forward_is_position_wise_and_takes_a_function():
    torch.manual_seed(0)
    feed_forward = FeedForward(4, 9, torch.tanh).to(F64)
    x = torch.randn(2, 3, 4, dtype=F64)
    first, second = feed_forward.linear_1, feed_forward.linear_2
    assert_close(feed_forward(x), torch.tanh(x @ first.weight.T + first.bias) @ second.weight.T + second.bias)
    assert_close(feed_forward(x[:, 1]), feed_forward(x)[:, 1])


def test_invalid_settings_raise():
    with pytest.raises(ValueError, match="unknown activation 'swish': choose one of relu, gelu"):
        EncoderLayer(4, 2, activation="swish")
    with pytest.raises(ValueError, match="3 heads do not divide"):
        DecoderLayer(8, 3)
    assert EncoderLayer(8, 3, head_dim=8)(torch.randn(1, 2, 8)).shape == (1, 2, 8)


@pytest.mark.parametrize("batches", [(1, 3), (3, 1)])
def test_inputs_and_memory_of_different_batches_raise(batches):
    x, memory = (torch.randn(b, 4, 8) for b in batches)
    # The tests' check of types, where it runs, raises first.
    with pytest.raises((ValueError, TypeError), match="queries of batch|Type-check error"):
        DecoderLayer(8, 2)(x, memory)
