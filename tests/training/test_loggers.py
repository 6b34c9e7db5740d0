"""Loggers: what they are given, what those of molattn write, and that none of them can end a training."""

import csv
import importlib.util
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import clone

from molattn.errors import MissingExtra, MolattnWarning, UsageError
from molattn.sklearn import MolAttentionRegressor
from molattn.training.callbacks import Callback
from molattn.training.loggers import (
    LOGGERS,
    CSVLogger,
    LoggedRun,
    Logger,
    MLFlowLogger,
    Status,
    TensorBoardLogger,
    WandbLogger,
    build_loggers,
)
from molattn.training.loggers.run_log import STATE_FILE
from molattn.training.run_config import check_config, resolve
from tests.molecules import esol
from tests.training.runs import TINY, StopIn, resume, same_runs
from tests.training.runs import train_forty as train

EPOCH = {"train_loss", "val_loss", "val_rmse", "learning_rate", "seconds"}


@pytest.fixture(autouse=True)
def _in_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


class Diary(Logger):
    """Records each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def open(self, run: LoggedRun) -> str:
        self.calls.append(("open", run))
        return f"id of {run.name}"

    def log_settings(self, settings: Mapping[str, Any]) -> None:
        self.calls.append(("settings", dict(settings)))

    def log_metrics(self, metrics: Mapping[str, float], epoch: int) -> None:
        self.calls.append(("metrics", epoch, dict(metrics)))

    def log_artifact(self, path: Path) -> None:
        assert path.exists()
        self.calls.append(("artifact", path))

    def close(self, status: Status) -> None:
        self.calls.append(("close", status))

    def of(self, kind: str) -> list[Any]:
        return [call[1] if len(call) == 2 else call[1:] for call in self.calls if call[0] == kind]


@pytest.mark.finished_runs
def test_a_logger_of_ones_own_gets_settings_epochs_results_and_files() -> None:
    diary = Diary()
    run = train(logger=diary)
    kinds = [call[0] for call in diary.calls]
    assert kinds[:5] == ["open", "settings", "metrics", "metrics", "metrics"] and kinds[-1] == "close"
    assert diary.of("open") == [LoggedRun("run", Path("run"))] and diary.of("close") == ["finished"]
    (settings,) = diary.of("settings")
    assert settings["training.epochs"] == 2 and settings["model.hidden_dim"] == 8
    *epochs, (best, results) = diary.of("metrics")
    for (epoch, metrics), record in zip(epochs, run.history, strict=True):
        assert metrics.keys() == EPOCH and epoch == record.epoch and metrics["seconds"] > 0
        assert (metrics["train_loss"], metrics["val_loss"]) == (record.train_loss, record.val_loss)
        assert (metrics["val_rmse"], metrics["learning_rate"]) == (record.val_metric, record.learning_rate)
    measured = run.metrics["test"]["y"]
    assert best == run.metrics["best_epoch"] and results == {f"test_{m}": measured[m] for m in measured if m != "n"}
    files = {path.relative_to("run").as_posix() for path in diary.of("artifact")}
    assert files == {
        *("config.toml", "metrics.json", "env.json", "model", "plots/learning_curve.png", "plots/parity.png")
    }


def test_several_targets_have_their_mean_and_their_own_test_metrics() -> None:
    diary = Diary()
    run = train(targets=2, logger=[diary], metrics=["rmse"])
    wanted = {f"test_rmse/{t}": run.metrics["test"][t]["rmse"] for t in ("y", "z")}
    assert diary.of("metrics")[-1][1] == {"test_rmse": run.metrics["mean"]["test"]["rmse"], **wanted}


def test_an_undefined_test_metric_is_not_a_number() -> None:
    diary = Diary()
    run = train(logger=diary, metrics=["r2", "rmse"], settings=[*TINY, "data.split_sizes=[0.8, 0.175, 0.025]"])
    assert run.metrics["test"]["y"]["r2"] is None and run.metrics["test"]["y"]["n"] == 1
    assert math.isnan(diary.of("metrics")[-1][1]["test_r2"])


def test_the_logged_training_is_that_without_loggers() -> None:
    train("plain")
    train("logged", logger=["csv", Diary()])
    for name in ("model/model.safetensors", "history.csv", "metrics.json", "predictions.csv"):
        assert Path("plain", name).read_bytes() == Path("logged", name).read_bytes(), name


@pytest.mark.parametrize("method", ["open", "log_settings", "log_metrics", "log_artifact", "close"])
def test_a_logger_that_fails_is_named_in_a_warning_and_the_training_goes_on(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Diary):
        pass

    def fail(self: Broken, *_: object) -> None:
        self.calls.append((method,))
        raise OSError("the disk is full")

    monkeypatch.setattr(Broken, method, fail)
    broken, whole = Broken(), Diary()
    message = rf"the logger Broken failed in {method}, OSError: the disk is full; the training continues without it"
    with pytest.warns(MolattnWarning, match=message) as caught:
        run = train(logger=[broken, whole])
    assert len([w for w in caught if w.category is MolattnWarning]) == 1
    assert "rmse" in run.metrics["test"]["y"] and len(whole.of("metrics")) == 3
    # It is closed unless closing failed, and not called again.
    assert [call[0] for call in broken.calls].count(method) == 1
    assert broken.calls[-1] == ((method,) if method == "close" else ("close", "failed"))


def test_an_error_or_an_interruption_of_the_training_is_logged() -> None:
    for error, status in ((KeyboardInterrupt, "interrupted"), (ZeroDivisionError, "failed")):
        diary = Diary()
        with pytest.raises(error):
            train(status, callbacks=[StopIn(2, error)], logger=[diary, "csv"])
        assert diary.of("close") == [status] and not diary.of("artifact")


def test_a_resumed_run_is_appended_and_repeats_no_epoch() -> None:
    first, second = Diary(), Diary()
    options: dict[str, Any] = {"epochs": 6, "checkpoint_every": 2}
    train("whole", logger=["csv", Diary()], **options)
    with pytest.raises(KeyboardInterrupt):
        train(logger=["csv", first], callbacks=[StopIn(5)], **options)
    # The last checkpoint is that of epoch 4, and epoch 5 was logged before the interruption.
    resume(Path("run"), logger=second, callbacks=[StopIn(9)])
    assert second.of("open") == [LoggedRun("run", Path("run"), epoch=5, id="id of run")]
    assert [epoch for epoch, _ in first.of("metrics")] == [1, 2, 3, 4, 5]
    assert [epoch for epoch, metrics in second.of("metrics") if "val_loss" in metrics] == [6]
    rows = {name: _table(Path(name, "csv", "metrics.csv")) for name in ("run", "whole")}
    assert [row.pop("epoch") for row in rows["run"]] == list("123456")
    for run, whole in zip(rows["run"], rows["whole"], strict=True):
        del run["seconds"], whole["seconds"]
        assert {k: v for k, v in run.items() if v} == {k: v for k, v in whole.items() if v and k != "epoch"}


def test_a_run_is_resumed_with_other_loggers_too_and_a_damaged_state_begins_anew() -> None:
    with pytest.raises(KeyboardInterrupt):
        train(logger="csv", callbacks=[StopIn(2)], epochs=3)
    Path("run", STATE_FILE).write_text('[{"logger": "csv", "epoch": -1}]')
    diary = Diary()
    resume(Path("run"), logger=[diary], callbacks=[StopIn(9)])
    assert diary.of("open") == [LoggedRun("run", Path("run"))]
    assert [epoch for epoch, _ in diary.of("metrics")][:2] == [2, 3]


def test_each_member_of_an_ensemble_is_logged_on_its_own_and_then_the_ensemble() -> None:
    diary = Diary()
    run = train(ensemble_size=2, logger=["csv", diary])
    assert [(r.name, r.part) for r in diary.of("open")] == [
        *(("run/member_0", "member_0"), ("run/member_1", "member_1"), ("run", "")),
    ]
    assert diary.of("close") == ["finished"] * 3 and len(diary.of("metrics")) == 5
    members = [_table(Path("run", "csv", f"member_{i}", "metrics.csv")) for i in range(2)]
    assert [len(rows) for rows in members] == [2, 2] and members[0] != members[1]
    (of_ensemble,) = _table(Path("run", "csv", "metrics.csv"))
    assert float(of_ensemble["test_rmse"]) == run.metrics["test"]["y"]["rmse"]


def test_a_finished_member_is_not_logged_again() -> None:
    diary = Diary()
    calls = 0

    class StopInSecond(Callback):
        def on_epoch_end(self, learner: Any, record: Any) -> None:  # noqa: ARG002
            nonlocal calls
            calls += 1
            if calls == 4:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(ensemble_size=2, logger=Diary(), callbacks=[StopInSecond()])
    resume(Path("run"), logger=diary, callbacks=[StopInSecond()])
    assert [(r.part, r.epoch) for r in diary.of("open")] == [("member_1", 2), ("", 0)]


def test_each_run_of_folds_and_replicates_is_logged_by_its_name() -> None:
    diary = Diary()
    train("runs", num_replicates=2, logger=["csv", diary])
    assert [r.name for r in diary.of("open")] == ["runs/replicate_0", "runs/replicate_1"]
    assert diary.of("close") == ["finished"] * 2
    assert all(len(_table(Path("runs", f"replicate_{i}", "csv", "metrics.csv"))) == 2 for i in range(2))
    # One logger object writes a separate folder for each run.
    train("again", num_replicates=2, logger=CSVLogger("elsewhere"))
    assert all(Path("elsewhere", "again", f"replicate_{i}", "metrics.csv").is_file() for i in range(2))


# The loggers of molattn


def _table(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_table_of_the_csv_logger_has_a_line_for_each_epoch() -> None:
    run = train(logger="csv")
    rows = _table(Path("run", "csv", "metrics.csv"))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    assert [float(row["val_loss"]) for row in rows] == [r.val_loss for r in run.history]
    best = rows[run.metrics["best_epoch"] - 1]
    assert float(best["test_rmse"]) == run.metrics["test"]["y"]["rmse"]
    assert json.loads(Path("run", "csv", "settings.json").read_text())["training.epochs"] == 2


# What can be given


def test_names_objects_and_lists_of_them_are_given_in_python_and_others_refused() -> None:
    for wrong in (3, Logger, object()):
        with pytest.raises(UsageError, match=r"is no logger: give a name, one of csv, tensorboard"):
            train(logger=wrong)
    with pytest.raises(UsageError, match=r"unknown logger 'tensorbord': .*did you mean 'tensorboard'\?"):
        train(logger="tensorbord")
    with pytest.raises(UsageError, match="the logger csv is given twice"):
        train(logger=["csv", "csv"])
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("tensorboard", "tensorboard", "tensorboard"),
        ("mlflow", "mlflow", "mlflow-skinny"),
        ("mlflow", "alembic", "alembic"),
        ("wandb", "wandb", "wandb"),
    ],
)
def test_a_missing_package_is_one_sentence_before_the_training(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, package: str
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr("molattn.training.loggers.packages.find_spec", lambda n: None if n == module else find("json"))
    with pytest.raises(MissingExtra) as error:
        check_config(resolve(None, {"logger": (name,)}))
    assert str(error.value) == f"the logger {name} needs {package}: pip install 'molattn[{name}]'"
    with pytest.raises(MissingExtra):
        train(logger=name)
    assert not Path("run").exists()


def test_the_names_are_those_of_the_help() -> None:
    assert {name: type(logger) for name, logger in zip(LOGGERS, build_loggers(list(LOGGERS)), strict=True)} == {
        "csv": CSVLogger,
        "tensorboard": TensorBoardLogger,
        "mlflow": MLFlowLogger,
        "wandb": WandbLogger,
    }
    from molattn.training.config import LOGGER_NAMES

    assert tuple(LOGGERS) == LOGGER_NAMES


def test_a_logger_of_a_plugin_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    diary = Diary()
    monkeypatch.setitem(LOGGERS, "diary", lambda: diary)
    train(settings=[*TINY, "training.logger=['diary']"])
    assert diary.of("close") == ["finished"]


def test_an_estimator_logs_each_fit_into_a_folder_of_its_own() -> None:
    smiles, y = esol(20)
    diary = Diary()
    options: dict[str, Any] = {"settings": TINY, "epochs": 2, "accelerator": "cpu"}
    regressor = MolAttentionRegressor(logger=["csv", diary], **options)
    for number in (1, 2):
        regressor.fit(smiles, y)
        rows = _table(Path("logs", f"fit-{number}", "csv", "metrics.csv"))
        assert [float(row["val_loss"]) for row in rows] == [record["val_loss"] for record in regressor.history_]
    assert [run.name for run in diary.of("open")] == ["fit-1", "fit-2"] and diary.of("close") == ["finished"] * 2
    copy = clone(regressor).logger
    assert copy[0] == "csv" and isinstance(copy[1], Diary) and copy[1] is not diary
    with pytest.raises(ValueError, match="unknown logger 'cvs'"):
        MolAttentionRegressor(logger="cvs", **options).fit(smiles, y)


def test_a_resumed_run_without_loggers_has_no_file_of_them() -> None:
    train("whole")
    assert not Path("whole", STATE_FILE).exists() and not Path("logs").exists()
    with pytest.raises(KeyboardInterrupt):
        train("stopped", callbacks=[StopIn(2)])
    resume(Path("stopped"), callbacks=[StopIn(9)])
    same_runs(Path("whole"), Path("stopped"))
