"""Chunked attention over dense graphs: outputs and gradients agree with the reference, for any shapes."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from molattn.attention import record_backends
from molattn.attention.dropout import draw_dropout_mask
from molattn.graph import AttentionEdgeUpdate
from molattn.kernels import batch_layout, chunked
from tests.assertions import assert_close, assert_identical
from tests.graph.graphs import EDGE_DIM, F64, random_graphs
from tests.kernels.terms import Terms, edge_attention, reference_edge_attention

H, D = 2, 3
SIZES = {"short rows": [4, 1, 3, 2], "long rows": [17, 20, 5]}


def make_terms(sizes, *, density=None, w_be=True, dropout=0.0, e_learned=True, dtype=F64, seed=0):
    """Terms of random graphs, padded with large finite numbers, and those that require gradients."""
    graph = random_graphs(sizes, density=density, seed=seed)
    g = torch.Generator().manual_seed(seed)
    b, n = graph.node_mask.shape
    packed = torch.randn(b, n, 3, H, D, generator=g, dtype=F64)
    w_ke, w_ve = torch.randn(2, H, D, EDGE_DIM, generator=g, dtype=F64)
    of_bias = torch.randn(H, EDGE_DIM, generator=g, dtype=F64) if w_be else None
    torch.manual_seed(seed)
    mask = draw_dropout_mask(packed, (b, H, n, n), dropout) if dropout else None
    packed, e, w_ke, w_ve = (x.to(dtype) for x in (packed, graph.e, w_ke, w_ve))
    learned = [packed, *([e] if e_learned else []), w_ke, w_ve, *([of_bias] if w_be else [])]
    learned = [x.requires_grad_() for x in learned]
    terms = Terms(packed, e, w_ke, w_ve, of_bias, graph.node_mask, graph.edge_mask, mask)
    return terms, learned


def outputs_and_gradients(attend, terms, learned):
    output = attend(terms)
    probe = torch.randn(output.shape, generator=torch.Generator().manual_seed(1), dtype=F64).to(output.dtype)
    probe = probe.masked_fill(~terms.node_mask[..., None, None], 0.0)
    return [output, *torch.autograd.grad((output * probe).sum(), learned)]


@pytest.fixture(params=["one chunk", "one graph at a time", "two graphs at a time"])
def chunks(request, monkeypatch):
    size = {"one chunk": 10**9, "one graph at a time": 1, "two graphs at a time": 2 * H * 20 * 20}[request.param]
    monkeypatch.setattr(batch_layout, "_MAX_CHUNK_WEIGHTS", size)
    monkeypatch.setattr(chunked, "_MIN_PADDED_ROWS", 0)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("density", [None, 0.4, 0.0])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize(("w_be", "e_learned"), [(True, True), (False, True), (True, False)])
def test_outputs_and_gradients_agree_with_the_reference(sizes, density, dropout, w_be, e_learned):
    terms, learned = make_terms(sizes, density=density, w_be=w_be, dropout=dropout, e_learned=e_learned)
    one = outputs_and_gradients(edge_attention, terms, learned)
    plain = outputs_and_gradients(reference_edge_attention, terms, learned)
    for a, b in zip(one, plain, strict=True):
        assert_close(a, b)
    with record_backends() as calls:
        edge_attention(terms)
    assert [call.backend for call in calls if call.operation == "attention"] == ["chunked"]


@pytest.mark.parametrize("size", [1, 15, 16, 17, 33])
def test_graphs_of_one_size_without_masks(size):
    terms, learned = make_terms([size, size])
    bare = Terms(terms.packed, terms.e, terms.w_ke, terms.w_ve, terms.w_be)
    assert_close(edge_attention(bare), reference_edge_attention(terms))
    gradients = torch.autograd.grad(edge_attention(bare).sin().sum(), learned)
    expected = torch.autograd.grad(reference_edge_attention(terms).sin().sum(), learned)
    for a, b in zip(gradients, expected, strict=True):
        assert_close(a, b)


def test_float32_is_float64_to_rounding():
    terms, learned = make_terms([20, 12], w_be=False, dtype=torch.float32)
    exact, learned_exactly = make_terms([20, 12], w_be=False)
    for a, b in zip(
        outputs_and_gradients(edge_attention, terms, learned),
        outputs_and_gradients(edge_attention, exact, learned_exactly),
        strict=True,
    ):
        assert_close(a[torch.isfinite(a)].double() / b.abs().max(), b[torch.isfinite(a)] / b.abs().max(), 1e-5)


@pytest.mark.parametrize("density", [None, 0.5])
def test_gradients_agree_with_finite_differences(density):
    terms, learned = make_terms([3, 1], density=density, dropout=0.3)

    def f(packed, e, w_ke, w_ve, w_be):
        return edge_attention(
            Terms(packed, e, w_ke, w_ve, w_be, terms.node_mask, terms.edge_mask, terms.dropout_mask)
        )  # fmt: skip

    assert torch.autograd.gradcheck(f, learned, fast_mode=True)


@pytest.mark.parametrize("density", [None, 0.3])
def test_padding_changes_nothing_bit_for_bit_and_gets_gradients_of_zero(density):
    results = []
    for garbage in (0.0, 1e3, -7.0):
        terms, learned = make_terms([18, 5], density=density)
        edges = random_graphs([18, 5], density=density).edges
        packed = terms.packed.detach().masked_fill(~terms.node_mask[..., None, None, None], garbage).requires_grad_()
        e = terms.e.detach().masked_fill(~edges.unsqueeze(-1), garbage).requires_grad_()
        dirty = Terms(packed, e, *learned[2:], terms.node_mask, terms.edge_mask)
        output, *gradients = outputs_and_gradients(edge_attention, dirty, [packed, e, *learned[2:]])
        assert (output[~terms.node_mask] == 0).all()
        assert (gradients[0][~terms.node_mask] == 0).all()
        assert (gradients[1][~edges] == 0).all()
        results.append([output, *gradients])
    for first, *others in zip(*results, strict=True):
        for other in others:
            assert_identical(other, first)


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, 1e30])
def test_the_layer_ignores_padded_nodes_and_their_upstream_gradients(garbage):
    phi_e = AttentionEdgeUpdate(8, H, D, EDGE_DIM).to(F64)
    graph = random_graphs([4, 2], globals_=False)
    padding = ~graph.node_mask.unsqueeze(-1)
    results = []
    for fill, back in ((0.0, 0.0), (garbage, garbage)):
        v = graph.v.masked_fill(padding, fill).requires_grad_()
        ebar = phi_e(graph.replace(v=v)).sum()
        upstream = torch.ones_like(ebar).masked_fill(padding, back)
        gradients = torch.autograd.grad(ebar, [v, *phi_e.parameters()], upstream)
        assert (gradients[0][~graph.node_mask] == 0).all()
        results.append([ebar, *gradients])
    for dirty, clean in zip(results[1], results[0], strict=True):
        assert_identical(dirty, clean)


def test_a_receiver_without_valid_key_gets_zeros_and_no_nan():
    terms, learned = make_terms([17, 3], density=0.05)
    alone = ~terms.edge_mask.any(-1)
    output, *gradients = outputs_and_gradients(edge_attention, terms, learned)
    assert alone.any() and (output[alone] == 0).all()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_huge_logits_do_not_overflow():
    terms, _ = make_terms([18, 3])
    huge = Terms(terms.packed * 1e6, terms.e, terms.w_ke, terms.w_ve, terms.w_be, terms.node_mask)
    assert edge_attention(huge).isfinite().all()


@pytest.mark.parametrize("shape", [(0, 5), (2, 0)])
def test_no_graphs_and_graphs_without_nodes(shape):
    b, n = shape
    packed, e = torch.randn(b, n, 3, H, D, requires_grad=True), torch.randn(b, n, n, EDGE_DIM)
    w_ke, w_ve = torch.randn(2, H, D, EDGE_DIM, requires_grad=True)
    output = edge_attention(Terms(packed, e, w_ke, w_ve, None, torch.zeros(b, n, dtype=torch.bool)))
    assert output.shape == (b, n, H, D)
    output.sum().backward()


def test_double_backward():
    terms, learned = make_terms([3, 2], density=0.6, dropout=0.3)
    second_gradients = []
    for attend in (edge_attention, reference_edge_attention):
        gradients = torch.autograd.grad(attend(terms).sin().sum(), learned, create_graph=True)
        second_gradients.append(torch.autograd.grad(sum(x.square().sum() for x in gradients), learned))
    for a, b in zip(*second_gradients, strict=True):
        assert_close(a, b)


def test_the_output_is_the_sum_with_the_returned_weights():
    terms, _ = make_terms([5, 4])
    weights = terms.weights()
    assert_close(weights.sum(-1), terms.node_mask.to(F64)[:, None].expand(-1, H, -1))
    bare = Terms(terms.packed, terms.e, terms.w_ke, torch.zeros_like(terms.w_ve), terms.w_be, terms.node_mask)
    assert_close(edge_attention(bare), torch.einsum("bhij,bjhd->bihd", weights, terms.packed[:, :, 2]))


LAYER = """
import torch
from molattn.graph import AttentionEdgeUpdate, DenseGraph

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.phi_e = AttentionEdgeUpdate(8, 2, 3, 5)

    def forward(self, v, node_mask, e):
        return self.phi_e(DenseGraph(v, node_mask, e)).sum()

torch.manual_seed(0)
layer = Layer()
inputs = torch.randn(2, 4, 8), torch.arange(4) < torch.tensor([[4], [3]]), torch.randn(2, 4, 4, 5)
"""

EXPORTED = """
exported = torch.export.export(layer.eval(), inputs).module()
torch.testing.assert_close(exported(*inputs), layer(*inputs), rtol=1e-6, atol=1e-6)
"""

COMPILED = """
compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
one, other = (torch.autograd.grad(f(*inputs).square().sum(), list(layer.parameters())) for f in (layer, compiled))
for a, b in zip(one, other, strict=True):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [EXPORTED, COMPILED], ids=["exported", "compiled with gradients"])
def test_torch_compile_and_export(code):
    # In a separate process: the jaxtyping checks that run under pytest cannot be compiled.
    subprocess.run([sys.executable, "-c", LAYER + code], check=True)


@pytest.mark.parametrize("attend", [edge_attention, reference_edge_attention])
def test_agreement_with_a_loop_over_pairs(attend):
    # As many channels in the edges as in a head would hide which of the two the scale comes from.
    n, h, d, f = 4, 2, 5, 3
    g = torch.Generator().manual_seed(3)
    packed = torch.randn(1, n, 3, h, d, generator=g, dtype=F64)
    e = torch.randn(1, n, n, f, generator=g, dtype=F64)
    w_ke, w_ve = torch.randn(2, h, d, f, generator=g, dtype=F64)
    w_be = torch.randn(h, f, generator=g, dtype=F64)
    expected = torch.zeros(1, n, h, d, dtype=F64)
    for i in range(n):
        for head in range(h):
            q, *_ = packed[0, i, :, head]
            keys = [packed[0, j, 1, head] + w_ke[head] @ e[0, i, j] for j in range(n)]
            values = [packed[0, j, 2, head] + w_ve[head] @ e[0, i, j] for j in range(n)]
            logits = torch.stack([q @ key / d**0.5 + w_be[head] @ e[0, i, j] for j, key in enumerate(keys)])
            expected[0, i, head] = logits.softmax(0) @ torch.stack(values)
    assert_close(attend(Terms(packed, e, w_ke, w_ve, w_be)), expected)


def test_an_edge_mask_without_node_mask():
    terms, _ = make_terms([17, 17], density=0.4)
    bare = replace(terms, node_mask=None)
    assert_identical(bare.weights(), terms.weights())
    for attend in (edge_attention, reference_edge_attention):
        assert_close(attend(bare), reference_edge_attention(terms))


def test_under_autocast_the_reference_runs_and_supports_double_backward():
    terms, learned = make_terms([3, 2], dtype=torch.float32, w_be=False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = edge_attention(terms)
        assert_identical(output, reference_edge_attention(terms))
    gradients = torch.autograd.grad(output.float().square().sum(), learned, create_graph=True)
    torch.autograd.grad(sum(x.sum() for x in gradients), learned[0])[0].sum()
