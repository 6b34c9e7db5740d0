"""Random graphs for the tests, in float64, and the forms of a block."""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor, nn

from molattn.graph import AnyGraph, DenseGraph, Graph, GraphNetBlock

F64 = torch.float64
NODE_DIM, EDGE_DIM, GLOBAL_DIM = 8, 3, 5
FORMS = ("dense", "edge list", "materialized")


def random_graphs(
    sizes,
    *,
    edges=True,
    globals_=True,
    density=None,
    seed=0,
    requires_grad=False,
    edge_dim=EDGE_DIM,
    degree=False,
) -> Any:
    """Graphs of these sizes, padded to the largest with garbage; complete, or sparse if a density is given.

    In a sparse one, the first node of the first graph has no incoming edges. Untyped, since the fields are optional.
    """
    g = torch.Generator().manual_seed(seed)
    b, n = len(sizes), max(sizes)
    real = torch.arange(n) < torch.tensor(sizes).unsqueeze(-1)
    v = torch.randn(b, n, NODE_DIM, generator=g, dtype=F64)
    e = torch.randn(b, n, n, edge_dim, generator=g, dtype=F64)
    u = torch.randn(b, GLOBAL_DIM, generator=g, dtype=F64)
    pairs = real.unsqueeze(-1) & real.unsqueeze(-2)
    v[~real] = 1e3
    e[~pairs] = -1e3
    edge_mask = None
    if density is not None:
        edge_mask = pairs & (torch.rand(b, n, n, generator=g) < density)
        edge_mask[0, 0] = False
    for x in (v, e, u):
        x.requires_grad_(requires_grad)
    degrees = torch.randint(5, (b, n), generator=g) if degree else None
    return DenseGraph(v, real, e if edges else None, u if globals_ else None, edge_mask, degrees)


def inputs_of(graph):
    """The tensors of a graph that require gradients."""
    values = (getattr(graph, field.name) for field in fields(graph))
    return [x for x in values if isinstance(x, torch.Tensor) and x.requires_grad]


def permuted(graph, order) -> Any:
    """A dense graph with its nodes in another order."""
    return DenseGraph(
        graph.v[:, order],
        graph.node_mask[:, order],
        None if graph.e is None else graph.e[:, order][:, :, order],
        graph.u,
        None if graph.edge_mask is None else graph.edge_mask[:, order][:, :, order],
        None if graph.degree is None else graph.degree[:, order],
    )


def one_of(graph, b) -> Any:
    """Graph b of a right-padded dense batch as a batch of its own, without padding."""
    n = int(graph.node_mask[b].sum())
    return DenseGraph(
        graph.v[b : b + 1, :n],
        graph.node_mask[b : b + 1, :n],
        None if graph.e is None else graph.e[b : b + 1, :n, :n],
        None if graph.u is None else graph.u[b : b + 1],
        None if graph.edge_mask is None else graph.edge_mask[b : b + 1, :n, :n],
        None if graph.degree is None else graph.degree[b : b + 1, :n],
    )


def double(module, seed=0) -> Any:
    """The module in float64 with random parameters, also those initialized with zeros or ones."""
    torch.manual_seed(seed)
    for p in module.parameters():
        nn.init.normal_(p, std=0.5)
    return module.to(F64)


@dataclass(frozen=True)
class After:
    """The output of a block without padding, in the order of the edge list; weights (m, h)."""

    v: Tensor
    e: Any
    u: Any
    weights: Tensor

    def tensors(self) -> list[Tensor]:
        """Those that are not None."""
        return [x for x in (self.v, self.e, self.u, self.weights) if x is not None]


def through(net: GraphNetBlock, graph: AnyGraph, form: str) -> After:
    """The output of the block in one of the `FORMS`; an edge list has no dense one."""
    if isinstance(graph, DenseGraph) and form != "dense":
        graph = graph.to_edge_list()
    after, messages = net.materialize(graph) if form == "materialized" else net.forward_with_messages(graph)
    if isinstance(graph, Graph):
        return After(after.v, after.e, after.u, messages.weights)
    b, i, j = graph.edges.nonzero(as_tuple=True)
    e = None if after.e is None else after.e[b, i, j]
    return After(after.v[graph.node_mask], e, after.u, messages.weights[b, :, i, j])


def gradients(loss, learned):
    """d loss / d each of `learned`, zeros where it does not depend on one."""
    return torch.autograd.grad(loss, learned, allow_unused=True, materialize_grads=True)


def loss_of(after: After) -> Tensor:
    """A number that depends on all outputs of the block."""
    return torch.stack([(x + p).sin().sum() for p, x in enumerate(after.tensors())]).sum()


def gradcheck(net: GraphNetBlock, graph: DenseGraph, form: str) -> bool:
    """Whether the gradients of the block in this form are those of finite differences, inputs and parameters."""
    names, parameters = zip(*net.named_parameters(), strict=True)
    names_of_inputs = [
        field.name for field in fields(graph) if getattr(getattr(graph, field.name), "requires_grad", False)
    ]

    class Form(nn.Module):
        """The block with the same parameter names, whose `forward` is the form."""

        def __init__(self):
            super().__init__()
            self._modules.update(net._modules)

        def forward(self, changed):
            return tuple(through(net, changed, form).tensors())

    def f(*values):
        changed = graph.replace(**dict(zip(names_of_inputs, values[: len(names_of_inputs)], strict=True)))
        swapped = dict(zip(names, values[len(names_of_inputs) :], strict=True))
        return torch.func.functional_call(Form(), swapped, changed)

    return torch.autograd.gradcheck(f, (*inputs_of(graph), *parameters), fast_mode=True)
