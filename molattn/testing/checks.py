"""`check_model`, and its checks: each is for one property that any layer or model must have."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import chain

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from molattn.errors import check_type
from molattn.graph import DenseGraph
from molattn.models.random_states import seeded
from molattn.testing.cases import (
    TOLERANCE,
    Case,
    CheckFailed,
    GraphLayerCase,
    Outputs,
    assert_same,
    cast,
    molecule_model_case,
)


def check_model(
    model: nn.Module, graphs: DenseGraph | None = None, *, rows_sum_to_one: bool | None = None
) -> list[str]:
    """Check a layer or model: permutation equivariance, padding, batches, gradients, attention weights, finite outputs.

    The outputs must not depend on the padding or on the rest of the batch. A copy of the model is checked, on the CPU,
    in float64 and float32; the model itself is not changed. Noise is added to every parameter of the copy, so that
    parameters initialized with zeros do not hide a fault.

    Args:
        model: a molecule model (`molattn.models`); a module from a `Graph` or `DenseGraph` to the updated graph, like
            `GraphNetBlock`; an edge update, such as `AttentionEdgeUpdate`; a layer with forward(x, edge_index,
            edge_attr, u, batch), such as `TensorDotConv`; or a `MultiHeadAttention`.
        graphs: graphs on the CPU to test a layer on, if they cannot be generated from the layer's `node_dim`,
            `edge_dim` and `global_dim` (or `in_channels`, `edge_dim`, `global_dim`).
        rows_sum_to_one: False for attention whose weights over the senders need not sum to 1, such as MAT's with the
            kernel exp(-d); by default the model's attribute `rows_sum_to_one`, or True.

    Returns:
        The names of the checks that passed.

    Raises:
        CheckFailed: a check failed; the message says which property does not hold, and by how much.
        TypeError: a module that is none of these, one without attributes for its sizes, or a lazy one that has not been
            called.

    >>> import torch
    >>> from molattn.attention import MultiHeadAttention
    >>> from molattn.testing import CheckFailed, check_model
    >>> class Positional(MultiHeadAttention):  # its output depends on the numbering of the nodes
    ...     def forward(self, query, **kwargs):
    ...         output, weights = super().forward(query, **kwargs)
    ...         return output + torch.arange(query.shape[1]).unsqueeze(-1), weights
    >>> try:
    ...     check_model(Positional(embed_dim=4, num_heads=2))
    ... except CheckFailed as error:
    ...     print(str(error).partition(":")[0])
    the order of the nodes changes the outputs
    """
    check_type(model, nn.Module, "check_model")
    if any(is_lazy(x) for x in chain(model.parameters(), model.buffers())):
        raise TypeError(f"{type(model).__name__} is not initialized: call it once, to infer its sizes")
    copy = deepcopy(model).cpu().eval()
    if rows_sum_to_one is None:
        rows_sum_to_one = bool(getattr(model, "rows_sum_to_one", True))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in copy.parameters():
            p.add_(torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p), alpha=0.1)
    copy.double()
    checks: list[Callable[[Case], None]] = [
        _finite,
        _determinism,
        _permutation_equivariance,
        _padding_values,
        _batch_invariance,
        _padding_size,
        _other_implementations,
        _gradients,
        _finite_gradients,
    ]
    with seeded(0):
        for case in _cases(copy, graphs):
            for check in checks:
                check(case)
            _attention_weights(case, rows_sum_to_one)
            _single_precision(case)
    return [check.__name__.strip("_") for check in checks] + ["attention_weights", "single_precision"]


def _assert_same_outputs(actual: Outputs, expected: Outputs, tolerance: float, message: str) -> None:
    for index in range(len(expected.node_mask)):
        assert_same(actual.of_graph(index), expected.of_graph(index), tolerance, message)


def _determinism(case: Case) -> None:
    message = "two calls in evaluation mode give different outputs"
    _assert_same_outputs(case.outputs(), case.outputs(), 0.0, message)


def _finite(case: Case) -> None:
    outputs = case.outputs()
    for index, size in enumerate(case.sizes):
        for part in outputs.of_graph(index):
            if not part.isfinite().all():
                raise CheckFailed(f"an output for a graph of {size} nodes (number {index} of the batch) is not finite")


def _permutation_equivariance(case: Case) -> None:
    generator = torch.Generator().manual_seed(1)
    orders = [torch.randperm(size, generator=generator).tolist() for size in case.sizes]
    other = case.permuted(orders)
    if other is None:
        return
    original, permuted = case.outputs(), other.outputs()
    for index, order in enumerate(orders):
        expected = _reordered(original, index, order)
        assert_same(
            permuted.of_graph(index), expected, TOLERANCE[case.dtype], "the order of the nodes changes the outputs"
        )


def _reordered(outputs: Outputs, index: int, order: Sequence[int]) -> list[Tensor]:
    parts = outputs.of_graph(index)
    reordered = []
    if outputs.nodes is not None:
        reordered.append(parts.pop(0)[list(order)])
    if outputs.graphs is not None:
        reordered.append(parts.pop(0))
    if outputs.weights is not None:
        weights = parts.pop(0)
        # A virtual node, which comes last, stays there.
        full = [*order, *range(len(order), weights.shape[-1])]
        reordered.append(weights[:, full][:, :, full])
    return reordered


def _batch_invariance(case: Case) -> None:
    _assert_batch_invariance(case, TOLERANCE[case.dtype], "the rest of the batch changes the outputs")


def _assert_batch_invariance(case: Case, tolerance: float, message: str) -> None:
    batch = case.outputs()
    for index in range(len(case.sizes)):
        assert_same(case.single(index).outputs().of_graph(0), batch.of_graph(index), tolerance, message)


def _padding_size(case: Case) -> None:
    padded, tolerance = case.with_more_padding(3).outputs(), TOLERANCE[case.dtype]
    _assert_same_outputs(padded, case.outputs(), tolerance, "more padding changes the outputs")


def _padding_values(case: Case) -> None:
    other = case.with_filled_padding()
    if other is not None:
        _assert_same_outputs(other.outputs(), case.outputs(), 0.0, "the values in the padding change the outputs")


def _other_implementations(case: Case) -> None:
    outputs = case.outputs()
    for name, nodes in case.other_implementations().items():
        assert outputs.nodes is not None
        expected = outputs.nodes[outputs.node_mask]
        assert_same(
            [nodes], [expected], TOLERANCE[case.dtype], f"the {name} form gives other outputs than the dense one"
        )


def _gradients(case: Case) -> None:
    function, inputs = case.gradcheck_function()
    try:
        torch.autograd.gradcheck(function, inputs, fast_mode=True)
    except RuntimeError as error:
        raise CheckFailed(f"the gradients are not those of finite differences: {error}") from None


def _finite_gradients(case: Case) -> None:
    function, inputs = case.gradcheck_function()
    for gradient in torch.autograd.grad(function(*inputs).sum(), inputs, allow_unused=True):
        if gradient is not None and not gradient.isfinite().all():
            raise CheckFailed("a gradient is not finite")


def _attention_weights(case: Case, rows_sum_to_one: bool) -> None:
    outputs = case.outputs()
    if outputs.weights is None:
        return
    if (outputs.weights < 0).any():
        raise CheckFailed("an attention weight is negative")
    if outputs.edges is not None:
        if (outputs.weights.movedim(1, -1)[~outputs.edges] != 0).any():
            raise CheckFailed("attention has a weight where there is no edge")
        has_edges = outputs.edges.any(-1)
    else:
        has_edges = outputs.node_mask
    sums = outputs.weights.sum(-1).movedim(1, -1)[has_edges]
    if rows_sum_to_one:
        assert_same([sums], [torch.ones_like(sums)], 1e-12, "the attention weights of a node do not sum to 1")


def _single_precision(case: Case) -> None:
    # More for a layer: a model computes its readout in float64.
    tolerance = TOLERANCE[torch.float32] * (10 if isinstance(case, GraphLayerCase) else 1)
    message = "in float32, the rest of the batch changes the outputs"
    _assert_batch_invariance(case.to_dtype(torch.float32), tolerance, message)


def _cases(module: nn.Module, graphs: DenseGraph | None) -> list[Case]:
    """The module with the batches to test it on: `graphs`, or complete and sparse random graphs, or molecules."""
    if hasattr(module, "read") and hasattr(module, "collate"):
        return [molecule_model_case(module)]
    if graphs is not None:
        return [GraphLayerCase(module, cast(graphs, torch.float64))]
    dims = []
    for names in (("in_channels", "embed_dim", "node_dim"), ("edge_dim",), ("global_dim",)):
        found = [getattr(module, name) for name in names if hasattr(module, name)]
        dims.append((found[0] or 0) if found else 0)
    if not isinstance(dims[0], int) or not dims[0]:
        kind = type(module).__name__
        raise TypeError(f"{kind} has no node_dim, nor one in_channels for all nodes: pass graphs to test it on")
    return [GraphLayerCase(module, random_graphs(*dims, density=density)) for density in (None, 0.5)]


def random_graphs(
    node_dim: int, edge_dim: int = 0, global_dim: int = 0, *, density: float | None = None, seed: int = 0
) -> DenseGraph:
    """Four random graphs of 4, 1, 3 and 5 nodes in float64; complete, or sparse with a node without incoming edges.

    Args:
        node_dim, edge_dim, global_dim: d_v, d_e and d_u, 0 for none.
        density: probability that a pair of nodes is an edge; None for complete graphs with self-loops.
        seed: of the random numbers; they do not depend on torch's global generator, and leave it unchanged.

    Returns:
        A `DenseGraph` on the CPU, padded to 5 nodes: v (4, 5, d_v), e (4, 5, 5, d_e) or None, u (4, d_u) or None.

    >>> from molattn.testing import random_graphs
    >>> graphs = random_graphs(node_dim=3, edge_dim=2, density=0.5)
    >>> tuple(graphs.v.shape), tuple(graphs.e.shape), graphs.u
    ((4, 5, 3), (4, 5, 5, 2), None)
    >>> graphs.count_nodes().tolist()
    [4, 1, 3, 5]
    """
    g = torch.Generator().manual_seed(seed)
    node_mask = torch.arange(5) < torch.tensor([[4], [1], [3], [5]])
    edges = None
    if density is not None:
        edges = torch.rand(4, 5, 5, generator=g) < density
        edges[0, 0] = False
    return DenseGraph(
        v=torch.randn(4, 5, node_dim, generator=g, dtype=torch.float64),
        node_mask=node_mask,
        e=torch.randn(4, 5, 5, edge_dim, generator=g, dtype=torch.float64) if edge_dim else None,
        u=torch.randn(4, global_dim, generator=g, dtype=torch.float64) if global_dim else None,
        edge_mask=edges,
    )
