"""Fixtures: the command line, run in this process, and one small run that many tests read."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from molattn.cli.main import main
from tests.molecules import esol

QUICK = ("--epochs", "2", "--set", "model.num_layers=2", "--set", "model.hidden_dim=16", "--accelerator", "cpu")


class Answer(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


Molattn = Callable[..., Answer]


@pytest.fixture
def molattn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Molattn:
    """Run `molattn` with these arguments."""

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["molattn", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        code = stop.value.code
        assert isinstance(code, int)
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty molecules, with two bad rows among them."""
    path = tmp_path_factory.mktemp("table") / "solubility.csv"
    rows = [f"{s},{y}" for s, y in zip(*esol(40), strict=True)]
    rows[7:7] = ["C1CC,0.5", "CCO,unknown"]
    path.write_text("\n".join(["smiles,y", *rows]) + "\n")
    return path


@pytest.fixture(scope="session")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run over `table`."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["molattn", "train", str(table), *QUICK, "-o", str(folder), "--quiet"])
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 0
    return folder
