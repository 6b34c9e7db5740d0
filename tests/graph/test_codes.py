"""SumOfCodes: rows of tables, looked up and added."""

import pytest
import torch

from molattn.graph import SumOfCodes
from tests.assertions import assert_close
from tests.graph.graphs import double

PARTS = torch.tensor([[0, 0], [1, 0], [1, 1], [2, 1]])  # four bonds of two integers each
SIZES = [3, 2]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64])
def test_sum_of_codes_adds_one_row_per_integer_from_a_table_of_its_own(dtype):
    layer = double(SumOfCodes([4, 2, 3], dim=6))
    codes = torch.tensor([[3, 0, 2], [0, 1, 0], [3, 1, 1]], dtype=dtype)
    tables = layer.table.weight.split([4, 2, 3])
    for row, features in zip(codes.tolist(), layer(codes), strict=True):
        assert_close(features, tables[0][row[0]] + tables[1][row[1]] + tables[2][row[2]])
    assert layer(codes.view(1, 3, 1, 3)).shape == (1, 3, 1, 6)


def test_sum_of_codes_knows_codes_past_the_end_of_a_byte():
    layer = double(SumOfCodes([200, 200], dim=3))
    codes = torch.tensor([[199, 199]], dtype=torch.uint8)
    assert_close(layer(codes)[0], layer.table.weight[199] + layer.table.weight[399])


def test_sum_of_codes_starts_with_unit_variance_whatever_the_number_of_codes():
    torch.manual_seed(0)
    layer = SumOfCodes([50] * 6, dim=400)
    features = layer(torch.randint(50, (500, 6)))
    assert abs(features.var().item() - 1) < 0.05


def test_every_row_that_was_looked_up_learns_and_no_other():
    layer = double(SumOfCodes([4, 2], dim=3))
    layer(torch.tensor([[3, 0], [1, 0]])).sum().backward()
    learned = layer.table.weight.grad.abs().sum(-1) > 0
    assert learned.tolist() == [False, True, False, True, True, False]


def test_what_can_be_worked_out_again_is_not_saved():
    assert set(SumOfCodes([4, 2], dim=3).state_dict()) == {"table.weight"}
