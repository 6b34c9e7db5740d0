"""`molattn predict` of long tables: parts, resumes, shards, pipes and formats have the same bytes."""

import csv
import errno
import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import molattn as library
from molattn.cli import table_report
from molattn.cli.main import main
from molattn.cli.table_report import TableProgress
from molattn.data.schema import dumps_checksummed
from molattn.data.tables.parts import Parts, parts_folder
from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.inference import output_parts
from tests.assertions import assert_same_predictions
from tests.cli.conftest import QUICK, Molattn

ROOT = Path(__file__).parents[2]
ROWS = 2 * CHUNK_SIZE + 10
DIM = 16  # the width of `QUICK`
BAD = -(-ROWS // 97)


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_parts, "CHUNKS_PER_PART", 1)


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run without RDKit's descriptors, which would take most of the time of these predictions."""
    folder = tmp_path_factory.mktemp("runs") / "plain"
    arguments = ["train", table, *QUICK, "--set", "data.molecule_featurizers=[]", "-o", folder, "--quiet"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["molattn", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
    assert stop.value.code == 0
    return folder


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of three chunks, bad rows among them."""
    path = tmp_path_factory.mktemp("many") / "in.csv"
    cells = [("C" * (i % 5) + "NOF"[i % 3]) if i % 97 else "C1CC" for i in range(ROWS)]
    path.write_text("\n".join(["id,smiles", *(f"{i},{s}" for i, s in enumerate(cells))]) + "\n")
    return path


@pytest.fixture(scope="module")
def whole(many: Path, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of an uninterrupted run."""
    path = tmp_path_factory.mktemp("whole") / "out.csv"
    code = "from molattn.cli.main import main; main()"
    command = [sys.executable, "-c", code, "predict", run, many, "-o", path, "-q"]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    return path


class Killed(BaseException):
    """A stand-in for a signal."""


def kill_after(monkeypatch: pytest.MonkeyPatch, count: int, stop: type[BaseException] = Killed) -> None:
    """End the program when `count` parts are finished."""
    real = Parts.finish

    def finish(self: Parts, number: int, record: dict) -> None:
        real(self, number, record)
        if len(self.finished) == count:
            raise stop

    monkeypatch.setattr(Parts, "finish", finish)


def begin(molattn: Molattn, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    """Run until one part is finished."""
    with monkeypatch.context() as patch:
        kill_after(patch, 1)
        with pytest.raises(Killed):
            molattn("predict", *arguments)


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_output_is_the_same_to_the_byte(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, many: Path, whole: Path, tmp_path: Path, workers: int
) -> None:
    out = tmp_path / "out.csv"
    begin(molattn, monkeypatch, run, many, "-o", out, "-n", workers)
    assert not out.exists()
    parts = parts_folder(out)
    assert sorted(p.name for p in parts.iterdir()) == ["000000.csv", "000000.json", "manifest.json"]
    refused = molattn("predict", run, many, "-o", out)
    assert refused.code == 2 and "--resume (resume=True) continues, --force (force=True) starts over" in refused.err
    if workers:
        (parts / "000000.csv").write_text("damaged")
    read: list[int] = []
    real = library.Predictor.predict_rows

    def rows(self: library.Predictor, smiles: Iterable[object], *rest: Any, **options: Any) -> Generator:
        return real(self, (read.append(1) or s for s in smiles), *rest, **options)

    monkeypatch.setattr(library.Predictor, "predict_rows", rows)
    again = molattn("predict", run, many, "-o", out, "--resume")
    assert again.code == 0, again.err
    assert out.read_bytes() == whole.read_bytes()
    assert f"{ROWS - BAD} of {ROWS} rows predicted" in again.err
    assert len(read) == (ROWS if workers else ROWS - CHUNK_SIZE)
    assert "the first, line 2:" in again.err
    assert not parts.exists()
    finished = molattn("predict", run, many, "-o", out, "--resume")
    assert (
        finished.code == 2 and f"{out} exists and has no unfinished parts: there is nothing to resume" in finished.err
    )
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("name", ["out.tsv.gz", "out.parquet"])
def test_parts_of_other_formats_are_joined(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, many: Path, whole: Path, tmp_path: Path, name: str
) -> None:
    begin(molattn, monkeypatch, run, many, "-o", tmp_path / name)
    assert molattn("predict", run, many, "-o", tmp_path / name, "--resume").code == 0
    once = tmp_path / f"once-{name}"
    assert molattn("predict", run, many, "-o", once).code == 0
    assert (tmp_path / name).read_bytes() == once.read_bytes()
    wanted = list(csv.reader(io.StringIO(whole.read_text())))
    if name.endswith(".gz"):
        text = gzip.decompress(once.read_bytes()).decode()
        assert list(csv.reader(io.StringIO(text), delimiter="\t")) == wanted
        return
    table = pq.read_table(once)
    assert table.column_names == wanted[0]
    assert table["smiles"].to_pylist() == [row[1] for row in wanted[1:]]
    found = ["" if v is None else f"{v:.7g}" for v in table["y_pred"].to_pylist()]
    assert found == [row[2] for row in wanted[1:]]


@pytest.mark.usefixtures("short_parts")
def test_parts_of_another_input_or_model_are_refused(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, many: Path, whole: Path, tmp_path: Path
) -> None:
    out, table, model = tmp_path / "out.csv", tmp_path / "in.csv", tmp_path / "run"
    shutil.copy(many, table)
    shutil.copytree(run, model)
    begin(molattn, monkeypatch, model, table, "-o", out)
    text = table.read_text()
    table.write_text(text.replace("C1CC", "C1CN"))
    changed = molattn("predict", model, table, "-o", out, "--resume")
    assert changed.code == 3 and "input_sha256 was" in changed.err
    table.write_text(text)
    config = model / "model" / "config.json"
    config.write_bytes(dumps_checksummed({**json.loads(config.read_text()), "molattn": "0.0"}, config.name))
    changed = molattn("predict", model, table, "-o", out, "--resume")
    assert changed.code == 3 and "config_sha256 was" in changed.err
    assert molattn("predict", model, table, "-o", out, "--force").code == 0
    assert out.read_bytes() == whole.read_bytes()
    assert not parts_folder(out).exists()


def test_shards_joined_are_the_whole(molattn: Molattn, run: Path, many: Path, whole: Path, tmp_path: Path) -> None:
    joined: list[str] = []
    for i in (1, 2, 3):
        assert molattn("predict", run, many, "-o", tmp_path / f"{i}.csv", "--shard", f"{i}/3").code == 0
        lines = (tmp_path / f"{i}.csv").read_text().splitlines(keepends=True)
        joined += lines if i == 1 else lines[1:]
    assert "".join(joined) == whole.read_text()


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "a/b", "-1/2", "1/0"])
def test_invalid_shards_are_refused(molattn: Molattn, run: Path, many: Path, shard: str) -> None:
    answer = molattn("predict", run, many, f"--shard={shard}")
    assert answer.code == 2 and "i/n" in answer.err


def test_standard_input_is_read_and_printed(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, many: Path, whole: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(many.read_bytes())))
    assert molattn("predict", run, "-").out == whole.read_text()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(many.read_bytes() + b"1\n")))
    answer = molattn("predict", run, "-", "-o", tmp_path / "out.csv")
    assert answer.code == 3 and f"standard input, line {ROWS + 2}: 1 fields" in answer.err
    assert not list(tmp_path.iterdir())
    for option in ("--resume", "--shard=1/2"):
        answer = molattn("predict", run, "-", "-o", tmp_path / "out.csv", option)
        assert answer.code == 2 and "instead of a pipe" in answer.err


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("command", ["predict", "embed"])
def test_a_stop_from_the_keyboard_says_how_to_continue(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, many: Path, tmp_path: Path, command: str
) -> None:
    out = tmp_path / "out.csv"
    with monkeypatch.context() as patch:
        kill_after(patch, 1, KeyboardInterrupt)
        answer = molattn(command, run, many, "-o", out)
    hint = f"{out}.parts holds finished parts of {out}: the same command with --resume continues\n"
    assert answer.code == 130 and answer.err.endswith(hint)
    assert molattn(command, run, many, "-o", out, "--resume").code == 0


@pytest.mark.parametrize(
    ("output", "code", "says"),
    [
        ("out.foo", 2, "out.foo: use the suffix .csv, .tsv or .sdf, with or without .gz, .parquet or .xlsx"),
        ("out", 2, "out: use the suffix .csv"),
        ("none/out.csv", 3, "there is no folder {folder}/none: create it first"),
        ("in.csv/out.csv", 3, "{folder}/in.csv is a file, not a folder: give another path"),
        ("in.csv/more/out.csv", 3, "{folder}/in.csv is a file, not a folder: give another path"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused(
    molattn: Molattn, run: Path, tmp_path: Path, output: str, code: int, says: str
) -> None:
    (tmp_path / "in.csv").write_text("smiles\nCCO\n")
    for command in ("predict", "embed"):
        answer = molattn(command, run, tmp_path / "in.csv", "-o", tmp_path / output)
        assert (answer.code, answer.out) == (code, "") and says.format(folder=tmp_path) in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_an_output_in_a_folder_keeps_the_name_of_its_table(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    for name in ("a.txt", "b.foo"):
        (tmp_path / name).write_text("smiles\nCCO\n")
    assert molattn("predict", run, tmp_path / "a.txt", tmp_path / "b.foo", "-o", tmp_path / "out").code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a.txt", "b.foo"]


def test_a_dash_is_standard_input_and_output_whatever_files_there_are(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    table = b"smiles\nCCO\n"
    (tmp_path / "in.csv").write_bytes(table)
    printed = molattn("predict", run, "in.csv").out
    for option in ((), ("-o", "-")):
        assert molattn("predict", run, "in.csv", *option).out == printed
    for command in ("embed", "attention"):
        assert molattn(command, run, "in.csv", "-o", "-").code == 2
    for command in (("evaluate", run), ("train",)):
        answer = molattn(*command, "in.csv", "--target-columns", "smiles", "-o", "-")
        assert answer.code == 2 and "- is standard output, and --output-dir is a folder: give its path" in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    Path("-").write_text("smiles\nwrong\n")
    for option in ((), ("-o", "out.csv")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(table)))
        answer = molattn("predict", run, "-", *option)
        assert answer.code == 0 and (answer.out or Path("out.csv").read_text()) == printed
    answer = molattn("train", "-", "--target-columns", "y")
    assert answer.code == 2 and "standard input (-) does not allow: give a file" in answer.err


def test_a_malformed_row_in_a_file_loses_no_prediction(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, many: Path, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text(many.read_text() + "1\n")

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("the model was run")

    monkeypatch.setattr(library.Predictor, "predict_rows", fail)
    answer = molattn("predict", run, tmp_path / "in.csv")
    assert answer.code == 3 and f"line {ROWS + 2}: 1 fields where the header has 2" in answer.err
    assert answer.out == ""


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("call", [1, 2, 4, 7])
def test_a_full_disk_loses_no_finished_part(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, many: Path, whole: Path, tmp_path: Path, call: int
) -> None:
    real, calls = os.fsync, 0

    def full(file: int) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        answer = molattn("predict", run, many, "-o", tmp_path / "out.csv")
    assert answer.code == 3 and re.search(rf"error: {re.escape(str(tmp_path))}/\S+: the disk is full", answer.err)
    assert molattn("predict", run, many, "-o", tmp_path / "out.csv", "--resume").code == 0
    assert (tmp_path / "out.csv").read_bytes() == whole.read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["out.csv"]


def test_other_formats_are_read(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.smi").write_text("CCO ethanol\nC1CC ring\n")
    head, ethanol, ring = csv.reader(io.StringIO(molattn("predict", run, tmp_path / "in.smi").out))
    assert head == ["smiles", "name", "y_pred", "status", "error"]
    assert ethanol[:2] == ["CCO", "ethanol"] and ethanol[3] == "ok" and ring[3] == "error"
    out = tmp_path / "out.parquet"
    assert molattn("predict", run, tmp_path / "in.smi", "-o", out).code == 0
    from_parquet = csv.reader(io.StringIO(molattn("predict", run, out).out))
    assert [row[:2] for row in from_parquet][1:] == [["CCO", "ethanol"], ["C1CC", "ring"]]
    (tmp_path / "in.sdf").write_text("\n\n\n  0  0  0\nrubbish\n$$$$\n")
    answer = molattn("predict", run, tmp_path / "in.sdf")
    assert answer.code == 0 and "record 1: the record has no structure" in answer.err


@pytest.mark.parametrize("name", ["out.smi", "out.parquet.gz", "out.xlsx.gz", "out.xlsm", "out.ods", "out.npy"])
def test_unsupported_output_formats_are_refused(
    molattn: Molattn, run: Path, many: Path, tmp_path: Path, name: str
) -> None:
    answer = molattn("predict", run, many, "-o", tmp_path / name)
    assert answer.code == 2 and "use the suffix .csv, .tsv" in answer.err


def test_embeddings(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("smiles,f0\nCCO,1\nC1CC,2\nc1ccccc1,3\n")
    answer = molattn("embed", run, tmp_path / "in.csv", "-o", tmp_path / "out.parquet")
    assert answer.code == 0 and "2 of 3 rows embedded" in answer.err
    assert "1 of 3 rows have no embedding; the first, line 3" in answer.err
    predictor = library.load(run)
    with pytest.warns(match="1 of 3 SMILES have no embedding"):
        wanted = predictor.embed(["CCO", "C1CC", "c1ccccc1"])
    assert wanted.shape == (3, predictor.embedding_dim) == (3, DIM)
    table = pq.read_table(tmp_path / "out.parquet")
    names = ["f0_2", *(f"f{i}" for i in range(1, DIM))]
    assert table.column_names == ["smiles", "f0", *names, "status", "error"]
    found = np.array([[np.nan if v is None else v for v in table[name].to_pylist()] for name in names]).T
    assert_same_predictions(found, wanted)
    assert molattn("embed", run, tmp_path / "in.csv", "-o", tmp_path / "out.npy").code == 0
    stored = np.load(tmp_path / "out.npy")
    assert stored.dtype == np.float32
    assert_same_predictions(stored, wanted)


@pytest.mark.usefixtures("short_parts")
def test_embeddings_in_parts(molattn: Molattn, run: Path, many: Path, tmp_path: Path) -> None:
    assert molattn("embed", run, many, "-o", tmp_path / "out.npy").code == 0
    found = np.load(tmp_path / "out.npy")
    assert found.shape == (ROWS, DIM)
    assert np.isnan(found[:, 0]).nonzero()[0].tolist() == list(range(0, ROWS, 97))


def test_progress_reports_rate_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    progress = TableProgress(100_000, before=20_000)
    assert progress.text(10_000, 20) == "30,000 of 100,000 molecules, 500 a second, 2 min left"
    assert TableProgress(None).text(10_000, 20) == "10,000 molecules, 500 a second"
    assert TableProgress(10_000_000).text(1000, 1).endswith("2 h 47 min left")
    progress.last_line -= 11
    progress(1)
    progress(2)
    assert capsys.readouterr().err.count("molecules") == 1
    quiet = TableProgress(10, quiet=True)
    quiet.last_line -= 11
    quiet(1)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(run: Path, tmp_path: Path) -> None:
    code = (
        "import re, sys\n"
        "from molattn.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    )
    peaks = []
    for rows in (20_000, 60_000):
        (tmp_path / "in.csv").write_text("smiles,note\n" + f"C,{'x' * 500}\n" * rows)
        command = [
            sys.executable,
            "-c",
            code,
            "predict",
            run,
            tmp_path / "in.csv",
            "-o",
            tmp_path / f"{rows}.csv",
            "-q",
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        peaks.append(int(done.stdout) / 1024)
        assert (tmp_path / f"{rows}.csv").read_text().count("\n") == rows + 1
    # The 40,000 rows more are 20 MB of text alone.
    assert peaks[1] < peaks[0] + 8, peaks


@pytest.mark.slow
def test_a_killed_prediction_is_resumed(run: Path, many: Path, whole: Path, tmp_path: Path) -> None:
    code = (
        "import molattn.inference.output_parts as a; a.CHUNKS_PER_PART = 1; from molattn.cli.main import main; main()"
    )
    out = tmp_path / "out.csv"
    command = [sys.executable, "-c", code, "predict", run, many, "-o", out, "--resume", "-n", "1"]
    kills = 0
    for finished in (1, 2):
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(list(parts_folder(out).glob("0*.json"))) < finished:
            time.sleep(0.002)
        if process.poll() is None:
            kills += 1
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert kills
    # The last kill may have come after the join, while the parts were removed.
    if not out.exists() or parts_folder(out).exists():
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert out.read_bytes() == whole.read_bytes()
    assert {p.name for p in tmp_path.iterdir()} - {".out.csv.lock"} == {"out.csv"}


def test_a_total_that_is_known_later_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    progress = TableProgress(None)
    statuses: list[str] = []
    monkeypatch.setattr(table_report, "print_status", statuses.append)
    for done in (1, 2):
        progress.last_line = progress.start = time.monotonic() - 20
        progress(done, 8)
    assert statuses[0].startswith("1 of 8 molecules") and statuses[1].startswith("2 of 8 molecules")
    assert statuses[1].endswith("60 s left")
