"""Files that are written whole or not at all, and what is left of those that were killed."""

import os
import signal
from pathlib import Path

import pytest

from molattn.data.files import atomic, remove_leftovers, write_text


def killed_while_writing(path: Path) -> None:
    """A process that has written half."""
    child = os.fork()
    if child == 0:
        with atomic(path) as file:
            file.write(b"half")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status)


def test_what_a_killed_process_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "a[1].csv"
    write_text(path, "old")
    for _ in range(3):
        killed_while_writing(path)
    assert path.read_text() == "old"
    left = list(tmp_path.glob(".*.tmp"))
    assert len(left) == 1  # each cleaned up after the one before
    others = [tmp_path / ".b.csv.0123abcd.tmp", tmp_path / ".a[1].csv.mine.tmp", tmp_path / ".xa[1].csv.0123abcd.tmp"]
    for other in others:
        other.touch()
    write_text(path, "new")
    assert sorted(tmp_path.iterdir()) == sorted([path, *others])
    assert path.read_text() == "new"
    remove_leftovers(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([path, others[1]])


def test_who_still_writes_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with atomic(path) as first:
        first.write(b"first")
        with atomic(path) as second:
            second.write(b"second")
        assert path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_without_locks_nothing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / ".a.csv.0123abcd.tmp"
    left.touch()
    monkeypatch.setattr("molattn.data.files.fcntl", None)
    write_text(tmp_path / "a.csv", "new")
    assert left.exists()
    assert (tmp_path / "a.csv").read_text() == "new"
