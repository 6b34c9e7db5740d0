"""Launched processes end together, however one of them ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from molattn.cli import launch as launching
from molattn.cli.launch import launch
from molattn.errors import ProcessLost, UsageError
from tests.cli.conftest import Molattn

ROOT = Path(__file__).parents[2]
SAYS = "import os, signal, sys, time; rank = os.environ['RANK']\n"
WAITS = "time.sleep(60)\n"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "GRACE_PERIOD", 0.3)
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)


def run(monkeypatch: pytest.MonkeyPatch, program: str, *arguments: str, nodes: int = 1) -> int:
    monkeypatch.setattr(launching, "COMMAND", (sys.executable, "-c", SAYS + program))
    return launch(arguments, 2, nodes)


def is_gone(process: int) -> bool:
    """Whether it has ended; one that was not waited for has not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")


def test_each_process_gets_its_rank_and_only_rank_0_prints(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = "open(f'{sys.argv[1]}/{rank}', 'w').write(' '.join(map(os.environ.get, sys.argv[2:])))\n"
    program += "print('out', rank); print('err', rank, file=sys.stderr)"
    assert run(monkeypatch, program, str(tmp_path), *NAMES) == 0
    assert capfd.readouterr() == ("out 0\n", "err 0\n")
    variables = [(tmp_path / str(i)).read_text() for i in range(2)]
    assert variables == ["0 2 0 2 0 127.0.0.1", "1 2 1 2 0 127.0.0.1"]


def test_on_the_second_of_two_machines(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = "open(f'{sys.argv[1]}/{rank}', 'w').write(' '.join(map(os.environ.get, sys.argv[2:]))); print(rank)"
    for name, value in (("MASTER_ADDR", "first"), ("MASTER_PORT", "1234"), ("NODE_RANK", "1")):
        monkeypatch.setenv(name, value)
    assert run(monkeypatch, program, str(tmp_path), *NAMES, nodes=2) == 0
    assert [(tmp_path / i).read_text() for i in "23"] == ["2 4 0 2 1 first", "3 4 1 2 1 first"]
    assert capfd.readouterr().out == ""
    monkeypatch.setenv("NODE_RANK", "2")
    with pytest.raises(UsageError, match="NODE_RANK is 0 to 1, not '2'"):
        run(monkeypatch, program, nodes=2)
    monkeypatch.delenv("MASTER_PORT")
    with pytest.raises(UsageError, match="MASTER_PORT is not set"):
        run(monkeypatch, program, nodes=2)


def test_the_error_of_the_only_failing_process_is_shown_and_ends_the_others(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    program = "open(f'{sys.argv[1]}/{rank}', 'w').write(str(os.getpid()))\n"
    program += f"if rank == '1': sys.exit('error: mine')\n{WAITS}"
    start = time.monotonic()
    assert run(monkeypatch, program, str(tmp_path)) == 1
    assert time.monotonic() < start + 30
    assert capfd.readouterr().err == "error: mine\n"
    assert all(is_gone(int((tmp_path / i).read_text())) for i in "01")


def test_an_error_of_all_processes_is_shown_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    program = "time.sleep(0.2 if rank == '0' else 0); print('error: all', file=sys.stderr); sys.exit(3)"
    assert run(monkeypatch, program) == 3
    assert capfd.readouterr().err == "error: all\n"


def test_processes_that_ignore_sigterm_are_killed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = "open(f'{sys.argv[1]}/{rank}', 'w').write(str(os.getpid()))\n"
    program += "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    program += "while not os.path.exists(f'{sys.argv[1]}/0'): time.sleep(0.01)\n"
    program += f"if rank == '1': os.kill(os.getpid(), signal.SIGKILL)\n{WAITS}"
    with pytest.raises(ProcessLost, match="process 1 of 2 was killed by SIGKILL, and then the others: --resume"):
        run(monkeypatch, program, str(tmp_path))
    assert is_gone(int((tmp_path / "0").read_text()))


def launcher_of(child: str) -> "subprocess.Popen[bytes]":
    """A process that launches two others with the program `child`, in a group of its own as a terminal has it."""
    program = f"""
import sys
from molattn.cli import launch
launch.COMMAND = (sys.executable, "-c", {SAYS + child!r})
sys.exit(launch.launch([], 2, 1))
"""
    return subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, process_group=0, stderr=subprocess.DEVNULL)


def wait_for_files(folder: Path) -> None:
    until = time.monotonic() + 60
    while not all((folder / i).exists() and (folder / i).read_text() for i in "01"):
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("to_group", [True, False])
def test_each_process_is_interrupted_once(tmp_path: Path, to_group: bool) -> None:
    child = f"""
received = []
signal.signal(signal.SIGINT, lambda *_: received.append(time.monotonic()))
open(f'{tmp_path}/{{rank}}', 'w').write('ready')
while not received: time.sleep(0.01)
until = received[0] + 1.0
while time.monotonic() < until: time.sleep(0.01)
open(f'{tmp_path}/count{{rank}}', 'w').write(str(len(received)))
"""
    process = launcher_of(child)
    wait_for_files(tmp_path)
    (os.killpg if to_group else os.kill)(process.pid, signal.SIGINT)
    assert process.wait(30) == 128 + signal.SIGINT
    assert [(tmp_path / f"count{i}").read_text() for i in "01"] == ["1", "1"]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the state of a process is read from /proc")
def test_ctrl_z_stops_all_processes_until_they_are_continued(tmp_path: Path) -> None:
    process = launcher_of(f"open(f'{tmp_path}/{{rank}}', 'w').write(str(os.getpid())); time.sleep(60)")
    wait_for_files(tmp_path)
    pids = [process.pid, *(int((tmp_path / i).read_text()) for i in "01")]

    def are_stopped() -> set[bool]:
        return {Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "T" for pid in pids}

    for number, stopped in ((signal.SIGTSTP, True), (signal.SIGCONT, False)):
        os.killpg(process.pid, number)
        until = time.monotonic() + 30
        while are_stopped() != {stopped}:
            assert time.monotonic() < until
            time.sleep(0.05)
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("number", "to_group"), [(signal.SIGTERM, False), (signal.SIGINT, True), (signal.SIGINT, False)]
)
def test_signals_reach_all_processes(tmp_path: Path, number: signal.Signals, to_group: bool) -> None:
    process = launcher_of(f"open(f'{tmp_path}/{{rank}}', 'w').write(str(os.getpid())); {WAITS}")
    wait_for_files(tmp_path)
    if to_group:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    assert process.wait(30) == 128 + number
    assert all(is_gone(int((tmp_path / i).read_text())) for i in "01")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--devices", "two"], "devices is a number, indices such as 0,2, or auto, not 'two'"),
        (["--devices", "0"], "devices is a number"),
        (["--num-nodes", "2"], "MASTER_ADDR is not set"),
        (["--num-nodes", "0"], "num_nodes is 1 or more"),
    ],
)
def test_invalid_devices_are_refused(molattn: Molattn, table: Path, arguments: list[str], says: str) -> None:
    answer = molattn("train", table, *arguments)
    assert (answer.code, says in answer.err) == (2, True), answer.err
