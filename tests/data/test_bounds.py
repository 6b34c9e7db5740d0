"""Bounds as text."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molattn.data.tables.cells import LOWER, UPPER, format_bound, has_bounds, parse_bound, split_bound


@pytest.mark.parametrize("text", ["", "10", "a>b", "-<5", "~3", "=5", "\u22485"])
def test_other_cells_have_no_bound(text: str) -> None:
    assert split_bound(text) is None


def test_lower_and_upper_bounds() -> None:
    assert {split_bound(f"{sign}1") for sign in (">", ">=", "=>", ">>", "\u2265", "\u2a7e")} == {(LOWER, "1")}
    assert {split_bound(f"{sign} 1") for sign in ("<", "<=", "=<", "<<", "\u2264", "\u2a7d")} == {(UPPER, "1")}


@given(st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_what_is_written_is_read_again(number: float, is_lower: bool) -> None:
    pair = (number, np.nan) if is_lower else (np.nan, number)
    np.testing.assert_array_equal(parse_bound(format_bound(*pair)), pair)


def test_without_bounds() -> None:
    assert format_bound(np.nan, np.nan) == ""
    assert has_bounds(np.array([[[np.nan, 1], [np.nan, np.nan]]])).tolist() == [[True, False]]
