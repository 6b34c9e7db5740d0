"""Tools to recompute a layer by hand: softmax and a linear map in numpy."""

import numpy as np
import torch
from torch import Tensor, nn

from tests.assertions import assert_close

Array = np.ndarray
F64 = torch.float64


def softmax(x: Array) -> Array:
    """e^x / sum e^x along the last axis; the maximum is subtracted first to avoid overflow."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def array(tensor: Tensor) -> Array:
    return tensor.detach().numpy()


def linear(layer: nn.Linear, x: Array) -> Array:
    """x W + b; torch stores W transposed."""
    y = x @ array(layer.weight).T
    return y if layer.bias is None else y + array(layer.bias)


def randomize(module: nn.Module, seed: int = 0) -> nn.Module:
    """In float64, with no bias of 0 and no scale of 1, so that a missing one is detected."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in module.to(F64).parameters():
            p.copy_(torch.randn(p.shape, generator=generator, dtype=F64) / 2)
    return module.eval()


def assert_same(actual: Tensor, by_hand: Array, tol: float = 1e-12) -> None:
    """The library's tensor and the array computed by hand: same shape, same numbers."""
    assert_close(actual.detach(), torch.from_numpy(np.asarray(by_hand)), tol)
