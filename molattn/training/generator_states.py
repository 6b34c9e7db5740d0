"""The states of the random generators of torch, numpy and Python."""

import random
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molattn.models.random_states import CPU, preserve_generators
from molattn.training.checkpoint_validation import check_tensors


def torch_random_states() -> dict[str, Tensor]:
    """The states of torch: "cpu", and of each GPU by its index."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states |= {str(i): state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return states


def plain_random_states() -> dict[str, Any]:
    """The states of numpy and of Python, in plain values."""
    name, numbers, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    return {"numpy": [name, np.asarray(numbers).tolist(), *rest], "python": random.getstate()}


def restore_random_states(plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Restore what `plain_random_states` and `torch_random_states` returned, the latter for the GPUs that there are.

    Raises:
        ValidationError: the state of the CPU has another type or size.
        LookupError, TypeError, ValueError, ...: other states are not valid.
    """
    check_tensors({"rng_state.cpu": tensors["cpu"]}, {"rng_state.cpu": torch.get_rng_state()})
    torch.set_rng_state(tensors["cpu"])
    for device, value in tensors.items():
        if device != "cpu" and torch.cuda.is_available() and int(device) < torch.cuda.device_count():
            torch.cuda.set_rng_state(value, int(device))
    version, numbers, gauss = plain["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, words, *rest = plain["numpy"]
    # Python's array rejects numbers out of range; numpy 1 would take them modulo 2^32.
    np.random.set_state((name, np.array(array("I", words), dtype=np.uint32), *rest))  # noqa: NPY002


@contextmanager
def preserve_random_states(device: torch.device = CPU) -> Iterator[None]:
    """Restore the random states of numpy, Python and torch, on the CPU and on `device`, after the block."""
    plain, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with preserve_generators(device):
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(legacy)  # noqa: NPY002
