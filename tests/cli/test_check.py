"""`molattn check`, and what training reports about its data."""

import json
from pathlib import Path

from tests.cli.conftest import QUICK, Molattn
from tests.molecules import esol


def _table(path: Path) -> Path:
    """Sixty molecules, one of them twice, spelled in two ways and with labels that are far apart, and a bad row."""
    rows = [*(f"{s},{y}" for s, y in zip(*esol(60), strict=True)), "CCO,9.5", "OCC,-9.5", "C1CC,0.5"]
    path.write_text("\n".join(["smiles,y", *rows]) + "\n")
    return path


def test_a_table_that_can_be_trained_on(molattn: Molattn, tmp_path: Path) -> None:
    answer = molattn("check", _table(tmp_path / "t.csv"))
    assert answer.code == 0
    assert "63 rows, 62 can be used, 1 left out; regression of y" in answer.out
    attention, information = answer.out.split("for information:")
    assert "'CCO', lines 62 and 63: 9.5 and -9.5" in attention
    assert "1 row is left out; the first, line 64" in attention and ".csv" not in attention
    assert "6 test labels" in attention
    assert "--standardize parent would change" in information
    assert answer.out.strip().endswith("A model can be trained on this table.")
    quiet = molattn("check", tmp_path / "t.csv", "--quiet")
    assert (quiet.code, quiet.out) == (0, "")


def test_the_same_as_json(molattn: Molattn, tmp_path: Path) -> None:
    found = json.loads(molattn("check", _table(tmp_path / "t.csv"), "--json").out)
    assert found["trainable"] is True
    assert (found["rows"], found["used"], found["rejected"]) == (63, 62, 1)
    assert sum(found["split"].values()) == 62
    (duplicates,) = [f for f in found["findings"] if f["check"] == "duplicates"]
    assert duplicates["examples"][0] == {"molecule": "CCO", "target": "y", "line": [62, 63], "values": [9.5, -9.5]}


def test_a_table_that_cannot_be_trained_on_exits_with_1_and_a_sentence(molattn: Molattn, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("smiles,y\n" + "C1CC,1\n" * 20)
    answer = molattn("check", path)
    assert answer.code == 3
    (line,) = answer.err.strip().splitlines()
    assert line.startswith(f"error: {path}: no row can be used; the first, line 2")
    answer = molattn("check", path, "--json")
    assert answer.code == 3
    found = json.loads(answer.out)
    assert found["trainable"] is False and "no row can be used" in found["error"]


def test_invalid_arguments_exit_with_2(molattn: Molattn, tmp_path: Path) -> None:
    assert molattn("check", _table(tmp_path / "t.csv"), "--target-columns", "z").code == 2
    answer = molattn("check", _table(tmp_path / "t.csv"), "--dataset", "esol")
    assert answer.code == 2 and "not both" in answer.err


def test_training_prints_and_saves_warnings_about_the_data(molattn: Molattn, tmp_path: Path) -> None:
    table, run = _table(tmp_path / "t.csv"), tmp_path / "run"
    answer = molattn("train", table, *QUICK, "-o", run)
    assert answer.code == 0, answer.err
    assert "check of the data: 1 molecule is in several rows, 2 in all; the labels of 1 differ" in answer.err
    assert answer.err.count("left out") == 1, "a warning is printed once"
    content = json.loads((run / "data_report.json").read_text())
    checked = json.loads(molattn("check", table, "--json").out)
    both = [
        [f for f in found["findings"] if f["check"] not in ("reading", "standardize")] for found in (content, checked)
    ]
    assert both[0] == both[1] != []
    assert {key: content[key] for key in content if key != "findings"} == {
        key: checked[key] for key in checked if key not in ("findings", "trainable")
    }
