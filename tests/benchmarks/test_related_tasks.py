"""`benchmarks/related_tasks.py`: its tables, a training, and its page."""

import csv
from pathlib import Path

import numpy as np
import pytest
import related_tasks
from arena_runs import fold_labels_of
from arena_tasks import read_task
from tables import read_rows

from tests.molecules import esol

NAMES = related_tasks.GROUPS["pharmacokinetics"]
MAIN, *OTHERS = NAMES


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with made-up labels of overlapping molecules; no two tasks have a label in common."""
    smiles, _ = esol(160)
    for k, name in enumerate(NAMES):
        chosen = smiles[20 * k : 100 + 20 * k]
        (tmp_path / "data" / "tdc" / name).mkdir(parents=True)
        for part, rows in (("train_val", [(s, 100 * k + i / 8) for i, s in enumerate(chosen)]), ("test", [])):
            with open(tmp_path / "data" / "tdc" / name / f"{part}.csv", "w", newline="") as file:
                csv.writer(file).writerows([("Drug", "Y"), *rows])
    read_task.cache_clear()
    return tmp_path / "data"


def test_no_table_has_a_label_of_a_held_out_molecule(data: Path) -> None:
    rows, labels = related_tasks.table_of(data, MAIN, 1)
    labeled = read_task(data, MAIN)
    assert (labels == fold_labels_of(data, MAIN, 1)).all() and (labels == "test").any()
    own, added = rows[: len(labels)], rows[len(labels) :]
    assert [row[0] for row in own] == list(labeled.smiles) and [row[1] for row in own] == labels.tolist()
    assert all(row[3:] == [""] * 3 for row in own)
    known = set(labeled.y[labels != "test"].tolist())
    assert {row[2] for row in own} == known  # not that of a held-out molecule
    held_out = {labeled.smiles[i] for i in np.flatnonzero(labels == "test")}
    assert held_out.isdisjoint(row[0] for row in added)
    for k, name in enumerate(OTHERS):
        other = read_task(data, name)
        expected = [(s, y) for s, y in zip(other.smiles, other.y.tolist(), strict=True) if s not in held_out]
        found = [(row[0], row[3 + k]) for row in added if row[3 + k] != ""]
        assert found == expected and all(row[1:3] == ["train", ""] for row in added)
    assert sum(value != "" for row in added for value in row[2:]) == len(added)


@pytest.mark.slow
def test_a_model_of_a_group_is_trained_and_compared_with_one_of_the_task(data: Path, tmp_path: Path) -> None:
    results, page = tmp_path / "r.csv", tmp_path / "page.md"
    command = [str(data), "--tasks", MAIN, "--folds", "0", "--results", str(results)]
    related_tasks.main(command)
    related_tasks.main(command)  # nothing is repeated
    (row,) = read_rows(results)
    assert (row["task"], row["fold"], row["options"]) == (MAIN, "0", "together")
    assert int(row["all"]) > 2 * int(row["train"]) and -1 <= float(row["score"]) <= 1
    alone = [{**row, "options": "--distillation 0", "score": str(float(row["score"]) - 0.25)}]
    page.write_text(related_tasks.page([row], alone))
    score = f"{float(row['score']):.3f}"
    assert f"| {MAIN} | Spearman | +0.250 |  | {score} | 1 | {row['train']} | {row['all']} |" in page.read_text()


def test_the_committed_page_has_the_committed_rows() -> None:
    page = Path(related_tasks.__file__).parents[1] / "docs" / "results" / "related_tasks.md"
    expected = related_tasks.page(read_rows(related_tasks.RESULTS), read_rows(related_tasks.ALONE))
    assert expected == page.read_text(encoding="utf-8")
