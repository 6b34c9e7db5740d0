"""Training on a data set of a benchmark: its official split by default, with the validation rows of the seed."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

import molattn
from molattn.data import fetch_dataset, tdc_scaffold_split
from molattn.errors import UsageError
from molattn.training.prepare import prepare_run
from molattn.training.run_config import resolve
from tests.data.groups import NUM_TRAIN, esol_smiles, tdc_files, write_files
from tests.training.runs import SMALL

TASK = "tdc/caco2_wang"


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of MOLATTN_DATA with a task of TDC, and an empty cache of tables."""
    monkeypatch.setenv("MOLATTN_DATA", str(write_files(tmp_path / "data", tdc_files("caco2_wang"))))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def labels_of(**options: object) -> np.ndarray:
    """The split labels of a run."""
    return prepare_run(resolve(None, {"dataset": TASK, **options})).split_labels


@pytest.mark.parametrize("seed", [1, 2])
def test_the_official_split_is_the_default_of_a_benchmark(seed: int) -> None:
    labels = labels_of(seed=seed)
    assert set(labels[NUM_TRAIN:]) == {"test"}
    assert labels[:NUM_TRAIN].tolist() == tdc_scaffold_split(esol_smiles()[:NUM_TRAIN], seed).tolist()
    assert labels.tolist() == labels_of(seed=seed, split="official").tolist()


def test_another_split_can_be_requested(tmp_path: Path) -> None:
    assert "test" in labels_of(split="random")[:NUM_TRAIN]
    assert "test" in labels_of(num_folds=3, fold=0)[:NUM_TRAIN]
    rows = [f"{text},{('train', 'val', 'test')[i % 3]}" for i, text in enumerate(esol_smiles())]
    (tmp_path / "split.csv").write_text("\n".join(["smiles,split", *rows]) + "\n")
    assert labels_of(splits_file=str(tmp_path / "split.csv"))[:3].tolist() == ["train", "val", "test"]
    with pytest.raises(UsageError, match="the split 'official' is one split, not 3 folds"):
        labels_of(split="official", num_folds=3, fold=0)
    for dataset in ("esol", str(tmp_path / "split.csv")):
        options = {"dataset": dataset, "split": "official", "target_columns": (), "smiles_column": "smiles"}
        with pytest.raises(UsageError, match="has no official split: give --split-column"):
            prepare_run(resolve(None, options))


def test_calibration_molecules_are_taken_from_training() -> None:
    with_them, without = labels_of(calibration_size=0.1), labels_of()
    assert (with_them == "cal").sum() == pytest.approx(0.1 * len(without), abs=3)
    assert np.array_equal(with_them[with_them != "cal"], without[with_them != "cal"])


def test_a_run_records_its_split_and_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fetch_dataset(TASK)  # of which a run warns
    options = {"epochs": 1, "settings": SMALL, "quiet": True, "accelerator": "cpu"}
    run = molattn.train(TASK, seed=1, **options)
    assert run.folder == Path("runs/tdc-caco2_wang")
    config = tomllib.loads((run.folder / "config.toml").read_text())
    assert (config["data"]["dataset"], config["data"]["split"]) == (TASK, "official")
    again = molattn.train(config=run.folder / "config.toml", output_dir=tmp_path / "again", quiet=True)
    assert again.metrics["test"] == run.metrics["test"]
    assert run.metrics["units"] == {"log_permeability": "log10(cm/s)"}
