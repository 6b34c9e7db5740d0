"""`--descriptor-columns`: columns of numbers as extra inputs, from a table to a prediction."""

import csv
import io
import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import molattn as package
from molattn.data import read_table
from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.errors import InputError, UsageError
from molattn.inference import output_parts, table_engine
from molattn.models.graph_model import GraphModel
from molattn.training.config import DataConfig
from molattn.training.prepare import prepare
from tests.cli.conftest import QUICK, Molattn
from tests.molecules import esol

SMILES, _ = esol(40)
MASS = [10.0 * len(s) for s in SMILES]
LOGP = [((7 * i) % 11) / 3 - 1 for i in range(40)]
# The target depends on the descriptors only.
VALUES = [0.01 * m - p for m, p in zip(MASS, LOGP, strict=True)]
COLUMNS = ("--descriptor-columns", "MW", "--descriptor-columns", "logP", "--target-columns", "y")
# No other descriptors are computed.
ALONE = "data.molecule_featurizers=[]"
SIZES = ("model.num_layers=1", "model.hidden_dim=16")
FAST = ("--epochs", "3", "--accelerator", "cpu", "-q", *(word for s in (ALONE, *SIZES) for word in ("--set", s)))


def write(path: Path, changes: dict[int, tuple[str, str]] | None = None) -> Path:
    """Semicolons, a byte-order mark, Windows' line ends, and a column Structure; `changes` are cells by row."""
    cells = [(str(m), str(p)) for m, p in zip(MASS, LOGP, strict=True)]
    for row, pair in (changes or {}).items():
        cells[row] = pair
    rows = [f"{s};{m};{p};{y}" for s, (m, p), y in zip(SMILES, cells, VALUES, strict=True)]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(["Structure;MW;logP;y", *rows, ""]).encode())
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("descriptors")
    table = write(folder / "my.csv", {3: ("130", ""), 5: ("heavy", "1")})
    settings = [ALONE, *SIZES, "training.learning_rate=0.01"]
    with pytest.warns(match="2 rows are left out, see rejected.csv; the first, line 5: no value in column 'logP'"):
        package.train(
            table,
            output_dir=folder / "run",
            descriptor_columns=["MW", "logP"],
            target_columns=["y"],
            epochs=40,
            accelerator="cpu",
            settings=settings,
            quiet=True,
        )
    return folder / "run"


def test_rows_without_a_number_are_left_out_and_named(run: Path) -> None:
    rows = read_table(run / "rejected.csv").rows
    assert [(row[1], row[3]) for row in rows] == [
        ("5", "no value in column 'logP'"),
        ("7", "column 'MW': 'heavy' is not a finite number"),
    ]
    assert tomllib.loads((run / "config.toml").read_text())["data"]["descriptor_columns"] == ["MW", "logP"]
    metrics = json.loads((run / "metrics.json").read_text())
    # The molecules alone do not determine the target: the descriptors were read.
    assert metrics["train"]["y"]["r2"] > 0.8


def test_the_scaler_is_that_of_the_training_molecules(run: Path) -> None:
    with open(run / "splits.csv", newline="") as file:
        train = [i for i, row in enumerate(csv.DictReader(file)) if row["split"] == "train"]
    numbers = np.array([MASS, LOGP]).T[train]
    saved = json.loads((run / "model" / "config.json").read_text())["descriptors"]
    assert [d["name"] for d in saved] == ["MW", "logP"]
    np.testing.assert_allclose([d["mean"] for d in saved], numbers.mean(0), rtol=1e-12)
    np.testing.assert_allclose([d["std"] for d in saved], numbers.std(0), rtol=1e-12)


def test_validation_and_test_rows_do_not_affect_the_scaler(tmp_path: Path) -> None:
    config = DataConfig(str(write(tmp_path / "a.csv")), target_columns=("y",), descriptor_columns=("MW", "logP"))
    first = prepare(config, GraphModel, seed=0)
    others = {int(row): ("9999", "-77") for side in ("val", "test") for row in first.rows[first.indices(side)]}
    write(tmp_path / "a.csv", others)
    second = prepare(config, GraphModel, seed=0)
    assert second.descriptor_scaler == first.descriptor_scaler
    assert first.descriptors is not None and second.descriptors is not None
    train = first.indices("train")
    np.testing.assert_array_equal(first.descriptors[train], second.descriptors[train])
    assert (first.descriptors[first.indices("test")] != second.descriptors[first.indices("test")]).all()


def test_constant_columns_and_outliers_are_reported(tmp_path: Path) -> None:
    config = DataConfig(str(tmp_path / "a.csv"), target_columns=("y",), descriptor_columns=("MW", "logP"))
    write(tmp_path / "a.csv", {i: ("4.2", str(LOGP[i])) for i in range(40)})
    constant = prepare(config, GraphModel, seed=0)
    assert constant.descriptors is not None and (constant.descriptors[:, 0] == 0).all()
    assert any("'MW' has one value in training: the model does not use it" in w for w in constant.warnings)
    row = int(constant.rows[constant.indices("test")[0]])
    write(tmp_path / "a.csv", {row: ("1e300", "1")})
    with pytest.raises(InputError, match=rf"a\.csv, line {row + 2}: column 'MW': 1e\+300 is too far"):
        prepare(config, GraphModel, seed=0)
    write(tmp_path / "a.csv", {i: (f"{1 + i % 4}e201", "1") for i in range(40)})
    large = prepare(config, GraphModel, seed=0).descriptors
    write(tmp_path / "a.csv", {i: (str(1 + i % 4), "1") for i in range(40)})
    small = prepare(config, GraphModel, seed=0).descriptors
    assert large is not None and small is not None
    np.testing.assert_allclose(large, small, rtol=1e-6)
    with pytest.raises(UsageError, match="has no column 'logp'; .* did you mean 'logP'"):
        prepare(DataConfig(config.dataset, target_columns=("y",), descriptor_columns=("logp",)), GraphModel, seed=0)
    with pytest.raises(UsageError, match="requested twice among the SMILES, target, weight, group and descriptor"):
        prepare(DataConfig(config.dataset, target_columns=("y",), descriptor_columns=("y",)), GraphModel, seed=0)
    # What is left is the target.
    assert prepare(
        DataConfig(str(write(tmp_path / "b.csv")), descriptor_columns=("MW", "logP")), GraphModel, seed=0
    ).config.target_columns == ("y",)


def test_predict_embed_and_evaluate_read_the_same_columns(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    table = write(tmp_path / "in.csv", {0: ("", "1"), 2: ("12", "N/D")})
    answer = molattn("predict", run, table, "-o", tmp_path / "out.csv")
    assert answer.code == 0, answer.err
    assert "2 of 40 rows have no prediction; the first, line 2: no value in column 'MW'" in answer.err
    out = pd.read_csv(tmp_path / "out.csv", sep=";")
    assert out["error"][2].startswith("column 'logP': 'N/D' is not a finite number")
    good = [i for i in range(40) if i not in (0, 2)]
    frame = pd.DataFrame({"logP": LOGP, "MW": MASS}).iloc[good]
    values = package.load(run).predict([SMILES[i] for i in good], descriptors=frame)
    np.testing.assert_allclose(out["y_pred"][good], values, rtol=1e-6)
    assert np.corrcoef(values, np.array(VALUES)[good])[0, 1] > 0.8
    assert molattn("embed", run, table, "-o", tmp_path / "e.npy", "-q").code == 0
    vectors = np.load(tmp_path / "e.npy")
    assert vectors.shape == (40, 18) and np.isnan(vectors[:, 0]).nonzero()[0].tolist() == [0, 2]
    evaluation = package.load(run).evaluate(table)
    assert [(r.location, r.reason.split(":")[0]) for r in evaluation.rejected] == [
        ("line 2", "no value in column 'MW'"),
        ("line 4", "column 'logP'"),
    ]
    np.testing.assert_allclose(evaluation.predictions.values[:, 0], values, rtol=1e-6)


@pytest.mark.parametrize("command", ["predict", "embed", "evaluate"])
def test_a_missing_column_stops_at_the_start(molattn: Molattn, run: Path, tmp_path: Path, command: str) -> None:
    (tmp_path / "in.csv").write_text("smiles,mw,y\nC1CC,1,1\nC,2,2\n")
    options = () if command == "evaluate" else ("-o", tmp_path / "out.csv")
    answer = molattn(command, run, tmp_path / "in.csv", *options)
    assert answer.code == 2
    assert "has no column 'MW'; it has 'smiles', 'mw', 'y'; did you mean 'mw'?" in answer.err
    assert not (tmp_path / "out.csv").exists()


def test_a_single_smiles_without_descriptors_is_refused(molattn: Molattn, run: Path) -> None:
    answer = molattn("predict", run, "--smiles", "CCO")
    assert answer.code == 2 and "the model reads 'MW', 'logP' for each molecule: give a table" in answer.err


@pytest.mark.parametrize("workers", [0, 1])
def test_rows_keep_their_numbers_over_chunks_and_workers(
    molattn: Molattn, run: Path, tmp_path: Path, workers: int
) -> None:
    n = CHUNK_SIZE + 300
    picked = [(SMILES[i % 40] if i % 97 else "C1CC", MASS[(3 * i) % 40], LOGP[(7 * i) % 40]) for i in range(n)]
    columns = zip(*picked, strict=True)
    frame = pd.DataFrame(dict(zip(("smiles", "MW", "logP"), columns, strict=True)))
    frame.to_parquet(tmp_path / "in.parquet")
    answer = molattn("predict", run, tmp_path / "in.parquet", "-o", tmp_path / "out.parquet", "-n", workers, "-q")
    assert answer.code == 0, answer.err
    out = pd.read_parquet(tmp_path / "out.parquet")
    few = [i for i in (0, 1, 500, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, n - 1) if i % 97]
    wanted = package.load(run).predict([picked[i][0] for i in few], descriptors=[picked[i][1:] for i in few])
    np.testing.assert_allclose(out["y_pred"][few], wanted, rtol=1e-6, atol=1e-6)
    assert (out["status"] == "error").sum() == -(-n // 97)


def test_a_descriptor_has_one_format_in_the_whole_table(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, tmp_path: Path
) -> None:
    """`1.234` in the first chunk is 1234, because of a decimal comma in the second."""
    rows = [(SMILES[i % 40], "1.234" if i % 2 else "150", "1") for i in range(CHUNK_SIZE)]
    rows += [("CCO", "150,5", "0,5"), ("CCN", "90", ">0,5")]
    (tmp_path / "in.csv").write_text("\n".join(["smiles;MW;logP", *map(";".join, rows)]) + "\n")
    plain = [(s, m.replace(".", "").replace(",", "."), p.replace(",", ".")) for s, m, p in rows]
    (tmp_path / "plain.csv").write_text("\n".join(["smiles,MW,logP", *map(",".join, plain)]) + "\n")
    assert molattn("predict", run, tmp_path / "plain.csv", "-o", tmp_path / "wanted.csv", "-q").code == 0
    wanted = pd.read_csv(tmp_path / "wanted.csv")
    for i, workers in enumerate(("0", "1")):
        answer = molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / f"{i}.csv", "-n", workers)
        assert answer.code == 0, answer.err
        assert answer.err.count("column 'MW' has thousands separators '.': '1.234' is read as 1234") == 1
        found = pd.read_csv(tmp_path / f"{i}.csv", sep=";", dtype=str)
        assert found["MW"].tolist() == [row[1] for row in rows]
        values = [float(text.replace(",", ".")) for text in found["y_pred"][:-1]]
        np.testing.assert_array_equal(values, wanted["y_pred"][:-1])
        assert found["error"].iloc[-1] == "column 'logP': '>0.5' is not a finite number"
    monkeypatch.setattr(output_parts, "CHUNKS_PER_PART", 1)
    with monkeypatch.context() as patch:

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(table_engine, "join_parts", interrupted)
        assert molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "parts.csv", "-q").code != 0
    manifest = json.loads((tmp_path / "parts.csv.parts" / "manifest.json").read_text())
    assert manifest["number_formats"] == {"MW": [",", "."], "logP": [",", ""]}
    assert molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "parts.csv", "--resume", "-q").code == 0
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "0.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((tmp_path / "in.csv").read_bytes())))
    answer = molattn("predict", run, "-", "-o", tmp_path / "pipe.csv", "-q")
    assert answer.code == 3 and not (tmp_path / "pipe.csv").exists()
    assert f"line {CHUNK_SIZE + 2}, column 'MW': '150,5' does not have the format of the numbers before" in answer.err


def test_an_ambiguous_descriptor_is_refused_until_its_format_is_given(
    molattn: Molattn, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "in.tsv").write_text("smiles\tMW\tlogP\nCCO\t1,700\t1\n")
    answer = molattn("predict", run, tmp_path / "in.tsv")
    assert answer.code == 3 and "column 'MW' is ambiguous: '1,700' is 1700 with --thousands ','" in answer.err
    answer = molattn("predict", run, tmp_path / "in.tsv", "--thousands", ",")
    assert answer.code == 0 and "'1,700' is read as 1700" in answer.err
    assert molattn("embed", run, tmp_path / "in.tsv", "--decimal", ",", "-o", tmp_path / "e.csv").code == 0
    predictor = package.load(run)
    frame = pd.DataFrame({"smiles": ["CCO", "CC"], "MW": ["1.234", "0,5"], "logP": [1, 2]})
    numbers = frame.assign(MW=[1234, 0.5])
    np.testing.assert_array_equal(predictor.predict(frame), predictor.predict(numbers))


def test_folds_scale_by_their_own_training_molecules(molattn: Molattn, tmp_path: Path) -> None:
    table = write(tmp_path / "my.csv")
    options = (*COLUMNS, *FAST, "--num-folds", "2", "--model", "smiles-transformer")
    assert molattn("train", table, *options, "-o", tmp_path / "run").code == 0
    means = []
    for fold in (0, 1):
        run = tmp_path / "run" / f"fold_{fold}"
        sides = [row[1] for row in read_table(run / "splits.csv").rows]
        (mass, _) = json.loads((run / "model" / "config.json").read_text())["descriptors"]
        means.append(mass["mean"])
        assert mass["mean"] == pytest.approx(np.mean([m for m, s in zip(MASS, sides, strict=True) if s == "train"]))
    assert means[0] != means[1]


def test_an_interrupted_run_resumes_bit_for_bit(molattn: Molattn, tmp_path: Path) -> None:
    table = write(tmp_path / "my.csv")
    assert molattn("train", table, *COLUMNS, *FAST, "-o", tmp_path / "whole").code == 0

    def epoch(_: object, record: object, __: int) -> None:
        if record.epoch == 2:  # pyright: ignore[reportAttributeAccessIssue]
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("molattn.cli.progress.TerminalReporter.epoch", epoch)
        assert molattn("train", table, *COLUMNS, *FAST, "-o", tmp_path / "cut").code != 0
    assert not (tmp_path / "cut" / "metrics.json").exists()
    assert molattn("train", "--resume", tmp_path / "cut", "-q").code == 0
    for name in ("metrics.json", "predictions.csv", "model/model.safetensors", "model/config.json"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_the_suggested_command_fits_the_model(molattn: Molattn, tmp_path: Path) -> None:
    answer = molattn("train", write(tmp_path / "my.csv"), *COLUMNS, *QUICK, "--epochs", "1", "-o", tmp_path / "run")
    assert answer.code == 0
    assert "predict" in answer.out and "--smiles" not in answer.out and "with MW, logP in it" in answer.out
