"""Comparisons with a reference implementation, for the self-tests of libraries that have just been built."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

TOLERANCE = 1e-4
"""Relative to the largest number: far above rounding errors, far below the effect of a bug."""


@contextmanager
def isolated_state() -> Iterator[None]:
    """Seeded float32 random numbers on the CPU, with gradients; the generator and modes of the caller are restored."""
    dtype = torch.get_default_dtype()
    with (
        torch.random.fork_rng(devices=()),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
        torch.device("cpu"),
    ):
        torch.manual_seed(0)
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)


def first_mismatch(pairs: Iterable[tuple[str, Tensor | None, Tensor | None]]) -> str:
    """The name of the first pair of tensors that differ by more than `TOLERANCE`, and the error; empty if none does."""
    for name, found, expected in pairs:
        if found is None or expected is None or found.shape != expected.shape:
            if found is not expected:
                return f"{name} has another shape"
            continue
        found, expected = found.detach(), expected.detach()
        error = float((found - expected).abs().max()) if found.numel() else 0.0
        size = max(1.0, float(expected.abs().max()) if expected.numel() else 0.0)
        if not error <= TOLERANCE * size:  # also true for NaN
            return f"{name} is off by {error:.2g}"
    return ""
