"""Launches a process for each device in distributed training, and terminates them together.

Each runs the same command with the variables that torchrun would set: see `molattn.training.distributed`.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

from molattn.errors import ProcessLost, UsageError

GRACE_PERIOD = 5.0
"""Seconds in which processes may exit by themselves after one has failed; and again after SIGTERM."""

COMMAND = (sys.executable, "-P", "-m", "molattn")
"""What each process runs, followed by the arguments."""

PARENT = "MOLATTN_LAUNCHER"
"""The environment variable with the process id of the launcher."""


def launch(arguments: Sequence[str], devices: int, nodes: int) -> int:
    """Run `molattn` with these arguments in a process for each device of this machine; returns the exit code.

    Rank 0 writes to the terminal; the error of another rank is shown if rank 0 reports none. When one process fails,
    all others are terminated. Each is in a session of its own, which Ctrl-C and other signals to the process group of
    this one do not reach: SIGINT and SIGTERM are passed on, once, and Ctrl-Z stops all of them until SIGCONT.

    Args:
        arguments: of the command.
        devices: processes on this machine.
        nodes: machines; the same command runs on each, with MASTER_ADDR and MASTER_PORT, the address and a free port
            of the first, and NODE_RANK, from 0.

    Raises:
        UsageError: several machines, and one of these variables is missing.
        ProcessLost: a process was killed.
    """
    variables = _variables(nodes)
    first = int(variables["GROUP_RANK"]) * devices
    logs = [tempfile.TemporaryFile() if first + i else None for i in range(devices)]  # noqa: SIM115 (closed below)
    processes: list[subprocess.Popen[bytes]] = []
    received: list[int] = []

    def forward(number: int, _: FrameType | None) -> None:
        received.append(number)
        if not (sys.platform == "win32" and number == signal.SIGINT):  # which its console sends to all processes
            send(number)

    def suspend(number: int, _: FrameType | None) -> None:  # noqa: ARG001
        send(signal.SIGSTOP)  # not SIGTSTP, which has no effect in a session without a terminal
        os.kill(os.getpid(), signal.SIGSTOP)
        send(signal.SIGCONT)

    def send(number: int) -> None:
        for process in processes:
            process.send_signal(number)

    handlers = {signal.SIGINT: forward, signal.SIGTERM: forward}
    if sys.platform != "win32":
        handlers[signal.SIGTSTP] = suspend
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        for i, log in enumerate(logs):
            environment = {
                **os.environ,
                **variables,
                "RANK": str(first + i),
                "WORLD_SIZE": str(devices * nodes),
                "LOCAL_RANK": str(i),
                "LOCAL_WORLD_SIZE": str(devices),
                PARENT: str(os.getpid()),
            }
            out = None if log is None else subprocess.DEVNULL
            command = [*COMMAND, *arguments]
            processes.append(subprocess.Popen(command, env=environment, stdout=out, stderr=log, start_new_session=True))
        failed = _wait(processes)
        if received:
            return 128 + received[0]
        if failed is None:
            return 0
        code, log = processes[failed].returncode, logs[failed]
        if code < 0:
            raise ProcessLost(
                f"process {first + failed} of {devices * nodes} was killed by {signal.Signals(-code).name}, and then "
                "the others: --resume continues after the last saved epoch"
            )
        # Where there is no SIGKILL, as on Windows, a process that was ended has 1, as one with an error.
        ended = (-signal.SIGTERM, -getattr(signal, "SIGKILL", signal.SIGTERM))
        if log is not None and processes[0].returncode in (0, ProcessLost.exit_code, *ended):
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace"))
        return code
    finally:
        _terminate(processes)
        for log in filter(None, logs):
            log.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _variables(nodes: int) -> dict[str, str]:
    """The environment variables for all processes of this machine: its index, and the address of rank 0 if not set."""
    names = "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"
    if nodes > 1:
        if missing := [name for name in names if not os.environ.get(name)]:
            raise UsageError(
                f"{nodes} machines: run the same command on each, with MASTER_ADDR and MASTER_PORT, the address and "
                f"a free port of the first, and NODE_RANK, 0 to {nodes - 1}; {missing[0]} is not set"
            )
        if os.environ["NODE_RANK"] not in map(str, range(nodes)):
            raise UsageError(f"NODE_RANK is 0 to {nodes - 1}, not {os.environ['NODE_RANK']!r}")
        return {"GROUP_RANK": os.environ["NODE_RANK"]}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return {"GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """Wait for all; after one fails, terminate the others. Returns the index of the first that failed, if any."""
    failed, since = None, 0.0
    while None in [process.poll() for process in processes]:
        if failed is None:
            failed = next((i for i, process in enumerate(processes) if process.returncode), None)
            since = time.monotonic()
        elif time.monotonic() > since + GRACE_PERIOD:
            # Until then, processes that wait for the failed one notice it themselves, and report their run folder.
            _terminate(processes)
        time.sleep(0.1)
    return next((i for i, p in enumerate(processes) if failed is None and p.returncode), failed)


def _terminate(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Terminate all running processes, and kill those that do not end in time."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    until = time.monotonic() + GRACE_PERIOD
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
        if process.poll() is None:
            process.kill()
            process.wait()


def end_with_launcher() -> None:
    """In a launched process: exit as soon as the launcher is gone, for example killed."""
    if parent := os.environ.get(PARENT):

        def watch() -> None:
            _wait_for_end(int(parent))
            os._exit(ProcessLost.exit_code)

        threading.Thread(target=watch, daemon=True).start()


def _wait_for_end(parent: int) -> None:
    """Wait until the parent process has ended."""
    if sys.platform == "win32":  # os.getppid stays the same there
        import _winapi

        synchronize = 0x100000
        with suppress(OSError):  # it has ended already
            handle = _winapi.OpenProcess(synchronize, False, parent)
            _winapi.WaitForSingleObject(handle, _winapi.INFINITE)
        return
    while os.getppid() == parent:
        time.sleep(1.0)
