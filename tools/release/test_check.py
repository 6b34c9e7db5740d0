"""The checks before a release find what differs, and nothing differs here."""

import shutil
from pathlib import Path

import pytest
from check import (
    PLACEHOLDER,
    ROOT,
    WITH_ADDRESS,
    read_project,
    recipe_problems,
    release_problems,
    requirements,
    version_problems,
)

VERSION = read_project(ROOT)["version"]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that are checked."""
    for name in (*WITH_ADDRESS, "CHANGELOG.md", "molattn/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_every_file_has_the_version_and_the_recipe_the_dependencies() -> None:
    assert version_problems(ROOT) == []
    assert recipe_problems(ROOT) == []


def test_requirements_of_pip_and_conda_are_the_same() -> None:
    assert requirements(["torch>=2.7", "torch-geometric >=2.7", "pip"]) == {"torch": "2.7", "torch-geometric": "2.7"}


@pytest.mark.parametrize("name", ["molattn/__init__.py", "CITATION.cff", "conda-recipe/meta.yaml"])
def test_another_version_is_found(copy: Path, name: str) -> None:
    replace(copy / name, VERSION, "7.8.9")
    assert version_problems(copy) == [f"{name}: the version is 7.8.9, and {VERSION} in pyproject.toml"]


def test_another_floor_and_a_missing_and_a_further_dependency_are_found(copy: Path) -> None:
    recipe = copy / "conda-recipe/meta.yaml"
    replace(recipe, "    - pytorch >=2.7\n", "    - pytorch >=2.0\n")
    replace(recipe, "    - scipy >=1.12\n", "    - pandas >=2.2\n")
    found = "\n".join(recipe_problems(copy))
    assert "pytorch is >=2.0, and >=2.7" in found
    assert "scipy is missing, and >=1.12" in found
    assert "pandas is >=2.2, and missing" in found
    assert len(found.splitlines()) == 3


def test_a_release_needs_its_tag_a_heading_and_an_address(copy: Path) -> None:
    changelog = copy / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## Unreleased\n\n## 0.0.1 - 2020-01-02\n", encoding="utf-8")
    problems = release_problems(copy, "v7.8.9")
    assert "the tag is v7.8.9" in problems[0]
    assert "the newest heading is '0.0.1 - 2020-01-02'" in problems[1]
    assert [line.partition(":")[0] for line in problems[2:]] == list(WITH_ADDRESS)

    replace(changelog, "## 0.0.1 - 2020-01-02", f"## {VERSION} - 2020-01-02")
    for name in WITH_ADDRESS:
        replace(copy / name, PLACEHOLDER, "molattn.test/molattn")
    assert release_problems(copy, f"v{VERSION}") == []
