"""The device that a model predicts on, and the precision of its numbers there."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from molattn.errors import UsageError, short_repr, unknown_choice

ACCELERATORS = ("auto", "cpu", "gpu", "cuda")
"""The choices of `--accelerator`: "auto" is a GPU if there is one, otherwise the CPU; "gpu" and "cuda" are the same."""

PRECISIONS = ("32-true", "bf16-mixed")
"""Lightning's names: float32, and automatic mixed precision with bfloat16."""


def resolve_device(device: str | torch.device) -> torch.device:
    """The device by its name: "auto", a GPU if there is one; "cpu"; "gpu"; or any name of torch, such as "cuda:1".

    Raises:
        UsageError: there is no such device, or not on this machine.

    >>> resolve_device("cpu"), resolve_device(torch.device("cpu", 0))
    (device(type='cpu'), device(type='cpu', index=0))
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device("cuda" if device == "gpu" else device)
    except RuntimeError as error:
        raise UsageError(
            f"unknown device {short_repr(device)}: one of auto, cpu, gpu, or torch's names such as cuda:1"
        ) from error
    if found.type == "cuda":
        if not torch.cuda.is_available():
            raise UsageError(f"device {str(device)!r}: torch finds no GPU here, see `molattn doctor`")
        if (found.index or 0) >= (count := torch.cuda.device_count()):
            raise UsageError(f"device {str(device)!r}: there is no GPU {found.index} here, only {count} of them")
    if found.type == "mps" and not torch.backends.mps.is_available():
        raise UsageError(f"device {str(device)!r}: torch finds no Apple GPU here, see `molattn doctor`")
    if found.type not in ("cpu", "cuda", "mps"):
        try:
            torch.zeros(1, device=found).cpu()  # the meta device has no numbers to return; others may not be installed
        except (AssertionError, ImportError, RuntimeError) as error:
            raise UsageError(
                f"device {str(device)!r}: torch cannot compute on it here, see `molattn doctor`"
            ) from error
    return found


def check_precision(precision: str) -> None:
    """Raise UsageError for a precision that does not exist."""
    if precision not in PRECISIONS:
        raise UsageError(unknown_choice("precision", precision, PRECISIONS))


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """Automatic mixed precision in the block, with "bf16-mixed"; nothing with "32-true"."""
    return torch.autocast(device.type, torch.bfloat16) if precision == "bf16-mixed" else nullcontext()
