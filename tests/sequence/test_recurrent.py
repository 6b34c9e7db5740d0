"""Bahdanau's and Luong's models against step-by-step computations in numpy that share nothing with them."""

import numpy as np
import pytest
import torch
from torch import nn

from molattn.sequence import Bahdanau, Luong
from tests.assertions import assert_close, assert_identical
from tests.sequence.models import F64, RECURRENT, SOURCE, TARGET, make
from tests.sequence.torch_stacks import randomise
from tests.sequence.toy import accuracy, copies, reversals, train


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def gru_step(p, x, h, end=""):
    """One step of torch's GRU equations, from parameters weight_ih{end}, ..., gates in the order r, z, n."""
    r_x, z_x, n_x = np.split(p["weight_ih" + end] @ x + p["bias_ih" + end], 3)
    r_h, z_h, n_h = np.split(p["weight_hh" + end] @ h + p["bias_hh" + end], 3)
    z, n = sigmoid(z_x + z_h), np.tanh(n_x + sigmoid(r_x + r_h) * n_h)
    return (1 - z) * n + z * h


def lstm_step(p, x, h, c, end=""):
    """One step of an LSTM, gates in the order i, f, g, o."""
    gates = p["weight_ih" + end] @ x + p["bias_ih" + end] + p["weight_hh" + end] @ h + p["bias_hh" + end]
    i, f, g, o = np.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def parameters(module):
    return {name: p.detach().numpy() for name, p in module.named_parameters()}


def tokens_of(row):
    return [t for t in row.tolist() if t != 0]


def bahdanau_by_hand(model, source, target):
    """Logits and alignment of one source (its tokens) and one target."""
    p = parameters(model)
    rnn, cell = parameters(model.encoder.rnn), parameters(model.cell)
    hidden = model.w_s.in_features
    x = [p["encoder.embedding.weight"][t] for t in source]
    forward, backward = [np.zeros(hidden)], [np.zeros(hidden)]
    for v in x:
        forward.append(gru_step(rnn, v, forward[-1], "_l0"))
    for v in reversed(x):
        backward.append(gru_step(rnn, v, backward[-1], "_l0_reverse"))
    memory = [np.concatenate([f, b]) for f, b in zip(forward[1:], backward[:0:-1], strict=True)]
    s = np.tanh(p["w_s.weight"] @ backward[-1] + p["w_s.bias"])
    logits, alignment = [], []
    for t in target:
        y = p["embedding.weight"][t]
        energies = [
            p["score.w.weight"][0]
            @ np.tanh(p["score.w_q.weight"] @ s + p["score.w_k.weight"] @ h + p["score.w_k.bias"])
            for h in memory
        ]
        a = softmax(np.array(energies))
        c = sum(weight * h for weight, h in zip(a, memory, strict=True))
        s = gru_step(cell, np.concatenate([y, c]), s)
        r = p["w_r.weight"] @ np.concatenate([s, y, c]) + p["w_r.bias"]
        r = np.array([max(r[i], r[i + 1]) for i in range(0, len(r), 2)])
        logits.append(p["output.weight"] @ r + p["output.bias"])
        alignment.append(a)
    return np.array(logits), np.array(alignment)


def luong_by_hand(model, source, target, cell, score, layers, feeding):
    p = parameters(model)
    hidden = model.w_c.out_features

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

    state, memory = [(np.zeros(hidden), np.zeros(hidden))] * layers, []
    for t in source:
        h, state = stacked(parameters(model.encoder.rnn), p["encoder.embedding.weight"][t], state)
        memory.append(h)
    attentional, logits, alignment = np.zeros(hidden), [], []
    for t in target:
        x = p["embedding.weight"][t]
        h, state = stacked(parameters(model.rnn), np.concatenate([x, attentional]) if feeding else x, state)
        w = softmax(np.array([energy(h, j, hs) for j, hs in enumerate(memory)]))
        c = sum(weight * hs for weight, hs in zip(w, memory, strict=True))
        attentional = np.tanh(p["w_c.weight"] @ np.concatenate([c, h]))
        logits.append(p["output.weight"] @ attentional + p["output.bias"])
        alignment.append(w)
    return np.array(logits), np.array(alignment)


def check(model, by_hand):
    logits, alignment = model(SOURCE, TARGET, return_weights=True)
    assert_close(model(SOURCE, TARGET), logits)
    assert alignment.shape == (3, 4, 5)
    for i, row in enumerate(SOURCE):
        source = tokens_of(row)
        expected, weights = by_hand(source, TARGET[i].tolist())
        assert_close(logits[i], torch.from_numpy(expected), tol=1e-10)
        assert_close(alignment[i, :, : len(source)], torch.from_numpy(weights), tol=1e-10)
        assert alignment[i, :, len(source) :].eq(0).all()


@pytest.mark.parametrize("seed", range(3))
def test_document_003_bahdanau_equals_the_steps_by_hand(seed):
    torch.manual_seed(seed)
    model = randomise(Bahdanau(10, 8, 5, 6, attention_dim=7, readout_dim=4))
    check(model, lambda source, target: bahdanau_by_hand(model, source, target))


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("score", ["dot", "general", "concat", "location"])
@pytest.mark.parametrize(("layers", "feeding"), [(1, True), (2, True), (2, False)])
def test_document_003_luong_equals_the_steps_by_hand(cell, score, layers, feeding):
    torch.manual_seed(0)
    model = Luong(10, 8, 5, 6, num_layers=layers, cell=cell, score=score, max_source_length=9, input_feeding=feeding)
    model = randomise(model)
    check(model, lambda source, target: luong_by_hand(model, source, target, cell, score, layers, feeding))


@pytest.mark.parametrize("name", RECURRENT)
def test_padding_is_inert(name):
    model = make(name)
    expected, alignment = model(SOURCE, TARGET, return_weights=True)
    logits, padded = model(nn.functional.pad(SOURCE, (0, 3)), nn.functional.pad(TARGET, (0, 2)), return_weights=True)
    assert_close(logits[:, :4], expected)
    assert_close(padded[:, :4, :5], alignment)
    assert padded[:, :, 5:].eq(0).all()
    with torch.no_grad():
        model.encoder.embedding.weight[0] = 1e6
    assert_close(model(SOURCE, TARGET), expected)


@pytest.mark.parametrize("name", RECURRENT)
def test_a_batch_equals_its_members_one_by_one(name):
    model = make(name)
    together = model(SOURCE, TARGET)
    for i, (m, n) in enumerate(((5, 4), (3, 3), (1, 2))):
        assert_close(model(SOURCE[i : i + 1, :m], TARGET[i : i + 1, :n])[0], together[i, :n])


@pytest.mark.parametrize("name", RECURRENT)
def test_causal_a_later_token_changes_no_earlier_output(name):
    model = make(name)
    other = TARGET.clone()
    other[:, 2:] = 3
    assert_identical(model(SOURCE, other)[:, :2], model(SOURCE, TARGET)[:, :2])
    assert not torch.equal(model(SOURCE, other)[:, 2:], model(SOURCE, TARGET)[:, 2:])


@pytest.mark.parametrize("name", RECURRENT)
def test_alignments_sum_to_1(name):
    _, alignment = make(name)(SOURCE, TARGET, return_weights=True)
    assert_close(alignment.sum(-1), torch.ones(3, 4, dtype=F64))


@pytest.mark.parametrize("name", RECURRENT)
def test_nothing_but_padding_stays_finite_forward_and_backward(name):
    model = make(name)
    source = SOURCE.clone()
    source[1] = 0
    logits, alignment = model(source, TARGET, return_weights=True)
    assert logits.isfinite().all() and alignment[1].eq(0).all()
    assert_close(logits[0], model(SOURCE, TARGET)[0])
    logits.sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
    assert model(torch.zeros(2, 0, dtype=torch.long), TARGET[:2]).isfinite().all()


@pytest.mark.parametrize("name", RECURRENT)
def test_padding_before_a_token_is_refused(name):
    with pytest.raises(ValueError, match="padding .* before a token"):
        make(name)(torch.tensor([[3, 0, 4]]), torch.tensor([[1]]))


@pytest.mark.parametrize("name", RECURRENT)
def test_gradients_in_float64(name):
    model = make(name)
    names, values = zip(*model.named_parameters(), strict=True)

    def loss(direction):
        # The padding's embedding is a constant, so no padding is read here.
        moved = {
            n: v + direction * torch.linspace(-1, 1, v.numel(), dtype=F64).view_as(v)
            for n, v in zip(names, values, strict=True)
        }
        return torch.func.functional_call(model, moved, (SOURCE[:2], TARGET[:2].clamp(min=1))).sin().sum()

    assert torch.autograd.gradcheck(loss, torch.zeros((), dtype=F64, requires_grad=True))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="unknown cell 'rnn': choose one of gru, lstm"):
        Luong(5, 5, 4, 4, cell="rnn")
    with pytest.raises(ValueError, match="unknown score 'cosine'"):
        Luong(5, 5, 4, 4, score="cosine")
    with pytest.raises(ValueError, match="needs a max_length"):
        Luong(5, 5, 4, 4, score="location")
    with pytest.raises(ValueError, match="an empty target"):
        Luong(10, 8, 4, 4)(SOURCE, TARGET[:, :0])
    with pytest.raises(ValueError, match="5 keys are more than"):
        Luong(10, 8, 4, 4, score="location", max_source_length=4)(SOURCE, TARGET)


LEARNERS = {
    "bahdanau": lambda: Bahdanau(12, 12, 16, 32),
    "luong": lambda: Luong(12, 12, 16, 48, score="general"),
}


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("task", [copies, reversals])
def test_it_learns_to_copy_and_to_reverse(name, task):
    torch.manual_seed(0)
    model = LEARNERS[name]()
    train(model, task, steps=250, rate=1e-2)
    assert accuracy(model, task) > 0.95
