"""Whether tensors are inside of what torch does with functions: `torch.func`, and derivatives forwards."""

from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.autograd import forward_ad


def is_transformed(*tensors: Tensor | None) -> bool:
    """Whether `torch.func` (grad, vmap, jvp, ...) or forward-mode differentiation is at work on any of them.

    Neither goes through kernels that are differentiated once and backwards, nor through C functions.
    """
    return any(
        x is not None and (is_functorch_wrapped_tensor(x) or forward_ad.unpack_dual(x).tangent is not None)
        for x in tensors
    )
