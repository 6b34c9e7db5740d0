"""What the checks are written against: a layer or a model with a batch to try it on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Answers:
    """What a subject says of a batch.

    Attributes:
        nodes: (b, n, c), what moves with the nodes; or None.
        graphs: (b, c), what belongs to a graph; or None.
        weights: (b, heads, n, n), how much i attends to j; or None.
        node_mask: (b, n) True where there is a node.
        edges: (b, n, n) True where there is an edge; None where the weights are not over the edges of a graph.
    """

    nodes: Tensor | None
    graphs: Tensor | None
    weights: Tensor | None
    node_mask: Tensor
    edges: Tensor | None

    def of(self, item: int) -> list[Tensor]:
        """What is said of one graph, without its padding."""
        real = self.node_mask[item]
        parts = []
        if self.nodes is not None:
            parts.append(self.nodes[item, real])
        if self.graphs is not None:
            parts.append(self.graphs[item])
        if self.weights is not None:
            parts.append(self.weights[item][:, real][:, :, real])
        return parts


class Subject(Protocol):
    """A layer or model with a batch to try it on: what the checks are written against."""

    def answers(self) -> Answers:
        """What it says of its batch."""
        ...

    def permuted(self, orders: Sequence[Sequence[int]]) -> "Subject | None":
        """The same with the nodes of every graph in another order; None where their order means something."""
        ...

    def alone(self, item: int) -> "Subject":
        """The same with one graph of the batch alone."""
        ...

    def padded(self, more: int) -> "Subject":
        """The same with more padding."""
        ...

    def garbage(self) -> "Subject | None":
        """The same with something else in the padding; None where it is a code that says so."""
        ...

    def other_forms(self) -> dict[str, Tensor]:
        """The nodes' answers by other ways through the same numbers, flat as `nodes[node_mask]`."""
        ...

    def in_precision(self, dtype: torch.dtype) -> "Subject":
        """The same in another precision."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The precision that it computes in."""
        ...

    def function(self) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
        """A function of the parameters and the inputs that can be differentiated, and where."""
        ...

    @property
    def sizes(self) -> list[int]:
        """The number of nodes of every graph."""
        ...


def of_parameters(
    module: nn.Module, call: Callable[..., Tensor], inputs: Sequence[Tensor]
) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    """`call(*inputs)` as a function of the inputs and of the module's parameters."""
    parameters = dict(module.named_parameters())

    class Call(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *inputs: Tensor) -> Tensor:
            return call(*inputs)

    names = [f"inner.{name}" for name in parameters]

    def function(*values: Tensor) -> Tensor:
        given = dict(zip(names, values[len(inputs) :], strict=True))
        return torch.func.functional_call(Call(), given, values[: len(inputs)])

    return function, (*inputs, *(p.detach().clone().requires_grad_() for p in parameters.values()))
