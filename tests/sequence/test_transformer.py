"""The whole Transformer: causality, padding, outputs and learning."""

import warnings

import pytest
import torch
from torch import nn

from molattn.attention import causal_mask, implementations
from molattn.sequence import Transformer
from tests.assertions import assert_close, assert_identical
from tests.sequence.torch_stacks import F64, copy_layer, randomize
from tests.sequence.toy import TRANSLATIONS, accuracy, train

SOURCE = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0], [5, 0, 0, 0, 0]])
TARGET = torch.tensor([[1, 7, 1, 8], [1, 8, 1, 0], [1, 4, 0, 0]])


def small(dtype=F64, **settings):
    torch.manual_seed(0)
    settings = {"num_layers": 2, "hidden_dim": 12, **settings}
    model = randomize(Transformer(10, 11, 8, 2, **settings)).to(dtype)
    with torch.no_grad():
        for embed in (model.embed_source, model.embed_target):
            embed.embedding.weight[0] = 0
    return model


@pytest.mark.parametrize("norm_first", [False, True])
def test_document_004_the_whole_model_equals_torchs_stacks_between_embedding_and_output(norm_first):
    ours = small(norm_first=norm_first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of nested tensors, which pre-norm does not use
        theirs = nn.Transformer(8, 2, 2, 2, 12, 0.0, batch_first=True, norm_first=norm_first, dtype=F64)
    theirs = randomize(theirs)
    for their_stack, our_stack in ((theirs.encoder, ours.encoder), (theirs.decoder, ours.decoder)):
        for their_layer, our_layer in zip(their_stack.layers, our_stack.layers, strict=True):
            copy_layer(their_layer, our_layer, our_stack is ours.decoder)
        if norm_first:
            our_stack.norm.load_state_dict(their_stack.norm.state_dict())
        else:
            their_stack.norm = None
    expected = theirs(
        ours.embed_source(SOURCE),
        ours.embed_target(TARGET),
        tgt_mask=~causal_mask(4),
        src_key_padding_mask=SOURCE == 0,
        tgt_key_padding_mask=TARGET == 0,
        memory_key_padding_mask=SOURCE == 0,
    )
    assert_close(ours(SOURCE, TARGET), ours.output(expected), tol=1e-10)


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_causal_a_later_token_changes_no_earlier_output(return_weights, dtype):
    model = small(dtype)
    target = torch.randint(1, 11, (3, 20))
    before = model(SOURCE, target, return_weights=return_weights)
    for changed in (7, 15, 19):
        other = target.clone()
        other[:, changed:] = torch.randint(0, 11, (3, 20 - changed))
        after = model(SOURCE, other, return_weights=return_weights)
        logits, others = (before[0], after[0]) if return_weights else (before, after)
        assert_identical(others[:, :changed], logits[:, :changed])
        assert not torch.equal(others[:, changed:], logits[:, changed:])


def test_padding_has_no_effect():
    model = small()
    source = nn.functional.pad(SOURCE, (0, 4))
    target = nn.functional.pad(TARGET, (0, 3))
    expected, weights = model(SOURCE, TARGET, return_weights=True)
    logits, padded_weights = model(source, target, return_weights=True)
    assert_close(logits[:, :4], expected)
    assert_close(model(source, target)[:, :4], expected)
    assert_close(padded_weights.cross[1][:, :, :4, :5], weights.cross[1])
    assert padded_weights.cross[1][:, :, :, 5:].eq(0).all()


def test_the_embedding_of_padding_does_not_matter():
    model = small()
    expected = model(SOURCE, TARGET)
    with torch.no_grad():
        model.embed_source.embedding.weight[0] = 1e6
        model.embed_target.embedding.weight[0] = -1e6
    real = TARGET != 0
    assert_close(model(SOURCE, TARGET)[real], expected[real])


def test_a_batch_equals_its_members_one_by_one():
    model = small()
    together = model(SOURCE, TARGET)
    for i, (m, n) in enumerate(((5, 4), (3, 3), (1, 2))):
        assert_close(model(SOURCE[i : i + 1, :m], TARGET[i : i + 1, :n])[0], together[i, :n])


def test_sequences_of_padding_only_are_finite_forward_and_backward():
    model = small()
    nothing = torch.zeros(2, 3, dtype=torch.long)
    for source, target in ((nothing, TARGET[:2]), (SOURCE[:2], nothing), (nothing, nothing)):
        logits = model(source, target)
        logits_again, weights = model(source, target, return_weights=True)
        assert logits.isfinite().all()
        assert_close(logits_again, logits)
        assert all(w.isfinite().all() for w in (*weights.encoder, *weights.decoder, *weights.cross))
        model.zero_grad()
        logits.sum().backward()
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("head_dim", [None, 8], ids=["split", "document 004: heads of size d_model"])
def test_weights_of_every_block_sum_to_1_and_have_their_shapes(head_dim):
    model = small(num_layers=3, head_dim=head_dim)
    logits, weights = model(SOURCE, TARGET, return_weights=True)
    assert logits.shape == (3, 4, 11)
    for every, shape in (
        (weights.encoder, (3, 2, 5, 5)),
        (weights.decoder, (3, 2, 4, 4)),
        (weights.cross, (3, 2, 4, 5)),
    ):
        assert len(every) == 3
        for w in every:
            assert w.shape == shape
            assert_close(w.sum(-1), torch.ones(shape[:-1], dtype=F64))
    assert all(w.triu(1).eq(0).all() for w in weights.decoder)
    assert all(w[1, :, :, 3:].eq(0).all() and w[2, :, :, 1:].eq(0).all() for w in weights.encoder + weights.cross)
    assert model.encoder.layers[0].self_attention.q_proj.out_features == 2 * (head_dim or 4)


def test_weights_are_computed_only_with_return_weights(monkeypatch):
    model = small()
    calls, compute = [], implementations.compute_weights
    monkeypatch.setattr(implementations, "compute_weights", lambda *a, **k: (calls.append(1), compute(*a, **k))[1])
    plain = model(SOURCE, TARGET)
    assert not calls
    with_weights, _ = model(SOURCE, TARGET, return_weights=True)
    assert len(calls) == 6
    assert_close(with_weights, plain)


def test_modules_store_no_state():
    model = small()
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    model(SOURCE, TARGET, return_weights=True)
    model.step(TARGET[:, 0], model.init_state(SOURCE))
    assert {name: set(vars(module)) for name, module in model.named_modules()} == before


@pytest.mark.parametrize(("dtype", "tol"), [(torch.float32, 1e-6), (F64, 1e-12)])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("channel_order", ["concatenated", "interleaved"])
def test_cached_steps_equal_the_whole(dtype, tol, norm_first, channel_order):
    model = small(dtype, norm_first=norm_first, channel_order=channel_order)
    # The randomized output is large: log-probabilities are compared, as used in decoding.
    expected = model(SOURCE, TARGET).log_softmax(-1)
    state = model.init_state(SOURCE)
    for t in range(4):
        logits, state = model.step(TARGET[:, t], state)
        assert_close(logits.log_softmax(-1), expected[:, t], tol)


def test_a_state_is_a_value_that_can_be_reordered_and_used_twice():
    model = small()
    _, state = model.step(TARGET[:, 0], model.init_state(SOURCE))
    once, _ = model.step(TARGET[:, 1], state)
    again, _ = model.step(TARGET[:, 1], state)
    assert_identical(once, again)
    rows = torch.tensor([2, 0, 0, 1])
    picked, _ = model.step(TARGET[rows, 1], state.select(rows))
    assert_close(picked, once[rows])


def test_dropout_acts_in_training_only():
    model = small(dropout=0.5)
    assert_identical(model(SOURCE, TARGET), model(SOURCE, TARGET))
    model.train()
    assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("task", TRANSLATIONS)
def test_it_learns_to_copy_and_to_reverse(norm_first, task):
    torch.manual_seed(0)
    model = Transformer(12, 12, 32, 4, num_layers=1, hidden_dim=64, norm_first=norm_first)
    train(model, task, steps=250, rate=5e-3)
    assert accuracy(model, task) > 0.95
