"""Checks before a release: `python tools/release/check.py v0.1.0`.

The tag, pyproject.toml, `molattn.__version__`, the newest heading of CHANGELOG.md, CITATION.cff and the conda recipe
have the same version, the recipe has the dependencies of pyproject.toml, and no placeholder of an address is left.
Without a tag, only what must agree between releases too: the version and the dependencies. The exit code is 1 if there
is a problem.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

PLACEHOLDER = "example.org/molattn"
"""The address in the place of the one that the repository does not have yet."""
WITH_ADDRESS = (
    "pyproject.toml",
    "CITATION.cff",
    "SECURITY.md",
    "conda-recipe/meta.yaml",
    ".github/ISSUE_TEMPLATE/config.yml",
)
"""The files with an address of the project."""

CONDA_NAMES = {"matplotlib": "matplotlib-base", "torch": "pytorch", "torch-geometric": "pytorch_geometric"}
"""The packages with another name on conda-forge; `matplotlib` brings a toolkit of windows there."""


def read_project(root: Path) -> dict[str, Any]:
    """The table `project` of pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def version_problems(root: Path) -> list[str]:
    """Where another version than that of pyproject.toml is written."""
    version = read_project(root)["version"]
    places = {
        "molattn/__init__.py": re.compile(r'^__version__ = "([^"\n]+)"$', re.MULTILINE),
        "CITATION.cff": re.compile(r'^version: "?([^"\n]+)"?$', re.MULTILINE),
        "conda-recipe/meta.yaml": re.compile(r'^{% set version = "([^"]+)" %}$', re.MULTILINE),
    }
    found = {name: pattern.findall((root / name).read_text(encoding="utf-8")) for name, pattern in places.items()}
    return [
        f"{name}: the version is {', '.join(versions) or 'missing'}, and {version} in pyproject.toml"
        for name, versions in found.items()
        if versions != [version]
    ]


def requirements(lines: list[str]) -> dict[str, str]:
    """The lowest version of each package, such as {"torch": "2.7"}, of lines such as "torch>=2.7" and "torch >=2.7"."""
    split = (re.fullmatch(r"([A-Za-z0-9._-]+) ?>=([0-9.]+)", line.strip()) for line in lines)
    return {match[1]: match[2] for match in split if match is not None}


def recipe_problems(root: Path) -> list[str]:
    """The dependencies of the conda recipe that differ from those of pyproject.toml."""
    project = read_project(root)
    expected = requirements([f"python{project['requires-python']}", *project["dependencies"]])
    expected = {CONDA_NAMES.get(name, name): floor for name, floor in expected.items()}
    text = (root / "conda-recipe/meta.yaml").read_text(encoding="utf-8")
    block = re.search(r"^  run:\n((?:    - .+\n)+)", text, re.MULTILINE)
    found = requirements([line.removeprefix("    - ") for line in block[1].splitlines()] if block else [])
    return [
        f"conda-recipe/meta.yaml: {name} is {_floor(found, name)}, and {_floor(expected, name)} in pyproject.toml"
        for name in sorted({*expected, *found})
        if found.get(name) != expected.get(name)
    ]


def _floor(versions: dict[str, str], name: str) -> str:
    return f">={versions[name]}" if name in versions else "missing"


def release_problems(root: Path, tag: str) -> list[str]:
    """What keeps the commit with this tag from being released, besides `version_problems` and `recipe_problems`."""
    version, problems = read_project(root)["version"], []
    if tag != f"v{version}":
        problems.append(f"the tag is {tag}, and the version in pyproject.toml {version}: the tag must be v{version}")
    headings = re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    newest = next((heading for heading in headings if heading != "Unreleased"), "missing")
    if not re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", newest):
        problems.append(f"CHANGELOG.md: the newest heading is {newest!r}, and must be '## {version} - YYYY-MM-DD'")
    for name in WITH_ADDRESS:
        if PLACEHOLDER in (root / name).read_text(encoding="utf-8"):
            problems.append(f"{name}: {PLACEHOLDER} is a placeholder: write the address of the repository")
    return problems


def main() -> None:
    """Print the problems."""
    problems = [*version_problems(ROOT), *recipe_problems(ROOT)]
    if tag := "".join(sys.argv[1:]):
        problems += release_problems(ROOT, tag)
    print("\n".join(problems) or "no problem")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
