"""The page docs/arena.md, made from the files of results of `arena.py` and the published results."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from arena_budget import QUESTIONS
from arena_intervals import section as intervals_section
from arena_runs import NO_DISTILLATION, NO_TRANSFORM
from arena_statistics import Difference, decide, differences, mean_standardized_difference, rank, rank_range
from arena_tasks import MOLECULEACE, TASKS, TDC, Task, tasks_of
from report import markdown

from molattn.benchmark.published import MIN_ENTRIES, load_published, published_entries
from molattn.training.bases import FEW_MOLECULES, MANY_MOLECULES
from molattn.training.metrics import METRICS

Row = Mapping[str, str]
PUBLISHED = load_published()
REFERENCE = "MapLight"

DEFAULTS = (
    f"{NO_TRANSFORM} --base nci {NO_DISTILLATION}",
    f"--base nci {NO_DISTILLATION}",
    NO_DISTILLATION,
    "",
)
"""The options of the trainings in folds that had the defaults, the oldest first."""
NAMES_OF_DEFAULTS = {
    f"--base nci {NO_DISTILLATION}": "`--target-transform auto`, since then the default",
    NO_DISTILLATION: f"`--base chembl` for {MANY_MOLECULES[0]:,} training molecules or more, since then the default",
    "": f"distillation for {FEW_MOLECULES[0]} to {FEW_MOLECULES[-1]} training molecules, since then the default",
}

INTRODUCTION = """# TDC's ADMET group and MoleculeACE

Made by `python benchmarks/arena.py --page docs/arena.md` from `benchmarks/results/arena.csv` (a row for each score),
`arena_reads.csv` (a row for each read of labels of test molecules), and `arena_folds.csv` and `arena_intervals.csv` (a
row for each training in a fold). The help of the command describes the protocol; the published results and their
sources are in `molattn/benchmark/published.json`. The data sets and their labels are not part of the project.

**Scores.** The test molecules of TDC's tasks are fixed. For each of the seeds 1 to 5 the other molecules are split by
scaffold, 87.5% for training and the others for validation, and one model is trained; the mean and standard deviation
(of numpy, as in TDC's package) of the five test scores are reported. MoleculeACE has a fixed test split too, and a
random tenth of the training molecules is for validation, another one for each seed. Intervals are percentile bootstrap
intervals over the test molecules, with 1,000 samples; the ends shown are the means over the five runs, which have the
same samples. The interval of the mean score is no wider than that.

**Ranks.** The rank in a leaderboard is 1 plus the number of better entries. Entries within the interval cannot be
distinguished from the model by these test molecules; the intervals of the entries themselves are not considered. The
mean rank is over the tasks whose leaderboards have at least ten entries: all except bioavailability_ma.

**Test labels.** A training gets the SMILES of the test molecules and predicts them; no code that trains can import the
code that reads their labels, which a test of the project checks. Each read is counted below, including those before the
count was recorded. A training that has a score is not scored again.

**The decision rule**, fixed before it was first applied. Settings are compared on the labeled molecules of train_val
alone, in five folds by scaffold of each task. The difference that a setting makes for a task, a mean over folds, is
divided by the standard deviation over the folds of the score of the defaults. A setting is accepted if the mean of
these over all tasks of the group has a 95% interval above 0 (a bootstrap interval with 10,000 samples of tasks, and
then of their folds), and no task is worse by more than its own 95% interval (of the t distribution, with the variance
of Nadeau and Bengio, 2003). It is accepted for all tasks or for none, and undecided until all tasks are measured.
"""

COMPUTE = """
Core-hours, planned from the numbers of molecules and a few timed trainings, and used by the trainings of the files
above. A command starts no training after the core-hours of its question are spent, or after 2.8 hours, and can be
resumed. The choice of the epoch was measured before, see [epochs.md](epochs.md). The eight largest tasks of TDC have
one training for both molattn and molattn small-trees. The targets of MoleculeACE have one for molattn, molattn
with-trees and molattn trees-without-val, where distillation is no default: the trees do not change the network. It
predicted without them in no further seconds, and those of molattn with-trees are of its trees alone.
"""


MAIN_MODELS = ("molattn", "molattn with-trees")

DESCRIPTIONS = {
    "molattn": " (defaults)",
    "molattn with-trees": " (`--with-trees`)",
    "molattn no-distillation": " (`--distillation 0` for 250 to 899 training molecules)",
    "molattn no-distillation with-trees": " (the same, with trees)",
    "molattn trees-without-val": " (its trees were not fitted to the validation molecules; without distillation)",
    "molattn small-trees": " (nor were they larger for many molecules)",
    "molattn nci": " (`--base nci` for many molecules)",
    "molattn nci with-trees": " (`--base nci`, small trees without the validation molecules)",
    "molattn no-transform": " (`--target-transform none`, without distillation)",
}
"""How models with a tag, which are not the defaults or are those of earlier versions, differ from the first two."""

ELSEWHERE = """## CheMeleon, and a random forest

Means over five seeds by CheMeleon's authors, on Polaris' copies of TDC's tables. Their random forest has Morgan
fingerprints and physicochemical descriptors. CheMeleon is a base of about 10 million parameters, pretrained on
Mordred's descriptors of molecules of PubChem (Burns et al., arXiv:2506.15792). molattn's base for 1,500 training
molecules or more has 0.6 million parameters, and was pretrained on RDKit's descriptors of 77,080 molecules of ChEMBL in
0.9 hours on a CPU (`bases/chembl/card.toml`).
"""


def page(results: Sequence[Row], reads: Sequence[Row], folds: Sequence[Row], intervals: Sequence[Row]) -> str:
    """The whole page."""
    parts = [INTRODUCTION, _measured(results, folds), _tdc(results, reads), _elsewhere(results), _moleculeace(results)]
    parts += [_folds(folds), intervals_section(intervals), _reads(reads), _budget(results, folds, intervals)]
    parts += dict.fromkeys(row["machine"] for row in [*results, *folds, *intervals])
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _measured(results: Sequence[Row], folds: Sequence[Row]) -> str:
    """The number of runs of each model."""
    lines = ["## Runs\n"]
    models = models_of(results)
    if not models:
        lines.append("No training has been scored yet: the tables of scores below have published results only.")
    for model in models:
        shares = []
        for group, title in ((TDC, "TDC"), (MOLECULEACE, "MoleculeACE")):
            keys = {(r["task"], r["seed"]) for r in results if r["model"] == model and TASKS[r["task"]].group == group}
            shares.append(f"{len(keys)} of {5 * len(tasks_of(group))} runs of {title}")
        lines.append(f"- {model}{DESCRIPTIONS.get(model, '')}: {', '.join(shares)}")
    if not folds:
        lines.append("No setting has been measured in folds yet.")
    return "\n".join(lines)


def models_of(results: Sequence[Row]) -> list[str]:
    """The models, in the order of `DESCRIPTIONS`, and then the others."""
    order = [*DESCRIPTIONS]
    found = dict.fromkeys(row["model"] for row in results)
    return sorted(found, key=lambda model: order.index(model) if model in order else len(order))


def scores_of(results: Sequence[Row], task: str, model: str, part: str = "all") -> list[Row]:
    """The rows of a model for a task, one for each seed."""
    return [r for r in results if (r["task"], r["model"], r["part"]) == (task, model, part)]


def mean_of(rows: Sequence[Row], column: str = "score") -> float:
    """The mean of a column over runs."""
    return statistics.mean(float(row[column]) for row in rows)


def cell(rows: Sequence[Row]) -> str:
    """Mean and standard deviation over seeds; empty without runs."""
    if not rows:
        return ""
    spread = f" ± {statistics.pstdev(float(row['score']) for row in rows):.3f}" if len(rows) > 1 else ""
    return f"{mean_of(rows):.3f}{spread}" + ("" if len(rows) == 5 else f" ({len(rows)})")


def means_of(task: str) -> list[float]:
    """The published means in the leaderboard of a task, the best first."""
    return [entry.mean for entry in published_entries(TDC, task)]


def _tdc(results: Sequence[Row], reads: Sequence[Row]) -> str:
    own = [row for row in results if TASKS[row["task"]].group == TDC]
    models = models_of(own)
    num_reads = Counter[str]()
    for row in reads:
        num_reads[row["task"]] += int(row["count"])
    rows = []
    for task in tasks_of(TDC):
        entries = PUBLISHED["tdc"][task.name]["entries"]
        reference = next((f"{mean:.3f}" for name, mean, _ in entries if name == REFERENCE), "")
        best = f"{entries[0][1]:.3f} ({entries[0][0]})"
        scores = [cell(scores_of(own, task.name, model)) for model in models]
        rows.append(
            [task.name, METRICS[task.metric].label, len(entries), best, reference, *scores, num_reads[task.name]]
        )
    columns = ["task", "metric", "entries", "best entry", REFERENCE, *models, "reads"]
    parts = [
        "## TDC's ADMET group\n",
        "Mean and standard deviation over seeds; in brackets the number of seeds, if not five.\n",
    ]
    parts.append(markdown(columns, rows))
    parts += [_leaderboard_ranks(own, model) for model in models]
    parts.append(_published_ranks())
    return "\n".join(parts)


def _elsewhere(results: Sequence[Row]) -> str:
    """The published results that are not in the leaderboards, beside the scores of molattn."""
    others = PUBLISHED["elsewhere"]
    measured = {row["model"] for row in results if TASKS[row["task"]].group == TDC}
    models = [model for model in MAIN_MODELS if model in measured]
    rows, wins = [], dict.fromkeys(((model, name) for model in models for name in others), 0)
    for task in tasks_of(TDC):
        published = {name: means[task.name] for name, means in others.items() if task.name in means}
        if not published:
            continue
        cells = []
        for model in models:
            runs = scores_of(results, task.name, model)
            cells.append(cell(runs))
            for name, mean in published.items():
                wins[model, name] += bool(runs) and rank(mean, [mean_of(runs)], task.metric) > 1
        shown = [f"{published[name]:.3f}" if name in published else "" for name in others]
        rows.append([task.name, METRICS[task.metric].label, *cells, *shown])
    counts = "; ".join(
        f"{model} better than {name}, {count} of {len(others[name])}" for (model, name), count in wins.items()
    )
    table = markdown(["task", "metric", *models, *others], rows)
    return f"{ELSEWHERE}\n{table}\n" + (f"\nBy these means, in numbers of tasks: {counts}." if counts else "")


def ranks_of(results: Sequence[Row], model: str) -> dict[str, tuple[int, int, int]]:
    """The rank of a model in the leaderboard of each task that it has scores for, and the range of its interval."""
    found = {}
    for task in tasks_of(TDC):
        if rows := scores_of(results, task.name, model):
            ends = rank_range(mean_of(rows, "lower"), mean_of(rows, "upper"), means_of(task.name), task.metric)
            found[task.name] = (rank(mean_of(rows), means_of(task.name), task.metric), *ends)
    return found


def _leaderboard_ranks(results: Sequence[Row], model: str) -> str:
    rows, found = [], ranks_of(results, model)
    for name, (own, best, worst) in found.items():
        runs, entries = scores_of(results, name, model), len(means_of(name))
        interval = f"{mean_of(runs, 'lower'):.3f} to {mean_of(runs, 'upper'):.3f}"
        sizes = f"{runs[0]['test']} ({runs[0]['both_sides']})"
        ends = f"{best} to {worst}"
        rows.append([name, cell(runs), interval, f"{own} of {entries + 1}", ends, worst - best, sizes])
    ranked = [own for name, (own, *_) in found.items() if len(means_of(name)) >= MIN_ENTRIES]
    columns = ["task", "score", "95% interval", "rank", "ranks in the interval", "entries in the interval"]
    table = markdown([*columns, "test molecules (also in train_val)"], rows)
    total = len(_ranked_tasks())
    mean = f"Mean rank: {statistics.mean(ranked):.1f}, over {len(ranked)} of {total} tasks." if ranked else ""
    if len(ranked) == total:
        _, best = _ranks_in_all()[0]
        mean += f" Better than {best}, the best published entry by mean rank, in {_wins(results, model, best)} of them."
    return f"\n### {model} in the leaderboards\n\n{table}\n\n{mean}"


def _wins(results: Sequence[Row], model: str, entry: str) -> int:
    """The number of ranked tasks in which a model is better than a published entry."""
    won = 0
    for task in _ranked_tasks():
        published = next(mean for name, mean, _ in PUBLISHED["tdc"][task.name]["entries"] if name == entry)
        won += rank(published, [mean_of(scores_of(results, task.name, model))], task.metric) > 1
    return won


def _ranked_tasks() -> list[Task]:
    """The tasks whose leaderboards have at least ten entries."""
    return [task for task in tasks_of(TDC) if len(means_of(task.name)) >= MIN_ENTRIES]


def _ranks_in_all() -> list[tuple[float, str]]:
    """The mean rank and the name of each published entry that is in all leaderboards, the best first."""
    found, tasks = defaultdict(list), _ranked_tasks()
    for task in tasks:
        for name, mean, _ in PUBLISHED["tdc"][task.name]["entries"]:
            found[name].append(rank(mean, means_of(task.name), task.metric))
    return sorted((statistics.mean(ranks), name) for name, ranks in found.items() if len(ranks) == len(tasks))


def _published_ranks() -> str:
    """The mean ranks of the entries that are in all leaderboards."""
    shown = ", ".join(f"{name} {mean:.1f}" for mean, name in _ranks_in_all())
    return f"\nPublished entries that are in all {len(_ranked_tasks())} leaderboards, by their mean rank: {shown}."


ACE = """## MoleculeACE

RMSE of pEC50 or pKi, the mean over targets of the mean over seeds; in brackets the number of seeds, if not five. The
published means are over all 30 targets, of which 20 are measured here, so the comparison is approximate.
"""


def _moleculeace(results: Sequence[Row]) -> str:
    own = [row for row in results if TASKS[row["task"]].group == MOLECULEACE]
    names = [task.name for task in tasks_of(MOLECULEACE)]
    rows: list[list[object]] = [
        [name, "published", "30", f"{both:.3f}", f"{cliffs:.3f}"]
        for name, (both, cliffs) in PUBLISHED["moleculeace"].items()
    ]
    models = models_of(own)
    for model in models:
        scored = [name for name in names if scores_of(own, name, model)]
        means = [
            statistics.mean(mean_of(scores_of(own, name, model, part)) for name in scored) for part in ("all", "cliffs")
        ]
        rows.append([model, "measured", len(scored), *(f"{mean:.3f}" for mean in means)])
    parts = [ACE]
    parts.append(markdown(["model", "source", "targets", "all test molecules", "on activity cliffs"], rows))
    if models:
        cells = [
            [name, *(cell(scores_of(own, name, model, part)) for model in models for part in ("all", "cliffs"))]
            for name in names
        ]
        columns = [f"{model}, {part}" for model in models for part in ("all", "cliffs")]
        parts += ["", markdown(["target", *columns], cells)]
    return "\n".join(parts)


def _folds(folds: Sequence[Row]) -> str:
    parts = ["## Settings, in folds of train_val\n"]
    measured = {row["options"] for row in folds}
    names = dict.fromkeys(row["options"] for row in folds if row["options"] != DEFAULTS[0])
    others = [options for options in names if reference_of(options) in measured - {options}]
    if not others:
        parts.append("No settings have been compared yet.")
        return "\n".join(parts)
    parts += [
        "Differences from the defaults: positive is better. Trainings that a setting leaves as they are count as 0;",
        f"tasks in which it changes none are not listed. Options with `{NO_DISTILLATION}` are compared with the",
        f"defaults of their time: with `{NO_DISTILLATION}` alone, or, if they have `{NO_TRANSFORM}`, with",
        f"`{DEFAULTS[0]}`. The defaults are compared with",
        f"those before them. That `--base chembl` is the default for {MANY_MOLECULES[0]:,} training molecules or more",
        "was proposed after it had been rejected for all sizes, and is judged by the same folds: its interval does not",
        "know that choice. Settings of distillation were tried on the first fold of five to fourteen of the tasks.\n",
        table_of_options(folds, others),
    ]
    for options in others:
        parts += ["", table_of_tasks(options, differences(folds, options, reference_of(options)))]
    return "\n".join(parts)


def reference_of(options: str) -> str:
    """The options that options are compared with: the defaults of their time, written as options of today.

    >>> reference_of("--ensemble-size 5"), reference_of("--ensemble-size 5 --distillation 0")
    ('', '--distillation 0')
    >>> reference_of("--target-transform none --base chembl --distillation 0")
    '--target-transform none --base nci --distillation 0'
    """
    if options in DEFAULTS:
        return DEFAULTS[max(0, DEFAULTS.index(options) - 1)]
    if options.startswith(NO_TRANSFORM):
        return DEFAULTS[0]
    return NO_DISTILLATION if options.endswith(NO_DISTILLATION) else ""


def _name(options: str) -> str:
    return NAMES_OF_DEFAULTS.get(options, f"`{options}`")


def table_of_options(folds: Sequence[Row], options: Sequence[str], reference: str | None = None) -> str:
    """A row for each of the options: the mean standardized difference over all tasks, and the decision.

    They are compared with `reference`, by default with `reference_of` them.
    """
    rows = []
    for setting in options:
        found = differences(folds, setting, reference_of(setting) if reference is None else reference)
        usable = [d for d in found.values() if d.std > 0]
        shown = "{:+.2f} ({:+.2f} to {:+.2f})".format(*mean_standardized_difference(usable)) if usable else ""
        names = [task.name for task in tasks_of(TDC)]
        if found and not set(found) & set(names):
            names = [task.name for task in tasks_of(MOLECULEACE)]
        rows.append([_name(setting), len(found), shown, decide(found, names)])
    return markdown(["options", "tasks", "mean standardized difference (95% interval)", "decision"], rows)


def table_of_tasks(options: str, found: Mapping[str, Difference]) -> str:
    """A row for each task that options were measured for."""
    rows = []
    for name, difference in found.items():
        if not any(difference.values):
            continue
        n = len(difference.values)
        std = f"{difference.std:.3f}" if n > 1 else ""
        metric, mean = METRICS[TASKS[name].metric].label, f"{difference.mean:+.3f}"
        rows.append([name, metric, n, mean, difference.format_interval(), std])
    columns = ["metric", "folds", "improvement", "95% interval", "standard deviation over folds of the defaults"]
    return markdown([_name(options), *columns], rows)


def _reads(reads: Sequence[Row]) -> str:
    counts = Counter[tuple[str, str, str]]()
    for row in reads:
        counts[row["date"], row["model"], row["reason"]] += int(row["count"])
    parts = ["## Reads of test labels\n"]
    parts.append(f"{counts.total()} reads. A read scores the predictions of one training for the test molecules of one")
    parts.append("task. The tasks of 17 early reads were not recorded, so they are not in the numbers by task above.\n")
    parts.append(markdown(["date", "model", "reason", "reads"], [[*key, n] for key, n in counts.items()]))
    return "\n".join(parts)


def _budget(results: Sequence[Row], folds: Sequence[Row], intervals: Sequence[Row]) -> str:
    seconds = defaultdict[str, float](float)
    for row in results:
        if row["part"] == "all":
            seconds[row["model"]] += float(row["seconds"])
    for row in folds:
        seconds[row["question"]] += float(row["seconds"])
    seconds["intervals"] = sum(float(row["seconds"]) for row in intervals)
    rows = [[q.name, q.description, q.trainings, f"{q.hours:.1f}", f"{seconds[q.name] / 3600:.1f}"] for q in QUESTIONS]
    rows.append(["all", "", "", f"{sum(q.hours for q in QUESTIONS):.1f}", f"{sum(seconds.values()) / 3600:.1f}"])
    parts = ["## Compute", COMPUTE]
    parts.append(markdown(["question", "description", "trainings", "planned", "used"], rows))
    return "\n".join(parts)
