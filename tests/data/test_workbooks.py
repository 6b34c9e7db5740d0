"""Workbooks: cells have the text of a CSV, what is written is read back by others, and bombs are refused."""

import datetime
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molattn.data import read_table
from molattn.data.tables import workbook, workbook_writer
from molattn.data.tables.options import TableOptions
from molattn.data.tables.readers import count_rows, open_stream
from molattn.data.tables.row_stream import Chunk
from molattn.data.tables.workbook import cell_text
from molattn.data.tables.workbook_writer import WorkbookFormat
from molattn.data.tables.writers import NewColumn
from molattn.errors import InputError, MissingExtra, UsageError

ADDED = [NewColumn("y_pred", "float64"), NewColumn("q_pred", "list<float64>"), NewColumn("status")]


def save(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.worksheets[0].append(list(row))
    book.save(path)
    return path


def write(path: Path, columns: Sequence[str], chunk: Chunk, added: Sequence[Any]) -> None:
    with open(path, "wb") as file:
        writer = WorkbookFormat(columns, ADDED[: len(added)]).writer(file)
        writer.write(chunk, added)
        writer.close()


def test_cells_have_the_text_of_a_csv(tmp_path: Path) -> None:
    day = datetime.datetime(2024, 3, 1)
    values = [
        7,
        7.0,
        0.1,
        -1e-20,
        1e300,
        True,
        False,
        None,
        " a ",
        "007",
        day,
        day.replace(hour=12),
        datetime.time(8, 30),
    ]
    text = ["7", "7", "0.1", "-1e-20", "1e+300", "TRUE", "FALSE", "", " a ", "007", "2024-03-01", "2024-03-01 12:00:00"]
    assert [cell_text(value) for value in values] == [*text, "08:30:00"]
    names = [f"c{i}" for i in range(len(values))]
    table = read_table(save(tmp_path / "t.xlsx", [["smiles", *names], ["C", *values], ["CC", "#N/A", "=1+1"]]))
    assert table.rows[0] == ["C", *text, "08:30:00"]
    # A formula that no program has computed has no value.
    assert table.rows[1] == ["CC", "#N/A", *[""] * 12]
    assert (table.lines, table.location(0)) == ([2, 3], "sheet row 2")


def test_numbers_are_those_of_pandas(tmp_path: Path) -> None:
    frame = pd.DataFrame({"smiles": ["C", "CC"], "n": [1, 2], "x": [0.1 + 0.2, 1 / 3], "note": ["=1+1", "a\nb"]})
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    frame.to_csv(tmp_path / "t.csv", index=False)
    found, expected = (read_table(tmp_path / name) for name in ("t.xlsx", "t.csv"))
    assert found.columns == expected.columns
    assert [row[1] for row in found.rows] == [row[1] for row in expected.rows]
    assert [float(row[2]) for row in found.rows] == pytest.approx([float(row[2]) for row in expected.rows])


def test_the_index_of_a_frame_has_no_name(tmp_path: Path) -> None:
    pd.DataFrame({"smiles": ["C"], "y": [1.5]}).to_excel(tmp_path / "t.xlsx")
    table = read_table(tmp_path / "t.xlsx")
    assert (table.columns, table.rows) == (("Unnamed: 0", "smiles", "y"), [["0", "C", "1.5"]])


def test_empty_rows_are_skipped_and_short_ones_filled(tmp_path: Path) -> None:
    rows = [["smiles", "y", "z"], ["C"], [], [None, None, None], ["CC", 1, None, None], [None, "", None], ["CCC", 1, 2]]
    path = save(tmp_path / "t.xlsx", rows)
    table = read_table(path)
    assert table.rows == [["C", "", ""], ["CC", "1", ""], ["CCC", "1", "2"]]
    assert table.lines == [2, 5, 7] and count_rows(path) == 3
    save(path, [*rows, *[["C"]] * 9, ["C", 1, 2, "beside"]])
    with pytest.raises(InputError, match="sheet row 17: 4 fields where the header has 3: 'beside' follows column 'z'"):
        read_table(path)
    # In the first rows it is a column without a name.
    save(path, [*rows, ["C", 1, 2, "beside"]])
    assert read_table(path).columns == ("smiles", "y", "z", "Unnamed: 3")


def test_sheets_are_chosen_by_name(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.worksheets[0].append(["smiles"])
    book.create_sheet("more").append(["smiles", "y"])
    book.save(tmp_path / "t.xlsx")
    table = read_table(tmp_path / "t.xlsx")
    assert table.columns == ("smiles",)
    assert table.warnings == (
        f"{tmp_path / 't.xlsx'} has 2 sheets: the first, 'Sheet', is read; --sheet gives another",
    )
    other = read_table(tmp_path / "t.xlsx", TableOptions(sheet="more"))
    assert (other.columns, other.warnings) == (("smiles", "y"), ())
    with pytest.raises(UsageError, match="no sheet 'More'; it has 'Sheet', 'more'; did you mean 'more'"):
        read_table(tmp_path / "t.xlsx", TableOptions(sheet="More"))
    save(tmp_path / "t.xlsx", [])
    with pytest.raises(InputError, match="the sheet is empty"):
        read_table(tmp_path / "t.xlsx")


def test_a_table_without_a_header(tmp_path: Path) -> None:
    table = read_table(save(tmp_path / "t.xlsx", [[1, "CCO"], [2, "CC"]]), TableOptions(header_row=False))
    assert (table.columns, table.smiles_column) == (("column_1", "column_2"), "column_2")
    assert table.rows == [["1", "CCO"], ["2", "CC"]]
    with pytest.raises(UsageError, match="sheet row 1: the header holds the SMILES 'CCO' and a number"):
        read_table(tmp_path / "t.xlsx")


def _with_part(path: Path, name: str, data: bytes) -> Path:
    """A workbook with a part replaced."""
    save(path, [["smiles", "y"], ["C", 1]])
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in {**parts, name: data}.items():
            archive.writestr(part, content)
    return path


SHEET, MAIN = "xl/worksheets/sheet1.xml", b'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def _sheet(rows: bytes) -> bytes:
    return b"<worksheet " + MAIN + b"><sheetData>" + rows + b"</sheetData></worksheet>"


def _row(number: int, text: bytes) -> bytes:
    return b'<row r="%d"><c t="inlineStr"><is><t>%s</t></is></c></row>' % (number, text)


@pytest.mark.parametrize(
    ("part", "data", "message"),
    [
        (SHEET, _sheet(_row(1, b"smiles") + _row(2, b"C" * 40_000_000)), "a row of a sheet of over 16,777,216 bytes"),
        (SHEET, _sheet(_row(1, b"smiles") + b"<row><c/>" + b"<c/>" * 5_000_000), "a row of a sheet of over"),
        (SHEET, b"<!DOCTYPE a [<!ENTITY b 'c'>]>" + _sheet(_row(1, b"smiles")), "a sheet holds declarations"),
        (SHEET, _sheet(_row(1, b"smiles") + _row(10**12, b"C")), "over 1,048,576 rows"),
        ("xl/sharedStrings.xml", b"<sst>" + b" " * 70_000_000, "unpacks to 70,000,005 bytes, far more than its size"),
        (SHEET, b"<worksheet", "cannot be read as a workbook"),
        ("xl/workbook.xml", b"", "cannot be read as a workbook"),
        ("[Content_Types].xml", b"<a/>", "cannot be read as a workbook"),
    ],
    ids=["a cell", "cells", "entities", "rows", "strings", "a cut sheet", "no workbook", "no types"],
)
def test_workbooks_that_fill_the_memory_or_are_damaged(tmp_path: Path, part: str, data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_table(_with_part(tmp_path / "t.xlsx", part, data))


def test_other_files_are_no_workbooks(tmp_path: Path) -> None:
    for data, message in (
        (b"", "cannot be read as a workbook"),
        (b"smiles,y\n", "cannot be read as a workbook"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "has a password or is of an old Excel"),
    ):
        (tmp_path / "t.xlsx").write_bytes(data)
        with pytest.raises(InputError, match=message):
            count_rows(tmp_path / "t.xlsx")
    with pytest.raises(InputError, match="there is no file"):
        read_table(tmp_path / "none.xlsx")


def test_without_openpyxl_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "t.xlsx", [["smiles"]])
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    for call in (lambda: read_table(tmp_path / "t.xlsx"), lambda: WorkbookFormat(["smiles"], [])):
        with pytest.raises(MissingExtra, match=r"pip install 'molattn\[excel\]'"):
            call()


TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x00\x1b\r\n\t_x0= "), max_size=12)


@given(st.lists(TEXT | st.sampled_from(["_x001B_", "=1+1", "#N/A", "TRUE", "1.0"]), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_every_text_is_read_back_as_text(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("round") / "t.xlsx"
    write(path, ["smiles", "x"], Chunk(0, range(len(texts)), [["C", text] for text in texts]), [[0.5] * len(texts)])
    assert [row[1] for row in read_table(path).rows] == texts


def test_what_is_written_has_the_types_of_the_input(tmp_path: Path) -> None:
    day = datetime.datetime(2024, 3, 1)
    path = save(tmp_path / "t.xlsx", [["smiles", "n", "when", "yes"], ["=C", 7, day, True], ["CC", 0.5, "-", None]])
    out = tmp_path / "out.xlsx"
    with open_stream(path) as stream:
        (chunk,) = stream.chunks
        write(out, stream.columns, chunk, [[1.23456789, None], [[0.5, None], None], ["ok", "error"]])
    book = openpyxl.load_workbook(out)
    assert [*book.worksheets[0].iter_rows(values_only=True)] == [
        ("smiles", "n", "when", "yes", "y_pred", "q_pred", "status"),
        # openpyxl itself takes the text for a formula only when it sets a cell.
        (None, 7, day, True, 1.234568, "[0.5, null]", "ok"),
        ("CC", 0.5, "-", None, None, None, "error"),
    ]
    assert book.worksheets[0]["C2"].number_format == "yyyy-mm-dd"


def test_integers_beyond_the_digits_of_a_sheet_are_written_as_text(tmp_path: Path) -> None:
    numbers = [12345678901234567, -12345678901234568, 2**63 - 1, 123456789012345, -7]
    frame = pd.DataFrame({"smiles": ["C" * n for n in range(1, 6)], "id": numbers})
    frame.to_parquet(tmp_path / "in.parquet")
    out = tmp_path / "out.xlsx"
    with open_stream(tmp_path / "in.parquet") as stream:
        (chunk,) = stream.chunks
        write(out, stream.columns, chunk, [[0.5] * 5])
    _, *cells = openpyxl.load_workbook(out).worksheets[0]["B"]
    assert [cell.value for cell in cells] == [*map(str, numbers[:3]), *numbers[3:]]


def test_a_formula_is_written_as_text(tmp_path: Path) -> None:
    out = tmp_path / "out.xlsx"
    write(out, ["smiles"], Chunk(0, [2], [["=HYPERLINK(1)"]]), [[0.5]])
    cell = openpyxl.load_workbook(out).worksheets[0]["A2"]
    assert (cell.value, cell.data_type) == ("=HYPERLINK(1)", "s")
    assert b"<f>" not in zipfile.ZipFile(out).read(SHEET)
    assert pd.read_excel(out)["smiles"].tolist() == ["=HYPERLINK(1)"]


def test_parts_are_joined_to_the_same_bytes(tmp_path: Path) -> None:
    day = datetime.datetime(2024, 3, 1, 12)
    values: list[list[object]] = [
        ["C", 7, "", day, "_x001B_\x1b"],
        ["CC", 0.1, " a\r\n", None, "=1"],
        ["CCC", True, "1", None, ""],
    ]
    chunks = [Chunk(i, [i], [[*map(cell_text, row)]], values=[row]) for i, row in enumerate(values)]
    output = WorkbookFormat([*"abcde"], ADDED[:1])
    parts = []
    for i, chunk in enumerate(chunks):
        parts.append(tmp_path / f"{i}.xlsx")
        with open(parts[-1], "wb") as file:
            writer = output.writer(file)
            writer.write(chunk, [[i / 7]])
            writer.close()
    whole, joined = io.BytesIO(), io.BytesIO()
    writer = output.writer(whole)
    for i, chunk in enumerate(chunks):
        writer.write(chunk, [[i / 7]])
    writer.close()
    output.join(parts, joined)
    assert joined.getvalue() == whole.getvalue()


def test_the_limits_of_a_sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="a sheet has 16,384 columns, not 16,385"):
        WorkbookFormat([str(i) for i in range(16_384)], ADDED[:1])
    with pytest.raises(
        UsageError, match="row 2 of the workbook, column 1: a cell of Excel holds 32,767 characters, not"
    ):
        write(tmp_path / "t.xlsx", ["x"], Chunk(0, [2], [["y" * 32_768]]), [[0.5]])
    monkeypatch.setattr(workbook_writer, "MAX_ROWS", 3)
    with pytest.raises(UsageError, match="a sheet has 3 rows, and the table more"):
        write(tmp_path / "t.xlsx", ["x"], Chunk(0, [2, 3, 4], [["y"]] * 3), [[0.5] * 3])
    save(tmp_path / "t.xlsx", [["smiles"], ["C"], ["C"], ["C"]])
    monkeypatch.setattr(workbook, "MAX_ROWS", 3)
    with pytest.raises(InputError, match="over 3 rows"):
        read_table(tmp_path / "t.xlsx")
