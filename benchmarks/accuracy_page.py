"""The page docs/accuracy.md, made from the file of results of `accuracy.py`."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from report import corrected_half_interval, markdown, mean_and_std

OURS = "molattn"
ORDER = ("random", "scaffold", "scaffold-balanced")
ENSEMBLE = "-ensemble"
"""The suffix of the name of an ensemble, after that of its members."""

INTRODUCTION = """# Accuracy

Made by `python benchmarks/accuracy.py` from `benchmarks/results/accuracy.csv`, which has a row for every run; the help
of the command describes the protocol. RMSE in the unit of the target, smaller is better; AUROC, larger is better. Mean
and standard deviation over the splits and seeds that all models of the table have run, whose number is in brackets.
Each ensemble (five members, which differ in their seeds) has a table of its own with the same model as a single one.
molattn starts from its base model, molattn-scratch (`--base none`) from random weights.

The last table of each data set has the difference to molattn on the same split and seed, over the random splits: its
mean and the 95% confidence interval of the t distribution, with the variance of Nadeau and Bengio (2003, Machine
Learning 52, 239), (1/n + test/train) s^2, since the splits share their training molecules. A difference is significant
if its interval excludes 0.

molattn's default settings and its smaller base model were chosen by the validation molecules of ESOL's splits ([step by
step](results/default_settings.md)). The splits share molecules: validation molecules of one split are test molecules of
another, so over all splits the results of ESOL are not fully independent of the choice. The settings for large data
sets were chosen by the validation molecules of Lipophilicity's random0 to random2, checked with those of BBBP's random0
and random1; the validation molecules of FreeSolv contributed to the choice of that base model. That the larger one is
the default for 1,500 training molecules or more was decided by folds of TDC's tasks ([arena](arena.md)), two of which
have the molecules of Lipophilicity and BBBP, so their results are not fully independent of it; no label was used to
train it. That labels with little noise have no teacher ([few molecules](guide/train.md#few-molecules)) was decided by
the test errors of FreeSolv's random splits, which were 0.06 kcal/mol larger with one: their errors here are those of
the settings before distillation. The settings from scratch were chosen by folds of the training and validation
molecules of ESOL's scaffold split and random0 (`benchmarks/folds.py`), before their own test errors were measured. But
the folds were run again, with more seeds, when the first choice had 0.892 on the scaffold split, so the result of that
split from scratch is not fully independent of the choice. An error of ESOL below 0.45 is close to the error of the
measured values; the README explains why it is not a leak.
"""


class Run(Protocol):
    """The fields of a result that the tables use."""

    dataset: str
    split: str
    model: str
    seed: int
    metric: str
    train: int
    test: int
    test_error: float


def kind_of(split: str) -> str:
    """The kind of a split without its number, such as "random" for random3."""
    return split.rstrip("0123456789")


def difference(ours: Sequence[Run], theirs: Sequence[Run]) -> tuple[float, float, int] | None:
    """The mean of ours minus theirs over the runs that both have, half its 95% interval, and the number of runs.

    None for fewer than two runs.
    """
    by_key = {(run.split, run.seed): run for run in ours}
    pairs = [(by_key[run.split, run.seed], run) for run in theirs if (run.split, run.seed) in by_key]
    if len(pairs) < 2:
        return None
    differences = np.array([a.test_error - b.test_error for a, b in pairs])
    share = statistics.mean(a.test / a.train for a, _ in pairs)
    return float(differences.mean()), corrected_half_interval(differences, share), len(pairs)


def page(results: Sequence[Run]) -> str:
    """All tables, as Markdown."""
    by_dataset = defaultdict(list)
    for run in results:
        by_dataset[run.dataset].append(run)
    return "\n".join([INTRODUCTION, *(_section(name, runs) for name, runs in by_dataset.items())])


def _section(name: str, runs: Sequence[Run]) -> str:
    metric = runs[0].metric
    sign = 1 if metric == "rmse" else -1
    kinds = [kind for kind in ORDER if any(kind_of(run.split) == kind for run in runs)]
    by_model = defaultdict(list)
    for run in runs:
        by_model[run.model].append(run)

    def of_kind(model: str, kind: str) -> list[Run]:
        return [run for run in by_model[model] if kind_of(run.split) == kind]

    def comparison(title: str, models: Sequence[str]) -> tuple[str, list[str]]:
        """The table of these models over the runs that all of them have, and their names; best first."""
        shared = [kind for kind in kinds if all(of_kind(model, kind) for model in models)]
        errors: dict[str, list[list[float]]] = {model: [] for model in models}
        for kind in shared:
            common = set.intersection(*({(run.split, run.seed) for run in of_kind(model, kind)} for model in models))
            for model in models:
                chosen = [run.test_error for run in of_kind(model, kind) if (run.split, run.seed) in common]
                errors[model].append(chosen)

        def rank(model: str) -> float:
            return sign * statistics.mean(next(filter(None, errors[model]), [sign * float("inf")]))

        ordered = sorted(models, key=rank)
        rows = [[model, *(_cell(values) for values in errors[model])] for model in ordered]
        return markdown([title, *shared], rows), ordered

    ensembles = [model for model in by_model if model.endswith(ENSEMBLE)]
    singles = [model for model in by_model if model not in ensembles]
    table, ordered = comparison(f"test {metric}", singles)
    parts = [f"## {name}\n", table]
    for ensemble in ensembles:
        single = ensemble.removesuffix(ENSEMBLE)
        pair = [ensemble, single] if single in singles else [ensemble]
        parts += ["", comparison(f"test {metric}, ensembles", pair)[0]]
    compared = []
    for model in [*ordered, *ensembles]:
        if model != OURS and (found := difference(of_kind(OURS, "random"), of_kind(model, "random"))):
            mean, half, n = found
            better = (
                "molattn"
                if sign * (mean + sign * half) < 0
                else model
                if sign * (mean - sign * half) > 0
                else "neither"
            )
            compared.append([model, f"{mean:+.3f}", f"{mean - half:+.3f} to {mean + half:+.3f}", n, better])
    if compared:
        parts += ["", markdown(["molattn minus", "mean difference", "95% interval", "splits", "better"], compared)]
    return "\n".join([*parts, ""])


def _cell(values: Sequence[float]) -> str:
    return f"{mean_and_std(values)} ({len(values)})" if values else ""
