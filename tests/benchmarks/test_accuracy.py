"""`benchmarks/accuracy.py`: splits, files of results, and the statistics of the tables, without other projects."""

import csv
import sys
from dataclasses import asdict
from pathlib import Path

import accuracy
import numpy as np
import pytest
from accuracy_page import difference, page
from scipy import stats
from tables import append_rows

from molattn.data import column, datasets_dir, read_table, write_table
from molattn.errors import InputError


@pytest.fixture(scope="module")
def esol() -> accuracy.Dataset:
    return accuracy.Dataset.load("esol")


def _result(split: str = "random0", model: str = "molattn", error: float = 0.5, **more) -> accuracy.Result:
    values = {
        "dataset": "esol",
        "split": split,
        "model": model,
        "seed": 0,
        "metric": "rmse",
        "train": 800,
        "test": 100,
        "val_error": 0.4,
        "test_error": error,
        "seconds": 1.0,
        "split_sha256": "0",
        "machine": "a, b",
    }
    return accuracy.Result(**{**values, **more})


def test_every_molecule_is_in_one_subset_except_in_files_split_by_row(esol):
    assert len(esol.y) == 1128
    for split in accuracy.SPLITS:
        sides = esol.split_labels(split)
        assert set(sides) == {"train", "val", "test"}
        assert (sides == "train").mean() == pytest.approx(0.8, abs=0.01)
        repeated = {k for k in esol.keys if len({s for s, key in zip(sides, esol.keys, strict=True) if key == k}) > 1}
        assert not repeated or split in ("random0", "random1", "random2")


def test_a_split_file_of_the_project_is_taken_as_it_is(esol):
    with open(datasets_dir() / "splits" / "esol-random1.csv", newline="") as file:
        assert [row["split"] for row in csv.DictReader(file)] == esol.split_labels("random1").tolist()


def test_the_splits_of_the_results_are_in_the_repository():
    for result in accuracy.read_results(accuracy.RESULTS):
        file = accuracy.split_file(result.dataset, result.split)
        kept = read_table(file if file.exists() else accuracy.split_file(result.dataset))
        sides = column(kept, "split" if file.exists() else result.split)
        assert (sides.count("train"), sides.count("test")) == (result.train, result.test)


def test_splits_without_smiles_must_match_their_table(tmp_path, monkeypatch):
    smiles = [f"{'C' * n}O" for n in range(1, 21)]
    rows = np.arange(1, 20)  # the first cannot be read, say
    dataset = accuracy.Dataset("few", "regression", smiles[1:], smiles[1:], rows / 1.0, rows, smiles)
    sides = ["", *["train"] * 10, *["val"] * 4, *["test"] * 5]
    (tmp_path / "splits").mkdir()
    file = tmp_path / "splits" / "few.csv"
    monkeypatch.setattr(accuracy, "datasets_dir", lambda: tmp_path)
    made = dataset.split_labels("random0")
    write_table(file, (accuracy.DIGEST, "random0"), zip(dataset.digests(), sides, strict=True))
    assert dataset.split_labels("random0").tolist() == sides[1:] != made.tolist()
    assert dataset.split_labels("random1").tolist() == dataset.new_split_labels("random1").tolist()
    write_table(file, (accuracy.DIGEST, "random0"), zip(dataset.digests()[::-1], sides, strict=True))
    with pytest.raises(InputError, match="another table of few"):
        dataset.split_labels("random0")


def test_results_are_stored_unchanged(tmp_path):
    path = tmp_path / "results" / "accuracy.csv"
    kept = [_result(), _result("scaffold", error=0.25), _result(model="forest", metric="auroc")]
    for result in kept:
        append_rows(path, [asdict(result)])
    assert accuracy.read_results(path) == kept
    assert accuracy.read_results(tmp_path / "none.csv") == []


def test_runs_are_done_once_and_measured_by_one_function(tmp_path, monkeypatch, esol):
    jobs = []

    def constant(job: accuracy.TrainingJob) -> np.ndarray:
        with open(job.table, newline="") as file:
            rows = list(csv.DictReader(file))
        jobs.append((Path(job.table).name, job.seed, len(rows)))
        return np.full(len(rows), 1.0)

    monkeypatch.setitem(accuracy.ACCURACY_MODELS, "forest", constant)
    where = ["--results", str(tmp_path / "r.csv"), "--page", str(tmp_path / "page.md")]
    command = ["accuracy.py", "--models", "forest", "--splits", "random0", "scaffold", *where]
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", command)
        accuracy.main()
    assert jobs == [("table.csv", 0, 1128)] * 2  # a split each, once
    results = accuracy.read_results(tmp_path / "r.csv")
    test = esol.split_labels("scaffold") == "test"
    expected = np.sqrt(np.mean((esol.y[test] - 1.0) ** 2))
    assert [r.split for r in results] == ["random0", "scaffold"]
    assert results[1].test_error == pytest.approx(expected, abs=1e-5)
    assert f"{expected:.3f} (1)" in (tmp_path / "page.md").read_text()


def test_predictions_that_are_not_finite_are_no_result(tmp_path, monkeypatch):
    monkeypatch.setitem(accuracy.ACCURACY_MODELS, "forest", lambda _: np.full(1128, np.nan))
    where = ["--results", str(tmp_path / "r.csv"), "--page", str(tmp_path / "page.md")]
    monkeypatch.setattr(sys, "argv", ["accuracy.py", "--models", "forest", "--splits", "random0", *where])
    with pytest.raises(RuntimeError, match="not finite"):
        accuracy.main()
    assert not (tmp_path / "r.csv").exists()


def test_the_interval_of_a_difference_is_the_corrected_one_of_resampled_splits():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0.6, 0.05, 10), rng.normal(0.65, 0.05, 10)
    mine = [_result(f"random{i}", error=float(e)) for i, e in enumerate(ours)]
    others = [_result(f"random{i}", "forest", float(e)) for i, e in enumerate(theirs)]
    found = difference(mine, others[::-1])
    assert found is not None
    mean, half, n = found
    paired = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert n == 10
    assert mean == pytest.approx((ours - theirs).mean())
    # The plain interval of pairs has 1/n where this has 1/n + test/train.
    assert half == pytest.approx((paired.high - paired.low) / 2 * np.sqrt((1 / 10 + 1 / 8) / (1 / 10)))
    assert difference(mine[:1], others) is None


def test_means_are_over_the_splits_that_all_have_run():
    runs = [_result("random0", error=0.5), _result("random1", error=0.9), _result("random0", "forest", 0.6)]
    lines = page(runs).splitlines()
    assert any(line.startswith("| molattn | 0.500 (1)") for line in lines)
    assert any(line.startswith("| forest | 0.600 (1)") for line in lines)


def test_ensembles_are_compared_with_their_members_and_leave_the_table_of_single_models_as_it_is():
    runs = [_result(f"random{i}", error=e) for i, e in enumerate((0.5, 0.7))]
    runs += [_result(f"random{i}", "forest", e) for i, e in enumerate((0.6, 0.8))]
    runs.append(_result("random1", "molattn-ensemble", 0.65))
    lines = page(runs).splitlines()
    single, ensembles = (i for i, line in enumerate(lines) if line.startswith("| test rmse"))
    assert [line.split(" |")[0] for line in lines[single + 2 : single + 4]] == ["| molattn", "| forest"]
    assert lines[single + 2].startswith("| molattn | 0.600 ± 0.141 (2)")
    of_five = lines[ensembles + 2 : ensembles + 4]
    assert of_five == ["| molattn-ensemble | 0.650 (1) |", "| molattn | 0.700 (1) |"]


def test_the_table_names_the_better_model_for_errors_and_for_auroc():
    runs = [
        _result(f"random{i}", model, error + i / 1000)
        for i in range(5)
        for model, error in (("molattn", 0.5), ("forest", 0.9), ("chemprop", 0.3))
    ]
    lines = page(runs).splitlines()
    assert any(line.startswith("| forest | -0.400") and line.endswith("| molattn |") for line in lines)
    assert any(line.startswith("| chemprop | +0.200") and line.endswith("| chemprop |") for line in lines)
    of_classes = [accuracy.Result(**{**vars(run), "metric": "auroc"}) for run in runs]
    lines = page(of_classes).splitlines()
    assert any(line.startswith("| forest | -0.400") and line.endswith("| forest |") for line in lines)
