"""What the tensors that C reads and writes have to be."""

from collections.abc import Sequence

import torch
from torch import Tensor

from molattn.kernels.transforms import is_transformed


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


def address(x: Tensor | None) -> int | None:
    """Where the numbers of a tensor begin; it has to outlive what reads them."""
    return None if x is None else x.data_ptr()


def why_not_eager(*tensors: Tensor | None) -> str:
    """Why C cannot take these, in words: a compiler or `torch.func` is at work, or they are not float32 on the CPU."""
    if torch.compiler.is_compiling():
        return "a compiler is at work"
    for x in tensors:
        if x is not None and not (x.dtype == torch.float32 and x.is_cpu):
            return f"{str(x.dtype).removeprefix('torch.')} on {x.device.type}, not float32 on the CPU"
    return "torch.func is at work" if is_transformed(*tensors) else ""
