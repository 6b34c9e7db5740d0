"""Checks of tensors before C code reads them, and whether Python may read their values."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor, peek_interpreter_stack
from torch.autograd import forward_ad
from torch.nn import Parameter


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


def data_pointer(x: Tensor | None) -> int | None:
    """Where the numbers of a tensor begin; it has to outlive what reads them."""
    return None if x is None else x.data_ptr()


def eager_unsupported_reason(*tensors: Tensor | None) -> str:
    """Why C cannot take these, in words: a compiler or `torch.func` is at work, or they are not float32 on the CPU."""
    if torch.compiler.is_compiling():
        return "a compiler is at work"
    for x in tensors:
        if x is not None and not (x.dtype == torch.float32 and x.is_cpu):
            return f"{str(x.dtype).removeprefix('torch.')} on {x.device.type}, not float32 on the CPU"
    return "torch.func is at work" if is_transformed(*tensors) else ""


def is_transformed(*tensors: Tensor | None) -> bool:
    """Whether `torch.func` (grad, vmap, jvp, ...) or forward-mode differentiation is at work on any of them.

    Neither goes through kernels that are differentiated once and backwards, nor through C functions.
    """
    if peek_interpreter_stack() is None and forward_ad._current_level < 0:
        return False  # neither is at work anywhere: nothing to look through
    return any(
        x is not None and (is_functorch_wrapped_tensor(x) or forward_ad.unpack_dual(x).tangent is not None)
        for x in tensors
    )


def has_concrete_values(x: Tensor) -> bool:
    """Whether Python may look at the numbers: none are there under a compiler, in a function that `torch.func`
    transforms, on the meta device and in fake tensors."""
    return (
        not torch.compiler.is_compiling() and type(x) in (Tensor, Parameter) and not x.is_meta and not is_transformed(x)
    )


def all_true(mask: Tensor) -> bool:
    """Whether every element is known to be True; a GPU would have to be waited for."""
    return mask.device.type == "cpu" and has_concrete_values(mask) and bool(mask.all())
