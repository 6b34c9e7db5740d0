"""`Case`, the interface that the checks use: a layer or model with a batch to test it on; and `CheckFailed`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}
"""The largest difference allowed between equal outputs, relative to max(1, the largest absolute expected value)."""


class CheckFailed(AssertionError):
    """A property does not hold; the message says which, by how much, and what it means."""


def assert_same(actual: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float, message: str) -> None:
    """Fail with `message` if two lists of outputs differ by more than `tolerance`, relative as in `TOLERANCE`."""
    for a, b in zip(actual, expected, strict=True):
        if a.shape != b.shape:
            raise CheckFailed(f"{message}: their shapes are {tuple(a.shape)} and {tuple(b.shape)}")
        if not a.numel():
            continue
        difference = float((a - b).abs().max())
        if not difference <= tolerance * max(1.0, float(b.abs().max())):
            raise CheckFailed(f"{message}: they differ by {difference:.1e}, the tolerance is {tolerance:.0e}")


@dataclass(frozen=True)
class Outputs:
    """The outputs for a batch.

    Attributes:
        nodes: (b, n, c), node outputs, permuted with the nodes; or None.
        graphs: (b, c), graph outputs; or None.
        weights: (b, heads, n, n), how much i attends to j; or None.
        node_mask: (b, n) True where there is a node.
        edges: (b, n, n) True where there is an edge; None if the weights are not over the edges of a graph.
    """

    nodes: Tensor | None
    graphs: Tensor | None
    weights: Tensor | None
    node_mask: Tensor
    edges: Tensor | None

    def of_graph(self, index: int) -> list[Tensor]:
        """The outputs for one graph, without its padding."""
        mask = self.node_mask[index]
        parts = []
        if self.nodes is not None:
            parts.append(self.nodes[index, mask])
        if self.graphs is not None:
            parts.append(self.graphs[index])
        if self.weights is not None:
            parts.append(self.weights[index][:, mask][:, :, mask])
        return parts


class Case(Protocol):
    """A layer or model with a batch to test it on."""

    def outputs(self) -> Outputs:
        """The outputs for the batch."""
        ...

    def permuted(self, orders: Sequence[Sequence[int]]) -> "Case | None":
        """The case with the nodes of every graph in another order; None if the order of the nodes has a meaning."""
        ...

    def single(self, index: int) -> "Case":
        """The case with one graph of the batch only."""
        ...

    def with_more_padding(self, amount: int) -> "Case":
        """The case with `amount` more nodes of padding."""
        ...

    def with_garbage_padding(self) -> "Case | None":
        """The case with other values in the padding; None if a code in the input marks the padding."""
        ...

    def other_forms(self) -> dict[str, Tensor]:
        """Node outputs of other implementations of the same equations, by name, in the shape of `nodes[node_mask]`."""
        ...

    def to_dtype(self, dtype: torch.dtype) -> "Case":
        """The case in another precision."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the module."""
        ...

    def gradcheck_function(self) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
        """A differentiable function of the inputs and the parameters, and its arguments."""
        ...

    @property
    def sizes(self) -> list[int]:
        """The number of nodes of every graph."""
        ...


def functional(
    module: nn.Module, call: Callable[..., Tensor], inputs: Sequence[Tensor]
) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    """`call(*inputs)` as a function of the inputs and of the module's parameters, and its arguments."""
    parameters = dict(module.named_parameters())

    class Call(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs: Tensor) -> Tensor:
            return call(*inputs)

    names = [f"inner.{name}" for name in parameters]

    def function(*values: Tensor) -> Tensor:
        values_by_name = dict(zip(names, values[len(inputs) :], strict=True))
        return torch.func.functional_call(Call(), values_by_name, values[: len(inputs)])

    return function, (*inputs, *(p.detach().clone().requires_grad_() for p in parameters.values()))
