"""`molattn explain`, `molattn attention` and `molattn faithfulness`."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import molattn as library
from tests.cli.conftest import Molattn

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


@pytest.fixture
def own_run(run: Path, tmp_path: Path) -> Path:
    """A copy of the run, to write into."""
    return Path(shutil.copytree(run, tmp_path / "run"))


def test_explain_prints_the_sum_and_a_line_for_each_atom(molattn: Molattn, run: Path) -> None:
    answer = molattn("explain", run, "--smiles", "CCO")
    assert answer.code == 0, answer.err
    found = library.load(run).attributions("CCO")
    assert found.method == "fragment-shapley"
    lines = answer.out.splitlines()
    assert lines[:2] == ["CCO", found.equation]
    assert (
        lines[2] == "fragment-shapley, the change of the prediction as the atom joins a fragment; faithfulness: "
        f"{found.faithfulness}"
    )
    rows = [(*line[2:].split(), line[:2]) for line in lines[3:]]
    shares = [*zip(("C0", "C1", "O2"), found.values, strict=True), *found.other_terms.items()]
    assert rows == [(label, f"{value:+.3f}", "  ") for label, value in shares]


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_explain_draws_each_smiles_and_continues_after_a_bad_one(
    molattn: Molattn, run: Path, tmp_path: Path, suffix: str
) -> None:
    arguments = ("explain", run, "-s", ASPIRIN, "-s", "C1CC", "-s", "C", "-o", tmp_path / f"x.{suffix}")
    answer = molattn(*arguments)
    assert answer.code == 0
    assert "warning: --smiles number 1, 'C1CC': RDKit cannot read it" in answer.err
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"x-0.{suffix}", f"x-2.{suffix}"]
    picture = library.load(run).attributions(ASPIRIN).draw()
    expected = picture.svg.encode() if suffix == "svg" else picture.png
    assert (tmp_path / f"x-0.{suffix}").read_bytes() == expected
    again = molattn(*arguments)
    assert again.code == 2 and "x-0." in again.err and "--force" in again.err
    assert molattn(*arguments, "--force").code == 0
    assert molattn(*arguments, "--force", "--strict").code == 4


def test_explain_writes_a_table_that_adds_up(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    assert molattn("explain", run, "-s", ASPIRIN, "-s", "C", "-o", path).code == 0
    with path.open() as file:
        rows = list(csv.DictReader(file))
    for row, smiles, n in (("0", ASPIRIN, 13), ("1", "C", 1)):
        own = [r for r in rows if r["row"] == row]
        assert {r["smiles"] for r in own} == {smiles}
        assert [r["atom"] for r in own if r["part"] == "atom"] == [str(i) for i in range(n)]
        parts = {r["part"]: float(r["value"]) for r in own}
        total = sum(float(r["value"]) for r in own if r["part"] != "prediction")
        assert total == pytest.approx(parts["prediction"], rel=1e-5)
        assert parts["prediction"] == pytest.approx(float(library.load(run).predict(smiles)), rel=1e-6)


def test_explain_makes_a_page_with_each_molecule_once(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    assert molattn("explain", run, "-s", ASPIRIN, "-s", "CCO", "-s", ASPIRIN, "-o", path).code == 0
    page = path.read_text()
    data = re.search(r'<script type="application/json" class="molattn-data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    content = json.loads(data[1])
    molecules = content["molecules"]
    assert [m["smiles"] for m in molecules] == [ASPIRIN, "CCO"]
    found = library.load(run).attributions("CCO")
    (shown,) = molecules[1]["attributions"]
    method = content["methods"][shown["of"]]
    expected = ("fragment-shapley", True, found.faithfulness)
    assert (method["method"], method["adds_up"], method["faithfulness"]) == expected
    np.testing.assert_allclose(shown["values"], found.values, rtol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("-s", "C", "-o", "x.pdf"), 2, "attributions are written as .svg, .png, .csv, .html"),
        (("-s", "C", "-o", "nowhere/x.svg"), 3, "there is no folder"),
        (("-s", "C", "--method", "magic"), 2, "unknown method 'magic': choose one of fragment-shapley"),
        (("-s", "C", "--target", "z"), 2, "unknown target 'z': choose one of y"),
        (("-s", "C1CC"), 3, "'C1CC': RDKit cannot read it"),
        (("-s", "C1CC", "-s", "CC("), 3, "none of the 2 SMILES can be read"),
    ],
)
def test_what_cannot_be_explained_is_an_error(
    molattn: Molattn,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple,
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = molattn("explain", run, *arguments)
    assert answer.code == code
    assert message in answer.err
    assert not list(tmp_path.iterdir())


@pytest.fixture
def four(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("id,smiles\n1,CCO\n2,C1CC\n3,C\n4,Oc1ccccc1\n")
    return path


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_attention_writes_every_weight_and_names_bad_rows(
    molattn: Molattn, run: Path, four: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"maps.{suffix}"
    answer = molattn("attention", run, four, "-o", path)
    assert answer.code == 0
    assert "warning: 1 of 4 rows have no weights; the first, line 3: 'C1CC': RDKit cannot read it" in answer.err
    if suffix == "parquet":
        rows = pq.read_table(path).to_pylist()
    else:
        with path.open() as file:
            rows = list(csv.DictReader(file))
    predictor = library.load(run)
    for row, smiles in ((0, "CCO"), (2, "C"), (3, "Oc1ccccc1")):
        own = [r for r in rows if int(r["row"]) == row]
        assert {r["smiles"] for r in own} == {smiles}
        weights = predictor.attention(smiles).weights
        made = np.zeros_like(weights)
        for r in own:
            made[int(r["layer"]), int(r["head"]), int(r["receiver"]), int(r["sender"])] = float(r["weight"])
        np.testing.assert_allclose(made, weights, atol=1e-6)
        assert len(own) == weights.size
    assert {int(r["row"]) for r in rows} == {0, 2, 3}


def test_attention_of_one_layer_and_head_keeps_their_numbers(
    molattn: Molattn, run: Path, four: Path, tmp_path: Path
) -> None:
    predictor = library.load(run)
    for head, matrix in (
        ("mean", predictor.attention("CCO").matrix(-1)),
        ("3", predictor.attention("CCO").matrix(1, 3)),
    ):
        path = tmp_path / f"{head}.parquet"
        assert molattn("attention", run, four, "-o", path, "--layer", "-1", "--head", head, "-q").code == 0
        rows = [r for r in pq.read_table(path).to_pylist() if r["row"] == 0]
        assert {(r["layer"], str(r["head"])) for r in rows} == {(1, head)}
        np.testing.assert_allclose([r["weight"] for r in rows], matrix.ravel(), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("-o", "x.xlsx"), 2, "written as .parquet or .csv"),
        (("-o", "x.csv", "--layer", "7"), 2, "layer is from 0 to 1, not 7"),
        (("-o", "x.csv", "--head", "best"), 2, "head is from 0 to 7, 'mean' or 'max', not 'best'"),
        (("-o", "x.csv", "--strict"), 4, "line 3"),
    ],
)
def test_attention_that_cannot_be_written_leaves_no_file(
    molattn: Molattn,
    run: Path,
    four: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple,
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = molattn("attention", run, four, *arguments)
    assert answer.code == code
    assert message in answer.err
    assert [p.name for p in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("command", ["attention", "heads", "predict", "embed"])
def test_a_table_is_not_replaced_by_what_is_computed_from_it(molattn: Molattn, four: Path, command: str) -> None:
    before = four.read_bytes()
    answer = molattn(command, four.parent, four, "-o", four, "--force")  # checked before the run is read
    assert answer.code == 2 and "in.csv is the input itself" in answer.err
    assert four.read_bytes() == before


def test_attention_of_no_molecule_is_an_error(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("smiles\nC1CC\n")
    answer = molattn("attention", run, tmp_path / "bad.csv", "-o", tmp_path / "x.parquet")
    assert answer.code == 3
    assert "no molecule can be read; the first, line 2" in answer.err


@pytest.mark.finished_runs
def test_faithfulness_is_measured_saved_and_shown(molattn: Molattn, own_run: Path, tmp_path: Path) -> None:
    answer = molattn("faithfulness", own_run)
    assert answer.code == 0, answer.err
    assert "y, 4 test molecules of solubility.csv:" in answer.out
    assert "deletion" in answer.out and "tau" not in answer.out
    assert "In brackets: 95% bootstrap intervals over molecules." in answer.out
    assert "true contribution" not in answer.out  # they are known only for logP and TPSA
    record = json.loads((own_run / "faithfulness.json").read_text())["targets"]["y"]
    assert set(record["methods"]) == {
        "fragment-shapley",
        "additive",
        "occlusion",
        "integrated-gradients",
        "cam",
        "grad-attention",
        "rollout",
        "attention",
        "random",
    }
    assert record["methods"]["random"]["deletion_ratio"] == pytest.approx(1)
    measures = record["methods"]["fragment-shapley"]["measures"]
    assert measures["swap_sign"]["count"] > 0 and measures["deletion"]["why"] == "4 molecules, under 10"
    assert record["truth"] == "" and record["untrained"] == {}
    summary = record["methods"]["fragment-shapley"]["summary"]
    assert summary in molattn("explain", own_run, "-s", "CCO").out
    predictor = library.load(own_run)
    assert predictor.attention("CCO").faithfulness == record["methods"]["attention"]["summary"]
    assert predictor.attributions("CCO", "cam").faithfulness == record["methods"]["cam"]["summary"]
    # Another table, and fewer methods; the file has the last results.
    (tmp_path / "t.csv").write_text("smiles\nCCO\nC1CC\nCCCCO\nCCN\n")
    options = (tmp_path / "t.csv", "--method", "additive", "--max-molecules", "2", "--json", "-q")
    answer = molattn("faithfulness", own_run, *options)
    assert "1 molecule cannot be read and is left out; the first, 'C1CC'" in answer.err
    part = json.loads(answer.out)
    assert (part["molecules"], part["data"], set(part["methods"])) == (2, "t.csv", {"additive", "random"})


def test_faithfulness_without_held_out_molecules_is_refused(molattn: Molattn, own_run: Path) -> None:
    (own_run / "predictions.csv").unlink()
    answer = molattn("faithfulness", own_run)
    assert answer.code == 2
    assert "pass a table of molecules" in answer.err
