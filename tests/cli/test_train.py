"""`molattn train`: its output, its run folder, and the errors it raises."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from molattn.chem import read_smiles
from molattn.cli.metrics import number
from molattn.cli.progress import TerminalReporter
from molattn.data import SPLITS, SPLITS_BY_TARGET
from molattn.models.losses import LOSSES
from molattn.models.names import TASK_KINDS
from molattn.models.tasks import TASKS
from molattn.training.bases import FINE_TUNING
from molattn.training.config import LOSS_NAMES, TrainingConfig
from tests.cli.conftest import QUICK, Molattn
from tests.molecules import esol


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_the_output_ends_with_metrics_the_folder_and_commands_that_run_as_printed(
    molattn: Molattn, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = molattn("train", table, *QUICK, "-o", tmp_path / "run")
    assert result.code == 0
    assert result.err.startswith(f"{table.stem}: learning 'y' from the SMILES in 'smiles'\n")
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    for side in (metrics["test"], metrics["baseline"]["test"]):
        for name in ("rmse", "mae", "r2"):
            assert f"{side['y'][name]:.3f}" in result.out
    assert "95% interval" in result.out
    for name in ("rmse", "mae", "r2"):
        lower, upper = metrics["test_intervals"]["y"][name]
        assert f"{lower:.3f} to {upper:.3f}" in result.out
        assert lower <= metrics["test"]["y"][name] <= upper
    *_, where, view, explain, smiles, file = result.out.strip().splitlines()
    assert str(tmp_path / "run") in where
    assert [line.split()[1] for line in (view, explain, smiles, file)] == ["view", "explain", "predict", "predict"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("smiles\nCCO\n")
    for line in (view, explain, smiles, file):
        program, *arguments = shlex.split(line)
        assert program == "molattn"
        done = molattn(*arguments)
        assert done.code == 0, (line, done.err)
    assert (tmp_path / "run" / "ethanol.html").is_file() and (tmp_path / "out.csv").is_file()
    assert "2 rows are left out" in result.err


@pytest.mark.parametrize("kind", ["atoms", "two targets", "smiles-transformer"])
def test_the_commands_at_the_end_suit_the_model(
    molattn: Molattn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    smiles = [s for s in esol(60)[0] if "[" not in s][:24]
    columns = {
        "atoms": {"charge": [f'"{[0.1 * a.GetDegree() for a in read_smiles(s).GetAtoms()]}"' for s in smiles]},
        "two targets": {"log S": [str(0.1 * len(s)) for s in smiles], "n": [str(s.count("C")) for s in smiles]},
        "smiles-transformer": {"y": [str(0.1 * len(s)) for s in smiles]},
    }[kind]
    rows = map(",".join, zip(smiles, *columns.values(), strict=True))
    (tmp_path / "in.csv").write_text("\n".join([",".join(["smiles", *columns]), *rows]) + "\n")
    options = ("--target-columns", "*", *QUICK, "--epochs", "1", "-o", "my runs/a")
    if kind == "smiles-transformer":
        options = (*options, "--model", kind)
    monkeypatch.chdir(tmp_path)
    result = molattn("train", "in.csv", *options)
    assert result.code == 0, result.err
    commands = [shlex.split(line) for line in result.out.splitlines() if line.startswith("  molattn ")]
    explained = [["explain"]] if kind == "two targets" else []
    assert [command[1:2] for command in commands] == [["view"], *explained, ["predict"], ["predict"]]
    for command in commands:
        done = molattn(*command[1:])
        assert done.code == 0, (command, done.err)


def test_numbers_have_three_decimals_or_four_digits() -> None:
    texts = {0.4486: "0.449", -0.0001: "0.000", 99_999.5: "99999.500", 48108371667.051: "4.811e+10", -2e6: "-2e+06"}
    assert {value: number(value) for value in texts} == texts
    assert number(None) == "undefined"


@pytest.mark.finished_runs
def test_the_run_folder_is_complete(run: Path, table: Path) -> None:
    found = {str(p.relative_to(run)) for p in run.rglob("*") if p.is_file()}
    assert found == {
        "config.toml",
        "data_report.json",
        "env.json",
        "faithfulness.json",
        "history.csv",
        "metrics.json",
        "model/config.json",
        "model/model.safetensors",
        "plots/learning_curve.png",
        "plots/parity.png",
        "predictions.csv",
        "rejected.csv",
        "splits.csv",
    }
    rejected = _rows(run / "rejected.csv")
    assert [(r["row"], r["line"], r["smiles"]) for r in rejected] == [("7", "9", "C1CC"), ("8", "10", "CCO")]
    assert "unknown" in rejected[1]["reason"]
    splits = _rows(run / "splits.csv")
    assert [r["smiles"] for r in splits] == [r["smiles"] for r in _rows(table)]
    assert [i for i, r in enumerate(splits) if not r["split"]] == [7, 8]
    env = json.loads((run / "env.json").read_text())
    assert env["seed"] == 0
    assert len(env["data_sha256"]) == 64
    assert {"torch", "rdkit", "molattn"} <= set(env["packages"])
    assert len(_rows(run / "history.csv")) == 2


def test_metrics_are_those_of_the_predictions_in_units(run: Path) -> None:
    metrics = json.loads((run / "metrics.json").read_text())
    rows = _rows(run / "predictions.csv")
    assert len(rows) == 40
    for side in ("train", "val", "test"):
        pairs = np.array([[float(r["y"]), float(r["y_pred"])] for r in rows if r["split"] == side])
        assert metrics[side]["y"]["n"] == len(pairs)
        assert metrics[side]["y"]["rmse"] == pytest.approx(np.sqrt(np.mean((pairs[:, 0] - pairs[:, 1]) ** 2)))
    train = np.array([float(r["y"]) for r in rows if r["split"] == "train"])
    test = np.array([float(r["y"]) for r in rows if r["split"] == "test"])
    baseline = metrics["baseline"]["test"]["y"]["rmse"]
    assert baseline == pytest.approx(np.sqrt(np.mean((test - train.mean()) ** 2)))
    # The scaler is fitted to the training targets only.
    (target,) = json.loads((run / "model" / "config.json").read_text())["targets"]
    assert (target["mean"], target["std"]) == pytest.approx((train.mean(), train.std()))


def test_the_same_seed_twice_gives_identical_metrics(molattn: Molattn, table: Path, run: Path, tmp_path: Path) -> None:
    assert molattn("train", table, *QUICK, "-o", tmp_path / "again").code == 0
    assert molattn("train", table, *QUICK, "-o", tmp_path / "other", "--seed", 1).code == 0
    first, again, other = ((f / "metrics.json").read_bytes() for f in (run, tmp_path / "again", tmp_path / "other"))
    assert first == again != other
    assert (run / "predictions.csv").read_bytes() == (tmp_path / "again" / "predictions.csv").read_bytes()


def test_the_configuration_of_a_run_reproduces_it(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    assert tomllib.loads((run / "config.toml").read_text())["data"]["target_columns"] == ["y"]
    result = molattn("train", "--config", run / "config.toml", "-o", tmp_path / "again", "--json")
    assert (run / "metrics.json").read_bytes() == (tmp_path / "again" / "metrics.json").read_bytes()
    printed = json.loads(result.out)
    assert printed.pop("run") == str(tmp_path / "again")
    assert printed == json.loads((run / "metrics.json").read_text())


def test_a_runs_splits_can_be_used_again(molattn: Molattn, table: Path, run: Path, tmp_path: Path) -> None:
    splits = run / "splits.csv"
    assert molattn("train", table, *QUICK, "--splits-file", splits, "-o", tmp_path / "again", "-q").code == 0
    assert splits.read_bytes() == (tmp_path / "again" / "splits.csv").read_bytes()
    assert (run / "metrics.json").read_bytes() == (tmp_path / "again" / "metrics.json").read_bytes()


def test_an_existing_folder_is_refused_and_force_replaces_only_runs(
    molattn: Molattn, table: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    for options in ((), ("--force",)):
        result = molattn("train", table, *QUICK, "-o", folder, *options)
        assert result.code == 2
        assert "exists" in result.err
    assert (folder / "thesis.txt").read_text() == "years of work"
    run = tmp_path / "run"
    assert molattn("train", table, *QUICK, "-o", run, "-q").code == 0
    (run / "old.txt").write_text("")
    assert molattn("train", table, *QUICK, "-o", run, "-q").code == 2
    assert (run / "old.txt").exists()
    assert molattn("train", table, *QUICK, "-o", run, "-q", "--force").code == 0
    assert not (run / "old.txt").exists()


def test_runs_without_output_dir_get_new_folders(
    molattn: Molattn, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert molattn("train", table, *QUICK, "-q").code == 0
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == ["solubility", "solubility-2"]


def test_a_run_that_fails_leaves_no_folder(
    molattn: Molattn, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("molattn.training.ensemble.fit", stop)
    result = molattn("train", table, *QUICK, "-o", tmp_path / "run")
    assert result.code == 130
    assert not (tmp_path / "run").exists()


def test_quiet_prints_only_warnings_and_there_is_no_bar_without_a_terminal(
    molattn: Molattn, table: Path, tmp_path: Path
) -> None:
    quiet = molattn("train", table, *QUICK, "-o", tmp_path / "a", "--quiet")
    assert quiet.out == ""
    assert all(line.startswith("warning: ") for line in quiet.err.splitlines())
    plain = molattn("train", table, *QUICK, "-o", tmp_path / "b")
    assert "\r" not in plain.err
    assert "\x1b" not in plain.err


@pytest.mark.finished_runs
def test_several_targets_with_missing_labels(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    rows = _rows(table)
    lines = [f"{r['smiles']},{r['y']},{'' if i % 3 else i}" for i, r in enumerate(rows)]
    (tmp_path / "two.csv").write_text("\n".join(["smiles,y,z", *lines]) + "\n")
    columns = ("--target-columns", "y", "--target-columns", "z")
    result = molattn("train", tmp_path / "two.csv", *columns, *QUICK, "-o", tmp_path / "run", "-q")
    assert result.code == 0, result.err
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["train"]["z"]["n"] < metrics["train"]["y"]["n"]
    assert set(metrics["test"]) == {"y", "z"}
    assert {"plots/parity-y.png", "plots/parity-z.png"} <= {
        str(p.relative_to(tmp_path / "run")) for p in (tmp_path / "run").rglob("*.png")
    }


def test_a_smiles_transformer_takes_the_same_command_and_predicts(
    molattn: Molattn, table: Path, tmp_path: Path
) -> None:
    options = (*QUICK, "--model", "smiles-transformer", "-o", tmp_path / "run")
    assert molattn("train", table, *options, "-q").code == 0
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text())["model"]["kind"] == "smiles-transformer"
    one, other = json.loads(molattn("predict", tmp_path / "run", "-s", "OCC", "-s", "C(O)C", "--json").out)
    assert one["y"] == pytest.approx(other["y"], abs=1e-6)


@pytest.fixture
def table_3d(tmp_path: Path, table: Path) -> Path:
    """Thirty molecules, and on line 4 one that has no geometry."""
    lines = [f"{r['smiles']},{r['y']}" for r in _rows(table) if r["smiles"] != "C1CC" and r["y"] != "unknown"][:30]
    lines.insert(2, "C1CC2CC1=C2,1.0")
    path = tmp_path / "cages.csv"
    path.write_text("\n".join(["smiles,y", *lines]) + "\n")
    return path


IN_3D = ("--set", "data.conformers=true")


def test_3d_settings_are_reported_saved_and_used_in_prediction(
    molattn: Molattn, table_3d: Path, tmp_path: Path
) -> None:
    result = molattn("train", table_3d, *QUICK, *IN_3D, "-o", tmp_path / "run")
    assert result.code == 0, result.err
    assert "3D geometries" in result.err
    assert "warning: 1 molecule has no 3D geometry; the first, C1CC2CC1=C2: distances are path lengths" in result.err
    data = tomllib.loads((tmp_path / "run" / "config.toml").read_text())["data"]
    assert (data["conformers"], data["conformer_seed"], data["on_3d_failure"]) == (True, 0, "paths")
    again = molattn("train", "--config", tmp_path / "run" / "config.toml", "-o", tmp_path / "again", "-q")
    assert again.code == 0
    assert (tmp_path / "run" / "metrics.json").read_bytes() == (tmp_path / "again" / "metrics.json").read_bytes()
    predicted = molattn("predict", tmp_path / "run", table_3d, "-o", tmp_path / "out.csv", "-q")
    assert predicted.code == 0
    assert "warning: 1 of 31 SMILES have no 3D geometry; the first, row 2, 'C1CC2CC1=C2': " in predicted.err
    assert {r["status"] for r in _rows(tmp_path / "out.csv")} == {"ok"}


def test_a_molecule_without_a_geometry_is_excluded_or_stops_the_run(
    molattn: Molattn, table_3d: Path, tmp_path: Path
) -> None:
    options = (*QUICK, *IN_3D, "-o", tmp_path / "run")
    stopped = molattn("train", table_3d, *options, "--on-3d-failure", "stop")
    assert stopped.code == 3
    assert "cages.csv, line 4: 'C1CC2CC1=C2': RDKit finds no 3D geometry" in stopped.err
    assert not (tmp_path / "run").exists()
    assert molattn("train", table_3d, *options, "--on-3d-failure", "reject").code == 0
    (rejected,) = _rows(tmp_path / "run" / "rejected.csv")
    assert (rejected["line"], rejected["smiles"]) == ("4", "C1CC2CC1=C2")
    predicted = molattn("predict", tmp_path / "run", "-s", "C1CC2CC1=C2", "-s", "CCO")
    assert "error: RDKit finds no 3D geometry" in predicted.out


def test_on_3d_failure_without_3d_is_reported_as_unused(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    result = molattn("train", table, *QUICK, "--on-3d-failure", "stop", "-o", tmp_path / "run", "-q")
    assert result.code == 0
    assert "on_3d_failure has no effect" in result.err


def test_reading_many_molecules_reports_progress(
    molattn: Molattn, table_3d: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("molattn.cli.progress.SECONDS_BETWEEN_LINES", -1.0)
    monkeypatch.setenv("MOLATTN_CACHE", str(tmp_path / "cache"))
    result = molattn("train", table_3d, *QUICK, *IN_3D, "-o", tmp_path / "run")
    assert "molecule 31 of 31" in result.err.splitlines()
    again = molattn("train", table_3d, *QUICK, *IN_3D, "-o", tmp_path / "again")
    assert "molecule 31 of 31" not in again.err
    cached = f"loaded the molecules from the cache in {tmp_path / 'cache' / 'molecules'}"
    assert cached not in again.err
    assert cached in molattn("train", table_3d, *QUICK, *IN_3D, "-o", tmp_path / "verbose", "-v").err
    assert (tmp_path / "run" / "metrics.json").read_bytes() == (tmp_path / "again" / "metrics.json").read_bytes()


def test_a_terminal_has_a_bar_while_molecules_are_embedded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Rich takes this for a terminal.
    monkeypatch.setenv("FORCE_COLOR", "1")
    with TerminalReporter() as reporter:
        for done in range(1, 4):
            reporter.molecules(done, 3)
    shown = capsys.readouterr().err
    assert "molecules" in shown
    # Rich's own bars are magenta and red.
    assert "\x1b[32m" in shown and not re.search(r"\x1b\[(?:31|35|91|95|38;)", shown)
    assert "3/3" in shown
    with TerminalReporter(quiet=True) as reporter:
        reporter.molecules(3, 3)
    assert capsys.readouterr().err == ""


def test_folds_end_with_a_table_of_all_runs(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    result = molattn("train", table, *QUICK, "--num-folds", 2, "--split", "stratified", "-o", tmp_path / "run")
    assert result.code == 0, result.err
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    rmse = metrics["test"]["y"]["rmse"]
    for value in (*rmse["values"], rmse["mean"], rmse["std"]):
        assert f"{value:.3f}" in result.out
    assert "fold_0, 1 of 2" in result.err
    *_, where, smiles = result.out.strip().splitlines()
    assert str(tmp_path / "run") in where
    assert molattn(*smiles.split()[1:]).code == 0
    several = molattn("predict", tmp_path / "run", "-s", "CCO")
    assert several.code == 3
    assert "holds 2 runs with a model each: give one of them" in several.err


def test_a_split_column_is_used_unchanged(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    rows = _rows(table)
    sides = [("train", "train", "val", "test")[i % 4] for i in range(len(rows))]
    lines = [f"{r['smiles']},{r['y']},{side}" for r, side in zip(rows, sides, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,y,set", *lines, f"{lines[0][:-5]}test"]) + "\n")
    # The only other column is the target.
    result = molattn("train", tmp_path / "t.csv", *QUICK, "--splits-column", "set", "-o", tmp_path / "run", "-q")
    assert result.code == 0, result.err
    assert "1 molecule is in more than one subset of the split" in result.err
    assert "column 'set' is used unchanged" in result.err
    written = [r["split"] for r in _rows(tmp_path / "run" / "splits.csv")]
    assert [s for s, r in zip(written, rows, strict=False) if s] == [
        s for s, r in zip(sides, rows, strict=True) if r["smiles"] != "C1CC" and r["y"] != "unknown"
    ]


@pytest.mark.finished_runs
def test_ctrl_c_keeps_an_unfinished_run_that_resume_continues(
    molattn: Molattn, table: Path, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def epoch(_: object, record: object, __: int) -> None:
        if record.epoch == 2:  # pyright: ignore[reportAttributeAccessIssue]
            raise KeyboardInterrupt

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(TerminalReporter, "epoch", epoch)
        result = molattn("train", table, *QUICK, "-o", folder)
    assert result.code == 130
    assert f"{folder} holds an unfinished run: --resume {folder} continues it" in result.err
    for arguments, code, says in (
        (("train", table, *QUICK, "-o", folder), 2, "--force starts over"),
        (("predict", folder, "-s", "CCO"), 3, f"molattn train --resume {folder} continues it"),
        (("train", "--resume", folder, "-o", tmp_path / "b"), 2, "give no --config, --output-dir or --force"),
        (("train", "--resume", folder, "--epochs", 5), 2, "training.epochs was 2 and is 5 now"),
        (("train", "--resume", tmp_path / "none"), 2, "there is no run"),
    ):
        refused = molattn(*arguments)
        assert refused.code == code, refused.err
        assert says in refused.err
    result = molattn("train", "--resume", folder)
    assert result.code == 0, result.err
    assert "training continues after epoch 1" in result.err
    for name in ("metrics.json", "predictions.csv", "history.csv", "model/model.safetensors", "plots/parity.png"):
        assert (folder / name).read_bytes() == (run / name).read_bytes()
    assert not (folder / "checkpoint").exists()


def test_hidden_options_work(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    result = molattn("train", table, *QUICK, "--devices", "1", "-o", tmp_path / "run", "-q")
    assert result.code == 0
    shown = molattn("train", "--help").out
    assert "--devices" not in shown
    sought = ("standardize", "class-balance", "num-folds", "resume", "ensemble-size", "metric", "learning-rate")
    assert all(f"--{name} " in shown for name in (*sought, "patience"))
    epochs = FINE_TUNING["training"]["epochs"], TrainingConfig().epochs
    words = " ".join(shown.replace("\u2502", " ").split())
    assert f"[default: {epochs[0]} from a base model, {epochs[1]} from scratch]" in words
    for split in (*SPLITS, *SPLITS_BY_TARGET):
        assert split in shown
    assert tuple(LOSSES) == LOSS_NAMES
    every = molattn("train", "--help-all")
    assert every.code == 0
    assert all(name in every.out for name in ("--devices", "--descriptor-columns", "--num-folds", "--resume", "--seed"))
    assert "--help-all: losses" in shown and molattn("train", "--help").out == shown


def test_the_learning_rate_and_the_patience_are_options(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    options = ("--learning-rate", "0.002", "--patience", "7", "--split-sizes", "0.6,0.2,0.2")
    assert molattn("train", table, *QUICK, *options, "-o", tmp_path / "run", "-q").code == 0
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert (config["training"]["learning_rate"], config["training"]["patience"]) == (0.002, 7)
    assert config["data"]["split_sizes"] == [0.6, 0.2, 0.2]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--dataset", "esoll"], 2, "esol"),
        ([], 2, "Usage"),
        (["missing.csv"], 3, "missing.csv"),
        (["--dataset", "esol", "--epochs", "0"], 2, "epochs is 1 or more"),
        (["--dataset", "esol", "--epochs", "x"], 2, "--epochs"),
        (["--dataset", "esol", "--set", "model.num_heads=7"], 2, "7 heads do not divide 64"),
        (["--dataset", "esol", "--set", "model.readout=median"], 2, "choose one of"),
        (["--dataset", "esol", "--on-3d-failure", "retry"], 2, "choose one of paths, reject, stop"),
        (["--dataset", "esol", "--set", "data.conformer_timeout=0"], 2, "conformer_timeout is 1 or more"),
        (["--dataset", "esol", "--set", "data.conformer_seed=-1"], 2, "conformer_seed is at least 0"),
        (
            ["--dataset", "esol", "--model", "smiles-transformer", "--set", "data.conformers=true"],
            2,
            "'smiles-transformer' reads no 3D",
        ),
        (["--dataset", "esol", "--split", "temporal"], 2, "choose one of random, scaffold"),
        (["--dataset", "esol", "--split-sizes", "1", "1", "1"], 2, "1"),
        (["--dataset", "esol", "--target-columns", "logS"], 2, "log_solubility"),
        (["--dataset", "esol", "--accelerator", "abacus"], 2, "abacus"),
        (["a.csv", "--dataset", "esol"], 2, "not both"),
        (["--dataset", "esol", "--model", "smiles"], 2, "choose one of graph, smiles-transformer"),
        (
            ["--dataset", "esol", "--model", "smiles-transformer", "--set", "model.edge_dim=3"],
            2,
            "unknown setting of [model] 'edge_dim'",
        ),
    ],
)
def test_invalid_arguments_are_refused_in_one_sentence(
    molattn: Molattn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = molattn("train", *arguments)
    assert result.code == code, result.err
    assert says in result.out + result.err
    assert "Traceback" not in result.err
    assert not list(tmp_path.iterdir())


def test_an_internal_error_is_reported_and_debug_shows_a_traceback(
    molattn: Molattn, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("molattn.training.ensemble.fit", fail)
    result = molattn("train", table, *QUICK, "-o", tmp_path / "run")
    assert result.code == 1
    assert "internal error: ZeroDivisionError: oops" in result.err
    assert "Traceback" not in result.err
    assert "Traceback" in molattn("train", table, *QUICK, "-o", tmp_path / "run", "--debug").err


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["predict", "--help"], ["--version"]])
def test_help_imports_nothing_heavy_and_shows_few_options(arguments: list[str]) -> None:
    code = f"""
import sys
sys.argv = ["molattn", *{arguments!r}]
from molattn.cli.main import main
try:
    main()
except SystemExit as stop:
    assert stop.code == 0
heavy = {{"torch", "rdkit", "numpy", "matplotlib", "scipy", "torch_geometric"}} & set(sys.modules)
assert not heavy, heavy
"""
    environment = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-c", code]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert sum(line.startswith("│ --") and not line.startswith("│ --help") for line in shown.splitlines()) <= 32
    assert arguments[0] != "train" or len(shown.strip().splitlines()) <= 66  # in 80 columns


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "esoll"], "did you mean 'esol'?"),
        (["{table}", "--target-columns", "z"], "has no column 'z'; it has 'smiles', 'y'"),
        (["{table}", "--split-column", "side"], "has no column 'side'"),
        (["--dataset", "esol", "--target-columns", "z"], "esol.csv has no column 'z'"),
        (
            ["nowhere.csv"],
            f"there is no file nowhere.csv in {Path(__file__).parents[2]}: run it in the folder from which this path",
        ),
        (["{table}", "-o", "{run}"], "exists: give another --output-dir, or --force"),
    ],
)
def test_invalid_arguments_are_reported_before_torch_and_rdkit_are_imported(
    run: Path, table: Path, arguments: list[str], message: str
) -> None:
    code = (
        "import atexit, sys; from molattn.cli.main import main\n"
        "atexit.register(lambda: print(sorted({'torch', 'rdkit'} & set(sys.modules)), file=sys.stderr))\n"
        "main()"
    )
    command = [sys.executable, "-c", code, "train", *(text.format(table=table, run=run) for text in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode in (2, 3) and message in done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_task_types_of_the_help_are_those_of_the_tasks() -> None:
    assert tuple(TASKS) == TASK_KINDS
