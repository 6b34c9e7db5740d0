"""What a command takes: seconds of the clock and of the processor, and memory."""

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Took:
    """What one process took, those that it started and waited for included.

    Attributes:
        cpu, wall: seconds.
        peak: the most resident memory, MiB.
    """

    cpu: float
    wall: float
    peak: float


def took(command: Sequence[object]) -> Took:
    """Run a command with one thread, its output thrown away.

    Raises:
        subprocess.CalledProcessError: it fails; the exception has its standard error.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    words = list(map(str, command))
    start = time.perf_counter()
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read()
    # wait4 returns the times and the peak of this child, whereas getrusage combines all children so far.
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words, stderr=errors.decode(errors="replace"))
    return Took(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)
