"""Training and predicting from every format of table."""

import csv
import json
import tomllib
from pathlib import Path

import pandas as pd
import polars as pl
import pytest
from rdkit import Chem

import molattn as package
from molattn.data import read_table
from molattn.models.graph_model import GraphModel
from molattn.training.config import DataConfig
from molattn.training.prepare import prepare
from tests.cli.conftest import QUICK, Molattn
from tests.molecules import esol

SMILES, VALUES = esol(30)
FEW = {"epochs": 1, "accelerator": "cpu", "settings": ["model.num_layers=1", "model.hidden_dim=16"], "quiet": True}


def test_semicolons_a_byte_order_mark_and_a_column_structure(molattn: Molattn, tmp_path: Path) -> None:
    lines = ["Nr;Structure;y", *(f"{i};{s};{y}" for i, (s, y) in enumerate(zip(SMILES, VALUES, strict=True)))]
    (tmp_path / "my.csv").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    answer = molattn("train", tmp_path / "my.csv", "--target-columns", "y", *QUICK, "-o", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["data"]["smiles_column"] == "Structure"
    out = tmp_path / "out.csv"
    assert molattn("predict", tmp_path / "run", tmp_path / "my.csv", "-o", out).code == 0
    assert [row[:3] for row in read_table(out).rows] == [line.split(";") for line in lines[1:]]


def _write(path: Path) -> Path:
    if path.suffix == ".parquet":
        pd.DataFrame({"smiles": SMILES, "y": VALUES}).to_parquet(path)
    elif path.suffix == ".sdf":
        with Chem.SDWriter(str(path)) as writer:
            for smiles, value in zip(SMILES, VALUES, strict=True):
                mol = Chem.MolFromSmiles(smiles)
                mol.SetProp("y", str(value))
                writer.write(mol)
    else:
        path.write_text("smiles\ty\n" + "".join(f"{s}\t{y}\n" for s, y in zip(SMILES, VALUES, strict=True)))
    return path


@pytest.mark.parametrize("name", ["t.parquet", "t.sdf", "t.smi", "t.tsv"])
def test_every_format_trains_and_predicts_every_row(molattn: Molattn, run: Path, tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / name)
    dataset = prepare(DataConfig(dataset=str(path), target_columns=("y",)), GraphModel, seed=0)
    assert dataset.targets[:, 0].tolist() == VALUES
    assert [Chem.CanonSmiles(m.smiles) for m in dataset.molecules] == [Chem.CanonSmiles(s) for s in SMILES]
    out = tmp_path / "out.csv"
    assert molattn("predict", run, path, "-o", out).code == 0
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["y"]) for row in rows] == VALUES
    assert all(row["status"] == "ok" for row in rows)


def test_a_record_that_cannot_be_read_keeps_its_row_and_reason(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    path = _write(tmp_path / "t.sdf")
    path.write_text("bad\n\n\n  x\nM  END\n$$$$\n" + path.read_text())
    answer = molattn("predict", run, path, "-o", tmp_path / "out.csv")
    assert answer.code == 0
    assert "1 of 31 rows have no prediction; the first, record 1: " in answer.err
    table = read_table(tmp_path / "out.csv")
    assert len(table.rows) == 31 and table.rows[0][-2] == "error"


def test_rows_of_a_source_without_lines_are_reported_as_rows(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    pd.DataFrame({"smiles": ["CC", "C1CC"], "y": [1.0, 2.0]}).to_parquet(tmp_path / "t.parquet")
    answer = molattn("predict", run, tmp_path / "t.parquet", "-o", tmp_path / "out.csv")
    assert "the first, row 1: " in answer.err
    assert molattn("predict", run, tmp_path / "t.parquet", "-o", tmp_path / "out.parquet").code == 0


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_train_and_their_run_can_be_repeated(
    molattn: Molattn, tmp_path: Path, frame: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = frame({"id": range(len(SMILES)), "smiles": SMILES, "y": VALUES})
    result = package.train(data, target_columns=["y"], output_dir=tmp_path / "run", **FEW)
    kept = Path(result.dataset.config.dataset)
    assert kept.is_relative_to(tmp_path / "cache") and kept.name == "frame.parquet"
    assert read_table(kept).rows == read_table(data).rows
    answer = molattn("train", "--config", tmp_path / "run" / "config.toml", "-o", tmp_path / "again", "-q")
    assert answer.code == 0, answer.err
    first, again = (json.loads((tmp_path / f / "metrics.json").read_text()) for f in ("run", "again"))
    assert first == again


def test_weight_and_group_columns_are_read(molattn: Molattn, tmp_path: Path) -> None:
    rows = [f"{s},{y},{i % 3},batch {i % 4}" for i, (s, y) in enumerate(zip(SMILES, VALUES, strict=True))]
    rows[5:5] = ["C1CC,1,1,batch 0", "CC,1,-2,batch 0"]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,y,w,g", *rows]) + "\n")
    data = DataConfig(dataset=str(tmp_path / "t.csv"), weight_column="w", group_column="g")
    dataset = prepare(data, GraphModel, seed=0)
    assert dataset.config.target_columns == ("y",)
    assert dataset.weights is not None and dataset.weights.tolist() == [float(i % 3) for i in range(30)]
    assert dataset.groups == [f"batch {i % 4}" for i in range(30)]
    assert [r.row for r in dataset.rejected] == [5, 6]
    options = ("--weight-column", "w", "--group-column", "g", *QUICK, "-q")
    assert molattn("train", tmp_path / "t.csv", *options, "-o", tmp_path / "run").code == 0


def test_a_table_from_a_german_spreadsheet(molattn: Molattn, tmp_path: Path) -> None:
    """Semicolons, a byte-order mark, CRLF, decimal commas, a column Structure: train, evaluate, predict and embed."""
    found = enumerate(zip(SMILES, VALUES, strict=True))
    points = [f"{n};{s};{y:.2f};{y / 3 + 1:.3f};Charge {n}" for n, (s, y) in found]
    head = "Nr;Structure;log S;Masse;Notiz"
    metrics, answers = {}, {}
    for name, lines in (("commas", [p.replace(".", ",") for p in points]), ("points", points)):
        table = tmp_path / f"{name}.csv"
        table.write_bytes(("\ufeff" + "\r\n".join([head, *lines]) + "\r\n").encode())
        run = tmp_path / name
        training_options = ("--target-columns", "log S", "--descriptor-columns", "Masse", *QUICK)
        trained = molattn("train", table, *training_options, "-o", run)
        assert trained.code == 0
        assert ("'log S' has decimal commas" in trained.err) == (name == "commas")
        metrics[name] = json.loads((run / "metrics.json").read_text())
        measured = molattn("evaluate", run, table, "--json")
        assert ("column 'Masse' has decimal commas" in measured.err) == (name == "commas")
        for command in ("predict", "embed"):
            assert molattn(command, run, table, "-o", tmp_path / f"{command}-{name}.csv", "-q").code == 0
        out = read_table(tmp_path / f"predict-{name}.csv")
        assert [row[:5] for row in out.rows] == [line.split(";") for line in lines]
        assert out.decimal_commas and all(("," in row[5]) == (name == "commas") for row in out.rows)
        points = [[cell.replace(",", ".") for cell in row[5:]] for row in out.rows]
        answers[name] = json.loads(measured.out)["targets"], points
        assert "error" not in {row[-2] for row in out.rows}
    assert metrics["commas"] == metrics["points"]
    assert answers["commas"] == answers["points"]
