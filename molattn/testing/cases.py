"""The test cases of `check_model`: a layer with graphs or a model with molecules; and the comparison of outputs."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from molattn.attention import MultiHeadAttention
from molattn.chem import ConformerOptions, ReadOptions
from molattn.graph import DenseGraph, Graph

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-6}
"""The largest difference allowed between equal outputs, relative to max(1, the largest absolute expected value)."""


class CheckFailed(AssertionError):
    """A property does not hold; the message says which one, and by how much.

    `check_model` raises it. It is an AssertionError, so that test runners count it as a failed test.
    """


def assert_same(actual: Sequence[Tensor], expected: Sequence[Tensor], tolerance: float, message: str) -> None:
    """Raise CheckFailed with `message` if two lists of outputs differ by more than `tolerance`: see `TOLERANCE`."""
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
        weights: (b, heads, n, n), attention weights, [b, h, i, j] of receiver i and sender j; or None.
        node_mask: (b, n) True where there is a node.
        edges: (b, n, n) True where there is an edge; None if the weights are not over the edges of a graph.
    """

    nodes: Tensor | None
    graphs: Tensor | None
    weights: Tensor | None
    node_mask: Tensor
    edges: Tensor | None

    def of_graph(self, index: int) -> list[Tensor]:
        """The outputs for one graph, without its padding: those of nodes, graphs and weights that are not None."""
        mask = self.node_mask[index]
        parts = []
        if self.nodes is not None:
            parts.append(self.nodes[index, mask])
        if self.graphs is not None:
            parts.append(self.graphs[index])
        if self.weights is not None:
            parts.append(self.weights[index][:, mask][:, :, mask])
        return parts


@dataclass(frozen=True)
class GraphLayerCase:
    """A layer with a batch of graphs."""

    module: Any
    graph: DenseGraph

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the graphs and of the module."""
        return self.graph.v.dtype

    @property
    def sizes(self) -> list[int]:
        """The number of nodes of every graph."""
        return self.graph.node_mask.sum(-1).tolist()

    def outputs(self) -> Outputs:
        """The outputs for the batch."""
        with torch.no_grad():
            return self._outputs(self.graph)

    def _outputs(self, graph: DenseGraph) -> Outputs:
        module, weights, graph_outputs = self.module, None, None
        if isinstance(module, MultiHeadAttention):
            nodes, weights = module(graph.v, mask=graph.edges.unsqueeze(1), return_weights=True)
        elif _is_conv(module):
            nodes = torch.zeros(*graph.v.shape[:2], 1).to(graph.v)
            flat = _call_conv(module, graph.to_edge_list())
            nodes = nodes.expand(-1, -1, flat.shape[-1]).masked_scatter(graph.node_mask.unsqueeze(-1), flat)
        elif hasattr(module, "forward_with_messages"):
            after, messages = module.forward_with_messages(graph)
            nodes, graph_outputs, weights = after.v, after.u, messages.weights
        else:
            result = module(graph)
            if isinstance(result, DenseGraph):
                nodes, graph_outputs = result.v, result.u
            else:
                nodes, weights = result.sum(), result.weights
        return Outputs(nodes, graph_outputs, weights, graph.node_mask, graph.edges)

    def permuted(self, orders: Sequence[Sequence[int]]) -> "GraphLayerCase":
        """The case with the nodes of every graph in another order."""
        n = self.graph.node_mask.shape[1]
        full = torch.tensor([[*order, *range(len(order), n)] for order in orders])
        b = torch.arange(len(orders))
        return self._transformed(
            lambda x: x[b[:, None], full], lambda x: x[b[:, None, None], full[:, :, None], full[:, None]]
        )

    def single(self, index: int) -> "GraphLayerCase":
        """The case with only graph `index` of the batch."""
        n = self.sizes[index]
        u = None if self.graph.u is None else self.graph.u[index : index + 1]
        return self._transformed(lambda x: x[index : index + 1, :n], lambda x: x[index : index + 1, :n, :n], u)

    def with_more_padding(self, amount: int) -> "GraphLayerCase":
        """The case with `amount` more nodes of padding."""

        def pad(x: Tensor, dims: int) -> Tensor:
            for dim in range(1, dims):
                shape = list(x.shape)
                shape[dim] = amount
                x = torch.cat([x, torch.zeros(shape, dtype=x.dtype)], dim)
            return x

        return self._transformed(lambda x: pad(x, 2), lambda x: pad(x, 3))

    def with_filled_padding(self) -> "GraphLayerCase":
        """The case with other values in the padding."""
        graph = self.graph
        v = graph.v.masked_fill(~graph.node_mask.unsqueeze(-1), 1e6)
        pairs = graph.node_mask.unsqueeze(-1) & graph.node_mask.unsqueeze(-2)
        e = None if graph.e is None else graph.e.masked_fill(~pairs.unsqueeze(-1), -1e6)
        return replace(self, graph=graph.replace(v=v, e=e))

    def other_implementations(self) -> dict[str, Tensor]:
        """Node outputs of other implementations of the same equations, by name, in the shape of `nodes[node_mask]`."""
        graph, module, outputs = self.graph, self.module, {}
        if isinstance(module, MultiHeadAttention) or _is_conv(module):
            return outputs
        with torch.no_grad():
            for name, result in (
                ("edge list", module(graph.to_edge_list())),
                ("materialized", module.materialize(graph) if hasattr(module, "materialize") else None),
            ):
                result = result[0] if isinstance(result, tuple) else result
                if result is not None:
                    outputs[name] = result.v if isinstance(result, Graph) else result.sum()
        return outputs

    def to_dtype(self, dtype: torch.dtype) -> "GraphLayerCase":
        """The case in another dtype."""
        return GraphLayerCase(deepcopy(self.module).to(dtype), cast(self.graph, dtype))

    def gradcheck_function(self) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
        """A differentiable function of the inputs and the parameters, and its arguments."""
        names = [name for name in ("v", "e", "u") if getattr(self.graph, name) is not None]
        inputs = [getattr(self.graph, name).clone().requires_grad_() for name in names]

        def call(*inputs: Tensor) -> Tensor:
            outputs = self._outputs(self.graph.replace(**dict(zip(names, inputs, strict=True))))
            assert outputs.nodes is not None
            nodes = outputs.nodes[outputs.node_mask].flatten()
            return nodes if outputs.graphs is None else torch.cat([nodes, outputs.graphs.flatten()])

        return functional(self.module, call, inputs)

    def _transformed(
        self, nodes: Callable[[Tensor], Tensor], pairs: Callable[[Tensor], Tensor], u: Tensor | None = None
    ) -> "GraphLayerCase":
        """The case with `nodes` applied to its tensors of nodes, and `pairs` to its tensors of pairs of nodes."""
        g = self.graph
        transformed = DenseGraph(
            v=nodes(g.v),
            node_mask=nodes(g.node_mask),
            e=None if g.e is None else pairs(g.e),
            u=g.u if u is None else u,
            edge_mask=None if g.edge_mask is None else pairs(g.edge_mask),
            degree=None if g.degree is None else nodes(g.degree),
        )
        return replace(self, graph=transformed)


def cast(graph: DenseGraph, dtype: torch.dtype) -> DenseGraph:
    return graph.replace(**{name: x.to(dtype) for name in ("v", "e", "u") if (x := getattr(graph, name)) is not None})


def _is_conv(module: nn.Module) -> bool:
    return hasattr(module, "in_channels")


def _call_conv(module: nn.Module, graph: Graph) -> Tensor:
    optional = {"edge_attr": graph.e, "u": graph.u}
    extra = {name: x for name, x in optional.items() if x is not None}
    if graph.u is not None:
        extra["batch"] = graph.node_graph
    return module(graph.v, torch.stack([graph.sender, graph.receiver]), **extra)


SMILES = ("C", "CCO", "c1ccccc1O", "[Na+].[Cl-]", "CC(=O)Nc1ccc(O)cc1", "N#Cc1ccccc1", "O=C(O)C1CC1")
"""The molecules of the test batch, among them a single atom, two fragments, and rings with several shortest paths."""


@dataclass(frozen=True, eq=False)
class MoleculeModelCase:
    """A model with a batch of molecules. Methods are as in `GraphLayerCase`; None if a check does not apply.

    Attributes:
        module: the model.
        molecules: the molecules whose outputs are checked.
        descriptors: (molecules, k), the descriptors of each; k is 0 for a model without descriptors.
        extra: other molecules in the batch, which add padding if they are larger.
        fill_padding: whether the padding has values other than zero.
    """

    module: Any
    molecules: tuple[Any, ...]
    descriptors: np.ndarray
    extra: tuple[Any, ...] = ()
    fill_padding: bool = False

    @property
    def dtype(self) -> torch.dtype:
        return next(self.module.parameters()).dtype

    @property
    def sizes(self) -> list[int]:
        return [m.size for m in self.molecules]

    def outputs(self) -> Outputs:
        batch, b = self._batch(), len(self.molecules)
        with torch.no_grad():
            outputs = self.module(batch)
            with_attention, weights = self.module.attention(batch)
        message = "the output of `attention` is not that of `forward`"
        assert_same([with_attention], [outputs], TOLERANCE[self.dtype], message)
        weights = weights.flatten(1, 2)[:b]
        n = weights.shape[-1]
        padded_size = max(m.size for m in (*self.molecules, *self.extra))
        # `attention` puts the virtual node after the padding.
        mask = torch.stack([(torch.arange(n) < m.size) | (torch.arange(n) >= padded_size) for m in self.molecules])
        return Outputs(None, outputs[:b], weights, mask, None)

    def _batch(self) -> Any:
        kwargs = {}
        if self.descriptors.size:
            zeros = np.zeros((len(self.extra), self.descriptors.shape[1]))
            kwargs = {"descriptors": np.concatenate([self.descriptors, zeros])}
        batch = self.module.collate([*self.molecules, *self.extra], **kwargs)
        if self.fill_padding:
            padding = ~batch.mask
            pairs = padding.unsqueeze(-1) | padding.unsqueeze(-2)
            filled = {
                "atom_codes": batch.atom_codes.masked_fill(padding.unsqueeze(-1), 1),
                "bond_codes": batch.bond_codes.masked_fill(pairs, 3),
                "path_lengths": batch.path_lengths.masked_fill(pairs, 255),
            }
            if getattr(batch, "distances", None) is not None:
                filled["distances"] = batch.distances.masked_fill(pairs, 1e3)
            batch = replace(batch, **filled)
        return batch

    def permuted(self, orders: Sequence[Sequence[int]]) -> "MoleculeModelCase | None":
        if not all(hasattr(m, "permute") for m in self.molecules):
            return None
        permuted = (m.permute(order) for m, order in zip(self.molecules, orders, strict=True))
        return replace(self, molecules=tuple(permuted))

    def single(self, index: int) -> "MoleculeModelCase":
        rows = slice(index, index + 1)
        return replace(self, molecules=self.molecules[rows], descriptors=self.descriptors[rows])

    def with_more_padding(self, amount: int) -> "MoleculeModelCase":
        larger = read_molecules(self.module, ["C" * (max(self.sizes) + amount)])
        return replace(self, extra=larger)

    def with_filled_padding(self) -> "MoleculeModelCase | None":
        return replace(self, fill_padding=True) if hasattr(self._batch(), "bond_codes") else None

    def other_implementations(self) -> dict[str, Tensor]:
        return {}

    def to_dtype(self, dtype: torch.dtype) -> "MoleculeModelCase":
        return replace(self, module=deepcopy(self.module).to(dtype))

    def gradcheck_function(self) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
        batch = self._batch()
        return functional(self.module, lambda: self.module(batch), [])


def molecule_model_case(model: Any) -> MoleculeModelCase:
    """`model` with the molecules `SMILES`, and with random descriptors if it reads any."""
    width = getattr(model, "num_descriptors", 0)
    descriptors = np.random.default_rng(0).normal(size=(len(SMILES), width))
    return MoleculeModelCase(model, read_molecules(model, SMILES), descriptors)


def read_molecules(model: Any, smiles: Sequence[str]) -> tuple[Any, ...]:
    conformers = ConformerOptions() if model.config.needs_3d else None
    molecules = tuple(model.read(smiles, ReadOptions(conformers=conformers)))
    for molecule in molecules:
        if isinstance(molecule, Exception):
            raise molecule
    return molecules


Case = GraphLayerCase | MoleculeModelCase


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
