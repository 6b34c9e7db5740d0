"""What arguments may be: the sizes and probabilities of a layer, and the tensors of a C function."""

from collections.abc import Sequence
from numbers import Integral

import torch
from torch import Tensor


def check_sizes(**sizes: int | None) -> None:
    """That every size is a whole number of at least 1; None is one that is not given.

    Raises:
        ValueError: one is not; with its name.
    """
    for name, size in sizes.items():
        if not isinstance(size, Integral | None):
            raise ValueError(f"{name} is a whole number, not {size}")
        if size is not None and size < 1:
            raise ValueError(f"{name} is at least 1, not {size}")


def check_dropout(p: float) -> None:
    """That a probability of dropping is from 0 to below 1: who drops everything learns nothing.

    Raises:
        ValueError: it is not.
    """
    if not 0 <= p < 1:
        raise ValueError(f"a probability of dropping is from 0 to below 1, not {p}")


def check_argument(name: str, x: Tensor, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> None:
    """That a tensor is of this shape and type, and in the memory of the processor.

    A C function reads and writes as far as it is told, whatever is there.

    Raises:
        ValueError: it is not; with its name.
    """
    # In a tenth of the time of the sentence.
    if x.shape != shape or x.dtype != dtype or not x.is_cpu or x.layout != torch.strided:
        raise ValueError(
            f"{name} is {tuple(x.shape)} of {x.dtype} on {x.device}, where {tuple(shape)} of {dtype} on the CPU is read"
        )
