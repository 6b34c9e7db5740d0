"""Reports of the benchmarks: the machine, medians and intervals, Markdown tables, and results as JSON."""

import json
import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np


def machine(packages: Sequence[str] = ("torch", "rdkit"), threads: int = 1) -> dict[str, Any]:
    """Where the figures come from: processor, cores, threads of one process, and versions of `packages`."""
    return {
        "processor": _processor(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "threads": threads,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in packages},
    }


def _processor() -> str:
    """The name that Linux has for it; the architecture elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def describe_machine(where: Mapping[str, Any]) -> str:
    """`machine` as a sentence under a table."""
    threads = "One thread" if where["threads"] == 1 else f"{where['threads']} threads"
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    return (
        f"{threads} of a machine with {where['cores']} CPU cores ({where['architecture']}, {where['processor']}), "
        f"Python {where['python']}, {versions}."
    )


def spread(values: Iterable[float]) -> dict[str, float]:
    """Median and quartiles of repeated measurements, and how many there were."""
    numbers = np.asarray(list(values), dtype=float)
    q1, median, q3 = np.percentile(numbers, (25, 50, 75))
    return {"median": float(median), "q1": float(q1), "q3": float(q3), "n": len(numbers)}


def format_spread(figure: Mapping[str, float], digits: int = 2) -> str:
    """`spread` in a cell: the median, and the quartiles in brackets."""
    return f"{figure['median']:,.{digits}f} ({figure['q1']:,.{digits}f} to {figure['q3']:,.{digits}f})"


def mean_and_std(values: Sequence[float], digits: int = 3) -> str:
    """One value, or the mean and the standard deviation of several."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"


def corrected_half_interval(differences: np.ndarray, share: float) -> float:
    """Half the 95% interval of the mean of differences over n resampled splits: t sqrt((1/n + share) s^2).

    `share` is the number of test molecules for each training molecule, by which the splits are correlated.

    Source: Nadeau and Bengio, Machine Learning 2003, 52, 239 (https://doi.org/10.1023/A:1024068626366).
    """
    from scipy import stats

    n = len(differences)
    return float(stats.t.ppf(0.975, n - 1) * np.sqrt((1 / n + share) * differences.var(ddof=1)))


def bootstrap_over_groups(groups: Sequence[np.ndarray], num_samples: int = 10_000) -> tuple[float, float, float]:
    """The mean of the means of groups of numbers, and its 95% interval.

    The percentile bootstrap samples groups, and then the numbers in each, with replacement.
    """
    rng = np.random.default_rng(0)
    sampled = rng.integers(len(groups), size=(num_samples, len(groups)))
    means = np.zeros(sampled.shape)
    for i, values in enumerate(groups):
        group_means = values[rng.integers(len(values), size=(*sampled.shape, len(values)))].mean(2)
        means = np.where(sampled == i, group_means, means)
    low, high = np.percentile(means.mean(1), (2.5, 97.5))
    return float(np.mean([values.mean() for values in groups])), float(low), float(high)


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in the format of README.md."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def save_results(
    path: str | Path, benchmark: str, settings: Mapping[str, Any], results: Any, where: Mapping[str, Any]
) -> None:
    """Write results, settings and the machine as JSON."""
    content = {"benchmark": benchmark, "machine": where, "settings": dict(settings), "results": results}
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")


def load_results(path: str | Path) -> Any:
    """The results that `save_results` wrote; an empty dict if there is no file yet."""
    path = Path(path)
    return json.loads(path.read_text(encoding="utf-8"))["results"] if path.is_file() else {}
