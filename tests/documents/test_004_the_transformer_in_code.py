"""Document 004, the Transformer in code: every component in a few lines of numpy, then all of them together."""

import math

import numpy as np
import pytest
import torch

from molattn.attention import DenseLayout, MultiHeadAttention, attend, dot, scaled_dot
from molattn.sequence import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderLayer,
    FeedForward,
    PositionalEmbedding,
    Transformer,
    causal_mask,
    causal_padding_mask,
    padding_mask,
    sinusoidal_positions,
)
from tests.documents.by_hand import F64, array, assert_same, linear, randomize, softmax

D_MODEL, HEADS, HIDDEN, BLOCKS = 8, 2, 12, 2
SOURCE = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]])  # 0 is padding
TARGET = torch.tensor([[1, 7, 1, 8], [1, 8, 4, 0]])


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


# Scaled dot-product attention with a mask


def attention_by_hand(q, k, v, forbidden):
    """softmax(q k^T / sqrt(d) - 1e9 forbidden) v,  forbidden being 1 for masked pairs and 0 elsewhere."""
    weights = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) - 1e9 * forbidden)
    return weights @ v, weights


def test_document_004_scaled_dot_product_attention():
    q, k, v = random(2, 4, 8), random(2, 5, 8, seed=1), random(2, 5, 3, seed=2)
    output, weights = attend(q, k, v, return_weights=True)
    expected, by_hand = attention_by_hand(q.numpy(), k.numpy(), v.numpy(), 0)
    assert_same(output, expected)
    assert_same(weights, by_hand)


@pytest.mark.parametrize("kind", ["minus 1e9", "minus infinity", "boolean"])
def test_document_004_an_additive_mask(kind):
    q, k, v = random(2, 4, 8), random(2, 5, 8, seed=1), random(2, 5, 3, seed=2)
    forbidden = torch.tensor([[0, 1, 0, 0, 1], [1, 0, 0, 1, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0.0]], dtype=F64)
    mask = {
        "minus 1e9": -1e9 * forbidden,
        "minus infinity": torch.zeros(4, 5, dtype=F64).masked_fill(forbidden == 1, -math.inf),
        "boolean": forbidden == 0,  # True where a query may attend
    }[kind]
    output, weights = attend(q, k, v, mask, return_weights=True)
    expected, by_hand = attention_by_hand(q.numpy(), k.numpy(), v.numpy(), forbidden.numpy())
    assert_same(output, expected)
    assert_same(weights, by_hand)
    assert_same(attend(q, k, v, mask), expected)


@pytest.mark.parametrize("kind", ["minus infinity", "boolean"])
def test_document_004_slip_a_row_with_no_key_allowed_gives_zeros_never_nan(kind):
    q, k = random(3, 8), random(5, 8, seed=1)
    k.requires_grad_()
    mask = torch.ones(3, 5, dtype=torch.bool)
    mask[1] = False
    given = mask if kind == "boolean" else torch.zeros(3, 5, dtype=F64).masked_fill(~mask, -math.inf)
    output, weights = attend(q, k, k, given, return_weights=True)
    assert_same(output[1], np.zeros(8))
    assert_same(weights[1], np.zeros(5))
    assert_same(weights[[0, 2]].sum(-1), np.ones(2))
    assert_same(attend(q, k, k, given), array(output))
    (gradient,) = torch.autograd.grad(output.sin().sum(), k)
    assert gradient.isfinite().all()


def test_document_004_slip_the_variance_of_a_dot_product_is_d_and_scaling_makes_it_1():
    """var(q . k) = d for q and k of variance 1; dividing by sqrt(d) leaves 1, however many there are of them."""
    for d in (16, 256):
        q, k = random(400, d), random(500, d, seed=1)
        assert abs(float(dot(q, k, DenseLayout()).var()) / d - 1) < 0.1
        assert abs(float(scaled_dot(q, k, DenseLayout()).var()) - 1) < 0.1


# Masks


def test_document_004_token_0_is_padding_and_masked():
    assert array(padding_mask(SOURCE != 0))[:, 0, 0].tolist() == [[True] * 5, [True, True, True, False, False]]


def test_document_004_the_causal_mask_hides_what_comes_later():
    assert array(causal_mask(4)).tolist() == np.tril(np.ones((4, 4), dtype=bool)).tolist()


def test_document_004_both_masks_together():
    later = np.tril(np.ones((4, 4), dtype=bool))
    padding = TARGET.numpy() != 0
    assert array(causal_padding_mask(TARGET != 0))[:, 0].tolist() == (later & padding[:, None, :]).tolist()


# Components


def multi_head_by_hand(layer, x, memory, mask):
    """[head_1, ..., head_H] W_o + b_o,  head_h = softmax(q_h k_h^T / sqrt(d)) v_h;  the weights too. One sequence."""
    q, k, v = linear(layer.q_proj, x), linear(layer.k_proj, memory), linear(layer.v_proj, memory)
    heads = zip(*(np.split(p, layer.num_heads, axis=-1) for p in (q, k, v)), strict=True)
    outputs, weights = zip(*(attention_by_hand(*head, 1.0 - mask) for head in heads), strict=True)
    return linear(layer.join.linear, np.concatenate(outputs, axis=-1)), np.stack(weights)


def feed_forward_by_hand(layer, x):
    """max(0, x W_1 + b_1) W_2 + b_2"""
    return linear(layer.linear_2, np.maximum(0, linear(layer.linear_1, x)))


def norm_by_hand(norm, x):
    """(x - mean) / sqrt(variance + epsilon), scaled and shifted."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + norm.eps) * array(norm.weight) + array(norm.bias)


def positions_by_hand(length, d):
    """sin(p w_i), then cos(p w_i),  w_i = 1 / 10000^(i / (d/2)), i from 0 to d/2."""
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(d // 2) / (d // 2))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


def encoder_layer_by_hand(layer, x, mask):
    """x = norm(x + attention(x)),  x = norm(x + feed_forward(x))"""
    update, weights = multi_head_by_hand(layer.self_attention, x, x, mask)
    x = norm_by_hand(layer.self_attention_residual.norm, x + update)
    x = norm_by_hand(layer.feed_forward_residual.norm, x + feed_forward_by_hand(layer.feed_forward, x))
    return x, weights


def decoder_layer_by_hand(layer, x, memory, mask, memory_mask):
    """As the encoder's, with attention to the memory between the two."""
    update, own = multi_head_by_hand(layer.self_attention, x, x, mask)
    x = norm_by_hand(layer.self_attention_residual.norm, x + update)
    update, cross = multi_head_by_hand(layer.cross_attention, x, memory, memory_mask)
    x = norm_by_hand(layer.cross_attention_residual.norm, x + update)
    x = norm_by_hand(layer.feed_forward_residual.norm, x + feed_forward_by_hand(layer.feed_forward, x))
    return x, own, cross


SEEN = np.array([[True, True, True, False, False]])  # three tokens, two of padding
PAST = np.tril(np.ones((4, 4), dtype=bool))


def test_document_004_multi_head_attention():
    layer = randomize(MultiHeadAttention(D_MODEL, HEADS))
    x, memory = random(1, 4, D_MODEL), random(1, 5, D_MODEL, seed=1)
    output, weights = layer(x, memory, mask=torch.from_numpy(SEEN), return_weights=True)
    expected, by_hand = multi_head_by_hand(layer, x[0].numpy(), memory[0].numpy(), SEEN)
    assert_same(output[0], expected)
    assert_same(weights[0], by_hand)
    assert weights.shape == (1, HEADS, 4, 5)


def test_document_004_heads_of_size_d_model():
    """Keras' key_dim given as d_model: each of the heads is as wide as the model."""
    layer, x = randomize(EncoderLayer(D_MODEL, HEADS, HIDDEN, head_dim=D_MODEL)), random(1, 5, D_MODEL)
    attention = layer.self_attention
    assert attention.q_proj.weight.shape == (HEADS * D_MODEL, D_MODEL)
    assert attention.join.linear.weight.shape == (D_MODEL, HEADS * D_MODEL)
    assert_same(layer(x)[0], encoder_layer_by_hand(layer, x[0].numpy(), np.ones((1, 5)))[0])


def test_document_004_point_wise_feed_forward():
    layer, x = randomize(FeedForward(D_MODEL, HIDDEN)), random(1, 5, D_MODEL)
    assert_same(layer(x)[0], feed_forward_by_hand(layer, x[0].numpy()))
    assert_same(layer(x[:, 3]), array(layer(x)[:, 3]))  # each position alone


def test_document_004_positional_encoding_sines_then_cosines_concatenated():
    assert_same(sinusoidal_positions(50, 16, dtype=F64), positions_by_hand(50, 16))
    # The rates of 10 channels, as published.
    rates = np.array([1.0, 0.158489319, 0.0251188643, 0.00398107171, 0.000630957344])
    assert_same(sinusoidal_positions(8, 10, dtype=F64)[1, :5], np.sin(rates), tol=1e-8)
    assert sinusoidal_positions(2048, 512).shape == (2048, 512)


def test_document_004_slip_the_formula_interleaves_and_the_code_concatenates_both_are_offered():
    """P(p, 2i) = sin(p / 10000^(2i/d)),  P(p, 2i+1) = cos(p / 10000^(2i/d))"""
    interleaved = np.array(
        [[(math.sin, math.cos)[c % 2](p / 10000 ** ((c - c % 2) / 16)) for c in range(16)] for p in range(50)]
    )
    assert_same(sinusoidal_positions(50, 16, "interleaved", dtype=F64), interleaved)
    together = np.concatenate([interleaved[:, 0::2], interleaved[:, 1::2]], axis=-1)
    assert_same(sinusoidal_positions(50, 16, "concatenated", dtype=F64), together)


def embedding_by_hand(embed, tokens):
    """sqrt(d) E[token_p] + P_p"""
    rows = array(embed.embedding.weight)[tokens]
    return math.sqrt(D_MODEL) * rows + positions_by_hand(len(tokens), D_MODEL)


def test_document_004_the_embedding_is_multiplied_by_the_root_of_d_model():
    embed = randomize(PositionalEmbedding(10, D_MODEL))
    assert_same(embed(SOURCE)[1], embedding_by_hand(embed, SOURCE[1].numpy()))


def test_document_004_the_encoder_layer():
    layer, x = randomize(EncoderLayer(D_MODEL, HEADS, HIDDEN)), random(1, 5, D_MODEL)
    output, weights = layer(x, torch.from_numpy(SEEN), return_weights=True)
    expected, by_hand = encoder_layer_by_hand(layer, x[0].numpy(), SEEN)
    assert_same(output[0], expected, tol=1e-11)
    assert_same(weights[0], by_hand)


def test_document_004_the_decoder_layer():
    layer = randomize(DecoderLayer(D_MODEL, HEADS, HIDDEN))
    x, memory = random(1, 4, D_MODEL), random(1, 5, D_MODEL, seed=1)
    output, (own, cross) = layer(x, memory, causal_mask(4), torch.from_numpy(SEEN), return_weights=True)
    expected, own_by_hand, cross_by_hand = decoder_layer_by_hand(layer, x[0].numpy(), memory[0].numpy(), PAST, SEEN)
    assert_same(output[0], expected, tol=1e-11)
    assert_same(own[0], own_by_hand, tol=1e-11)
    assert_same(cross[0], cross_by_hand, tol=1e-11)


def test_document_004_the_encoder_is_its_layers_one_after_the_other():
    encoder, x = randomize(Encoder(BLOCKS, D_MODEL, HEADS, HIDDEN)), random(1, 5, D_MODEL)
    expected = x[0].numpy()
    for layer in encoder.layers:
        expected, _ = encoder_layer_by_hand(layer, expected, SEEN)
    assert_same(encoder(x, torch.from_numpy(SEEN))[0], expected, tol=1e-10)


def test_document_004_the_decoder_is_its_layers_one_after_the_other():
    decoder, x, memory = (
        randomize(Decoder(BLOCKS, D_MODEL, HEADS, HIDDEN)),
        random(1, 4, D_MODEL),
        random(1, 5, D_MODEL),
    )
    expected = x[0].numpy()
    for layer in decoder.layers:
        expected, _, _ = decoder_layer_by_hand(layer, expected, memory[0].numpy(), PAST, SEEN)
    assert_same(decoder(x, memory, causal_mask(4), torch.from_numpy(SEEN))[0], expected, tol=1e-10)


# The whole model


def transformer_by_hand(model, source, target):
    """Logits, and the weights of each block of the decoder, of one source and one target."""
    seen, past = source != 0, np.tril(np.ones((len(target), len(target)), dtype=bool))
    memory, x = embedding_by_hand(model.embed_source, source), embedding_by_hand(model.embed_target, target)
    for layer in model.encoder.layers:
        memory, _ = encoder_layer_by_hand(layer, memory, seen)
    weights = []
    for layer in model.decoder.layers:
        x, own, cross = decoder_layer_by_hand(layer, x, memory, past & (target != 0), seen)
        weights.append((own, cross))
    return linear(model.output, x), weights


@pytest.mark.parametrize("head_dim", [None, D_MODEL], ids=["heads that share d_model", "heads of size d_model"])
def test_document_004_the_whole_transformer(head_dim):
    model = randomize(Transformer(10, 11, D_MODEL, HEADS, num_layers=BLOCKS, hidden_dim=HIDDEN, head_dim=head_dim))
    logits = model(SOURCE, TARGET)
    assert logits.shape == (2, 4, 11)
    for b in range(2):
        expected, _ = transformer_by_hand(model, SOURCE[b].numpy(), TARGET[b].numpy())
        assert_same(logits[b], expected, tol=1e-9)


def test_document_004_the_weights_of_every_decoder_block_are_returned():
    model = randomize(Transformer(10, 11, D_MODEL, HEADS, num_layers=BLOCKS, hidden_dim=HIDDEN))
    _, weights = model(SOURCE, TARGET, return_weights=True)
    assert len(weights.decoder) == len(weights.cross) == BLOCKS
    for b in range(2):
        _, by_hand = transformer_by_hand(model, SOURCE[b].numpy(), TARGET[b].numpy())
        for block, (own, cross) in enumerate(by_hand):
            assert_same(weights.decoder[block][b], own, tol=1e-9)  # (heads, target, target)
            assert_same(weights.cross[block][b], cross, tol=1e-9)  # (heads, target, source)
