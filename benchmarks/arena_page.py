"""The page docs/arena.md, made from the files of results of `arena.py` and the published figures, and nothing else."""

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arena_budget import QUESTIONS
from arena_statistics import Difference, differences, overall, rank, ranks, verdict
from arena_tasks import MOLECULEACE, TASKS, TDC, tasks_of
from report import markdown

from molattn.training.metrics import METRICS

Row = Mapping[str, str]
PUBLISHED: dict[str, Any] = json.loads((Path(__file__).parent / "arena_published.json").read_text(encoding="utf-8"))
REFERENCE = "MapLight"
RANKED = 10
"""Entries that a leaderboard needs for its ranks to enter a mean."""

INTRODUCTION = """# The arena: TDC's ADMET group and MoleculeACE

Made by `python benchmarks/arena.py --page docs/arena.md` from `benchmarks/results/arena.csv` (a row for each score),
`arena_reads.csv` (a line for each time that labels of test molecules were read) and `arena_folds.csv` (a row for each
training in a fold); the command's help has the protocol, and `benchmarks/arena_published.json` the published figures
and where they are from. The tables of the data sets and their labels are not part of the project.

**Scores.** TDC's tables of test molecules are fixed. For each of the seeds 1 to 5 the other molecules are split by
scaffold, 87.5% to train and the others to validate, and one model is trained; the mean and standard deviation (that of
numpy, as in TDC's package) of its five scores are reported. MoleculeACE's targets have a fixed split too, and a tenth
of the training molecules validates, another one for each seed. An interval is that of test molecules drawn 1,000 times
with replacement; the ends shown are the means of those of the five runs, for which the same molecules are drawn. The
interval of the mean score is no wider than that.

**Ranks.** The rank beside a leaderboard is 1 plus the number of its entries that are better. Entries between the ends
of the interval cannot be told apart from it by these test molecules; that the entries have such intervals too is not
even counted. The mean of the ranks is over the tasks whose leaderboards have ten entries or more: all but
bioavailability_ma.

**The test is sealed.** A training gets the SMILES of test molecules and answers them; no code that trains can import
the code that reads their labels, which a test of the project holds. Each read is counted below, those included that
were made before they were counted. A training that has its score is not scored again.

**The rule of choice**, written before anything was chosen by it. Settings are compared on the labelled molecules of
train_val alone, in five folds by scaffold of each task. The difference that a setting makes for a task, a mean over
folds, is divided by the standard deviation over the folds of the score of the defaults. A setting is taken if the mean
of these over all tasks of the group has a 95% interval above 0, for which tasks, and then their folds, are drawn 10,000
times, and no task loses by more than its own 95% interval (of the t distribution, with the variance of Nadeau and
Bengio, 2003). It is taken for all tasks or for none, and before all tasks are measured nothing is decided.
"""

COMPUTE = """
Core-hours, planned from the numbers of molecules and a few trainings of known length before the questions were asked,
and spent by the trainings of the files above. A command starts no training beyond the core-hours of its question, nor
after 2.8 hours, and goes on where it was stopped. Which epoch to keep was asked before, see [epochs.md](epochs.md).
"""


def page(results: Sequence[Row], reads: Sequence[Row], folds: Sequence[Row]) -> str:
    """The whole page."""
    parts = [INTRODUCTION, _measured(results, folds), _tdc(results, reads), _moleculeace(results)]
    parts += [_folds(folds), _reads(reads), _budget(results, folds)]
    parts += dict.fromkeys(row["machine"] for row in [*results, *folds])
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _measured(results: Sequence[Row], folds: Sequence[Row]) -> str:
    """What is measured and what is not, in a sentence for each model."""
    lines = ["## What is measured\n"]
    models = list(dict.fromkeys(row["model"] for row in results))
    if not models:
        lines.append("No training has been scored by this command yet: the tables of scores below have published")
        lines.append("figures alone.")
    for model in models:
        shares = []
        for group, title in ((TDC, "TDC"), (MOLECULEACE, "MoleculeACE")):
            keys = {(r["task"], r["seed"]) for r in results if r["model"] == model and TASKS[r["task"]].group == group}
            shares.append(f"{len(keys)} of {5 * len(tasks_of(group))} runs of {title}")
        lines.append(f"- {model}: {', '.join(shares)}")
    if not folds:
        lines.append("No setting has been measured in folds yet.")
    return "\n".join(lines)


def scores_of(results: Sequence[Row], task: str, model: str, part: str = "all") -> list[Row]:
    """The rows of a model for a task, one for each seed."""
    return [r for r in results if (r["task"], r["model"], r["part"]) == (task, model, part)]


def mean_of(rows: Sequence[Row], column: str = "score") -> float:
    """The mean of a column over runs."""
    return statistics.mean(float(row[column]) for row in rows)


def cell(rows: Sequence[Row]) -> str:
    """Mean and standard deviation over seeds, for a table; empty without runs."""
    if not rows:
        return ""
    spread = f" ± {statistics.pstdev(float(row['score']) for row in rows):.3f}" if len(rows) > 1 else ""
    return f"{mean_of(rows):.3f}{spread}" + ("" if len(rows) == 5 else f" ({len(rows)})")


def means_of(task: str) -> list[float]:
    """The published means of a task's leaderboard, the best first."""
    return [mean for _, mean, _ in PUBLISHED["tdc"][task]["entries"]]


def _tdc(results: Sequence[Row], reads: Sequence[Row]) -> str:
    own = [row for row in results if TASKS[row["task"]].group == TDC]
    models = list(dict.fromkeys(row["model"] for row in own))
    read = Counter[str]()
    for line in reads:
        read[line["task"]] += int(line["count"])
    rows = []
    for task in tasks_of(TDC):
        entries = PUBLISHED["tdc"][task.name]["entries"]
        reference = next((f"{mean:.3f}" for name, mean, _ in entries if name == REFERENCE), "")
        best = f"{entries[0][1]:.3f} ({entries[0][0]})"
        scores = [cell(scores_of(own, task.name, model)) for model in models]
        rows.append([task.name, METRICS[task.metric].label, len(entries), best, reference, *scores, read[task.name]])
    columns = ["task", "metric", "entries", "best entry", REFERENCE, *models, "reads"]
    parts = ["## TDC's ADMET group\n", "Mean and standard deviation over seeds; in brackets how many, if not five.\n"]
    parts.append(markdown(columns, rows))
    parts += [_beside_leaderboard(own, model) for model in models]
    parts.append(_published_ranks())
    return "\n".join(parts)


def ranks_of(results: Sequence[Row], model: str) -> dict[str, tuple[int, int, int]]:
    """Of each task that a model has scores for: its rank beside the leaderboard, the best and the worst it may be."""
    found = {}
    for task in tasks_of(TDC):
        if rows := scores_of(results, task.name, model):
            ends = ranks(mean_of(rows, "lower"), mean_of(rows, "upper"), means_of(task.name), task.metric)
            found[task.name] = (rank(mean_of(rows), means_of(task.name), task.metric), *ends)
    return found


def _beside_leaderboard(results: Sequence[Row], model: str) -> str:
    rows, found = [], ranks_of(results, model)
    for name, (own, best, worst) in found.items():
        runs, entries = scores_of(results, name, model), len(means_of(name))
        interval = f"{mean_of(runs, 'lower'):.3f} to {mean_of(runs, 'upper'):.3f}"
        sizes = f"{runs[0]['test']} ({runs[0]['both_sides']})"
        ends = f"{best} to {worst}"
        rows.append([name, cell(runs), interval, f"{own} of {entries + 1}", ends, worst - best, sizes])
    ranked = [own for name, (own, *_) in found.items() if len(means_of(name)) >= RANKED]
    columns = ["task", "score", "95% interval", "rank", "ranks in the interval", "cannot be told apart"]
    table = markdown([*columns, "test molecules (on both sides)"], rows)
    total = sum(len(means_of(task.name)) >= RANKED for task in tasks_of(TDC))
    mean = f"Mean rank: {statistics.mean(ranked):.1f}, over {len(ranked)} of {total} tasks." if ranked else ""
    return f"\n### {model} beside the leaderboards\n\n{table}\n\n{mean}"


def _published_ranks() -> str:
    """The mean ranks of entries that are on all leaderboards, among the other entries."""
    found = defaultdict(list)
    boards = [task for task in tasks_of(TDC) if len(means_of(task.name)) >= RANKED]
    for task in boards:
        for name, mean, _ in PUBLISHED["tdc"][task.name]["entries"]:
            found[name].append(rank(mean, means_of(task.name), task.metric))
    everywhere = sorted((statistics.mean(of), name) for name, of in found.items() if len(of) == len(boards))
    shown = ", ".join(f"{name} {mean:.1f}" for mean, name in everywhere)
    return f"\nPublished entries that are on all {len(boards)} leaderboards, by their mean rank there: {shown}."


def _moleculeace(results: Sequence[Row]) -> str:
    own = [row for row in results if TASKS[row["task"]].group == MOLECULEACE]
    names = [task.name for task in tasks_of(MOLECULEACE)]
    rows: list[list[object]] = [
        [name, "published", "30", f"{both:.3f}", f"{cliffs:.3f}"]
        for name, (both, cliffs) in PUBLISHED["moleculeace"].items()
    ]
    models = list(dict.fromkeys(row["model"] for row in own))
    for model in models:
        scored = [name for name in names if scores_of(own, name, model)]
        means = [
            statistics.mean(mean_of(scores_of(own, name, model, part)) for name in scored) for part in ("all", "cliffs")
        ]
        rows.append([model, "here", len(scored), *(f"{mean:.3f}" for mean in means)])
    parts = ["## MoleculeACE\n", "RMSE of pEC50 or pKi, the mean over targets of the mean over seeds. The published"]
    parts.append("means are over all 30 targets, of which 20 are at hand here, so that they compare but roughly.\n")
    parts.append(markdown(["model", "by", "targets", "all test molecules", "on activity cliffs"], rows))
    if models:
        cells = [
            [name, *(cell(scores_of(own, name, model, part)) for model in models for part in ("all", "cliffs"))]
            for name in names
        ]
        columns = [f"{model}, {part}" for model in models for part in ("all", "cliffs")]
        parts += ["\n", markdown(["target", *columns], cells)]
    return "\n".join(parts)


def _folds(folds: Sequence[Row]) -> str:
    parts = ["## Settings, by folds of train_val\n"]
    others = [options for options in dict.fromkeys(row["options"] for row in folds) if options]
    if not others:
        parts.append("Nothing is compared yet.")
        return "\n".join(parts)
    parts += ["Differences to the defaults: positive is better.\n", table_of_options(folds, others)]
    for options in others:
        if found := differences(folds, options):
            parts += ["", table_of_tasks(options, found)]
    return "\n".join(parts)


def table_of_options(folds: Sequence[Row], options: Sequence[str], first: str = "") -> str:
    """A line for each of the options: the standardised difference over all tasks, and what the rule says."""
    rows = []
    for own in options:
        found = differences(folds, own, first)
        usable = [d for d in found.values() if d.spread > 0]
        shown = "{:+.2f} ({:+.2f} to {:+.2f})".format(*overall(usable)) if usable else ""
        names = [task.name for task in tasks_of(TDC)]
        if found and not set(found) & set(names):
            names = [task.name for task in tasks_of(MOLECULEACE)]
        rows.append([f"`{own}`" if own else "the defaults", len(found), shown, verdict(found, names)])
    return markdown(["options", "tasks", "mean standardised difference (95% interval)", "by the rule"], rows)


def table_of_tasks(options: str, found: Mapping[str, Difference]) -> str:
    """A line for each task that options were measured for."""
    rows = []
    for name, difference in found.items():
        n = len(difference.values)
        ends = f"{difference.mean - difference.half:+.3f} to {difference.mean + difference.half:+.3f}" if n > 1 else ""
        spread = f"{difference.spread:.3f}" if n > 1 else ""
        rows.append([name, METRICS[TASKS[name].metric].label, n, f"{difference.mean:+.3f}", ends, spread])
    columns = ["metric", "folds", "better by", "95% interval", "standard deviation over folds of the defaults"]
    return markdown([f"`{options}`", *columns], rows)


def _reads(reads: Sequence[Row]) -> str:
    counts = Counter[tuple[str, str, str]]()
    for line in reads:
        counts[line["date"], line["model"], line["reason"]] += int(line["count"])
    parts = ["## Reads of test labels\n"]
    parts.append(f"{counts.total()} in all. A read is one training's answers to the test molecules of one task. Of 17")
    parts.append("early reads the tasks were not recorded; they are in no task's number above.\n")
    parts.append(markdown(["date", "model", "reason", "reads"], [[*key, n] for key, n in counts.items()]))
    return "\n".join(parts)


def _budget(results: Sequence[Row], folds: Sequence[Row]) -> str:
    spent = Counter[str]()
    for row in results:
        if row["part"] == "all":
            spent[row["model"]] += float(row["seconds"])
    for row in folds:
        spent[row["question"]] += float(row["seconds"])
    rows = [[q.name, q.what, q.runs, f"{q.hours:.1f}", f"{spent[q.name] / 3600:.1f}"] for q in QUESTIONS]
    rows.append(["all", "", "", f"{sum(q.hours for q in QUESTIONS):.1f}", f"{sum(spent.values()) / 3600:.1f}"])
    parts = ["## Compute", COMPUTE]
    parts.append(markdown(["question", "what", "trainings", "planned", "spent"], rows))
    return "\n".join(parts)
