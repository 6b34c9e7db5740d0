"""Headers: columns without a name get those of pandas; titles and data are not taken for a header."""

import io
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from molattn.data import read_columns, read_table
from molattn.data.tables.columns import guess_smiles_column, is_unnamed, name_columns
from molattn.data.tables.csv_text import csv_stream
from molattn.data.tables.header import detect_smiles_column
from molattn.data.tables.options import TableOptions
from molattn.data.tables.row_stream import RowStream
from molattn.errors import InputError, UsageError


def stream_of(text: str, header_row: bool = True) -> tuple[RowStream, list[str]]:
    notes: list[str] = []
    return csv_stream(io.StringIO(text, newline=""), "t.csv", header_row=header_row, warn=notes.append), notes


@given(st.lists(st.sampled_from(["", "smiles", "y", "Unnamed: 0", "Unnamed: 1"]), min_size=1, max_size=5, unique=True))
@example(["", "Unnamed: 0", "a"])
@example(["Unnamed: 1", "", "a"])
def test_names_are_those_of_pandas(names: list[str]) -> None:
    if names == [""]:
        return
    found = name_columns(names)
    assert len(set(found)) == len(names)
    assert found == tuple(pd.read_csv(io.StringIO(",".join(names) + "\n" + ",".join("1" * len(names)))).columns)
    assert all(is_unnamed(name) == name.startswith("Unnamed") for name in found)


def test_a_header_is_kept_as_it_is_written() -> None:
    stream, notes = stream_of(", smiles, ,y,\n0,C,a,1,b\n")
    assert stream.columns == ("Unnamed: 0", " smiles", "Unnamed: 2", "y", "Unnamed: 4")
    assert stream.source_columns == ("", " smiles", " ", "y", "")
    assert notes == ["t.csv, line 1: 3 columns have no name: they are read as 'Unnamed: 0', 'Unnamed: 2', 'Unnamed: 4'"]
    plain, notes = stream_of("smiles,y\nC,1\n")
    assert (plain.source_columns, notes) == (plain.columns, [])


def test_a_frame_with_a_column_without_a_name() -> None:
    frame = pa.table({"": [0], "smiles": ["C"]})
    table = read_table(frame)
    assert (table.columns, table.rows) == (("Unnamed: 0", "smiles"), [["0", "C"]])
    assert table.warnings == ("the frame: column 1 has no name: it is read as 'Unnamed: 0'",)
    with pytest.raises(UsageError, match="--encoding does not apply to a table of the format parquet"):
        read_table(frame, TableOptions(encoding="cp1252"))


@pytest.mark.parametrize(
    ("text", "first", "warning"),
    [
        (
            "Assay 17\nsmiles,y\nC,1\n",
            ("smiles", "y"),
            "the header is line 2; the rows above it are skipped: 'Assay 17'",
        ),
        ("SMILES of assay 17\nid,smiles\n1,C\n", ("id", "smiles"), "the header is line 2"),
        (",,\nAssay,17,\nid,smiles,y\n1,C,2\n", ("id", "smiles", "y"), "the header is line 3"),
        (",,\nid,smiles,y\n1,C,2\n", ("id", "smiles", "y"), "the header is line 2; the rows above it are skipped"),
        ('"Assay\n17, plate 3"\n\nsmiles;y\nC;1\n', ("smiles", "y"), "the header is line 4"),
        (
            "a\nb\nc\nd\ne\nStructure\ty\nC\t1\n",
            ("Structure", "y"),
            "line 6; the rows above it are skipped: 'a', 'b', 'c'",
        ),
        ("Assay 17\nsmiles,y\n", ("smiles", "y"), "the header is line 2"),
        # These are headers.
        ("compound,y\nC,1\nsmiles,2\n", ("compound", "y"), ""),
        ("compound\nC\nsmiles\n", ("compound",), ""),
        ("my smiles,y\nC,1\n", ("my smiles", "y"), ""),
        ("smiles\nC\n", ("smiles",), ""),
    ],
)
def test_titles_are_above_a_wider_header(text: str, first: tuple[str, ...], warning: str) -> None:
    stream, messages = stream_of(text)
    assert stream.columns == first
    assert (warning in "".join(messages)) and len(messages) == bool(warning)
    ends = [line.rstrip("\r\n") for line in text.splitlines()]
    (chunk,) = [*stream.chunks] or [None]
    for line, row in zip(chunk.lines, chunk.rows(), strict=True) if chunk else ():
        assert ends[line - 1].replace(";", ",").replace("\t", ",") == ",".join(row)


@pytest.mark.parametrize(
    "text",
    [
        "Assay 17\nsmiles,y\nC,1,2\n",  # no table
        "Assay 17\n" * 10 + "smiles,y\nC,1\n",  # too far below
        "Assay 17\nname,y\nC,1\n",  # no molecules
    ],
)
def test_text_below_titles_that_is_not_a_table_is_refused(text: str) -> None:
    stream, _ = stream_of(text)
    with pytest.raises(InputError, match="fields where the header has 1"):
        list(stream.chunks)


def test_a_header_that_is_data_is_refused() -> None:
    for text in ("CCO,1\nCCN,2\n", "1;c1ccccc1;0,5\n2;CC;1\n", "a,-1.5,[Na+].[Cl-]\n"):
        with pytest.raises(UsageError, match="line 1: the header holds the SMILES .*, add --no-header-row"):
            stream_of(text)
    for header in ("compound,1,2", "C,N,1", "smiles,CCO,1", "CCO,CCN", "CCCCX,1"):
        stream_of(header + "\n")


def test_a_table_without_a_header() -> None:
    stream, notes = stream_of("7;CC;1,5\n8;C1CC;2\n9;CCO;3\n", header_row=False)
    assert stream.columns == ("column_1", "column_2", "column_3")
    assert stream.smiles_column == "column_2"
    (chunk,) = stream.chunks
    assert (list(chunk.lines), chunk.rows()) == ([1, 2, 3], [["7", "CC", "1,5"], ["8", "C1CC", "2"], ["9", "CCO", "3"]])
    assert notes == [
        "t.csv is read without a header row: its columns are named column_1 to column_3; column_2 holds the SMILES"
    ]
    assert stream_of("x,y\n", header_row=False)[0].smiles_column is None
    assert detect_smiles_column([["NO", "c1ccccc1"], ["CO", "CC"]]) == 1
    assert detect_smiles_column([["1", "Bob"], ["2", "Eve"]]) is None


@pytest.mark.parametrize("end", ["\n", "\n\n\n", "\r\n\r\n"])
@pytest.mark.parametrize(
    ("text", "header_row"),
    [
        ("Assay 17\nsmiles,y\nC,1\n", True),
        ("name;x,y\nA;1\nB;2\n", True),
        ("CCO;1,5\nCCC;2,5\n", False),
    ],
)
def test_empty_lines_at_the_end_of_a_short_file_change_nothing(text: str, header_row: bool, end: str) -> None:
    plain, messages = stream_of(text, header_row)
    found, messages_with_end = stream_of(text + end, header_row)
    assert (found.columns, messages_with_end) == (plain.columns, messages)
    assert [chunk.rows() for chunk in found.chunks] == [chunk.rows() for chunk in plain.chunks]


def test_the_columns_of_a_table_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("C,1\nCC,2\n")
    options = TableOptions(header_row=False)
    assert read_columns(path, options) == (("column_1", "column_2"), "column_1")
    assert read_table(path, options).rows == [["C", "1"], ["CC", "2"]]
    (tmp_path / "t.smi").write_text("C\n")
    with pytest.raises(UsageError, match="--no-header-row does not apply to a table of the format smi"):
        read_table(tmp_path / "t.smi", options)


def test_one_column_separated_by_bars_is_not_a_column_of_smiles() -> None:
    with pytest.raises(UsageError, match=r"the only column is 'id\|SMILES\|y': separate columns by commas"):
        guess_smiles_column(["id|SMILES|y"])
    assert guess_smiles_column(["smiles|canonical", "y"]) == "smiles|canonical"
    assert guess_smiles_column(["canonical smiles"]) == "canonical smiles"
