"""Decimal marks and thousands separators, decided for a whole column; pandas reads the same with what was found."""

from io import StringIO

import pandas as pd
import pytest

from molattn.data.tables.cleaning import NumberFormat, has_grouped_digits, infer_number_formats, normalize_numbers
from molattn.data.tables.options import TableOptions
from molattn.data.tables.table import Table
from molattn.errors import InputError, UsageError


def _table(cells: list[str], decimal_commas: bool = False) -> Table:
    rows = [["C", cell] for cell in cells]
    return Table(("smiles", "y"), rows, "t.csv", [*range(2, 2 + len(rows))], decimal_commas=decimal_commas)


def _read(cells: list[str], **settings: str) -> list[str]:
    return [row[1] for row in normalize_numbers(_table(cells), ["y"], TableOptions(**settings))[0].rows]


@pytest.mark.parametrize(
    ("cells", "number_format", "plain"),
    [
        (["1,234.5", "7", "-12,345,678"], (".", ","), ["1234.5", "7", "-12345678"]),
        (["1,700", "12.5"], (".", ","), ["1700", "12.5"]),
        (["1.234,5", "0,5"], (",", "."), ["1234.5", "0.5"]),
        (["1.234", "0,5"], (",", "."), ["1234", "0.5"]),
        (["0,123", "4"], (",", ""), ["0.123", "4"]),
        (["1,700", "12,5", "-3,1e-2"], (",", ""), ["1.700", "12.5", "-3.1e-2"]),
        (["1 234", "5"], (".", " "), ["1234", "5"]),
        (["1\u202f234,5", "1\u00a0000"], (",", " "), ["1234.5", "1000"]),
        (["12'000", "1\u2019234.5"], (".", "'"), ["12000", "1234.5"]),
        ([">1,234.5", "< 10", "<= 1,000"], (".", ","), [">1234.5", "< 10", "<= 1000"]),
    ],
)
def test_the_format_of_a_column_is_found(cells: list[str], number_format: tuple[str, str], plain: list[str]) -> None:
    table, (message,) = normalize_numbers(_table([*cells, "", "x"]), ["y"])
    assert [row[1] for row in table.rows] == [*plain, "", "x"]
    assert message.startswith("column 'y' has ") and " is read as " in message
    decimal, thousands = number_format
    numbers = [cell.lstrip("<>= ") for cell in cells]
    for variant in "\u202f\u00a0":
        numbers = [text.replace(variant, " ") for text in numbers]
    text = "\n".join(["y;z", *(f"{number.replace(chr(0x2019), chr(39))};0" for number in numbers)])
    by_pandas = pd.read_csv(StringIO(text), sep=";", decimal=decimal, thousands=thousands or None)["y"]
    assert by_pandas.tolist() == [float(number.lstrip("<>= ")) for number in plain]


@pytest.mark.parametrize(
    "cells", [["1.5", "2", "-3e4"], ["1.234", "2.345"], ["0.5", "0,5"], ["1,2,3", "4"], ["x", ""], ["2020-01-02"]]
)
def test_other_columns_are_unchanged(cells: list[str]) -> None:
    table = _table(cells)
    assert normalize_numbers(table, ["y"]) == (table, ())


def test_a_column_whose_format_is_ambiguous_is_refused() -> None:
    with pytest.raises(InputError) as raised:
        _read(["350", "1,700", "", "20"])
    assert str(raised.value) == (
        "t.csv: column 'y' is ambiguous: '1,700' is 1700 with --thousands ',' or 1.700 with --decimal ','; add one of "
        "these options"
    )
    assert _read(["350", "1,700"], thousands=",") == ["350", "1700"]
    assert _read(["350", "1,700"], decimal=",") == ["350", "1.700"]
    assert _read(["350", "1,700"], decimal=".") == ["350", "1700"]
    semicolons, (message,) = normalize_numbers(_table(["350", "1,700"], decimal_commas=True), ["y"])
    assert [row[1] for row in semicolons.rows] == ["350", "1.700"], "as ever in a table with semicolons"
    assert message == "column 'y' has decimal commas: '1,700' is read as 1.700"


def test_numbers_that_do_not_have_the_configured_format_are_refused() -> None:
    assert _read(["1.234", "5"], decimal=",") == ["1234", "5"]
    with pytest.raises(InputError, match=r"t.csv, line 3, column 'y': '12.5' does not match --decimal ','"):
        _read(["1,5", "12.5"], decimal=",")
    with pytest.raises(InputError, match=r"not all numbers of column 'y' match --decimal ','"):
        _read(["1.234,5", "1 234,5"], decimal=",")
    with pytest.raises(UsageError, match="--thousands is ';': give one of ',', '.', ' ', \"'\""):
        _read(["1"], thousands=";")
    with pytest.raises(UsageError, match="--decimal and --thousands are both ','"):
        _read(["1"], thousands=",", decimal=",")


def test_formats_with_the_same_numbers_are_one() -> None:
    ((number_format, example),) = infer_number_formats(["1 234", "5"])
    assert (number_format, example) == (NumberFormat(".", " "), "1 234")
    assert NumberFormat().normalize("1,5") is None
    assert all(map(has_grouped_digits, ("1 234", "-12 345,6")))
    assert not any(map(has_grouped_digits, ("1 2 3", "0 123")))
