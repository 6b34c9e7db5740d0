"""CSV: the end of the header, the delimiter, and how cells are written."""

import time
from collections.abc import Iterator

import pytest

from molattn.data.tables import csv_text, row_stream
from molattn.data.tables.columns import find_column
from molattn.data.tables.csv_text import csv_line, csv_stream, escape_formula
from molattn.errors import InputError, UsageError


def read(text: str) -> tuple[tuple[str, ...], list[list[str]], bool]:
    stream = csv_stream(text.splitlines(keepends=True), "t.csv")
    return stream.columns, [row for chunk in stream.chunks for row in chunk.rows()], stream.decimal_commas


@pytest.mark.parametrize(
    ("text", "columns", "rows", "decimal_commas"),
    [
        ("a,b\n1;2,3\n", ("a", "b"), [["1;2", "3"]], False),
        ("a;b\n1,2;3\n", ("a", "b"), [["1,2", "3"]], True),
        ("a\tb\n1,2\t3\n", ("a", "b"), [["1,2", "3"]], False),
        ("\na;b\n1;2\n", ("a", "b"), [["1", "2"]], True),
        ("\r\n\r\na;b\n1;2\n", ("a", "b"), [["1", "2"]], True),
        ('"a\nb";c\n1;2\n', ("a\nb", "c"), [["1", "2"]], True),
        ('"a,""b";c\n1;2\n', ('a,"b', "c"), [["1", "2"]], True),
    ],
)
def test_the_delimiter_is_inferred_from_the_header(
    text: str, columns: tuple[str, ...], rows: list[list[str]], decimal_commas: bool
) -> None:
    assert read(text) == (columns, rows, decimal_commas)


def test_one_column_has_a_comma() -> None:
    with pytest.raises(InputError, match="line 2: 2 fields where the header has 1: '1' follows column 'smiles'"):
        read("smiles\nC,1\n")
    assert read("smiles\nC;1\n")[1] == [["C;1"]]


@pytest.mark.parametrize(
    ("lines", "of_header", "bare"),
    [
        (["a,b\n", "1,2\n", '"\n'], 1, "a,b\n"),
        (['"a",b\n', "1,2\n"], 1, '",b\n'),
        (['"a","b"\n', "1,2\n"], 1, '","\n'),
        (['"a,""b";c\n', "1,2\n"], 1, '";c\n'),
        (['a"b,c\n', "1,2\n"], 1, 'a"b,c\n'),
        (['"a\n', 'b",c\n', "1,2\n"], 2, '",c\n'),
        (["\n", "\r\n", "a,b\n", "1,2\n"], 3, "a,b\n"),
        (['"12345678\n', "\n", '"\n'], 2, '"'),  # it is 10 characters that are not too many
        (['"123456789\n', '"\n'], 1, '"'),
    ],
)
def test_only_the_header_is_buffered(
    monkeypatch: pytest.MonkeyPatch, lines: list[str], of_header: int, bare: str
) -> None:
    monkeypatch.setattr(csv_text, "MAX_CELL_CHARS", 10)
    behind = iter(lines)
    row = csv_text._next_row(behind)
    assert row.lines == [line.replace("\r", "") for line in lines[:of_header]]
    assert list(behind) == lines[of_header:]
    assert row.unquoted == bare


def test_empty_lines_at_the_end_are_no_row() -> None:
    assert csv_text._next_row(iter(["\n", "\r\n"])).lines == []


def test_every_character_of_a_header_is_scanned_once() -> None:
    """A quote that is never closed, blank lines, and very many names: none takes quadratic time."""
    rows = "1,CCO\n" * 80_000
    for text, message in (
        (f'"id,smiles\n{rows}', "t.csv, line 1: the quotes do not match"),
        (f'id,"smiles\n{rows}', "t.csv, line 1: the quotes do not match"),
        (f'id,smiles\n1,"CC\n{rows}', "t.csv, line 2: the quotes do not match"),
        ("\n" * 400_000, "t.csv: the file is empty"),
    ):
        started = time.monotonic()
        with pytest.raises(InputError, match=message):
            read(text)
        assert time.monotonic() - started < 10, text[:20]
    started = time.monotonic()
    assert read(f'id,smi"les\n{rows}')[0] == ("id", 'smi"les')
    assert read("\n" * 400_000 + f"id,smiles\n{rows}")[0] == ("id", "smiles")
    wide = read(",".join(map(str, range(1_000_000))) + "\n")[0]
    assert len(wide) == 1_000_000
    with pytest.raises(UsageError, match="has no column 'smiles'; it has '0', '1', .* and 999,960 more"):
        find_column(wide, "smiles", "t.csv")
    assert time.monotonic() - started < 30


def test_rows_that_fill_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_stream, "MAX_CHUNK_BYTES", 2**20)
    text = "a,b\n" + "1,2\n" * 10 + ("x" * 10_000 + ",1\n") * 200
    with pytest.raises(InputError, match="t.csv: the rows from line 2 to line 11[0-9] hold over 1 MiB"):
        read(text)
    assert len(read("a,b\n" + "1,2\n" * 20_000)[1]) == 20_000, "of a chunk, not of the table"


def test_rows_are_read_lazily() -> None:
    taken: list[int] = []

    def lines() -> Iterator[str]:
        for i in range(10_000):
            taken.append(i)
            yield "smiles,b\n"

    stream = csv_stream(lines(), "t.csv")
    assert len(taken) == 1
    assert len(next(stream.chunks)) == 1024
    assert len(taken) == 1025


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd", "'+cmd"),
        ("-x", "'-x"),
        ("@a", "'@a"),
        ("\t=1", "'\t=1"),
        ("  =1", "'  =1"),
        ("\uff1d1", "'\uff1d1"),
        ("-1.5", "-1.5"),
        ("+2e-3", "+2e-3"),
        (" -1,5 ", " -1,5 "),
        ("-1,234.5", "-1,234.5"),
        ("-1,2,3", "'-1,2,3"),
        ("-\u0661", "'-\u0661"),
        ("-", "-"),
        ("CCO", "CCO"),
        ("1=1", "1=1"),
        ("", ""),
    ],
)
def test_formulas_are_marked_and_numbers_are_not(cell: str, written: str) -> None:
    assert escape_formula(cell) == written


def test_cells_are_quoted_if_necessary() -> None:
    assert csv_line(["a", "", "b c"]) == "a,,b c\n"
    assert csv_line([""]) == '""\n'
    assert csv_line(["", ""], "\t") == "\t\n"
    assert csv_line(["a;b", "c\td", "e,f", "\ufeffg", "h\r", "i\n"], ";") == (
        '"a;b";"c\td";"e,f";"\ufeffg";"h\r";"i\n"\n'
    )
    assert csv_line(["1,5", "a;b", "c\td"], ";", quote_commas=False) == '1,5;"a;b";"c\td"\n'
    assert csv_line(['say "x"']) == '"say ""x"""\n'
