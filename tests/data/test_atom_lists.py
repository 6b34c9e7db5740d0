"""Lists with a value for each atom: their syntax, and the rows of labels of each molecule."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molattn.data import Table, format_list, label_rows, offsets_from_counts, parse_list, read_records, read_table
from molattn.data.tables.row_stream import Chunk, RowStream
from molattn.data.tables.writers import NewColumn, ParquetFormat, TextFormat


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("[0.1, -0.2, null]", ["0.1", "-0.2", ""]),
        (" [1,2,3] ", ["1", "2", "3"]),
        ("[0.1, None, nan]", ["0.1", "", ""]),  # as Python prints it
        ("[0.1  0.2\n nan]", ["0.1", "0.2", ""]),  # as numpy prints it
        ("0.1 -2e-3 NaN", ["0.1", "-2e-3", ""]),
        ("0.5", ["0.5"]),
        ('["sp2", null, "sp3"]', ["sp2", "", "sp3"]),
        ("['sp2', None]", ["sp2", ""]),
        ("[true, false, null]", ["1", "0", ""]),
        ("C N C", ["C", "N", "C"]),
    ],
)
def test_list_syntax(text: str, items: list[str]) -> None:
    assert parse_list(text) == items


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[0.1, 0.2", "brackets do not match"),
        ("0.1, 0.2]", "brackets do not match"),
        ("[]", "an empty list"),
        ("[[0.1], [0.2]]", "a list within a list"),
        ('[{"a": 1}]', "a list within a list"),
        ("[0.1,,0.2]", "a value is missing between two commas"),
        ("[0.1, 0.2,]", "a value is missing between two commas"),
        ('["a, "b"]', "it is not a list"),
        ("""['a', __import__('os')]""", "it is not a list"),
    ],
)
def test_invalid_lists_raise_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_list(text)


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_round_trip_exactly(numbers: list[float | None]) -> None:
    written = format_list(["" if x is None else repr(x) for x in numbers])
    assert [float(item) if item else None for item in parse_list(written)] == numbers


@given(st.lists(st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=1), min_size=1))
def test_strings_round_trip(words: list[str]) -> None:
    known = [w for w in words if w.casefold() not in ("null", "none", "nan", "true", "false") and "[" not in w]
    known = ["w" + w.replace("{", "") for w in known] or ["w"]
    assert parse_list(format_list(known)) == known


@settings(max_examples=50)
@given(st.data())
def test_rows_of_labels_are_those_of_their_molecules(data: st.DataObject) -> None:
    counts = np.array(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=8)), dtype=np.int64)
    owner = np.repeat(np.arange(len(counts)), counts)
    chosen = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=8))
    expected = [row for molecule in chosen for row in np.flatnonzero(owner == molecule)]
    assert label_rows(offsets_from_counts(counts), chosen).tolist() == expected


def test_records_have_the_lists_and_reject_invalid_ones() -> None:
    cells = ["[0.1, null]", "", "[null, null]", "[1, x]", "[1, Infinity]", "[1", "2"]
    rows = [["CC", cell, ""] for cell in cells] + [["CC", "[1, 2]", "[null, 3, 4]"]]
    table = Table(("smiles", "q", "r"), rows, "t.csv", list(range(2, 10)))
    records = read_records(table, "smiles", ["q", "r"], atom_level=True)
    assert records.rows.tolist() == [0, 6, 7]
    assert records.targets.shape == (3, 0)
    assert records.atom_targets is not None
    np.testing.assert_equal(
        [[x.tolist() for x in row] for row in records.atom_targets],
        [[[0.1, np.nan], []], [[2.0], []], [[1.0, 2.0], [np.nan, 3.0, 4.0]]],
    )
    reasons = {r.row: r.reason for r in records.rejected}
    assert reasons[1] == reasons[2] == "no value in columns 'q', 'r'"
    assert reasons[3] == "column 'q', atom 1 (from 0): 'x' is not a finite number"
    assert reasons[4] == "column 'q', atom 1 (from 0): 'Infinity' is not a finite number"
    assert reasons[5].startswith("column 'q': '[1': its brackets do not match: write a list such as")


def test_lists_are_written_as_text_and_as_parquet_and_parts_are_joined(tmp_path: Path) -> None:
    stream = RowStream("t", ("smiles",), iter(()))
    new = [NewColumn("q", "list<float64>"), NewColumn("h", "list<string>")]
    chunk = Chunk(0, [1, 2], [["CC"], ["C1"]])
    added = [[(1.0, -0.25), None], [("sp2", 'a"b'), None]]
    for form, read in ((ParquetFormat(stream, new), _parquet), (TextFormat(["smiles"], new), _csv)):
        parts = [tmp_path / f"{i}{form.suffix}" for i in range(2)]
        for part in parts:
            with open(part, "wb") as file:
                writer = form.writer(file)
                writer.write(chunk, added)
                writer.close()
        with open(tmp_path / "whole", "wb") as file:
            form.join(parts, file)
        expected = [("CC", [1.0, -0.25], ["sp2", 'a"b']), ("C1", None, None)]
        assert read(tmp_path / "whole") == expected * 2


def _parquet(path: Path) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in pq.read_table(path).to_pylist()]


def _csv(path: Path) -> list[tuple[Any, ...]]:
    return [(s, *(json.loads(cell) if cell else None for cell in cells)) for s, *cells in read_table(path).rows]
