"""Dropout: a fraction p is dropped, the rest is scaled; the same seed gives the same mask."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from molattn.attention.dropout import Dropout, add_dropout, draw_dropout_mask, dropout, dropout_gelu
from tests.assertions import assert_close, assert_identical

F64 = torch.float64


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_a_dropout_mask_drops_a_share_of_p_and_scales_the_rest(p):
    torch.manual_seed(0)
    kept = draw_dropout_mask(torch.zeros(1, dtype=F64), (3, 100, 333), p)
    assert sorted(set(kept.flatten().tolist())) == [0.0, 1 / (1 - p)]
    share = (kept == 0).double().mean()
    assert abs(share - p) < 4 * (p * (1 - p) / kept.numel()) ** 0.5
    torch.manual_seed(0)
    assert_identical(draw_dropout_mask(torch.zeros(1, dtype=F64), (3, 100, 333), p), kept)


@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_an_invalid_probability_raises(p):
    with pytest.raises(ValueError, match="probability"):
        draw_dropout_mask(torch.zeros(1), (2,), p)


def test_the_module_multiplies_by_the_mask_and_so_does_its_gradient():
    layer, x = Dropout(0.3), torch.randn(40, 50, dtype=F64, requires_grad=True)
    torch.manual_seed(0)
    y = layer(x)
    torch.manual_seed(0)
    kept = draw_dropout_mask(x, x.shape, 0.3)
    assert 0 < (kept == 0).sum() < kept.numel()
    assert_close(y, x * kept)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert_identical(gradient, kept)


def test_it_does_nothing_outside_training_or_without_a_probability():
    x = torch.randn(5, 6)
    assert Dropout(0.3).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_p_of_one_drops_everything_as_in_torch():
    assert not Dropout(1.0)(torch.randn(5, 6)).any()
    assert isinstance(Dropout(1.0), nn.Dropout)


# 17 is not a multiple of the vector length.
@pytest.mark.parametrize("shape", [(64,), (3, 17), (0,), (1,)])
@pytest.mark.parametrize("p", [0.0, 0.4])
def test_gelu_and_its_gradient_are_those_of_torch_to_rounding(shape, p):
    torch.manual_seed(0)
    x = (4 * torch.randn(shape)).requires_grad_()
    torch.manual_seed(1)
    kept = draw_dropout_mask(x, x.shape, p) if p else torch.ones(shape)
    torch.manual_seed(1)
    y = dropout_gelu(x, p)
    wide = x.detach().double().requires_grad_()
    theirs = F.gelu(wide) * kept
    assert_close(y.double(), theirs, 4e-6)
    of = torch.randn(shape)
    y.backward(of)
    theirs.backward(of.double())
    assert x.grad is not None and wide.grad is not None
    assert_close(x.grad.double(), wide.grad, 4e-6)


def test_gelu_far_from_zero_and_of_nan():
    y = dropout_gelu(torch.tensor([-50.0, 50.0, torch.nan, 0.0]))
    assert_close(y[:2], torch.tensor([0.0, 50.0]), 1e-5)
    assert y[2].isnan()
    assert y[3] == 0


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_add_dropout_adds_the_dropped_out_tensor(dtype):
    a, x = torch.randn(9, 8, dtype=dtype, requires_grad=True), torch.randn(9, 8, dtype=dtype, requires_grad=True)
    torch.manual_seed(0)
    kept = dropout(torch.ones_like(x), 0.5)
    torch.manual_seed(0)
    y = add_dropout(a, x, 0.5)
    assert_close(y, a + kept * x, 1e-6)
    y.sum().backward()
    assert_close(a.grad, torch.ones_like(a))
    assert_close(x.grad, kept)
    assert_identical(add_dropout(a, x, 0.5, training=False), a + x)


def test_dropout_masks_and_positions_are_independent():
    torch.manual_seed(0)
    first, second = (draw_dropout_mask(torch.zeros(()), (4000, 64), 0.5) > 0 for _ in range(2))
    for a, b in ((first, second), (first[1:], first[:-1]), (first[:, 1:], first[:, :-1])):
        assert abs((a == b).double().mean() - 0.5) < 5 * 0.5 / a.numel() ** 0.5
    assert first.double().mean(0).sub(0.5).abs().max() < 5 * 0.5 / 4000**0.5


def test_it_has_second_derivatives():
    x = torch.randn(20, requires_grad=True)
    (slope,) = torch.autograd.grad(dropout_gelu(x).sum(), x, create_graph=True)
    (curve,) = torch.autograd.grad(slope.sum(), x)
    density = torch.exp(-0.5 * x.detach() ** 2) / (2 * torch.pi) ** 0.5
    assert_close(curve, density * (2 - x.detach() ** 2), 1e-5)
