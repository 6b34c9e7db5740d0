"""What several tests assert."""

from collections.abc import Callable

import torch
from hypothesis import settings
from torch import Tensor

# The same examples on every run: a test that fails, fails for everyone.
few_examples = settings(max_examples=25, deadline=None, derandomize=True)


def assert_close(actual: Tensor, expected: Tensor, tol: float = 1e-12) -> None:
    """Same shape and dtype, no NaN, and nowhere further apart than `tol`, absolutely or relatively."""
    torch.testing.assert_close(actual, expected, rtol=tol, atol=tol)


def assert_identical(actual: Tensor, expected: Tensor) -> None:
    """Bit for bit."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def assert_equivariant(
    f: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    act: Callable[..., tuple[Tensor, ...]],
    act_on_output: Callable[[Tensor], Tensor],
    tol: float = 1e-12,
) -> None:
    """f(act(x)) = act(f(x))."""
    assert_close(f(*act(*inputs)), act_on_output(f(*inputs)), tol)
