"""How a check says that it failed."""

from collections.abc import Sequence

import torch
from torch import Tensor

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}
"""How far two answers that must be the same may lie apart, as a share of max(1, the largest of them)."""


class CheckFailed(AssertionError):
    """A property does not hold; the message says which, by how much, and what it means."""


def assert_same(actual: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float, meaning: str) -> None:
    """Fail with `meaning` where two lists of answers lie further apart than `tolerance`, a share of max(1, largest)."""
    for a, b in zip(actual, expected, strict=True):
        if a.shape != b.shape:
            raise CheckFailed(f"{meaning}: their shapes are {tuple(a.shape)} and {tuple(b.shape)}")
        if not a.numel():
            continue
        apart = float((a - b).abs().max())
        if not apart <= tolerance * max(1.0, float(b.abs().max())):
            raise CheckFailed(f"{meaning}: they lie {apart:.1e} apart, allowed are {tolerance:.0e}")
