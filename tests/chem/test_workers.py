"""Rows processed by workers: in order, each with its result or error, even if workers die."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from molattn.chem.workers import WORKER_DIED, _Pool, map_chunks
from molattn.errors import InputError, SmilesError, UsageError

ROOT = Path(__file__).parents[2]


RAISED: dict[str, BaseException] = {
    "runtime": RuntimeError("C++ exception\nof unknown type"),
    "overflow": OverflowError("bad numeric conversion"),
    "type": TypeError("no such signature"),
    "index": IndexError("Atom index out of range"),
    "input": InputError("the molecule has 2,000 atoms"),
    "memory": MemoryError(),
    "import": ImportError("no such library"),
    "usage": UsageError("no such setting"),
    "stop": KeyboardInterrupt(),
}


def length(row: object) -> int:
    """A function that some rows make die: "die" always, "once PATH" only the first time."""
    text = str(row)
    if text == "bad":
        raise SmilesError(row, "it is bad")
    if text in RAISED:
        raise RAISED[text]
    if text == "die":
        os._exit(9)
    if text.startswith("once ") and not Path(text[5:]).exists():
        Path(text[5:]).write_text("")
        os._exit(9)
    return len(text)


def results_of(rows: list[object], num_workers: int, chunk_size: int = 4) -> list[object]:
    returned: list[object] = []
    results: list[object] = []
    for chunk, part in map_chunks(rows, length, num_workers, chunk_size):
        returned += chunk
        results += [r.reason if isinstance(r, SmilesError) else r for r in part]
    assert returned == rows
    return results


def sleep(rows: list[object]) -> list[object]:
    """Write a file, and sleep for longer than a test may take."""
    Path(str(rows[0])).write_text("")
    time.sleep(3600)
    return rows


def test_a_pool_can_end_processes_that_are_busy(tmp_path: Path) -> None:
    # As a process does that is started while the executor terminates the others: it is not terminated.
    pool = _Pool(1, sleep)
    pool.submit([tmp_path / "started"])
    while not (tmp_path / "started").exists():
        time.sleep(0.1)
    pool.stop(kill=True)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_order_is_kept_and_errors_have_their_row(num_workers: int) -> None:
    rows: list[object] = ["x" * (i % 7) for i in range(50)]
    rows[20] = "bad"
    rows[30] = SmilesError("y", "it was bad before")
    wanted: list[object] = [i % 7 for i in range(50)]
    wanted[20], wanted[30] = "it is bad", "it was bad before"
    assert results_of(rows, num_workers) == wanted


@pytest.mark.parametrize("num_workers", [0, 2])
def test_an_exception_becomes_the_error_of_its_row(num_workers: int) -> None:
    found = results_of(
        ["a", "runtime", "bb", "overflow", "type", "index", "ccc", "input", "dddd"], num_workers, chunk_size=3
    )
    assert found == [
        1,
        r"reading it fails with an unexpected error (RuntimeError: 'C++ exception\nof unknown type')",
        2,
        "reading it fails with an unexpected error (OverflowError: 'bad numeric conversion')",
        "reading it fails with an unexpected error (TypeError: 'no such signature')",
        "reading it fails with an unexpected error (IndexError: 'Atom index out of range')",
        3,
        "the molecule has 2,000 atoms",
        4,
    ]


@pytest.mark.parametrize("name", ["memory", "import", "usage", "stop"])
def test_errors_about_all_rows_are_raised(name: str) -> None:
    with pytest.raises(type(RAISED[name])):
        results_of(["a", name, "bb"], 0)


def test_rows_are_read_only_a_little_ahead() -> None:
    taken = 0

    def rows():
        nonlocal taken
        while taken < 10_000:
            taken += 1
            yield "C"

    parts = map_chunks(rows(), length, 1, chunk_size=10)
    next(parts)
    assert taken <= 50
    parts.close()


def test_only_the_row_that_kills_its_worker_gets_an_error(tmp_path: Path) -> None:
    rows: list[object] = ["x" * (i % 7) for i in range(40)]
    rows[13] = "die"
    rows[25] = f"once {tmp_path / 'there'}"
    found = results_of(rows, 2)
    assert found[13] == WORKER_DIED
    assert found[25] == len(str(rows[25]))
    rest = [i for i in range(40) if i not in (13, 25)]
    assert [found[i] for i in rest] == [i % 7 for i in rest]


def test_workers_that_cannot_start_are_explained(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from molattn.chem.workers import map_chunks\n"
        "from molattn.errors import UsageError\n"
        "try:\n"
        "    list(map_chunks(['C'], len, 1))\n"
        "except UsageError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert '`if __name__ == "__main__":`' in done.stdout


def test_workers_end_with_the_process_that_started_them() -> None:
    code = (
        "from molattn.chem.workers import map_chunks\n"
        "parts = map_chunks((i for i in range(10**9)), abs, 1, 1)\n"
        "next(parts)\n"
        "import multiprocessing\n"
        "print(*[p.pid for p in multiprocessing.active_children()], flush=True)\n"
        "import time; time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    assert children
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    for _ in range(100):
        if not any(_alive(pid) for pid in children):
            return
        time.sleep(0.1)
    raise AssertionError("a worker outlived its parent")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[-1].split()[0] != "Z"
    except OSError:
        return False


def test_a_function_that_cannot_be_pickled_is_explained() -> None:
    with pytest.raises(UsageError, match=r"need a function that can be pickled \(.*\): define it at the top level"):
        list(map_chunks(["C"], lambda row: row, 1))
    assert list(map_chunks(["C"], lambda row: row, 0)) == [(["C"], ["C"])]
