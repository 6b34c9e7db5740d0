"""`benchmarks/arena_trees.py`: its trees are those of `molattn train --with-trees`, and its page."""

import csv
from pathlib import Path

import arena_trees
import numpy as np
import pytest
from arena_runs import fold_labels_of
from arena_statistics import metric_value
from arena_tasks import TASKS, read_task
from tables import read_rows

import molattn
from tests.molecules import esol

NAMES = ("hia_hou", "caco2_wang")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with made-up labels: classes and skewed numbers."""
    smiles, y = esol(120)
    labels = {"hia_hou": [int(value > -2) for value in y], "caco2_wang": [float(np.exp(-value)) for value in y]}
    for name, values in labels.items():
        (tmp_path / "data" / "tdc" / name).mkdir(parents=True)
        for part, rows in (("train_val", zip(smiles, values, strict=True)), ("test", ())):
            with open(tmp_path / "data" / "tdc" / name / f"{part}.csv", "w", newline="") as file:
                csv.writer(file).writerows([("Drug", "Y"), *rows])
    read_task.cache_clear()
    return tmp_path / "data"


@pytest.mark.parametrize("name", NAMES)
def test_the_trees_are_those_of_a_training_with_trees(name: str, data: Path, tmp_path: Path) -> None:
    (row,) = arena_trees.fit_and_score(data, name, 0, ["train_on=train_val"], 0)
    labels, labeled = fold_labels_of(data, name, 0), read_task(data, name)
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file).writerows(
            [("smiles", "y", "split"), *zip(labeled.smiles, labeled.y.tolist(), labels, strict=True)]
        )
    columns = {"smiles_column": "smiles", "target_columns": ["y"], "split_column": "split"}
    options = {"with_trees": True, "epochs": 1, "quiet": True, "accelerator": "cpu", "output_dir": tmp_path / "run"}
    molattn.train(tmp_path / "t.csv", **columns, **options)
    artifact = molattn.load(tmp_path / "run")._artifact
    held_out = [labeled.smiles[i] for i in np.flatnonzero(labels == "test")]
    assert artifact.trees is not None
    features = artifact.trees.features(artifact.model.read(held_out, artifact.read_options))
    predictions = artifact.trees.predict(artifact.task, artifact.scaler, features)
    if name == "hia_hou":
        found = artifact.task.probabilities(predictions, 0)[:, 1]
    else:
        found = artifact.scaler.inverse_transform(predictions).values[:, 0]
        assert artifact.scaler.transforms  # the labels are skewed
    expected = metric_value(TASKS[name].metric, labeled.y[labels == "test"], found)
    assert float(row["score"]) == pytest.approx(expected, rel=1e-3)
    assert (row["train"], row["held"]) == ((labels == "train").sum(), (labels == "test").sum())


def test_settings_change_the_trees_and_the_page_compares_them(data: Path, tmp_path: Path) -> None:
    results, page = tmp_path / "trees.csv", tmp_path / "trees.md"
    settings = ["", "num_leaves=2 num_boost_round=3", "train_on=train_val", "objective=regression_l1"]
    command = [str(data), "--tasks", "caco2_wang", "--folds", "0", "1", "--results", str(results), "--page", str(page)]
    arena_trees.main([*command, "--settings", *settings[:2]])
    arena_trees.main([*command, "--settings", *settings])  # finished fits are not repeated
    rows = read_rows(results)
    assert [(row["fold"], row["options"]) for row in rows] == [
        *((str(fold), text) for fold in (0, 1) for text in settings[:2]),
        *((str(fold), text) for fold in (0, 1) for text in settings[2:]),
    ]
    scores = {text: np.array([float(r["score"]) for r in rows if r["options"] == text]) for text in settings}
    assert all((scores[text] != scores[""]).any() for text in settings[1:])
    text = page.read_text()
    mean, few = scores[""].mean(), scores[""].mean() - scores[settings[1]].mean()  # the metric is an error
    assert f" | 2 | MAE | {mean:.3f} | {few:+.3f} | " in text
    assert text.count("| `num_leaves=2 num_boost_round=3` |") == 1


def test_the_committed_page_has_the_committed_rows() -> None:
    page = Path(arena_trees.__file__).parents[1] / "docs" / "results" / "trees.md"
    assert arena_trees.page(read_rows(arena_trees.RESULTS)) == page.read_text(encoding="utf-8")
