"""`molattn report`: pages of a run and of two."""

import json
import re
from pathlib import Path

import pytest

from molattn import load
from tests.cli.conftest import QUICK, Molattn


def shown(path: Path) -> dict:
    (data,) = re.findall(r'<script type="application/json" class="molattn-data">(.*?)</script>', path.read_text(), re.S)
    return json.loads(data)


def test_a_run_becomes_a_page(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    answer = molattn("report", run, "-o", path, "--smarts", "hydroxyl=[OX2H]")
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"{path} shows 40 molecules: open it in a browser\n"
    data = shown(path)
    predictor = load(run)
    (target,) = data["targets"]
    assert target["predicted"] == pytest.approx(predictor.predict(data["smiles"]).tolist(), abs=1e-4)
    assert data["groups"][0] == "hydroxyl"
    assert set(data["domain"]) <= {"no", "embedding", "fingerprint", "both"} and len(data["domain"]) == 40
    assert "the model has no calibration" in data["missing"]["intervals"][0]
    sections = {section["id"]: section for section in data["sections"]}
    heads = sections["heads"]["blocks"][1]["rows"]
    assert len(heads) == 1 + sum(1 for _ in range(predictor.model.config.num_layers * predictor.model.config.num_heads))
    assert all(sum(row[1:-2]) == pytest.approx(100, abs=4) for row in heads)
    worst = sections["worst"]["blocks"][1]["molecules"]
    assert set(target["atoms"]) == {str(i) for i in worst}
    for i in worst:
        assert len(target["atoms"][str(i)]["values"]) == len(data["drawings"][i]["atoms"])


def test_a_calibrated_model_adds_intervals_and_a_table_its_names(molattn: Molattn, table: Path, tmp_path: Path) -> None:
    named = tmp_path / "named.csv"
    lines = table.read_text().splitlines()
    named.write_text("\n".join([f"compound,{lines[0]}", *(f"c{i},{line}" for i, line in enumerate(lines[1:]))]) + "\n")
    run, path = tmp_path / "run", tmp_path / "report.html"
    columns = ("--target-columns", "y", "--calibration-size", "0.4")
    assert molattn("train", named, *columns, *QUICK, "-o", run, "--quiet").code == 0
    assert molattn("report", run, "-o", path, "--quiet").code == 0
    data = shown(path)
    by_smiles = {line.split(",")[0]: f"c{i}" for i, line in enumerate(lines[1:])}
    assert data["names"] == [by_smiles[smiles] for smiles in data["smiles"]]
    lower, upper = load(run).predict_interval(data["smiles"], 0.9)
    assert data["targets"][0]["low"] == pytest.approx(lower.tolist(), abs=1e-4)
    assert data["targets"][0]["high"] == pytest.approx(upper.tolist(), abs=1e-4)
    assert "intervals" not in data["missing"]
    assert molattn("report", run, "-o", path, "--force", "--quiet", "--data", table).code == 2
    given = molattn("report", run, "-o", path, "--force", "--quiet", "--data", named, "--names-column", "compound")
    assert given.code == 0 and shown(path)["names"] == data["names"]


def test_two_runs_are_compared(molattn: Molattn, run: Path, table: Path, tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "report.html"
    assert molattn("train", table, *QUICK, "--seed", "3", "-o", other, "--quiet").code == 0
    answer = molattn("report", run, other, "-o", path)
    assert (answer.code, answer.err) == (0, f"{path} shows 40 molecules: open it in a browser\n")
    data = shown(path)
    assert data["runs"] == ["first", "other"]
    (settings,) = [s for s in data["sections"] if s["id"] == "settings"]
    assert ["training.seed", "0", "3"] in settings["blocks"][0]["rows"]
    second = data["targets"][0]["second"]["predicted"]
    assert second == pytest.approx(load(other).predict(data["smiles"]).tolist(), abs=1e-4)


def test_many_molecules_are_sampled_with_a_note(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    answer = molattn("report", run, "-o", path, "--max-molecules", "10")
    assert answer.err == f"{path} shows 10 of 40 molecules: open it in a browser\n"
    data = shown(path)
    assert data["note"].startswith("The report shows 10 of 40 molecules")
    whole = (run / "predictions.csv").read_text().count(",test,")
    assert data["split"].count(data["splits"].index("test")) == whole


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-o", "report.txt"], 2, "report.txt: the report is written as .html"),
        (["-o", "no/report.html"], 3, "there is no folder"),
        (["-o", "taken.html"], 2, "taken.html exists"),
        (["absent"], 2, "there is no run absent"),
        (["--smarts", "hydroxyl"], 2, "--smarts is NAME=SMARTS"),
        (["--smarts", "hydroxyl=[OX2H"], 2, "the SMARTS of 'hydroxyl', cannot be read"),
        (["--target", "z"], 2, "has no target 'z': choose one of y"),
        (["--sheet", "one", "--decimal", ","], 2, "--sheet, --decimal need --data"),
        (["--data", "names.csv"], 2, "has a usual name of a column of names"),
        (["--max-molecules", "0"], 2, "--max-molecules"),
    ],
)
def test_errors_are_one_sentence_and_write_nothing(
    molattn: Molattn,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.html").write_text("mine")
    (tmp_path / "names.csv").write_text("smiles,y\nCCO,1\n")
    before = sorted(tmp_path.iterdir())
    answer = molattn("report", run, *arguments)
    assert answer.code == code
    assert words in " ".join(answer.err.replace("\u2502", " ").split())
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "taken.html").read_text() == "mine"
