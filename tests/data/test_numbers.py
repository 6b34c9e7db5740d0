"""Cells as numbers: which are not numbers, and the messages about them."""

import math

import pytest

from molattn.data.tables.cells import parse_finite, parse_numbers, parse_required_numbers


def test_text_and_values_with_a_type() -> None:
    numbers, reason = parse_numbers([" 1.5 ", "", None, math.nan, 2], ["a", "b", "c", "d", "e"])
    assert reason is None
    assert numbers[0] == 1.5 and numbers[4] == 2.0
    assert all(map(math.isnan, numbers[1:4]))


def test_a_value_that_is_no_number_is_named_without_a_hint() -> None:
    assert parse_numbers([1.0, math.inf], ["x", "y"]) == ([], "column 'y': inf is not a finite number")
    assert parse_numbers(["1", object], ["x", "y"])[0] == []


@pytest.mark.parametrize("text", ["nan", "NA", "n/a", "n/d", "nd", "NULL", "None", "-", "?"])
def test_words_for_missing_are_to_be_left_empty(text: str) -> None:
    reason = f"column 'y': '{text}' is not a finite number: leave the field empty for a missing value"
    assert parse_numbers([text], ["y"]) == ([], reason)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1,5", ": write a decimal point, 1.5"),
        ("1e999", ""),
        ("\u22121.5", ": write the minus sign as -"),
        ("\u2212x", ""),
        ("1.5 mg", ""),
    ],
)
def test_other_hints(text: str, hint: str) -> None:
    reason = parse_numbers([text], ["y"])[1]
    assert reason is not None and reason.endswith(f"is not a finite number{hint}")


def test_where_nothing_may_be_missing() -> None:
    assert parse_required_numbers(["1", "2"], ["a", "b"]) == ([1.0, 2.0], None)
    assert parse_required_numbers(["1", ""], ["a", "b"]) == ([], "no value in column 'b'")
    assert parse_required_numbers(["", ""], ["a", "b"])[1] == "no value in columns 'a', 'b'"
    assert parse_required_numbers(["x", ""], ["a", "b"]) == ([], "column 'a': 'x' is not a finite number")


@pytest.mark.parametrize("value", ["1_000", "nan", "inf", "", "\u0661", math.inf, -math.inf, 10**400, "x", []])
def test_what_is_no_finite_number(value: object) -> None:
    assert parse_finite(value) is None


def test_finite_numbers() -> None:
    assert [parse_finite(value) for value in ("-1.5e3", ".5", "2.", 3, True)] == [-1500.0, 0.5, 2.0, 3.0, 1.0]
    missing = parse_finite(math.nan)
    assert missing is not None and math.isnan(missing)


def test_bytes_are_no_number():
    assert parse_finite(b"1.5") is None
