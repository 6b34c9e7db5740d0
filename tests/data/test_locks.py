"""One process at a time works on an output or in a folder."""

import os
import resource
from contextlib import ExitStack
from pathlib import Path

import pytest

from molattn.data.files import lock_folder, lock_output, raise_open_file_limit
from molattn.errors import UsageError


def test_a_process_without_the_lock_leaves_the_empty_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with lock_folder(folder):
        for _ in range(2):
            with pytest.raises(UsageError, match="another process is using"), lock_folder(folder):
                pass
            assert folder.is_dir()
    assert not folder.exists()


def test_a_folder_that_is_not_empty_stays(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "a" / "b"):
        (tmp_path / "a" / "b" / "file").touch()
    assert (tmp_path / "a" / "b" / "file").exists()


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
