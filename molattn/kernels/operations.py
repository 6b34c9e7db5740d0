"""Helpers of the C operations: checks of their tensors, registration with torch, and self-tests."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import _get_tracing_state, _len_torch_dispatch_stack
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import forward_ad
from torch.nn import Parameter

FLOATS_PER_VECTOR = 16
"""Floats in the longest vector register: the C kernels compute on whole vectors; torch's are faster on them."""


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
    """The address of a tensor's values; None for None. The caller has to keep the tensor alive."""
    return None if x is None else x.data_ptr()


def eager_unsupported_reason(*tensors: Tensor | None) -> str:
    """Why C kernels do not support these tensors: see `tracing_reason`, or not float32 on the CPU; else empty."""
    if reason := tracing_reason(*tensors):
        return reason
    for x in tensors:
        if x is not None and not (x.dtype == torch.float32 and x.is_cpu):
            return f"{str(x.dtype).removeprefix('torch.')} on {x.device.type}, not float32 on the CPU"
        if x is not None and type(x) not in PLAIN_TYPES:
            return f"a {type(x).__name__}, whose values are not read directly"
    return ""


PLAIN_TYPES = (Tensor, Parameter)
"""The types whose values a C function may read; a subclass can be one without values, such as a fake tensor."""


def tracing_reason(*tensors: Tensor | None) -> str:
    """What must see torch's own operations, so that no value is read outside of them; empty if nothing must.

    torch.compile and torch.jit.trace; a dispatch mode, such as that of `make_fx`, of fake tensors or of a counter of
    FLOPs; and a transform: see `is_transformed`.
    """
    if torch.compiler.is_compiling() or _get_tracing_state() is not None:
        return "inside torch.compile"
    if _len_torch_dispatch_stack():
        return "inside a dispatch mode, such as FakeTensorMode"
    return "inside a torch.func transform" if is_transformed(*tensors) else ""


def is_transformed(*tensors: Tensor | None) -> bool:
    """Whether a `torch.func` transform (grad, vmap, jvp, ...) is active, or one of these tensors is a dual tensor.

    Neither supports kernels with a backward pass only, nor C functions. The tensors of a transform can come later: a
    layer with fixed weights and inputs, whose output is multiplied by what is differentiated, is within it too.
    """
    if peek_interpreter_stack() is not None:
        return True
    if forward_ad._current_level < 0:
        return False  # no need to check each tensor
    return any(x is not None and forward_ad.unpack_dual(x).tangent is not None for x in tensors)


def is_autocast_enabled(x: Tensor) -> bool:
    """Whether autocast is enabled on the device of `x`; False for devices that have none, such as meta."""
    kind = x.device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def has_concrete_values(x: Tensor) -> bool:
    """Whether Python can read the values: False where `tracing_reason` has one, and for meta and fake tensors."""
    return type(x) in PLAIN_TYPES and not x.is_meta and not tracing_reason(x)


def all_true(mask: Tensor) -> bool:
    """Whether every element is known to be True; False on a GPU, where reading the mask would synchronize."""
    return mask.device.type == "cpu" and has_concrete_values(mask) and bool(mask.all())


TOLERANCE = 1e-4
"""The largest error that passes, relative to the largest number: far above rounding, far below the effect of a bug."""


@contextmanager
def isolated_state() -> Iterator[None]:
    """A context for a self-test: float32 on the CPU by default, seeded random numbers, gradients enabled, no autocast.

    The generator, the default dtype and the modes of the caller are restored.
    """
    dtype = torch.get_default_dtype()
    with (
        torch.random.fork_rng(devices=()),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.autocast("cpu", enabled=False),
        torch.device("cpu"),
    ):
        torch.default_generator.manual_seed(0)  # `torch.manual_seed` would seed the GPUs too
        torch.set_default_dtype(torch.float32)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)


def first_mismatch(pairs: Iterable[tuple[str, Tensor | None, Tensor | None]]) -> str:
    """The first mismatch in pairs of a name, a result and its reference, in words; empty if all agree.

    They agree up to `TOLERANCE`; None, for no gradient, agrees with None alone.
    """
    for name, found, expected in pairs:
        if found is None or expected is None or found.shape != expected.shape:
            if found is not expected:
                return f"{name} has another shape than the reference"
            continue
        found, expected = found.detach(), expected.detach()
        error = float((found - expected).abs().max()) if found.numel() else 0.0
        size = max(1.0, float(expected.abs().max()) if expected.numel() else 0.0)
        if not error <= TOLERANCE * size:  # also true for NaN
            return f"{name} is off by {error:.2g}"
    return ""


def needs_reference(d_output: Tensor) -> bool:
    """Whether a backward pass has to be the gradient of the reference: `differentiable_gradients` in `enable_grad`.

    For a second derivative, and for a batch of gradients (`is_grads_batched=True`, `vectorize=True`), whose tensors
    have no memory of their own.
    """
    return torch.is_grad_enabled() or not torch._C._has_storage(d_output)


def differentiable_gradients(
    output: Tensor, inputs: Sequence[Tensor | None], needed: Sequence[bool], d_output: Tensor
) -> tuple[Tensor | None, ...]:
    """The gradients of the inputs that need one, None for the others; for double backward, differentiable themselves.

    Args:
        output: of a reference implementation, computed from `inputs` with gradients enabled.
        inputs: tensors, or None for those that are missing.
        needed: for each input, whether it needs a gradient, as in `ctx.needs_input_grad`.
        d_output: the gradient of the output.
    """
    requested = [x for x, need in zip(inputs, needed, strict=True) if need and x is not None]
    computed = iter(torch.autograd.grad(output, requested, d_output, create_graph=True))
    return tuple(next(computed) if need else None for need in needed)


def register(
    name: str,
    schema: str,
    forward: Callable[..., Any],
    fake: Callable[..., Any],
    setup: Callable[..., None] | None = None,
    gradient: Callable[..., Any] | None = None,
    device: str = "CPU",
) -> Callable[..., Any]:
    """Register an operation with `torch.library`, and return a function that does the same in eager mode in less time.

    A Python operation takes 15 microseconds longer through torch's dispatcher than as a `torch.autograd.Function`,
    about the time of one small molecule in a batch.

    Args:
        name: of the operation.
        schema: its arguments and results, as in "(Tensor x) -> Tensor".
        forward: the implementation.
        fake: returns empty tensors of the shapes of the results, as for `torch.library.register_fake`.
        setup, gradient: the `setup_context` and `backward` of `torch.library.register_autograd`, which compilers trace:
            `gradient` calls other operations through `torch.ops`. None for an operation without a gradient.
        device: the dispatch key of `forward`.
    """
    full = f"molattn::{name}"
    torch.library.define(full, schema)
    torch.library.impl(full, device)(forward)
    torch.library.register_fake(full)(fake)
    if setup is None or gradient is None:
        return getattr(torch.ops.molattn, name).default
    torch.library.register_autograd(full, gradient, setup_context=setup)

    def eager(ctx: Any, *inputs: Any) -> Any:
        output = forward(*inputs)
        setup(ctx, inputs, output)
        return output

    function: Any = type(
        name, (torch.autograd.Function,), {"forward": staticmethod(eager), "backward": staticmethod(gradient)}
    )
    return function.apply
