"""SDF that is written: RDKit reads every record back, with all its properties."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

from molattn.chem.sdf import molblock_from_smiles, read_molblock
from molattn.data import read_table
from molattn.data.tables.csv_text import csv_stream
from molattn.data.tables.readers import count_rows, open_stream
from molattn.data.tables.row_stream import RowStream
from molattn.data.tables.sdf_writer import SdfFormat
from molattn.data.tables.writers import NewColumn
from molattn.errors import SmilesError

ADDED = [NewColumn("y_pred", "float64"), NewColumn("error")]


def written(stream: RowStream, smiles: str = "smiles") -> bytes:
    file = io.BytesIO()
    writer = SdfFormat(stream, ADDED, smiles).writer(file)
    for chunk in stream.chunks:
        writer.write(chunk, [[0.25] * len(chunk), [""] * len(chunk)])
    writer.close()
    return file.getvalue()


def records(data: bytes) -> list[Chem.Mol]:
    supplier = Chem.SDMolSupplier()
    supplier.SetData(data)
    return [*supplier]


@pytest.mark.parametrize(
    "smiles", ["CCO", "C[C@H](N)C(=O)O", "F/C=C/F", "[Na+].[Cl-]", "[13CH4]", "c1ccc2[nH]ccc2c1", "[2H]O"]
)
def test_a_structure_is_that_of_the_smiles(smiles: str) -> None:
    block = molblock_from_smiles(smiles, "title")
    assert block.startswith("title\n")
    assert read_molblock(block)[0] == Chem.CanonSmiles(smiles)
    mol = Chem.MolFromMolBlock(block)
    assert [a.GetSymbol() for a in mol.GetAtoms()] == [a.GetSymbol() for a in Chem.MolFromSmiles(smiles).GetAtoms()]
    with pytest.raises(SmilesError):
        molblock_from_smiles("C1CC")


def test_every_row_of_a_csv_is_a_record() -> None:
    text = "id,smiles,Log S (<0>),note\n7,CCO,1.5,a\n8,C1CC,2,\n9,,3,b\n"
    found = records(written(csv_stream(io.StringIO(text), "t.csv")))
    assert [mol.GetNumAtoms() for mol in found] == [3, 0, 0]
    assert [mol.GetProp("_Name") for mol in found] == ["7", "8", "9"]
    assert [mol.GetProp("smiles") for mol in found] == ["CCO", "C1CC", ""]
    assert [mol.GetProp("Log S ((0))") for mol in found] == ["1.5", "2", "3"]
    assert [mol.GetProp("y_pred") for mol in found] == ["0.25"] * 3
    assert all([*mol.GetPropNames()] == ["id", "smiles", "Log S ((0))", "note", "y_pred", "error"] for mol in found)


LINE = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=6) | st.sampled_from(
    ["$$$$", ">  <x>", "", " "]
)


@given(st.lists(st.lists(LINE, min_size=1, max_size=3).map("\n".join), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_no_text_ends_a_property_or_a_record(texts: list[str]) -> None:
    rows = [["C", text] for text in texts]
    stream = RowStream("t", ("smiles", "note"), iter([_chunk(rows)]))
    data = written(stream)
    found = records(data)
    assert len(found) == len(texts)
    for mol, text in zip(found, texts, strict=True):
        value = mol.GetProp("note")
        assert value.strip() == text.strip() or json.loads(value) == text
        assert mol.GetProp("y_pred") == "0.25"


def _chunk(rows: list[list[str]]):
    from molattn.data.tables.row_stream import Chunk

    return Chunk(0, range(len(rows)), rows)


def test_the_structures_of_an_sdf_are_kept(tmp_path: Path) -> None:
    mol = Chem.AddHs(Chem.MolFromSmiles("CCO"))
    from rdkit.Chem import rdDistGeom

    rdDistGeom.EmbedMolecule(mol, randomSeed=0)
    block = Chem.MolToMolBlock(mol)
    title = "ethanol" + block
    broken = "bad" + block.replace("V2000", "V9999")
    path = tmp_path / "t.sdf"
    path.write_bytes(
        f"{title}>  <y>\n1.5\n\n$$$$\n{broken}>  <y>\n2\n\n>  <z>\nonly here\n\n$$$$\n".replace("\n", "\r\n").encode()
    )
    with open_stream(path, molblocks=True) as stream:
        assert stream.columns == ("smiles", "name", "y", "z")
        data = written(stream)
    assert data.decode().startswith(f"{title}>  <smiles>\nCCO\n\n>  <y>\n1.5\n\n>  <y_pred>\n0.25\n\n")
    first, second = records(data)
    assert first.GetConformer().Is3D() and first.GetProp("_Name") == "ethanol"
    assert (second.GetNumAtoms(), second.GetProp("_Name")) == (0, "bad")
    assert (second.GetProp("y"), second.GetProp("z"), second.GetProp("y_pred")) == ("2", "only here", "0.25")
    assert "z" not in [*first.GetPropNames()]
    (tmp_path / "out.sdf").write_bytes(data)
    again = read_table(tmp_path / "out.sdf")
    assert again.columns == ("structure_smiles", "name", "smiles", "y", "y_pred", "error", "z")
    assert [row[1] for row in again.rows] == ["ethanol", "bad"]
    with open_stream(path) as stream:
        assert not next(stream.chunks).molblocks


def test_a_larger_limit_on_atoms_holds_for_an_sdf(tmp_path: Path) -> None:
    chain = "C" * 1001
    path = tmp_path / "t.sdf"
    path.write_text(f"{Chem.MolToMolBlock(Chem.MolFromSmiles(chain))}>  <y>\n1\n\n$$$$\n")
    for limit in (0, 10):
        assert "1,001 atoms, over the limit of 1,000" in read_table(path, max_atoms=limit).structure_errors[0]
    assert read_table(path, max_atoms=1200).rows == [[chain, "1"]]
    row = csv_stream(io.StringIO("smiles\n"), "t.csv")
    assert Chem.MolFromMolBlock(SdfFormat(row, ADDED, "smiles", 1200).molblock([chain])).GetNumAtoms() == 1001
    assert Chem.MolFromMolBlock(SdfFormat(row, ADDED, "smiles").molblock([chain])).GetNumAtoms() == 0


def test_the_properties_of_an_sdf_are_scanned_without_its_structures(tmp_path: Path) -> None:
    path = tmp_path / "t.sdf"
    block = Chem.MolToMolBlock(Chem.MolFromSmiles("CCO")).replace("V2000", "V9999")
    path.write_text(f"{block}>  <y>\n1,5\n\n$$$$\n{block}>  <y>\n2\n\n$$$$\n")
    found: list[list[str]] = []
    assert count_rows(path, scan=lambda chunk: found.extend(chunk.rows())) == 2
    assert found == [["", "1,5"], ["", "2"]]


def test_parts_are_joined(tmp_path: Path) -> None:
    text = "smiles,name\nCCO,a\nC,b\n"
    data = written(csv_stream(io.StringIO(text), "t.csv"))
    (tmp_path / "0").write_bytes(data)
    (tmp_path / "1").write_bytes(data)
    file = io.BytesIO()
    SdfFormat(csv_stream(io.StringIO(text), "t.csv"), ADDED, "smiles").join([tmp_path / "0", tmp_path / "1"], file)
    assert [mol.GetProp("name") for mol in records(file.getvalue())] == ["a", "b", "a", "b"]
