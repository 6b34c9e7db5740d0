"""`molattn predict`: the output has the format of the input, and how it was read is reported once."""

import csv
import io
import sys
from pathlib import Path

import openpyxl
import pytest
from rdkit import Chem

from molattn.data import read_table
from molattn.data.tables.parts import Parts
from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.inference import output_parts
from tests.cli.conftest import QUICK, Molattn

LONG = CHUNK_SIZE + 10


class Killed(BaseException):
    """A stand-in for a signal."""


def in_every_way(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, table: Path, suffix: str, *options: str
) -> bytes:
    """The output in one piece, after a check that a resumed one has the same bytes, and shards the same lines."""
    whole, resumed = table.with_name(f"whole{suffix}"), table.with_name(f"resumed{suffix}")
    monkeypatch.setattr(output_parts, "CHUNKS_PER_PART", 10**6)
    assert molattn("predict", run, table, "-o", whole, *options).code == 0
    monkeypatch.setattr(output_parts, "CHUNKS_PER_PART", 1)
    finish = Parts.finish

    def kill(self: Parts, number: int, record: dict) -> None:
        finish(self, number, record)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Parts, "finish", kill)
        with pytest.raises(Killed):
            molattn("predict", run, table, "-o", resumed, *options)
    answer = molattn("predict", run, table, "-o", resumed, "--resume", *options)
    assert answer.code == 0, answer.err
    assert resumed.read_bytes() == whole.read_bytes()
    if suffix != ".xlsx":
        shards = []
        for i in (1, 2):
            path = table.with_name(f"{i}{suffix}")
            assert molattn("predict", run, table, "-o", path, "--shard", f"{i}/2", *options).code == 0
            lines = path.read_bytes().splitlines(keepends=True)
            shards += lines if i == 1 or suffix == ".sdf" else lines[1:]
        assert b"".join(shards) == whole.read_bytes()
    return whole.read_bytes()


def test_semicolons_decimal_commas_and_the_index_are_preserved(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, tmp_path: Path
) -> None:
    """In the encoding of Windows, with decimal commas, titles, and a column without a name."""
    table = tmp_path / "in.csv"
    rows = [f'{i};{"CN"[i % 2] * (i % 5 + 1)};{i},5;"a ; µ"' for i in range(LONG)]
    table.write_bytes("\r\n".join(["Assay 17;;;", ";Structure;Masse;Notiz", *rows]).encode("cp1252"))
    out = in_every_way(molattn, monkeypatch, run, table, ".csv").decode()
    head, *lines = out.splitlines()
    assert head == ";Structure;Masse;Notiz;y_pred;status;error"
    assert [line.rsplit(";", 3)[0] for line in lines] == rows
    predictions = [line.split(";")[-3] for line in lines]
    assert all("." not in text for text in predictions) and sum("," in text for text in predictions) > LONG // 2
    answer = molattn("predict", run, table, "-o", tmp_path / "out.tsv")
    for message in (
        f"warning: {table}: the header is line 2; the rows above it are skipped: 'Assay 17'",
        f"warning: {table}, line 2: column 1 has no name: it is read as 'Unnamed: 0'",
        f"warning: {table} is not UTF-8 text, as line 3 shows: it is read as Windows-1252; --encoding gives another",
    ):
        assert answer.err.count(message) == 1
    assert (tmp_path / "out.tsv").read_text().splitlines()[1].split("\t")[4] == predictions[0]
    assert molattn("predict", run, table, "-o", tmp_path / "out.parquet").code == 0
    names = read_table(tmp_path / "out.parquet").columns
    assert names == ("Unnamed: 0", "Structure", "Masse", "Notiz", "y_pred", "status", "error")


@pytest.mark.parametrize(
    ("text", "comma"),
    [
        ("smiles;x\nCCO;1,5\nCC;2\n", True),
        ("smiles;x\nCCO;1.5\nCC;2\n", False),
        ("smiles;x;z\nCCO;1,5;2.5\n", False),  # a comma may be a thousands separator
        ("smiles;x\nCCO;2,4-D\n", False),
        ("smiles;x\nCCO;3\n", False),
    ],
)
def test_predictions_have_the_decimal_mark_of_the_table(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, text: str, comma: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    answer = molattn("predict", run, "-")
    head, row, *_ = csv.reader(io.StringIO(answer.out), delimiter=";")
    assert head[-3:] == ["y_pred", "status", "error"]
    assert ("," in row[-3], "." in row[-3]) == (comma, not comma)


def test_a_given_encoding_is_that_of_the_table(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_bytes("smiles,沸点\nCCO,x\n".encode("shift_jis"))
    assert molattn("predict", run, table, "-o", out, "--encoding", "shift_jis").code == 0
    assert out.read_text(encoding="utf-8").startswith("smiles,沸点,y_pred")
    answer = molattn("predict", run, table, "--encoding", "klingon")
    assert answer.code == 2 and "there is no encoding 'klingon'" in answer.err
    table.write_bytes("smiles,µ\n".encode() + b"CCO,\xb5\n")
    answer = molattn("predict", run, table)
    assert answer.code == 3 and "line 2, byte 5 of it: 0xb5 is not UTF-8" in answer.err
    assert "--encoding cp1252" in answer.err
    answer = molattn("predict", run, "--smiles", "CCO", "--encoding", "cp1252")
    assert answer.code == 2 and "--encoding needs a table" in answer.err


def test_a_table_without_a_header(molattn: Molattn, run: Path, table: Path, tmp_path: Path) -> None:
    bare, out = tmp_path / "bare.csv", tmp_path / "out.csv"
    bare.write_text(table.read_text().partition("\n")[2])
    for command in (("train", bare), ("predict", run, bare)):
        answer = molattn(*command)
        assert answer.code == 2 and "if the table has no header, add --no-header-row" in answer.err
        assert not answer.out and answer.err.count("\n") == 1
    run = tmp_path / "run"
    trained = molattn("train", bare, "--no-header-row", *QUICK, "-o", run)
    assert trained.code == 0, trained.err
    assert "column_1 holds the SMILES" in trained.err
    assert molattn("predict", run, bare, "--no-header-row", "-o", out).code == 0
    found = read_table(out)
    assert found.columns == ("column_1", "column_2", "column_2_pred", "status", "error")
    assert [row[:2] for row in found.rows] == [line.split(",") for line in bare.read_text().splitlines()]
    measured = molattn("evaluate", run, bare, "--no-header-row", "--json")
    assert measured.code == 0 and "column_2" in measured.out
    page = molattn("view", run, bare, "--no-header-row", "--max-rows", "2", "-o", tmp_path / "page.html")
    assert page.code == 0, page.err
    assert molattn("heads", run, bare, "--no-header-row", "--max-rows", "2").code == 0


def test_a_workbook_in_and_out(molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, tmp_path: Path) -> None:
    table = tmp_path / "in.xlsx"
    book = openpyxl.Workbook()
    book.worksheets[0].append(["other"])
    sheet = book.create_sheet("data")
    sheet.append(["Nr", "smiles", "note"])
    for i in range(LONG):
        sheet.append([i, "C1CC" if i % 97 == 0 else "C" * (i % 5 + 1), "#N/A" if i % 2 else None])
    book.save(table)
    answer = molattn("predict", run, table)
    assert answer.code == 2 and "2 sheets: the first, 'Sheet', is read" in answer.err
    data = in_every_way(molattn, monkeypatch, run, table, ".xlsx", "--sheet", "data")
    head, *rows = openpyxl.load_workbook(io.BytesIO(data)).worksheets[0].iter_rows(values_only=True)
    assert head == ("Nr", "smiles", "note", "y_pred", "status", "error")
    assert [row[:3] for row in rows] == [*sheet.iter_rows(min_row=2, values_only=True)]
    assert all(isinstance(row[3], float) == (row[4] == "ok") for row in rows)
    assert [i for i, row in enumerate(rows) if row[4] == "error"] == list(range(0, LONG, 97))
    plain = molattn("predict", run, table, "--sheet", "data")
    assert [row[3] for row in csv.reader(io.StringIO(plain.out))][1:] == [
        "" if row[3] is None else f"{row[3]:.7g}" for row in rows
    ]
    assert "the first, sheet row 2: " in plain.err
    answer = molattn("predict", run, table, "--sheet", "Data")
    assert answer.code == 2 and "did you mean 'data'?" in answer.err


def test_more_rows_than_a_sheet_has_are_refused_before_the_first_is_predicted(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, table: Path, tmp_path: Path
) -> None:
    from molattn.data.tables.workbook_writer import WorkbookFormat

    monkeypatch.setattr(WorkbookFormat, "max_rows", 41)
    answer = molattn("predict", run, table, "-o", tmp_path / "out.xlsx")
    assert answer.code == 2 and "can have 41 rows below its header, and the table has 42" in answer.err
    assert not list(tmp_path.iterdir())


def test_a_csv_becomes_a_workbook_of_text_and_numbers(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("smiles,id,note\nCCO,007,=1+1\nC1CC,2,x\n")
    assert molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "out.xlsx").code == 0
    _, first, second = openpyxl.load_workbook(tmp_path / "out.xlsx").worksheets[0].iter_rows()
    assert [cell.value for cell in first[:3]] == ["CCO", "007", "=1+1"]
    assert [cell.data_type for cell in first[:4]] == ["s", "s", "s", "n"]
    assert second[3].value is None and "ring" in second[5].value
    again = molattn("predict", run, tmp_path / "out.xlsx", "-o", tmp_path / "again.csv")
    assert again.code == 0 and read_table(tmp_path / "again.csv").rows[0][:3] == ["CCO", "007", "=1+1"]


def test_an_sdf_in_and_out(molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, tmp_path: Path) -> None:
    table = tmp_path / "in.sdf"
    blocks = {smiles: Chem.MolToMolBlock(Chem.MolFromSmiles(smiles)) for smiles in ("CCO", "c1ccccc1", "CC(=O)O")}
    names = [*blocks, "bad"]
    text = [f"m{i}{blocks.get(names[i % 4], blocks['CCO'].replace('V2000', 'V9999'))}" for i in range(LONG)]
    table.write_text("".join(f"{block}>  <y>\n{i}\n\n$$$$\n" for i, block in enumerate(text)))
    data = in_every_way(molattn, monkeypatch, run, table, ".sdf")
    supplier = Chem.SDMolSupplier()
    supplier.SetData(data)
    found = [*supplier]
    assert [mol.GetProp("_Name") for mol in found] == [f"m{i}" for i in range(LONG)]
    assert [int(mol.GetProp("y")) for mol in found] == [*range(LONG)]
    for i, mol in enumerate(found):
        assert mol.GetProp("status") == ("error" if i % 4 == 3 else "ok")
        assert bool(mol.GetProp("error")) == (mol.GetNumAtoms() == 0) == (i % 4 == 3)
    assert all(block in data.decode() for i, block in enumerate(text[:50]) if i % 4 != 3)
    plain = molattn("predict", run, table)
    rows = list(csv.DictReader(io.StringIO(plain.out)))
    assert [row["y_pred"] for row in rows] == [mol.GetProp("y_pred") for mol in found]


def test_a_csv_becomes_an_sdf(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("id,smiles\n1,OCC\n2,C1CC\n3,\n")
    assert molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "out.sdf.gz").code == 0
    table = read_table(tmp_path / "out.sdf.gz")
    assert table.columns == ("structure_smiles", "name", "id", "smiles", "y_pred", "status", "error")
    assert [row[:4] for row in table.rows] == [["CCO", "1", "1", "OCC"], ["", "2", "2", "C1CC"], ["", "3", "3", ""]]
    assert [row[5] for row in table.rows] == ["ok", "error", "error"]


def test_several_tables_keep_their_formats(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    book.worksheets[0].append(["smiles"])
    book.worksheets[0].append(["CCO"])
    book.save(tmp_path / "a.xlsx")
    (tmp_path / "b.csv").write_text("smiles;x\nCC;1,5\n")
    assert molattn("predict", run, tmp_path / "a.xlsx", tmp_path / "b.csv", "-o", f"{tmp_path / 'out'}/").code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.xlsx", "b.csv"]
    assert (tmp_path / "out" / "b.csv").read_text().startswith("smiles;x;y_pred;")


def test_embeddings_of_a_workbook(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["smiles"], ["CCO"], ["C1CC"]):
        book.worksheets[0].append(row)
    book.save(tmp_path / "in.xlsx")
    assert molattn("embed", run, tmp_path / "in.xlsx", "-o", tmp_path / "out.xlsx").code == 0
    head, first, second = openpyxl.load_workbook(tmp_path / "out.xlsx").worksheets[0].iter_rows(values_only=True)
    vector = slice(1, len(head) - 2)
    assert head[vector] == tuple(f"f{i}" for i in range(len(head) - 3)) and head[-2:] == ("status", "error")
    assert all(isinstance(value, int | float) for value in first[vector]) and not any(second[vector])
    assert (first[-2], second[-2]) == ("ok", "error")
