"""SumEmbedding: rows of tables, looked up and summed."""

import copy

import pytest
import torch

from molattn.attention import backend, record_backends
from molattn.graph import SumEmbedding
from molattn.graph.embedding import _integers, look_up
from molattn.kernels import lookup
from tests.assertions import assert_close, assert_identical
from tests.graph.graphs import double

PARTS = torch.tensor([[0, 0], [1, 0], [1, 1], [2, 1]])  # four bonds of two integers each
SIZES = [3, 2]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
def test_sum_embedding_adds_one_row_per_code(dtype):
    layer = double(SumEmbedding([4, 2, 3], dim=6))
    codes = torch.tensor([[3, 0, 2], [0, 1, 0], [3, 1, 1]], dtype=dtype)
    tables = layer.table.weight.split([4, 2, 3])
    for row, features in zip(codes.tolist(), layer(codes), strict=True):
        assert_close(features, tables[0][row[0]] + tables[1][row[1]] + tables[2][row[2]])
    assert layer(codes.view(1, 3, 1, 3)).shape == (1, 3, 1, 6)


def test_sum_embedding_accepts_codes_above_255():
    layer = double(SumEmbedding([200, 200], dim=3))
    codes = torch.tensor([[199, 199]], dtype=torch.uint8)
    assert_close(layer(codes)[0], layer.table.weight[199] + layer.table.weight[399])


def test_sum_embedding_is_initialized_with_unit_variance_for_any_number_of_codes():
    torch.manual_seed(0)
    layer = SumEmbedding([50] * 6, dim=400)
    features = layer(torch.randint(50, (500, 6)))
    assert abs(features.var().item() - 1) < 0.05


def test_only_rows_that_were_looked_up_have_gradients():
    layer = double(SumEmbedding([4, 2], dim=3))
    layer(torch.tensor([[3, 0], [1, 0]])).sum().backward()
    learned = layer.table.weight.grad.abs().sum(-1) > 0
    assert learned.tolist() == [False, True, False, True, True, False]


def test_buffers_are_not_in_the_state_dict():
    assert set(SumEmbedding([4, 2], dim=3).state_dict()) == {"table.weight"}


@pytest.mark.parametrize("shape", [(5,), (3, 4, 2), (0,)])
def test_single_precision_is_the_same_to_rounding(shape):
    torch.manual_seed(0)
    layer = SumEmbedding([40, 3, 20], dim=7)
    codes = torch.stack([torch.randint(size, shape, dtype=torch.uint8) for size in (40, 3, 20)], dim=-1)
    wide = copy.deepcopy(layer).double()
    ours, theirs = layer(codes), wide(codes)
    assert_close(ours.double(), theirs, 1e-6)
    of = torch.randn_like(ours)
    ours.backward(of)
    theirs.backward(of.double())
    assert_close(layer.table.weight.grad.double(), wide.table.weight.grad, 1e-5)


def test_a_code_out_of_range_raises():
    rows = torch.zeros(4, 3, requires_grad=True)
    for codes in ([4], [0, -1]):
        with pytest.raises(IndexError):
            look_up(rows, torch.tensor(codes))


def test_second_order_gradients():
    rows = torch.randn(4, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(look_up(rows, torch.tensor([1, 1, 3])).pow(3).sum(), rows, create_graph=True)
    (curve,) = torch.autograd.grad(slope.sum(), rows)
    count = torch.tensor([0.0, 2.0, 0.0, 1.0]).unsqueeze(1)
    assert_close(curve, 6 * count * rows.detach(), 1e-5)


@pytest.mark.parametrize("names", [("compiled",), ("reference",)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_look_up_accepts_codes_of_any_shape_and_integer_dtype(names, dtype):
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    codes = torch.tensor([[4, 0, 2], [1, 1, 3]], dtype=dtype)
    with backend(*names):
        with record_backends() as calls:
            assert_close(look_up(rows, codes), rows[codes.long()])
        assert [call.backend for call in calls] == (
            ["reference"] if lookup.LIBRARY.unavailable_reason() else list(names)
        )
        assert_close(look_up(rows, codes[:, :, None]), rows[codes.long()][:, :, None])
        assert look_up(rows, codes[:0]).shape == (0, 3, 3)
        layer = SumEmbedding([4, 2], 3)
        pairs = torch.tensor([[3, 1], [0, 0]], dtype=dtype)
        tables = layer.table.weight.split([4, 2])
        assert_close(layer(pairs), torch.stack([tables[0][3] + tables[1][1], tables[0][0] + tables[1][0]]))


def test_a_table_with_more_rows_than_a_kernel_can_number_is_looked_up_by_torch(monkeypatch):
    rows, codes = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([4, 0, 2])
    monkeypatch.setattr(lookup, "MAX_ROWS", 4)
    with record_backends() as calls:
        assert_identical(look_up(rows, codes), rows[codes])
    assert [call.backend for call in calls] == ["reference"]


@pytest.mark.parametrize("names", [("compiled",), ("reference",)])
@pytest.mark.parametrize("codes", [[[4, 0]], [[0, 2]], [[-1, 0]], [[0, -1]], [[2**32, 0]], [[0, -(2**32)]]])
def test_a_code_out_of_range_does_not_read_the_next_table(names, codes):
    layer = SumEmbedding([4, 2], 3)
    with backend(*names), pytest.raises(IndexError):
        layer(torch.tensor(codes))


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.bool])
def test_codes_that_are_not_integers_raise(dtype):
    # Without the type checks that run under pytest.
    with pytest.raises(ValueError, match="codes must be integers, not"):
        _integers(torch.zeros(1, 2, dtype=dtype))


def test_another_number_of_codes_raises():
    with pytest.raises(ValueError, match="codes has 3 codes in its last dimension, not 2"):
        SumEmbedding([4, 2], 3)(torch.zeros(1, 3, dtype=torch.long))


@pytest.mark.parametrize(
    ("sizes", "dim", "message"),
    [([], 8, "sizes must have"), ([3, 0], 8, r"sizes\[1\] must be at least 1"), ([3], 0, "dim must be at least 1")],
)
def test_sizes_below_one_raise(sizes, dim, message):
    with pytest.raises(ValueError, match=message):
        SumEmbedding(sizes, dim)
