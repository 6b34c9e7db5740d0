"""What several tests assert."""

from collections.abc import Callable

import numpy as np
import torch
from hypothesis import settings
from numpy.typing import ArrayLike
from torch import Tensor

# The same examples on every run: a test that fails, fails for everyone.
few_examples = settings(max_examples=25, deadline=None, derandomize=True)


def assert_close(actual: Tensor, expected: Tensor, tol: float = 1e-12) -> None:
    """Same shape and dtype, no NaN, and nowhere further apart than `tol`, absolutely or relatively."""
    torch.testing.assert_close(actual, expected, rtol=tol, atol=tol)


def assert_identical(actual: Tensor, expected: Tensor) -> None:
    """Bit for bit."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def assert_same_predictions(actual: ArrayLike, expected: ArrayLike, tol: float = 1e-6) -> None:
    """Same shape, and nowhere further apart than the README promises: `tol` relative to max(1, |expected|).

    For predictions of one molecule that went different ways: alone and in a batch, at another place of a batch, with
    its attention. Kernels sum in an order that depends on the processor and on the shapes, so that such predictions
    are the same to the bit on some machines only. The same call twice has the same bits everywhere: compare those
    exactly.
    """
    found, wanted = np.asarray(actual, float), np.asarray(expected, float)
    assert found.shape == wanted.shape
    apart = np.abs(found - wanted) / np.maximum(1, np.abs(wanted))
    assert (np.isnan(found) == np.isnan(wanted)).all() and (apart[~np.isnan(wanted)] <= tol).all(), (found, wanted)


def assert_equivariant(
    f: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    act: Callable[..., tuple[Tensor, ...]],
    act_on_output: Callable[[Tensor], Tensor],
    tol: float = 1e-12,
) -> None:
    """f(act(x)) = act(f(x))."""
    assert_close(f(*act(*inputs)), act_on_output(f(*inputs)), tol)
