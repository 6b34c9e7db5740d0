"""`molattn tune`: trials by their validation metric, pruning, and resumption."""

import csv
import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from molattn.chem import read_smiles
from molattn.errors import UsageError
from molattn.training.config import RunConfig, resolve
from molattn.training.search_space import Categorical, NumericRange, search_space
from molattn.training.tune import STUDY
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
    answer = molattn("tune", table, *QUICK, *WHERE, "--num-trials", "4", "--pruner", "none", "-o", folder)
    assert answer.code == 0, answer.err
    assert "trial 4 of 4 finished: best" in answer.err
    assert f"molattn train --config {folder / 'best.toml'}" in answer.out
    trials = _trials(folder)
    assert [t["state"] for t in trials] == ["complete"] * 4
    values = [float(t["val_rmse"]) for t in trials]
    best = trials[values.index(min(values))]
    config = tomllib.loads((folder / "best.toml").read_text())
    assert config["training"]["learning_rate"] == float(best["training.learning_rate"])
    assert config["model"]["readout"] == best["model.readout"]
    assert 1e-4 <= config["training"]["learning_rate"] <= 1e-2 and config["training"]["epochs"] == 2
    # What `molattn train` makes of it is what the trial was worth: the validation metric of its best epoch.
    run = tmp_path / "run"
    assert molattn("train", "--config", folder / "best.toml", "-o", run, "-q").code == 0
    history = [row for row in csv.DictReader((run / "history.csv").open()) if row["best"] == "True"]
    assert float(history[-1]["val_rmse"]) == pytest.approx(min(values), rel=1e-6)


def test_trials_are_compared_by_the_tracked_metric(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    names = ("--metric", "rmse", "--metric", "mae", "--tracking-metric", "mae")
    folder, run = tmp_path / "study", tmp_path / "run"
    answer = molattn("tune", table, *QUICK, *WHERE, *names, "--num-trials", "1", "-o", folder, "--json", "-q")
    assert answer.code == 0, answer.err
    (trial,), found = _trials(folder), json.loads(answer.out)
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
        answer = molattn("tune", path, *QUICK, *WHERE, *arguments)
        assert answer.code == 0, answer.err
        found.append(json.loads(answer.out))
    assert found[0]["value"] == found[1]["value"] and found[0]["values"] == found[1]["values"]


def test_an_interrupted_study_can_be_resumed(
    molattn: Molattn, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from molattn.training import tune as tune_module

    folder, real, count = tmp_path / "study", tune_module.fit_ensemble, 0

    def interrupted(*arguments: object, **options: object) -> object:
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return real(*arguments, **options)  # pyright: ignore

    with monkeypatch.context() as patch:
        patch.setattr(tune_module, "fit_ensemble", interrupted)
        answer = molattn("tune", table, *QUICK, *WHERE, "--num-trials", "4", "-o", folder, "-q")
    assert answer.code == 130 and not (folder / "best.toml").exists()
    before = _trials(folder)
    assert len(before) == 2
    again = molattn("tune", table, *QUICK, "-o", folder, "-q")
    assert again.code == 2 and f"--resume {folder} continues it" in again.err
    answer = molattn("tune", "--resume", folder, "--num-trials", "4", "-q", "--json")
    assert answer.code == 0, answer.err
    trials = _trials(folder)
    assert trials[:2] == before
    # The one that was killed is tried again, with the same settings.
    assert [t["state"] for t in trials] == ["complete", "complete", "fail", "complete", "complete"]
    assert trials[3]["training.learning_rate"] == trials[2]["training.learning_rate"]
    assert json.loads(answer.out)["trials"] == 4
    more = molattn("tune", "--resume", folder, "--num-trials", "5", "-q", "--json")
    assert json.loads(more.out)["trials"] == 5
    refused = molattn("tune", "--resume", folder, "--epochs", "9")
    assert refused.code == 2 and "has its own settings" in refused.err
    for options, name in ((("--pruner", "none"), "pruner"), (("--search", "training.ema=0.5..0.9"), "search")):
        refused = molattn("tune", "--resume", folder, *options)
        assert refused.code == 2 and f"was started with other settings of {name}" in refused.err
    settings = (folder / "tune.toml").read_text()
    (folder / "tune.toml").write_text(settings.replace("pruner =", "other ="))
    refused = molattn("tune", "--resume", folder)
    assert refused.code == 2 and "tune.toml is damaged, it has no 'pruner'" in refused.err


def test_poor_trials_are_pruned(molattn: Molattn, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from molattn.training import tune as tune_module

    monkeypatch.setattr(
        tune_module, "_pruner", lambda *_: optuna.pruners.ThresholdPruner(upper=0.0, n_warmup_steps=0)
    )  # whatever is above 0 is poor
    answer = molattn("tune", table, *QUICK, *WHERE, "--num-trials", "2", "-o", tmp_path / "study", "-q")
    assert answer.code == 3 and "none of the 2 trials had a model" in answer.err
    trials = _trials(tmp_path / "study")
    assert [(t["state"], t["epochs"]) for t in trials] == [("pruned", "1")] * 2


@pytest.mark.parametrize(("name", "kind"), [("median", "MedianPruner"), ("hyperband", "HyperbandPruner")])
def test_pruners_are_optunas(name: str, kind: str) -> None:
    from molattn.training.tune import _pruner

    assert type(_pruner(name, 50)).__name__ == kind


def test_incompatible_settings_are_a_trial_without_a_value(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    arguments = ("--search", "model.num_heads=[4, 5]", "--num-trials", "6", "-o", tmp_path / "s", "-q")
    answer = molattn("tune", table, *QUICK, *arguments)
    assert answer.code == 0, answer.err
    trials = _trials(tmp_path / "s")
    assert all((t["model.num_heads"] == "5") == bool(t["error"]) for t in trials)
    assert tomllib.loads((tmp_path / "s" / "best.toml").read_text())["model"]["num_heads"] == 4


def test_search_space() -> None:
    config = RunConfig()
    texts = ["model.num_layers=2..6", "training.learning_rate=1e-4..1e-2", "model.dropout=0.0..0.5", "model.add=1"]
    space = search_space(texts[:3], config)
    assert space["model.num_layers"] == NumericRange(2, 6, True, False)
    assert space["training.learning_rate"] == NumericRange(1e-4, 1e-2, False, True)
    assert space["model.dropout"] == NumericRange(0.0, 0.5, False, False)
    assert search_space(["model.readout=['mean', 'sum']"], config) == {"model.readout": Categorical(("mean", "sum"))}
    assert "model.readout" in search_space([], config)
    tokens = resolve(None, {"model": "smiles-transformer"})
    assert "model.readout" not in search_space([], tokens) and "model.dropout" in search_space([], tokens)
    for text, reason in (
        ("model.num_layers", "write section.setting="),
        ("model.layers=2..6", "has no setting 'layers'"),
        ("model.num_layers=6..2", "from a lower to a higher number"),
        ("model.num_layers=[2]", "a list of two values or more"),
        ("model.num_layers=['two', 'three']", "takes a whole number"),
        ("data.split=['random', 'scaffold']", "determines what is compared, and cannot be searched"),
        ("training.seed=[1, 2]", "determines what is compared, and cannot be searched"),
    ):
        with pytest.raises(UsageError, match=reason):
            search_space([text], config)


def test_targets_of_atoms_are_tuned_without_descriptors(molattn: Molattn, tmp_path: Path) -> None:
    table = tmp_path / "atoms.csv"
    smiles = [s for s in esol(60)[0] if "[" not in s][:30]
    rows = [f'{s},"{[float(a.GetDegree()) for a in read_smiles(s).GetAtoms()]}"' for s in smiles]
    table.write_text("\n".join(["smiles,y", *rows]) + "\n")
    answer = molattn("tune", table, *QUICK, *WHERE, "--num-trials", "1", "-o", tmp_path / "study", "-q")
    assert answer.code == 0, answer.err
    best = tomllib.loads((tmp_path / "study" / "best.toml").read_text())
    assert best["training"]["auxiliary"] == 0


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
    journal = folder / STUDY
    first, *others = journal.read_text().splitlines()
    assert damage(first) != first
    journal.write_text("\n".join([damage(first), *others]) + "\n")
    answer = molattn("tune", "--resume", folder, "--num-trials", "2", "-q")
    assert answer.code == 3 and answer.err.count("\n") == 1, answer.err
    assert f"{STUDY} is damaged" in answer.err and why in answer.err
