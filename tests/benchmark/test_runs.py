"""A benchmark: which labels a training reads, scores against other libraries, resuming, and invalid arguments."""

import csv
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, roc_auc_score

from molattn.benchmark import (
    BenchmarkTask,
    benchmark_tasks,
    published_entries,
    read_task,
    read_test_labels,
    run_benchmark,
)
from molattn.benchmark.runs import read_scores
from molattn.benchmark.tasks import count_shared
from molattn.benchmark.trainings import TrainingJob, molattn_trainer
from molattn.data import load_card, tdc_scaffold_split
from molattn.errors import InputError, UsageError
from molattn.training.run_config import resolve
from tests.data.groups import (
    NUM_TEST,
    NUM_TRAIN,
    esol_smiles,
    made_up_label,
    moleculeace_file,
    tdc_files,
    write_files,
)

fetch_module = sys.modules["molattn.data.datasets.fetch"]


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of MOLATTN_DATA with two tasks of TDC, and an empty cache of tables."""
    folder = write_files(tmp_path / "data", tdc_files("caco2_wang") | tdc_files("hia_hou", is_binary=True))
    monkeypatch.setenv("MOLATTN_DATA", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


class Carbons:
    """A model that predicts scaled numbers of carbon atoms, and records its trainings."""

    def __init__(self) -> None:
        self.jobs: list[TrainingJob] = []

    def __call__(self, job: TrainingJob) -> np.ndarray:
        self.jobs.append(job)
        return np.array([text.upper().count("C") for text in job.test_smiles]) / (10.0 + job.seed)


def tasks(*names: str) -> list[BenchmarkTask]:
    """Tasks of TDC."""
    return benchmark_tasks("tdc", names)


def spoil_test_labels(data: Path) -> None:
    """Replace the labels of all test molecules by words."""
    for path in data.glob("admet_group/*/test.csv"):
        header, *lines = path.read_text().splitlines()
        path.write_text("\n".join([header, *(re.sub(r",[^,]*$", ",sealed", line) for line in lines)]) + "\n")


def test_a_training_reads_no_label_of_a_test_molecule(data: Path, tmp_path: Path) -> None:
    spoil_test_labels(data)
    carbons = Carbons()
    with pytest.raises(InputError, match="the label is 'sealed', not a number"):
        run_benchmark(tasks("caco2_wang"), carbons, tmp_path / "run", [3])
    (job,) = carbons.jobs
    train = esol_smiles()[:NUM_TRAIN]
    assert (job.smiles, job.test_smiles) == (train, esol_smiles()[NUM_TRAIN:])
    assert job.y == pytest.approx([made_up_label(text) for text in train])
    assert (job.task_type, job.seed) == ("regression", 3)
    assert job.split.tolist() == tdc_scaffold_split(train, 3).tolist()
    # The predictions are stored, without a score.
    assert (tmp_path / "run" / "predictions" / "caco2_wang-3.csv").is_file() and not read_scores(tmp_path / "run")


def test_molattn_trains_on_tables_without_test_labels(data: Path, tmp_path: Path) -> None:
    spoil_test_labels(data)
    task = tasks("caco2_wang")[0]
    assert len(read_task(task).test_smiles) == NUM_TEST
    with pytest.raises(InputError, match="sealed"):
        read_test_labels(task)
    # The split and the columns follow the protocol, whatever the settings are.
    options = {"epochs": 1, "accelerator": "cpu", "num_folds": 3, "split": "scaffold", "duplicates": "mean"}
    train = molattn_trainer(resolve(None, options, ["model.num_layers=1", "model.hidden_dim=8"]))
    with pytest.raises(InputError, match="sealed"):
        run_benchmark([task], train, tmp_path / "run", [1])
    with open(tmp_path / "run" / "predictions" / "caco2_wang-1.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["smiles"] for row in rows] == esol_smiles()[NUM_TRAIN:]
    assert len({row["prediction"] for row in rows}) > NUM_TEST / 2


def test_scores_are_those_of_scikit_learn(tmp_path: Path) -> None:
    chosen = tasks("caco2_wang", "hia_hou")
    caco2, hia = run_benchmark(chosen, Carbons(), tmp_path, [1, 2])
    for summary, oracle in ((caco2, mean_absolute_error), (hia, roc_auc_score)):
        task = chosen[0] if summary.task == "caco2_wang" else chosen[1]
        y, parts = read_test_labels(task)
        assert list(parts) == ["all"] and parts["all"].all()
        for seed, value in zip(summary.seeds, summary.scores, strict=True):
            with open(tmp_path / "predictions" / f"{summary.task}-{seed}.csv", newline="") as file:
                p = [float(row["prediction"]) for row in csv.DictReader(file)]
            assert value == pytest.approx(oracle(y, p), rel=1e-4)
        assert summary.lower < summary.mean < summary.upper
        assert summary.test == NUM_TEST and summary.published == published_entries("tdc", summary.task)
    assert caco2.std == pytest.approx(np.std(caco2.scores))
    assert (hia.task, hia.metric, hia.seeds) == ("hia_hou", "auroc", (1, 2))


def test_an_interrupted_benchmark_resumes_and_accepts_more_seeds_and_tasks(tmp_path: Path) -> None:
    class Stops(Carbons):
        def __call__(self, job: TrainingJob) -> np.ndarray:
            if len(self.jobs) == 2:
                raise KeyboardInterrupt
            return super().__call__(job)

    first, messages = Stops(), []
    with pytest.raises(KeyboardInterrupt):
        run_benchmark(tasks("caco2_wang"), first, tmp_path, [1, 2, 3], model="carbons")
    again = Carbons()
    (summary,) = run_benchmark(tasks("caco2_wang"), again, tmp_path, [1, 2, 3], "carbons", on_training=messages.append)
    assert [job.seed for job in again.jobs] == [3] and summary.seeds == (1, 2, 3)
    assert messages[0] == "1 of 1: tdc/caco2_wang, seed 3"
    before = (tmp_path / "scores.csv").read_text()
    more = Carbons()
    found = run_benchmark(tasks("hia_hou", "caco2_wang"), more, tmp_path, [1], "carbons")
    assert [job.task_type for job in more.jobs] == ["binary"]
    assert [(s.task, s.seeds) for s in found] == [("hia_hou", (1,)), ("caco2_wang", (1,))]
    assert (tmp_path / "scores.csv").read_text().startswith(before)
    with pytest.raises(UsageError, match=r"trainings of another model or other settings, see model\.json"):
        run_benchmark(tasks("caco2_wang"), Carbons(), tmp_path, [1], model="oxygens")
    assert len(read_scores(tmp_path)) == 4


def test_molecules_that_cannot_be_read_get_the_mean_and_are_counted(data: Path, tmp_path: Path) -> None:
    for part in ("train_val", "test"):
        path = data / "admet_group" / "caco2_wang" / f"{part}.csv"
        path.write_text(path.read_text() + "x,CC1=CC=C[NH+2]([O-])[CH-]1,1.5\n")
    carbons = Carbons()
    run_benchmark(tasks("caco2_wang"), carbons, tmp_path, [1])
    (row,) = read_scores(tmp_path)
    assert (row["unreadable"], row["test"]) == ("2", f"{NUM_TEST + 1}")
    assert int(row["train"]) + int(row["val"]) == NUM_TRAIN == len(carbons.jobs[0].smiles)
    last = (tmp_path / "predictions" / "caco2_wang-1.csv").read_text().splitlines()[-1]
    assert float(last.rpartition(",")[2]) == pytest.approx(read_task(tasks("caco2_wang")[0]).y.mean())


def test_molecules_in_two_subsets_are_counted(data: Path, tmp_path: Path) -> None:
    assert count_shared(("C[C@H](O)CC", "CCO"), ("C[C@@H](O)CC", "OCC", "CCC", "no molecule")) == 2
    path = data / "admet_group" / "caco2_wang" / "test.csv"
    path.write_text(path.read_text() + f"x,{esol_smiles()[0]},1.0\nx,{esol_smiles()[1]},1.0\n")
    (summary,) = run_benchmark(tasks("caco2_wang"), Carbons(), tmp_path, [1])
    plain = count_shared(tuple(esol_smiles()[:NUM_TRAIN]), tuple(esol_smiles()[NUM_TRAIN:]))
    assert summary.both_sides == plain + 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.full(NUM_TEST, np.nan), "has none"),
        (np.zeros(3), "shape is"),
        (np.append(np.zeros(NUM_TEST), np.nan), "shape is"),
    ],
)
def test_predictions_that_are_missing_are_refused(answer: np.ndarray, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"30 test molecules need finite predictions.*{message}"):
        run_benchmark(tasks("caco2_wang"), lambda _: answer, tmp_path / "run", [1])
    assert not read_scores(tmp_path / "run")


def test_tasks_are_of_one_benchmark_and_have_names(tmp_path: Path) -> None:
    both = [*tasks("herg"), *benchmark_tasks("moleculeace", ["CHEMBL2034_Ki"])]
    for chosen, seeds in ((both, [1]), ([], [1]), (tasks("herg"), [])):
        with pytest.raises(UsageError, match="needs tasks of one group and seeds"):
            run_benchmark(chosen, Carbons(), tmp_path / "run", seeds)
    assert [task.name for task in tasks("tdc/herg", "herg", "dili")] == ["herg", "dili"]
    with pytest.raises(UsageError, match="unknown benchmark 'esol'"):
        benchmark_tasks("esol")
    with pytest.raises(UsageError, match="unknown task of tdc 'hrg': did you mean 'herg'"):
        tasks("hrg")
    (tmp_path / "scores.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="is not a file of scores"):
        read_scores(tmp_path)


def test_moleculeace_is_scored_on_activity_cliffs_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card = load_card("moleculeace/CHEMBL2034_Ki")
    assert card.download is not None
    # The made-up file has another checksum.
    made_up = replace(card, download=replace(card.download, sha256=""))
    monkeypatch.setattr(fetch_module, "load_card", lambda _: made_up)
    monkeypatch.setenv(
        "MOLATTN_DATA", str(write_files(tmp_path, {"moleculeace/CHEMBL2034_Ki.csv": moleculeace_file()}))
    )
    carbons = Carbons()
    everything, cliffs = run_benchmark([BenchmarkTask(card)], carbons, tmp_path / "run", [1])
    test = [i for i in range(NUM_TRAIN + NUM_TEST) if i % 5 == 0]
    assert carbons.jobs[0].test_smiles == [esol_smiles()[i] for i in test]
    assert (carbons.jobs[0].split == "val").mean() == pytest.approx(0.1, abs=0.02)
    assert (everything.part, cliffs.part) == ("all", "cliffs")
    assert (everything.test, cliffs.test) == (len(test), sum(i % 2 for i in test))
    errors = np.array([made_up_label(esol_smiles()[i]) - esol_smiles()[i].upper().count("C") / 11 for i in test])
    on_cliff = np.array(test) % 2 == 1
    assert everything.mean == pytest.approx(np.sqrt((errors**2).mean()), rel=1e-4)
    assert cliffs.mean == pytest.approx(np.sqrt((errors[on_cliff] ** 2).mean()), rel=1e-4)
    assert everything.rank is None and everything.indistinguishable == []
