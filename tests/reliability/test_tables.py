"""Lines 39 and 47: tables that hang or fill the memory, and a thousand hostile tables end to end."""

import csv
import gzip
import io
import resource
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from molattn import Predictor
from molattn.errors import InputError, UsageError
from tests.cli.conftest import Answer, Molattn
from tests.reliability.score import Score
from tests.reliability.tables import BOMBS, REFUSED, RIGHT, SDFS, Hostile, bomb_of, hostile, sdf_of

SECONDS, BYTES = 5.0, 2**30
"""What a hostile table may take."""


def test_39_the_head_of_a_large_table(score: Score, molattn: Molattn, run: Path, tmp_path: Path) -> None:
    rows = score.times(80_000, 400_000)
    text, names = "1,CCO\n" * rows, ",".join(map(str, range(1_000_000)))
    heads = {
        "open quote.csv": (f'"id,smiles\n{text}', "line 1: the quotes do not match"),
        "open quote behind.csv": (f'id,"smiles\n{text}', "line 1: the quotes do not match"),
        "stray quote.csv": (f'id,sm"ile\n{text}', "named smiles"),
        "open quote in a row.csv": (f'id,smiles\n1,"CCO\n{text}', "line 2: the quotes do not match"),
        "blank lines.csv": ("\n" * 40_000 * score.times(1, 100), "the file is empty"),
        "blank lines.smi": ("\r\n" * 40_000 * score.times(1, 100), "the file is empty"),
        "wide.csv": (f"{names}\n", "named smiles"),
        "one line.csv": ("smiles\n" + "C" * 50_000_000, "line 2: a line of over"),
        "NULs.csv": ("\0" * 1_000_000, "NUL in column 1"),
        "brackets.sdf": (">" + "<" * 1_000_000 + "\n" * 10, "record 1"),
    }
    for name, (content, message) in heads.items():
        path = tmp_path / name
        path.write_bytes(content.encode())
        answer, seconds = _timed(molattn, "predict", run, path, "-o", tmp_path / "out.csv")
        score.end_to_end([content])
        score.slowest("slowest head, seconds", seconds)
        if name != "brackets.sdf":
            _refused(score, answer, name)
            score.check(message in answer.err, f"{name}: {answer.err[:100]}")
        score.check(seconds < SECONDS, f"{name}: {seconds:.1f} s")
        (tmp_path / "out.csv").unlink(missing_ok=True)


def test_39_a_large_table_behind_blank_lines(score: Score, molattn: Molattn, run: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    count = score.times(50, 20_000)
    source.write_bytes(b"\r" * 40_000 + b"id,smiles\r" + b"".join(b"%d,CCO\r" % i for i in range(count)))
    answer = molattn("predict", run, source, "-o", out)
    if score.check(answer.code == 0, answer.err):
        found = [line.split(",")[:2] for line in out.read_text().splitlines()[1:]]
        wanted = [[str(i), "CCO"] for i in range(count)]
        score.rows(found, wanted, given=wanted)


def test_47_hostile_tables(
    score: Score, molattn: Molattn, run: Path, predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The model is loaded once. The function `predict` hides the module of that name, hence sys.modules.
    monkeypatch.setattr(sys.modules["molattn.cli.predict"], "load_engine", lambda *_: predictor)
    wanted, tried = score.times(24, 1000), set[bytes]()
    for number in range(10 * wanted):
        table = hostile(number)
        if (key := table.name.encode() + table.data) in tried:
            continue
        if len(tried) == wanted:
            break
        tried.add(key)
        folder = tmp_path / str(number)
        folder.mkdir()
        source, out = folder / table.name, folder / "out.csv"
        source.write_bytes(table.data)
        answer, seconds = _timed(molattn, "predict", run, source, "-o", out)
        details = f"table {number}, {table.way}"
        score.end_to_end([key])
        score.count(f"tables that are {table.must}" if table.must == RIGHT else "tables that are broken")
        score.slowest("slowest table, seconds", seconds)
        score.check(seconds < SECONDS, f"{details}: {seconds:.1f} s")
        if answer.code == 0 and score.check(table.must != REFUSED, f"{details}: accepted"):
            _answered(score, table, out, details)
        elif answer.code != 0:
            score.check(table.must != RIGHT, f"{details}: {answer.err[:200]}")
            _refused(score, answer, details)
            score.check(not out.exists(), f"{details}: an output")
        left = {path.name for path in folder.iterdir()} - {table.name, "out.csv"}
        score.check(not left, f"{details}: {left} left behind")
        for path in folder.iterdir():
            path.unlink()


_MEASURED = """
import os, sys
process = os.fork()
if not process:
    os.execv(sys.executable, [sys.executable, "-P", "-m", "molattn", *sys.argv[1:]])
_, status, used = os.wait4(process, 0)
print("used", used.ru_maxrss, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_47_memory_is_bounded(score: Score, run: Path, tmp_path: Path) -> None:
    """In separate processes, whose memory the system measures: each of the worst cases once."""

    def predict(source: Path, out: Path) -> tuple[subprocess.CompletedProcess[str], str, int]:
        command = [sys.executable, "-c", _MEASURED, "predict", str(run), str(source), "-o", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        details, _, used = done.stderr.rpartition("used ")
        return done, details, int(used)

    # A torch that was built for CUDA uses this much memory alone.
    (tmp_path / "ordinary.csv").write_text("smiles\nCCO\n")
    _, _, ordinary = predict(tmp_path / "ordinary.csv", tmp_path / "ordinary-out.csv")
    allowed = max(BYTES, 1024 * ordinary + BYTES // 2)
    worst = [*map(bomb_of, BOMBS), *map(sdf_of, SDFS)]
    for number, table in enumerate(worst if score.long else worst[:1]):
        source, out = tmp_path / f"{number}-{table.name}", tmp_path / f"{number}-out.csv"
        source.write_bytes(table.data)
        done, details, used = predict(source, out)
        score.end_to_end([table.name.encode() + table.data])
        score.slowest("most memory, MiB", used / 1024)
        score.check(
            used * 1024 < allowed, f"{table.way}: {used / 1024:.0f} MiB, and an ordinary table {ordinary / 1024:.0f}"
        )
        if table.must == RIGHT:
            score.check(done.returncode == 0, f"{table.way}: {details}")
            _answered(score, table, out, table.way)
        else:
            _refused(score, Answer(done.returncode, done.stdout, details), table.way)


def test_47_a_wide_row_and_a_long_record(score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every reader, that of whole tables included, raises an error for rows that would fill the memory."""
    from molattn.data.tables import row_stream, table
    from molattn.data.tables.readers import count_rows

    monkeypatch.setattr(row_stream, "MAX_CHUNK_BYTES", 2**20)
    for name, data in (
        ("t.csv", "smiles,x\n" + f"C,{'y' * 50_000}\n" * 30),
        ("t.smi", f"C {'y' * 50_000}\n" * 30),
        ("t.sdf", "".join(f"\n\n\n  0  0  0\nM  END\n> <x>\n{'y' * 50_000}\n\n$$$$\n" for _ in range(30))),
    ):
        (tmp_path / name).write_text(data)
        score.count("tables that a reader refuses")
        for read in (table.read_table, count_rows) if name != "t.sdf" else (table.read_table,):
            with pytest.raises((InputError, UsageError), match="hold over 1 MiB"):
                read(tmp_path / name)


def test_47_training_tables_do_not_fill_the_memory(
    score: Score, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training table is in memory as a whole: one that unpacks to far more than its size is refused."""
    from molattn.data.tables import table

    monkeypatch.setattr(table, "MIN_TABLE_MEMORY", 2**20)
    data = b"smiles,y\n" + b"CC,10\n" * 50_000
    (tmp_path / "t.csv").write_bytes(data)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(data))
    columns = {"smiles": ["CC"] * 50_000, "y": [10] * 50_000}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    assert len(table.read_table(tmp_path / "t.csv").rows) == 50_000
    for name in ("t.csv.gz", "t.parquet"):
        score.count("tables that a reader refuses")
        with pytest.raises(InputError, match=f"{name} unpacks to over [0-9]+ MiB of rows, far more than its size"):
            table.read_table(tmp_path / name)
    monkeypatch.setattr(table, "MIN_TABLE_MEMORY", 2**29)
    for name in ("t.csv.gz", "t.parquet"):
        assert len(table.read_table(tmp_path / name).rows) == 50_000


def _timed(molattn: Molattn, *arguments: object) -> tuple[Answer, float]:
    """The output of a command, and its CPU time in seconds, child processes included."""
    start = _used()
    answer = molattn(*arguments)
    return answer, _used() - start


def _used() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


def _refused(score: Score, answer: Answer, details: str) -> None:
    """One sentence, with the exit code of invalid data, or of a missing option."""
    lines = [line for line in answer.err.strip().split("\n") if not line.startswith("warning: ")]
    score.check(answer.code in (2, 3), f"{details}: code {answer.code}, {answer.err[:200]}")
    score.check(len(lines) == 1 and lines[0].startswith("error: "), f"{details}: {answer.err[:200]}")
    score.check(lines[0].isprintable() and len(lines[0]) < 5000, f"{details}: {lines[0][:200]!r}")


def _answered(score: Score, table: Hostile, out: Path, details: str) -> None:
    """Every row is in the output, ok or with a reason; for a valid table they are its rows."""
    with open(out, newline="", encoding="utf-8") as file:
        text = file.read()
    heads = {d: next(csv.reader(io.StringIO(text, newline=""), delimiter=d)) for d in ",;"}
    delimiter = next((d for d, names in heads.items() if names[-1].startswith("error")), "")
    if not score.check(bool(delimiter), f"{details}: no last column error"):
        return
    head, *rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    score.check(table.must != RIGHT or delimiter == table.delimiter, f"{details}: delimiter {delimiter}")
    score.check(all(len(row) == len(head) for row in rows), f"{details}: ragged")
    status, error = head.index(next(n for n in head[::-1] if n.startswith("status"))), len(head) - 1
    explained = all(row[status] == ("error" if row[error] else "ok") for row in rows)
    score.check(explained, f"{details}: a row without a status or reason")
    if table.must != RIGHT:
        return
    score.check(tuple(head[: len(table.columns)]) == table.columns, f"{details}: columns {head[:5]}")
    shown = [
        tuple(None if known is None else cell for cell, known in zip(row, wanted, strict=False))
        for row, wanted in zip(rows, table.rows, strict=False)
    ]
    score.rows(shown + [()] * (len(rows) - len(shown)), table.rows, details, given=table.rows)
    score.check([row[status] for row in rows] == [*table.status], f"{details}: another status")
