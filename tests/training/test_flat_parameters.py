"""Flat parameters and the exponential moving average: the same results as with separate parameters."""

import copy

import torch
from torch import nn

from molattn.training.flat_parameters import ExponentialMovingAverage, FlatParameters
from tests.assertions import assert_close, assert_identical


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.Linear(5, 2).double(), nn.LayerNorm(2).double())


def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    first, gelu, last, norm = model
    return norm(last(gelu(first(x)).double())).square().sum() + model[0].weight.sum()


def test_the_model_and_its_state_are_unchanged():
    model = network()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    flat_parameters = FlatParameters(model)
    assert [flat.dtype for flat in flat_parameters.flat] == [torch.float32, torch.float64]
    for name, x in model.state_dict().items():
        assert_identical(x, before[name])
    flat_parameters.unflatten()
    assert len({w.untyped_storage().data_ptr() for w in model.parameters()}) == len(list(model.parameters()))
    for name, x in model.state_dict().items():
        assert_identical(x, before[name])


def test_an_optimizer_of_the_flat_parameters_matches_one_of_the_separate_ones():
    model, x = network(), torch.randn(7, 3)
    other = copy.deepcopy(model)
    flat_parameters = FlatParameters(model)
    fast = torch.optim.AdamW(flat_parameters.flat, lr=0.1, weight_decay=0.1, fused=True)
    plain = torch.optim.AdamW(other.parameters(), lr=0.1, weight_decay=0.1)
    for step in range(4):
        flat_parameters.zero_grad()
        if step == 2:
            model.zero_grad()  # sets the gradients to None
            flat_parameters.zero_grad()
        loss(model, x).backward()
        plain.zero_grad()
        loss(other, x).backward()
        for a, b in zip(model.parameters(), other.parameters(), strict=True):
            assert a.grad is not None and b.grad is not None
            assert_close(a.grad.double(), b.grad.double(), 1e-5)
        fast.step()
        plain.step()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert_close(a.detach().double(), b.detach().double(), 1e-5)


def test_a_frozen_parameter_is_unchanged():
    model = network()
    model[0].weight.requires_grad_(False)
    frozen = model[0].weight.clone()
    flat_parameters = FlatParameters(model)
    flat_parameters.zero_grad()
    model[0](torch.randn(2, 3)).sum().backward()
    torch.optim.SGD(flat_parameters.flat, lr=1.0).step()
    assert_identical(model[0].weight, frozen)
    assert model[0].weight.grad is None


def test_the_average_matches_its_equation():
    model, decay = network(), 0.6
    average = ExponentialMovingAverage(model, decay)
    flat_parameters = FlatParameters(model)
    average.attach(model, flat_parameters.flat)
    wanted = [w.detach().clone() for w in model.parameters()]
    for t in range(30):
        with torch.no_grad():
            for flat in flat_parameters.flat:
                flat.add_(torch.randn_like(flat))
        average.update()
        d = min(decay, t / (t + 9))
        wanted = [d * a + (1 - d) * w.detach() for a, w in zip(wanted, model.parameters(), strict=True)]
    assert int(average.n_averaged) == 30
    for a, b in zip(average.module.parameters(), wanted, strict=True):
        assert_close(a.detach().double(), b.double(), 1e-5)
