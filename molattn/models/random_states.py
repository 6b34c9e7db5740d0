"""Torch's random numbers on the devices that a computation uses.

`torch.manual_seed` and `torch.random.fork_rng` reach every GPU by default: also one that cannot be initialized, because
another process uses it alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

CPU = torch.device("cpu")


def seed_generators(seed: int, device: torch.device = CPU) -> None:
    """Seed the random numbers of the CPU, and of `device` if it is a GPU."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


@contextmanager
def preserve_generators(device: torch.device = CPU) -> Iterator[None]:
    """Restore the random numbers of the CPU, and of `device` if it is a GPU, after the block."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


@contextmanager
def seeded(seed: int, device: torch.device = CPU) -> Iterator[None]:
    """Random numbers from `seed` in the block, on the CPU and on `device`; the caller's are unchanged."""
    with preserve_generators(device):
        seed_generators(seed, device)
        yield
