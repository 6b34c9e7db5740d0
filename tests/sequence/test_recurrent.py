"""Bahdanau's and Luong's models: causality, padding, learning. Those computed by hand are in tests/documents."""

import pytest
import torch
from torch import nn

from molattn.attention import Additive
from molattn.sequence import Bahdanau, Luong
from tests.assertions import assert_close, assert_identical
from tests.sequence.models import F64, RECURRENT, SOURCE, TARGET, make
from tests.sequence.toy import TRANSLATIONS, accuracy, train


@pytest.mark.parametrize("name", RECURRENT)
def test_padding_has_no_effect(name):
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
def test_sequences_of_padding_only_are_finite_forward_and_backward(name):
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
def test_padding_before_a_token_raises(name):
    with pytest.raises(ValueError, match="padding .* before a token"):
        make(name)(torch.tensor([[3, 0, 4]]), torch.tensor([[1]]))


@pytest.mark.parametrize("name", RECURRENT)
def test_gradients_in_float64(name):
    model = make(name)
    names, values = zip(*model.named_parameters(), strict=True)

    def loss(direction):
        # The embedding of padding is constant, so there is no padding here.
        moved = {
            n: v + direction * torch.linspace(-1, 1, v.numel(), dtype=F64).view_as(v)
            for n, v in zip(names, values, strict=True)
        }
        return torch.func.functional_call(model, moved, (SOURCE[:2], TARGET[:2].clamp(min=1))).sin().sum()

    assert torch.autograd.gradcheck(loss, torch.zeros((), dtype=F64, requires_grad=True))


def test_invalid_settings_raise():
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
@pytest.mark.parametrize("task", TRANSLATIONS)
def test_it_learns_to_copy_and_to_reverse(name, task):
    torch.manual_seed(0)
    model = LEARNERS[name]()
    train(model, task, steps=250, rate=1e-2)
    assert accuracy(model, task) > 0.95


def test_an_unknown_score_of_luong_raises_with_the_names_of_the_paper():
    with pytest.raises(ValueError, match="unknown score 'concatt': .* general, concat, .* did you mean 'concat'"):
        Luong(5, 5, 4, 4, score="concatt")
    assert isinstance(Luong(5, 5, 4, 4, score="additive").score, Additive)


@pytest.mark.parametrize("size", ["attention_dim", "readout_dim", "hidden_dim"])
def test_sizes_of_bahdanau_are_checked(size):
    with pytest.raises(ValueError, match=f"{size} must be at least 1, not 0"):
        Bahdanau(5, 5, 4, **{"hidden_dim": 4, size: 0})


class Constant(Additive):
    def forward(self, q, k, layout):
        return 0 * super().forward(q, k, layout)


def test_an_additive_score_that_was_changed_is_called():
    """All logits are 0: each of three tokens has a third of the attention."""
    hooked, calls = Additive(8, 8, 8), []
    hooked.register_forward_hook(lambda _module, _inputs, output: calls.append(1) or 0 * output)
    for score in (Constant(8, 8, 8), hooked):
        model = Luong(9, 9, 4, 8, score=score)
        _, weights = model(torch.tensor([[3, 4, 5]]), torch.tensor([[1, 2]]), return_weights=True)
        assert_close(weights, torch.full_like(weights, 1 / 3))
    assert len(calls) == 2  # one for each target token
