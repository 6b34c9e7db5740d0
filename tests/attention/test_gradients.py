"""Analytic gradients against finite differences, in float64."""

import pytest
import torch
from torch.autograd import gradcheck

from molattn.attention import EdgeListLayout, MultiHeadAttention, Softmax, attend, attention_weights, make_score

F64 = torch.float64


def leaves(*shapes):
    torch.manual_seed(0)
    return tuple(torch.randn(*shape, dtype=F64, requires_grad=True) for shape in shapes)


def some_mask():
    mask = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1]], dtype=torch.bool)
    return torch.stack([mask, mask.flip(-1)])


EDGES = EdgeListLayout(torch.tensor([0, 1, 2, 3, 1]), torch.tensor([0, 0, 2, 2, 2]), 3)


@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
@pytest.mark.parametrize("mask", [None, some_mask()], ids=["everyone", "masked"])
def test_attention_weights_with_a_dense_layout(score, mask):
    q, k, bias = leaves((2, 3, 3), (2, 4, 3), (2, 3, 4))
    assert gradcheck(lambda q, k, bias: attention_weights(q, k, mask, bias=bias, score=score), (q, k, bias))


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("mask", [None, some_mask()], ids=["everyone", "masked"])
def test_attend_with_a_dense_layout(return_weights, with_bias, mask):
    q, k, v, bias = leaves((2, 3, 3), (2, 4, 3), (2, 4, 2), (2, 3, 4))

    def f(q, k, v, bias):
        return attend(q, k, v, mask, bias=bias if with_bias else None, return_weights=return_weights)

    assert gradcheck(f, (q, k, v, bias.requires_grad_(with_bias)))


@pytest.mark.parametrize("score", ["dot", "scaled_dot"])
def test_attention_weights_with_an_edge_list(score):
    q, k, bias = leaves((3, 2, 3), (4, 2, 3), (5, 2))
    assert gradcheck(lambda q, k, bias: attention_weights(q, k, EDGES, bias=bias, score=score), (q, k, bias))


def test_attend_with_an_edge_list():
    q, k, v, bias = leaves((3, 2, 3), (4, 2, 3), (4, 2, 2), (5, 2))
    assert gradcheck(lambda q, k, v, bias: attend(q, k, v, EDGES, bias=bias, return_weights=True), (q, k, v, bias))


def test_attention_weights_have_second_derivatives():
    q, k = leaves((3, 2, 2), (4, 2, 2))
    assert torch.autograd.gradgradcheck(lambda q, k: attention_weights(q, k, EDGES), (q, k))
    mask = some_mask()[0]
    assert torch.autograd.gradgradcheck(
        lambda q, k: attention_weights(q.transpose(0, 1), k.transpose(0, 1), mask), (q, k)
    )


def scored(name):
    torch.manual_seed(1)
    score = make_score(name, 3, 3, hidden_dim=2, max_length=4)
    return score.to(F64) if isinstance(score, torch.nn.Module) else score


# Random inputs avoid ties, and points where the support of sparsemax changes.
@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general", "additive", "location"])
@pytest.mark.parametrize("normalizer", ["softmax", Softmax(0.5), Softmax(torch.inf), "hardmax", "sparsemax"], ids=str)
@pytest.mark.parametrize("mask", [None, some_mask()], ids=["everyone", "masked"])
def test_any_score_with_any_normalizer_and_a_dense_layout(score, normalizer, mask):
    score = scored(score)
    q, k = leaves((2, 3, 3), (2, 4, 3))
    weights = tuple(score.parameters()) if isinstance(score, torch.nn.Module) else ()
    assert gradcheck(
        lambda q, k, *_: attention_weights(q, k, mask, score=score, normalizer=normalizer), (q, k, *weights)
    )


@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general", "additive"])
@pytest.mark.parametrize("normalizer", ["softmax", Softmax(0.5), Softmax(torch.inf), "hardmax", "sparsemax"], ids=str)
def test_any_score_with_any_normalizer_and_an_edge_list(score, normalizer):
    score = scored(score)
    q, k = leaves((3, 2, 3), (4, 2, 3))
    weights = tuple(score.parameters()) if isinstance(score, torch.nn.Module) else ()
    assert gradcheck(
        lambda q, k, *_: attention_weights(q, k, EDGES, score=score, normalizer=normalizer), (q, k, *weights)
    )


@pytest.mark.parametrize("return_weights", [False, True])
def test_multi_head_attention(return_weights):
    layer = MultiHeadAttention(4, 2).to(F64)
    x, y = leaves((1, 3, 4), (1, 4, 4))
    mask = some_mask()[0]
    assert gradcheck(lambda x, y: layer(x, y, mask=mask, return_weights=return_weights), (x, y))
