"""Torch's random number generators on the devices that a computation uses.

`torch.manual_seed` and `torch.random.fork_rng` initialize every GPU by default, which raises an error for a GPU that
another process uses in exclusive mode.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

CPU = torch.device("cpu")


def seed_generators(seed: int, device: torch.device = CPU) -> None:
    """Seed the generator of the CPU, and that of `device` if it is a GPU."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)


@contextmanager
def preserve_generators(device: torch.device = CPU) -> Iterator[None]:
    """Restore the generator of the CPU, and that of `device` if it is a GPU, after the block."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


@contextmanager
def seeded(seed: int, device: torch.device = CPU) -> Iterator[None]:
    """Seed the generators of the CPU and of `device` for the block, and restore their states afterwards."""
    with preserve_generators(device):
        seed_generators(seed, device)
        yield
