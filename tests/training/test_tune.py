"""`molattn tune`: trials by their validation metric, pruning, and resumption."""

import csv
import json
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from molattn.chem import read_smiles
from molattn.errors import InputError, UsageError
from molattn.training.dataset import PreparedDataset
from molattn.training.initialization import resolve_initialization
from molattn.training.run_config import RunConfig, resolve
from molattn.training.run_status import STUDY_JOURNAL
from molattn.training.search_space import Categorical, NumericRange, search_space
from tests.cli.conftest import Molattn
from tests.cli.conftest import molattn as molattn  # the fixture
from tests.molecules import esol

optuna = pytest.importorskip("optuna")

QUICK = ("--epochs", "2", "--set", "model.num_layers=1", "--set", "model.hidden_dim=16", "--accelerator", "cpu")
WHERE = ("--search", "training.learning_rate=1e-4..1e-2", "--search", "model.readout=['mean', 'sum']")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tune") / "t.csv"
    rows = [f"{s},{y}" for s, y in zip(*esol(40), strict=True)]
    path.write_text("\n".join(["smiles,y", *rows]) + "\n")
    return path


def _trials(folder: Path) -> list[dict[str, str]]:
    with open(folder / "trials.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_the_best_settings_train_as_they_were_tried(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    result = molattn("tune", table, *QUICK, *WHERE, "--num-trials", "4", "--pruner", "none", "-o", folder)
    assert result.code == 0, result.err
    assert "4 of 4 trials finished: best" in result.err
    assert f"molattn train --config {folder / 'best.toml'}" in result.out
    trials = _trials(folder)
    assert [t["state"] for t in trials] == ["complete"] * 4
    values = [float(t["val_rmse"]) for t in trials]
    assert [t["is_default"] for t in trials] == ["yes", "no", "no", "no"]
    best = trials[values.index(min(values))]
    config = tomllib.loads((folder / "best.toml").read_text())
    # Only the given settings, and those that differ from the default.
    model: dict[str, Any] = {"num_layers": 1, "hidden_dim": 16}
    training: dict[str, Any] = {"epochs": 2, "accelerator": "cpu", "base": "none"}
    if best["is_default"] == "no":
        model["readout"] = best["model.readout"]
        training["learning_rate"] = float(best["training.learning_rate"])
        assert 1e-4 <= training["learning_rate"] <= 1e-2
    assert config == {"data": {"dataset": str(table)}, "model": model, "training": training}
    # `molattn train` with these settings reproduces the value of the trial: the validation metric of the best epoch.
    run = tmp_path / "run"
    assert molattn("train", "--config", folder / "best.toml", "-o", run, "-q").code == 0
    history = [row for row in csv.DictReader((run / "history.csv").open()) if row["best"] == "True"]
    assert float(history[-1]["val_rmse"]) == pytest.approx(min(values), rel=1e-6)


def test_trials_are_compared_by_the_tracked_metric(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    names = ("--metric", "rmse", "--metric", "mae", "--tracking-metric", "mae")
    folder, run = tmp_path / "study", tmp_path / "run"
    result = molattn("tune", table, *QUICK, *WHERE, *names, "--num-trials", "1", "-o", folder, "--json", "-q")
    assert result.code == 0, result.err
    (trial,), found = _trials(folder), json.loads(result.out)
    assert (found["metric"], found["value"]) == ("mae", float(trial["val_mae"]))
    assert molattn("train", "--config", folder / "best.toml", "-o", run, "-q").code == 0
    values = [float(row["val_mae"]) for row in csv.DictReader((run / "history.csv").open())]
    assert min(values) == pytest.approx(found["value"], rel=1e-6)


def test_test_molecules_are_not_used(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    split = tmp_path / "split.csv"
    rows = table.read_text().splitlines()[1:]
    sides = ["test" if i % 4 == 0 else "val" if i % 4 == 1 else "train" for i in range(len(rows))]
    split.write_text("\n".join(["smiles,split", *(f"{r.split(',')[0]},{s}" for r, s in zip(rows, sides, strict=True))]))
    other = tmp_path / "other.csv"
    changed = [f"{r.split(',')[0]},99" if s == "test" else r for r, s in zip(rows, sides, strict=True)]
    other.write_text("\n".join(["smiles,y", *changed]) + "\n")
    found = []
    for path, name in ((table, "a"), (other, "b")):
        arguments = ("--splits-file", split, "--num-trials", "2", "-o", tmp_path / name, "-q", "--json")
        result = molattn("tune", path, *QUICK, *WHERE, *arguments)
        assert result.code == 0, result.err
        found.append(json.loads(result.out))
    assert found[0]["value"] == found[1]["value"] and found[0]["values"] == found[1]["values"]


def test_an_interrupted_study_can_be_resumed(
    molattn: Molattn, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from molattn.training import trial as trial_module

    folder, real, count = tmp_path / "study", trial_module.fit_ensemble, 0

    def interrupted(*arguments: object, **options: object) -> object:
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return real(*arguments, **options)  # pyright: ignore

    with monkeypatch.context() as patch:
        patch.setattr(trial_module, "fit_ensemble", interrupted)
        result = molattn("tune", table, *QUICK, *WHERE, "--num-trials", "4", "-o", folder, "-q")
    assert result.code == 130 and not (folder / "best.toml").exists()
    before = _trials(folder)
    assert len(before) == 2
    again = molattn("tune", table, *QUICK, "-o", folder, "-q")
    assert again.code == 2 and f"--resume {folder} continues it" in again.err
    result = molattn("tune", "--resume", folder, "-q", "--json")
    assert result.code == 0, result.err
    trials = _trials(folder)
    assert trials[:2] == before
    # The killed trial is repeated with the same settings.
    assert [t["state"] for t in trials] == ["complete", "complete", "fail", "complete", "complete"]
    assert trials[3]["training.learning_rate"] == trials[2]["training.learning_rate"]
    assert json.loads(result.out)["trials"] == 4
    more = molattn("tune", "--resume", folder, "--num-trials", "5", "-q", "--json")
    assert json.loads(more.out)["trials"] == 5
    again = molattn("tune", "--resume", folder, "-q", "--json")
    assert again.out == more.out, "a study keeps its latest number of trials"
    refused = molattn("tune", "--resume", folder, "--epochs", "9")
    assert refused.code == 2 and "has its own settings" in refused.err
    for options, name in ((("--pruner", "none"), "pruner"), (("--search", "training.ema=0.5..0.9"), "search")):
        refused = molattn("tune", "--resume", folder, *options)
        assert refused.code == 2 and f"was started with other settings of {name}" in refused.err
    settings = (folder / "tune.toml").read_text()
    (folder / "tune.toml").write_text(settings.replace("pruner =", "other ="))
    refused = molattn("tune", "--resume", folder)
    assert refused.code == 2 and "tune.toml is damaged, it has no 'pruner'" in refused.err
    (folder / "tune.toml").write_text(settings.replace("num_trials = 5", "num_trials = 'x'"))
    refused = molattn("tune", "--resume", folder)
    assert refused.code == 2 and "tune.toml is damaged, num_trials is not a number" in refused.err


def test_a_study_without_a_model_is_an_error(
    molattn: Molattn, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from molattn.training import trial as trial_module

    def fail(*_: object) -> float:
        raise InputError("no epoch had a finite validation loss")

    monkeypatch.setattr(trial_module, "_objective", fail)
    result = molattn("tune", table, *QUICK, *WHERE, "--num-trials", "2", "-o", tmp_path / "study", "-q")
    assert result.code == 3 and "none of the 2 trials had a model" in result.err
    assert "trial 0: no epoch had a finite validation loss" in result.err


def test_the_first_trial_is_the_default_and_the_search_keeps_its_base(
    molattn: Molattn, table: Path, tmp_path: Path
) -> None:
    quick = ("--epochs", "1", "--accelerator", "cpu")
    result = molattn("tune", table, *quick, "--num-trials", "2", "-o", tmp_path / "study")
    assert result.code == 0, result.err
    assert "training starts from the base model nci" in result.err
    first, second = _trials(tmp_path / "study")
    searched = {name: first[name] for name in first if name.startswith(("model.", "training."))}
    assert set(searched) == {
        "model.dropout",
        "training.learning_rate",
        "training.weight_decay",
        "training.batch_size",
    }
    assert (first["is_default"], second["is_default"]) == ("yes", "no")
    # The settings and the result of `molattn train` with the same options.
    assert molattn("train", table, *quick, "-o", tmp_path / "run", "-q").code == 0
    config = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert config["training"]["base"] == "nci"
    for name, value in searched.items():
        section, key = name.split(".")
        assert float(value) == config[section][key]
    (row,) = csv.DictReader((tmp_path / "run" / "history.csv").open())
    assert float(first["val_rmse"]) == pytest.approx(float(row["val_rmse"]), rel=1e-6)
    # The best of them trains as it was tried.
    assert tomllib.loads((tmp_path / "study" / "best.toml").read_text())["training"]["base"] == "nci"
    assert molattn("train", "--config", tmp_path / "study" / "best.toml", "-o", tmp_path / "best", "-q").code == 0
    (row,) = csv.DictReader((tmp_path / "best" / "history.csv").open())
    best = min(float(t["val_rmse"]) for t in (first, second))
    assert float(row["val_rmse"]) == pytest.approx(best, rel=1e-6)
    assert f"default  {float(first['val_rmse']):.4g}" in result.out


@pytest.mark.parametrize("better", [False, True])
def test_the_best_trial_is_printed_with_the_default(
    molattn: Molattn, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, better: bool
) -> None:
    from molattn.training import trial as trial_module

    tried = []

    def objective(config: RunConfig, *_: object) -> float:
        tried.append(config)
        return {0: 1.0, 2: 0.5 if better else 1.0}.get(len(tried) - 1, 1.5)

    monkeypatch.setattr(trial_module, "_objective", objective)
    folder = tmp_path / "study"
    result = molattn("tune", table, *QUICK, "--set", "training.ema=0.9", *WHERE, "--num-trials", "4", "-o", folder)
    assert result.code == 0, result.err
    assert "Validation RMSE of 4 trials:" in result.out and "default  1   (" in result.out
    best = tomllib.loads((folder / "best.toml").read_text())
    if better:
        assert "best     0.5   (trial 2)" in result.out
        rate = tried[2].training.learning_rate
        assert f"training.learning_rate = {rate:.4g}   (default 0.001)" in result.out
        assert best["training"]["learning_rate"] == rate
    else:
        assert "No trial was better than the default: best.toml has the default settings." in result.out
        assert "learning_rate" not in best["training"] and "readout" not in best["model"]
    assert best["training"]["ema"] == 0.9
    # `molattn train` with best.toml reproduces the trial.
    resolved, _ = resolve_initialization(resolve(folder / "best.toml", {}))
    expected = tried[2 if better else 0]
    assert (resolved.model, resolved.training) == (expected.model, expected.training)


def test_a_setting_that_the_base_fixes_is_searched_from_scratch(
    molattn: Molattn, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from molattn.training import trial as trial_module

    tried = []

    def objective(config: RunConfig, dataset: PreparedDataset, *_: object) -> float:
        tried.append((config, dataset))
        return 1.0 / len(tried)

    monkeypatch.setattr(trial_module, "_objective", objective)
    arguments = ("tune", table, "--search", "model.hidden_dim=[16, 24]", "--num-trials", "3")
    result = molattn(*arguments, "-o", tmp_path / "a")
    assert result.code == 0, result.err
    assert "all trials but the first, the default, train from scratch: the base model nci fixes model.hid" in result.err
    assert [config.training.base for config, _ in tried] == ["nci", "none", "none"]
    assert [config.training.epochs for config, _ in tried] == [40, 100, 100]
    assert [config.model.hidden_dim in (16, 24) for config, _ in tried] == [False, True, True]
    # From scratch the model reads descriptors, as `molattn train --base none` has it.
    assert [dataset.descriptors is None for _, dataset in tried] == [True, False, False]
    best = tomllib.loads((tmp_path / "a" / "best.toml").read_text())
    assert best["training"]["base"] == "none" and best["model"] == {"hidden_dim": tried[2][0].model.hidden_dim}
    refused = molattn(*arguments, "--base", "nci", "-o", tmp_path / "b")
    assert refused.code == 2
    assert "--search model.hidden_dim: the base model nci fixes this setting" in refused.err
    assert not (tmp_path / "b").exists()
    tried.clear()
    result = molattn("tune", table, "--base", "none", "--num-trials", "2", "-o", tmp_path / "c")
    assert result.code == 0 and "training starts from scratch" in result.err
    assert {"model.hidden_dim", "model.num_layers"} <= set(_trials(tmp_path / "c")[0])


def test_two_processes_share_the_trials_of_a_study(
    molattn: Molattn, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from molattn.training import study as study_module
    from molattn.training import trial as trial_module

    folder, total = tmp_path / "study", ("-q", "--json")
    others: list[subprocess.Popen[str]] = []
    # Imported here, after `importorskip`.
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    real = trial_module._objective

    def objective(*arguments: Any) -> float:
        # While the first trial runs here, another process resumes the study, and runs two of the four.
        if not others:
            command = (sys.executable, "-m", "molattn", "tune", "--resume", str(folder), *total)
            others.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            while not (folder / "trials.csv").exists() or sum(t["state"] == "complete" for t in _trials(folder)) < 2:
                assert others[0].poll() is None, others[0].communicate()
                time.sleep(0.05)
        return real(*arguments)

    monkeypatch.setattr(trial_module, "_objective", objective)
    monkeypatch.setattr(study_module, "POLLING_INTERVAL", 0.05)
    result = molattn("tune", table, *QUICK, *WHERE, "--num-trials", "4", *total, "-o", folder)
    out, err = others[0].communicate(timeout=300)
    assert result.code == 0 and others[0].returncode == 0, (result.err, err)
    trials = _trials(folder)
    assert [t["trial"] for t in trials] == ["0", "1", "2", "3"]
    assert [t["state"] for t in trials] == ["complete"] * 4
    assert len({t["training.learning_rate"] for t in trials}) == 4
    assert json.loads(result.out) == json.loads(out)
    study = optuna.load_study(
        study_name="molattn", storage=JournalStorage(JournalFileBackend(str(folder / STUDY_JOURNAL)))
    )
    assert len({t.user_attrs["process"] for t in study.trials}) == 2
    assert not list(folder.glob(".process-*"))


def test_poor_trials_are_pruned(molattn: Molattn, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from molattn.training import tune as tune_module

    monkeypatch.setattr(
        tune_module, "make_pruner", lambda *_: optuna.pruners.ThresholdPruner(upper=0.0, n_warmup_steps=0)
    )  # every value above 0 is poor
    result = molattn("tune", table, *QUICK, *WHERE, "--num-trials", "2", "-o", tmp_path / "study", "-q")
    assert result.code == 0, result.err
    trials = _trials(tmp_path / "study")
    # The default is never pruned.
    assert [(t["state"], t["epochs"]) for t in trials] == [("complete", "2"), ("pruned", "1")]


@pytest.mark.parametrize(("name", "kind"), [("median", "MedianPruner"), ("hyperband", "HyperbandPruner")])
def test_pruners_are_optunas(name: str, kind: str) -> None:
    from molattn.training.trial import make_pruner

    assert type(make_pruner(name, 50)).__name__ == kind


def test_incompatible_settings_are_a_trial_without_a_value(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    arguments = ("--search", "model.num_heads=[4, 5]", "--num-trials", "6", "-o", tmp_path / "s", "-q")
    result = molattn("tune", table, *QUICK, *arguments)
    assert result.code == 0, result.err
    trials = _trials(tmp_path / "s")
    assert all((t["model.num_heads"] == "5") == bool(t["error"]) for t in trials)
    best = tomllib.loads((tmp_path / "s" / "best.toml").read_text())["model"]
    assert best.get("num_heads", 8) in (4, 8)


def test_search_space() -> None:
    config = RunConfig()
    texts = ["model.num_layers=2..6", "training.learning_rate=1e-4..1e-2", "model.dropout=0.0..0.5", "model.add=1"]
    space = search_space(texts[:3], config)
    assert space["model.num_layers"] == NumericRange(2, 6, True, False)
    assert space["training.learning_rate"] == NumericRange(1e-4, 1e-2, False, True)
    assert space["model.dropout"] == NumericRange(0.0, 0.5, False, False)
    assert search_space(["model.readout=['mean', 'sum']"], config) == {"model.readout": Categorical(("mean", "sum"))}
    assert "model.readout" in search_space([], config)
    # Around a base model, whose sizes are fixed.
    around = search_space([], resolve(None, {"base": "nci"}))
    assert set(around) == {name for name in search_space([], config) if not name.startswith("model.")} | {
        "model.dropout"
    }
    tokens = resolve(None, {"model": "smiles-transformer"})
    assert "model.readout" not in search_space([], tokens) and "model.dropout" in search_space([], tokens)
    for text, reason in (
        ("model.num_layers", "write section.setting="),
        ("model.layers=2..6", "unknown setting of \\[model\\] 'layers'"),
        ("model.num_layers=6..2", "from a lower to a higher number"),
        ("model.num_layers=[2]", "a list of two values or more"),
        ("model.num_layers=['two', 'three']", "takes a whole number"),
        ("data.split=['random', 'scaffold']", "determines what is compared, and cannot be searched"),
        ("training.seed=[1, 2]", "determines what is compared, and cannot be searched"),
        ("training.base=['nci', 'none']", "determines what is compared, and cannot be searched"),
    ):
        with pytest.raises(UsageError, match=reason):
            search_space([text], config)


def test_targets_of_atoms_are_tuned_without_descriptors(molattn: Molattn, tmp_path: Path) -> None:
    table = tmp_path / "atoms.csv"
    smiles = [s for s in esol(60)[0] if "[" not in s][:30]
    rows = [f'{s},"{[float(a.GetDegree()) for a in read_smiles(s).GetAtoms()]}"' for s in smiles]
    table.write_text("\n".join(["smiles,y", *rows]) + "\n")
    result = molattn("tune", table, *QUICK, *WHERE, "--num-trials", "1", "-o", tmp_path / "study", "-q")
    assert result.code == 0, result.err
    best = tomllib.loads((tmp_path / "study" / "best.toml").read_text())
    assert best["training"]["base"] == "none" and best["data"] == {"dataset": str(table)}


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda line: line.replace('"op_code":0', '"op_code":99'), "AssertionError"),
        (lambda line: line.replace('"study_name"', '"name"'), "KeyError"),
        (lambda _: "[]", "TypeError"),
    ],
)
def test_a_damaged_journal_is_reported(
    damage: Callable[[str], str], why: str, molattn: Molattn, table: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "study"
    assert molattn("tune", table, *QUICK, *WHERE, "--num-trials", "1", "-o", folder, "-q").code == 0
    journal = folder / STUDY_JOURNAL
    first, *others = journal.read_text().splitlines()
    assert damage(first) != first
    journal.write_text("\n".join([damage(first), *others]) + "\n")
    result = molattn("tune", "--resume", folder, "--num-trials", "2", "-q")
    assert result.code == 3 and result.err.count("\n") == 1, result.err
    assert f"{STUDY_JOURNAL} is damaged" in result.err and why in result.err
