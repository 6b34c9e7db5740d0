"""The operations of `torch.ops.molattn`, checked with torch's own requirements for custom operations."""

import pytest
import torch

from molattn.kernels import blocks, edge_attention, elementwise, lookup, segments
from tests.kernels.invalid_arguments import operations

OPS = torch.ops.molattn
WHY_NOT = next(
    filter(
        None,
        (kernel.LIBRARY.unavailable_reason() for kernel in (blocks, edge_attention, elementwise, lookup, segments)),
    ),
    "",
)

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"no library: {WHY_NOT}")


def parameter(*shape):
    return torch.randn(shape, requires_grad=True)


def edge_attention_arguments(masked):
    b, n, h, d, f = 2, 5, 2, 4, 3
    mask = torch.arange(n) < torch.tensor([[n], [2]])
    edges = (torch.rand(b, n, n) < 0.7) & mask.unsqueeze(1) & mask.unsqueeze(2)
    inputs = [parameter(b, n, h, d) for _ in range(3)]
    inputs += [parameter(b, n, n, f), parameter(h, d, f), parameter(h, d, f), parameter(h, f) if masked else None]
    return (*inputs, mask, edges, torch.rand(b, h, n, n)) if masked else (*inputs, None, None, None)


def segment_arguments(full):
    n, edges, h, d, f = 5, 12, 2, 4, 3
    inputs = [parameter(n, h, d) for _ in range(3)]
    terms = (
        [parameter(edges, f), parameter(h, d, f), parameter(h, d, f), parameter(h, f), torch.rand(edges, h)]
        if full
        else [None] * 5
    )
    return (*inputs, torch.randint(n, (edges,)), torch.randint(n - 1, (edges,)), *terms)


def block_arguments(coded):
    _, known = operations()["blocks of codes" if coded else "blocks of edges"]
    v, edges = known["v"].requires_grad_(), [x.requires_grad_() for x in known["edges"]]
    weights = [x.clone().requires_grad_() for x in known["tensors"]] * 2
    codes = list(known["codes"])
    return (v, edges, weights, known["counts"], None, codes, 2, [1e-5] * 4, 0.1, list(range(8)), True)


CALLS = {
    "sum_of_rows": lambda: (OPS.sum_of_rows, (parameter(8, 6), torch.randint(3, (5, 2), dtype=torch.int32), [4, 4])),
    "dropout_mask": lambda: (OPS.dropout_mask, ([3, 17], 0.4, 5)),
    "dropout": lambda: (OPS.dropout, (parameter(3, 17), 0.4, 5)),
    "add_dropout": lambda: (OPS.add_dropout, (parameter(3, 17), parameter(3, 17), 0.4, 5)),
    "dropout_gelu": lambda: (OPS.dropout_gelu, (parameter(3, 17), 0.4, 5)),
    "edge_attention": lambda: (OPS.edge_attention, edge_attention_arguments(False)),
    "edge_attention, masked": lambda: (OPS.edge_attention, edge_attention_arguments(True)),
    "segment_attention": lambda: (OPS.segment_attention, segment_arguments(False)),
    "segment_attention, edges": lambda: (OPS.segment_attention, segment_arguments(True)),
    "blocks of edges": lambda: (OPS.blocks, block_arguments(False)),
    "blocks of codes": lambda: (OPS.blocks, block_arguments(True)),
}


@pytest.mark.parametrize("name", CALLS)
def test_opcheck(name):
    torch.manual_seed(0)
    operation, arguments = CALLS[name]()
    tests = ["test_schema", "test_autograd_registration", "test_faketensor"]
    # The size of the activations that the blocks save is not known to a compiler.
    tests += [] if name.startswith("blocks") else ["test_aot_dispatch_dynamic"]
    torch.library.opcheck(operation.default, arguments, test_utils=tests)


@pytest.mark.parametrize("name", [name for name in CALLS if name != "dropout_mask"])
def test_gradients_agree_with_finite_differences(name):
    torch.manual_seed(0)
    operation, arguments = CALLS[name]()
    with torch.no_grad():
        out = operation(*arguments)
    probe = torch.randn_like(out[0] if isinstance(out, tuple) else out)

    def f():
        y = operation(*arguments)
        return ((y[0] if isinstance(y, tuple) else y) * probe).double().sum()

    flat = [x for a in arguments for x in (a if isinstance(a, list) else [a]) if isinstance(x, torch.Tensor)]
    for x in {id(x): x for x in flat if x.requires_grad}.values():
        (gradient,) = torch.autograd.grad(f(), x)
        step = torch.randn_like(x) * (1e-3 if name.startswith("blocks") else 1e-2)
        with torch.no_grad():
            x.add_(step)
            above = f()
            x.sub_(2 * step)
            difference = (above - f()) / 2
            x.add_(step)
        along = (gradient.double() * step).sum()
        torch.testing.assert_close(along, difference, rtol=0.02, atol=2e-3 * float(gradient.abs().max() + 0.1))


def test_other_devices_and_dtypes_are_rejected():
    q = torch.randn(2, 5, 2, 4, dtype=torch.float64)
    rest = (torch.randn(2, 5, 5, 3).double(), *torch.randn(2, 2, 4, 3).double(), None, None, None, None)
    with pytest.raises(ValueError, match="q is .* of torch.float64 on cpu"):
        OPS.edge_attention(q, q, q, *rest)
    with pytest.raises(NotImplementedError):
        OPS.dropout(torch.zeros(3, device="meta").to_sparse(), 0.1, 1)


def test_shapes_on_the_meta_device():
    for name in ("edge_attention", "dropout", "sum_of_rows"):
        operation, arguments = CALLS[name]()
        arguments = [x.detach().to("meta") if isinstance(x, torch.Tensor) else x for x in arguments]
        wanted = arguments[0].shape if name != "sum_of_rows" else (5, 6)
        assert operation(*arguments).shape == wanted and operation(*arguments).device.type == "meta"


@pytest.mark.parametrize("of", ["edge_attention", "sum_of_rows", "dropout_gelu"])
def test_torch_compile_with_fullgraph(of):
    operation, arguments = CALLS[of]()
    compiled = torch.compile(operation.default, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*arguments), operation(*arguments))
