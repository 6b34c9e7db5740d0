"""SumOfCodes and PairCodes: rows of tables, looked up and added."""

import pytest
import torch

from molattn.graph import PairCodes, SumOfCodes
from tests.assertions import assert_close, assert_identical
from tests.graph.graphs import F64, double

PARTS = torch.tensor([[0, 0], [1, 0], [1, 1], [2, 1]])  # four bonds of two integers each
SIZES = [3, 2]


def pair_codes(max_path=4, dim=5):
    return double(PairCodes(PARTS, SIZES, dim, max_path))


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


def test_pair_codes_are_the_sum_of_the_tables_looked_up_one_by_one():
    layer = pair_codes()
    g = torch.Generator().manual_seed(1)
    bond = torch.randint(4, (2, 3, 3), generator=g, dtype=torch.uint8)
    length = torch.randint(5, (2, 3, 3), generator=g, dtype=torch.uint8)
    kind, ring = layer.bond.table.weight.split(SIZES)
    e = layer(bond, length)
    assert e.shape == (2, 3, 3, 5)
    for b in range(2):
        for i in range(3):
            for j in range(3):
                first, second = PARTS[int(bond[b, i, j])].tolist()
                expected = kind[first] + ring[second] + layer.path.weight[int(length[b, i, j])]
                assert_close(e[b, i, j], expected)


def test_longer_paths_share_the_row_of_the_longest():
    layer = pair_codes(max_path=4)
    bond = torch.zeros(4, dtype=torch.uint8)
    longest, longer, much_longer, shorter = layer(bond, torch.tensor([4, 5, 254, 3], dtype=torch.uint8))
    assert_identical(longer, longest)
    assert_identical(much_longer, longest)
    assert (shorter - longest).abs().max() > 0.01


def test_atoms_that_no_path_joins_have_a_row_of_their_own():
    layer = pair_codes(max_path=4)
    lengths = torch.tensor([0, 1, 2, 3, 4, 255], dtype=torch.uint8)
    e = layer(torch.zeros(6, dtype=torch.uint8), lengths)
    assert layer.path.num_embeddings == 6
    assert len({tuple(row) for row in e.tolist()}) == 6
    assert_close(e[5], layer.bond(PARTS)[0] + layer.path.weight[5])


def test_the_byte_for_disconnected_is_said_and_may_be_another():
    layer = double(PairCodes(PARTS, SIZES, 5, max_path=4, disconnected=100))
    bond = torch.zeros(3, dtype=torch.uint8)
    apart, long, longest = layer(bond, torch.tensor([100, 255, 4], dtype=torch.uint8))
    assert_identical(long, longest)
    assert (apart - longest).abs().max() > 0.01


def test_every_row_that_was_looked_up_learns_and_no_other():
    layer = pair_codes()
    bond, length = torch.tensor([1, 1], dtype=torch.uint8), torch.tensor([2, 255], dtype=torch.uint8)
    layer(bond, length).sum().backward()
    assert layer.path.weight.grad is not None and layer.bond.table.weight.grad is not None
    assert layer.path.weight.grad.abs().sum(-1).gt(0).tolist() == [False, False, True, False, False, True]
    assert layer.bond.table.weight.grad.abs().sum(-1).gt(0).tolist() == [False, True, False, True, False]


def test_no_pairs_bring_no_features():
    nothing = torch.zeros(0, dtype=torch.uint8)
    e = pair_codes()(nothing, nothing)
    assert e.shape == (0, 5) and e.dtype == F64


def test_what_can_be_worked_out_again_is_not_saved():
    assert set(pair_codes().state_dict()) == {"bond.table.weight", "path.weight"}
