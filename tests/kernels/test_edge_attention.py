"""Attention over dense graphs by C: outputs and gradients agree with the reference; attention without the library."""

import os
import subprocess
import sys

import pytest
import torch

from molattn.attention import OPERATIONS, record_backends
from molattn.kernels.edge_attention import LIBRARY
from tests.assertions import assert_identical
from tests.graph.graphs import F64, random_graphs
from tests.kernels.terms import Terms, attention_by, edge_attention, reference_edge_attention

F32 = torch.float32

pytestmark = pytest.mark.skipif(LIBRARY.loaded is None, reason=f"no compiled attention: {LIBRARY.unavailable_reason()}")


def randn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def make_terms(sizes, *, h=2, d=16, f=8, density=None, w_be=True, dropout=False, node_mask=None, spread=1.0, seed=0):
    """float64 terms of random graphs: those that may require gradients, and the masks."""
    graph = random_graphs(sizes, density=density, seed=seed)
    b, n = graph.node_mask.shape
    learned = {
        "packed": randn(b, n, 3, h, d, seed=seed) * spread,
        "e": randn(b, n, n, f, seed=seed + 1),
        "w_ke": randn(h, d, f, seed=seed + 2),
        "w_ve": randn(h, d, f, seed=seed + 3),
        "w_be": randn(h, f, seed=seed + 4) if w_be else None,
    }
    dropout_mask = (randn(b, h, n, n, seed=seed + 5) > -0.5).double() * 1.5 if dropout else None
    masks = {"node_mask": graph.node_mask if node_mask is None else node_mask, "edge_mask": graph.edge_mask}
    return learned, {**masks, "dropout_mask": dropout_mask}


def outputs_and_gradients(attend, learned, masks, dtype):
    """The output and the gradients of all terms."""
    ours = {name: None if x is None else x.to(dtype).requires_grad_() for name, x in learned.items()}
    dropout_mask = None if masks["dropout_mask"] is None else masks["dropout_mask"].to(dtype)
    output = attend(
        Terms(**ours, node_mask=masks["node_mask"], edge_mask=masks["edge_mask"], dropout_mask=dropout_mask)
    )
    probe = randn(*output.shape, seed=9).to(dtype)
    if masks["node_mask"] is not None:
        probe = probe.masked_fill(~masks["node_mask"][..., None, None], 0.0)
    wanted = [x for x in ours.values() if x is not None]
    return [output, *torch.autograd.grad((output * probe).sum(), wanted)]


def check_against_reference(learned, masks, tolerance=2e-5):
    compiled = outputs_and_gradients(edge_attention, learned, masks, F32)
    exact = outputs_and_gradients(reference_edge_attention, learned, masks, F64)
    for ours, theirs in zip(compiled, exact, strict=True):
        error = (ours.double() - theirs).detach().abs().max() if ours.numel() else torch.tensor(0.0)
        assert error <= tolerance * max(1.0, float(theirs.detach().abs().max()))


@pytest.mark.parametrize("sizes", [[4, 1, 3], [17, 20, 5, 16], [33]], ids=str)
@pytest.mark.parametrize("density", [None, 0.4])
@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("w_be", [True, False])
def test_outputs_and_gradients_agree_with_the_reference(sizes, density, dropout, w_be):
    check_against_reference(*make_terms(sizes, density=density, dropout=dropout, w_be=w_be))


@pytest.mark.parametrize(("h", "d", "f"), [(1, 1, 1), (3, 5, 3), (4, 8, 8), (2, 16, 12), (2, 32, 8), (1, 40, 17)])
def test_any_number_of_heads_and_channels(h, d, f):
    check_against_reference(*make_terms([6, 18], h=h, d=d, f=f, density=0.7))
    check_against_reference(*make_terms([6, 18], h=h, d=d, f=f, w_be=False))


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 31, 32, 33, 70])
def test_graphs_of_one_size_without_masks(size):
    learned, masks = make_terms([size, size])
    check_against_reference(learned, {**masks, "node_mask": None})


def test_nodes_after_padding():
    mask = torch.tensor([[False, True, True, False, True], [True] * 5, [False] * 5])
    check_against_reference(*make_terms([5, 5, 5], node_mask=mask))


def test_e_without_gradient_and_no_gradients_at_all():
    learned, masks = make_terms([7, 3])
    as32 = {name: x.float() for name, x in learned.items()}
    without = edge_attention(Terms(**as32, node_mask=masks["node_mask"]))
    as32["packed"].requires_grad_()
    with_gradient = edge_attention(Terms(**as32, node_mask=masks["node_mask"]))
    assert_identical(without, with_gradient.detach())
    with_gradient.sum().backward()
    assert as32["packed"].grad.isfinite().all()


@pytest.mark.parametrize("spread", [1e-3, 1.0, 30.0, 1e4])
def test_weights_are_exact_for_small_and_large_logits(spread):
    learned, masks = make_terms([40, 9], spread=spread)
    exact = edge_attention(Terms(**learned, node_mask=masks["node_mask"]))
    ours = edge_attention(Terms(**{k: x.float() for k, x in learned.items()}, node_mask=masks["node_mask"]))
    # Logits of size s are known to s * 2^-24, and so are weights.
    logits = float(learned["packed"].abs().max()) ** 2 * 4
    assert (ours - exact).abs().max() <= max(1e-6, logits * 2**-21) * exact.abs().max()


def test_results_are_deterministic_and_independent_of_the_number_of_threads():
    learned, masks = make_terms([30] * 20 + [3] * 7)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 3, 3, 64):
            torch.set_num_threads(threads)
            results.append(outputs_and_gradients(edge_attention, learned, masks, F32))
    finally:
        torch.set_num_threads(before)
    one, three, three_again, many = results
    for a, b in zip(three, three_again, strict=True):
        assert_identical(a, b)
    for other in (three, many):
        for a, b in zip(one[:3], other[:3], strict=True):  # the output, and gradients that no two graphs share
            assert_identical(a, b)
        for a, b in zip(one[3:], other[3:], strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-4)


def test_batch_invariance():
    learned, masks = make_terms([12, 30, 12])
    whole = outputs_and_gradients(edge_attention, learned, masks, F32)
    alone = {name: x if name[0] == "w" else x[:1] for name, x in learned.items()}
    single = outputs_and_gradients(edge_attention, alone, {**masks, "node_mask": masks["node_mask"][:1]}, F32)
    assert_identical(whole[0][:1], single[0])


def test_nan_propagates_within_its_graph_only():
    learned, masks = make_terms([9, 20])
    learned["packed"][0, 3, 1] = torch.nan  # a key
    output = edge_attention(Terms(**{k: x.float() for k, x in learned.items()}, node_mask=masks["node_mask"]))
    assert output[0, :9].isnan().all() and output[1].isfinite().all()


def test_other_dtypes_use_another_backend():
    learned, masks = make_terms([5])
    taken = {}
    for dtype in (F32, F64):
        terms = Terms(**{k: x.to(dtype) for k, x in learned.items()}, node_mask=masks["node_mask"])
        with record_backends() as calls:
            edge_attention(terms)
        taken[dtype] = [call.backend for call in calls if call.operation == "attention"]
    assert taken == {F32: ["compiled"], F64: ["chunked"]}


def test_strides_of_queries_keys_and_values():
    learned, masks = make_terms([9, 20])
    wanted = outputs_and_gradients(edge_attention, learned, masks, F32)[0]
    packed = learned["packed"].float()
    e, w_ke, w_ve, w_be = (learned[name].float() for name in ("e", "w_ke", "w_ve", "w_be"))
    together = packed.unbind(2)
    for q, k, v in (
        [x.contiguous() for x in together],
        [together[0].contiguous(), *together[1:]],
        [x.transpose(1, 2).contiguous().transpose(1, 2) for x in together],
        [x.flip(-1).contiguous().flip(-1) for x in together],
    ):
        ours = torch.ops.molattn.edge_attention(q, k, v, e, w_ke, w_ve, w_be, masks["node_mask"], None, None)
        assert_identical(ours, wanted.detach())
    one = torch.ops.molattn.edge_attention(
        *(x[:1, :1] for x in together), e[:1, :1, :1], w_ke, w_ve, w_be, None, None, None
    )  # a graph of one node, whose strides may be anything
    torch.testing.assert_close(one[0, 0], packed[0, 0, 2] + w_ve @ e[0, 0, 0], rtol=1e-5, atol=1e-5)


def test_double_backward():
    learned, masks = make_terms([5, 3], density=0.7, dropout=True)
    second_gradients = []
    for attend, dtype in ((edge_attention, F32), (reference_edge_attention, F64)):
        ours = {name: x.to(dtype).requires_grad_() for name, x in learned.items()}
        converted = {
            "node_mask": masks["node_mask"],
            "edge_mask": masks["edge_mask"],
            "dropout_mask": masks["dropout_mask"].to(dtype),
        }
        gradients = torch.autograd.grad(
            attend(Terms(**ours, **converted)).sin().sum(), list(ours.values()), create_graph=True
        )
        second_gradients.append(torch.autograd.grad(sum(x.square().sum() for x in gradients), list(ours.values())))
    for a, b in zip(*second_gradients, strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-3, atol=1e-3 * float(b.abs().max()))


def test_unsupported_reason():
    learned, masks = make_terms([5])
    reasons = []
    operation = OPERATIONS["attention"]
    original = operation.implementations["compiled"].unsupported_reason

    def recorded(arguments):
        reasons.append(original(arguments))
        return reasons[-1]

    before = dict(operation.implementations)
    operation.implementations["compiled"] = before["compiled"]._replace(unsupported_reason=recorded)
    try:
        attention_by(Terms(**learned, node_mask=masks["node_mask"]), "compiled")
        attention_by(Terms(**{k: x.float() for k, x in learned.items()}, node_mask=masks["node_mask"]), "compiled")
    finally:
        operation.implementations.update(before)
    assert reasons == ["float64 on cpu, not float32 on the CPU", ""]


def output_of(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout.strip()


def test_attention_without_the_library():
    code = (
        "import torch; from molattn.attention import EdgeTerms, PaddedGraphLayout, attend;"
        "torch.manual_seed(0); "
        "q, e, w = torch.randn(3, 2, 2, 5, 4), torch.randn(2, 5, 5, 3), torch.randn(2, 2, 4, 3);"
        "print([f'{x:.4f}' for x in attend(*q, PaddedGraphLayout(), edges=EdgeTerms(e, *w)).flatten().tolist()])"
    )
    assert output_of(code, MOLATTN_COMPILE="0") == output_of(code)
