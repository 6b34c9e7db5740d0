"""Parquet, SMI, SDF and data frames: the same rows as a CSV of them."""

import gzip
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rdkit import Chem
from rdkit.Chem import AllChem

from molattn.chem import smiles_from_molblock
from molattn.data import read_records, read_table, write_table
from molattn.errors import InputError, UsageError

COLUMNS = {
    "smiles": ["CC", None, "C#N"],
    "y": [1.5, float("nan"), -2e-7],
    "n": [1, None, 3],
    "yes": [True, False, None],
}
ROWS = [["CC", "1.5", "1", "1"], ["", "", "", "0"], ["C#N", "-2e-7", "3", ""]]


def arrow() -> pa.Table:
    return pa.table({**COLUMNS, "n": pa.array(COLUMNS["n"], pa.int64())})


@pytest.mark.parametrize("suffix", [".parquet", ".pq", ".PARQUET", ".parquet.gz"])
def test_parquet_reads_as_text(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    pq.write_table(arrow(), tmp_path / "t")
    data = (tmp_path / "t").read_bytes()
    path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    table = read_table(path)
    assert table.columns == tuple(COLUMNS)
    assert table.rows == ROWS
    assert table.source == str(path)
    assert table.location(2) == "row 2"


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({**COLUMNS, "n": pd.array(COLUMNS["n"], "Int64")}, index=pd.Index([7, 7, 3], name="id")),
        pl.DataFrame(COLUMNS),
        arrow(),
    ],
    ids=["pandas", "polars", "pyarrow"],
)
def test_frames_read_alike_row_by_row(frame):
    table = read_table(frame)
    assert table.columns == tuple(COLUMNS)
    assert table.rows == ROWS
    records = read_records(table, None, ["y"])
    assert records.rows.tolist() == [0, 2]
    np.testing.assert_array_equal(records.targets[:, 0], [1.5, -2e-7])
    assert [(r.row, r.reason) for r in records.rejected] == [(1, "no value in column 'y'")]


def test_numbers_keep_the_digits_of_their_precision():
    values = [0.1, 1e-30, 123456.789, -0.0]
    for kind in (np.float32, np.float64):
        rows = read_table(pd.DataFrame({"smiles": ["C"] * 4, "y": np.array(values, kind)})).rows
        assert [kind(row[1]) for row in rows] == [kind(value) for value in values]
        assert rows[0][1] == "0.1"
    records = read_records(read_table(pd.DataFrame({"smiles": ["C", "C"], "y": [np.inf, 1]})), None, ["y"])
    assert records.rejected[0].reason == "column 'y': 'inf' is not a finite number"


def test_columns_of_other_types_do_not_fail_the_table():
    frame = pa.table({"smiles": ["C"], "list": [[1, 2]], "day": [date(2026, 1, 2)], "raw": [b"\xff"]})
    assert read_table(frame).rows == [["C", "[1, 2]", "2026-01-02", "b'\\xff'"]]


def test_a_column_of_mixed_types_is_text_as_in_a_file(tmp_path):
    """As `pandas.read_excel` reads a column of numbers and of bounds."""
    mixed = [1.5, ">10", None, 2, 3.0, np.float32(0.1), True, date(2026, 1, 2), float("nan"), pd.NA, 10**30, [1, 2]]
    texts = ["1.5", ">10", "", "2", "3", "0.1", "1", "2026-01-02", "", "", "1" + 30 * "0", "[1, 2]"]
    frame = pd.DataFrame({"smiles": ["C"] * len(mixed), "y": mixed, "n": range(len(mixed))})
    table = read_table(frame)
    assert [row[1] for row in table.rows] == texts
    assert [row[2] for row in table.rows] == [str(i) for i in range(len(mixed))], "other columns keep their types"
    assert frame["y"].dtype == object, "the frame itself is unchanged"
    write_table(tmp_path / "t.csv", table.columns, table.rows)
    of_frame, of_file = (read_records(t, None, ["y"]) for t in (table, read_table(tmp_path / "t.csv")))
    assert [r.reason for r in of_frame.rejected] == [r.reason for r in of_file.rejected]
    with pytest.raises(InputError, match="the frame cannot be converted to an Arrow table: .*[Dd]uplicate"):
        read_table(pd.DataFrame([["CCO", 1], ["C", "x"]], columns=["a", "a"]))


def test_invalid_frames_and_parquet_files_raise(tmp_path):
    with pytest.raises(UsageError, match="a path or a data frame .* not of type list"):
        read_table([["C", 1]])
    with pytest.raises(InputError, match="columns 1 and 2 are both named 'y'"):
        read_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["y", "y"]))
    (tmp_path / "t.parquet").write_bytes(b"smiles,y\n")
    with pytest.raises(InputError, match=r"t\.parquet cannot be read as Parquet"):
        read_table(tmp_path / "t.parquet")
    with pytest.raises(UsageError, match=r"tables are written as CSV or TSV: use the suffix \.csv or \.tsv"):
        write_table(tmp_path / "out.parquet", ["a"], [["1"]])


@pytest.mark.parametrize(
    ("text", "columns", "rows", "lines"),
    [
        ("CC ethane\n\nC#N\ta b\r\nC", None, [["CC", "ethane"], ["C#N", "a b"], ["C", ""]], [1, 3, 4]),
        ("SMILES Name\nCC ethane\n", None, [["CC", "ethane"]], [2]),
        ("\ufeffsmiles\nCC\n", None, [["CC", ""]], [2]),
        ("smiles\ty\tnote\nCC\t1\tsome words\n", ("smiles", "y", "note"), [["CC", "1", "some words"]], [2]),
    ],
)
def test_smi(tmp_path, text, columns, rows, lines):
    (tmp_path / "t.smi").write_bytes(text.encode())
    table = read_table(tmp_path / "t.smi")
    assert table.columns == (columns or ("smiles", "name"))
    assert table.rows == rows
    assert table.lines == lines
    (tmp_path / "t.smi.gz").write_bytes(gzip.compress(text.encode()))
    assert read_table(tmp_path / "t.smi.gz").rows == rows


def test_an_empty_smi(tmp_path):
    (tmp_path / "t.smi").write_text("\n")
    with pytest.raises(InputError, match="the file is empty"):
        read_table(tmp_path / "t.smi")


def block(smiles, title="", **options):
    mol = Chem.MolFromSmiles(smiles)
    mol.SetProp("_Name", title)
    return Chem.MolToMolBlock(mol, **options)


def test_sdf(tmp_path):
    carbon = block("C").replace("  0  0", "  0  0", 1)
    five = block("CC(C)(C)C", "five").replace("  1  2  1  0", "  1  2  2  0")
    text = "".join(
        [
            block("C[C@H](N)C(=O)O", "alanine") + "> <y>\n1.5\n\n>  <note>  (2)\ntwo\nlines\n\n$$$$\n",
            five + ">  <y>\n2\n\n$$$$\n",
            carbon.replace("M  END\n", "") + "$$$$\n",
            block("c1ccccc1O", "phenol", forceV3000=True) + "> <y>\n-3\n\n$$$$\n",
            block("[2H]C", "last, without an end"),
        ]
    )
    (tmp_path / "t.sdf").write_text(text)
    table = read_table(tmp_path / "t.sdf")
    assert table.columns == ("smiles", "name", "y", "note")
    assert [row[0] for row in table.rows] == ["C[C@H](N)C(=O)O", "", "", "Oc1ccccc1", "[2H]C"]
    assert [row[2] for row in table.rows] == ["1.5", "2", "", "-3", ""]
    assert table.rows[0][1:] == ["alanine", "1.5", "two\nlines"]
    assert table.lines == [1, 2, 3, 4, 5] and table.location(1) == "record 2"
    assert table.structure_errors[1].startswith("RDKit cannot make a molecule")
    assert table.structure_errors[2] == "the record has no structure: a line 'M  END' is missing"
    records = read_records(table, None, ["y"])
    assert records.rows.tolist() == [0, 3]
    assert [r.reason for r in records.rejected[:2]] == [table.structure_errors[1], table.structure_errors[2]]
    (tmp_path / "t.sdf.gz").write_bytes(gzip.compress(text.replace("\n", "\r\n").encode()))
    assert read_table(tmp_path / "t.sdf.gz").rows == table.rows


def test_sdf_with_a_property_called_smiles_and_an_empty_one(tmp_path):
    (tmp_path / "t.sdf").write_text(block("CO") + "> <SMILES>\nOC\n\n$$$$\n")
    table = read_table(tmp_path / "t.sdf")
    assert table.columns == ("structure_smiles", "SMILES")
    assert table.rows == [["CO", "OC"]]
    (tmp_path / "t.sdf").write_text("\n\n")
    with pytest.raises(InputError, match="the file has no records"):
        read_table(tmp_path / "t.sdf")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "counts line"),
        ("a\n\n\n  x  0\nM  END", "counts line"),
        ("a\n\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END", "it has no atoms"),
        ("a\n\n\n999  0  0  0  0  0  0  0  0  0999 V2000\nM  END", "RDKit"),
        ("a\n\n\n  0  0  0     0  0            999 V3000\nM  V30 COUNTS 1001 0 0 0 0\nM  END", "1,001 atoms, over"),
    ],
)
def test_an_invalid_structure_has_a_reason(text, reason):
    with pytest.raises(InputError, match=reason):
        smiles_from_molblock(text)


def test_stereochemistry_comes_from_the_structure():
    for smiles in ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "C/C=C/C", "C/C=C\\C"):
        mol = Chem.MolFromSmiles(smiles)
        AllChem.Compute2DCoords(mol)
        assert smiles_from_molblock(Chem.MolToMolBlock(mol)) == Chem.CanonSmiles(smiles)


def test_weights_and_groups(tmp_path):
    (tmp_path / "t.csv").write_text("smiles,y,w,g\nC,1,0.5,a\nCC,2,-1,a\nCCC,3,,a\nCO,4,x,b\nCN,5,0,\nCF,6,2,b\n")
    records = read_records(read_table(tmp_path / "t.csv"), None, ["y"], "w", "g")
    assert records.rows.tolist() == [0, 5]
    assert records.weights is not None and records.weights.tolist() == [0.5, 2.0]
    assert records.groups == ["a", "b"]
    assert [r.reason for r in records.rejected] == [
        "column 'w': '-1' is below 0",
        "no value in column 'w'",
        "column 'w': 'x' is not a finite number",
        "no value in column 'g'",
    ]
    plain = read_records(read_table(tmp_path / "t.csv"), None, ["y"])
    assert plain.weights is None and plain.groups is None
    with pytest.raises(UsageError, match="requested twice"):
        read_records(read_table(tmp_path / "t.csv"), None, ["y"], "y")


def test_a_frame_with_two_columns_of_one_name_raises():
    frame = pd.DataFrame([["CCO", "1"]], columns=["smiles", "smiles"])
    with pytest.raises(InputError, match="the frame cannot be converted to an Arrow table: .*[Dd]uplicate"):
        read_table(frame)
