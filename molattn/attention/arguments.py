"""What a C function may be given: it reads and writes as far as it is told, whatever is there."""

from collections.abc import Sequence

import torch
from torch import Tensor


def check_argument(name: str, x: Tensor, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> None:
    """That a tensor is of this shape and type, and in the memory of the processor.

    Raises:
        ValueError: it is not; with its name.
    """
    # In a tenth of the time of the sentence.
    if x.shape != shape or x.dtype != dtype or not x.is_cpu or x.layout != torch.strided:
        raise ValueError(
            f"{name} is {tuple(x.shape)} of {x.dtype} on {x.device}, where {tuple(shape)} of {dtype} on the CPU is read"
        )
