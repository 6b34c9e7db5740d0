"""How the number of molecules, the width and the epochs of a pretraining affect what is trained from the base model.

    python benchmarks/base_scaling.py DATA chembl.smi --make 5000x64x10 20000x128x10 --bases none nci chembl
    python benchmarks/base_scaling.py --page docs/results/base_scaling.md

DATA has the files tdc/TASK/train_val.csv, and the table has the molecules to pretrain on. `--make NxWxE` runs `molattn
pretrain` with at most N of them, width W and E epochs, and the other settings of the base model `chembl`. Each base
model is then the start of a training on the folds of `arena.py folds`, with the settings that `molattn train --base`
has for so many molecules. Base models and trainings that are there already are not repeated. No test molecule is read,
and the base models have not seen those of the folds: `molattn pretrain` leaves out test molecules only, so the
SMILES of the labeled molecules are excluded as well.
"""

import argparse
import json
import statistics
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from arena_runs import NO_DISTILLATION, cpu_seconds, train_fold
from arena_statistics import differences, mean_standardized_difference
from arena_tasks import TASKS, TDC, read_task, tasks_of
from commands import MOLATTN, run
from report import markdown
from tables import append_rows, read_rows, write_rows

from molattn.training.bases import find_base
from molattn.training.metrics import METRICS

RESULTS = Path(__file__).parent / "results" / "base_scaling.csv"
FOLDS = RESULTS.with_name("arena_folds.csv")
SCRATCH = "none"
INCLUDED = ("nci", "chembl")
DEFAULT_TASKS = ("caco2_wang", "clearance_microsome_az", "vdss_lombardo", "lipophilicity_astrazeneca")

INTRODUCTION = """# What a larger pretraining buys

Made by `python benchmarks/base_scaling.py --page docs/results/base_scaling.md`; the help of the command describes the
protocol. Base models that `molattn pretrain` makes of molecules of ChEMBL, and what is trained from each on folds of
the labeled molecules of TDC's tasks. The number after a task is that of its training molecules.
"""


def make_base(data: Path, molecules: Path, name: str, folder: Path) -> None:
    """Pretrain the base model with a name such as 5000x64x10, and store its CPU seconds beside its card."""
    number, width, epochs = name.split("x")
    excluded = folder / "excluded.csv"
    if not excluded.is_file():
        labeled = {smiles for task in tasks_of(TDC) for smiles in read_task(data, task.name).smiles}
        write_rows(excluded, ["smiles"], [(smiles,) for smiles in sorted(labeled)])
    start = cpu_seconds()
    settings = (f"model.hidden_dim={width}", "model.dropout=0.0", "model.max_path=6")
    words = [word for setting in settings for word in ("--set", setting)]
    command = [*MOLATTN, "pretrain", molecules, "--max-molecules", number, "--epochs", epochs, "--exclude", excluded]
    run([*command, *words, "--force", "--quiet", "-o", folder / name])
    (folder / name / "cpu_seconds.txt").write_text(f"{cpu_seconds() - start:.0f}\n", encoding="utf-8")


def describe_base(name: str, folder: Path) -> dict[str, object]:
    """What a base model was made of, from its card: columns of the results; empty for none."""
    columns = dict.fromkeys(("molecules", "width", "epochs", "parameters", "base_loss", "base_seconds"), "")
    if name == SCRATCH:
        return {"base": name, **columns}
    base = folder / name if (folder / name).is_dir() else find_base(name).folder
    card = tomllib.loads((base / "card.toml").read_text(encoding="utf-8"))
    training, measured = card["training"], base / "cpu_seconds.txt"
    return {
        "base": name,
        "molecules": card["molecules"]["count"],
        "width": json.loads((base / "config.json").read_text(encoding="utf-8"))["model"]["hidden_dim"],
        "epochs": training["epochs"],
        "parameters": training["parameters"],
        "base_loss": training["val_loss"],
        "base_seconds": measured.read_text(encoding="utf-8").strip() if measured.is_file() else training["seconds"],
    }


def page(rows: Sequence[Mapping[str, str]], folds: Sequence[Mapping[str, str]]) -> str:
    """The page: a row for each base model; then a section for each that was tried on further tasks.

    Args:
        rows: of base models.
        folds: of the defaults, as `arena.py folds` writes them.
    """
    tasks = sorted(
        {row["task"] for row in rows if row["base"] == SCRATCH}, key=lambda name: (TASKS[name].molecules, name)
    )
    scores: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        scores.setdefault((row["base"], row["task"]), {})[row["fold"]] = float(row["score"])
    expected = {task: scores[SCRATCH, task] for task in tasks}
    bases = {row["base"]: row for row in rows}
    cells = []
    for name, row in sorted(bases.items(), key=lambda item: _size(item[1])):
        if any(not expected[task].keys() <= scores.get((name, task), {}).keys() for task in tasks):
            continue  # not finished
        changes = [
            _sign(task) * (scores[name, task][fold] - score) / _std_of(task, folds)
            for task in tasks
            for fold, score in expected[task].items()
        ]
        shown = [f"{statistics.mean(scores[name, task][fold] for fold in expected[task]):.3f}" for task in tasks]
        made = [f"{float(row[column]):,.0f}" if row["molecules"] else "" for column in ("molecules", "width", "epochs")]
        minutes = f"{float(row['base_seconds']) / 60:.1f}" if row["base_seconds"] else ""
        label = f"`{name}`" if name in (SCRATCH, *INCLUDED) else ""
        mean = "" if name == SCRATCH else f"{statistics.mean(changes):+.2f}"
        cells.append([*made, label, mean, *shown, minutes, row["base_loss"]])
    number = {task: max(int(row["train"]) for row in rows if row["task"] == task) for task in tasks}
    columns = [f"{task}, {METRICS[TASKS[task].metric].label}, {number[task]:,}" for task in tasks]
    head = ["molecules", "width", "epochs", "name", "mean improvement", *columns, "minutes", "loss"]
    used = ", ".join(sorted({fold for found in expected.values() for fold in found}))
    notes = f"""
The loss is that of held-out molecules, of descriptors and masked atoms; `nci` has another set of descriptors, and was
made by an earlier version. Minutes of CPU time of one thread for a pretraining; for `nci` and `chembl` the time on
their cards, without the computation of descriptors. The mean improvement is that over `none`, training from
scratch, divided by the standard deviation of the defaults over five folds, the mean over tasks. Fold {used} of the
five, one seed: a single training makes each number, and other folds, seeds and tasks may change the order of base
models that are close. `chembl` has seen the unlabeled molecules of the folds, where ChEMBL has them; the others have
not.
"""
    parts = [INTRODUCTION, markdown(head, cells), notes]
    for name, row in bases.items():
        if name not in (SCRATCH, *INCLUDED) and any(task not in tasks for base, task in scores if base == name):
            parts.append(_compared_with_defaults(name, row, rows, folds))
    return "\n".join([*parts, *dict.fromkeys(row["machine"] for row in rows)]) + "\n"


def _compared_with_defaults(
    name: str, base: Mapping[str, str], rows: Sequence[Mapping[str, str]], folds: Sequence[Mapping[str, str]]
) -> str:
    """A section that compares a base model with the defaults, on all tasks and folds that it was tried on."""
    found = differences(
        [*folds, *({**row, "options": name} for row in rows if row["base"] == name)], name, NO_DISTILLATION
    )
    cells = []
    for task in sorted(found, key=lambda task: TASKS[task].molecules):
        d, metric = found[task], METRICS[TASKS[task].metric].label
        cells.append([task, metric, len(d.values), f"{d.mean:+.3f}", d.format_interval()])
    usable = [d for d in found.values() if d.std > 0]
    molecules = f"{int(base['molecules']):,}"
    title = f"## {molecules} molecules, width {base['width']}, {base['epochs']} epochs, and the defaults"
    text = "The improvement over the default base model; the interval is that of [the arena](../arena.md)."
    table = markdown(["task", "metric", "folds", "improvement", "95% interval"], cells)
    mean = "{:+.2f} ({:+.2f} to {:+.2f})".format(*mean_standardized_difference(usable)) if usable else "unknown"
    end = f"Mean over tasks with several folds, in standard deviations over folds: {mean}.\n"
    return f"{title}\n\n{text}\n\n{table}\n\n{end}"


def _size(row: Mapping[str, str]) -> tuple[float, ...]:
    return tuple(float(row[column] or 0) for column in ("width", "molecules", "epochs"))


def _sign(task: str) -> int:
    return 1 if METRICS[TASKS[task].metric].larger_is_better else -1


def _std_of(task: str, folds: Sequence[Mapping[str, str]]) -> float:
    """The standard deviation of the score of the defaults over the folds of a task."""
    return statistics.stdev(
        float(row["score"]) for row in folds if (row["task"], row["options"]) == (task, NO_DISTILLATION)
    )


def main(words: list[str] | None = None) -> None:
    """Make the missing base models and trainings; then write the page if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder of the data; not needed for --page")
    parser.add_argument("molecules", type=Path, nargs="?", help="the table of molecules to pretrain on")
    parser.add_argument("--make", nargs="*", default=[], metavar="NxWxE", help="base models to make")
    parser.add_argument("--bases", nargs="*", default=[SCRATCH], help="other base models: none, nci, chembl")
    parser.add_argument("--tasks", nargs="+", default=DEFAULT_TASKS)
    parser.add_argument("--folds", type=int, nargs="+", default=[0], choices=range(5))
    parser.add_argument("--folder", type=Path, default=Path("build") / "bases", help="the folder of base models")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results")
    parser.add_argument("--page", type=Path, help="the Markdown file to write, docs/results/base_scaling.md")
    arguments = parser.parse_args(words)
    if not (arguments.data or arguments.page):
        parser.error("give DATA or --page")
    if arguments.make and not arguments.molecules:
        parser.error("--make needs a table of molecules after DATA")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in [*arguments.bases, *arguments.make] if arguments.data else ():
        if name in arguments.make and not (arguments.folder / name / "cpu_seconds.txt").is_file():
            make_base(arguments.data, arguments.molecules, name, arguments.folder)
            print(f"made {name}", file=sys.stderr, flush=True)
        base = str((arguments.folder / name).resolve()) if name in arguments.make else name
        done = {(row["base"], row["task"], int(row["fold"])) for row in read_rows(arguments.results)}
        for fold in arguments.folds:
            for task in arguments.tasks:
                if (name, task, fold) in done:
                    continue
                row = train_fold(arguments.data, task, f"--base {base} {NO_DISTILLATION}", fold, 0)
                del row["options"]
                append_rows(arguments.results, [{**describe_base(name, arguments.folder), **row}])
                print(f"{name}, {task}, fold {fold}: {row['score']}", file=sys.stderr, flush=True)
    if arguments.page:
        arguments.page.write_text(page(read_rows(arguments.results), read_rows(FOLDS)), encoding="utf-8")
        print(arguments.page)


if __name__ == "__main__":
    main()
