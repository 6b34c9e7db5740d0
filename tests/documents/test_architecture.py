"""docs/architecture.md is true: the drawing is the rule that `lint-imports` checks, and what it names exists."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/architecture.md").read_text()


def test_the_drawing_is_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert re.findall(r"```\n(.*?)```", TEXT, re.DOTALL)[0].splitlines() == layers


def test_every_package_is_in_the_drawing() -> None:
    drawn = set(re.findall(r"molattn\.(\w+)", TEXT.split("```")[1]))
    own = {p.stem for p in (ROOT / "molattn").iterdir() if (p / "__init__.py").is_file() or p.suffix == ".py"}
    assert own - {"__init__", "__main__"} == drawn


def test_every_file_that_is_named_exists() -> None:
    named = re.findall(r"`((?:molattn|tools)/\S+\.py)`", TEXT)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).is_file()] == []
