"""`benchmarks/base_scaling.py`: what it makes and trains, and its page."""

import csv
from pathlib import Path

import base_scaling
import pytest
from arena_tasks import TDC, read_task, tasks_of
from tables import read_rows

from tests.molecules import esol

FOLDS = [
    {"task": "caco2_wang", "options": "--distillation 0", "fold": str(fold), "score": str(score)}
    for fold, score in enumerate((0.3, 0.4, 0.5))
]
"""A standard deviation of 0.1."""


def row(base: str, task: str, score: float, **columns: object) -> dict[str, str]:
    made = {"molecules": 5000, "width": 64, "epochs": 10, "base_loss": 0.1, "base_seconds": 120}
    made = dict.fromkeys(made, "") if base == "none" else made
    values = {"base": base, **made, "task": task, "fold": 0, "score": score, "train": 500, "machine": "A machine."}
    return {name: str(value) for name, value in {**values, **columns}.items()}


def test_the_page_has_improvements_over_a_training_from_scratch() -> None:
    rows = [row("none", "caco2_wang", 0.4), row("5000x64x10", "caco2_wang", 0.35), row("nci", "caco2_wang", 0.45)]
    text = base_scaling.page(rows, FOLDS)
    assert "| 5,000 | 64 | 10 |  | +0.50 | 0.350 | 2.0 | 0.1 |" in text
    assert "| 5,000 | 64 | 10 | `nci` | -0.50 | 0.450 | 2.0 | 0.1 |" in text
    assert "|  |  |  | `none` |  | 0.400 |  |  |" in text


def test_a_base_model_is_on_the_page_once_all_its_tasks_are_finished() -> None:
    rows = [row(base, "caco2_wang", 0.4) for base in ("none", "nci")] + [row("none", "herg", 0.8)]
    folds = [*FOLDS, *({**one, "task": "herg"} for one in FOLDS)]
    assert "| `nci` |" not in base_scaling.page(rows, folds)
    assert "| `nci` |" in base_scaling.page([*rows, row("nci", "herg", 0.8)], folds)


def test_a_base_model_that_was_tried_on_further_tasks_is_compared_with_the_defaults() -> None:
    rows = [row("none", "caco2_wang", 0.4), row("5000x64x10", "caco2_wang", 0.35)]
    assert "##" not in base_scaling.page(rows, FOLDS)
    held = [
        {**one, "task": task, "seed": "0", "metric": "mae", "train": "500", "held": "100"}
        for one in FOLDS
        for task in ("caco2_wang", "ld50_zhu")
    ]
    further = [row("5000x64x10", "ld50_zhu", score, fold=fold) for fold, score in enumerate((0.2, 0.3, 0.4))]
    made = [{**one, "seed": "0", "metric": "mae", "held": "100"} for one in (*rows, *further)]
    text = base_scaling.page(made, held)
    assert "## 5,000 molecules, width 64, 10 epochs, and the defaults" in text
    assert "| caco2_wang | MAE | 1 | -0.050 |  |" in text and "| ld50_zhu | MAE | 3 | +0.100 | " in text
    assert "in standard deviations over folds: +1.00 (+1.00 to +1.00)." in text


def test_the_committed_page_has_the_committed_rows() -> None:
    page = Path(base_scaling.__file__).parents[1] / "docs" / "results" / "base_scaling.md"
    expected = base_scaling.page(read_rows(base_scaling.RESULTS), read_rows(base_scaling.FOLDS))
    assert expected == page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_base_model_is_made_without_the_labeled_molecules_and_trained_from(tmp_path: Path) -> None:
    smiles, y = esol(120)
    for task in tasks_of(TDC):
        folder = tmp_path / "data" / "tdc" / task.name
        folder.mkdir(parents=True)
        for part, rows in (("train_val", zip(smiles, y, strict=True)), ("test", ())):
            with open(folder / f"{part}.csv", "w", newline="") as file:
                csv.writer(file).writerows([("Drug", "Y"), *rows])
    read_task.cache_clear()
    molecules, page = tmp_path / "molecules.smi", tmp_path / "page.md"
    # The first are of ESOL's table, too, and of the tasks.
    alkyls = [f"{'C' * n}[Si](C)(C)CC{group}" for n in range(1, 11) for group in ("N", "O", "S", "F", "Cl", "Br")]
    molecules.write_text("\n".join([*smiles[:20], *alkyls]) + "\n")
    command = [str(tmp_path / "data"), str(molecules), "--make", "80x16x1", "--tasks", "caco2_wang"]
    command += ["--folder", str(tmp_path / "bases"), "--results", str(tmp_path / "r.csv"), "--page", str(page)]
    base_scaling.main(command)
    base_scaling.main(command)  # nothing is repeated
    none, made = read_rows(tmp_path / "r.csv")
    assert (none["base"], none["molecules"], made["base"]) == ("none", "", "80x16x1")
    assert (made["molecules"], made["width"], made["epochs"]) == (str(len(alkyls)), "16", "1")
    assert float(made["base_seconds"]) > 0 and 0 < float(made["score"]) != float(none["score"])
    assert f"| {len(alkyls)} | 16 | 1 |" in page.read_text()
