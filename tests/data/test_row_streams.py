"""Tables read in chunks: the same rows as whole tables, in every format."""

import csv
import gzip
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rdkit import Chem

from molattn.data import read_columns, read_records, read_table, write_table
from molattn.data.tables import csv_text, lines, table
from molattn.data.tables.csv_text import csv_stream
from molattn.data.tables.lines import read_lines
from molattn.data.tables.readers import count_rows, infer_format, open_stream
from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.errors import InputError, SmilesError, UsageError


def read(path: Path | str, format: str | None = None) -> tuple[tuple[str, ...], list[list[str]], list[int]]:
    rows: list[list[str]] = []
    places: list[int] = []
    with open_stream(path, format) as stream:
        for chunk in stream.chunks:
            assert chunk.start == len(rows)
            assert len(chunk) == CHUNK_SIZE or chunk.start // CHUNK_SIZE == (count_rows(path, format) - 1) // CHUNK_SIZE
            rows += chunk.rows()
            places += chunk.lines
    return stream.columns, rows, places


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def mol_block(smiles: str, name: str, /, **properties: str) -> str:
    mol = Chem.MolFromSmiles(smiles)
    mol.SetProp("_Name", name)
    tags = "".join(f">  <{key}>\n{value}\n\n" for key, value in properties.items())
    return f"{Chem.MolToMolBlock(mol)}{tags}$$$$\n"


@pytest.mark.parametrize("count", [0, 1, CHUNK_SIZE, CHUNK_SIZE + 1, 3000])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz"])
def test_the_rows_are_those_of_the_whole_table(tmp_path: Path, count: int, name: str) -> None:
    rows = [["C" * (i % 5), f'say "{i}"\r\n'] for i in range(count)]
    plain = tmp_path / name.removesuffix(".gz")
    write_table(plain, ("smiles", "note"), rows)
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress(plain.read_bytes()))
    table = read_table(tmp_path / name)
    assert (table.columns, table.rows) == (("smiles", "note"), rows)
    assert read(tmp_path / name) == (table.columns, table.rows, table.lines)
    assert count_rows(tmp_path / name) == count


class SlowPipe(io.BytesIO):
    """Standard input of which one byte arrives at a time."""

    def read1(self, size: int | None = -1) -> bytes:
        return super().read(min(1, -1 if size is None else size))


@pytest.mark.parametrize("kind", ["plain", "gzip", "two gzips"])
def test_a_gzip_is_recognized_by_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    text = b"smiles,y\n" + b"CCO,1\n" * 40
    halves = gzip.compress(text[:50]) + gzip.compress(text[50:])
    data = {"plain": text, "gzip": gzip.compress(text), "two gzips": halves}[kind]
    (tmp_path / "t.csv").write_bytes(text)
    whole = read(tmp_path / "t.csv")
    (tmp_path / "packed.csv").write_bytes(data)
    assert read(tmp_path / "packed.csv") == whole
    assert count_rows(tmp_path / "packed.csv") == 40
    for buffer in (io.BytesIO(data), SlowPipe(data)):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=buffer))
        assert read_table("-").rows == whole[1]


def test_a_gzip_under_another_name_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MIN_TABLE_MEMORY", 10_000)
    (tmp_path / "t.csv").write_bytes(gzip.compress(b"smiles\n" + b"CCCCC\n" * 100_000))
    with pytest.raises(InputError, match="unpacks to over"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("block", [1, 2, 3, 7])
def test_block_boundaries_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeffsmiles,é\r\nC,"1\r2"\r\n\rCC,\u20ac\n\n"C\n\nC",x'.encode())
    whole = read(path)
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block)
    assert read(path) == whole == (("smiles", "é"), [["C", "1\r2"], ["CC", "\u20ac"], ["C\n\nC", "x"]], [2, 5, 7])


TEXT = st.lists(
    st.sampled_from(["a", "b1", " ", ",", ";", '"', '""', "\r", "\n", "\r\n", "\ufeff", "é", "\u2028", "\x0b"])
)


@given(TEXT, st.integers(1, 5), st.sampled_from([",", ";", "\t"]))
@example(["a", "\r", "\n", "b1", "\r"], 1, ",")
@settings(max_examples=300, deadline=None)
def test_rows_and_their_lines_are_those_of_the_csv_module(pieces: list[str], block: int, delimiter: str) -> None:
    text = f"x{delimiter}y{delimiter}z\n" + "".join(pieces)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    wanted: list[tuple[int, list[str]]] = []
    try:
        while True:
            line = reader.line_num + 1
            cells = next(reader)
            if cells:
                wanted.append((line, cells))
    except StopIteration:
        refused = any(len(cells) != 3 for _, cells in wanted)
    except csv.Error:
        refused = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_BLOCK_BYTES", block)
        found = read_lines(io.BytesIO(text.encode()), "t.csv")
        try:
            stream = csv_stream(found, "t.csv")
            rows = [row for chunk in stream.chunks for row in zip(chunk.lines, chunk.rows(), strict=True)]
        except InputError:
            assert refused
            return
    assert not refused
    assert [(1, list(stream.columns)), *rows] == wanted


def test_a_malformed_row_stops_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("smiles,y\n" + "C,1\n" * 5000 + "CC\n" + "C,1\n" * 5)
    with pytest.raises(InputError, match="line 5002: 1 fields where the header has 2: nothing for column 'y'"):
        count_rows(path)


def test_an_open_quote_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text('smiles,y\nC,1\n"CC,1\n' + "C,1\n" * 100_000)
    monkeypatch.setattr(csv_text, "MAX_CELL_CHARS", 0)  # the limit of csv, 131,072, is unchanged
    with pytest.raises(InputError, match="line 3: the quotes do not match"):
        count_rows(path)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 1000)
    path.write_text("smiles\nC\n" + "C" * 5000)
    with pytest.raises(InputError, match="line 3: a line of over 1,000 bytes"):
        count_rows(path)


def test_a_damaged_gzip_raises(tmp_path: Path) -> None:
    whole = gzip.compress(b"smiles\n" + b"CCO\n" * 1000)
    for name, data in (("cut", whole[:-20]), ("none", b"smiles\nC\n")):
        path = tmp_path / f"{name}.csv.gz"
        path.write_bytes(data)
        with pytest.raises(InputError, match="is damaged"):
            read_table(path)


def test_a_smi_is_a_smiles_and_a_name(tmp_path: Path) -> None:
    path = tmp_path / "t.smi"
    path.write_text("CCO\tethanol, pure\n\nC methane\nCC  \n c1ccccc1 a ring\n")
    rows = [["CCO", "ethanol, pure"], ["C", "methane"], ["CC", ""], ["c1ccccc1", "a ring"]]
    assert read(path) == (("smiles", "name"), rows, [1, 3, 4, 5])
    path.write_text("SMILES Name\nCCO x\n")
    assert read(path)[1:] == ([["CCO", "x"]], [2])


def test_an_sdf_is_a_row_for_each_record(tmp_path: Path) -> None:
    path = tmp_path / "t.sdf"
    broken = mol_block("CC", "no").replace("V2000", "V9999")
    text = mol_block("OCC", "one", logS="1.1") + broken + mol_block("C", "three", smiles="mine", logS="2\n3") + "\n"
    path.write_text(text)
    with open_stream(path) as stream:
        (chunk,) = stream.chunks
        assert stream.columns == ("structure_smiles", "name", "logS", "smiles")
        assert stream.smiles_column == "structure_smiles" and stream.line_kind == "record"
        assert chunk.rows() == [["CCO", "one", "1.1", ""], ["", "no", "", ""], ["C", "three", "2\n3", "mine"]]
        first, second, third = stream.molecule_column(chunk, 0)
        assert (first, third) == ("CCO", "C")
        assert isinstance(second, SmilesError)
        assert stream.molecule_column(chunk, 3) == ["", "", "mine"]
    assert list(chunk.lines) == [1, 2, 3]


def test_an_sdf_with_a_wedge_keeps_its_stereocentre(tmp_path: Path) -> None:
    path = tmp_path / "t.sdf"
    path.write_text(mol_block("C[C@H](N)C(=O)O", "alanine"))
    (row,) = read(path)[1]
    assert row[0] == Chem.CanonSmiles("C[C@H](N)C(=O)O")


def test_latin_1_text_in_an_sdf_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.sdf"
    text = mol_block("CCO", "alcool éthylique", note="20 °C") + mol_block("C", "plain")
    path.write_bytes(text.encode("latin-1"))
    wanted = [["CCO", "alcool éthylique", "20 °C"], ["C", "plain", ""]]
    assert read(path)[1] == read_table(path).rows == wanted
    path.write_bytes(text.encode())
    assert read(path)[1] == wanted
    path.write_bytes(text.encode("utf-16"))
    assert read(path)[1] == wanted and count_rows(path) == 2


def test_the_structure_is_the_molecule_whatever_the_properties_are_called(tmp_path: Path) -> None:
    path = tmp_path / "t.sdf"
    path.write_text(mol_block("OCC", "title", SMILES="mine", Name="other"))
    table = read_table(path)
    assert table.columns == ("structure_smiles", "structure_name", "SMILES", "Name")
    assert table.rows == [["CCO", "title", "mine", "other"]]
    assert read_columns(path) == (table.columns, "structure_smiles")
    assert read_records(table, None, []).smiles == ["CCO"]
    # A property in two spellings of one name is two columns of one name.
    path.write_text(mol_block("C", "", y="1") + mol_block("C", "", **{"y ": "2"}))
    assert read_table(path).rows == [["C", "1"], ["C", "2"]]


@pytest.mark.parametrize("name", ["t.smi", "t.sdf"])
def test_a_file_without_molecules_raises(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("\n\n")
    for reader in (read, read_table, read_columns):
        with pytest.raises(InputError, match=r"the file is empty|the file has no records"):
            reader(tmp_path / name)


@pytest.mark.parametrize("name", ["t.csv", "t.smi", "t.sdf", "t.parquet", "t.parquet.gz"])
def test_a_stream_a_table_and_a_frame_have_the_same_text(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    numbers = pa.array([0.1, float("nan"), None], pa.float32())
    many = pa.array([[1], None, [2, None]])
    frame = pa.table({"smiles": ["C", None, "CC"], "x": numbers, "yes": [True, False, None], "many": many})
    if "parquet" in name:
        pq.write_table(frame, tmp_path / "t.parquet")
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress((tmp_path / "t.parquet").read_bytes()))
        assert read_table(frame).rows == read_table(path).rows
        assert read_table(path).rows == [["C", "0.1", "1", "[1]"], ["", "", "0", ""], ["CC", "", "", "[2, null]"]]
    elif name == "t.sdf":
        path.write_text(mol_block("CCO", "x", y="2") + mol_block("C", "z"))
    else:
        path.write_text("smiles\ty\nC\t1\n\nCC\t2\n")
    table = read_table(path)
    assert read(path) == (table.columns, table.rows, table.lines)
    assert read_columns(path)[0] == table.columns
    with open_stream(path) as stream:
        assert (stream.line_kind, stream.smiles_column) == (table.line_kind, table.smiles_column)


def test_the_header_is_read_without_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("smiles,y\n" + "C,1\n" * 10 + "C\n")
    assert read_columns(path) == (("smiles", "y"), None)
    with pytest.raises(InputError, match="line 12"):
        read_table(path)


def test_parquet_keeps_its_types_and_cuts_at_the_same_rows(tmp_path: Path) -> None:
    n = 2 * CHUNK_SIZE + 5
    columns = {
        "smiles": ["C", None, *["CC"] * (n - 2)],
        "y": pa.array([0.1] * n, pa.float32()),
        "many": [[1, 2]] * n,
        "n": range(n),
    }
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=700)
    names, rows, places = read(path)
    assert names == ("smiles", "y", "many", "n")
    assert rows[:2] == [["C", "0.1", "[1, 2]", "0"], ["", "0.1", "[1, 2]", "1"]]
    assert [int(row[3]) for row in rows] == list(range(n)) and places == list(range(n))
    with open_stream(path) as stream:
        assert next(stream.chunks).column(0)[:3] == ["C", None, "CC"]
    (tmp_path / "cut.parquet").write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        count_rows(tmp_path / "cut.parquet")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.smi", "t.sdf", "t.parquet"])
def test_standard_input_has_the_same_rows_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = tmp_path / name
    if name == "t.sdf":
        path.write_text(mol_block("CCO", "x", y="2") + mol_block("C", "z"))
    elif name == "t.parquet":
        pq.write_table(pa.table({"smiles": ["C", "CC"]}), path)
    elif name == "t.smi":
        path.write_text("C x\nCC y\n")
    else:
        write_table(path, ("smiles", "y"), [["C", "1"], ["CC", "2"]])
    pipe(monkeypatch, path.read_bytes())
    with open_stream("-", infer_format(path)) as stream:
        rows = [row for chunk in stream.chunks for row in chunk.rows()]
        assert stream.source == "standard input"
    assert rows == read(path)[1]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown format 'ods': choose one of csv, tsv, smi, sdf, parquet, xlsx"):
        count_rows(tmp_path / "t.csv", "ods")
    with pytest.raises(InputError, match="my.ods is a spreadsheet of a format that is not read"):
        read_table(tmp_path / "my.ods")
    with pytest.raises(InputError, match="there is no file"):
        count_rows(tmp_path / "t.parquet")


@pytest.mark.parametrize("ending", [".xls", ".XLSB", ".ods", ".numbers", ".xls.gz"])
def test_a_spreadsheet_is_to_be_saved_as_text(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"t{ending}").write_bytes(b"PK")
    with pytest.raises(InputError, match="is a spreadsheet of a format that is not read"):
        read_table(tmp_path / f"t{ending}")


def test_records_of_an_sdf_are_counted_without_looking_into_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = mol_block("CCO", "a", y="1") + mol_block("C", "b") + "no structure\n$$$$\n"
    for name in ("t.sdf", "t.txt"):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("molattn.data.tables.readers.open_stream", lambda *_: pytest.fail("it is read as a table"))
    assert count_rows(tmp_path / "t.sdf") == 3
    assert count_rows(tmp_path / "t.txt", "sdf") == 3


def test_rows_are_counted_in_the_given_format(tmp_path: Path) -> None:
    (tmp_path / "t.sdf").write_text("CCO a\nC b\n")
    assert count_rows(tmp_path / "t.sdf", "smi") == 2
    assert count_rows(tmp_path / "t.sdf", "csv") == 1


def test_a_parquet_is_an_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").symlink_to("/dev/null")
    with pytest.raises(InputError, match="is not a regular file, which Parquet and workbooks must be: copy it to one"):
        read_table(tmp_path / "t.parquet")


def test_a_given_format_overrides_the_suffix(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\tc\n1\t2\n")
    assert read(tmp_path / "t.csv", "tsv")[:2] == (("a,b", "c"), [["1", "2"]])


class Slow(io.BytesIO):
    """It returns one line at a time, and at most `most` of them may be requested."""

    most = 1

    def read1(self, size: int | None = -1, /) -> bytes:  # noqa: ARG002
        self.most -= 1
        assert self.most >= 0, "more lines are read than were requested"
        return self.readline()


@pytest.mark.parametrize("format", ["csv", "smi"])
def test_standard_input_is_read_incrementally(monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Slow(b"smiles\tname\nC\tx\nCC\ty\n")))
    with open_stream("-", format) as stream:
        assert stream.columns
