"""`molattn train --ensemble-size --calibration-size`, `molattn predict --interval --applicability`."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import molattn as library
from molattn.cli.uncertainty_metrics import EXPLANATIONS, print_uncertainty
from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.inference import output_parts
from tests.cli.conftest import QUICK, Molattn
from tests.cli.test_long_tables import Killed, kill_after
from tests.molecules import esol

SMILES, VALUES = esol(120)
GRADES = ["fair", "good", "poor"]


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("intervals") / "t.csv"
    rank = np.argsort(np.argsort(VALUES))
    rows = [f"{s},{y},{GRADES[r // 40]}" for s, y, r in zip(SMILES, VALUES, rank, strict=True)]
    path.write_text("\n".join(["smiles,y,grade", *rows]) + "\n")
    return path


def _trained(table: Path, folder: Path, *arguments: str) -> Path:
    import sys

    from molattn.cli.main import main

    with pytest.MonkeyPatch.context() as patch:
        command = ["train", str(table), *QUICK, "-q", "-o", str(folder), "--calibration-size", "0.2", *arguments]
        patch.setattr(sys, "argv", ["molattn", *command])
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 0
    return folder


@pytest.fixture(scope="module")
def numbers(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numbers") / "run"
    return _trained(labelled, folder, "--target-columns", "y", "--ensemble-size", "2")


@pytest.fixture(scope="module")
def classes(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _trained(labelled, tmp_path_factory.mktemp("classes") / "run", "--target-columns", "grade")


def test_intervals_are_columns_of_the_predicted_table(
    molattn: Molattn, numbers: Path, labelled: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "in.csv"
    bad.write_text(labelled.read_text() + "C1CC,,\n")
    out = tmp_path / "out.csv"
    answer = molattn("predict", numbers, bad, "-o", out, "--interval", "0.8", "--applicability")
    assert answer.code == 0
    *rows, last = _rows(out)
    added = ["y_pred", "y_std", "y_lower", "y_upper", "embedding_distance", "tanimoto_nearest", "out_of_domain"]
    assert list(last)[3:] == [*added, "status", "error"]
    assert last["status"] == "error" and not any(last[name] for name in added)
    predictor = library.load(numbers)
    lower, upper = predictor.predict_interval(SMILES, 0.8)
    mean, std = predictor.predict(SMILES, return_std=True)
    for name, values in (("y_lower", lower), ("y_upper", upper), ("y_pred", mean), ("y_std", std)):
        assert [float(r[name]) for r in rows] == pytest.approx(values.tolist(), rel=1e-5, abs=1e-6)
    # The training molecules, which the model stores, have a similarity of 1 to themselves.
    sides = [r["split"] for r in _rows(numbers / "splits.csv")]
    for row, side in zip(rows, sides, strict=True):
        assert side != "train" or float(row["tanimoto_nearest"]) == 1.0
    assert {r["out_of_domain"] for r in rows} <= {"no", "embedding", "fingerprint", "both"}
    wider = predictor.predict_interval(SMILES, 0.9)
    assert (wider[0] <= lower).all() and (wider[1] >= upper).all()
    one = predictor.predict_interval("CCO", 0.8)
    assert one[0] < predictor.predict("CCO") < one[1]
    with pytest.warns(library.errors.MolattnWarning, match="1 of 1 SMILES have no prediction"):
        assert np.isnan(predictor.predict_interval("C1CC")).all()


def test_without_a_std_intervals_are_wider_far_from_the_training_molecules(
    molattn: Molattn, labelled: Path, tmp_path: Path
) -> None:
    run = _trained(labelled, tmp_path / "run", "--target-columns", "y")
    far = ["CC(C)(C)c1ccc(S(=O)(=O)NC2CCN(C(=O)OCc3ccccc3)CC2)cc1I", "F[Si](F)(F)F", "C" * 60]
    table = tmp_path / "in.csv"
    table.write_text(labelled.read_text() + "".join(f"{s},,\n" for s in far))
    out = tmp_path / "out.csv"
    assert molattn("predict", run, table, "-o", out, "--interval", "0.8", "--applicability").code == 0
    rows = _rows(out)
    width, distance = (np.array([float(r[name]) for r in rows]) for name in ("y_upper", "embedding_distance"))
    width -= [float(r["y_lower"]) for r in rows]
    sides = np.array([r["split"] for r in _rows(run / "splits.csv")])
    width_per_distance = width / (distance + np.median(distance[: len(sides)][sides == "val"]))
    assert width_per_distance == pytest.approx(np.full(len(rows), width_per_distance[0]), rel=1e-4)
    assert width.max() > 1.5 * width.min()
    assert width[-len(far) :].mean() > width[: -len(far)].mean()
    # The same intervals are counted in metrics.json, by `evaluate`, and without the columns of distances.
    lower, upper = library.load(run).predict_interval(SMILES, 0.9)
    test = sides == "test"
    y = np.array(VALUES, dtype=float)
    coverage = ((lower <= y) & (y <= upper))[test].mean()
    metrics = json.loads((run / "metrics.json").read_text())["uncertainty"]["test"]["y"]
    assert metrics["coverage"] == pytest.approx(coverage)
    assert metrics["width"] == pytest.approx((upper - lower)[test].mean(), rel=1e-5)
    content = json.loads(molattn("evaluate", run, labelled, "--json").out)["uncertainty"]["test"]["y"]
    assert content["width"] == pytest.approx((upper - lower).mean(), rel=1e-5)
    # Without training molecules in the model, all have the same width.
    plain = _trained(labelled, tmp_path / "plain", "--target-columns", "y", "--set", "training.domain_size=0")
    assert np.ptp(np.subtract(*library.load(plain).predict_interval(SMILES, 0.8))) < 1e-4


def test_single_molecules_are_printed_with_their_intervals(molattn: Molattn, numbers: Path) -> None:
    answer = molattn("predict", numbers, "-s", "CCO", "--interval", "0.9", "--json")
    (row,) = json.loads(answer.out)
    assert row["y_lower"] < row["y"] < row["y_upper"]
    heads = molattn("predict", numbers, "-s", "CCO", "--interval", "0.9", "--calibration-method", "zscaling").out
    assert heads.split()[:5] == ["smiles", "y", "y_std", "y_lower", "y_upper"]
    plain = json.loads(molattn("predict", numbers, "-s", "CCO", "--uncertainty-method", "none", "--json").out)
    assert "y_std" not in plain[0] and plain[0]["y"] == row["y"]


@pytest.mark.finished_runs
def test_sets_of_classes(molattn: Molattn, classes: Path, labelled: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    assert molattn("predict", classes, labelled, "-o", out, "--interval", "0.8", "-q").code == 0
    found = pq.read_table(out).column("grade_set").to_pylist()
    assert all(set(classes_) <= set(GRADES) for classes_ in found)
    predictor = library.load(classes)
    assert list(map(tuple, found)) == predictor.predict_set(SMILES, 0.8)
    assert isinstance(predictor.predict_set("CCO"), tuple)
    answer = molattn("predict", classes, "-s", "CCO", "--interval", "0.8", "--calibration-method", "conformal-adaptive")
    assert "grade_set" in answer.out
    # As scikit-learn has them: see `MolAttentionClassifier.predict_set`.
    metrics = json.loads((classes / "metrics.json").read_text())["uncertainty"]
    assert metrics["calibration"] == "conformal-multiclass"
    assert set(metrics["test"]["grade"]) == {"nll", "ece", "coverage", "size"}
    assert (classes / "plots" / "uncertainty.png").exists()


def test_a_long_output_resumes_only_with_the_same_options(
    molattn: Molattn, numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_parts, "CHUNKS_PER_PART", 1)
    many = tmp_path / "in.csv"
    many.write_text("\n".join(["smiles", *("C" * (1 + i % 5) + "NOF"[i % 3] for i in range(CHUNK_SIZE + 10))]) + "\n")
    options = ("--interval", "0.9", "--uncertainty-method", "ensemble", "-q")
    whole, out = tmp_path / "whole.csv", tmp_path / "out.csv"
    assert molattn("predict", numbers, many, "-o", whole, *options).code == 0
    with monkeypatch.context() as patch:
        kill_after(patch, 1)
        with pytest.raises(Killed):
            molattn("predict", numbers, many, "-o", out, *options)
    answer = molattn("predict", numbers, many, "-o", out, "--resume", "--interval", "0.8", "-q")
    assert answer.code != 0 and "options was" in answer.err
    assert molattn("predict", numbers, many, "-o", out, "--resume", *options).code == 0
    assert out.read_bytes() == whole.read_bytes()


def test_evaluation_measures_uncertainties(molattn: Molattn, numbers: Path, labelled: Path) -> None:
    content = json.loads(molattn("evaluate", numbers, labelled, "--json").out)
    assert content["uncertainty"]["method"] == "ensemble"
    assert 0 <= content["uncertainty"]["test"]["y"]["coverage"] <= 1
    text = molattn("evaluate", numbers, labelled).out
    assert "uncertainty by ensemble, calibration conformal-regression" in text and "mean width" in text


def test_options_that_a_model_does_not_support_are_refused(
    molattn: Molattn, run: Path, numbers: Path, classes: Path
) -> None:
    """`run` is a model without ensemble and calibration."""
    for folder, options, reason in (
        (
            run,
            ["--interval", "0.9"],
            "no calibration, and no standard deviations for uncalibrated intervals: train with --calibration-size 0.1",
        ),
        (run, ["--interval", "0.9", "--calibration-method", "none"], "has no standard deviations"),
        (run, ["--calibration-method", "zscaling"], "trained without calibration molecules, which zscaling needs"),
        (run, ["--calibration-method", "zscalin"], "unknown calibration method 'zscalin': choose one of "),
        (numbers, ["--interval", "90"], "level of intervals and sets is above 0 and below 1, such as 0.9, not 90"),
        (
            numbers,
            ["--interval", "0.99"],
            "calibration labels are too few for intervals or sets of 0.99, which need 99",
        ),
        (
            numbers,
            ["--interval", "0.9", "--uncertainty-method", "dropout"],
            "calibrated with the uncertainty method ens",
        ),
        (classes, ["--interval", "0.9", "--calibration-method", "zscaling"], "does not apply to multiclass targets"),
        (classes, ["--uncertainty-method", "mve"], "needs a model trained with --loss-function mve"),
    ):
        answer = molattn("predict", folder, "-s", "CCO", *options)
        assert answer.code == 2 and reason in answer.err, answer.err
    from molattn.errors import UsageError

    with pytest.raises(UsageError, match="has no standard deviations: train with ensemble_size=5"):
        library.load(run).predict("CCO", return_std=True)
    value, std = library.load(run).predict("CCO", return_std=True, uncertainty_method="dropout")
    assert std > 0 and value == library.load(run).predict("CCO")
    with pytest.raises(UsageError, match="use predict_set"):
        library.load(classes).predict_interval("CCO")
    with pytest.raises(UsageError, match="use predict_interval"):
        library.load(numbers).predict_set("CCO")


@pytest.mark.parametrize("loss", ["mve", "evidential", "quantile"])
def test_losses_with_their_own_standard_deviation(molattn: Molattn, labelled: Path, tmp_path: Path, loss: str) -> None:
    run = _trained(labelled, tmp_path / "run", "--target-columns", "y", "--loss-function", loss)
    (row,) = json.loads(molattn("predict", run, "-s", "CCO", "--interval", "0.8", "--json").out)
    assert row["y_std"] > 0 and row["y_lower"] < row["y_upper"]
    assert ("y_q5" in row) == (loss == "quantile")
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["uncertainty"]["test"]["y"]["nll"] is not None


def test_evidence_for_classes(molattn: Molattn, labelled: Path, tmp_path: Path) -> None:
    run = _trained(labelled, tmp_path / "run", "--target-columns", "grade", "--loss-function", "dirichlet")
    (row,) = json.loads(molattn("predict", run, "-s", "CCO", "--interval", "0.8", "--json").out)
    assert 0 < row["grade_std"] < 0.5 and set(row["grade_set"]) <= set(GRADES)
    answer = molattn("explain", run, "-s", "CCO", "-o", tmp_path / "x.svg")
    assert answer.code == 2 and "predicts evidence, and attributions explain" in answer.err


def test_each_metric_of_uncertainties_is_explained_in_a_line_where_it_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = {"coverage": 0.93, "width": 1.2, "nll": 0.5, "ence": 0.1, "miscalibration_area": 0.03}
    measured = {"method": "ensemble", "calibration": "none", "level": 0.9, "test": {"y": values, "z": values}}
    print_uncertainty(measured, "test molecules", {"y": "kg", "z": ""})
    lines = capsys.readouterr().out.splitlines()
    assert "  y: 93.0% within 90%, mean width 1.2 kg, NLL 0.5, ENCE 0.10, miscalibration area 0.030" in lines
    for name in ("within 90%", "mean width", "NLL", "ENCE", "miscalibration area"):
        (line,) = (line for line in lines if line.startswith(f"  {name}: "))
        assert len(line) <= 100
    assert not any(line.startswith(("  ECE", "  mean size")) for line in lines)
    print_uncertainty({**measured, "test": {"y": dict.fromkeys(EXPLANATIONS, 0.5)}}, "test molecules", {})
    assert sum(": " in line for line in capsys.readouterr().out.splitlines()) == 1 + len(EXPLANATIONS)
