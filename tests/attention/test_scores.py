"""Scores: each against its equation, pair by pair, with every normalizer, for dense layouts and edge lists."""

import pytest
import torch

from molattn.attention import (
    Additive,
    DenseLayout,
    EdgeListLayout,
    General,
    Location,
    Softmax,
    attend,
    attention_weights,
    hardmax,
    make_score,
    scaled_dot,
    sparsemax,
)
from molattn.attention.score import query_transform
from tests.assertions import assert_close, assert_identical
from tests.attention import reference

F64 = torch.float64
HEADS, QUERIES, KEYS = 2, 6, 7

NORMALIZERS = {
    "softmax": ("softmax", reference.softmax),
    "cold": (Softmax(0.2), lambda x: reference.softmax(x, 0.2)),
    "warm": (Softmax(3), lambda x: reference.softmax(x, 3)),
    "T = 0": (Softmax(0), reference.hardmax),
    "T = inf": (Softmax(torch.inf), reference.uniform),
    "hardmax": ("hardmax", reference.hardmax),
    "sparsemax": ("sparsemax", reference.sparsemax),
}


def scored(name, query_dim=5, key_dim=5):
    torch.manual_seed(0)
    score = make_score(name, query_dim, key_dim, hidden_dim=4, max_length=9)
    return score.to(F64) if isinstance(score, torch.nn.Module) else score


def problem(key_dim=5, seed=0):
    """q, k and a mask with a query that has no valid key."""
    g = torch.Generator().manual_seed(seed)
    q = 2 * torch.randn(HEADS, QUERIES, 5, generator=g, dtype=F64)
    k = torch.randn(HEADS, KEYS, key_dim, generator=g, dtype=F64)
    mask = torch.rand(QUERIES, KEYS, generator=g) > 0.4
    mask[1] = False
    return q, k, mask


def by_hand(score, normalizer, q, k, mask):
    rows = [reference.attention(score, normalizer, q[h].numpy(), k[h].numpy(), mask.numpy()) for h in range(HEADS)]
    return torch.stack([torch.from_numpy(row) for row in rows])


@pytest.mark.parametrize("score", reference.SCORE_NAMES)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("masked", [False, True])
def test_any_score_with_any_normalizer_and_a_dense_layout(score, normalizer, masked):
    q, k, mask = problem()
    score, (ours, theirs) = scored(score), NORMALIZERS[normalizer]
    weights = attention_weights(q, k, mask if masked else None, score=score, normalizer=ours)
    allowed = mask if masked else torch.ones_like(mask)
    assert_close(weights, by_hand(score, theirs, q, k, allowed))
    assert (weights[:, ~allowed] == 0).all()
    assert_close(weights.sum(-1), allowed.any(-1).to(F64).expand(HEADS, QUERIES))
    output = attend(q, k, k, mask if masked else None, score=score, normalizer=ours)
    assert_close(output, weights @ k)


@pytest.mark.parametrize("score", [name for name in reference.SCORE_NAMES if name != "location"])
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_any_score_with_any_normalizer_over_edges(score, normalizer):
    q, k, mask = problem()
    score, (ours, theirs) = scored(score), NORMALIZERS[normalizer]
    receiver, sender = mask.nonzero(as_tuple=True)
    order = torch.randperm(len(receiver), generator=torch.Generator().manual_seed(1))
    receiver, sender = receiver[order], sender[order]
    edges = EdgeListLayout(sender, receiver, QUERIES)
    by_node = [x.transpose(0, 1) for x in (q, k)]
    output, weights = attend(*by_node, by_node[1], edges, score=score, normalizer=ours, return_weights=True)
    expected = by_hand(score, theirs, q, k, mask)
    assert_close(weights, expected[:, receiver, sender].T)
    assert_close(output, (expected @ k).transpose(0, 1))
    assert (output[1] == 0).all()


@pytest.mark.parametrize("name", reference.SCORE_NAMES)
def test_the_logits_themselves_are_those_of_the_equation(name):
    # Softmax weights are not enough: adding a constant to every logit does not change them.
    q, k, _ = problem()
    score = scored(name)
    of_pair = reference.pair_score(score)
    by_pair = [[[of_pair(a, b, j) for j, b in enumerate(k[h].numpy())] for a in q[h].numpy()] for h in range(HEADS)]
    assert_close(score(q, k, DenseLayout()), torch.tensor(by_pair, dtype=F64))
    if isinstance(score, torch.nn.Module):
        biased = [key for key, _ in score.named_parameters() if key.endswith("bias")]
        assert biased == (["w_k.bias"] if name == "additive" else [])


@pytest.mark.parametrize("score", ["general", "additive", "location"])
def test_scores_with_weights_take_queries_and_keys_of_different_widths(score):
    q, k, mask = problem(key_dim=3)
    score = scored(score, key_dim=3)
    assert_close(attention_weights(q, k, mask, score=score), by_hand(score, reference.softmax, q, k, mask))


@pytest.mark.parametrize("score", reference.SCORE_NAMES)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_a_single_query_equals_a_row_of_the_batch(score, normalizer):
    q, k, mask = problem()
    score, (ours, _) = scored(score), NORMALIZERS[normalizer]
    for i in (0, 1):
        alone = attention_weights(q[0, i], k[0], mask[i], score=score, normalizer=ours)
        assert_close(alone, attention_weights(q[0], k[0], mask, score=score, normalizer=ours)[i])


@pytest.mark.parametrize("score", reference.SCORE_NAMES)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("layout", ["rows", "edges"])
def test_unattended_keys_change_nothing_forward_or_backward(score, normalizer, layout):
    if (score, layout) == ("location", "edges"):
        layout = "rows"
    (ours, _), score = NORMALIZERS[normalizer], scored(score)
    q, k, mask = problem()
    mask[:, 2] = False
    receiver, sender = mask.nonzero(as_tuple=True)

    def run(fill):
        q_, k_ = q.clone().requires_grad_(), k.clone()
        k_[:, 2] = fill
        k_.requires_grad_()
        if layout == "rows":
            output = attend(q_, k_, k_, mask, score=score, normalizer=ours)
        else:
            by_node = [x.transpose(0, 1) for x in (q_, k_)]
            edges = EdgeListLayout(sender, receiver, QUERIES)
            output = attend(*by_node, by_node[1], edges, score=score, normalizer=ours)
        weights = list(score.parameters()) if isinstance(score, torch.nn.Module) else []
        return [output, *torch.autograd.grad(output.sin().sum(), [q_, k_, *weights])]

    for clean, dirty in zip(run(0.0), run(torch.nan), strict=True):
        assert clean.isfinite().all()
        assert_identical(dirty, clean)


@pytest.mark.parametrize("score", reference.SCORE_NAMES)
@pytest.mark.parametrize("normalizer", NORMALIZERS)
def test_queries_without_a_valid_key_change_nothing_forward_or_backward(score, normalizer):
    (ours, _), score = NORMALIZERS[normalizer], scored(score)
    q, k, mask = problem()
    mask[1] = False

    def run(fill):
        q_, k_ = q.clone(), k.clone().requires_grad_()
        q_[:, 1] = fill
        q_.requires_grad_()
        output = attend(q_, k_, k_, mask, score=score, normalizer=ours)
        weights = list(score.parameters()) if isinstance(score, torch.nn.Module) else []
        return [output, *torch.autograd.grad(output.sin().sum(), [q_, k_, *weights])]

    for clean, dirty in zip(run(0.0), run(torch.nan), strict=True):
        assert clean.isfinite().all()
        assert_identical(dirty, clean)


@pytest.mark.parametrize("name", ["dot", "scaled_dot", "general", "additive", "location"])
def test_a_score_that_is_a_dot_product_names_its_transform_of_the_queries(name):
    """So that the terms of edges are added without a key for each pair."""
    score, f = scored(name), query_transform(scored(name))
    assert (f is not None) == (name not in ("additive", "location"))
    if f is not None:
        g = torch.Generator().manual_seed(1)
        q, k = (torch.randn(n, 5, generator=g, dtype=F64) for n in (QUERIES, KEYS))
        assert_close(f(q) @ k.mT, score(q, k, DenseLayout()))


def test_the_location_score_rejects_edge_lists_and_too_many_keys():
    score = Location(5, max_length=3)
    x = torch.randn(4, 5)
    with pytest.raises(ValueError, match=r"4 keys.*max_length 3"):
        attention_weights(x, x, score=score)
    with pytest.raises(TypeError, match="positions"):
        attention_weights(x, x, EdgeListLayout(torch.arange(4), torch.arange(4), 4), score=score)


def test_a_score_is_made_from_its_name():
    assert make_score("scaled_dot", 3, 4) is scaled_dot
    assert make_score(scaled_dot, 3, 4) is scaled_dot
    general, additive = make_score("general", 3, 4), make_score("additive", 3, 4)
    assert isinstance(general, General) and general.w.weight.shape == (4, 3)
    assert isinstance(additive, Additive) and additive.w_k.weight.shape == (3, 4)
    with pytest.raises(ValueError, match="max_length"):
        make_score("location", 3, 4)
    with pytest.raises(ValueError, match=r"unknown score 'nope'.*dot.*location"):
        make_score("nope", 3, 4)


def test_attend_rejects_names_of_scores_with_weights():
    x = torch.randn(3, 4)
    with pytest.raises(ValueError, match="make_score"):
        attention_weights(x, x, score="general")


def test_normalizers_are_functions_of_logits_and_layout():
    logits = torch.tensor([[3.0, 1.0, 2.9]])
    one, nothing = torch.ones(1, 1), torch.zeros(3, 1)
    for normalizer in (hardmax, sparsemax, Softmax(0.5)):
        by_name = attention_weights(one, nothing, bias=logits, normalizer=normalizer)
        assert_close(by_name.sum(-1), torch.ones(1), tol=1e-6)


def test_a_score_has_at_least_one_hidden_channel():
    with pytest.raises(ValueError, match="hidden_dim must be at least 1, not 0"):
        make_score("additive", 3, 3, hidden_dim=0)
