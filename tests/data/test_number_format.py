"""Decimal marks and thousands separators, decided for a whole column; pandas agrees on the numbers."""

from io import StringIO

import pandas as pd
import pytest

from molattn.data.tables.csv_text import csv_stream
from molattn.data.tables.number_columns import NumberColumns, normalize_numbers, peek_decimal_commas
from molattn.data.tables.number_formats import FormatCandidates, NumberFormat, has_grouped_digits, is_number
from molattn.data.tables.options import TableOptions
from molattn.data.tables.row_stream import CHUNK_SIZE, Chunk, RowStream
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
    with pytest.raises(
        InputError, match=r"line 3, column 'y': '1 234,5' has another format than the numbers before it"
    ):
        _read(["1.234,5", "1 234,5"], decimal=",")
    assert _read(["1,5", "1,2,3"], decimal=",") == ["1.5", "1,2,3"], "no number in any format"
    with pytest.raises(UsageError, match="--thousands is ';': give one of ',', '.', ' ', \"'\""):
        _read(["1"], thousands=";")
    with pytest.raises(UsageError, match="--decimal and --thousands are both ','"):
        _read(["1"], thousands=",", decimal=",")


def test_formats_with_the_same_numbers_are_one() -> None:
    candidates = FormatCandidates()
    candidates.add(["1 234", "5"])
    reading = candidates.choose("t.csv")
    assert (reading.format, reading.example, reading.decimal) == (NumberFormat(".", " "), "1 234", "")
    assert NumberFormat().normalize("1,5") is None
    assert all(map(has_grouped_digits, ("1 234", "-12 345,6")))
    assert not any(map(has_grouped_digits, ("1 2 3", "0 123")))
    assert all(map(is_number, ("-,5", "1.", "1'234,5e3"))) and not any(map(is_number, ("", "1,2,3", "-", "\u0661")))


@pytest.mark.parametrize(("decimal_commas", "odd"), [(False, "01.02.2020"), (True, "1,2,3"), (True, "2,4-D")])
def test_what_is_a_number_in_no_format_does_not_count(decimal_commas: bool, odd: str) -> None:
    table, (message,) = normalize_numbers(_table(["1,5", "2,5", odd], decimal_commas), ["y"])
    assert [row[1] for row in table.rows] == ["1.5", "2.5", odd]
    assert message == "column 'y' has decimal commas: '1,5' is read as 1.5"


def _columns(*chunks: list[str], delimiter: str = ";", **settings: str) -> tuple[NumberColumns, list[Chunk], list[str]]:
    """The column `d` of a stream with these chunks, and the messages about it."""
    rows = [["C", cell] for cells in chunks for cell in cells]
    starts = [sum(map(len, chunks[:k])) for k in range(len(chunks))]
    parts = [
        Chunk(start, range(start + 2, start + 2 + len(cells)), rows[start : start + len(cells)])
        for start, cells in zip(starts, chunks, strict=True)
    ]
    stream = RowStream("t.csv", ("smiles", "d"), iter(parts), decimal_commas=delimiter == ";")
    messages: list[str] = []
    return NumberColumns(stream, ["d"], TableOptions(**settings), messages.append), parts, messages


def test_the_chunks_of_a_file_are_read_in_one_format() -> None:
    columns, chunks, messages = _columns(["1.234", "x"], ["0,5", "7"])
    for chunk in chunks:
        columns.scan(chunk)
    assert columns.choose() == {"d": [",", "."]}
    assert [columns.read(chunk) for chunk in chunks] == [[["1234", "x"]], [["0.5", "7"]]]
    assert messages == ["column 'd' has thousands separators '.': '1.234' is read as 1234"]
    other, chunks, _ = _columns(["1.234", "x"], ["0,5", "7"])
    other.use({"d": [",", "."]})
    assert other.read(chunks[0]) == [["1234", "x"]], "in a process that reads some of the chunks"


def test_a_pipe_is_read_in_the_format_of_its_numbers_so_far() -> None:
    columns, chunks, messages = _columns(["7", ""], ["0,5"], ["1.234,5", "8"], ["NA"], ["2.5"])
    assert [columns.read(chunk) for chunk in chunks[:4]] == [[["7", ""]], [["0.5"]], [["1234.5", "8"]], [["NA"]]]
    assert messages == ["column 'd' has decimal commas: '0,5' is read as 0.5"]
    with pytest.raises(
        InputError, match=r"^t\.csv, line 8, column 'd': '2\.5' does not have the format of the numbers"
    ):
        columns.read(chunks[4])


def test_a_number_of_a_pipe_that_was_read_wrongly_is_found() -> None:
    columns, chunks, _ = _columns(["1.234"], ["x", "0,5"])
    assert columns.read(chunks[0]) == [["1.234"]]
    with pytest.raises(InputError, match="line 4, column 'd': '0,5' .* give the table as a file instead of a pipe"):
        columns.read(chunks[1])
    columns, chunks, _ = _columns(["0.5"], ["0,5"])
    assert [columns.read(chunk) for chunk in chunks] == [[["0.5"]], [["0,5"]]], "its row has the reason, as in a file"


def test_an_ambiguous_column_of_a_stream_is_refused() -> None:
    columns, chunks, _ = _columns(["7"], ["1,700"], delimiter=",")
    columns.read(chunks[0])
    with pytest.raises(InputError, match="^t.csv: column 'd' is ambiguous: '1,700' is 1700 with --thousands ','"):
        columns.read(chunks[1])
    columns, chunks, _ = _columns(["7"], ["1,700"], delimiter=",", thousands=",")
    assert [columns.read(chunk) for chunk in chunks] == [[["7"]], [["1700"]]]
    columns, chunks, _ = _columns(["1,5"], ["2.5"], decimal=",")
    columns.scan(chunks[0])
    columns.scan(chunks[1])
    with pytest.raises(InputError, match=r"^t\.csv, line 3, column 'd': '2\.5' does not match --decimal ','"):
        columns.choose()


@pytest.mark.parametrize(
    ("rows", "comma"),
    [
        ("C;1,5\nCC;2\nCO;NA\nCN;>5\n", True),
        ("C;1.234,5\nCC;2\n", True),
        ("C;1.5\nCC;2\n", False),
        ("C;0.5\nCC;0,5\nCO;1\n", False),
        ("C;2\nCC;3\n", False),
        ("C;1,5\nCC;a\nCO;b\n", False),
        ("", False),
    ],
)
def test_the_decimal_mark_of_a_table(rows: str, comma: bool) -> None:
    stream, found = peek_decimal_commas(csv_stream(f"smiles;x\n{rows}".splitlines(keepends=True), "t.csv"), "smiles")
    assert found == comma
    assert "".join(";".join(row) + "\n" for chunk in stream.chunks for row in chunk.rows()) == rows


def test_a_long_column_is_narrowed_down_quickly() -> None:
    assert CHUNK_SIZE < 10**5
    candidates = FormatCandidates()
    candidates.add(f"{i / 7}" for i in range(10**5))
    assert candidates.choose("t.csv").format == NumberFormat()
