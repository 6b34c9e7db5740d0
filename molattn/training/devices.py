"""The device that a training computes on."""

import os

import torch

from molattn.errors import UsageError
from molattn.training import ranks
from molattn.training.config import TrainingConfig

ACCELERATORS = ("auto", "cpu", "gpu", "cuda")


def device_of(config: TrainingConfig) -> torch.device:
    """The device of this process.

    `training.accelerator` is "cpu", "gpu" or "cuda", which are the same, or "auto", a GPU where there is one and else
    the CPU. Of several GPUs each rank takes that of its place on the machine, among those in `training.devices`.

    >>> device_of(TrainingConfig(accelerator="cpu"))
    device(type='cpu')

    Raises:
        UsageError: there is no such device here, or several are asked of one process.
    """
    name = config.accelerator
    if name not in ACCELERATORS:
        raise UsageError(f"training.accelerator is one of {', '.join(ACCELERATORS)}, not {name!r}")
    if ranks.size() == 1 and ranks.wanted(config) > 1:
        raise UsageError("several devices train within `molattn train` and `molattn.train` alone: give one")
    gpu = torch.cuda.is_available()
    if name in ("gpu", "cuda") and not gpu:
        raise UsageError(f"training.accelerator={name}, and torch finds no GPU here: see `molattn doctor`")
    if name == "cpu" or not gpu:
        return torch.device("cpu")
    place = int(os.environ["LOCAL_RANK"]) if ranks.size() > 1 else 0
    if "," in config.devices:
        place = int(config.devices.removesuffix(",").split(",")[place])
    if place >= torch.cuda.device_count():
        raise UsageError(f"training.devices: there is no GPU {place} here, only {torch.cuda.device_count()}")
    return torch.device("cuda", place)
