"""Trainings that are killed: this process trains in child processes, which are forked before any computation.

    python killed.py TABLE FOLDER EPOCHS KILLS SEED

trains once in FOLDER/whole, and once in FOLDER/killed, where the process is killed KILLS times and resumed after each:
after its 1st, 2nd and 3rd epoch at first, then at random times after its first. It prints how often it was killed, and
how often resumed.
"""

import os
import random
import signal
import sys
import threading
from pathlib import Path

import molattn

# The children find them imported.
import molattn.training.fit
import molattn.viewer.run_plots
from molattn.training import checkpoint

SMALL = ("model.num_layers=2", "model.hidden_dim=16", "training.checkpoint_every=1")


def train(
    table: Path, folder: Path, epochs: int, resume: bool, kill_after: int | None, seconds: float | None = None
) -> None:
    """Train or resume; does not return if the process is killed after some epochs, or seconds after the first."""
    real, saved = checkpoint.save_checkpoint, 0

    def save(*args: object) -> None:
        nonlocal saved
        real(*args)
        saved += 1
        if saved == kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if saved == 1 and seconds is not None:
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()

    checkpoint.save_checkpoint = save
    options = {"resume": folder} if resume else {"dataset": table, "output_dir": folder, "epochs": epochs}
    molattn.train(**options, settings=() if resume else SMALL, accelerator="cpu", quiet=True)


def in_child(*args: object) -> bool:
    """Whether a child that trains ends well, and is not killed."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            train(*args)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return not os.WIFSIGNALED(status)


def main() -> None:
    """See above."""
    table, folder = map(Path, sys.argv[1:3])
    epochs, kills, seed = map(int, sys.argv[3:])
    rng = random.Random(seed)
    assert in_child(table, folder / "whole", epochs, False, None)
    killed, resumed = 0, 0
    while not (folder / "killed" / "metrics.json").is_file():
        resume = (folder / "killed" / "config.toml").is_file()
        resumed += resume
        if killed < min(3, kills):
            done = in_child(table, folder / "killed", epochs, resume, 1 + killed)
        elif killed < kills:
            done = in_child(table, folder / "killed", epochs, resume, None, rng.uniform(0.0, 0.1))
        else:
            done = in_child(table, folder / "killed", epochs, resume, None)
        killed += not done
        if not done:
            (folder / "killed" / ".metrics.json.0123abcd.tmp").touch()  # as if it had been killed while it wrote
    print(killed, resumed)


if __name__ == "__main__":
    main()
