"""One process at a time works on an output or in a folder."""

import os
import resource
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from molattn.data import locks
from molattn.data.files import clear_folder
from molattn.data.locks import (
    LOCK_NAME,
    is_empty_folder,
    lock_folder,
    lock_output,
    raise_open_file_limit,
    wait_for_lock,
)
from molattn.errors import InputError, MolattnWarning, UsageError
from tests.data.windows import use_windows_locks


@pytest.fixture(autouse=True, params=["posix", "windows"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "windows":
        use_windows_locks(monkeypatch)
    return request.param


def test_a_process_without_the_lock_leaves_the_empty_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with lock_folder(folder):
        for _ in range(2):
            with pytest.raises(UsageError, match=r"is using .*give another .*--output-dir$"), lock_folder(folder):
                pass
            assert folder.is_dir()
    assert not folder.exists()


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file.run cannot be created \(.*\): give another$"):
        lock_folder(tmp_path / "file" / "run").__enter__()


def test_a_folder_that_is_not_empty_stays(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "file").touch()
    assert (tmp_path / "a" / "b" / "file").exists()


def test_the_lock_file_stays_while_a_folder_is_emptied(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "run"):
        assert os.listdir(tmp_path / "run") == [LOCK_NAME] and is_empty_folder(tmp_path / "run")
        (tmp_path / "run" / "below").mkdir()
        assert not is_empty_folder(tmp_path / "run")
        clear_folder(tmp_path / "run")
        assert os.listdir(tmp_path / "run") == [LOCK_NAME]
        with pytest.raises(UsageError, match="is using"), lock_folder(tmp_path / "run"):
            pass


def test_the_lock_file_of_a_killed_process_locks_nothing(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).touch()
    (tmp_path / "file").touch()
    with lock_folder(tmp_path):
        pass
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("lock", [lock_folder, lock_output])
def test_a_lock_file_that_its_owner_removes_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock: type[lock_folder]
) -> None:
    """Another process may release the lock between opening and locking its file."""
    real, opened = locks.try_lock, []

    def late(handle: int) -> bool:
        opened.append(handle)
        if len(opened) == 1:
            next(path for path in tmp_path.rglob("*.lock")).unlink()
        return real(handle)

    monkeypatch.setattr(locks, "try_lock", late)
    with lock(tmp_path / "out"):
        assert len(opened) == 2 and len([*tmp_path.rglob("*.lock")]) == 1


def test_work_continues_on_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(_: int) -> bool:
        raise OSError("no locks here")

    monkeypatch.setattr(locks, "try_lock", no_locks)
    with lock_output(tmp_path / "out.csv"), lock_output(tmp_path / "out.csv"), lock_folder(tmp_path / "run"):
        pass
    assert not os.listdir(tmp_path)


def test_a_folder_that_cannot_be_written_to_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(locks.os, "open", refused)
    with (
        pytest.raises(InputError, match=r"run cannot be written to \(Permission denied\)"),
        lock_folder(tmp_path / "run"),
    ):
        pass


def test_a_waiting_process_warns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(locks, "SECONDS_TO_WARNING", 0.01)
    path = tmp_path / "a.lock"
    with wait_for_lock(path, "unused"):
        pass
    assert not recwarn
    handle = os.open(path, os.O_RDWR)
    assert locks.try_lock(handle)
    release = threading.Timer(0.2, os.close, [handle])
    release.start()
    with wait_for_lock(path, "another process is busy"):
        other = os.open(path, os.O_RDWR)
        assert not locks.try_lock(other)
        os.close(other)
    release.join()
    (warning,) = recwarn
    assert warning.category is MolattnWarning and str(warning.message) == "another process is busy"


@pytest.mark.parametrize("what", ["file", "link"])
def test_a_path_that_is_not_a_folder_raises(tmp_path: Path, what: str) -> None:
    path = tmp_path / what
    path.touch() if what == "file" else path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=f"{what} is not a folder"), lock_folder(path):
        pass


def test_an_output_is_locked_once(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    with lock_output(out), pytest.raises(UsageError, match=r"is using .*out\.csv"), lock_output(out):
        pass
    with lock_output(tmp_path / "out.csv"):
        assert os.listdir(tmp_path) == [".out.csv.lock"]
    assert not os.listdir(tmp_path)


def test_more_outputs_than_files_may_be_open(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = len(os.listdir("/proc/self/fd")) + 40
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        raise_open_file_limit(few)
        with ExitStack() as stack:
            for number in range(few):
                stack.enter_context(lock_output(tmp_path / f"{number}.csv"))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
