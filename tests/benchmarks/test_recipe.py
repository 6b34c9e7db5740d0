"""The table of the recipe: differences are taken run by run, and every step is a command that `molattn train` takes."""

import math
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import recipe

from molattn.training.run_config import resolve


def test_differences_are_those_of_the_same_splits_and_seeds():
    default = {"random0 0": 0.5, "random1 0": 0.7, "scaffold 0": 0.8}
    found = {"random0 0": 0.4, "random1 0": 0.5, "scaffold 0": 0.9}
    cells = recipe.row("a step", "--epochs 10", found, default)
    # -0.1 and -0.2: the mean, and its standard error 0.0707 / sqrt(2); one scaffold split has no error.
    assert cells == ["a step", "`--epochs 10`", "0.450", "-0.150 (0.050)", "0.900", ""]
    assert recipe.row("the default", "", default, default)[2:] == ["0.600", "", "0.800", ""]
    assert math.isclose(0.05, (0.1 / math.sqrt(2)) / math.sqrt(2))


@pytest.mark.parametrize("start", recipe.STEPS)
def test_every_step_changes_an_existing_setting(start: str):
    defaults = resolve(None, {}).to_dict()
    for name, options in list(recipe.STEPS[start].items())[1:]:
        words = shlex.split(options.replace('"', "'\"'"))
        flags = {"--epochs": "epochs", "--batch-size": "batch_size"}
        if words[0] == "--set":
            assert set(words[::2]) == {"--set"}, name
            changed = resolve(None, {}, words[1::2]).to_dict()
        elif words[0] == "--molecule-featurizers":
            changed = resolve(None, {"molecule_featurizers": words[1:]}).to_dict()
        else:
            changed = resolve(None, {flags[words[0]]: int(words[1])}).to_dict()
        before = [(section, key) for section in defaults for key in defaults[section]]
        differ = [(s, key) for s, key in before if changed[s][key] != defaults[s][key]]
        assert len(differ) <= 1, name


def test_runs_in_the_file_are_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    trainings = []

    def train(dataset: str, split: str, base: str, seed: int, options: list[str]) -> dict[str, Any]:
        trainings.append((dataset, split, base, seed, options))
        return {"val": 0.5 + seed / 10}

    monkeypatch.setattr(recipe, "train", train)
    command = ["recipe.py", "-o", str(tmp_path / "r.json"), "--start", "scratch", "--steps", "2 layers"]
    monkeypatch.setattr(sys, "argv", [*command, "--splits", "random0", "scaffold"])
    for _ in range(2):
        recipe.main()
        table = capsys.readouterr().out
    assert len(trainings) == 8
    assert trainings[-1] == ("esol", "scaffold", "none", 1, ["--set", "model.num_layers=2"])
    assert "| 2 layers | `--set model.num_layers=2` | 0.550 | +0.000 (0.000) | 0.550 | +0.000 (0.000) |" in table

    monkeypatch.setattr(sys, "argv", [*command, "--splits", "random0", "--seeds", "0", "--also", "--epochs 3"])
    recipe.main()
    also = ["--epochs", "3"]
    assert [options for *_, options in trainings[8:]] == [also, [*also, "--set", "model.num_layers=2"]]
