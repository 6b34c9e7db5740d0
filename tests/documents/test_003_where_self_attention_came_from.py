"""Document 003, an article on multi-head self-attention: the scores before it, the recurrent models, the six steps."""

import math

import numpy as np
import pytest
import torch

from molattn.attention import (
    Additive,
    General,
    Location,
    MultiHeadAttention,
    attend,
    attention_weights,
    merge_heads,
    split_heads,
)
from molattn.chem import TOKENS, smiles_tokens
from molattn.sequence import Bahdanau, Luong, PositionalEmbedding
from tests.documents.by_hand import F64, array, assert_same, linear, randomize, softmax

# How well does an encoder state h_t, a key, match a decoder state s, a query? Each score e_st, then softmax over t.

DECODER = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=F64)  # 3 states of 4 channels
ENCODER = torch.randn(5, 4, generator=torch.Generator().manual_seed(1), dtype=F64)  # 5 states
NARROW = ENCODER[:, :3]  # of another width


def weights_of(score):
    """softmax_t(score(s, h_t, t)), one pair at a time."""
    return lambda queries, keys: softmax(
        np.array([[score(s, h, t) for t, h in enumerate(keys.numpy())] for s in queries.numpy()])
    )


def test_document_003_the_dot_score():
    """e_st = s . h_t"""
    by_hand = weights_of(lambda s, h, _: s @ h)(DECODER, ENCODER)
    assert_same(attention_weights(DECODER, ENCODER, score="dot"), by_hand)


def test_document_003_the_scaled_dot_score():
    """e_st = s . h_t / sqrt(d)"""
    by_hand = weights_of(lambda s, h, _: s @ h / math.sqrt(4))(DECODER, ENCODER)
    assert_same(attention_weights(DECODER, ENCODER, score="scaled_dot"), by_hand)


def test_document_003_the_general_or_multiplicative_score():
    """e_st = s^T W h_t, which lets the two have different widths."""
    score = randomize(General(query_dim=4, key_dim=3))
    w = array(score.w.weight).T
    assert_same(attention_weights(DECODER, NARROW, score=score), weights_of(lambda s, h, _: s @ w @ h)(DECODER, NARROW))


def test_document_003_the_additive_score_of_bahdanau():
    """e_st = w . tanh(W_q s + W_k h_t + b)"""
    score = randomize(Additive(query_dim=4, key_dim=3, hidden_dim=6))
    w_q, w_k, b = array(score.w_q.weight), array(score.w_k.weight), array(score.w_k.bias)
    w = array(score.w.weight)[0]
    by_hand = weights_of(lambda s, h, _: w @ np.tanh(w_q @ s + w_k @ h + b))(DECODER, NARROW)
    assert_same(attention_weights(DECODER, NARROW, score=score), by_hand)


def test_document_003_the_concat_score_of_luong_is_the_additive_one():
    """e_st = w . tanh(W [s; h_t] + b), W = [W_q, W_k]"""
    score = randomize(Additive(query_dim=4, key_dim=3, hidden_dim=6))
    w_both = np.concatenate([array(score.w_q.weight), array(score.w_k.weight)], axis=1)
    w, b = array(score.w.weight)[0], array(score.w_k.bias)
    by_hand = weights_of(lambda s, h, _: w @ np.tanh(w_both @ np.concatenate([s, h]) + b))(DECODER, NARROW)
    assert_same(attention_weights(DECODER, NARROW, score=score), by_hand)


def test_document_003_slip_the_location_score_is_a_softmax_over_source_positions():
    """a_s = softmax(W_a s): row t of W_a is for position t, independently of its content."""
    score = randomize(Location(query_dim=4, max_length=7))
    by_hand = softmax(DECODER.numpy() @ array(score.w.weight)[:5].T)
    assert_same(attention_weights(DECODER, ENCODER, score=score), by_hand)
    assert_same(attention_weights(DECODER, -3 * ENCODER, score=score), by_hand)
    assert_same(attend(DECODER, ENCODER, ENCODER, score=score), by_hand @ ENCODER.numpy())


# Two recurrent encoder-decoders, step by step

SOURCE = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0], [5, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 7, 1, 6], [1, 5, 1, 0], [1, 4, 0, 0]])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru_step(p, x, h, end=""):
    """h' = (1 - z) n + z h,  n = tanh(W x + r (U h));  torch's parameters, gates in the order r, z, n."""
    r_x, z_x, n_x = np.split(p["weight_ih" + end] @ x + p["bias_ih" + end], 3)
    r_h, z_h, n_h = np.split(p["weight_hh" + end] @ h + p["bias_hh" + end], 3)
    z, n = sigmoid(z_x + z_h), np.tanh(n_x + sigmoid(r_x + r_h) * n_h)
    return (1 - z) * n + z * h


def lstm_step(p, x, h, c, end=""):
    """c' = f c + i g,  h' = o tanh(c');  gates in the order i, f, g, o."""
    gates = p["weight_ih" + end] @ x + p["bias_ih" + end] + p["weight_hh" + end] @ h + p["bias_hh" + end]
    i, f, g, o = np.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def parameters(module):
    return {name: p.detach().numpy() for name, p in module.named_parameters()}


def bahdanau_by_hand(model, source, target):
    """Logits and alignment of one source (its tokens) and one target."""
    p = parameters(model)
    rnn, cell = parameters(model.encoder.rnn), parameters(model.cell)
    x = [p["encoder.embedding.weight"][t] for t in source]
    forward, backward = [np.zeros(6)], [np.zeros(6)]
    for v in x:
        forward.append(gru_step(rnn, v, forward[-1], "_l0"))
    for v in reversed(x):
        backward.append(gru_step(rnn, v, backward[-1], "_l0_reverse"))
    memory = [np.concatenate([f, b]) for f, b in zip(forward[1:], backward[:0:-1], strict=True)]
    s = np.tanh(linear(model.w_s, backward[-1]))
    logits, alignment = [], []
    for t in target:
        y = p["embedding.weight"][t]
        # Attention uses s of the previous step.
        energies = [
            p["score.w.weight"][0]
            @ np.tanh(p["score.w_q.weight"] @ s + p["score.w_k.weight"] @ h + p["score.w_k.bias"])
            for h in memory
        ]
        a = softmax(np.array(energies))
        c = sum(weight * h for weight, h in zip(a, memory, strict=True))
        s = gru_step(cell, np.concatenate([y, c]), s)
        r = linear(model.w_r, np.concatenate([s, y, c]))
        r = np.array([max(r[i], r[i + 1]) for i in range(0, len(r), 2)])
        logits.append(linear(model.output, r))
        alignment.append(a)
    return np.array(logits), np.array(alignment)


def luong_by_hand(model, source, target, cell, score, layers, feeding):
    """Logits and alignment of one source (its tokens) and one target."""
    p = parameters(model)

    def stacked(rnn, x, state):
        after = []
        for layer in range(layers):
            h, c = state[layer]
            h, c = lstm_step(rnn, x, h, c, f"_l{layer}") if cell == "lstm" else (gru_step(rnn, x, h, f"_l{layer}"), c)
            after.append((h, c))
            x = h
        return x, after

    def energy(h, j, hs):
        if score == "dot":
            return h @ hs
        if score == "general":
            return hs @ p["score.w.weight"] @ h
        if score == "location":
            return p["score.w.weight"][j] @ h
        both = np.concatenate([p["score.w_q.weight"], p["score.w_k.weight"]], axis=1) @ np.concatenate([h, hs])
        return p["score.w.weight"][0] @ np.tanh(both + p["score.w_k.bias"])

    state, memory = [(np.zeros(6), np.zeros(6))] * layers, []
    for t in source:
        h, state = stacked(parameters(model.encoder.rnn), p["encoder.embedding.weight"][t], state)
        memory.append(h)
    attentional, logits, alignment = np.zeros(6), [], []
    for t in target:
        x = p["embedding.weight"][t]
        # The recurrent step uses the previous attention; attention then uses the new state.
        h, state = stacked(parameters(model.rnn), np.concatenate([x, attentional]) if feeding else x, state)
        w = softmax(np.array([energy(h, j, hs) for j, hs in enumerate(memory)]))
        c = sum(weight * hs for weight, hs in zip(w, memory, strict=True))
        attentional = np.tanh(p["w_c.weight"] @ np.concatenate([c, h]))
        logits.append(linear(model.output, attentional))
        alignment.append(w)
    return np.array(logits), np.array(alignment)


def check(model, by_hand):
    """Logits and alignment of every source and target, with no attention to padding."""
    logits, alignment = model(SOURCE, TARGET, return_weights=True)
    assert_same(model(SOURCE, TARGET), array(logits))
    assert alignment.shape == (3, 4, 5)
    for i, row in enumerate(SOURCE):
        source = [t for t in row.tolist() if t != 0]
        expected, weights = by_hand(source, TARGET[i].tolist())
        assert_same(logits[i], expected, tol=1e-10)
        assert_same(alignment[i, :, : len(source)], weights, tol=1e-10)
        assert alignment[i, :, len(source) :].eq(0).all()


@pytest.mark.parametrize("seed", range(3))
def test_document_003_bahdanaus_model_by_hand(seed):
    """a_t = softmax_j(w . tanh(W_q s_(t-1) + W_k h_j + b)),  c_t = sum_j a_tj h_j,  s_t = GRU([y; c_t], s_(t-1))"""
    model = randomize(Bahdanau(10, 8, 5, 6, attention_dim=7, readout_dim=4), seed)
    check(model, lambda source, target: bahdanau_by_hand(model, source, target))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("score", ["dot", "general", "concat", "location"])
@pytest.mark.parametrize(("layers", "feeding"), [(1, True), (2, True), (2, False)])
def test_document_003_luongs_model_by_hand(cell, score, layers, feeding):
    """h_t = RNN([y_(t-1); a~_(t-1)]),  w_t = softmax_j(score(h_t, hs_j)),  a~_t = tanh(W_c [c_t; h_t])"""
    model = Luong(10, 8, 5, 6, num_layers=layers, cell=cell, score=score, max_source_length=9, input_feeding=feeding)
    model = randomize(model)
    check(model, lambda source, target: luong_by_hand(model, source, target, cell, score, layers, feeding))


def last_alignment(model, tokens):
    return model(SOURCE[:1], torch.tensor([tokens]), return_weights=True)[1][0, -1]


def test_document_003_bahdanau_attends_before_the_recurrent_step_and_luong_after():
    # The last target token has not reached Bahdanau's state when attention is computed; Luong's has read it.
    bahdanau, luong = randomize(Bahdanau(10, 8, 5, 6)), randomize(Luong(10, 8, 5, 6))
    assert torch.equal(last_alignment(bahdanau, [1, 7, 3]), last_alignment(bahdanau, [1, 7, 4]))
    assert not torch.allclose(last_alignment(bahdanau, [1, 7, 3]), last_alignment(bahdanau, [1, 2, 3]))
    assert not torch.allclose(last_alignment(luong, [1, 7, 3]), last_alignment(luong, [1, 7, 4]))


def test_document_003_input_feeding_passes_the_previous_attention_to_luongs_decoder():
    # W_c makes the attentional vector, which only input feeding gives to the next step's alignment.
    for feeding in (True, False):
        model = randomize(Luong(10, 8, 5, 6, input_feeding=feeding))
        before = last_alignment(model, [1, 7])
        with torch.no_grad():
            model.w_c.weight.neg_()
        assert torch.allclose(last_alignment(model, [1, 7]), before) is not feeding


# The six steps of multi-head self-attention, on acetic acid

HEADS, CHANNELS = 3, 12


@pytest.fixture(scope="module")
def layer():
    return randomize(MultiHeadAttention(CHANNELS, HEADS))


@pytest.fixture(scope="module")
def z():
    """The tokens of a SMILES as vectors, (batch, tokens, channels)."""
    tokens = torch.from_numpy(smiles_tokens("CC(=O)O").codes).long()
    return randomize(PositionalEmbedding(len(TOKENS), CHANNELS))(tokens[None]).detach()


@pytest.fixture(scope="module")
def steps(layer, z):
    """All six in numpy, one token and one head at a time."""
    x = z[0].numpy()
    n, d = len(x), CHANNELS // HEADS
    projected = [linear(p, x) for p in (layer.q_proj, layer.k_proj, layer.v_proj)]  # 1. linear maps
    q, k, v = ([p[:, h * d : (h + 1) * d] for h in range(HEADS)] for p in projected)  # 2. divided into heads
    logits = [np.array([[q[h][s] @ k[h][t] for t in range(n)] for s in range(n)]) for h in range(HEADS)]
    weights = [softmax(logits[h] / math.sqrt(d)) for h in range(HEADS)]  # 3. the weights
    heads = [weights[h] @ v[h] for h in range(HEADS)]  # 4. the weights applied
    together = np.concatenate(heads, axis=-1)  # 5. put together again
    output = linear(layer.join.linear, together)  # 6. the last linear map
    return projected, (q, k, v), weights, heads, together, output


def q_k_v(layer, z):
    return [split_heads(p(z), HEADS) for p in (layer.q_proj, layer.k_proj, layer.v_proj)]


def test_document_003_step_1_linear_maps_make_q_k_and_v(layer, z, steps):
    for projection, by_hand in zip((layer.q_proj, layer.k_proj, layer.v_proj), steps[0], strict=True):
        assert_same(projection(z)[0], by_hand)


def test_document_003_step_2_the_channels_are_divided_into_heads(layer, z, steps):
    for heads, by_hand in zip(q_k_v(layer, z), steps[1], strict=True):
        assert heads.shape == (1, HEADS, 7, CHANNELS // HEADS)
        assert_same(heads[0], np.stack(by_hand))


def test_document_003_step_3_scaled_dot_products_become_weights(layer, z, steps):
    q, k, _ = q_k_v(layer, z)
    assert_same(attention_weights(q, k)[0], np.stack(steps[2]))


def test_document_003_step_4_the_weights_are_applied_to_the_values(layer, z, steps):
    q, k, v = q_k_v(layer, z)
    assert_same((attention_weights(q, k) @ v)[0], np.stack(steps[3]))
    assert_same(attend(q, k, v)[0], np.stack(steps[3]))


def test_document_003_step_5_the_heads_are_concatenated(layer, z, steps):
    assert_same(merge_heads(attend(*q_k_v(layer, z)))[0], steps[4])


def test_document_003_step_6_a_last_linear_map(layer, z, steps):
    assert_same(layer.join(merge_heads(attend(*q_k_v(layer, z))))[0], steps[5])


def test_document_003_the_layer_does_all_six_steps_and_returns_the_weights(layer, z, steps):
    output, weights = layer(z, return_weights=True)
    assert_same(output[0], steps[5])
    assert_same(weights[0], np.stack(steps[2]))
