"""What every benchmark writes: on which machine, how widely figures spread, a table to read and a file to keep."""

import csv
import json
import os
import platform
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


def in_words(where: Mapping[str, Any]) -> str:
    """The sentence to put under a table."""
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


def shown(figure: Mapping[str, float], digits: int = 2) -> str:
    """`spread`, for a cell: the median, and the quartiles in brackets."""
    return f"{figure['median']:,.{digits}f} ({figure['q1']:,.{digits}f} to {figure['q3']:,.{digits}f})"


def markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in the format of README.md."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def save(path: str | Path, benchmark: str, settings: Mapping[str, Any], results: Any, where: Mapping[str, Any]) -> None:
    """Everything as JSON, in a file of its own."""
    content = {"benchmark": benchmark, "machine": where, "settings": dict(settings), "results": results}
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, default=str) + "\n", encoding="utf-8")


def saved(path: str | Path) -> Any:
    """The results that `save` wrote; an empty dict where there is no file yet."""
    path = Path(path)
    return json.loads(path.read_text(encoding="utf-8"))["results"] if path.is_file() else {}


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """One row more of a CSV file, on the disk when this returns; the header is that of the first row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with open(path, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if new:
            writer.writeheader()
        writer.writerow(row)
        file.flush()
        os.fsync(file.fileno())


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none where there is no file yet."""
    if not path.is_file():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
