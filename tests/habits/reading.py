"""Habits of tables: columns, delimiters, encodings, headers and formats."""

import csv
import datetime
import gzip
import io
from collections.abc import Callable, Sequence

from tests.habits.habit import SMILES, VALUES, Habit, csv_bytes

_ROWS = list(zip(SMILES, VALUES, strict=True))
_TABLE = [("smiles", "y"), *_ROWS]
_PLAIN = csv_bytes(_TABLE)
_TEXT = _PLAIN.decode()
_COMMAS = [("smiles", "y"), *((s, str(v).replace(".", ",")) for s, v in _ROWS)]
_NUMBERED = [(i, s, v) for i, (s, v) in enumerate(_ROWS)]


def _quoted() -> bytes:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerows(_TABLE)
    return text.getvalue().encode()


def _workbook(*sheets: Sequence[Sequence[object]]) -> Callable[[], bytes]:
    """A workbook of these sheets, each by rows of values."""

    def make() -> bytes:
        from openpyxl import Workbook

        book = Workbook()
        book.remove(book.worksheets[0])
        for number, rows in enumerate(sheets, start=1):
            sheet = book.create_sheet(f"Assay {number}")
            for row in rows:
                sheet.append(list(row))
        file = io.BytesIO()
        book.save(file)
        return file.getvalue()

    return make


def _parquet(index: bool) -> bytes:
    import pandas as pd

    file = io.BytesIO()
    frame = pd.DataFrame(_ROWS, columns=["smiles", "y"])
    if index:
        frame.insert(0, "", range(len(frame)))
    frame.to_parquet(file)
    return file.getvalue()


def _sdf() -> bytes:
    from rdkit import Chem

    text = io.StringIO()
    with Chem.SDWriter(text) as writer:
        for smiles, value in _ROWS:
            mol = Chem.MolFromSmiles(smiles)
            mol.SetProp("y", str(value))
            writer.write(mol)
    return text.getvalue().encode()


def _typed() -> list[list[object]]:
    """Rows of a workbook with cells of several kinds."""
    day = datetime.datetime(2024, 3, 1)
    rows: list[list[object]] = [["Nr", "smiles", "y", "measured", "pure"]]
    return rows + [[i, s, int(v) if v.is_integer() else v, day, i % 2 == 0] for i, (s, v) in enumerate(_ROWS)]


HABITS = [
    # Delimiters, quotes and line ends.
    Habit("a plain table", _PLAIN),
    Habit("semicolons", csv_bytes(_TABLE, ";")),
    Habit("semicolons and decimal commas", csv_bytes(_COMMAS, ";"), says=("decimal commas",)),
    Habit("tabs in a .tsv", csv_bytes(_TABLE, "\t"), "table.tsv"),
    Habit("tabs in a .txt", csv_bytes(_TABLE, "\t"), "table.txt"),
    Habit("tabs in a .csv", csv_bytes(_TABLE, "\t")),
    Habit("a comma in a name between semicolons", csv_bytes([("smiles", "y (mg, dry)"), *_ROWS], ";")),
    Habit("quotes around every cell", _quoted()),
    Habit(
        "a comma within quotes",
        csv_bytes([("name", "smiles", "y"), *(('"2,4-D"', s, v) for s, v in _ROWS)]),
        options={"target_columns": ("y",)},
    ),
    Habit(
        "a comma without quotes",
        csv_bytes([("name", "smiles", "y"), *(("2,4-D", s, v) for s, v in _ROWS)]),
        options={"target_columns": ("y",)},
        error="line 2: 4 fields where the header has 3",
    ),
    Habit("line ends of Windows", _TEXT.replace("\n", "\r\n").encode()),
    Habit("line ends of old Macs", _TEXT.replace("\n", "\r").encode()),
    Habit("no line end after the last row", _TEXT.rstrip().encode()),
    Habit("blank lines", ("\n\n" + _TEXT.replace("\n", "\n\n")).encode()),
    Habit("a delimiter at the end of every line", _TEXT.replace("\n", ",\n").encode(), says=("'Unnamed: 2'",)),
    Habit(
        "a delimiter at the end of every row but not of the header",
        ("smiles,y\n" + "".join(f"{s},{v},\n" for s, v in _ROWS)).encode(),
        error="line 2: 3 fields where the header has 2",
    ),
    Habit("a row that is too short", (_TEXT + "CCCCO\n").encode(), error="line 22: 1 fields where the header has 2"),
    Habit(
        "a row of delimiters alone",
        csv_bytes([*_TABLE[:2], ("", ""), *_TABLE[2:]]),
        rejected={3: "no value in column 'y'"},
    ),
    Habit("a quote that is not closed", _TEXT.replace("CCN", '"CCN').encode(), error="line 3: the quotes do not match"),
    Habit(
        "spaces around names and cells",
        csv_bytes([(" smiles ", " y"), *((f" {s}", f" {v} ") for s, v in _ROWS)]),
        smiles=[f" {s}" for s in SMILES],
    ),
    Habit(
        "very long cells",
        csv_bytes([("smiles", "y", "note"), *((s, v, "x" * 200_000) for s, v in _ROWS)]),
        options={"target_columns": ("y",)},
    ),
    # Encodings.
    Habit("UTF-8 with a byte-order mark", _TEXT.encode("utf-8-sig")),
    Habit("the Unicode text of Excel", csv_bytes(_TABLE, "\t", "utf-16"), "table.txt"),
    Habit("UTF-16 of another byte order", b"\xfe\xff" + _TEXT.encode("utf-16-be")),
    Habit("UTF-16 without a byte-order mark", _TEXT.encode("utf-16-le"), error="--encoding utf-16-le"),
    Habit("UTF-16 without a byte-order mark, named", _TEXT.encode("utf-16-le"), options={"encoding": "utf-16-le"}),
    Habit(
        "the encoding of Windows in the header",
        csv_bytes([("smiles", "T in °C"), *_ROWS], ";", "cp1252"),
        options={"target_columns": ("T in °C",)},
        says=("as line 1 shows: it is read as Windows-1252",),
    ),
    Habit(
        "the encoding of Windows far below",
        csv_bytes(
            [("smiles", "y", "note"), *((s, v, "µM" if i == 15 else "") for i, (s, v) in enumerate(_ROWS))],
            ",",
            "cp1252",
        ),
        options={"target_columns": ("y",)},
        says=("as line 17 shows",),
    ),
    Habit(
        "UTF-8 with one line of another encoding",
        csv_bytes([("smiles", "y", "note"), *((s, v, "µM") for s, v in _ROWS)]) + "CCl,1,µM\n".encode("cp1252"),
        options={"target_columns": ("y",)},
        error="line 22, byte 7 of it: 0xb5 is not UTF-8 text",
    ),
    Habit(
        "a table from Japan, its encoding named",
        csv_bytes([("smiles", "沸点"), *_ROWS], ",", "shift_jis"),
        options={"encoding": "shift_jis", "target_columns": ("沸点",)},
    ),
    Habit("an encoding that does not exist", _PLAIN, options={"encoding": "latin-99"}, error="no encoding 'latin-99'"),
    # Headers.
    Habit(
        "the index of a data frame",
        csv_bytes([("", "smiles", "y"), *_NUMBERED]),
        says=("column 1 has no name: it is read as 'Unnamed: 0'",),
    ),
    Habit(
        "the index of a data frame, saved twice",
        csv_bytes([("", "Unnamed: 0", "smiles", "y"), *((row[0], *row) for row in _NUMBERED)]),
        says=("'Unnamed: 0.1'",),
    ),
    Habit(
        "several columns without a name",
        csv_bytes([("", "smiles", "", "y", ""), *((i, s, "", v, "x") for i, s, v in _NUMBERED)]),
        says=("3 columns have no name: they are read as 'Unnamed: 0', 'Unnamed: 2', 'Unnamed: 4'",),
    ),
    Habit(
        "two columns of one name", csv_bytes([("smiles", "y", "y"), *((s, v, v) for s, v in _ROWS)]), error="both named"
    ),
    Habit(
        "titles above the header",
        ("Assay 17, plate 3\n\n" + "\n".join(f"{s};{v}" for s, v in _TABLE) + "\n").encode(),
        says=("the header is line 3; the rows above it are skipped: 'Assay 17, plate 3'",),
    ),
    Habit(
        "titles above the header, filled up with delimiters",
        csv_bytes([("Assay 17", "", ""), ("", "", ""), ("Nr", "smiles", "y"), *_NUMBERED]),
        options={"target_columns": ("y",)},
        says=("the header is line 3",),
    ),
    Habit(
        "a comment above the header",
        b"# exported from the ELN\n" + _PLAIN,
        says=("the rows above it are skipped: '# exported from the ELN'",),
    ),
    Habit(
        "a comment between rows",
        csv_bytes([*_TABLE[:2], ("# batch 2",), *_TABLE[2:]]),
        error="line 3: 1 fields where the header has 2",
    ),
    Habit("no header", csv_bytes(_ROWS), error="add --no-header-row"),
    Habit("no header, and one column", "".join(f"{s}\n" for s in SMILES).encode(), error="--no-header-row"),
    Habit(
        "no header, and the option that says so",
        csv_bytes(_ROWS),
        options={"no_header_row": True},
        says=("its columns are named column_1 to column_2; column_1 holds the SMILES",),
    ),
    Habit(
        "no header, semicolons and decimal commas",
        csv_bytes([(i, v, s) for i, (s, v) in enumerate(_COMMAS[1:])], ";"),
        options={"no_header_row": True, "target_columns": ("column_2",)},
        says=("column_3 holds the SMILES",),
    ),
    Habit(
        "the header once more between rows",
        csv_bytes([*_TABLE[:3], ("smiles", "y"), *_TABLE[3:]]),
        rejected={4: "'y' is not a finite number"},
    ),
    Habit("a structure column", csv_bytes([("Structure", "y"), *_ROWS])),
    # Formats.
    Habit("a gzip", gzip.compress(_PLAIN), "table.csv.gz"),
    Habit("a gzip that is named .csv", gzip.compress(_PLAIN), "table.csv"),
    Habit("Parquet", lambda: _parquet(index=False), "table.parquet"),
    Habit(
        "Parquet with a column that has no name", lambda: _parquet(index=True), "table.parquet", says=("Unnamed: 0",)
    ),
    Habit("an SDF", _sdf, "table.sdf"),
    Habit(
        "a SMI with a header",
        csv_bytes(_TABLE, "\t"),
        "table.smi",
    ),
    Habit("a workbook", _workbook(_TABLE), "table.xlsx"),
    Habit(
        "a workbook with numbers, dates and booleans",
        _workbook(_typed()),
        "table.xlsx",
        options={"target_columns": ("y",)},
    ),
    Habit(
        "a workbook of several sheets",
        _workbook(_TABLE, [("notes",)]),
        "table.xlsx",
        says=("2 sheets: the first, 'Assay 1', is read",),
    ),
    Habit(
        "the second sheet of a workbook",
        _workbook([("notes",)], _TABLE),
        "table.xlsx",
        options={"sheet": "Assay 2"},
    ),
    Habit(
        "a sheet that does not exist",
        _workbook(_TABLE),
        "table.xlsx",
        options={"sheet": "assay 1"},
        error="has no sheet 'assay 1'; it has 'Assay 1'; did you mean 'Assay 1'?",
    ),
    Habit(
        "a workbook with titles and empty rows",
        _workbook([("Assay 17",), (), (None, "smiles", "y"), *_NUMBERED[:9], (), *_NUMBERED[9:], ("", None)]),
        "table.xlsx",
        says=("the header is sheet row 3", "'Unnamed: 0'"),
    ),
    Habit(
        "a remark beside the table of a workbook",
        _workbook([*_TABLE, ("CCCCO", 1, None, "check!")]),
        "table.xlsx",
        error="sheet row 22: 4 fields where the header has 2",
    ),
    Habit("a workbook that is named .csv", _workbook(_TABLE), error="give it the suffix of its format, such as .xlsx"),
    Habit("a CSV that is named .xlsx", _PLAIN, "table.xlsx", error="cannot be read as a workbook"),
    Habit("an old workbook", b"\xd0\xcf\x11\xe0", "table.xls", error="save its first sheet as CSV"),
    Habit("a sheet of a CSV", _PLAIN, options={"sheet": "Assay 1"}, error="--sheet does not apply to"),
]
"""Tables as people export them, and as they come out of programs."""
