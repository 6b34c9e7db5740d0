"""`molattn predict`: every row is in the output, with a prediction or an error."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import molattn as library
from tests.cli.conftest import Molattn

HEADER = "id, Structure ,note"
ROWS = [
    '1,CCO,"a, b"',
    "2,C1CC,bad ring",
    "3,,empty",
    "4,c1ccccc1,",
    "5,\N{CYRILLIC CAPITAL LETTER ES},Cyrillic",
    "6,[Na+].[Cl-],0010",
]


@pytest.fixture
def molecules(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("\n".join([HEADER, *ROWS]) + "\n", encoding="utf-8")
    return path


def _cells(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines()))


def test_smiles_on_the_command_line_are_printed(molattn: Molattn, run: Path) -> None:
    answer = molattn("predict", run, "--smiles", "CCO", "--smiles", "c1ccccc1")
    assert answer.code == 0
    head, first, second = (line.split() for line in answer.out.splitlines())
    assert head == ["smiles", "y"]
    ethanol, benzene = library.load(run).predict(["CCO", "c1ccccc1"])
    assert first == ["CCO", f"{ethanol:.3f}"]
    assert second == ["c1ccccc1", f"{benzene:.3f}"]


def test_every_row_and_column_is_kept_in_order(molattn: Molattn, run: Path, molecules: Path, tmp_path: Path) -> None:
    answer = molattn("predict", run, molecules, "-o", tmp_path / "out.csv")
    assert answer.code == 0
    assert "3 of 6 rows predicted" in answer.err
    assert "3 of 6 rows have no prediction; the first, line 3:" in answer.err
    before, after = _cells(molecules.read_text()), _cells((tmp_path / "out.csv").read_text())
    assert [row[:3] for row in after] == before
    assert after[0][3:] == ["y_pred", "status", "error"]
    assert [row[4] for row in after[1:]] == ["ok", "error", "error", "ok", "error", "ok"]
    for row in after[1:]:
        assert bool(row[3]) == (row[4] == "ok") == (not row[5])
    predictor = library.load(run)
    wanted = predictor.predict(["CCO", "c1ccccc1", "[Na+].[Cl-]"])
    assert [float(row[3]) for row in after[1:] if row[3]] == pytest.approx(wanted, abs=1e-5)


def test_without_an_output_the_table_is_printed(molattn: Molattn, run: Path, molecules: Path, tmp_path: Path) -> None:
    molattn("predict", run, molecules, "-o", tmp_path / "out.csv")
    answer = molattn("predict", run, molecules)
    assert answer.out == (tmp_path / "out.csv").read_text()


def test_one_bad_row_in_a_thousand_and_one(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    smiles = ["C" * (1 + i % 9) for i in range(1001)]
    smiles[500] = "not a molecule"
    (tmp_path / "in.csv").write_text("\n".join(["smiles", *smiles]) + "\n")
    answer = molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "out.csv")
    assert answer.code == 0
    rows = _cells((tmp_path / "out.csv").read_text())[1:]
    assert [r[0] for r in rows] == smiles
    assert [i for i, r in enumerate(rows) if r[2] == "error"] == [500]
    assert len({r[1] for r in rows if r[0] == "CCC"}) == 1
    strict = molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "strict.csv", "--strict")
    assert strict.code == 4
    assert "line 502" in strict.err
    assert not (tmp_path / "strict.csv").exists()


@pytest.mark.parametrize("count", [0, 1, 1024, 1025])
def test_the_count_of_rows_is_exact(molattn: Molattn, run: Path, tmp_path: Path, count: int) -> None:
    (tmp_path / "in.csv").write_text("smiles\n" + "C\n" * count)
    assert molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "out.csv").code == 0
    assert len(_cells((tmp_path / "out.csv").read_text())) == count + 1


def test_columns_of_the_input_are_never_overwritten(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("smiles,y_pred,status,y\nCC,mine,also mine,2\n")
    answer = molattn("predict", run, tmp_path / "in.csv")
    head, row = _cells(answer.out)
    assert head == ["smiles", "y_pred", "status", "y", "y_pred_2", "status_2", "error"]
    assert row[:4] == ["CC", "mine", "also mine", "2"]
    assert "the table has a column 'y_pred'; the new one is 'y_pred_2'" in answer.err


def test_rows_that_failed_are_an_error_only_when_strict(molattn: Molattn, run: Path) -> None:
    for options, code in (((), 0), (("--strict",), 4)):
        answer = molattn("predict", run, "--smiles", "C1CC", "--smiles", "CC", *options)
        assert answer.code == code
        assert "1 of 2 rows" in answer.err
        assert "error: " in answer.out


def test_json_rows(molattn: Molattn, run: Path) -> None:
    good, bad = json.loads(molattn("predict", run, "--smiles", "CC", "--smiles", "x", "--json").out)
    assert (good["smiles"], good["status"], good["error"]) == ("CC", "ok", "")
    assert isinstance(good["y"], float)
    assert bad["y"] is None
    assert bad["status"] == "error"


def test_features_that_the_model_does_not_encode_are_warned_of(molattn: Molattn, run: Path) -> None:
    assert "[C+7]" in molattn("predict", run, "--smiles", "[C+7]").err


def test_the_number_of_workers_does_not_change_the_result(molattn: Molattn, run: Path, molecules: Path) -> None:
    assert molattn("predict", run, molecules, "-n", 2).out == molattn("predict", run, molecules).out


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["RUN"], 2, "either a table or --smiles"),
        (["RUN", "IN", "--smiles", "C"], 2, "either a table or --smiles"),
        (["RUN", "--smiles", "C", "--engine", "ray"], 2, "--engine needs a table"),
        (["nowhere", "--smiles", "C"], 3, "contains no model"),
        (["RUN", "nowhere.csv"], 3, "nowhere.csv"),
        (["RUN", "IN", "-o", "IN"], 2, "is the input itself"),
        (["RUN", "IN", "-o", "RUN/metrics.json"], 2, "exists"),
        (["RUN", "IN", "--smiles-column", "Structur"], 2, "Structure"),
        (["RUN", "IN", "-o", "no/such/folder/out.csv"], 3, "no folder"),
    ],
)
def test_invalid_arguments_are_refused(
    molattn: Molattn, run: Path, molecules: Path, arguments: list[str], code: int, says: str
) -> None:
    filled = [a.replace("RUN", str(run)).replace("IN", str(molecules)) for a in arguments]
    answer = molattn("predict", *filled)
    assert answer.code == code, answer.err
    assert says in " ".join(answer.err.split()).replace("│ ", "")


@pytest.mark.parametrize("what", [["--smiles", "CCO"], ["in.csv", "-o", "out.csv"]])
def test_prediction_imports_only_what_it_uses(run: Path, tmp_path: Path, what: list[str]) -> None:
    (tmp_path / "in.csv").write_text("smiles\nCCO\n")
    code = f"""
import sys
sys.argv = ["molattn", "predict", {str(run)!r}, *{what!r}]
from molattn.cli.main import main
try:
    main()
except SystemExit as stop:
    assert stop.code == 0
print(*sys.modules, file=sys.stderr)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}

    def loaded(code: str) -> set[str]:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment)
        return set(done.stderr.splitlines()[-1].split())

    modules = loaded(code)
    heavy = {"molattn.training.fit", "torch_geometric", "matplotlib", "sklearn", "scipy", "pandas"}
    assert not (heavy | {"pyarrow", "molattn.sequence", "rdkit.Chem.AllChem"}) & modules
    # Typer before 0.17 brings it in at its own import.
    of_typer = loaded("import sys, typer; print(*sys.modules, file=sys.stderr)")
    assert not {"rich"} & (modules - of_typer)
    of_torch = loaded("import sys, torch; print(*sys.modules, file=sys.stderr)")
    assert {m for m in modules - of_torch if m.startswith("torch.")} == set()


def test_imported_objects_are_excluded_from_garbage_collection(run: Path) -> None:
    code = f"""
import gc, sys
from pathlib import Path
from molattn.cli.options import load_predictor
load_predictor(Path({str(run)!r}))
first = gc.get_freeze_count()
assert gc.isenabled() and first > 100_000, first
load_predictor(Path({str(run)!r}))
assert gc.isenabled() and abs(gc.get_freeze_count() - first) < 1_000
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_formulas_are_escaped_on_request(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    cells = ["=1+1", "+cmd|' /C calc'!A0", "@SUM(A1)", "-2+3", "\t=1", " =1", "-1.5", "+3e-5", "-0,5", "-", "plain", ""]
    kept = ["-1.5", "+3e-5", "-0,5", "-", "plain", ""]
    with open(tmp_path / "in.csv", "w", newline="") as file:
        csv.writer(file).writerows([("smiles", "=name"), *(("CC", cell) for cell in cells), ("=1+1", "x")])
    plain = _cells(molattn("predict", run, tmp_path / "in.csv").out)
    assert [row[1] for row in plain] == ["=name", *cells, "x"]
    escaped = _cells(molattn("predict", run, tmp_path / "in.csv", "--escape-formulas").out)
    assert [row[1] for row in escaped] == ["'=name", *(c if c in kept else f"'{c}" for c in cells), "x"]
    assert [row[2:4] for row in escaped] == [row[2:4] for row in plain]
    assert escaped[-1][0] == "'=1+1"
    refused = molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "out.parquet", "--escape-formulas")
    assert refused.code == 2 and "--escape-formulas applies only to .csv and .tsv" in refused.err
