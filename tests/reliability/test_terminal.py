"""Lines 43, 44 and 46: terminal output, two commands with one output, and closed streams."""

import errno
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from molattn.cli.terminal import printable
from molattn.data.locks import LOCK_NAME
from tests.cli.conftest import QUICK, Molattn
from tests.reliability.score import Score

COMMAND = (sys.executable, "-P", "-m", "molattn")

NASTY = (
    "\x1b[2J\x1b[1;1H",  # clears the screen
    "\x1b]0;title\x07",  # writes the title
    "\x1b]8;;http://x\x1b\\link",
    "\x9b31m",  # the same as ESC [ in one character
    "\x07\x08\r",
    "a\u202eb\u2066",  # turns the line around
    "a\u200bb\ufeff",
    "two\nlines\u2028three",
    "\udcff\udc9b",  # bytes that are no UTF-8
    "[red]x[/red]",
    "[/]",
    "[bold",
    "{0}%s",
    "\U000e0041",
)
"""Texts that a terminal, or what writes to one, obeys."""


def harmless(text: str) -> bool:
    """Whether a terminal shows this as text, without control sequences."""
    return all(c.isprintable() or c in "\n\t" for c in text)


def test_43_names_and_paths_are_printed_as_text(score: Score, molattn: Molattn, run: Path, tmp_path: Path) -> None:
    score.end_to_end(NASTY)
    for number, text in enumerate(NASTY):
        name = text.replace("/", "")
        (tmp_path / f"t{name}.csv").write_text("smiles\nC1CC\n")
        (tmp_path / f"t{number}.csv").write_bytes(
            f'id,"y_pred{text}"\n1,CCO\n'.encode("utf-8", "replace") if "\0" not in text else b""
        )
        for arguments in (
            ("predict", run, "-s", f"C{text}"),
            ("predict", run, "-s", "CCO", f"--{text}"),
            ("predict", run, "-s", "CCO", "--engine", text),
            ("predict", run / text),
            ("predict", run / text, "-s", "C"),
            ("predict", run, tmp_path / f"t{name}.csv", "-o", tmp_path / f"o{name}.csv"),
            ("predict", run, tmp_path / f"t{number}.csv"),
            ("predict", run, tmp_path / f"t{number}.csv", "--smiles-column", text),
            ("train", tmp_path / f"t{number}.csv", "--target-columns", text),
            ("train", "--dataset", text),
            ("datasets", "show", text),
            ("explain", run, "-s", "CCO", "--method", text),
            ("view", run, "-s", f"C{text}", "-o", tmp_path / "x.html"),
        )[:: 1 if score.long else 4]:
            answer = molattn(*arguments)
            details = f"{arguments[0]} with {text!r}"
            score.check(answer.code in (0, 2, 3), f"{details}: {answer.code} {answer.err[:200]}")
            score.check("internal error" not in answer.err, f"{details}: {answer.err[:200]}")
            score.check(harmless(answer.err + answer.out), f"{details}: {(answer.err + answer.out)[:200]!r}")


def test_43_targets_and_units(score: Score, molattn: Molattn, tmp_path: Path) -> None:
    """Training, prediction and drawing of a model with such names; files have the names unchanged."""
    smiles = ["C" * i for i in range(1, 13)]
    target = "[/][red]y\x1b[2J\u202e$\\x$\x07"
    table, run = tmp_path / "t.csv", tmp_path / "run"
    table.write_text(f"smiles,{target}\n" + "".join(f"{s},{i}.5\n" for i, s in enumerate(smiles)))
    answers = [molattn("train", table, "--target-columns", target, *QUICK, "--epochs", "1", "-o", run)]
    answers.append(molattn("predict", run, "-s", "CCO"))
    out = tmp_path / "out.csv"
    answers.append(molattn("predict", run, table, "-o", out))
    answers.append(molattn("evaluate", run, table))
    answers.append(molattn("explain", run, "-s", "CCO"))
    if score.long:
        answers.append(molattn("explain", run, "-s", "CCO", "-o", tmp_path / "x.png"))
        answers.append(molattn("view", run, "-s", "CCO", "-o", tmp_path / "x.html"))
    for answer in answers:
        score.count("commands")
        score.check(answer.code == 0, answer.err)
        score.check(harmless(answer.err + answer.out), repr(answer.err + answer.out)[:200])
    score.check(printable(target) in answers[1].out, answers[1].out)
    score.check(out.read_text().startswith(f"smiles,{target},{target}_pred,"), "the file has its bytes")


def test_43_a_table_on_a_terminal(score: Score, run: Path, tmp_path: Path) -> None:
    """A pipe gets the bytes of a file; a terminal gets the cells with control characters escaped."""
    table = tmp_path / "t.csv"
    table.write_text('smiles,note\nCCO,\x1b[2J\u202e\nC,"two\nlines"\n')
    command = [*COMMAND, "predict", str(run), str(table)]
    piped = subprocess.run(command, capture_output=True, timeout=300)
    score.count("commands", 2)
    score.check("\x1b[2J\u202e".encode() in piped.stdout, piped.stdout)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    with suppress(OSError):  # raised at the end of a terminal
        while data := os.read(ours, 2**16):
            shown += data
    os.close(ours)
    score.check(process.wait(300) == 0, shown)
    wanted = piped.stdout.decode().replace("\x1b[2J\u202e", "\\x1b[2J\\u202e")
    score.check(shown.decode().replace("\r\n", "\n") == wanted, shown)


@contextmanager
def _another(lock: str, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the lock of `path`."""
    code = (
        "import sys, time; from pathlib import Path; from molattn.data import locks\n"
        f"with locks.{lock}(Path(sys.argv[1])): print(flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_44_an_output_that_another_process_writes(score: Score, molattn: Molattn, run: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("smiles\n" + "CCO\n" * 20)
    with _another("lock_output", out) as other:
        for more in ((), ("--resume",), ("--force",), ("--shard", "1/1")):
            answer = molattn("predict", run, source, "-o", out, *more)
            score.count("commands at one thing")
            score.check(answer.code == 2, answer)
            score.check(re.fullmatch(r"error: another process is using .*\n", answer.err), answer.err)
        answer = molattn("predict", run, source, "-o", tmp_path / "other.csv", "--shard", "1/2")
        score.check(answer.code == 0, answer.err)
        other.send_signal(signal.SIGKILL)
        other.wait()
        score.count("kills")
        answer = molattn("predict", run, source, "-o", out)
        score.check(answer.code == 0, answer.err)
    score.check({p.name for p in tmp_path.iterdir()} == {"in.csv", "out.csv", "other.csv"}, [*tmp_path.iterdir()])


def test_44_a_run_that_another_process_trains(
    score: Score, molattn: Molattn, run: Path, table: Path, tmp_path: Path
) -> None:
    open_run = tmp_path / "run"
    shutil.copytree(run, open_run)
    (open_run / "metrics.json").unlink()
    before = {path: path.read_bytes() for path in open_run.rglob("*") if path.is_file()}
    with _another("lock_folder", open_run) as other:
        for command in (("--resume", open_run), (table, *QUICK, "-o", open_run, "--force")):
            answer = molattn("train", *command, "-q")
            score.count("commands at one thing")
            score.check(answer.code == 2, answer)
            errors = [line for line in answer.err.splitlines() if not line.startswith("warning")]
            score.check(len(errors) == 1 and errors[0].startswith("error: another process is using "), answer.err)
        files = {p: p.read_bytes() for p in open_run.rglob("*") if p.is_file() and p.name != LOCK_NAME}
        score.check(before == files, "it is as it was")
        other.kill()
        other.wait()
        score.count("kills")
        answer = molattn("train", table, *QUICK, "--epochs", "1", "-o", open_run, "--force", "-q")
        score.check(answer.code == 0, answer.err)


@pytest.mark.slow
def test_44_processes_with_one_long_table(score: Score, run: Path, tmp_path: Path) -> None:
    """One process completes the table, the others end with an error; also when resumed after a kill."""
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    count = score.times(17_000, 60_000)
    source.write_text("smiles,n\n" + "".join(f"{'C' * (1 + i % 9)},{i}\n" for i in range(count)))
    command = [*COMMAND, "predict", str(run), str(source), "-o", str(out), "-q"]
    if score.long:
        killed = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while not [*tmp_path.glob("out.csv.parts/*.json")] and killed.poll() is None:
            time.sleep(0.05)
        killed.kill()
        killed.wait()
        score.count("kills")
        command.append("--resume")
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(score.times(2, 4))]
    errors = [process.communicate(timeout=600)[1] for process in started]
    codes = sorted(process.returncode for process in started)
    score.count("commands at one thing", len(started))
    score.check(codes == [0, *[2] * (len(started) - 1)], f"{codes} {errors}")
    score.check(all(re.fullmatch(r"(error: [^\n]*\n)?", text) for text in errors), errors)
    rows = [line.split(",")[1] for line in out.read_text().splitlines()[1:]]
    score.rows(rows, [*map(str, range(count))], given=range(count))
    score.check({path.name for path in tmp_path.iterdir()} == {"in.csv", "out.csv"}, [*tmp_path.iterdir()])


SHELL = (
    ("{m} predict {run} -s CCO >/dev/full", 3, "the disk is full"),
    ("{m} predict {run} -s CCO >&-", 3, "standard output cannot be written to"),
    ("{m} predict {run} - <&-", 3, "standard input"),
    ("{m} predict {run} {table} -o {out} 2>&-", 0, ""),
    ("{m} predict {run} {table} -o {out} >&-", 0, ""),
    ("{m} predict {run} {table} -o {out} <&- >&- 2>&-", 0, ""),
    ("{m} predict {run} {long} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}", 0, ""),
    ("PYTHONIOENCODING=ascii {m} predict {run} {table} >/dev/null", 0, ""),
    ("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {m} datasets show esol >/dev/null", 0, ""),
    ("{m} presets | true; exit ${{PIPESTATUS[0]}}", 0, ""),
    ("{m} datasets list >/dev/full", 3, "the disk is full"),
    ("{m} datasets list >&-", 3, "standard output cannot be written to"),
    ("{m} doctor | true; exit ${{PIPESTATUS[0]}}", 0, ""),
    ("{m} --help >/dev/full", 3, "the disk is full"),
    ("{m} --version >/dev/full", 3, "the disk is full"),
    ("{m} explain {run} -s CCO >/dev/full", 3, "the disk is full"),
    ("{m} view {run} -s CCO -o {out}.html <&- >&-", 0, ""),
    ("{m} evaluate {run} {table} >/dev/full", 3, ""),
    ("{m} train {table} --target-columns n {quick} -o {out}.run >/dev/full", 3, "the disk is full"),
    ("{m} train {table} --target-columns n {quick} -o {out}.run -q <&- >&- 2>&-", 0, ""),
)


def test_46_streams_that_are_closed_or_full(score: Score, run: Path, tmp_path: Path) -> None:
    table, long = tmp_path / "in.csv", tmp_path / "long.csv"
    table.write_text("smiles,n,y,\u20ac\n" + "".join(f"{'C' * i},{i}.5,{i}.5,\xfc\n" for i in range(1, 13)))
    long.write_text("smiles\n" + "CCO\n" * 20_000)
    for number, (text, code, message) in enumerate(SHELL):
        if not score.long and number not in (0, 5, 11):
            continue
        out = tmp_path / f"out{number}.csv"
        made_of = {"m": f"{sys.executable} -P -m molattn", "run": run, "table": table, "long": long, "out": out}
        command = text.format(**made_of, quick=f"{' '.join(QUICK)} --epochs 1")
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=300)
        score.count("commands")
        score.check(done.returncode == code, f"{text}: {done.returncode}, {done.stderr[-200:]}")
        found = done.stderr.rstrip("\n").split("\n")[-1]
        score.check(message in found, f"{text}: {done.stderr[-200:]}")
        for fault in ("Traceback", "internal error", "Exception ignored"):
            score.check(fault not in done.stderr, f"{text}: {done.stderr[-300:]}")
        if "{out} " in text:
            score.check(out.is_file() and len(out.read_text().splitlines()) == 13, f"{text}: no output")


def test_46_names_of_files(
    score: Score, molattn: Molattn, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that are too long, not UTF-8, of a folder, in a missing folder or in one that is not writable."""
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "in.csv"
    source.write_text("smiles,n\nCCO,1\nC,2\n")
    long = "x" * 251 + ".csv"
    for output, codes in (
        (long, (0,)),
        ("\u20ac" * 83 + "yy.csv", (0,)),
        ("x" + long, (2, 3)),
        ("\udcff\udcfe.csv", (0,)),
        (".", (2, 3)),
        ("none/out.csv", (3,)),
        ("in.csv/out.csv", (3,)),
        ("/dev/full", (2, 3)),
        ("/proc/out.csv", (3,)),
        ("in.csv", (2,)),
        (f"{long}/{long}", (2, 3)),
    ):
        answer = molattn("predict", run, source, "-o", output)
        score.end_to_end([f"output {output}"])
        details = f"{output!r}: {answer.code} {answer.err}"
        if score.check(answer.code in codes, details) and answer.code:
            score.check(re.fullmatch(r"error: [^\n]*\n", answer.err), details)
        elif not answer.code:
            score.rows([line.split(",")[0] for line in Path(output).read_text().splitlines()[1:]], ["CCO", "C"])
            os.unlink(output)
    score.check({path.name for path in tmp_path.iterdir()} == {"in.csv"}, [*tmp_path.iterdir()])
    odd = tmp_path / "\udcff.csv"
    source.rename(odd)
    for arguments in (
        ("predict", run, odd, "-o", "out.csv"),
        ("predict", run, "-s", "C\udcff"),
        ("view", run, odd, "-o", "page.html"),
        ("evaluate", run, odd),
        ("train", odd, "--target-columns", "n", "-o", "run"),
        ("explain", run, "-s", "CCO", "-o", "\udcff.svg"),
    )[: 6 if score.long else 2]:
        answer = molattn(*arguments)
        score.end_to_end([f"{arguments[0]} of a name or text that is no UTF-8"])
        score.check(answer.code in (0, 2, 3), f"{arguments}: {answer}")
        score.check("internal" not in answer.err and harmless(answer.err), f"{arguments}: {answer.err}")


def test_46_a_folder_without_the_right_to_write(
    score: Score, molattn: Molattn, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in.csv"
    source.write_text("smiles\nCCO\n")
    whole = os.open

    def refusing(path: object, flags: int, *more: object, **options: object) -> int:
        # Root may write anywhere: the error of the system is simulated.
        if flags & os.O_CREAT and str(path).startswith(str(tmp_path)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return whole(path, flags, *more, **options)  # pyright: ignore[reportArgumentType, reportCallIssue]

    monkeypatch.setattr(os, "open", refusing)
    answer = molattn("predict", run, source, "-o", tmp_path / "out.csv")
    score.count("commands")
    score.check(answer.code == 3, answer)
    score.check(
        re.fullmatch(r"error: .*out.csv cannot be written: Read-only file system: .*\n", answer.err), answer.err
    )
