"""Run the commands of molattn and of other projects, each in a process of its own on one thread."""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from peers import python_of

MOLATTN = (sys.executable, "-c", "from molattn.cli.main import main; main()")
DATASETS = Path(__file__).resolve().parents[1] / "datasets"
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class CompletedCommand:
    """The output and the resources of a process, including those of the processes that it started and waited for.

    Attributes:
        stdout: what it printed.
        cpu, wall: seconds.
        peak: the most resident memory, in MiB.
    """

    stdout: str
    cpu: float
    wall: float
    peak: float


def run(command: Sequence[object]) -> CompletedCommand:
    """Run a command on one thread.

    Raises:
        RuntimeError: it fails; the message has its output.
    """
    words = list(map(str, command))
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        start = time.perf_counter()
        process = subprocess.Popen(words, env={**os.environ, **ONE_THREAD}, stdout=stdout, stderr=stderr)
        # wait4 returns the times and the peak of this child, whereas getrusage combines all children so far.
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for stream in (stdout, stderr):
            stream.seek(0)
            texts.append(stream.read().decode(errors="replace"))
    if process.returncode:
        raise RuntimeError(f"{shlex.join(words)}\n{texts[0][-2000:]}{texts[1][-4000:]}")
    return CompletedCommand(texts[0], usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def train_chemprop(folder: Path, peers: Path) -> tuple[Path, Path]:
    """The chemprop command and a model that it trains on ESOL, for timing predictions."""
    chemprop, output = python_of("chemprop", peers).with_name("chemprop"), folder / "chemprop"
    # Three epochs are the fewest that it accepts.
    options = ("-s", "smiles", "--epochs", 3, "--accelerator", "cpu", "-o", output)
    run((chemprop, "train", "-i", DATASETS / "esol.csv", *options))
    return chemprop, output / "model_0" / "best.pt"
