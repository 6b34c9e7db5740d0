"""Registers operations of `torch.ops.molattn`."""

from collections.abc import Callable
from typing import Any

import torch


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
