"""What each dependency of pyproject.toml costs: megabytes on disk and seconds of import; in an environment with `dev`.

    python benchmarks/dependencies.py
    python benchmarks/dependencies.py --rounds 9 -o dependencies.json

A dependency is given the size of its own files, and that of the packages that only it brings: those that would not be
installed without it and the dependencies that need it. The packages of an extra are compared with an installation
without extras. Its import is timed in processes that have imported torch, as those that train and predict have: the
least CPU time of several that it adds. The tools for developers are not timed.
"""

import argparse
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from report import describe_machine, machine, markdown, save_results

ROOT = Path(__file__).parents[1]

MODULES = {
    "rdkit": "rdkit.Chem",
    "scikit-learn": "sklearn.ensemble",
    "ray": "ray.data",
    "torch-geometric": "torch_geometric.nn",
    "pyarrow": "pyarrow.parquet",
    "safetensors": "safetensors.torch",
    "scipy": "scipy.stats",
    "matplotlib": "matplotlib.figure",
    "mlflow-skinny": "mlflow",
    "tensorboard": "torch.utils.tensorboard",
}
"""What is imported of a package, if that is not its name with underscores."""

CODE = "import time\n{before}\nstart = time.process_time()\nimport {module}\nprint(time.process_time() - start)"
"""A process that prints the CPU time of an import."""


ENVIRONMENT = {**os.environ, "KERAS_BACKEND": "torch"}
"""Of such a process: Keras would ask for TensorFlow."""


@cache
def needs(package: str, extras: frozenset[str] = frozenset()) -> frozenset[str]:
    """The installed packages that a package needs, directly or not, with itself; empty if it is not installed."""
    found: set[str] = set()
    pending = [(canonicalize_name(package), extras)]
    seen: set[tuple[str, frozenset[str]]] = set()
    while pending:
        name, wanted = pending.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            lines = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        found.add(name)
        for requirement in map(Requirement, lines):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
                pending.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return frozenset(found)


def megabytes(packages: Iterable[str]) -> float:
    """The size of the installed files of packages, in 10^6 bytes, without compiled Python files."""
    paths = {
        Path(str(distribution(name).locate_file(file)))
        for name in packages
        for file in distribution(name).files or ()
        if file.suffix != ".pyc"
    }
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def import_seconds(module: str, rounds: int) -> float:
    """The least CPU time that importing a module adds to a process with torch; of torch, to one without."""
    code = CODE.format(before="" if module == "torch" else "import torch", module=module)
    times = []
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"import {module} fails: {done.stderr.strip().splitlines()[-1]}")
        times.append(float(done.stdout.split()[-1]))
    return min(times)


def rows(requirements: list[str], others: frozenset[str], rounds: int) -> list[dict[str, Any]]:
    """The cost of each requirement.

    Args:
        requirements: as in pyproject.toml.
        others: the packages that are there anyway.
        rounds: how often each import is timed; 0 for not at all.
    """
    parsed = [Requirement(text) for text in requirements]
    closures = {each.name: needs(each.name, frozenset(each.extras)) for each in parsed}
    found = []
    for name, closure in closures.items():
        if not closure:
            raise SystemExit(f'{name} is not installed: pip install -c constraints.txt -e ".[dev]"')
        own = canonicalize_name(name)
        alone = closure - others.union(*(packages for packages in closures.values() if own not in packages))
        module = MODULES.get(name, name.replace("-", "_"))
        found.append(
            {
                "name": name,
                "version": distribution(name).version,
                "own": megabytes([own]),
                "brings": megabytes(alone - {own}),
                "packages": sorted(alone - {own}),
                "needed_by": sorted(other for other, packages in closures.items() if other != name and own in packages),
                "import": import_seconds(module, rounds) if rounds else None,
            }
        )
        print(f"{name}: done", file=sys.stderr)
    return found


def cells(row: dict[str, Any]) -> list[str]:
    """The cells of a row."""
    seconds = "" if row["import"] is None else f"{row['import']:.2f}"
    brought = ", ".join(row["packages"]) if len(row["packages"]) < 5 else f"{len(row['packages'])} packages"
    size = f"{row['own']:,.1f}"
    return [f"`{row['name']}`", size, f"{row['brings']:,.1f}", brought, ", ".join(row["needed_by"]), seconds]


HEADER = ("package", "MB", "MB brought", "what only it brings", "also needed by", "import, s")


def main() -> None:
    """Measure, print the tables and save the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=Path("dependencies.json"))
    options = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = frozenset().union(*(needs(Requirement(text).name) for text in project["dependencies"]))
    where = machine(("torch", "rdkit", "numpy"))
    groups = {"dependencies": project["dependencies"], **project["optional-dependencies"]}
    results: dict[str, list[dict[str, Any]]] = {}
    seen: set[str] = set()
    for title, requirements in groups.items():
        named = [text for text in requirements if Requirement(text).name != "molattn" and text not in seen]
        if title in ("fuzz", "docs"):  # not installed with the others
            continue
        seen.update(named)
        rounds = 0 if title in ("test", "dev") else options.rounds
        results[title] = rows(named, frozenset() if title == "dependencies" else core, rounds)
        print(f"{title}\n\n{markdown(HEADER, [cells(row) for row in results[title]])}\n", flush=True)
        save_results(options.output, "dependencies", {"rounds": options.rounds}, results, where)
    print(f"In all without extras: {megabytes(core):,.0f} MB. {describe_machine(where)} Rounds: {options.rounds}.")


if __name__ == "__main__":
    main()
