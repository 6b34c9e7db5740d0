"""What torch does with functions, and whether Python may look at the numbers of a tensor."""

import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor, peek_interpreter_stack
from torch.autograd import forward_ad
from torch.nn import Parameter


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


def has_numbers(x: Tensor) -> bool:
    """Whether Python may look at the numbers: none are there under a compiler, in a function that `torch.func`
    transforms, on the meta device and in fake tensors."""
    return (
        not torch.compiler.is_compiling() and type(x) in (Tensor, Parameter) and not x.is_meta and not is_transformed(x)
    )


def all_true(mask: Tensor) -> bool:
    """Whether every element is known to be True; a GPU would have to be waited for."""
    return mask.device.type == "cpu" and has_numbers(mask) and bool(mask.all())
