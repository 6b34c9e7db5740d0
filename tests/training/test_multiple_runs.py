"""Folds and replicates: complete runs, and their aggregated metrics."""

import csv
import json
import shutil
import statistics
from pathlib import Path

import pytest

import molattn
from molattn.errors import InputError, UsageError
from molattn.training.multiple_runs import aggregate, planned_runs
from molattn.training.run_config import resolve
from tests.molecules import esol

SMALL = ["model.num_layers=1", "model.hidden_dim=16"]
OPTIONS = {"epochs": 2, "accelerator": "cpu", "quiet": True, "settings": SMALL}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("several") / "t.csv"
    rows = [f"{s},{y}" for s, y in zip(*esol(45), strict=True)]
    path.write_text("\n".join(["smiles,y", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def folds(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("folds") / "run"
    result = molattn.train(table, output_dir=folder, num_folds=3, **OPTIONS)
    assert result.folder == folder
    assert list(result.runs) == ["fold_0", "fold_1", "fold_2"]
    return folder


def _sides(run: Path) -> list[str]:
    with open(run / "splits.csv", newline="") as file:
        return [row["split"] for row in csv.DictReader(file)]


def test_every_molecule_is_tested_in_one_fold(folds: Path) -> None:
    sides = [_sides(folds / f"fold_{fold}") for fold in range(3)]
    assert all(row.count("test") == 1 for row in zip(*sides, strict=True))
    for labels in sides:
        assert [labels.count(side) for side in ("train", "val", "test")] == pytest.approx([27, 3, 15], abs=1)


@pytest.mark.finished_runs
def test_the_metrics_are_mean_and_deviation_of_all_runs(folds: Path) -> None:
    metrics = json.loads((folds / "metrics.json").read_text())
    runs = [json.loads((folds / name / "metrics.json").read_text()) for name in metrics["runs"]]
    for side in ("train", "val", "test"):
        for name in ("rmse", "mae", "r2", "n"):
            values = [run[side]["y"][name] for run in runs]
            assert metrics[side]["y"][name] == {
                "mean": statistics.fmean(values),
                "std": statistics.stdev(values),
                "values": values,
            }
    assert metrics["baseline"]["test"]["y"]["rmse"]["mean"] > 0
    assert metrics["baseline"]["what"] == "the mean of the training targets"
    assert metrics["units"] == {"y": ""}
    for name in metrics["runs"]:
        assert (folds / name / "plots" / "parity.png").is_file()
        assert molattn.load(folds / name).targets == ("y",)
    with pytest.raises(InputError, match=r"holds 3 runs with a model each: give one of them, such as .*fold_0"):
        molattn.load(folds)


def test_the_configuration_of_a_fold_repeats_that_fold(folds: Path, tmp_path: Path) -> None:
    result = molattn.train(
        config=folds / "fold_1" / "config.toml", output_dir=tmp_path / "again", quiet=True, settings=()
    )
    assert result.folder == tmp_path / "again"
    for name in ("metrics.json", "splits.csv", "predictions.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (folds / "fold_1" / name).read_bytes()


def test_replicates_have_the_next_seeds(table: Path, tmp_path: Path) -> None:
    molattn.train(table, output_dir=tmp_path / "three", num_replicates=2, seed=4, **OPTIONS)
    molattn.train(table, output_dir=tmp_path / "one", seed=5, **OPTIONS)
    metrics = json.loads((tmp_path / "three" / "metrics.json").read_text())
    assert metrics["runs"] == ["replicate_0", "replicate_1"]
    second, one = tmp_path / "three" / "replicate_1", tmp_path / "one"
    for name in ("metrics.json", "splits.csv", "config.toml", "model/model.safetensors"):
        assert (second / name).read_bytes() == (one / name).read_bytes()


def test_planned_runs() -> None:
    assert planned_runs(resolve(None, {"dataset": "esol"})) == {}
    assert planned_runs(resolve(None, {"num_folds": 5, "fold": 2})) == {}
    both = planned_runs(resolve(None, {"num_folds": 2, "num_replicates": 2, "seed": 3}))
    found = {name: (c.data.fold, c.training.seed, c.training.num_replicates) for name, c in both.items()}
    assert found == {
        "replicate_0_fold_0": (0, 3, 1),
        "replicate_0_fold_1": (1, 3, 1),
        "replicate_1_fold_0": (0, 4, 1),
        "replicate_1_fold_1": (1, 4, 1),
    }


def test_missing_numbers_have_no_mean() -> None:
    assert aggregate([{"r2": None}, {"r2": 1.0}]) == {"r2": {"mean": None, "std": None, "values": [None, 1.0]}}
    assert aggregate([{"r2": None}, {"r2": None}]) == {"r2": None}
    assert aggregate([{"why": "one"}, {"why": "two"}, {}]) == {"why": ["one", "two", None]}


def _stop(folder: Path, table: Path, epoch: int, **options: object) -> None:
    """Train folds; the `epoch`-th epoch of all is interrupted."""
    epochs = 0

    def count(*_: object) -> None:
        nonlocal epochs
        epochs += 1
        if epochs == epoch:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("molattn._train.PrintReporter.epoch", count)
        with pytest.raises(KeyboardInterrupt):
            molattn.train(table, output_dir=folder, num_folds=3, **{**OPTIONS, **options})


@pytest.mark.finished_runs
@pytest.mark.parametrize("epoch", [2, 3, 6])
def test_an_interruption_keeps_finished_folds_and_can_be_resumed(
    table: Path, folds: Path, tmp_path: Path, epoch: int
) -> None:
    run = tmp_path / "run"
    _stop(run, table, epoch)
    finished = [name for name in ("fold_0", "fold_1", "fold_2") if (run / name / "metrics.json").is_file()]
    assert len(finished) == (epoch - 1) // 2
    with pytest.raises(UsageError, match="holds an unfinished run: --resume"):
        molattn.train(table, output_dir=run, num_folds=3, **OPTIONS)
    with pytest.raises(InputError, match="holds an unfinished run"):
        molattn.load(run)
    times = {name: (run / name / "metrics.json").stat().st_mtime_ns for name in finished}
    molattn.train(resume=run, quiet=True)
    assert all((run / name / "metrics.json").stat().st_mtime_ns == time for name, time in times.items())
    for file in folds.rglob("*"):
        if file.is_file() and file.name != "env.json":
            assert file.read_bytes() == (run / file.relative_to(folds)).read_bytes(), file


def test_folds_of_a_target_with_bounds_are_resumed_as_they_were(tmp_path: Path) -> None:
    rows = [f"{s},{'>' if i % 4 == 1 else ''}{y}" for i, (s, y) in enumerate(zip(*esol(45), strict=True))]
    own = tmp_path / "own.csv"
    own.write_text("\n".join(["smiles,y [mol/L]", *rows]) + "\n")
    options = {**OPTIONS, "target_columns": "y"}
    whole = molattn.train(own, output_dir=tmp_path / "whole", num_folds=3, **options)
    tested = [metrics["test"]["y [mol/L]"] for metrics in whole.runs.values()]
    assert sum(m["censored"] for m in tested) == 11 and sum(m["n"] for m in tested) == 34
    run = tmp_path / "run"
    _stop(run, own, 4, target_columns="y")
    molattn.train(resume=run, quiet=True)
    assert (run / "metrics.json").read_bytes() == (tmp_path / "whole" / "metrics.json").read_bytes()


def test_an_immediate_interruption_leaves_no_folder(table: Path, tmp_path: Path) -> None:
    _stop(tmp_path / "run", table, 1)
    assert not (tmp_path / "run").exists()


def test_folds_of_other_settings_or_another_table_are_refused(table: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text(table.read_text())
    run = tmp_path / "run"
    _stop(run, own, 3)
    with pytest.raises(UsageError, match=r"training\.epochs was 2 and is 3 now"):
        molattn.train(resume=run, quiet=True, epochs=3)
    config = run / "config.toml"
    text = config.read_text()
    config.write_text(text.replace("batch_size = 32", "batch_size = 8"))
    with pytest.raises(UsageError, match=r"training\.batch_size was 32 and is 8 now"):
        molattn.train(resume=run, quiet=True)
    config.write_text(text)
    own.write_text(own.read_text().replace("\n", "\r\n"))
    with pytest.raises(InputError, match=r"the table has changed since .*fold_0"):
        molattn.train(resume=run, quiet=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_folds": 0}, "num_folds is 1 or more"),
        ({"num_replicates": 0}, "num_replicates is 1 or more"),
        ({"num_folds": 3, "fold": 3}, "fold is from 0 to num_folds - 1"),
        ({"num_folds": 3, "split": "kennard-stone"}, "has no folds"),
        ({"num_folds": 3, "splits_file": "x.csv"}, "splits_file is one split, not 3 folds"),
        ({"split_column": "y", "splits_file": "x.csv"}, "give one of them"),
    ],
)
def test_invalid_settings_are_refused(table: Path, tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        molattn.train(table, output_dir=tmp_path / "run", target_columns=["y"], **OPTIONS, **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("metrics.json", "", ""),
        ("metrics.json", "[1]", "the file is .* and must be an object"),
        ("metrics.json", '{"train": 3, "val": {}, "test": {}}', "train is 3, and must be an object with targets"),
        ("metrics.json", '{"train": {}, "val": {}}', "the file has no field 'test'"),
        ("metrics.json", "[" * 100_000, "nested too deeply"),
        ("env.json", "{}", "the file has no field 'data_sha256'"),
        ("env.json", '{"data_sha256": 3}', "data_sha256 is 3, and must be a string"),
        ("env.json", None, ""),
    ],
)
def test_a_damaged_file_of_a_finished_run_is_named(
    folds: Path, tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    run = Path(shutil.copytree(folds, tmp_path / "run"))
    (run / "metrics.json").unlink()
    if name == "env.json":  # read only if another run still has to be trained
        shutil.rmtree(run / "fold_2")
    path = run / "fold_0" / name
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(InputError, match=rf"fold_0/{name} is damaged, it cannot be read .*{message}") as raised:
        molattn.train(resume=run, quiet=True)
    assert "--resume trains it again" in str(raised.value) and "\n" not in str(raised.value)
