"""`check_model` and the checks, each a property of any subject."""

from collections.abc import Callable, Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn

from molattn.graph import DenseGraph
from molattn.testing.failure import TOLERANCE, CheckFailed, assert_same
from molattn.testing.on_graphs import OnGraphs, cast, random_graphs
from molattn.testing.on_molecules import on_molecules
from molattn.testing.subject import Answers, Subject


def check_model(
    model: nn.Module, graphs: DenseGraph | None = None, *, rows_sum_to_one: bool | None = None
) -> list[str]:
    """Check that order, padding and company change nothing, that nothing is NaN, and that the gradients are right.

    The model is copied first and left as it is; its copy gets a little noise on every weight, so that nothing is hidden
    by a weight that starts at zero.

    Args:
        model: a model of molecules (`molattn.models`), a module from a `Graph` or `DenseGraph` to the updated graph, as
            `GraphNetBlock`, an edge update, as `AttentionEdgeUpdate`, a layer with forward(x, edge_index, edge_attr,
            u, batch), as `TensorDotConv`, or a `MultiHeadAttention`.
        graphs: graphs to try a layer on, where they cannot be made from the layer's `node_dim`, `edge_dim` and
            `global_dim` (or `in_channels`, `edge_dim`, `global_dim`).
        rows_sum_to_one: False for attention that does not promise it, such as MAT's with the kernel exp(-d); by default
            what the model says of itself, or else True.

    Returns:
        The names of the checks that passed.

    Raises:
        CheckFailed: one that did not; the message says how.
        TypeError: a module that is none of these, or sizes that it does not tell.
    """
    copy = deepcopy(model).eval()
    if rows_sum_to_one is None:
        rows_sum_to_one = bool(getattr(model, "rows_sum_to_one", True))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in copy.parameters():
            p.add_(torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p), alpha=0.1)
    copy.double()
    checks: list[Callable[[Subject], None]] = [
        _finite,
        _same_twice,
        _order_of_nodes,
        _garbage_in_padding,
        _company,
        _more_padding,
        _all_forms,
        _gradients,
        _finite_gradients,
    ]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for subject in _subjects(copy, graphs):
            for check in checks:
                check(subject)
            _weights(subject, rows_sum_to_one)
            _single_precision(subject)
    return [check.__name__.strip("_") for check in checks] + ["weights", "single_precision"]


def _same_twice(subject: Subject) -> None:
    first, second = subject.answers(), subject.answers()
    for item in range(len(subject.sizes)):
        assert_same(first.of(item), second.of(item), 0.0, "two calls in evaluation mode give different answers")


def _finite(subject: Subject) -> None:
    answers = subject.answers()
    for item, size in enumerate(subject.sizes):
        for part in answers.of(item):
            if not part.isfinite().all():
                raise CheckFailed(f"an answer for a graph of {size} nodes (number {item} of the batch) is not finite")


def _order_of_nodes(subject: Subject) -> None:
    generator = torch.Generator().manual_seed(1)
    orders = [torch.randperm(size, generator=generator).tolist() for size in subject.sizes]
    other = subject.permuted(orders)
    if other is None:
        return
    straight, permuted = subject.answers(), other.answers()
    for item, order in enumerate(orders):
        expected = _reordered(straight, item, order)
        assert_same(permuted.of(item), expected, TOLERANCE[subject.dtype], "the order of the nodes changes the answers")


def _reordered(answers: Answers, item: int, order: Sequence[int]) -> list[Tensor]:
    parts = answers.of(item)
    moved = []
    if answers.nodes is not None:
        moved.append(parts.pop(0)[list(order)])
    if answers.graphs is not None:
        moved.append(parts.pop(0))
    if answers.weights is not None:
        weights = parts.pop(0)
        # A virtual node stands behind the others.
        full = [*order, *range(len(order), weights.shape[-1])]
        moved.append(weights[:, full][:, :, full])
    return moved


def _company(subject: Subject) -> None:
    together = subject.answers()
    for item in range(len(subject.sizes)):
        alone = subject.alone(item).answers().of(0)
        assert_same(alone, together.of(item), TOLERANCE[subject.dtype], "the company in a batch changes the answers")


def _more_padding(subject: Subject) -> None:
    narrow, wide = subject.answers(), subject.padded(3).answers()
    for item in range(len(subject.sizes)):
        expected = narrow.of(item)
        assert_same(wide.of(item), expected, TOLERANCE[subject.dtype], "more padding changes the answers")


def _garbage_in_padding(subject: Subject) -> None:
    other = subject.garbage()
    if other is None:
        return
    clean, dirty = subject.answers(), other.answers()
    for item in range(len(subject.sizes)):
        assert_same(dirty.of(item), clean.of(item), 0.0, "what stands in the padding changes the answers")


def _all_forms(subject: Subject) -> None:
    answers = subject.answers()
    for name, nodes in subject.other_forms().items():
        assert answers.nodes is not None
        expected = answers.nodes[answers.node_mask]
        assert_same(
            [nodes], [expected], TOLERANCE[subject.dtype], f"the {name} form gives other answers than the dense one"
        )


def _gradients(subject: Subject) -> None:
    function, inputs = subject.function()
    try:
        torch.autograd.gradcheck(function, inputs, fast_mode=True)
    except RuntimeError as error:
        raise CheckFailed(f"the gradients are not those of finite differences: {error}") from None


def _finite_gradients(subject: Subject) -> None:
    function, inputs = subject.function()
    for gradient in torch.autograd.grad(function(*inputs).sum(), inputs, allow_unused=True):
        if gradient is not None and not gradient.isfinite().all():
            raise CheckFailed("a gradient is not finite")


def _weights(subject: Subject, rows_sum_to_one: bool) -> None:
    answers = subject.answers()
    if answers.weights is None:
        return
    if (answers.weights < 0).any():
        raise CheckFailed("an attention weight is negative")
    if answers.edges is not None:
        if (answers.weights.movedim(1, -1)[~answers.edges] != 0).any():
            raise CheckFailed("attention has a weight where there is no edge")
        has_edges = answers.edges.any(-1)
    else:
        has_edges = answers.node_mask
    sums = answers.weights.sum(-1).movedim(1, -1)[has_edges]
    if rows_sum_to_one:
        assert_same([sums], [torch.ones_like(sums)], 1e-12, "the attention weights of a node do not sum to 1")


def _single_precision(subject: Subject) -> None:
    single = subject.in_precision(torch.float32)
    together = single.answers()
    for item in range(len(subject.sizes)):
        alone = single.alone(item).answers().of(0)
        # A layer's numbers stay in float32; a model's are summed in float64.
        limit = TOLERANCE[torch.float32] * (1 if together.nodes is None else 10)
        assert_same(alone, together.of(item), limit, "in float32, the company in a batch changes the answers")


def _subjects(module: nn.Module, graphs: DenseGraph | None) -> list[Subject]:
    """The module with what it is tried on: the graphs given, complete and sparse ones, or molecules."""
    if hasattr(module, "read") and hasattr(module, "collate"):
        return [on_molecules(module)]
    if graphs is not None:
        return [OnGraphs(module, cast(graphs, torch.float64))]
    dims = []
    for names in (("in_channels", "embed_dim", "node_dim"), ("edge_dim",), ("global_dim",)):
        found = [getattr(module, name) for name in names if hasattr(module, name)]
        dims.append((found[0] or 0) if found else 0)
    if not isinstance(dims[0], int) or not dims[0]:
        raise TypeError(f"{type(module).__name__} does not tell its node_dim: give graphs to try it on")
    return [OnGraphs(module, random_graphs(*dims, density=density)) for density in (None, 0.5)]
