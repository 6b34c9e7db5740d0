"""`molattn predict` with several tables: each has its own output in a folder, with either engine."""

import sys
from pathlib import Path

import pytest

from molattn.data.tables.parts import parts_folder
from molattn.errors import UsageError
from molattn.inference.table_engine import run_job
from molattn.inference.table_job import output_paths
from tests.cli.conftest import Molattn


@pytest.fixture
def tables(tmp_path: Path) -> list[Path]:
    """Three tables, the second without a row, the third of another kind."""
    (tmp_path / "in").mkdir()
    paths = [tmp_path / "in" / name for name in ("a.csv", "b.csv", "c.smi")]
    paths[0].write_text("id,smiles\n1,CCO\n2,C1CC\n3,CCN\n")
    paths[1].write_text("id,smiles\n")
    paths[2].write_text("CC one\nCCC two\n")
    return paths


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_each_table_has_its_own_output(molattn: Molattn, run: Path, tables: list[Path], tmp_path: Path) -> None:
    answer = molattn("predict", run, *tables, "-o", f"{tmp_path}/out/")
    assert answer.code == 0, answer.err
    assert f"4 of 5 rows predicted, written to {tmp_path}/out" in answer.err
    assert f"the first, {tables[0]}, line 3: " in answer.err
    found = contents(tmp_path / "out")
    assert [*found] == ["a.csv", "b.csv", "c.csv"]
    for table in tables:
        alone = tmp_path / "alone.csv"
        assert molattn("predict", run, table, "-o", alone, "--force").code == 0
        assert found[f"{table.stem}.csv"] == alone.read_bytes()
    # If the output is a folder, a single table is written into it, too.
    assert molattn("predict", run, tables[0], "-o", f"{tmp_path}/one/").code == 0
    assert contents(tmp_path / "one") == {"a.csv": found["a.csv"]}
    again = molattn("predict", run, *tables, "-o", tmp_path / "out")
    assert again.code == 2 and "--force (force=True) to replace it" in again.err
    assert molattn("predict", run, *tables, "-o", tmp_path / "out", "--force").code == 0
    assert contents(tmp_path / "out") == found


def test_finished_tables_are_not_predicted_again(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, tables: list[Path], tmp_path: Path
) -> None:
    done: list[str] = []

    def stops(job, *arguments):
        if job.input.path.name == "c.smi" and len(done) < 3:
            raise KeyboardInterrupt
        done.append(job.input.path.name)
        return run_job(job, *arguments)

    monkeypatch.setattr("molattn.inference.table_engine.run_job", stops)
    out = tmp_path / "out"
    assert molattn("predict", run, *tables, "-o", f"{out}/").code == 130
    assert parts_folder(out / "a.csv").is_dir() and (out / "a.csv").exists()
    before = (out / "a.csv").stat().st_mtime_ns
    refused = molattn("predict", run, *tables, "-o", f"{out}/")
    assert refused.code == 2
    done.append("may go on")
    answer = molattn("predict", run, *tables, "-o", f"{out}/", "--resume")
    assert answer.code == 0 and "4 of 5 rows" in answer.err
    assert (out / "a.csv").stat().st_mtime_ns == before
    assert [*contents(out)] == ["a.csv", "b.csv", "c.csv"]


def test_strict_names_the_table(molattn: Molattn, run: Path, tables: list[Path], tmp_path: Path) -> None:
    answer = molattn("predict", run, *tables, "-o", f"{tmp_path}/out/", "--strict")
    assert answer.code == 4 and "line 3" in answer.err


def test_output_paths_of_several_tables() -> None:
    folder = Path("out")
    names = ("a.csv.gz", "b.parquet", "c.sdf.gz", "d.smi", "e.parquet.gz", "f.tsv")
    found = [path.name for path in output_paths(folder, [Path("in") / name for name in names])]
    assert found == ["a.csv.gz", "b.parquet", "c.csv", "d.csv", "e.parquet", "f.tsv"]
    with pytest.raises(UsageError, match=r"in/a.csv and more/a.smi would both be written to out/a.csv: predict them"):
        output_paths(folder, [Path("in/a.csv"), Path("more/a.smi")])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "2 tables are written to a folder: give --output FOLDER/"),
        (("-o", "{}/in/a.csv"), 2, "is a file: give a folder with --output for 2 tables"),
        (("-o", "{}/no/out/"), 3, "create it first"),
        (("--engine", "spark", "-o", "{}/out/"), 2, "unknown engine 'spark'"),
    ],
)
def test_invalid_arguments_are_refused(
    molattn: Molattn, run: Path, tables: list[Path], tmp_path: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    answer = molattn("predict", run, *tables[:2], *(a.format(tmp_path) for a in arguments))
    assert (answer.code, says in " ".join(answer.err.split())) == (code, True), answer.err


def test_ray_needs_files_and_ray(
    molattn: Molattn, monkeypatch: pytest.MonkeyPatch, run: Path, tables: list[Path], tmp_path: Path
) -> None:
    answer = molattn("predict", run, tables[0], "--engine", "ray")
    assert answer.code == 2 and "--engine ray needs files" in answer.err
    monkeypatch.setitem(sys.modules, "ray", None)
    answer = molattn("predict", run, *tables, "-o", f"{tmp_path}/out/", "--engine", "ray")
    assert answer.code == 5 and "pip install 'molattn[ray]'" in answer.err
