"""The linear layer by oneDNN: torch's numbers and gradients."""

import sys

import pytest
import torch
import torch.nn.functional as F

from molattn.attention import linear
from tests.assertions import assert_close


@pytest.mark.parametrize("rows", [(3, 100), (700,), (5,)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_torchs_linear_layer_with_its_gradients(rows, bias, dtype):
    torch.manual_seed(0)
    x = torch.randn(*rows, 64, dtype=dtype, requires_grad=True)
    weight = torch.randn(96, 64, dtype=dtype, requires_grad=True)
    b = torch.randn(96, dtype=dtype, requires_grad=True) if bias else None
    probe = torch.randn(*rows, 96, dtype=dtype)
    learned = [x, weight, *([b] if b is not None else [])]
    ours, theirs = linear(x, weight, b), F.linear(x, weight, b)
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    assert_close(ours, theirs, tolerance)
    for a, c in zip(
        torch.autograd.grad((ours * probe).sum(), learned),
        torch.autograd.grad((theirs * probe).sum(), learned),
        strict=True,
    ):
        assert_close(a, c, tolerance)


def test_only_the_required_gradients_are_computed():
    x, weight = torch.randn(2000, 64), torch.randn(64, 64, requires_grad=True)
    linear(x, weight).sum().backward()
    assert x.grad is None and weight.grad is not None


def test_it_has_second_derivatives():
    x, weight = torch.randn(700, 64, requires_grad=True), torch.randn(96, 64, requires_grad=True)
    seconds = []
    for layer in (linear, F.linear):
        (first,) = torch.autograd.grad(layer(x, weight).square().sum(), x, create_graph=True)
        seconds.append(torch.autograd.grad(first.square().sum(), weight)[0])
    assert_close(seconds[0] / seconds[1].abs().max(), seconds[1] / seconds[1].abs().max(), 1e-5)


def test_onednn_never_gets_an_expanded_tensor(monkeypatch):
    # With strides of 0, as in the gradient of a sum, it is a hundred times slower.
    module = sys.modules["molattn.attention.linear"]
    product, seen = module._onednn_linear, []
    monkeypatch.setattr(module, "_onednn_linear", lambda *tensors: seen.append(tensors[:2]) or product(*tensors))
    x, weight = torch.randn(1, 64, requires_grad=True).expand(700, 64), torch.randn(96, 64, requires_grad=True)
    linear(x, weight).sum().backward()
    assert len(seen) == 3
    assert all(0 not in tensor.stride() for tensors in seen for tensor in tensors)
