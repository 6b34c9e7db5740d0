"""Ensembles and calibration in a run: their molecules, and bitwise equal resumption."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

import molattn
from molattn.errors import UsageError
from tests.molecules import esol
from tests.training.runs import interrupt, resume, same_runs, train_small

OPTIONS = {"ensemble_size": 3, "calibration_size": 0.2, "epochs": 3}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ensembles") / "t.csv"
    rows = [f"{s},{y}" for s, y in zip(*esol(60), strict=True)]
    path.write_text("\n".join(["smiles,y", *rows]) + "\n")
    return path


@pytest.fixture(scope="module")
def whole(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train_small(table, folder, **OPTIONS)
    return folder


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.finished_runs
@pytest.mark.parametrize("after", [2, 4, 8])
def test_a_resumed_ensemble_is_bitwise_equal(table: Path, whole: Path, tmp_path: Path, after: int) -> None:
    """After so many epochs of all nine: within the first, the second or the third member."""
    run, epochs = tmp_path / "run", 0

    def epoch(_: object, __: object, ___: int) -> None:
        nonlocal epochs
        epochs += 1
        if epochs == after + 1:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("molattn._train.PrintReporter.epoch", epoch)
        with pytest.raises(KeyboardInterrupt):
            train_small(table, run, **OPTIONS)
    assert not (run / "model").exists()
    resume(run)
    same_runs(run, whole)


@pytest.mark.finished_runs
def test_members_are_the_models_of_their_seeds_and_predict_their_mean(table: Path, whole: Path, tmp_path: Path) -> None:
    both = load_file(whole / "model" / "model.safetensors")
    weights = {k: x for k, x in both.items() if f"members.1.{k}" in both}
    assert any((x != both[f"members.1.{k}"]).any() for k, x in weights.items())
    # The first is the run without an ensemble.
    train_small(table, tmp_path / "one", **{**OPTIONS, "ensemble_size": 1})
    alone = load_file(tmp_path / "one" / "model" / "model.safetensors")
    assert weights.keys() < alone.keys() and all((alone[k] == x).all() for k, x in weights.items())
    predictor = molattn.load(whole)
    smiles = esol(60)[0]
    mean, std = predictor.predict(smiles, return_std=True)
    each = np.array([member.predict(smiles) for member in predictor.members])
    assert len(each) == 3
    np.testing.assert_allclose(mean, each.mean(0))
    np.testing.assert_allclose(std, each.std(0), atol=1e-12)
    # Attention is that of the first member, the prediction that of all of them.
    shown = predictor.attention("CCO")
    first = predictor.members[0]
    np.testing.assert_array_equal(shown.weights, first.attention("CCO").weights)
    assert shown.prediction["y"] == pytest.approx(predictor.predict("CCO"))
    rows = _rows(whole / "predictions.csv")
    assert [float(r["y_pred"]) for r in rows] == pytest.approx(mean.tolist(), abs=1e-6)
    assert [float(r["y_std"]) for r in rows] == pytest.approx(std.tolist(), abs=1e-6)
    history = _rows(whole / "history.csv")
    assert [r["member"] for r in history] == ["0"] * 3 + ["1"] * 3 + ["2"] * 3
    metrics = json.loads((whole / "metrics.json").read_text())
    assert len(metrics["best_epoch"]) == 3 and set(metrics["uncertainty"]["test"]["y"]) >= {"nll", "ence", "coverage"}
    assert (whole / "plots" / "uncertainty.png").read_bytes().startswith(b"\x89PNG")


def test_calibration_molecules_neither_train_nor_choose_the_epoch(table: Path, whole: Path, tmp_path: Path) -> None:
    sides = [row["split"] for row in _rows(whole / "splits.csv")]
    assert sides.count("cal") == 12
    # Their labels turned upside down change the calibration, and nothing else of the model.
    rows = _rows(table)
    changed = tmp_path / "t.csv"
    lines = [
        f"{r['smiles']},{-7 - float(r['y']) if side == 'cal' else r['y']}" for r, side in zip(rows, sides, strict=True)
    ]
    changed.write_text("\n".join(["smiles,y", *lines]) + "\n")
    train_small(changed, tmp_path / "run", **OPTIONS)
    before, after = (load_file(run / "model" / "model.safetensors") for run in (whole, tmp_path / "run"))
    assert before.keys() == after.keys()
    differ = {k for k, x in before.items() if x.shape != after[k].shape or (x != after[k]).any()}
    assert differ and all(k.startswith("calibration.") for k in differ)
    assert (whole / "history.csv").read_bytes() == (tmp_path / "run" / "history.csv").read_bytes()
    # Turning calibration on leaves the test molecules where they are.
    train_small(table, tmp_path / "none", epochs=1)
    plain = [row["split"] for row in _rows(tmp_path / "none" / "splits.csv")]
    assert [s if s != "cal" else "train" for s in sides] == plain


def test_a_split_file_can_name_the_calibration_molecules(table: Path, whole: Path, tmp_path: Path) -> None:
    options = {**OPTIONS, "calibration_size": 0.0, "splits_file": str(whole / "splits.csv")}
    train_small(table, tmp_path / "run", **options)
    again = (tmp_path / "run" / "model" / "model.safetensors").read_bytes()
    assert again == (whole / "model" / "model.safetensors").read_bytes()
    with pytest.raises(UsageError, match="has calibration molecules: leave out --calibration-size"):
        train_small(table, tmp_path / "no", **{**options, "calibration_size": 0.1})


def test_invalid_settings_leave_no_folder(table: Path, tmp_path: Path) -> None:
    for options, reason in (
        ({"calibration_method": "zscaling"}, "needs calibration molecules: add --calibration-size"),
        ({"uncertainty_method": "mve"}, "needs a model trained with --loss-function mve"),
        ({"uncertainty_method": "luck"}, "unknown uncertainty_method 'luck'"),
        ({"calibration_size": 1.5}, "calibration_size is at least 0 and below 1"),
        ({"ensemble_size": 0}, "ensemble_size is 1 or more"),
        ({"calibration_size": 0.1, "calibration_method": "conformal-multiclass"}, "does not apply to regression"),
    ):
        with pytest.raises(UsageError, match=reason):
            train_small(table, tmp_path / "run", **options)
        assert not (tmp_path / "run").exists()


def test_a_resumed_run_cannot_have_more_members(table: Path, tmp_path: Path) -> None:
    interrupt(table, tmp_path / "run", 1, **OPTIONS)
    with pytest.raises(UsageError, match="ensemble_size was 3 and is 4 now"):
        resume(tmp_path / "run", ensemble_size=4)
