"""Processes that are killed while they save: this one forks them before any computation.

    python savers.py MODEL FOLDER KILLS SEED

A child saves one version after another of an artifact, a checkpoint or a table into FOLDER, until it is killed at a
random moment. The saved files are then read, and must be one complete version; the next child continues from it. The
script prints as JSON, for each of the three, the number of kills, of versions that could be read, and of temporary
files that were left, and that remained at the end.
"""

import json
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import torch

from molattn.data import read_table, write_table
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import load_artifact, save_artifact
from molattn.training.checkpoint_file import Checkpoint, load_checkpoint, save_checkpoint


class Saver(Protocol):
    """Saves and loads versions of something."""

    def save(self, version: int) -> None:
        """Replace the stored version by this one."""
        ...

    def version(self) -> int:
        """The version that is stored completely."""
        ...


class Models:
    """A model all of whose weights are its version."""

    def __init__(self, model: Path, folder: Path):
        self.artifact: Artifact = load_artifact(model)
        self.folder = folder

    def save(self, version: int) -> None:
        for x in self.artifact.model.state_dict().values():
            x.fill_(version)
        save_artifact(self.folder, replace(self.artifact, units=(str(version),)))

    def version(self) -> int:
        found = load_artifact(self.folder)
        version = int(found.units[0])
        assert all(bool((x == version).all()) for x in found.model.state_dict().values())
        return version


class Trainings:
    """The checkpoint after so many epochs."""

    def __init__(self, _: Path, folder: Path):
        self.folder = folder

    def save(self, version: int) -> None:
        state = {"epoch": version, "identity": {}}
        save_checkpoint(self.folder, Checkpoint({"x": torch.full((100_000,), version)}, state))

    def version(self) -> int:
        found = load_checkpoint(self.folder)
        assert found is not None
        assert bool((found.tensors["x"] == found.state["epoch"]).all())
        return found.state["epoch"]


class Tables:
    """A table all of whose cells are its version."""

    def __init__(self, _: Path, folder: Path):
        folder.mkdir(parents=True)
        self.path = folder / "table.csv"

    def save(self, version: int) -> None:
        write_table(self.path, ("smiles", "y"), ([str(version)] * 2 for _ in range(10_000)))

    def version(self) -> int:
        rows = read_table(self.path).rows
        assert len(rows) == 10_000
        (cell,) = {cell for row in rows for cell in row}
        return int(cell)


SAVERS = {"artifact": Models, "checkpoint": Trainings, "table": Tables}


def leftovers(folder: Path) -> int:
    """The number of temporary files in a folder."""
    return len(list(folder.glob(".*.tmp")))


def killed(saver: Saver, folder: Path, kills: int, rng: random.Random) -> dict[str, int]:
    """Kill `kills` children while they save."""
    start = time.perf_counter()
    for version in range(4):
        saver.save(version)
    last, longest = 3, time.perf_counter() - start
    counts = {"kills": 0, "loadable": 0, "left": 0, "lost": 0}
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            version = last
            while True:
                version += 1
                saver.save(version)
        time.sleep(rng.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), status
        counts["kills"] += 1
        counts["left"] += leftovers(folder)
        found = saver.version()
        counts["lost"] += found < last
        counts["loadable"] += 1
        last = found
    saver.save(last + 1)
    assert saver.version() == last + 1
    return {**counts, "remained": leftovers(folder), "versions": last + 2}


def main() -> None:
    """See above."""
    model, folder = Path(sys.argv[1]), Path(sys.argv[2])
    kills, rng = int(sys.argv[3]), random.Random(int(sys.argv[4]))
    print(json.dumps({k: killed(s(model, folder / k), folder / k, kills, rng) for k, s in SAVERS.items()}))


if __name__ == "__main__":
    main()
