"""Classes, several targets and standard deviations from the table to the prediction; and `molattn evaluate`."""

import csv
import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import molattn as library
from molattn.chem import random_smiles, read_smiles
from molattn.data import TableOptions
from molattn.inference.selection import SelectionOptions
from tests.cli.conftest import QUICK, Answer, Molattn
from tests.molecules import esol

SMILES, VALUES = esol(60)
RANKS = np.argsort(np.argsort(VALUES))


def _write(path: Path, **columns: list[str]) -> Path:
    lines = [",".join(["smiles", *columns]), *map(",".join, zip(SMILES, *columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    return _write(tmp_path / "t.csv", soluble=[str(int(r >= 20)) for r in RANKS])


@pytest.mark.finished_runs
def test_zeros_and_ones_are_predicted_as_probabilities(molattn: Molattn, binary: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    answer = molattn("train", binary, *QUICK, "-o", run)
    assert answer.code == 0
    assert "task: binary, soluble holds only 0 and 1; --task-type overrides it" in answer.err
    assert "validation loss" in answer.err and ", AUROC " in answer.err
    metrics = json.loads((run / "metrics.json").read_text())
    rows = _rows(run / "predictions.csv")
    for side in ("train", "val", "test"):
        mine = [r for r in rows if r["split"] == side]
        y, p = (np.array([float(r[c]) for r in mine]) for c in ("soluble", "soluble_pred"))
        assert ((p > 0) & (p < 1)).all()
        if len(set(y)) == 2:
            assert metrics[side]["soluble"]["auroc"] == pytest.approx(roc_auc_score(y, p))
    train = [float(r["soluble"]) for r in rows if r["split"] == "train"]
    assert metrics["baseline"]["what"] == "the share of the positive class among the training targets"
    assert metrics["baseline"]["train"]["soluble"]["auroc"] == 0.5
    assert metrics["baseline"]["train"]["soluble"]["accuracy"] == pytest.approx(np.mean(train))
    assert (run / "plots" / "classification.png").exists()
    assert "val_auroc" in (run / "history.csv").read_text().splitlines()[0]
    predicted = library.load(run).predict(SMILES)
    assert predicted == pytest.approx([float(r["soluble_pred"]) for r in rows], abs=1e-6)
    printed = molattn("predict", run, "--smiles", "CCO").out
    assert "soluble (probability)" in printed
    # The explained quantity is named, together with the predicted probability.
    probability = printed.split()[-1]
    explained = molattn("explain", run, "--smiles", "CCO").out.splitlines()
    assert re.match(rf"log-odds of soluble -?\d+\.\d+ \(probability {probability}\) = ", explained[1])
    assert explained[2].startswith(
        "fragment-shapley, the change of the prediction as the atom joins a fragment, in log-odds; "
    )
    assert molattn("explain", run, "--smiles", "CCO", "-o", tmp_path / "x.csv").code == 0
    parts = {r["part"]: float(r["value"]) for r in _rows(tmp_path / "x.csv")}
    assert 1 / (1 + math.exp(-parts["prediction"])) == pytest.approx(parts["probability"])
    # The saved settings reproduce the run.
    assert molattn("train", "--config", run / "config.toml", "-o", tmp_path / "again", "-q").code == 0
    assert (run / "metrics.json").read_bytes() == (tmp_path / "again" / "metrics.json").read_bytes()


@pytest.mark.finished_runs
def test_two_words_are_predicted_as_the_probability_of_the_positive_one(molattn: Molattn, tmp_path: Path) -> None:
    words = ["insoluble" if r < 20 else "Soluble" for r in RANKS]
    table = _write(tmp_path / "t.csv", y=["soluble", *words[1:-1], "n.d."])
    run = tmp_path / "run"
    answer = molattn("train", table, *QUICK, "-o", run)
    assert answer.code == 0
    assert "task: binary, y holds the words insoluble and Soluble; the positive class is Soluble; --pos" in answer.err
    assert "1 cell of column 'y' is read as missing: 'n.d.' (1)" in answer.err
    assert (run / "plots" / "classification.png").exists()
    rows = _rows(run / "predictions.csv")
    assert [float(r["y"]) for r in rows] == [1.0, *(float(w == "Soluble") for w in words[1:-1])]
    assert "y (probability of Soluble)" in molattn("predict", run, "--smiles", "CCO").out
    metrics = json.loads((run / "metrics.json").read_text())
    again = json.loads(molattn("evaluate", run, table, "--json").out)
    assert again["targets"]["y"]["n"] == 59
    # The majority class of training has a share above one half, and is predicted for every molecule.
    share = np.mean([float(r["y"]) for r in rows if r["split"] == "train"])
    labels = np.array([float(r["y"]) for r in rows])
    assert again["baseline"]["y"]["auroc"] == 0.5
    assert again["baseline"]["y"]["accuracy"] == pytest.approx(np.mean(labels == (share > 0.5)))
    # The other way round, and as 0 and 1: the same labels.
    numbers = _write(tmp_path / "numbers.csv", y=["1", *(str(int(w == "Soluble")) for w in words[1:-1]), ""])
    answer = molattn("evaluate", run, numbers, "--json")
    assert json.loads(answer.out)["targets"] == again["targets"]
    assert "column 'y' holds 0 and 1: 1 is read as Soluble and 0 as insoluble" in answer.err
    # A model of 0 and 1 reads the words, where it is known which is positive.
    other = tmp_path / "other"
    assert molattn("train", numbers, *QUICK, "-o", other, "-q").code == 0
    assert json.loads((other / "metrics.json").read_text())["test"] == metrics["test"], "the same labels, the same run"
    answer = molattn("evaluate", other, table, "--json")
    assert json.loads(answer.out)["targets"] == again["targets"]
    assert "column 'y': Soluble is read as 1 and insoluble as 0" in answer.err
    colours = _write(tmp_path / "colours.csv", y=["blue" if r < 20 else "red" for r in RANKS])
    assert "the model was trained on 0 and 1: write 1 for the positive class" in molattn("evaluate", other, colours).err
    # The other class as the positive one.
    answer = molattn("train", table, *QUICK, "-o", tmp_path / "inverse", "-q", "--positive-class", "INSOLUBLE")
    assert answer.code == 0
    assert [float(r["y"]) for r in _rows(tmp_path / "inverse" / "predictions.csv")] == [1 - float(r["y"]) for r in rows]


@pytest.mark.finished_runs
def test_strings_are_predicted_as_classes(molattn: Molattn, tmp_path: Path) -> None:
    names = ["poor", "fair", "good"]
    table = _write(tmp_path / "t.csv", grade=[names[r // 20] for r in RANKS])
    run = tmp_path / "run"
    answer = molattn("train", table, *QUICK, "-o", run, "--metric", "accuracy", "--metric", "f1", "--class-balance")
    assert answer.code == 0
    assert "task: multiclass, grade holds words: fair, good, poor" in answer.err
    answer = molattn("evaluate", run, table)
    assert answer.code == 0 and "always the training shares" in answer.out
    assert molattn("evaluate", run, table, "--quiet").out == ""
    shares = [row["grade"] for row in _rows(run / "predictions.csv") if row["split"] == "train"]
    most = max(names, key=shares.count)
    baseline = json.loads(molattn("evaluate", run, table, "--json").out)["baseline"]["grade"]
    assert baseline["accuracy"] == pytest.approx(np.mean([names[r // 20] == most for r in RANKS]))
    metrics = json.loads((run / "metrics.json").read_text())
    assert set(metrics["test"]["grade"]) >= {"accuracy", "f1", "n"}
    rows = _rows(run / "predictions.csv")
    mine = [r for r in rows if r["split"] == "train"]
    right = np.mean([r["grade"] == r["grade_pred"] for r in mine])
    assert metrics["train"]["grade"]["accuracy"] == pytest.approx(right)
    assert (run / "plots" / "confusion.png").exists()
    out = tmp_path / "out.csv"
    assert molattn("predict", run, table, "-o", out, "-q").code == 0
    for row in _rows(out):
        p = {c: float(row[f"grade_prob_{c}"]) for c in sorted(names)}
        assert sum(p.values()) == pytest.approx(1, abs=1e-5)
        assert row["grade_pred"] == max(p, key=lambda c: p[c])
    predictor = library.load(run)
    assert predictor.predict(SMILES).shape == (60, 3)
    assert predictor.predict("CCO").shape == (3,)
    assert sum(predictor.attention("CCO").prediction.values()) == pytest.approx(1)
    # A label that the model does not know is a row with a reason.
    other = _write(tmp_path / "o.csv", grade=["awful", *(names[r // 20] for r in RANKS[1:])])
    answer = molattn("evaluate", run, other, "--json")
    assert "1 of 60 rows are left out; the first, line 2: column 'grade': 'awful' is none of the" in answer.err
    assert json.loads(answer.out)["targets"]["grade"]["n"] == 59


def test_bounds_are_used_in_training_and_not_in_metrics(molattn: Molattn, tmp_path: Path) -> None:
    cells = [f">{v}" if i % 5 == 1 else f"<= {v}" if i % 5 == 3 else str(v) for i, v in enumerate(VALUES)]
    table, run = _write(tmp_path / "t.csv", y=cells), tmp_path / "run"
    answer = molattn("train", table, *QUICK, "-o", run, "--ensemble-size", "2", "--calibration-size", "0.2")
    assert answer.code == 0
    assert "y holds numbers, and 24 of 60 are bounds such as >" in answer.err
    assert "the loss is bounded-mse; --loss-function overrides it" in answer.err
    metrics = json.loads((run / "metrics.json").read_text())
    rows = _rows(run / "predictions.csv")
    assert [r["y"] or r["y_bound"] for r in rows] == [c.replace("<= ", "<") for c in cells]
    for side in ("train", "val", "test"):
        mine = [r for r in rows if r["split"] == side]
        known = [(float(r["y"]), float(r["y_pred"])) for r in mine if r["y"]]
        assert metrics[side]["y"]["rmse"] == pytest.approx(np.sqrt(np.mean([(y - p) ** 2 for y, p in known])))
        assert (metrics[side]["y"]["n"], metrics[side]["y"]["censored"]) == (len(known), len(mine) - len(known))
    exact = np.array([float(r["y"]) for r in rows if r["y"] and r["split"] == "train"])
    config = json.loads((run / "model" / "config.json").read_text())
    assert config["task"]["loss"] == "bounded-mse"
    assert config["targets"][0]["mean"] == pytest.approx(exact.mean())
    evaluated = molattn("evaluate", run, table)
    assert "36 molecules (24 more with a bound only)" in evaluated.out.replace("y, ", "")
    measured = json.loads(molattn("evaluate", run, table, "--json").out)["targets"]["y"]
    assert (measured["n"], measured["censored"]) == (36, 24)
    # Another loss cannot use them.
    answer = molattn("train", table, *QUICK, "-o", tmp_path / "no", "--loss-function", "mae")
    assert answer.code != 0 and not (tmp_path / "no").exists()
    assert "24 of 60 target values cannot be read (40%, and --max-unreadable allows 10%); line 3, column" in answer.err
    assert "the loss mae does not learn from bounds: --loss-function bounded-mse or bounded-mae does" in answer.err
    answer = molattn(
        "train", table, *QUICK, "-o", tmp_path / "mae", "--loss-function", "mae", "--max-unreadable", "0.5"
    )
    assert answer.code == 0 and "24 rows are left out, see rejected.csv" in answer.err
    assert len(_rows(tmp_path / "mae" / "predictions.csv")) == 36


def test_units_of_headers_are_kept_and_thousands_are_read(molattn: Molattn, tmp_path: Path) -> None:
    header, numbers = "IC50 [nM]", [round(1000 * (v + 15)) for v in VALUES]
    table, run = _write(tmp_path / "t.csv", **{header: [f'"{n:,}"' for n in numbers]}), tmp_path / "run"
    command = ("train", table, *QUICK, "-o", run, "--target-columns", "IC50")
    answer = molattn(*command)
    assert answer.code == 3 and "is ambiguous" in answer.err and "with --thousands ',' or" in answer.err
    answer = molattn(*command, "--thousands", ",")
    assert answer.code == 0 and "column 'IC50 [nM]' has thousands separators ','" in answer.err
    assert "IC50 [nM], 6 test molecules:" in answer.out, "the unit is there once"
    assert json.loads((run / "metrics.json").read_text())["units"] == {header: "nM"}
    predictor = library.load(run)
    assert (predictor.targets, predictor.units) == ((header,), ("nM",))
    rows = _rows(run / "predictions.csv")
    assert [float(r[header]) for r in rows] == numbers and f"{header}_pred" in rows[0]
    assert molattn("predict", run, "--smiles", "CCO").out.split("\n")[0].split("  ")[-1] == header
    assert "is ambiguous" in molattn("evaluate", run, table).err
    assert molattn("evaluate", run, table, "--thousands", ",").code == 0
    assert predictor.evaluate(table, table_options=TableOptions(thousands=",")).targets[:, 0].tolist() == numbers


def test_every_option_finds_a_target_without_its_unit(molattn: Molattn, tmp_path: Path) -> None:
    table, run = _write(tmp_path / "t.csv", **{"IC50 [nM]": [str(v + 15) for v in VALUES]}), tmp_path / "run"
    named = ("--target-columns", "IC50", "--target-transform", "IC50=log10", "--task-weights", "IC50=2")
    assert molattn("train", table, *QUICK, "-o", run, *named).code == 0
    assert [*json.loads((run / "metrics.json").read_text())["transformed"]["test"]] == ["IC50 [nM]"]
    assert molattn("evaluate", run, table, "--target-columns", "IC50").code == 0
    assert molattn("explain", run, "--smiles", "CCO", "--target", "IC50").code == 0
    assert "unknown target 'IC5'" in molattn("explain", run, "--smiles", "CCO", "--target", "IC5").err
    assert molattn("report", run, "--target", "IC50", "-o", tmp_path / "report.html").code == 0
    assert SelectionOptions(2, target="IC50").target_index(library.load(run)._artifact) == 0
    assert molattn("whatif", run, "--smiles", "CCO", "--maximize", "IC50", "--level", 0.5).code == 0


def test_several_targets_with_missing_labels(molattn: Molattn, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    columns = {f"t{i}": ["" if draw.random() < 0.2 else str(int(r >= 10 * (i + 1))) for r in RANKS] for i in range(4)}
    columns["t4"] = ["0"] * 60
    table = _write(tmp_path / "t.csv", **columns)
    wanted = [x for name in columns for x in ("--target-columns", name)]
    answer = molattn("train", table, *wanted, *QUICK, "-o", tmp_path / "run")
    assert answer.code == 0
    assert "task: binary, 5 targets hold only 0 and 1" in answer.err
    assert "'t4' has training labels of one class only" in answer.err
    assert "t4: AUROC is undefined: one class only" in answer.out
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    four = metrics["test"]["t4"]
    assert four["auroc"] is None
    assert four["why"]["auroc"] == "one class only"
    defined = [m["auroc"] for m in metrics["test"].values() if m["auroc"] is not None]
    assert metrics["mean"]["test"]["auroc"] == pytest.approx(np.mean(defined))
    assert metrics["mean"]["test"]["targets"]["auroc"] == len(defined)


def test_a_mean_and_its_standard_deviation(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert molattn("train", table, *QUICK, "-o", run, "--loss-function", "mve", "-q").code == 0
    assert "task: regression" not in molattn("predict", run, "--smiles", "CCO").out
    rows = _rows(run / "predictions.csv")
    assert all(0 < float(r["y_std"]) < 20 for r in rows)
    (answer,) = json.loads(molattn("predict", run, "--smiles", "CCO", "--json").out)
    assert answer["y_std"] > 0


def test_evaluate_agrees_with_the_metrics_of_training(molattn: Molattn, run: Path, table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "evaluated"
    answer = molattn("evaluate", run, table, "-o", folder, "--metric", "rmse", "--metric", "spearman")
    assert answer.code == 0
    assert "2 of 42 rows are left out; the first, line 9: " in answer.err
    assert {p.name for p in folder.iterdir()} == {"metrics.json", "parity.png"}
    metrics = json.loads((folder / "metrics.json").read_text())
    rows = _rows(run / "predictions.csv")
    far = np.array([float(r["y"]) - float(r["y_pred"]) for r in rows])
    assert metrics["targets"]["y"]["rmse"] == pytest.approx(np.sqrt(np.mean(far**2)))
    assert metrics["targets"]["y"]["n"] == 40
    assert [(r["line"], r["smiles"]) for r in metrics["rejected"]] == [(9, "C1CC"), (10, "CCO")]
    assert "Spearman" in answer.out
    assert molattn("evaluate", run, table, "-o", folder).code == 2
    assert molattn("evaluate", run, table, "--strict").code == 4


def test_training_molecules_are_evaluated_separately(molattn: Molattn, run: Path, table: Path, tmp_path: Path) -> None:
    with open(run / "splits.csv", newline="") as file:
        label = {row["smiles"]: row["split"] for row in csv.DictReader(file)}
    with open(table, newline="") as file:
        rows = [row for row in csv.DictReader(file) if label[row["smiles"]] and row["y"] != "unknown"]
    test = [row for row in rows if label[row["smiles"]] == "test"]

    def write(name: str, rows: list[dict[str, str]]) -> Path:
        # Written otherwise than in training, as `Chem.MolToSmiles(..., rootedAtAtom)` does.
        cells = [f"{random_smiles(read_smiles(row['smiles']), seed=1)},{row['y']}" for row in rows]
        (tmp_path / name).write_text("\n".join(["smiles,y", *cells]) + "\n")
        return tmp_path / name

    every = molattn("evaluate", run, write("all.csv", rows))
    assert every.code == 0
    seen = len(rows) - len(test)
    assert f"{seen} of {len(rows)} molecules were used to train or select the model" in every.err
    assert "always the training mean" in every.out and f"the {len(test)} not seen in training" in every.out
    content = json.loads(molattn("evaluate", run, tmp_path / "all.csv", "--json").out)
    alone = molattn("evaluate", run, write("test.csv", test), "--json")
    assert "used to train" not in alone.err
    metrics = json.loads((run / "metrics.json").read_text())
    for found in (content["unseen"], json.loads(alone.out)["targets"]):
        assert found["y"]["rmse"] == pytest.approx(metrics["test"]["y"]["rmse"], rel=1e-5)
    assert json.loads(alone.out)["baseline"]["y"]["rmse"] == pytest.approx(
        metrics["baseline"]["test"]["y"]["rmse"], rel=1e-6
    )
    lower, upper = json.loads(alone.out)["intervals"]["y"]["rmse"]
    assert lower < metrics["test"]["y"]["rmse"] < upper
    assert "95% interval" in molattn("evaluate", run, tmp_path / "test.csv").out
    assert content["seen"] == seen and json.loads(alone.out)["unseen"] == {}
    # A file next to a model that is not in a run folder is not about its training.
    shutil.copytree(run / "model", tmp_path / "copied")
    shutil.copy(run / "splits.csv", tmp_path)
    assert json.loads(molattn("evaluate", tmp_path / "copied", tmp_path / "all.csv", "--json").out)["seen"] == 0
    known = [row for row in rows if label[row["smiles"]] != "test"]
    assert "there are no others in the table" in molattn("evaluate", run, write("known.csv", known)).err


def test_labels_may_be_in_columns_of_other_names(molattn: Molattn, run: Path, table: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "renamed.csv"
    header, rest = table.read_text().split("\n", 1)
    renamed.write_text(header.replace("y", "log S") + "\n" + rest)
    found = molattn("evaluate", run, renamed, "--target-columns", "log S", "--json")
    assert found.code == 0, found.err
    assert json.loads(found.out)["targets"] == json.loads(molattn("evaluate", run, table, "--json").out)["targets"]
    several = molattn("evaluate", run, renamed, "--target-columns", "log S", "smiles")
    assert several.code == 2
    assert "--target-columns names 2 columns for 1 targets" in several.err


def test_evaluate_needs_the_targets_columns(molattn: Molattn, run: Path, binary: Path) -> None:
    answer = molattn("evaluate", run, binary)
    assert answer.code == 2
    assert "'y'" in answer.err


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--task-type", "binary"), "a binary target is 0 or 1"),
        (("--task-type", "ranking"), "unknown task type 'ranking'"),
        (("--task-type", "multiclass"), "which is not a class"),
        (("--loss", "bce"), "the loss 'bce' is for binary targets, and these are regression"),
        (("--metric", "auroc"), "the metric 'auroc' does not apply to regression targets"),
        (("--class-balance",), "applies only to classification, not to numbers: leave it out"),
        (("--split-sizes", "0.5", "0.5", "0"), "for test: a training needs train, val and test, so give each a share"),
    ],
)
def test_conflicting_options_are_refused_and_leave_no_folder(
    molattn: Molattn, table: Path, tmp_path: Path, options: tuple[str, ...], reason: str
) -> None:
    answer = molattn("train", table, *QUICK, "-o", tmp_path / "run", *options)
    assert answer.code in (2, 3)
    assert reason in answer.err
    assert not (tmp_path / "run").exists()


def _train_on(molattn: Molattn, folder: Path, table: str, *options: str) -> Answer:
    (folder / "t.csv").write_text(table)
    return molattn("train", folder / "t.csv", *QUICK, "-o", folder / "run", *options)


@pytest.mark.parametrize("value", ["7.5", "0", "1"])
def test_a_constant_target_trains_and_undefined_metrics_have_a_reason(
    molattn: Molattn, tmp_path: Path, value: str
) -> None:
    table = "smiles,y\n" + "".join(f"{s},{value}\n" for s in SMILES[:30])
    answer = _train_on(molattn, tmp_path, table)
    assert answer.code == 0
    assert "y: R2 is undefined: all labels are equal" in answer.out
    warning = "'y' has training labels of one value only: there is nothing to learn"
    assert f"warning: {warning}" in answer.err
    assert warning in molattn("check", tmp_path / "t.csv").out
    assert np.isfinite([float(r["y_pred"]) for r in _rows(tmp_path / "run" / "predictions.csv")]).all()
    if value == "7.5":
        return
    (tmp_path / "run").rename(tmp_path / "first")
    answer = _train_on(molattn, tmp_path, table, "--task-type", "binary")
    assert answer.code == 0
    assert "warning: 'y' has training labels of one class only: there is nothing to learn" in answer.err
    assert ", AUROC undefined" in answer.err


@pytest.mark.parametrize(
    ("table", "options", "reason"),
    [
        ("smiles,y\nCCO,1.5\n", (), "split"),
        ("smiles,y\n" + "".join(f"{s},\n" for s in SMILES), (), "no row can be used"),
        (
            "smiles,y,z\n" + "".join(f"{s},1.5,\n" for s in SMILES),
            ("--target-columns", "y", "--target-columns", "z"),
            "the training molecules have no value in column 'z'",
        ),
    ],
)
def test_tables_without_enough_molecules_or_labels_are_refused(
    molattn: Molattn, tmp_path: Path, table: str, options: tuple[str, ...], reason: str
) -> None:
    answer = _train_on(molattn, tmp_path, table, *options)
    assert answer.code == 3
    assert reason in answer.err
    assert not (tmp_path / "run").exists()


@pytest.mark.finished_runs
def test_several_targets_of_different_classes(molattn: Molattn, tmp_path: Path) -> None:
    table = _write(
        tmp_path / "two.csv",
        size=[("small", "large")[r % 2] for r in RANKS],
        colour=[("red", "green", "")[r % 3] or "blue" if r % 7 else "" for r in RANKS],
    )
    run = tmp_path / "run"
    wanted = ("--target-columns", "size", "--target-columns", "colour")
    assert molattn("train", table, *wanted, *QUICK, "-o", run, "-q").code == 0
    predictor = library.load(run)
    assert predictor.task.classes == (("large", "small"), ("blue", "green", "red"))
    with pytest.warns(library.errors.MolattnWarning):
        p = predictor.predict(["CCO", "nonsense"])
    assert p.shape == (2, 2, 3)
    assert p[0].sum(-1) == pytest.approx([1, 1])
    assert np.isnan(p[1, 1]).all()
    assert {q.name for q in (run / "plots").iterdir()} >= {"confusion-size.png", "confusion-colour.png"}
