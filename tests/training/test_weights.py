"""Weights side by side, and their running average: the same model, moved all at once."""

import copy

import torch
from torch import nn

from molattn.training.weights import RunningAverage, SideBySide
from tests.assertions import assert_close, assert_identical


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.Linear(5, 2).double(), nn.LayerNorm(2).double())


def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    first, gelu, last, norm = model
    return norm(last(gelu(first(x)).double())).square().sum() + model[0].weight.sum()


def test_the_model_and_its_state_stay_what_they_are():
    model = network()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    together = SideBySide(model)
    assert [flat.dtype for flat in together.flat] == [torch.float32, torch.float64]
    for name, x in model.state_dict().items():
        assert_identical(x, before[name])
    together.part()
    assert len({w.untyped_storage().data_ptr() for w in model.parameters()}) == len(list(model.parameters()))
    for name, x in model.state_dict().items():
        assert_identical(x, before[name])


def test_an_optimizer_of_all_does_what_one_of_each_does():
    model, x = network(), torch.randn(7, 3)
    other = copy.deepcopy(model)
    together = SideBySide(model)
    fast = torch.optim.AdamW(together.flat, lr=0.1, weight_decay=0.1, fused=True)
    plain = torch.optim.AdamW(other.parameters(), lr=0.1, weight_decay=0.1)
    for step in range(4):
        together.zero_grad()
        if step == 2:
            model.zero_grad()  # somebody else's way, which takes the gradients away
            together.zero_grad()
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


def test_a_frozen_weight_stays_apart_and_as_it_is():
    model = network()
    model[0].weight.requires_grad_(False)
    frozen = model[0].weight.clone()
    together = SideBySide(model)
    together.zero_grad()
    model[0](torch.randn(2, 3)).sum().backward()
    torch.optim.SGD(together.flat, lr=1.0).step()
    assert_identical(model[0].weight, frozen)
    assert model[0].weight.grad is None


def test_the_average_is_that_of_the_equation():
    model, decay = network(), 0.6
    average = RunningAverage(model, decay)
    together = SideBySide(model)
    average.follow(model, together.flat)
    wanted = [w.detach().clone() for w in model.parameters()]
    for t in range(30):
        with torch.no_grad():
            for flat in together.flat:
                flat.add_(torch.randn_like(flat))
        average.update()
        d = min(decay, t / (t + 9))
        wanted = [d * a + (1 - d) * w.detach() for a, w in zip(wanted, model.parameters(), strict=True)]
    assert int(average.n_averaged) == 30
    for a, b in zip(average.module.parameters(), wanted, strict=True):
        assert_close(a.detach().double(), b.double(), 1e-5)
