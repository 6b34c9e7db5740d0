"""Small runs that are interrupted, killed and resumed, and whether two runs are the same."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import molattn
from molattn.training.callbacks import Callback
from tests.molecules import esol

SMALL = ["model.num_layers=2", "model.hidden_dim=16"]
TINY = ["model.num_layers=1", "model.hidden_dim=8", "training.base=none"]
REPOSITORY = Path(__file__).parents[2]


def small_table(path: Path) -> Path:
    """Sixty molecules."""
    rows = [f"{s},{y}" for s, y in zip(*esol(60), strict=True)]
    path.write_text("\n".join(["smiles,y", *rows]) + "\n")
    return path


def train_small(table: Path, folder: Path, settings: tuple[str, ...] = (), **options: object):
    """Train for six epochs."""
    options = {"epochs": 6, "batch_size": 16, "accelerator": "cpu", "quiet": True, **options}
    return molattn.train(table, output_dir=folder, settings=[*SMALL, *settings], **options)


def train_forty(folder: str | Path = "run", *, targets: int = 1, **options: Any) -> Any:
    """Train for two epochs on forty molecules, written to t.csv in the working directory."""
    names = ["y", "z"][:targets]
    rows = [",".join([s, *(str(y + i) for i in range(targets))]) for s, y in zip(*esol(40), strict=True)]
    Path("t.csv").write_text("\n".join([",".join(["smiles", *names]), *rows]) + "\n")
    options = {"epochs": 2, "batch_size": 16, "accelerator": "cpu", "quiet": True, "settings": TINY, **options}
    return molattn.train("t.csv", output_dir=folder, target_columns=names, **options)


class StopIn(Callback):
    """Raises an error at the end of an epoch, before that is saved."""

    def __init__(self, epoch: int, error: type[BaseException] = KeyboardInterrupt):
        self.epoch, self.error = epoch, error

    def on_epoch_end(self, learner: Any, record: Any) -> None:  # noqa: ARG002
        if record.epoch == self.epoch:
            raise self.error


def resume(folder: Path, quiet: bool = True, **options: object):
    """Resume a run."""
    return molattn.train(resume=folder, quiet=quiet, **options)


def interrupt(table: Path, folder: Path, after: int, by: signal.Signals = signal.SIGINT, **options: object) -> None:
    """Train, and raise a signal while the epoch after `after` epochs is reported."""

    def epoch(_: object, record: object, __: int) -> None:
        if record.epoch == after + 1:  # pyright: ignore[reportAttributeAccessIssue]
            signal.raise_signal(by)

    before = signal.signal(by, signal.default_int_handler if by is signal.SIGINT else signal.SIG_DFL)
    try:
        with pytest.MonkeyPatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr("molattn._train.PrintReporter.epoch", epoch)
            train_small(table, folder, **options)
            raise AssertionError("nothing ended the training")
    finally:
        signal.signal(by, before)


def same_runs(a: Path, b: Path) -> None:
    """Assert that two runs have the same files, with equal content except for times."""
    files = {p.relative_to(a) for p in a.rglob("*") if p.is_file()}
    assert files == {p.relative_to(b) for p in b.rglob("*") if p.is_file()}
    for file in files:
        if file.name != "env.json":
            assert (a / file).read_bytes() == (b / file).read_bytes(), file
    weights = [load_file(run / "model" / "model.safetensors") for run in (a, b)]
    assert all(torch.equal(x, weights[1][name]) for name, x in weights[0].items())


def killed_and_resumed(table: Path, folder: Path, epochs: int, kills: int) -> list[int]:
    """How many kills and resumptions `killed.py` counted, after which FOLDER/killed is the same as FOLDER/whole."""
    command = [sys.executable, str(Path(__file__).with_name("killed.py")), table, folder, epochs, kills, 0]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    same_runs(folder / "killed", folder / "whole")
    return [int(number) for number in done.stdout.split()]
