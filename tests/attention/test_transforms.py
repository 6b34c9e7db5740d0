"""Attention under torch's transforms: torch.func, derivatives of any order, compilers."""

import subprocess
import sys

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import functional_call, grad, hessian, jvp, vmap
from torch.fx.experimental.proxy_tensor import make_fx

from molattn.attention import (
    NORMALIZERS,
    DenseLayout,
    EdgeListLayout,
    MultiHeadAttention,
    attend,
    attention_weights,
    causal_mask,
    padding_mask,
    sparsemax,
)
from molattn.attention.layout import mask_any, mask_or
from molattn.sequence import Encoder
from tests.assertions import assert_close, assert_identical

F64 = torch.float64
MASKS = ["none", "padding", "causal", "both", "empty row", "float", "heads"]
REAL = torch.arange(4) < torch.tensor([[4], [2]])


def mask_of(kind):
    """The mask of this kind for a batch of 2, 2 heads, 4 queries and 4 keys."""
    g = torch.Generator().manual_seed(1)
    return {
        "none": None,
        "padding": padding_mask(REAL),
        "causal": causal_mask(4),
        "both": padding_mask(REAL) & causal_mask(4),
        "empty row": causal_mask(4) & ~torch.eye(4, dtype=torch.bool),
        "float": torch.randn(4, 4, generator=g, dtype=F64).masked_fill(~causal_mask(4), -torch.inf),
        "heads": torch.rand(2, 2, 4, 4, generator=g) > 0.4,
    }[kind]


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return MultiHeadAttention(4, 2).to(F64)


@pytest.fixture
def x():
    return torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(2), dtype=F64)


over_masks = pytest.mark.parametrize("kind", MASKS)


@over_masks
def test_gradients_of_gradients(layer, x, kind):
    # Against finite differences; torch's kernels have no second derivatives.
    mask, projections = mask_of(kind), (layer.q_proj.weight, layer.v_proj.bias)

    def f(x, *_):
        return layer(x, mask=mask)

    assert gradcheck(f, (x.requires_grad_(), *projections))
    assert gradgradcheck(f, (x, *projections))


def test_gradients_of_gradients_of_attend_with_a_bias():
    g = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(1, 2, n, 3, generator=g, dtype=F64, requires_grad=True) for n in (3, 4, 4))
    bias = torch.randn(3, 4, generator=g, dtype=F64, requires_grad=True)
    mask = torch.tensor([[True, False, True, False], [False] * 4, [True, True, True, False]])
    for layout in (None, mask):
        assert gradgradcheck(lambda q, k, v, bias, layout=layout: attend(q, k, v, layout, bias=bias), (q, k, v, bias))
        # Only the keys, for which torch chooses another kernel.
        assert gradgradcheck(lambda k, layout=layout: attend(q.detach(), k, v.detach(), layout, bias=bias.detach()), k)


def test_three_derivatives():
    g = torch.Generator().manual_seed(4)
    q, k, v = (torch.randn(1, 1, 3, 2, generator=g, dtype=F64) for _ in range(3))

    def derivative(f, times):
        x = q.clone().requires_grad_()
        y = f(x)
        for _ in range(times):
            (first,) = torch.autograd.grad(y.sin().sum(), x, create_graph=True)
            y = first
        return y

    assert_close(derivative(lambda q: attend(q, k, v), 3), derivative(lambda q: attention_weights(q, k) @ v, 3), 1e-9)


def test_a_first_gradient_is_the_kernels_own(layer, x, monkeypatch):
    calls = []
    kernel = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *a, **b: calls.append(0) or kernel(*a, **b)
    )
    layer(x.requires_grad_()).sum().backward()
    assert len(calls) == 1
    attend(x, x, x).add_(1).sum().backward()  # and the output may be modified in place


@over_masks
def test_torch_func_transforms_give_the_derivatives_of_autograd(layer, x, kind):
    mask, parameters = mask_of(kind), dict(layer.named_parameters())

    def f(parameters, x):
        return functional_call(layer, parameters, (x,), {"mask": mask}).sin().sum()

    x.requires_grad_()
    expected = torch.autograd.grad(f(parameters, x), [*parameters.values(), x])
    found, of_x = grad(f, argnums=(0, 1))(parameters, x)
    for a, b in zip((*found.values(), of_x), expected, strict=True):
        assert_close(a, b)
    x = x.detach()
    direction = torch.cos(x)
    of_f = torch.autograd.functional.hessian(lambda x: f(parameters, x), x)
    assert_close(hessian(f, argnums=1)(parameters, x), of_f, 1e-10)
    value, slope = jvp(lambda x: f(parameters, x), (x,), (direction,))
    assert_close(value, f(parameters, x))
    assert_close(slope, (expected[-1] * direction).sum())
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(f(parameters, forward_ad.make_dual(x, direction)))
        assert_close(dual.tangent, slope)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@pytest.mark.parametrize("kind", MASKS[1:])
def test_a_batch_by_vmap_is_the_batch(x, kind, normalizer):
    torch.manual_seed(0)
    layer = MultiHeadAttention(4, 2, normalizer=normalizer).to(F64)
    mask = mask_of(kind)
    each = mask.expand(2, 2, 4, 4)
    assert_close(vmap(lambda x, mask: layer(x, mask=mask))(x, each), layer(x, mask=mask))
    for mine, expected in zip(
        vmap(lambda x, mask: layer(x, mask=mask, return_weights=True))(x, each),
        layer(x, mask=mask, return_weights=True),
        strict=True,
    ):
        assert_close(mine, expected)
    of_one = grad(lambda x, mask: layer(x, mask=mask).sin().sum())
    x.requires_grad_()
    (expected,) = torch.autograd.grad(layer(x, mask=mask).sin().sum(), x)
    assert_close(vmap(of_one)(x, each), expected)


def test_a_batch_by_vmap_of_large_masks_and_of_edges():
    g = torch.Generator().manual_seed(5)
    q, k, v = torch.randn(3, 2, 70, 4, generator=g, dtype=F64)
    masks = torch.rand(2, 70, 70, generator=g) > 0.9
    assert_close(vmap(attend)(q, k, v, masks), attend(q, k, v, masks))
    sender, receiver = torch.randint(70, (2, 90), generator=g)
    edges = EdgeListLayout(sender, receiver, 70)
    by_edge = (x.transpose(0, 1) for x in (q, k, v))
    expected = attend(*by_edge, edges).transpose(0, 1)
    assert_close(vmap(lambda q, k, v: attend(q, k, v, edges))(q, k, v), expected)


@pytest.mark.parametrize("mask", [None, torch.tensor([[True, False, True, True, False], [False] * 5])])
def test_sparsemax_by_sorting_is_sparsemax(mask):
    g = torch.Generator().manual_seed(6)
    logits = torch.randn(40, 2, 5, generator=g, dtype=F64)
    logits[:5] = logits[:5].round()  # ties
    layout = DenseLayout(mask)
    expected = sparsemax(logits, layout)
    assert_close(vmap(lambda logits: sparsemax(logits, layout))(logits), expected)
    for none in (logits[..., :0], logits[..., None, :0]):
        torch.testing.assert_close(vmap(lambda logits: sparsemax(logits, DenseLayout()))(none), none)
    logits[0, 0, 0] = torch.nan
    assert vmap(lambda logits: sparsemax(logits, layout))(logits)[0, 0].isnan().any()


def test_sparsemax_of_edges_by_bisection_is_sparsemax():
    g = torch.Generator().manual_seed(7)
    sender, receiver = torch.arange(90), torch.randint(12, (90,), generator=g)  # receivers 12 and 13 have no edge
    layout = EdgeListLayout(sender, receiver, 14)
    logits = torch.randn(40, 90, 3, generator=g, dtype=F64) * torch.logspace(-3, 3, 40, dtype=F64).view(-1, 1, 1)
    logits[:5] = logits[:5].round()  # ties
    logits[5] = 0.0
    expected = torch.stack([sparsemax(x, layout) for x in logits])
    assert_close(vmap(lambda x: sparsemax(x, layout))(logits), expected)
    of_one = grad(lambda x: sparsemax(x, layout).square().sum())
    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(sum(sparsemax(x, layout).square().sum() for x in logits), logits)
    assert_close(vmap(of_one)(logits.detach()), gradient, 1e-9)
    single = logits.detach().float()
    ours = vmap(lambda x: sparsemax(x, layout))(single)
    assert_close(ours, torch.stack([sparsemax(x, layout) for x in single]), 1e-5)
    with torch.no_grad():
        logits[0, 0, 0] = torch.nan
    assert vmap(lambda x: sparsemax(x, layout))(logits.detach())[0, receiver == receiver[0], 0].isnan().any()


def test_the_bisected_support_of_thousands_of_close_logits_is_exact():
    # Sums of 1 and 2 above tau differ by some hundred logits here; Michelot's steps alone need more than two for them.
    logits = -1e-6 * torch.arange(3000, dtype=F64)
    layout = EdgeListLayout(torch.arange(3000), torch.zeros(3000, dtype=torch.int64), 1)
    weights = vmap(lambda x: sparsemax(x, layout))(logits[None])[0]
    assert weights.min() == 0
    k = torch.arange(1, 3001)
    size = int((1 + k * logits > logits.cumsum(0)).sum())  # Martins & Astudillo 2016, algorithm 1
    assert int((weights > 0).sum()) == size
    assert_close(weights, (logits - (logits[:size].sum() - 1) / size).clamp(min=0), 1e-12)


def test_sparsemax_of_edges_has_a_shape_on_the_meta_device():
    edges = EdgeListLayout(torch.arange(3, device="meta"), torch.zeros(3, dtype=torch.int64, device="meta"), 2)
    assert sparsemax(torch.empty(3, 2, device="meta"), edges).shape == (3, 2)


def test_sparsemax_of_edges_compiles_to_one_graph():
    layout, logits = EdgeListLayout(torch.arange(5), torch.tensor([0, 0, 1, 1, 1]), 2), torch.randn(5, 2)
    compiled = torch.compile(lambda x: sparsemax(x, layout), fullgraph=True, backend="eager")
    assert_close(compiled(logits), sparsemax(logits, layout), 1e-6)


@pytest.mark.parametrize("normalizer", NORMALIZERS)
@over_masks
def test_meta_tensors_have_the_right_shapes_forward_and_backward(kind, normalizer):
    layer, mask = MultiHeadAttention(4, 2, normalizer=normalizer).to("meta", F64), mask_of(kind)
    x = torch.empty(2, 4, 4, dtype=F64, device="meta", requires_grad=True)
    mask = None if mask is None else mask.to("meta")
    output, weights = layer(x, mask=mask, return_weights=True)
    assert output.shape == (2, 4, 4) and weights.shape == (2, 2, 4, 4)
    layer(x, mask=mask).sum().backward()
    assert x.grad is not None and x.grad.is_meta


@over_masks
def test_lower_precision_by_hand_and_by_autocast(x, kind):
    torch.manual_seed(0)
    layer, mask = MultiHeadAttention(4, 2), mask_of(kind)
    x = x.float()
    mask = mask.float() if mask is not None and mask.is_floating_point() else mask
    expected = layer(x, mask=mask)
    with torch.autocast("cpu", torch.bfloat16):
        output, (plain, weights) = layer(x, mask=mask), layer(x, mask=mask, return_weights=True)
    for found in (output, plain):
        assert found.dtype == torch.bfloat16
        assert_close(found.float(), expected, 0.05)
    assert weights.isfinite().all()
    output.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())
    for dtype in (torch.bfloat16, torch.float16):
        lower = layer.to(dtype)
        of_mask = mask.to(dtype) if mask is not None and mask.is_floating_point() else mask
        assert_close(lower(x.to(dtype), mask=of_mask).float(), expected, 0.05)


@pytest.mark.parametrize("training", [False, True])
def test_a_stack_with_dropout_is_transformed_too(training):
    torch.manual_seed(0)
    encoder = Encoder(1, 4, 2, dropout=0.5).train(training)
    x = torch.randn(2, 4, 4)
    mask = padding_mask(REAL)
    gradient = grad(lambda x: encoder(x, mask).sin().sum())(x)
    assert gradient.isfinite().all() and gradient.any()
    draw = vmap(lambda x, mask: encoder(x, mask), randomness="different")(x[:, None], mask[:, None])
    assert draw.shape == (2, 1, 4, 4)


def test_mask_operations_agree_in_bytes_and_under_a_compiler(monkeypatch):
    g = torch.Generator().manual_seed(7)
    a, b = torch.rand(90, 80, generator=g) > 0.5, torch.rand(90, 1, generator=g) > 0.5
    a[5:7] = False
    in_bytes = mask_or(a, b), mask_any(a, -1)
    assert_identical(in_bytes[0], a | b)
    assert_identical(in_bytes[1], a.any(-1))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    for found, expected in zip((mask_or(a, b), mask_any(a, -1)), in_bytes, strict=True):
        assert_identical(found, expected)
    # The C++ that torch.compile generates does not support viewing masks as bytes.
    graph = make_fx(lambda a, b: (mask_or(a, b), mask_any(a, -1)))(a, b)
    assert "view" not in graph.code


COMPILED = """
import sys
import torch
from molattn.attention import MultiHeadAttention, NORMALIZERS, causal_mask, padding_mask
from molattn.sequence import Decoder, Encoder, Transformer

torch.manual_seed(0)
REAL = torch.arange(4) < torch.tensor([[4], [2]])
BOTH = padding_mask(REAL) & causal_mask(4)
MASKS = {
    "none": None,
    "padding": padding_mask(REAL),
    "causal": causal_mask(4),
    "both": BOTH,
    "empty row": causal_mask(4) & ~torch.eye(4, dtype=torch.bool),
    "float": torch.randn(4, 4).masked_fill(~causal_mask(4), -torch.inf),
    "heads": torch.rand(2, 2, 4, 4) > 0.4,
}

def check(module, *inputs, **more):
    torch._dynamo.reset()
    fast = torch.compile(module, fullgraph=True, backend=sys.argv[1], dynamic=True)
    for f in (lambda f: f(*inputs, **more), lambda f: torch.autograd.grad(
        f(*inputs, **more).sin().sum(), list(module.parameters()))):
        torch.testing.assert_close(f(fast), f(module), rtol=1e-4, atol=1e-5)

x = torch.randn(2, 4, 8)
"""
EVERY_LAYER = """
for kind in sys.argv[2:]:
    check(MultiHeadAttention(8, 2), x, mask=MASKS[kind])
"""
EVERY_STACK = """
check(Encoder(2, 8, 2), x, MASKS["padding"])
check(Decoder(1, 8, 2), x, x, BOTH, MASKS["padding"])
"""
EVERY_NORMALIZER = """
for normalizer in NORMALIZERS:
    check(MultiHeadAttention(8, 2, normalizer=normalizer, score="additive"), x, mask=BOTH)
"""
WHOLE_MODEL = """
model = Transformer(11, 13, 8, 2, num_layers=1)
check(model, torch.tensor([[3, 4, 5, 0], [3, 0, 0, 0]]), torch.tensor([[1, 6, 7], [1, 2, 0]]))
"""


def run_alone(code, *arguments):
    # In a separate process: the shape checks that run under pytest cannot be compiled.
    done = subprocess.run([sys.executable, "-c", COMPILED + code, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_masked_layer_compiles_to_one_graph():
    run_alone(EVERY_LAYER, "aot_eager", "both")


# "eager" traces the graph, "aot_eager" also that of the gradient, which takes four times as long.
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("code", "backend"),
    [(EVERY_LAYER + EVERY_STACK, "eager"), (EVERY_NORMALIZER, "aot_eager"), (WHOLE_MODEL, "aot_eager")],
    ids=["masks and stacks", "normalizers", "Transformer"],
)
def test_layers_and_models_compile_to_one_graph(code, backend):
    run_alone(code, backend, *MASKS)


@pytest.mark.slow
@pytest.mark.timeout(1200)  # a C++ compiler, for minutes
def test_the_layer_and_the_encoder_compile_to_cpp():
    few = 'check(Encoder(1, 8, 2), x, MASKS["padding"])\n'
    run_alone(EVERY_LAYER + few, "inductor", "padding", "both", "empty row", "float")
