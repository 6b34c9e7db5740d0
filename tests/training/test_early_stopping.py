"""The epoch whose weights are restored: `EarlyStopping` on made-up epochs, and runs of the command line."""

import csv
import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from molattn.errors import UsageError
from molattn.training.config import TrainingConfig
from molattn.training.early_stopping import EarlyStopping, EpochRecord
from molattn.training.learner import Learner
from molattn.training.metrics import METRICS, TRAIN_LOSS, VAL_LOSS, check_tracking_metric, why_undefined
from tests.cli.conftest import Molattn
from tests.cli.conftest import molattn as molattn  # the fixture
from tests.molecules import esol
from tests.training.runs import interrupt, resume, same_runs, train_small

SMALL = ("--set", "model.num_layers=2", "--set", "model.hidden_dim=16", "--accelerator", "cpu", "--batch-size", "16")
JUMPY = ("training.learning_rate=0.03", "training.ema=0")
SMILES, VALUES = esol(60)


class Epoch(Learner):
    """What `EarlyStopping` reads from a learner after an epoch: its losses, its metric and its weights."""

    def __init__(self, number: int, loss: float, value: float, metric: str, train_loss: float = 1.0):
        nn.Module.__init__(self)
        weights = {"w": torch.full((2,), float(number))}
        self.value, self.metric = value, metric
        for name, content in (
            ("train_losses", SimpleNamespace(pop=lambda: train_loss)),
            ("val_losses", SimpleNamespace(pop=lambda: loss)),
            ("average", SimpleNamespace(module=SimpleNamespace(state_dict=lambda: weights))),
            ("optimizer", SimpleNamespace(param_groups=[{"lr": 0.1}])),
        ):
            setattr(self, name, content)

    def pop_metric(self) -> float:
        """The value given."""
        return self.value


def watched(values: list[float], tracking_metric: str, patience: int = 99, saves: bool = False) -> EarlyStopping:
    """`EarlyStopping` after these values of the tracked quantity; with `saves`, restored from JSON after each epoch."""

    def new() -> EarlyStopping:
        return EarlyStopping(patience, {"w": torch.zeros(2)}, tracking_metric)

    stopping = new()
    for epoch, value in enumerate(values):
        loss, metric = (value, 0.5) if tracking_metric == VAL_LOSS else (1.0, value)
        train_loss = value if tracking_metric == TRAIN_LOSS else 1.0
        name = "rmse" if tracking_metric in (VAL_LOSS, TRAIN_LOSS) else tracking_metric
        stop = stopping.update(epoch, Epoch(epoch + 1, loss, metric, name, train_loss))
        if stop:
            break
        if saves:
            saved, state = json.loads(json.dumps(stopping.to_dict())), stopping.best_weights
            stopping = new()
            stopping.restore(saved, state)
    return stopping


VALUES_OF_EPOCHS = st.lists(st.sampled_from([0.1, 0.25, 0.5, 0.75, math.nan]), min_size=1, max_size=12)


@given(VALUES_OF_EPOCHS, st.sampled_from([TRAIN_LOSS, "rmse", "auroc", "spearman", "mae"]))
def test_the_earliest_epoch_with_the_best_value_is_kept(values: list[float], name: str) -> None:
    stopping = watched(values, name)
    signed = np.array(values) * (1 if name != TRAIN_LOSS and METRICS[name].larger_is_better else -1)
    wanted = 1 if np.isnan(signed).all() else int(np.nanargmax(signed)) + 1
    assert stopping.best_epoch == wanted
    assert stopping.best_weights is not None and stopping.best_weights["w"].tolist() == [wanted] * 2
    assert [r.epoch for r in stopping.history] == list(range(1, len(values) + 1))
    assert [r.epoch for r in stopping.history if r.best][-1] == wanted
    for i, record in enumerate(stopping.history):
        so_far = signed[: i + 1]
        best = math.nan if np.isnan(so_far).all() else abs(np.nanmax(so_far))
        assert record.best_value == pytest.approx(best, nan_ok=True)
        assert record.tracked_value == pytest.approx(values[i], nan_ok=True)


@given(VALUES_OF_EPOCHS)
def test_an_epoch_without_a_finite_loss_is_never_kept(values: list[float]) -> None:
    stopping = watched([math.inf, *values], VAL_LOSS)
    finite = [i for i, v in enumerate(values) if math.isfinite(v)]
    assert stopping.best_epoch == (min(finite, key=lambda i: values[i]) + 2 if finite else 0)
    assert (stopping.best_weights is None) == (not finite)


@given(VALUES_OF_EPOCHS, st.sampled_from([VAL_LOSS, TRAIN_LOSS, "auroc"]), st.integers(1, 4))
def test_a_training_restored_after_every_epoch_is_the_same(values: list[float], name: str, patience: int) -> None:
    one, other = (watched(values, name, patience, saves) for saves in (False, True))
    assert json.dumps(one.to_dict()) == json.dumps(other.to_dict())
    # It stops the first time that so many epochs have passed since the best one.
    last = one.history[-1].epoch
    assert last - one.best_epoch == patience or last == len(values)
    assert all(
        r.epoch - max([b.epoch for b in one.history[: r.epoch] if b.best], default=0) < patience
        for r in one.history[:-1]
    )


def test_the_text_of_an_epoch_names_what_chooses_it() -> None:
    by_metric = EpochRecord(3, 0.1, 1.0, 0.5, 0.8136, False, "auroc", "auroc", 0.8521)
    assert by_metric.describe() == "validation AUROC 0.814, best 0.852"
    by_loss = EpochRecord(3, 0.1, 1.0, 0.5, 0.8136, False, "rmse", VAL_LOSS, 0.25)
    assert by_loss.describe() == "validation loss 0.500, best 0.250, RMSE 0.814"
    by_train_loss = EpochRecord(3, 0.1, 1.0, 0.5, 0.8136, False, "rmse", TRAIN_LOSS, 0.75)
    assert by_train_loss.describe() == "training loss 1.000, best 0.750, validation RMSE 0.814"
    undefined = EpochRecord(1, 0.1, 1.0, 0.5, math.nan, True, "spearman", "spearman", math.nan)
    assert undefined.describe() == "validation Spearman undefined, best undefined"


def test_the_tracking_metric_is_the_loss_or_a_reported_metric() -> None:
    assert TrainingConfig().tracking_metric == VAL_LOSS
    for name in (VAL_LOSS, TRAIN_LOSS, "rmse", "mae"):
        check_tracking_metric("regression", ("rmse", "mae"), name)
    with pytest.raises(UsageError, match="'r2' is not reported: add --metric r2, or choose among val_loss, train_"):
        check_tracking_metric("regression", ("rmse", "mae"), "r2")
    for name in ("auroc", "kappa", ""):
        with pytest.raises(UsageError, match=f"'{name}' does not apply to regression targets: choose among val_loss"):
            check_tracking_metric("regression", ("rmse",), name)


@pytest.mark.parametrize(
    ("name", "kind", "labels", "reason"),
    [
        ("auroc", "binary", [[1, 1, np.nan]], "one class only"),
        ("auroc", "binary", [[1, 1, np.nan], [0, 1, 1]], ""),
        ("auroc", "binary", [[np.nan, np.nan], [0, 0]], "no labels, one class only"),
        ("accuracy", "binary", [[1, 1]], ""),
        ("f1", "binary", [[0, 0]], "no positive label, and none predicted"),
        ("auroc", "multiclass", [[2, 2]], "one class only"),
        ("auroc", "multiclass", [[2, 0, np.nan]], ""),
        ("accuracy", "multiclass", [[np.nan]], "no labels"),
        ("spearman", "regression", [[0.5, 0.5]], "all labels are equal"),
        ("r2", "regression", [[0.5]], "fewer than two labels"),
        ("rmse", "regression", [[0.5, 0.5]], ""),
    ],
)
def test_a_metric_is_undefined_if_it_is_for_perfect_predictions(
    name: str, kind: str, labels: list[list[float]], reason: str
) -> None:
    assert why_undefined(name, kind, np.array(labels, dtype=float).T) == reason


def rows(path: Path) -> list[dict[str, str]]:
    """The lines of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, labels: list[Any], splits: list[str] | None = None, second: list[Any] | None = None) -> Path:
    """A table of sixty molecules."""
    lines = ["smiles,y" + (",z" if second else "") + (",part" if splits else "")]
    for i, (smiles, y) in enumerate(zip(SMILES, labels, strict=True)):
        lines.append(f"{smiles},{y}" + (f",{second[i]}" if second else "") + (f",{splits[i]}" if splits else ""))
    path.write_text("\n".join(lines) + "\n")
    return path


SOLUBLE = [int(v > np.median(VALUES)) for v in VALUES]
PARTS = ["train"] * 30 + ["val"] * 20 + ["test"] * 10


@pytest.mark.parametrize(
    ("labels", "options", "name", "shown"),
    [
        (SOLUBLE, (), "val_loss", "loss"),
        (SOLUBLE, ("--tracking-metric", "auroc"), "auroc", "AUROC"),
        (SOLUBLE, ("--metric", "auroc", "--metric", "auprc", "--tracking-metric", "auprc"), "auprc", "AUPRC"),
        (VALUES, (), "val_loss", "loss"),
        (VALUES, ("--tracking-metric", "spearman"), "spearman", "Spearman"),
    ],
)
def test_screen_history_metrics_and_weights_name_one_epoch(
    molattn: Molattn, tmp_path: Path, labels: list[Any], options: tuple[str, ...], name: str, shown: str
) -> None:
    run = tmp_path / "run"
    jumpy = [word for setting in JUMPY for word in ("--set", setting)]
    table = write(tmp_path / "t.csv", labels, PARTS)
    result = molattn("train", table, *SMALL, *jumpy, *options, "--split-column", "part", "--epochs", "6", "-o", run)
    assert result.code == 0, result.err
    history, metrics = rows(run / "history.csv"), json.loads((run / "metrics.json").read_text())
    column = name if name == VAL_LOSS else f"val_{name}"
    tracked = np.array([float(row[column]) for row in history])
    larger = name != VAL_LOSS and METRICS[name].larger_is_better
    kept = int(np.argmax(tracked) if larger else np.argmin(tracked))
    assert [row["epoch"] for row in history] == ["1", "2", "3", "4", "5", "6"]
    assert (metrics["best_epoch"], metrics["tracking_metric"]) == (int(history[kept]["epoch"]), name)
    assert [row["epoch"] for row in history if row["best"] == "True"][-1] == history[kept]["epoch"]
    # The screen: a line for each epoch with the tracked value, and the best epoch.
    best = np.maximum.accumulate(tracked) if larger else np.minimum.accumulate(tracked)
    for i, (value, so_far) in enumerate(zip(tracked, best, strict=True)):
        assert f"epoch {i + 1} of 6: validation {shown} {value:.3f}, best {so_far:.3f}" in result.err
    assert f"evaluating epoch {kept + 1}, the best of 6 by validation {shown}" in result.err
    # The weights are those of the epoch: their metric on the validation molecules is the one in its line.
    of_model = next(key for key in history[0] if key.startswith("val_") and key != VAL_LOSS)
    measured = metrics["val"]["y"][of_model.removeprefix("val_")]
    assert measured == pytest.approx(float(history[kept][of_model]), rel=1e-4)


def test_early_stopping_is_reported_with_epoch_and_reason(molattn: Molattn, tmp_path: Path) -> None:
    run, table = tmp_path / "run", write(tmp_path / "t.csv", VALUES, PARTS)
    jumpy = [word for setting in (*JUMPY, "training.patience=1") for word in ("--set", setting)]
    result = molattn("train", table, *SMALL, *jumpy, "--split-column", "part", "--epochs", "60", "-o", run)
    assert result.code == 0, result.err
    history, metrics = rows(run / "history.csv"), json.loads((run / "metrics.json").read_text())
    assert len(history) == metrics["epochs"] == metrics["best_epoch"] + 1 < 60
    message = " ".join(result.err.split())
    assert (
        f"training stopped after epoch {len(history)} of 60: 1 epoch without a better validation loss, "
        "see training.patience" in message
    )


def test_the_metric_of_several_targets_is_their_mean_as_it_is_reported(molattn: Molattn, tmp_path: Path) -> None:
    second = ["" if i % 3 == 0 else 1 - soluble for i, soluble in enumerate(SOLUBLE)]
    run, table = tmp_path / "run", write(tmp_path / "t.csv", SOLUBLE, PARTS, second)
    both = ("--target-columns", "y", "--target-columns", "z", "--task-type", "binary", "--tracking-metric", "auroc")
    result = molattn("train", table, *SMALL, *both, "--split-column", "part", "--epochs", "3", "-o", run)
    assert result.code == 0, result.err
    history, metrics = rows(run / "history.csv"), json.loads((run / "metrics.json").read_text())
    chosen = float(history[metrics["best_epoch"] - 1]["val_auroc"])
    assert chosen == max(float(row["val_auroc"]) for row in history)
    assert chosen == pytest.approx(metrics["mean"]["val"]["auroc"], rel=1e-4)


def test_a_metric_that_is_undefined_on_the_validation_molecules_is_replaced_by_the_loss(
    molattn: Molattn, tmp_path: Path
) -> None:
    labels = [1 if part == "val" else i % 2 for i, part in enumerate(PARTS)]
    run, table = tmp_path / "run", write(tmp_path / "t.csv", labels, PARTS)
    options = ("--tracking-metric", "auroc", "--split-column", "part", "--epochs", "2")
    result = molattn("train", table, *SMALL, *options, "-o", run)
    assert result.code == 0, result.err
    message = " ".join(result.err.split())
    assert (
        "the AUROC of the validation molecules is undefined (one class only): their loss chooses the epoch instead"
        in message
    )
    assert "validation loss" in message and "AUROC undefined" in message
    history, metrics = rows(run / "history.csv"), json.loads((run / "metrics.json").read_text())
    losses = [float(row["val_loss"]) for row in history]
    assert (metrics["tracking_metric"], metrics["best_epoch"]) == (VAL_LOSS, int(np.argmin(losses)) + 1)


def test_a_metric_that_is_not_reported_is_refused_before_the_folder_is_created(
    molattn: Molattn, tmp_path: Path
) -> None:
    table = write(tmp_path / "t.csv", SOLUBLE)
    result = molattn("train", table, *SMALL, "--tracking-metric", "rmse", "-o", tmp_path / "run")
    assert result.code == 2
    assert re.search(r"'rmse' does not\s+apply to\s+binary targets", result.err)
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_that_tracks_a_metric_is_bitwise_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write(tmp_path / "t.csv", SOLUBLE, PARTS)
    options = {
        "settings": JUMPY,
        "split_column": "part",
        "target_columns": ("y",),
        "tracking_metric": "auroc",
    }
    train_small(table, tmp_path / "whole", **options)
    history = rows(tmp_path / "whole" / "history.csv")
    interrupt(table, tmp_path / "run", 4, **options)
    capsys.readouterr()
    resume(tmp_path / "run", quiet=False)
    same_runs(tmp_path / "run", tmp_path / "whole")
    # The best of all epochs, not of those since the resumption.
    best = max(float(row["val_auroc"]) for row in history)
    last = float(history[-1]["val_auroc"])
    assert f"epoch 6/6: validation AUROC {last:.3f}, best {best:.3f}" in capsys.readouterr().err
