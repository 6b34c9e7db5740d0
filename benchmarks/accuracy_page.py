"""The tables of `accuracy.py`, made from its file of results and from nothing else."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from report import markdown
from scipy import stats

OURS = "molattn"
ORDER = ("random", "scaffold", "scaffold-balanced")
ENSEMBLE = "-ensemble"
"""The suffix of the name of an ensemble, after that of its members."""

INTRODUCTION = """# How accurate, beside others

Made by `python benchmarks/accuracy.py` from `benchmarks/results/accuracy.csv`, which has a row for every run; that
command's help has the protocol. RMSE in the unit of the target, smaller is better; AUROC, larger is better. Mean and
standard deviation over the splits and seeds that all contenders of the table have run; in brackets, how many. Of
ensembles (five members, which differ in their seeds) each has a table of its own, beside the same model alone. molattn
starts from its base, molattn-scratch (`--base none`) from nothing.

The last table of each set takes the difference to molattn on the same split and seed, run by run, over the random
splits: its mean and the 95% confidence interval of the t distribution, with the variance of Nadeau and Bengio (2003,
Machine Learning 52, 239), (1/n + test/train) s^2, since the splits share their training molecules. An interval
without 0 is a difference.

molattn's recipe and its base model were chosen on the validation sides of ESOL's splits (`benchmarks/README.md`). Those
share their molecules: what one split validates with, another tests with, so that over all of them ESOL's figures are
not quite blind to the choice. What many molecules are trained with was chosen on the validation sides of
Lipophilicity's random0 to random2, with a look at those of BBBP's random0 and random1; those of FreeSolv had a say in
which base came along. The recipe from scratch was chosen by folds of the training and validation molecules of ESOL's
scaffold split and random0 (`benchmarks/folds.py`), before its own test errors were measured; but these folds were asked
again, with more seeds, when what they had chosen first had 0.892 on the scaffold split, so that split's figure from
scratch is not quite blind. An error of ESOL below 0.45 is near what the measured values are worth; the README says why
it is not a leak.
"""


class Run(Protocol):
    """What is read of a result."""

    dataset: str
    split: str
    model: str
    seed: int
    metric: str
    train: int
    test: int
    test_error: float


def kind_of(split: str) -> str:
    """`random3` is one of the random splits."""
    return split.rstrip("0123456789")


def difference(ours: Sequence[Run], theirs: Sequence[Run]) -> tuple[float, float, int] | None:
    """Mean of ours minus theirs over the runs that both have, half its confidence interval, and how many runs.

    The corrected variance of resampled splits: (1/n + test/train) s^2. None for fewer than two runs.
    """
    mine = {(run.split, run.seed): run for run in ours}
    pairs = [(mine[run.split, run.seed], run) for run in theirs if (run.split, run.seed) in mine]
    if len(pairs) < 2:
        return None
    differences = np.array([a.test_error - b.test_error for a, b in pairs])
    n, share = len(pairs), statistics.mean(a.test / a.train for a, _ in pairs)
    half = stats.t.ppf(0.975, n - 1) * np.sqrt((1 / n + share) * differences.var(ddof=1))
    return float(differences.mean()), float(half), n


def page(results: Sequence[Run]) -> str:
    """All tables, as Markdown."""
    sets = defaultdict(list)
    for run in results:
        sets[run.dataset].append(run)
    return "\n".join([INTRODUCTION, *(_section(name, runs) for name, runs in sets.items())])


def _section(name: str, runs: Sequence[Run]) -> str:
    metric = runs[0].metric
    sign = 1 if metric == "rmse" else -1
    kinds = [kind for kind in ORDER if any(kind_of(run.split) == kind for run in runs)]
    by_model = defaultdict(list)
    for run in runs:
        by_model[run.model].append(run)

    def of_kind(model: str, kind: str) -> list[Run]:
        return [run for run in by_model[model] if kind_of(run.split) == kind]

    def compared_alike(what: str, models: Sequence[str]) -> tuple[str, list[str]]:
        """The table of these, the best first, over what all of them have run: splits differ more than contenders do.

        And their names, in that order.
        """
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
        return markdown([what, *shared], rows), ordered

    ensembles = [model for model in by_model if model.endswith(ENSEMBLE)]
    singles = [model for model in by_model if model not in ensembles]
    table, ordered = compared_alike(f"test {metric}", singles)
    parts = [f"## {name}\n", table]
    for ensemble in ensembles:
        single = ensemble.removesuffix(ENSEMBLE)
        pair = [ensemble, single] if single in singles else [ensemble]
        parts += ["", compared_alike(f"test {metric}, ensembles", pair)[0]]
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
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.3f} (1)"
    return f"{statistics.mean(values):.3f} ± {statistics.stdev(values):.3f} ({len(values)})"
