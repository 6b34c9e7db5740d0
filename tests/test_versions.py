"""The versions of the full suite in the README are those of constraints.txt and pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("torch", "rdkit", "torch-geometric", "numpy")


@pytest.fixture(scope="module")
def rows() -> list[list[str]]:
    """The rows of the README's table of versions: a description, Python, and the packages."""
    _, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition("| full suite with |")
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_pinned_versions_are_those_of_the_constraints(rows: list[list[str]]) -> None:
    pins = dict(re.findall(r"^([\w.-]+)==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M))
    for row in rows[:2]:
        assert row[2:] == [pins[package] for package in PACKAGES]


def test_the_lowest_versions_are_those_of_pyproject(rows: list[list[str]], project: dict) -> None:
    floors = dict(re.findall(r"^([\w.-]+)>=([\d.]+)$", "\n".join(project["dependencies"]), re.M))
    assert rows[2][2:] == [floors[package] for package in PACKAGES]
    assert rows[2][1].startswith(project["requires-python"].removeprefix(">="))


def test_the_python_versions_are_those_of_the_classifiers(rows: list[list[str]], project: dict) -> None:
    named = {line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3" in line}
    assert named == {".".join(row[1].split(".")[:2]) for row in rows}
