"""Settings of the boosted trees of `--with-trees`, on folds of the labeled molecules of TDC's tasks.

    python benchmarks/arena_trees.py DATA --folds 0 1 --settings "" num_leaves=31 "num_leaves=31 num_boost_round=1000"
    python benchmarks/arena_trees.py --page docs/results/trees.md

DATA has the files tdc/TASK/train_val.csv. The trees alone are fitted to 70% of the labeled molecules and predict those
of a fold that is held out by scaffold; the folds are those of `arena.py folds`. Settings are parameters of LightGBM,
num_boost_round, or `train_on=train_val`, which also fits them to the 10% of validation molecules, as `--with-trees`
does after it has fitted the weight. The empty setting is the small trees for few molecules, without the validation
molecules. A row of results for each fit; those that are in the file are not repeated.
No test molecule is read.
"""

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from arena_runs import cpu_seconds, fold_labels_of, model_version
from arena_statistics import Difference, decide, differences, mean_standardized_difference, metric_value
from arena_tasks import TASKS, TDC, read_task, tasks_of
from report import describe_machine, machine, markdown
from tables import append_rows, read_rows

from molattn.chem import feature_vectors
from molattn.models.boosted_trees import import_lightgbm
from molattn.training.metrics import METRICS
from molattn.training.skewed_targets import recognize_transform
from molattn.training.trees import FEATURIZERS, LARGE_TREES, SETTINGS, SMALL_TREES
from molattn.training.trees import MIN_MOLECULES_FOR_LARGE_TREES as LARGE

RESULTS = Path(__file__).parent / "results" / "arena_trees.csv"
ROUNDS, TRAIN_ON, TRAIN_VAL = "num_boost_round", "train_on", "train_val"

LARGE_SIZE = "`" + " ".join(f"{name}={value}" for name, value in LARGE_TREES.items()) + "`"

INTRODUCTION = f"""# Settings of the boosted trees

Made by `python benchmarks/arena_trees.py --page docs/results/trees.md`; the help of the command describes the protocol.
The trees of `--with-trees` alone, on held-out folds of the labeled molecules of TDC's tasks, by parameters of LightGBM
that differ from those of small trees. `molattn train --with-trees` fits small trees to fewer than {LARGE:,} molecules;
to more it fits large ones, with {LARGE_SIZE}. The number of molecules is that of a training.
Differences of the metric of the leaderboard, the mean over folds: positive is better.

Once the weight of the trees is fitted to the validation molecules, the trees are fitted again, to these as well:
`{TRAIN_ON}={TRAIN_VAL}`. By the rule of [the arena](../arena.md) this setting is {{decision}}.
"""


def parse_settings(text: str) -> tuple[dict[str, float | str], int, bool]:
    """The parameters of LightGBM that differ, the number of rounds, and whether validation molecules are fitted too.

    >>> parse_settings("num_leaves=31 num_boost_round=1000")
    ({'num_leaves': 31}, 1000, False)
    """
    pairs = dict(word.split("=", 1) for word in text.split())
    rounds = int(pairs.pop(ROUNDS, SMALL_TREES[ROUNDS]))
    with_val = pairs.pop(TRAIN_ON, "train") == TRAIN_VAL
    return {name: _value(value) for name, value in pairs.items()}, rounds, with_val


def _value(text: str) -> float | str:
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def fit_and_score(data: Path, name: str, fold: int, settings: Sequence[str], seed: int) -> list[dict[str, object]]:
    """Fit the trees with each of the settings, and score them on the fold: a row of results for each."""
    task, labeled = TASKS[name], read_task(data, name)
    labels, y = fold_labels_of(data, name, fold), labeled.y
    features = feature_vectors(list(labeled.smiles), FEATURIZERS)
    is_regression = task.task_type == "regression"
    transform = recognize_transform(y[labels == "train"], y[labels != "test"])[0] if is_regression else None
    if transform is not None:
        transform = transform.fit(y[labels == "train"])
    t = y if transform is None else transform.forward(y)
    rows = []
    for text in settings:
        start = cpu_seconds()
        changed, rounds, with_val = parse_settings(text)
        # In the order of `molattn.training.trees`, on which LightGBM's random samples depend.
        fitted = np.concatenate([np.flatnonzero(labels == part) for part in ("train", *(["val"] if with_val else []))])
        mean, std = (t[labels == "train"].mean(), t[labels == "train"].std()) if is_regression else (0.0, 1.0)
        objective = "regression" if is_regression else "binary"
        parameters = {**SETTINGS, "num_leaves": SMALL_TREES["num_leaves"], "objective": objective, **changed}
        lightgbm = import_lightgbm("fit boosted trees")
        dataset = lightgbm.Dataset(features[fitted], (t[fitted] - mean) / std)
        booster = lightgbm.train({**parameters, "seed": seed, "num_threads": 1}, dataset, rounds)
        predictions = np.asarray(booster.predict(features[labels == "test"])) * std + mean
        if transform is not None:
            predictions = transform.inverse(predictions)
        rows.append(
            {
                "task": name,
                "options": text,
                "fold": fold,
                "seed": seed,
                "metric": task.metric,
                "score": f"{metric_value(task.metric, y[labels == 'test'], predictions):.5g}",
                "train": int((labels == "train").sum()),
                "held": int((labels == "test").sum()),
                "seconds": round(cpu_seconds() - start, 1),
                "version": model_version("molattn"),
                "machine": describe_machine(machine()),
            }
        )
    return rows


def page(rows: Sequence[Mapping[str, str]]) -> str:
    """The page: a row for each task, the smallest first, and the mean standardized difference by size."""
    settings = [text for text in dict.fromkeys(row["options"] for row in rows) if text]
    names = sorted(dict.fromkeys(row["task"] for row in rows), key=lambda name: TASKS[name].molecules)
    found = {text: differences(rows, text) for text in settings}
    cells = []
    for name in names:
        own = [row for row in rows if row["task"] == name and not row["options"]]
        scores, train = [float(row["score"]) for row in own], statistics.mean(int(row["train"]) for row in own)
        shown = [f"{found[text][name].mean:+.3f}" if name in found[text] else "" for text in settings]
        metric = METRICS[TASKS[name].metric].label
        cells.append([name, f"{train:,.0f}", len(own), metric, f"{statistics.mean(scores):.3f}", *shown])
    decision = decide(differences(rows, f"{TRAIN_ON}={TRAIN_VAL}"), [task.name for task in tasks_of(TDC)])
    parts = [
        INTRODUCTION.format(decision=decision),
        markdown(["task", "molecules", "folds", "metric", "small trees", *settings], cells),
    ]
    parts.append("\nMean over tasks, in standard deviations over folds of the score of small trees, by size:\n")
    parts.append(
        markdown(
            ["settings", f"fewer than {LARGE:,}", f"{LARGE:,} or more"],
            [_by_size(text, rows, found[text]) for text in settings],
        )
    )
    parts += ["", *dict.fromkeys(row["machine"] for row in rows)]
    return "\n".join(parts) + "\n"


def _by_size(text: str, rows: Sequence[Mapping[str, str]], found: Mapping[str, Difference]) -> list[str]:
    largest = {name: max(int(row["train"]) for row in rows if row["task"] == name) for name in found}
    cells = [f"`{text}`"]
    for is_large in (False, True):
        usable = [d for name, d in found.items() if (largest[name] >= LARGE) == is_large and d.std > 0]
        cells.append("{:+.2f} ({:+.2f} to {:+.2f})".format(*mean_standardized_difference(usable)) if usable else "")
    return cells


def main(words: list[str] | None = None) -> None:
    """Make the missing fits, the smallest tasks first; then write the page if requested."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder of the data; not needed for --page")
    parser.add_argument("--tasks", nargs="+", default=[task.name for task in tasks_of(TDC)], help="default: all of TDC")
    parser.add_argument("--folds", type=int, nargs="+", default=[0, 1, 2, 3, 4], choices=range(5))
    parser.add_argument("--settings", nargs="+", default=[""], help="parameters of LightGBM, quoted; '' for none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of results")
    parser.add_argument("--page", type=Path, help="the Markdown file to write, docs/results/trees.md")
    arguments = parser.parse_args(words)
    if not (arguments.data or arguments.page):
        parser.error("give DATA or --page")
    for fold in arguments.folds if arguments.data else ():
        for name in sorted(arguments.tasks, key=lambda name: TASKS[name].molecules):
            key = (name, str(fold), str(arguments.seed))
            rows = read_rows(arguments.results)
            done = {row["options"] for row in rows if (row["task"], row["fold"], row["seed"]) == key}
            if missing := [text for text in arguments.settings if text not in done]:
                append_rows(arguments.results, fit_and_score(arguments.data, name, fold, missing, arguments.seed))
                print(f"{name}, fold {fold}", file=sys.stderr, flush=True)
    if arguments.page:
        arguments.page.write_text(page(read_rows(arguments.results)), encoding="utf-8")
        print(arguments.page)


if __name__ == "__main__":
    main()
