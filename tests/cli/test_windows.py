"""What differs on Windows, simulated: no SIGKILL, no terminal of POSIX, other quotes, files that are opened once."""

import io
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from molattn.cli import launch as launching
from molattn.cli import terminal, train_report
from molattn.cli.launch import launch
from molattn.data.tables import arrow, readers
from molattn.data.tables.lines import open_input
from molattn.errors import InputError
from molattn.inference import table_job


def test_an_error_of_a_launched_process_is_shown_without_sigkill(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(signal, "SIGKILL")
    monkeypatch.setattr(launching, "GRACE_PERIOD", 0.3)
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)
    program = "import os, sys\nif os.environ['RANK'] == '1':\n  sys.exit('the second fails')\n"
    monkeypatch.setattr(launching, "COMMAND", (sys.executable, "-c", program))
    assert launch((), 2, 1) == 1
    assert "the second fails" in capsys.readouterr().err


def test_a_console_of_windows_interrupts_all_processes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    # There, no signal but SIGTERM can be sent to a process, and there is no SIGTSTP.
    program = f"import os, signal, time; os.kill({os.getpid()}, signal.SIGINT); time.sleep(0.5)"
    monkeypatch.setattr(launching, "COMMAND", (sys.executable, "-c", program))
    monkeypatch.setattr(launching.sys, "platform", "win32")
    monkeypatch.delattr(signal, "SIGTSTP")
    sent: list[int] = []
    monkeypatch.setattr("subprocess.Popen.send_signal", lambda _, number: sent.append(number))
    assert launch((), 2, 1) == 128 + signal.SIGINT
    assert signal.SIGINT not in sent


def test_a_launched_process_waits_for_the_handle_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []

    def open_process(*arguments: object) -> int:
        calls.append(arguments)
        if arguments[-1] == 13:
            raise OSError("no such process")
        return 7

    winapi = SimpleNamespace(INFINITE=-1, OpenProcess=open_process, WaitForSingleObject=lambda *a: calls.append(a))
    monkeypatch.setitem(sys.modules, "_winapi", winapi)  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr(launching.sys, "platform", "win32")
    launching._wait_for_end(12)
    assert calls == [(0x100000, False, 12), (7, -1)]
    launching._wait_for_end(13)
    assert calls[2:] == [(0x100000, False, 13)]


@pytest.mark.parametrize(
    ("platform", "text", "quoted"),
    [
        ("linux", "runs/my esol", "'runs/my esol'"),
        ("linux", "runs/esol", "runs/esol"),
        ("win32", r"runs\my esol", r'"runs\my esol"'),
        ("win32", r"C:\runs\esol", r"C:\runs\esol"),
    ],
)
def test_arguments_are_quoted_for_the_shell_of_the_system(
    monkeypatch: pytest.MonkeyPatch, platform: str, text: str, quoted: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert terminal.quote_argument(text) == quoted


def test_the_program_on_the_path_may_have_the_suffix_exe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "molattn")])
    monkeypatch.setattr(train_report.shutil, "which", lambda _: str(tmp_path / "molattn.EXE"))
    assert train_report._program() == "molattn"
    monkeypatch.setattr(train_report.shutil, "which", lambda _: None)
    assert train_report._program() == str(tmp_path / "molattn")


def test_a_folder_in_place_of_a_file_is_named_whatever_error_it_gives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    for opener in (open, refuse):
        monkeypatch.setattr("builtins.open", opener)
        with pytest.raises(InputError, match="is a folder; give a file in it$"), open_input(tmp_path):
            pass
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(InputError, match="cannot be read: Permission denied$"), open_input(tmp_path / "x.csv"):
        pass


def test_a_copy_of_a_compressed_table_is_closed_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"rows")))
    with ExitStack() as stack:
        copy = Path(readers._on_disk(stack, "-", "standard input", None))
        assert copy.read_bytes() == b"rows"
        copy.rename(copy)  # what Windows refuses for an open file
        if Path("/proc/self/fd").is_dir():
            opened = {os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")}
            assert str(copy.resolve()) not in opened
    assert not copy.parent.exists()


def test_a_folder_for_predictions_may_end_with_the_separator_of_the_system(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    table = tmp_path / "in.csv"
    job = table_job.TableJob(table_job.InputTable(table), None)
    monkeypatch.setattr(table_job, "create_output_folder", lambda folder, tables: [folder / t.name for t in tables])
    assert table_job.jobs_for_tables(job, [table], "new\\") == [job], "a file, where that is a letter"
    monkeypatch.setattr(table_job, "os", SimpleNamespace(sep="\\"))
    (found,) = table_job.jobs_for_tables(job, [table], "new\\")
    assert found.output == Path("new\\") / "in.csv"


def test_a_crash_of_the_parquet_reader_is_reported_for_any_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    for code in (-11, 0xC0000005):
        ended = SimpleNamespace(stdout=b"", stderr=b"", returncode=code)
        monkeypatch.setattr(subprocess, "run", lambda *_, answer=ended, **__: answer)
        assert arrow._run_check("x.parquet", 1) == {"rows": 0, "error": "the process that read it crashed"}
