"""Whether two ways to the same numbers agree, on examples of one's own: for libraries that have just been built."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

TOLERANCE = 1e-4
"""Of the largest number: far above rounding, far below a fault."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Random numbers from one seed, on the CPU, and gradients; the caller's generator and modes stay as they are."""
    with (
        torch.random.fork_rng(devices=()),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
        torch.device("cpu"),
    ):
        torch.manual_seed(0)
        yield


def first_difference(pairs: Iterable[tuple[str, Tensor | None, Tensor | None]]) -> str:
    """The name of the first pair of tensors that differ by more than `TOLERANCE` and by how much; empty for none."""
    for name, found, wanted in pairs:
        if found is None or wanted is None or found.shape != wanted.shape:
            if found is not wanted:
                return f"{name} has another shape"
            continue
        found, wanted = found.detach(), wanted.detach()
        off = float((found - wanted).abs().max()) if found.numel() else 0.0
        size = max(1.0, float(wanted.abs().max()) if wanted.numel() else 0.0)
        if not off <= TOLERANCE * size:  # not a number either
            return f"{name} is off by {off:.2g}"
    return ""
