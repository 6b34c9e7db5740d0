"""Checks of tensors before C code reads them, and of whether Python can read their values."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor, peek_interpreter_stack
from torch.autograd import forward_ad
from torch.nn import Parameter


def check_argument(name: str, x: Tensor, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> None:
    """Check that a tensor has this shape and dtype and is a strided tensor on the CPU.

    C functions do no bounds checks of their own.

    Raises:
        ValueError: it is not; the message names the argument.
    """
    # Formatted only on failure: the comparisons take a tenth of the time of formatting the message.
    if x.shape != shape or x.dtype != dtype or not x.is_cpu or x.layout != torch.strided:
        raise ValueError(
            f"{name} is {tuple(x.shape)} of {x.dtype} on {x.device}, expected {tuple(shape)} of {dtype} on the CPU"
        )


def data_pointer(x: Tensor | None) -> int | None:
    """The address of the values of a tensor, which the caller has to keep alive; None for None."""
    return None if x is None else x.data_ptr()


def eager_unsupported_reason(*tensors: Tensor | None) -> str:
    """Why C kernels do not support these tensors: a compiler, `torch.func`, or not float32 on the CPU; else empty."""
    if torch.compiler.is_compiling():
        return "inside torch.compile"
    for x in tensors:
        if x is not None and not (x.dtype == torch.float32 and x.is_cpu):
            return f"{str(x.dtype).removeprefix('torch.')} on {x.device.type}, not float32 on the CPU"
    return "inside a torch.func transform" if is_transformed(*tensors) else ""


def is_transformed(*tensors: Tensor | None) -> bool:
    """Whether `torch.func` (grad, vmap, jvp, ...) or forward-mode differentiation transforms any of these tensors.

    Neither supports kernels with a backward pass only, nor C functions.
    """
    if peek_interpreter_stack() is None and forward_ad._current_level < 0:
        return False  # neither is active: no need to check each tensor
    return any(
        x is not None and (is_functorch_wrapped_tensor(x) or forward_ad.unpack_dual(x).tangent is not None)
        for x in tensors
    )


def has_concrete_values(x: Tensor) -> bool:
    """Whether Python can read the values: False under a compiler, in a function that `torch.func` transforms, on the
    meta device and for fake tensors."""
    return (
        not torch.compiler.is_compiling() and type(x) in (Tensor, Parameter) and not x.is_meta and not is_transformed(x)
    )


def all_true(mask: Tensor) -> bool:
    """Whether every element is known to be True; False on a GPU, where reading the mask would synchronize."""
    return mask.device.type == "cpu" and has_concrete_values(mask) and bool(mask.all())
