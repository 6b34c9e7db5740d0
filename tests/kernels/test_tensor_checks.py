"""Arguments of C kernels are checked first: invalid ones are rejected and do not crash the process."""

import subprocess
import sys
from pathlib import Path

import jaxtyping
import pytest
import torch

from molattn.graph import SumEmbedding, TensorDotConv
from molattn.graph.embedding import look_up
from molattn.kernels import blocks, edge_attention, elementwise, lookup, segments
from molattn.kernels.blocks import LIBRARY, BatchEdges, BlockTensors, BlockWeights, compiled_blocks
from tests.assertions import assert_close
from tests.kernels.invalid_arguments import operations

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(LIBRARY.loaded is None, reason=f"no library: {LIBRARY.unavailable_reason()}")
F64 = torch.float64
REFUSED = (ValueError, jaxtyping.TypeCheckError)
"""The second if jaxtyping checks the arguments before the layer does."""


def test_invalid_arguments_are_rejected_without_a_crash():
    command = [sys.executable, "-m", "tests.kernels.invalid_arguments", "5", "30"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    refused = [line for line in done.stdout.splitlines() if "refused" in line]
    assert len(refused) == len(operations())


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("code", [2**32, 2**32 + 1, -(2**32), 2**31, -1, 4])
def test_codes_out_of_range_are_rejected(dtype, code):
    with pytest.raises(IndexError):
        look_up(torch.zeros(4, 3, dtype=dtype), torch.tensor([0, code]))
    with pytest.raises(IndexError):
        SumEmbedding([4, 4], 3).to(dtype)(torch.tensor([[0, 0], [1, code]]))
    with pytest.raises(IndexError):
        SumEmbedding([4, 4], 3).to(dtype)(torch.tensor([[code, 0]]))


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_codes_must_be_integers_with_one_for_each_table(dtype):
    layer = SumEmbedding([4, 4], 3).to(dtype)
    for codes in (torch.zeros(2, 1, dtype=torch.uint8), torch.zeros(2, 2), torch.zeros(2, 2, dtype=torch.bool)):
        with pytest.raises(REFUSED):
            layer(codes)
    with pytest.raises(REFUSED):
        look_up(torch.zeros(4, 3, dtype=dtype), torch.ones(2))


@pytest.mark.parametrize("count", [6, -1, 2**40])
@pytest.mark.parametrize("requires_grad", [True, False])
def test_counts_out_of_range_are_rejected(count, requires_grad):
    _, arguments = operations()["blocks of edges"]
    v, layout = arguments["v"].requires_grad_(requires_grad), BatchEdges(torch.tensor([5, count, 3]), None)
    block = BlockWeights(2, (1e-5, 1e-5), 0.0, BlockTensors(*arguments["tensors"]))
    with pytest.raises(IndexError, match="more than its tensors have rows"):
        compiled_blocks([block], v, arguments["edges"], layout)


def test_counts_modified_before_backward_are_detected():
    _, arguments = operations()["blocks of edges"]
    block = BlockWeights(2, (1e-5, 1e-5), 0.0, BlockTensors(*arguments["tensors"]))
    v, counts = arguments["v"].requires_grad_(), torch.tensor([5, 2, 3])
    out = compiled_blocks([block], v, arguments["edges"], BatchEdges(counts, None))
    counts.fill_(2**40)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_dropout_needs_equal_shapes_and_ignores_the_default_dtype():
    with pytest.raises(ValueError):
        elementwise.add_dropout(torch.zeros(100), torch.zeros(10_000), 0.5, 1)
    torch.set_default_dtype(F64)
    try:
        mask = elementwise.dropout_mask([50, 50], 0.5, 1)
    finally:
        torch.set_default_dtype(torch.float32)
    assert mask.dtype == torch.float32 and set(mask.flatten().tolist()) == {0.0, 2.0}


@pytest.fixture
def float64_by_default():
    torch.set_default_dtype(F64)
    yield
    torch.set_default_dtype(torch.float32)


def conv_gradients(dense):
    """The output of a float32 `TensorDotConv` on the CPU and the gradients of its parameters."""
    generator = torch.Generator().manual_seed(0)
    x, e = (torch.randn(shape, generator=generator, dtype=torch.float32) for shape in ((1, 6, 16), (1, 6, 6, 5)))
    conv = TensorDotConv(16, 8, heads=4, edge_dim=5).float()
    for i, p in enumerate(conv.parameters()):
        p.data.copy_(torch.randn(p.shape, generator=generator.manual_seed(i), dtype=torch.float32))
    if dense:
        out = conv.forward_dense(x, torch.ones(1, 6, dtype=torch.bool), e)
    else:
        senders, receivers = torch.arange(6).repeat(5)[:20], torch.arange(20) % 6  # not complete: the segments' kernel
        out = conv(x[0], torch.stack([senders, receivers]), e.flatten(0, 2)[:20])
    return out, torch.autograd.grad(out.square().sum(), list(conv.parameters()))


@pytest.mark.parametrize("dense", [False, True])
def test_float32_attention_ignores_the_default_dtype(dense, request):
    expected, gradients = conv_gradients(dense)
    request.getfixturevalue("float64_by_default")
    found, found_gradients = conv_gradients(dense)
    assert found.dtype == torch.float32
    for a, b in zip((found, *found_gradients), (expected, *gradients), strict=True):
        assert b.dtype == torch.float32
        assert_close(a, b)


@pytest.mark.usefixtures("float64_by_default")
@pytest.mark.parametrize("kernel", [blocks, edge_attention, elementwise, lookup, segments])
def test_self_tests_ignore_the_default_dtype(kernel):
    assert kernel.LIBRARY.self_test() == ""
    assert torch.get_default_dtype() == F64
