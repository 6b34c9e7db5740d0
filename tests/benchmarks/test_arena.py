"""`benchmarks/arena.py`: protocols, access to test labels, counts of reads, resuming, and the statistics of scores."""

import ast
import csv
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import arena
import arena_budget
import arena_intervals
import arena_page
import arena_runs
import arena_statistics
import arena_tasks
import numpy as np
import pytest
from arena_statistics import Difference
from compared_models import ARENA_MODELS, TrainingJob
from scipy import stats
from sklearn.metrics import average_precision_score, mean_absolute_error, roc_auc_score
from tables import append_rows, read_rows

from molattn.benchmark.tasks import count_shared
from molattn.chem import murcko_scaffold
from molattn.data import column, load_card, read_table, tdc_scaffold_split
from molattn.errors import InputError, UsageError
from molattn.training.metrics import METRICS

BENCHMARKS = Path(arena.__file__).parent
SCORE = "arena_score"


@pytest.fixture(scope="module")
def smiles() -> list[str]:
    card = load_card("esol")
    return [text for text in column(read_table(card.path), card.smiles_column)[:160] if arena_tasks.is_readable(text)]


@pytest.fixture
def data(tmp_path: Path, smiles: list[str]) -> Path:
    """A folder of the arena with made-up labels: a task of classes, one of numbers, and a target of MoleculeACE."""
    folder = tmp_path / "data"
    y = [len(text) % 7 + len(text) / 100 for text in smiles]
    for name in ("hia_hou", "caco2_wang"):
        labels = [int(value > 3) for value in y] if name == "hia_hou" else y
        (folder / "tdc" / name).mkdir(parents=True)
        for side, rows in (("train_val", slice(0, 120)), ("test", slice(120, None))):
            with open(folder / "tdc" / name / f"{side}.csv", "w", newline="") as file:
                lines = zip(range(160), smiles[rows], labels[rows], strict=False)
                csv.writer(file).writerows([("Drug_ID", "Drug", "Y"), *lines])
    (folder / "moleculeace").mkdir()
    with open(folder / "moleculeace" / "CHEMBL2034_Ki.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "y [pEC50/pKi]", "cliff_mol", "split"])
        for i, (text, value) in enumerate(zip(smiles, y, strict=True)):
            writer.writerow([text, value, i % 2, "train" if i < 120 else "test"])
    arena_tasks.read_task.cache_clear()
    return folder


def spoil_test_labels(data: Path) -> None:
    """Replace the labels of all test molecules by words."""
    for path in data.glob("tdc/*/test.csv"):
        header, *lines = path.read_text().splitlines()
        path.write_text("\n".join([header, *(re.sub(r",[^,]*$", ",sealed", line) for line in lines)]) + "\n")
    for path in data.glob("moleculeace/*.csv"):
        path.write_text(re.sub(r",[^,\n]*,(\d),test", r",sealed,\1,test", path.read_text()))


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[TrainingJob]:
    """The trainings of a model that predicts the numbers of carbon atoms, scaled by its seed."""
    found: list[SimpleNamespace] = []

    def carbons(job: TrainingJob) -> np.ndarray:
        with open(job.table, newline="") as file:
            rows = list(csv.DictReader(file))
        found.append(SimpleNamespace(rows=rows, task=job.task, seed=job.seed, log_target=job.log_target))
        return np.array([row["smiles"].upper().count("C") for row in rows]) / (10.0 + job.seed)

    monkeypatch.setitem(ARENA_MODELS, "forest", carbons)
    monkeypatch.setattr(arena_budget, "max_seconds", lambda _: float("inf"))
    return found


def test_the_protocol_splits_by_scaffold_as_the_published_description_says(smiles: list[str]) -> None:
    sides = {seed: tdc_scaffold_split(smiles, seed) for seed in (1, 2, 3)}
    scaffolds = np.array([murcko_scaffold(text) for text in smiles])
    room = int(0.875 * len(smiles))
    for found in sides.values():
        assert set(found) == {"train", "val"}
        assert all(len(set(found[scaffolds == own])) == 1 for own in set(scaffolds))
        # Filled as far as groups allow: the smallest validation group would not have fitted.
        trained = (found == "train").sum()
        assert trained <= room < trained + min(Counter(scaffolds[found == "val"]).values())
    assert sides[1].tolist() == tdc_scaffold_split(smiles, 1).tolist() != sides[2].tolist()
    # The first scaffold of the shuffled order is in train, if it is not too large.
    order = list(dict.fromkeys(scaffolds))
    random.Random(3).shuffle(order)
    first = next(name for name in order if (scaffolds == name).sum() <= room)
    assert set(sides[3][scaffolds == first]) == {"train"}


def test_a_tenth_of_a_target_of_moleculeace_validates_molecule_by_molecule(smiles: list[str]) -> None:
    task = arena_tasks.TASKS["CHEMBL2034_Ki"]
    one, two = (arena_tasks.protocol_split(task, smiles, seed) for seed in (1, 2))
    assert (one == "val").mean() == pytest.approx(0.1, abs=0.01) and one.tolist() != two.tolist()


def test_tasks_have_the_metrics_of_their_leaderboards_whose_entries_are_sorted() -> None:
    assert [len(arena_tasks.tasks_of(group)) for group in (arena_tasks.TDC, arena_tasks.MOLECULEACE)] == [22, 20]
    published = arena_page.PUBLISHED["tdc"]
    assert set(published) == {task.name for task in arena_tasks.tasks_of(arena_tasks.TDC)}
    for name, board in published.items():
        task, means = arena_tasks.TASKS[name], arena_page.means_of(name)
        assert board["metric"] == task.metric
        assert means == sorted(means, reverse=METRICS[task.metric].larger_is_better)


@pytest.mark.parametrize("name", ["hia_hou", "caco2_wang", "CHEMBL2034_Ki"])
def test_training_reads_no_label_of_a_test_molecule(
    name: str, data: Path, tmp_path: Path, jobs: list[TrainingJob], smiles: list[str]
) -> None:
    spoil_test_labels(data)
    score_module = sys.modules.pop(SCORE, None)
    arena.main([str(data), "train", "--tasks", name, "--seeds", "1", "--models", "forest", "--runs", str(tmp_path)])
    assert SCORE not in sys.modules
    if score_module:
        sys.modules[SCORE] = score_module
    (job,) = jobs
    rows = job.rows
    assert [row["smiles"] for row in rows] == smiles
    assert all((row["split"] == "test") == (i >= 120) == (row["y"] == "") for i, row in enumerate(rows))
    record = json.loads((tmp_path / "forest" / f"{name}-1.json").read_text())
    assert (record["train"] + record["val"], record["test"], record["seed"]) == (120, len(smiles) - 120, 1)
    answers = [float(row["y_pred"]) for row in read_rows(tmp_path / "forest" / f"{name}-1.csv")]
    assert answers == pytest.approx([text.upper().count("C") / 11 for text in smiles[120:]])


def test_a_real_contender_trains_without_labels_of_test_molecules(data: Path, tmp_path: Path) -> None:
    path = data / "tdc" / "caco2_wang" / "test.csv"
    path.write_text("Drug\n" + "".join(row["Drug"] + "\n" for row in read_rows(path)))  # not even a column
    where = ["--models", "forest-morgan", "--seeds", "1", "--runs", str(tmp_path)]
    arena.main([str(data), "train", "--tasks", "caco2_wang", *where])
    ((record, answers),) = arena_runs.finished_runs(tmp_path)
    y = arena_tasks.read_task(data, "caco2_wang").y
    assert (record.model, len(answers)) == ("forest-morgan", record.test) and record.seconds > 0
    assert len(set(answers)) > 1 and y.min() <= answers.min() and answers.max() <= y.max()


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """The modules that a file names in import statements, and the functions around these, '' for none."""

    def visit(node: ast.AST, function: str) -> Iterator[tuple[str, str]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from ((alias.name, function) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                yield child.module or "", function
                yield from ((f"{child.module}.{alias.name}", function) for alias in child.names)
            inner = child.name if isinstance(child, ast.FunctionDef) and not function else function
            yield from visit(child, inner)

    yield from visit(ast.parse(path.read_text(encoding="utf-8")), "")


def strings_of(tree: ast.AST) -> Iterator[str]:
    """The strings of a file that are no docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_only_the_score_command_imports_the_module_that_reads_test_labels() -> None:
    graph = {path.stem: set(imports_of(path)) for path in BENCHMARKS.glob("*.py")}
    own = {(file, function) for file, found in graph.items() for name, function in found if SCORE in name.split(".")}
    assert own == {("arena", "score")}
    # Neither train and folds of arena.py nor anything they import, directly or not, imports that module.
    reached, ahead = set(), {name for name, function in graph["arena"] if function != "score"}
    assert "arena_runs" in ahead
    while ahead:
        name = ahead.pop().partition(".")[0]
        if name in graph and name not in reached:
            reached.add(name)
            ahead |= {found for found, _ in graph[name]}
    assert SCORE not in reached and "arena" not in reached
    # No file bypasses the rule, by a reader of its own or by dynamic imports.
    for path in BENCHMARKS.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        named = [string for string in strings_of(ast.parse(text)) if "test.csv" in string]
        assert path.stem in (SCORE, "arena_tasks") or not named, path
        assert not re.search(r"importlib\.import_module|__import__|runpy|exec\(", text), path


def test_molattn_imports_no_benchmark() -> None:
    names = "|".join(path.stem for path in BENCHMARKS.glob("arena*.py"))
    rule = re.compile(rf"^\s*(?:from|import)\s+(?:benchmarks|{names})\b", re.M)
    assert rule.search("import arena_score")
    package = BENCHMARKS.parent / "molattn"
    assert not [path for path in package.rglob("*.py") if rule.search(path.read_text(encoding="utf-8"))]


def test_trainings_are_done_once_and_stop_when_their_core_hours_are_spent(
    data: Path,
    tmp_path: Path,
    jobs: list[TrainingJob],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = [str(data), "train", "--tasks", "caco2_wang", "hia_hou", "--models", "forest", "--runs", str(tmp_path)]
    arena.main([*command, "--seeds", "1"])
    assert [(job.task, job.seed) for job in jobs] == [("binary", 1), ("regression", 1)]  # the smallest first
    arena.main([*command, "--seeds", "1", "2"])
    assert [job.seed for job in jobs] == [1, 1, 2, 2]
    (tmp_path / "forest" / "hia_hou-2.json").unlink()  # as if it had been killed before its end
    arena.main([*command, "--seeds", "1", "2"])
    assert len(jobs) == 5
    arena.main([*command, "--seeds", "3", "--hours", "0"])
    monkeypatch.setattr(arena_budget, "max_seconds", lambda _: 0.0)
    arena.main([*command, "--seeds", "3"])
    assert len(jobs) == 5
    stderr = capsys.readouterr().err
    assert "0 hours are over: run the same command again" in stderr
    assert "forest: the core-hours in benchmarks/arena_budget.py are spent" in stderr


@pytest.mark.usefixtures("jobs")
def test_options_are_distinguished_by_a_tag_and_names_are_checked(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no task 'hia': choose among"):
        arena.main([str(data), "train", "--tasks", "hia", "--runs", str(tmp_path)])
    with pytest.raises(UsageError, match="no model 'tree': choose among"):
        arena.main([str(data), "train", "--tasks", "hia_hou", "--models", "tree", "--runs", str(tmp_path)])
    with pytest.raises(UsageError, match="which forest does not have"):
        arena_runs.find_model("forest", "--epochs 1")
    with pytest.raises(InputError, match=r"no table .*dili/train_val\.csv"):
        arena.main([str(data), "train", "--tasks", "dili", "--models", "forest", "--runs", str(tmp_path)])
    for wrong in (["train", "--options", "--epochs 1"], ["score"], []):
        with pytest.raises(SystemExit):
            arena.main([str(data), *wrong])
    assert arena_runs.tagged_name("molattn", "ranks") == "molattn ranks"


@pytest.mark.usefixtures("jobs")
def test_each_read_of_test_labels_is_counted_and_no_training_is_scored_twice(
    data: Path, tmp_path: Path, smiles: list[str]
) -> None:
    runs, results = tmp_path / "runs", tmp_path / "results"
    tasks = ["hia_hou", "caco2_wang", "CHEMBL2034_Ki"]
    arena.main([str(data), "train", "--tasks", *tasks, "--seeds", "1", "--models", "forest", "--runs", str(runs)])
    command = [str(data), "score", "--reason", "a try", "--runs", str(runs), "--results", str(results)]
    for _ in range(2):
        arena.main(command)
    reads = read_rows(results / "arena_reads.csv")
    assert [(r["task"], r["model"], r["seed"], r["reason"], r["count"]) for r in reads] == [
        (name, "forest", "1", "a try", "1") for name in sorted(tasks)
    ]
    rows = {(row["task"], row["part"]): row for row in read_rows(results / "arena.csv")}
    assert set(rows) == {
        ("hia_hou", "all"),
        ("caco2_wang", "all"),
        ("CHEMBL2034_Ki", "all"),
        ("CHEMBL2034_Ki", "cliffs"),
    }
    answers = np.array([text.upper().count("C") / 11 for text in smiles[120:]])
    y = np.array([float(row["Y"]) for row in read_rows(data / "tdc" / "caco2_wang" / "test.csv")])
    classes = np.array([float(row["Y"]) for row in read_rows(data / "tdc" / "hia_hou" / "test.csv")])
    expected = {
        ("caco2_wang", "all"): mean_absolute_error(y, answers),
        ("hia_hou", "all"): roc_auc_score(classes, answers),
        ("CHEMBL2034_Ki", "all"): np.sqrt(np.mean((y - answers) ** 2)),
        ("CHEMBL2034_Ki", "cliffs"): np.sqrt(np.mean((y - answers)[1::2] ** 2)),
    }
    for key, value in expected.items():
        assert float(rows[key]["score"]) == pytest.approx(value, rel=1e-4)
        assert float(rows[key]["lower"]) < value < float(rows[key]["upper"])
    # Another training is another read; a read counts even if the labels turn out to be unreadable.
    arena.main([str(data), "train", "--tasks", "hia_hou", "--seeds", "2", "--models", "forest", "--runs", str(runs)])
    spoil_test_labels(data)
    with pytest.raises(ValueError):
        arena.main(command)
    assert len(read_rows(results / "arena_reads.csv")) == 4 and len(read_rows(results / "arena.csv")) == 4


def test_predictions_that_were_changed_after_training_are_not_scored(
    data: Path, tmp_path: Path, jobs: list[TrainingJob]
) -> None:
    arena.main(
        [str(data), "train", "--tasks", "hia_hou", "--seeds", "1", "--models", "forest", "--runs", str(tmp_path)]
    )
    path = tmp_path / "forest" / "hia_hou-1.csv"
    path.write_text(path.read_text().replace("0,", "0,1", 1))
    with pytest.raises(RuntimeError, match="has changed since its training"):
        list(arena_runs.finished_runs(tmp_path))
    assert len(jobs) == 1


def test_molecules_that_cannot_be_read_get_the_mean_and_are_counted(
    data: Path, tmp_path: Path, jobs: list[TrainingJob]
) -> None:
    path = data / "tdc" / "caco2_wang" / "test.csv"
    path.write_text(path.read_text() + "x,CC1=CC=C[NH+2]([O-])[CH-]1,1.0\n")
    arena_tasks.read_task.cache_clear()
    arena.main(
        [str(data), "train", "--tasks", "caco2_wang", "--seeds", "1", "--models", "forest", "--runs", str(tmp_path)]
    )
    (record, answers), *_ = arena_runs.finished_runs(tmp_path)
    assert record.unreadable == 1 and len(answers) == record.test == len(jobs[0].rows) - 120 + 1
    assert answers[-1] == pytest.approx(arena_tasks.read_task(data, "caco2_wang").y.mean())


def test_molecules_in_two_subsets_are_those_with_the_same_bonds() -> None:
    assert count_shared(("C[C@H](O)CC", "CCO"), ("C[C@@H](O)CC", "OCC", "CCC", "no molecule")) == 2


@pytest.mark.parametrize(
    ("metric", "oracle"),
    [
        ("mae", mean_absolute_error),
        ("auroc", roc_auc_score),
        ("auprc", average_precision_score),
        ("spearman", lambda y, p: stats.spearmanr(y, p).statistic),
    ],
)
def test_scores_are_those_of_other_libraries(metric: str, oracle) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=60).astype(float) if metric.startswith("au") else rng.normal(size=60).round(1)
    answers = (y + rng.normal(size=60)).round(1)
    value, lower, upper = arena_statistics.bootstrap_interval(metric, y, answers, num_samples=50)
    assert value == pytest.approx(oracle(y, answers))
    assert lower < value < upper


def test_an_interval_has_its_nominal_coverage() -> None:
    rng = np.random.default_rng(1)
    truth, held = np.sqrt(2 / np.pi), 0  # the mean absolute value of a normal error
    for _ in range(100):
        errors = rng.normal(size=80)
        _, lower, upper = arena_statistics.bootstrap_interval("mae", np.zeros(80), errors, num_samples=200)
        held += lower < truth < upper
    assert 86 <= held <= 99


def test_resamples_of_one_class_are_skipped() -> None:
    y = np.array([1.0] + [0.0] * 9)
    value, lower, upper = arena_statistics.bootstrap_interval("auroc", y, np.arange(10.0), num_samples=200)
    assert value == 0.0 and lower == upper == 0.0


def test_ranks_are_those_of_leaderboards_made_by_hand() -> None:
    aurocs, errors = [0.9, 0.8, 0.8, 0.7], [0.2, 0.3, 0.4]
    assert [arena_statistics.rank(value, aurocs, "auroc") for value in (0.95, 0.85, 0.8, 0.5)] == [1, 2, 2, 5]
    assert [arena_statistics.rank(value, errors, "mae") for value in (0.1, 0.3, 0.35, 0.5)] == [1, 2, 3, 4]
    assert arena_statistics.rank_range(0.75, 0.85, aurocs, "auroc") == (2, 4)
    assert arena_statistics.rank_range(0.1, 0.5, errors, "mae") == (1, 4)


def _differences(gains: dict[str, list[float]], spread: float = 1.0) -> dict[str, Difference]:
    return {name: Difference(np.array(values), spread, 0.3) for name, values in gains.items()}


def test_the_rule_accepts_options_that_are_better_on_average_and_worse_for_no_task() -> None:
    better = {"a": [0.5, 0.6, 0.4, 0.5, 0.7], "b": [0.1, 0.3, 0.2, 0.2, 0.4], "c": [0.4, 0.3, 0.5, 0.2, 0.3]}
    assert arena_statistics.decide(_differences(better), list("abc")) == "accepted"
    assert arena_statistics.decide(_differences(better), list("abcd")) == "undecided: 3 of 4 tasks"
    noise = {"a": [0.5, -0.6, 0.4, -0.5, 0.1], "b": [0.1, -0.3, 0.2, -0.2, 0.1], "c": [0.4, -0.3, 0.5, -0.4, -0.1]}
    assert arena_statistics.decide(_differences(noise), list("abc")) == "rejected"
    hurt = {**better, "a": [5.5, 5.6, 5.4, 5.5, 5.7], "c": [-0.2, -0.21, -0.2, -0.19, -0.2]}
    assert arena_statistics.decide(_differences(hurt), list("abc")) == "rejected: worse for c"
    assert arena_statistics.decide(_differences(better, 0.0), list("abc")).startswith("undecided: the folds of a")
    mean, low, high = arena_statistics.mean_standardized_difference(list(_differences(better, 2.0).values()))
    assert low < mean < high and mean == pytest.approx(np.mean([np.mean(v) for v in better.values()]) / 2)


def test_the_interval_of_a_task_is_the_corrected_one_of_resampled_splits() -> None:
    values = np.array([0.1, 0.4, 0.2, 0.6, 0.3])
    plain = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    half = (plain.high - plain.low) / 2 * np.sqrt((1 / 5 + 0.3) / (1 / 5))
    assert Difference(values, 1.0, 0.3).half_interval == pytest.approx(half)


def test_folds_compare_options_on_labelled_molecules_and_resume(
    data: Path,
    tmp_path: Path,
    jobs: list[TrainingJob],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(ARENA_MODELS, "molattn", ARENA_MODELS["forest"])
    monkeypatch.setattr(arena_runs, "molattn", lambda job, **_: ARENA_MODELS["forest"](job) * 0 + 3.0)
    spoil_test_labels(data)
    command = [str(data), "folds", "--tasks", "caco2_wang", "--options", "", "--set training.ema=0"]
    for folds in (["0"], ["0", "1"]):
        arena.main([*command, "--folds", *folds, "--results", str(tmp_path)])
    rows = read_rows(tmp_path / "arena_folds.csv")
    assert [(row["options"], row["fold"]) for row in rows] == [
        (options, fold) for fold in "01" for options in ("", "--set training.ema=0")
    ]
    assert len(jobs) == 4
    labelled = arena_tasks.read_task(data, "caco2_wang")
    truth = dict(zip(labelled.smiles, labelled.y, strict=True))
    for job, row in zip(jobs, rows, strict=True):
        held = [r["smiles"] for r in job.rows if r["split"] == "test"]
        assert all((r["y"] == "") == (r["split"] == "test") for r in job.rows) and len(job.rows) == 120
        y = np.array([truth[text] for text in held])
        answers = np.full(len(y), 3.0) if row["options"] else np.array([t.upper().count("C") for t in held]) / 10
        assert float(row["score"]) == pytest.approx(np.abs(y - answers).mean(), rel=1e-4)
    found = arena_statistics.differences(rows, "--set training.ema=0")["caco2_wang"]
    scores = np.array([float(row["score"]) for row in rows]).reshape(2, 2)
    assert found.values == pytest.approx(scores[:, 0] - scores[:, 1])  # of an error, less is better
    assert found.std == pytest.approx(scores[:, 0].std(ddof=1))
    assert "undecided: 1 of 22 tasks" in capsys.readouterr().out
    assert arena_runs.model_and_options("catboost") == ("catboost", "")


def _row(task: str, seed: int, score: float, model: str = "molattn", part: str = "all", **more: str) -> dict[str, str]:
    known = {"task": task, "model": model, "seed": str(seed), "part": part, "metric": arena_tasks.TASKS[task].metric}
    known |= {"score": str(score), "lower": str(score - 0.02), "upper": str(score + 0.02), "test": "117"}
    return known | {"both_sides": "6", "seconds": "36", "machine": "One thread."} | more


def test_the_page_has_means_intervals_ranks_and_reads() -> None:
    results = [_row("hia_hou", seed, 0.974 + seed / 1000) for seed in (1, 2, 3, 4, 5)]
    results += [_row("herg", 1, 0.5), _row("hia_hou", 1, 0.9, "catboost")]
    results += [_row("CHEMBL2034_Ki", 1, 0.7), _row("CHEMBL2034_Ki", 1, 0.8, part="cliffs")]
    reads = [{"date": "today", "task": "hia_hou", "model": "molattn", "seed": "1", "reason": "a try", "count": "5"}]
    text = arena_page.page(results, reads, [], [])
    assert "- molattn (defaults): 6 of 110 runs of TDC, 1 of 100 runs of MoleculeACE" in text
    entries = arena_page.means_of("hia_hou")
    own, best, worst = (1 + sum(mean > end for mean in entries) for end in (0.977, 0.997, 0.957))
    lines = text.splitlines()
    score = "0.977 ± 0.001"
    assert any(line.startswith("| hia_hou | AUROC | 20 |") and f"| {score} | 0.900 (1) | 5 |" in line for line in lines)
    row = f"| hia_hou | {score} | 0.957 to 0.997 | {own} of 21 | {best} to {worst} | {worst - best} | 117 (6) |"
    assert row in lines
    assert f"Mean rank: {(own + 21) / 2:.1f}, over 2 of 21 tasks." in lines
    assert "| molattn | measured | 1 | 0.700 | 0.800 |" in lines
    assert "| today | molattn | a try | 5 |" in lines
    assert re.search(r"\| molattn \| the default .* \| 0\.1 \|", text)


def test_the_page_counts_tasks_in_which_a_model_is_better_than_the_best_entry() -> None:
    results = []
    for task in arena_tasks.tasks_of("tdc"):
        for name, mean, _ in arena_page.PUBLISHED["tdc"][task.name]["entries"]:
            if name == "MapLight + GNN":  # as good in all tasks, and better in two
                sign = -1 if task.metric == "mae" else 1
                results.append(_row(task.name, 1, mean + sign * 0.01 * (task.name in {"herg", "caco2_wang"})))
    text = arena_page.page(results, [], [], [])
    assert "Better than MapLight + GNN, the best published entry by mean rank, in 2 of them." in text
    assert "Better than" not in arena_page.page(results[1:], [], [], [])


def test_the_page_compares_with_published_results_that_are_in_no_leaderboard() -> None:
    published = arena_page.PUBLISHED["elsewhere"]["CheMeleon"]
    assert "herg" in published and "hia_hou" not in published
    results = [_row("herg", seed, published["herg"] + 0.01) for seed in (1, 2)]
    results.append(_row("caco2_wang", 1, published["caco2_wang"] + 0.01))  # an error: worse
    results.append(_row("hia_hou", 1, 1.0))
    text = arena_page.page(results, [], [], [])
    section = text[text.index("## CheMeleon") : text.index("## MoleculeACE")]
    assert f"| herg | AUROC | {published['herg'] + 0.01:.3f} ± 0.000 (2) | {published['herg']:.3f} |" in section
    assert "molattn better than CheMeleon, 1 of 17; " in section and "| hia_hou |" not in section
    assert "better than CheMeleon" not in arena_page.page([], [], [], [])


def test_a_training_that_is_the_same_with_other_options_is_not_repeated(
    data: Path, tmp_path: Path, jobs: list[TrainingJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ARENA_MODELS, "molattn", ARENA_MODELS["forest"])
    monkeypatch.setattr(arena_runs, "molattn", lambda job, **_: ARENA_MODELS["forest"](job) + 1)
    command = [
        str(data),
        "folds",
        "--options",
        "",
        "--target-transform none",
        "--base nci",
        "--folds",
        "0",
        "--results",
        str(tmp_path),
    ]
    arena.main([*command, "--tasks", "hia_hou", "caco2_wang"])
    default, *copied = [row for row in read_rows(tmp_path / "arena_folds.csv") if row["task"] == "hia_hou"]
    # The base model nci is the default for so few molecules.
    assert copied == [{**default, "options": o, "seconds": "0"} for o in ("--target-transform none", "--base nci")]
    # The made-up numbers are not skewed, so that their training would be the same, too.
    assert len(jobs) == 2
    path = data / "tdc" / "caco2_wang" / "train_val.csv"
    header, *lines = path.read_text().splitlines()
    skewed = [f"{line.rpartition(',')[0]},{np.exp(float(line.rpartition(',')[2])):g}" for line in lines]
    path.write_text("\n".join([header, *skewed]) + "\n")
    arena_tasks.read_task.cache_clear()
    (tmp_path / "arena_folds.csv").unlink()
    arena.main([*command, "--tasks", "caco2_wang"])
    default, other, _ = read_rows(tmp_path / "arena_folds.csv")
    assert len(jobs) == 4 and other["score"] != default["score"]
    # Without a row of the defaults the training runs.
    assert arena.row_of_same_training(data, [], "hia_hou", "--target-transform none", 0, 0) is None


def test_the_page_of_folds_agrees_with_the_rule() -> None:
    rows = [
        {
            "task": task.name,
            "options": options,
            "fold": str(fold),
            "seed": "0",
            "metric": task.metric,
            "question": "base",
        }
        | {"score": str(0.5 + fold / 10 + bool(options) * (0.1 if METRICS[task.metric].larger_is_better else -0.1))}
        | {"train": "70", "held": "20", "seconds": "36", "machine": "One thread."}
        for task in arena_tasks.tasks_of(arena_tasks.TDC)
        for options in ("", "--base none")
        for fold in range(5)
    ]
    text = arena_page.page([], [], rows, [])
    # A tenth better in folds that have 0.5, 0.6, ... 0.9.
    gain = 0.1 / np.std([0.5, 0.6, 0.7, 0.8, 0.9], ddof=1)
    assert f"| `--base none` | 22 | {gain:+.2f} ({gain:+.2f} to {gain:+.2f}) | accepted |" in text
    assert "No training has been scored" in text and "| `--base none` | metric | folds |" in text


def test_intervals_of_a_fold_are_those_of_the_commands(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = []

    def recorded(command: list[object]) -> object:
        if "train" in command:
            return run([*command, "--epochs", "2"])
        folder, queries = command[command.index("predict") + 1 :][:2]
        metrics = json.loads((folder / "metrics.json").read_text())
        tables.extend([read_rows(queries), metrics["uncertainty"]["test"]["y"]])
        return run(command)

    run = arena_intervals.run
    monkeypatch.setattr(arena_intervals, "run", recorded)
    command = [str(data), "intervals", "--tasks", "caco2_wang", "--folds", "1", "--results", str(tmp_path)]
    arena.main(command)
    (row,) = read_rows(tmp_path / "arena_intervals.csv")
    held_out, evaluated = tables
    assert len(held_out) == int(row["held"]) > 10 and {r["split"] for r in held_out} == {"test"}
    # `molattn train` itself counts the same molecules as held out.
    assert float(row["inside"]) == pytest.approx(evaluated["coverage"], abs=1e-3)
    spread = np.std([float(r["y"]) for r in held_out])
    assert float(row["width"]) * spread == pytest.approx(evaluated["width"], rel=0.01)
    assert 0 <= int(row["unlike"]) <= int(row["held"])
    arena.main(command)  # a finished measurement is not repeated
    assert len(read_rows(tmp_path / "arena_intervals.csv")) == 1
    page = arena_page.page([], [], [], [row])
    assert f"| caco2_wang | 1 | {row['held']} | {float(row['inside']):.1%} |" in page
    with pytest.raises(UsageError, match="'hia_hou' has no intervals: choose among"):
        arena.main([*command[:3], "hia_hou", "--results", str(tmp_path)])


def test_the_committed_page_and_files_are_consistent() -> None:
    names = ("arena.csv", "arena_reads.csv", "arena_folds.csv", "arena_intervals.csv")
    files = [read_rows(arena.RESULTS / name) for name in names]
    assert arena_page.page(*files) == (arena.ROOT / "docs" / "arena.md").read_text(encoding="utf-8")
    results, reads, *_ = files
    early = [line for line in reads if line["reason"].startswith("before this file existed")]
    assert sum(int(line["count"]) for line in early) == 22 + 5 + 17 + 13
    counted = {(line["task"], line["model"], line["seed"]) for line in reads}
    assert {(row["task"], row["model"], row["seed"]) for row in results} <= counted


def test_the_budget_has_a_unique_name_for_each_question() -> None:
    names = [question.name for question in arena_budget.QUESTIONS]
    assert len(set(names)) == len(names) and all(question.hours > 0 for question in arena_budget.QUESTIONS)
    assert arena_budget.max_seconds("molattn") == 3600 * arena_budget.QUESTIONS[0].hours
    with pytest.raises(UsageError, match="no question 'unknown' .* add its budget first"):
        arena_budget.max_seconds("unknown")


def test_catboost_gets_what_maplight_gives_it(
    tmp_path: Path, smiles: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = []

    class Mean:
        """A stand-in for CatBoost: always predicts the mean of its training targets."""

        def __init__(self, **settings) -> None:
            self.settings = settings

        def fit(self, x: np.ndarray, y: np.ndarray) -> "Mean":
            fitted.append((self.settings, x, y))
            return self

        def predict(self, x: np.ndarray) -> np.ndarray:
            return np.zeros(len(x))

    monkeypatch.setitem(sys.modules, "catboost", SimpleNamespace(CatBoostRegressor=Mean, CatBoostClassifier=Mean))
    import catboost_maplight

    monkeypatch.delitem(sys.modules, "catboost_maplight")
    y = np.arange(1.0, 11.0)
    for row in zip(smiles, [*y, 99.0, 99.0], ["train"] * 8 + ["val"] * 2 + ["test"] * 2, strict=False):
        append_rows(tmp_path / "t.csv", [dict(zip(("smiles", "y", "split"), row, strict=True))])
    command = ["", str(tmp_path / "t.csv"), "-o", str(tmp_path / "p.csv"), "--log-target", "--seed", "3"]
    monkeypatch.setattr(sys, "argv", command)
    catboost_maplight.main()
    ((settings, x, learned),) = fitted
    assert x.shape == (10, 1024 + 1024 + 315 + 200)
    assert (settings["loss_function"], settings["random_strength"], settings["random_seed"]) == ("MAE", 2, 3)
    assert learned == pytest.approx((np.log10(1 + y) - np.log10(1 + y).mean()) / np.log10(1 + y).std())
    (answer,) = {float(row["y_pred"]) for row in read_rows(tmp_path / "p.csv")}
    assert answer == pytest.approx(10 ** np.log10(1 + y).mean() - 1)
