"""Tables read a chunk at a time: the same rows as at once, in every format."""

import gzip
import io
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rdkit import Chem

from molattn.data import lines, read_table, streams, write_table
from molattn.data.streams import CHUNK, count_rows, format_of, open_stream
from molattn.errors import InputError, SmilesError, UsageError


def read(path: Path | str, format: str | None = None) -> tuple[tuple[str, ...], list[list[str]], list[int]]:
    rows: list[list[str]] = []
    places: list[int] = []
    with open_stream(path, format) as stream:
        for chunk in stream.chunks:
            assert chunk.start == len(rows)
            assert len(chunk) == CHUNK or chunk.start // CHUNK == (count_rows(path, format) - 1) // CHUNK
            rows += chunk.rows()
            places += chunk.places
    return stream.columns, rows, places


def pipe(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def mol_block(smiles: str, name: str, /, **properties: str) -> str:
    mol = Chem.MolFromSmiles(smiles)
    mol.SetProp("_Name", name)
    tags = "".join(f">  <{key}>\n{value}\n\n" for key, value in properties.items())
    return f"{Chem.MolToMolBlock(mol)}{tags}$$$$\n"


@pytest.mark.parametrize("count", [0, 1, CHUNK, CHUNK + 1, 3000])
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


@pytest.mark.parametrize("block", [1, 2, 3, 7])
def test_where_blocks_end_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes('\ufeffsmiles,é\r\nC,"1\r2"\r\n\rCC,\u20ac\n\n"C\n\nC",x'.encode())
    whole = read(path)
    monkeypatch.setattr(lines, "_BLOCK", block)
    assert read(path) == whole == (("smiles", "é"), [["C", "1\r2"], ["CC", "\u20ac"], ["C\n\nC", "x"]], [2, 5, 7])


def test_a_malformed_row_stops_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("smiles,y\n" + "C,1\n" * 5000 + "CC\n" + "C,1\n" * 5)
    with pytest.raises(InputError, match="line 5002: 1 fields where the header has 2: nothing for column 'y'"):
        count_rows(path)


def test_an_open_quote_does_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text('smiles,y\nC,1\n"CC,1\n' + "C,1\n" * 100_000)
    monkeypatch.setattr(streams, "LARGEST_CELL", 0)  # that of csv, 131,072, stands
    with pytest.raises(InputError, match="line 3: the quotes do not match"):
        count_rows(path)
    monkeypatch.setattr(lines, "LONGEST_LINE", 1000)
    path.write_text("smiles\nC\n" + "C" * 5000)
    with pytest.raises(InputError, match="line 3: a line of over 1,000 bytes"):
        count_rows(path)


def test_a_damaged_gzip_is_said(tmp_path: Path) -> None:
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
        assert stream.columns == ("smiles_of_structure", "name", "logS", "smiles")
        assert stream.smiles_column == "smiles_of_structure" and stream.place == "record"
        assert chunk.rows() == [["CCO", "one", "1.1", ""], ["", "no", "", ""], ["C", "three", "2\n3", "mine"]]
        first, second, third = stream.molecules(chunk, 0)
        assert (first, third) == ("CCO", "C")
        assert isinstance(second, SmilesError)
        assert stream.molecules(chunk, 3) == ["", "", "mine"]
    assert list(chunk.places) == [1, 2, 3]


def test_an_sdf_with_a_wedge_keeps_its_stereocentre(tmp_path: Path) -> None:
    path = tmp_path / "t.sdf"
    path.write_text(mol_block("C[C@H](N)C(=O)O", "alanine"))
    (row,) = read(path)[1]
    assert row[0] == Chem.CanonSmiles("C[C@H](N)C(=O)O")


def test_parquet_keeps_its_types_and_cuts_at_the_same_rows(tmp_path: Path) -> None:
    n = 2 * CHUNK + 5
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
def test_standard_input_reads_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
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
    with open_stream("-", format_of(path)) as stream:
        rows = [row for chunk in stream.chunks for row in chunk.rows()]
        assert stream.source == "standard input"
    assert rows == read(path)[1]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no format 'xlsx'; known: csv, tsv, smi, sdf, parquet"):
        count_rows(tmp_path / "t.csv", "xlsx")
    with pytest.raises(InputError, match="there is no file"):
        count_rows(tmp_path / "t.parquet")
