"""Backends: which implementation runs can be chosen, is recorded, and changes only rounding."""

import os
import subprocess
import sys
import threading

import pytest
import torch

from molattn.attention import (
    BACKENDS,
    OPERATIONS,
    EdgeListLayout,
    EdgeTerms,
    General,
    MultiHeadAttention,
    PaddedGraphLayout,
    Softmax,
    attend,
    attention_weights,
    backend,
    dot,
    record_backends,
    scaled_dot,
    softmax,
)
from molattn.attention.implementations import AttendArguments
from molattn.errors import UsageError
from molattn.kernels import dispatch
from tests.assertions import assert_close


def taken(function, *arguments, **options):
    with record_backends() as calls:
        function(*arguments, **options)
    return [call.backend for call in calls if call.operation == "attention"]


def test_the_reference_is_last_in_every_operation_and_takes_everything():
    for operation in OPERATIONS.values():
        *others, last = operation.implementations
        assert last == "reference" and operation.implementations[last].unsupported_reason is None
        assert set(others) < set(BACKENDS) and others


def test_only_allowed_backends_and_the_reference_run():
    q, k, v = torch.randn(3, 2, 5, 4)
    assert taken(attend, q, k, v) == ["fused"]
    with backend("reference"):
        assert taken(attend, q, k, v) == ["reference"]
        with backend("fused", "compiled"):
            assert taken(attend, q, k, v) == ["fused"]
        assert taken(attend, q, k, v) == ["reference"]
    with backend("compiled"):
        assert taken(attend, q, k, v) == ["reference"]
    assert taken(attend, q, k, v) == ["fused"]


def test_the_previous_backends_are_restored_after_an_exception():
    with pytest.raises(ZeroDivisionError), backend("reference"):
        _ = 1 / 0
    assert taken(attend, *torch.randn(3, 2, 5, 4)) == ["fused"]


@pytest.mark.parametrize("names", [("refrence",), ("fused", "cuda"), ()])
def test_an_unknown_backend_raises_with_the_known_ones(names):
    with pytest.raises(UsageError, match="choose among compiled, chunked, fused, reference"), backend(*names):
        pass


def test_every_backend_gives_the_same_numbers():
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(12, 3).eval(), torch.randn(2, 5, 12)
    mask = torch.tensor([[True, True, False, True, False]] * 5)
    wanted = layer(x, mask=mask)
    for name in BACKENDS:
        with backend(name):
            assert_close(layer(x, mask=mask), wanted, 1e-6)


def padded_graphs(f=3, channels=4):
    """q, k and v of three heads of two graphs, and what else `attend` takes."""
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, d, generator=g) for d in (4, 4, channels))
    weights = (torch.randn(3, d, f, generator=g) for d in (4, channels))
    edges = EdgeTerms(torch.randn(2, 5, 5, f, generator=g), *weights, torch.randn(3, f, generator=g))
    layout = PaddedGraphLayout(torch.arange(5) < torch.tensor([[5], [3]]))
    return (q, k, v, layout), {"edges": edges}


def edge_list():
    """The same of 20 edges between six nodes."""
    g = torch.Generator().manual_seed(0)
    sender, receiver = torch.randint(6, (2, 20), generator=g)
    return (*torch.randn(3, 6, 3, 4, generator=g), EdgeListLayout(sender, receiver, 6)), {}


def reference(*arguments, **options):
    with backend("reference"):
        return attend(*arguments, **options)


def test_kernels_of_padded_graphs_run_only_where_they_apply(monkeypatch):
    arguments, options = padded_graphs()
    (fast,) = taken(attend, *arguments, **options)
    assert fast in ("compiled", "chunked")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert taken(attend, *arguments, **options) == ["reference"]
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert taken(attend, *arguments, **options) == ["reference"]


@pytest.mark.parametrize("changed", ["bias", "channels of values", "edges without channels", "keys for all heads"])
def test_arguments_that_kernels_of_padded_graphs_do_not_take(changed):
    arguments, options = padded_graphs(
        f=0 if changed == "edges without channels" else 3, channels=6 if changed == "channels of values" else 4
    )
    if changed == "bias":
        options["bias"] = torch.randn(2, 3, 5, 5, generator=torch.Generator().manual_seed(1))
    if changed == "keys for all heads":
        q, k, v, layout = arguments
        arguments = q, k[:, :1], v[:, :1], layout
    expected = reference(*arguments, **options)
    nodes = arguments[3].node_mask
    for names in (BACKENDS, *((name,) for name in BACKENDS)):
        with backend(*names):
            found = attend(*arguments, **options)
            assert_close(found.transpose(1, 2)[nodes], expected.transpose(1, 2)[nodes], 1e-5)
            assert "compiled" not in taken(attend, *arguments, **options)


def test_a_derivative_with_respect_to_values_alone_is_a_transformation_too():
    (q, k, v, layout), options = padded_graphs()

    def of_values(v):
        return attend(q, k, v, layout, **options).sin().sum()

    assert taken(torch.func.grad(of_values), v) == ["reference"]
    leaf = v.clone().requires_grad_()
    (expected,) = torch.autograd.grad(reference(q, k, leaf, layout, **options).sin().sum(), leaf)
    assert_close(torch.func.grad(of_values)(v), expected, 1e-5)


@pytest.mark.parametrize("form", [padded_graphs, edge_list])
@pytest.mark.parametrize("names", [BACKENDS, ("chunked",), ("reference",)], ids="+".join)
def test_dropout_draws_a_mask_unless_one_is_passed(form, names):
    arguments, options = form()
    q = arguments[0]
    shape = (20, 3) if form is edge_list else (2, 3, 5, 5)
    with backend(*names):
        without = attend(*arguments, **options)
        passed = attend(*arguments, **options, dropout=0.5, dropout_mask=q.new_ones(shape))
        drawn = []
        for seed in (0, 0, 1):
            torch.manual_seed(seed)
            drawn.append(attend(*arguments, **options, dropout=0.5))
    assert_close(passed, without, 1e-5)
    assert_close(drawn[0], drawn[1], 1e-6)
    assert (drawn[0] - without).abs().max() > 0.1 < (drawn[0] - drawn[2]).abs().max()


def test_with_dropout_a_gradient_that_is_differentiated_again_is_that_of_the_same_mask():
    inputs = [x.requires_grad_() for x in torch.randn(3, 2, 5, 4, generator=torch.Generator().manual_seed(0))]
    gradients = []
    for create_graph in (False, True):
        torch.manual_seed(1)
        output = attend(*inputs, dropout=0.5)
        gradients.append(torch.autograd.grad(output.sin().sum(), inputs, create_graph=create_graph))
    for once, again in zip(*gradients, strict=True):
        assert_close(again.detach(), once, 1e-5)


def test_the_output_is_the_sum_with_the_returned_weights():
    q, k, v = torch.randn(3, 2, 5, 4)
    with record_backends() as calls:
        output, weights = attend(q, k, v, return_weights=True)
    assert not calls
    assert_close(output, weights @ v, 1e-6)


def test_an_operation_reports_why_a_backend_does_not_run():
    operation = OPERATIONS["dropout"]
    x = torch.zeros(3, dtype=torch.float64)
    assert operation.unsupported_reason("compiled", x, 0.5) == "float64 on cpu, not float32 on the CPU"
    assert operation.unsupported_reason("reference", x, 0.5) == ""
    with backend("fused"):
        assert operation.unsupported_reason("compiled", x.float(), 0.5) == "only these backends are allowed: fused"


@pytest.mark.parametrize(
    ("backends", "changed", "reason"),
    [
        (["fused"], {}, "edge features"),
        (["fused"], {"dropout_mask": torch.ones(2, 3, 5, 5)}, "edge features"),
        (["fused"], {"edges": None, "dropout_mask": torch.ones(2, 3, 5, 5)}, "a dropout mask"),
        (["fused"], {"edges": None, "score": dot}, ""),
        (["compiled", "chunked"], {"bias": torch.zeros(2, 3, 5, 5)}, "a bias"),
        (["compiled", "chunked"], {"v": torch.zeros(2, 3, 5, 6)}, "values and keys of different shapes"),
        (["compiled", "chunked"], {"k": torch.zeros(2, 1, 5, 4)}, "queries and keys of different shapes"),
        (["compiled", "chunked"], {"edges": None}, "no edge features in the keys and in the values"),
    ],
)
def test_the_reason_why_attention_does_not_take_a_backend(backends, changed, reason):
    (q, k, v, layout), options = padded_graphs()
    arguments = AttendArguments(q, k, v, layout, None, options["edges"], scaled_dot, softmax, 0.0, None)
    for name in backends:
        assert OPERATIONS["attention"].unsupported_reason(name, arguments._replace(**changed)) == reason


def in_environment(value, code="from molattn.attention import backend"):
    environment = {**os.environ, dispatch.BACKEND_VARIABLE: value}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)


def test_the_environment_variable_sets_the_default_backends():
    code = (
        "import torch; from molattn.attention import attend, backend, record_backends\n"
        "with record_backends() as calls:\n"
        "    attend(*torch.randn(3, 2, 5, 4))\n"
        "    with backend('fused'): attend(*torch.randn(3, 2, 5, 4))\n"
        "print(*(call.backend for call in calls))"
    )
    assert in_environment("reference", code).stdout.split() == ["reference", "fused"]
    assert in_environment("", code).stdout.split() == ["fused", "fused"]
    assert in_environment(" compiled , reference", code).stdout.split() == ["reference", "fused"]
    wrong = in_environment("fast")
    assert "MOLATTN_BACKEND names 'fast': choose among compiled, chunked, fused, reference" in wrong.stderr


PADDINGS = {
    "behind": (torch.arange(5) < torch.tensor([[5], [3]]), None),
    "in front": (torch.arange(5) >= torch.tensor([[0], [2]]), None),
    "of edges": (torch.arange(5) < torch.tensor([[5], [3]]), torch.rand(2, 5, 5) < 0.6),
    # The first node has no valid key, and no query attends to the last one.
    "to earlier nodes": (torch.arange(5) < torch.tensor([[5], [3]]), torch.ones(2, 5, 5, dtype=torch.bool).tril(-1)),
}


@pytest.mark.parametrize("name", ["compiled", "chunked", "reference"])
@pytest.mark.parametrize("padding", PADDINGS)
def test_padding_that_is_not_a_number_changes_no_backend(name, padding):
    (q, k, v, _), options = padded_graphs()
    node_mask, edge_mask = PADDINGS[padding]
    layout = PaddedGraphLayout(node_mask, edge_mask)
    clean = reference(q, k, v, layout, **options)
    hidden = ~node_mask[:, None, :, None]
    q, k, v = (x.masked_fill(hidden, torch.nan).requires_grad_() for x in (q, k, v))
    with backend(name):
        output = attend(q, k, v, layout, **options)
    assert_close(output, clean, 1e-5)
    for gradient in torch.autograd.grad(output.square().sum(), (q, k, v)):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("name", ["compiled", "chunked"])
def test_without_padding_a_layout_needs_no_mask(name):
    (q, k, v, _), options = padded_graphs()
    all_nodes = PaddedGraphLayout(torch.ones(2, 5, dtype=torch.bool))
    with backend(name):
        assert_close(attend(q, k, v, PaddedGraphLayout(), **options), reference(q, k, v, all_nodes, **options), 1e-5)


def test_overlapping_contexts_of_two_threads_are_undone():
    entered, left = threading.Event(), threading.Event()

    def second():
        with backend("fused"), record_backends():
            entered.set()
            left.wait(60)

    thread = threading.Thread(target=second)
    with backend("reference"), record_backends() as calls:
        thread.start()
        assert entered.wait(60)
    left.set()
    thread.join(60)
    assert dispatch._allowed is dispatch._default and dispatch._recorded is None and calls == []
    assert taken(attend, *torch.randn(3, 2, 5, 4)) == ["fused"]


def test_the_context_entered_last_holds_until_it_is_left():
    first, second = backend("reference"), backend("fused")
    q, k, v = torch.randn(3, 2, 5, 4)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert taken(attend, q, k, v) == ["fused"]
    second.__exit__(None, None, None)
    assert dispatch._allowed is dispatch._default


class QuietSoftmax(Softmax):
    """exp(a_j) / (1 + sum_j exp(a_j)): a subclass that normalizes in another way."""

    def __call__(self, logits, layout):
        p = layout.zero_masked(logits.exp())
        return p / (1 + layout.sum_over_keys(p))


class Halved(General):
    def forward(self, q, k, layout):
        return super().forward(q, k, layout) / 2


def test_a_subclass_of_a_normalizer_is_called_by_every_backend():
    q, k, v = torch.randn(3, 2, 5, 4)
    expected, weights = attend(q, k, v, normalizer=QuietSoftmax(), return_weights=True)
    assert (weights.sum(-1) < 0.999).all()
    assert_close(attend(q, k, v, normalizer=QuietSoftmax()), expected)
    assert taken(attend, q, k, v, normalizer=QuietSoftmax()) == ["reference"]
    graph = torch.randn(3, 2, 4, 5, 8)
    edges = EdgeTerms(torch.randn(2, 5, 5, 3), torch.randn(4, 8, 3), torch.randn(4, 8, 3))
    layout = PaddedGraphLayout(torch.arange(5) < torch.tensor([[5], [3]]))
    expected, _ = attend(*graph, layout, edges=edges, normalizer=QuietSoftmax(), return_weights=True)
    assert_close(attend(*graph, layout, edges=edges, normalizer=QuietSoftmax()), expected)


@pytest.mark.parametrize("by_hook", [False, True])
def test_a_score_that_was_changed_reads_keys_with_their_edge_terms(by_hook):
    """score(q_i, k_j + W e_ij), where the default would add q W e_ij to the logits."""
    q, k = torch.randn(2, 1, 3, 5, 8, dtype=torch.float64)
    e, w = torch.randn(1, 5, 5, 2, dtype=torch.float64), torch.randn(3, 8, 2, dtype=torch.float64)
    plain = General(8, 8).double()
    score = Halved(8, 8).double()
    score.load_state_dict(plain.state_dict())
    if by_hook:
        score = General(8, 8).double()
        score.load_state_dict(plain.state_dict())
        score.register_forward_hook(lambda _module, _inputs, output: output / 2)
    keys = k.unsqueeze(2) + torch.einsum("hdf,bijf->bhijd", w, e)
    logits = torch.einsum("bhid,bhijd->bhij", plain.w(q), keys) / 2
    assert_close(attention_weights(q, k, edges=EdgeTerms(e, w), score=score), logits.softmax(-1))
