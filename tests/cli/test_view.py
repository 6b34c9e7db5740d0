"""`molattn view`: pages of SMILES and of tables."""

import json
import re
from dataclasses import replace

import pytest

import molattn as library
from molattn.cli.terminal import warn
from molattn.errors import SmilesError
from molattn.inference import Predictor, explainer
from molattn.inference.views import page_attributions
from molattn.models.base import build_model
from molattn.models.config import GraphModelConfig, SmilesModelConfig
from molattn.models.scaler import DescriptorScaler
from tests.explain.test_attributions import artifact_of


def page_data(path):
    """The data of the page at `path`."""
    (data,) = re.findall(r'<script type="application/json" class="molattn-data">(.*?)</script>', path.read_text(), re.S)
    return json.loads(data)


def shown(path):
    """The data of each molecule of the page at `path`."""
    return page_data(path)["molecules"]


def test_a_notebook_shows_the_page_that_the_command_writes(molattn, run, tmp_path):
    path = tmp_path / "page.html"
    assert molattn("view", run, "--smiles", "CCO", "--method", "occlusion", "-o", path).code == 0
    viewed = library.load(run).view("CCO", methods=["occlusion"])
    assert viewed.html == path.read_text()
    assert "<iframe" in viewed._repr_mimebundle_()["text/html"]
    viewed.save(tmp_path / "same.html")
    assert (tmp_path / "same.html").read_text() == viewed.html
    assert molattn("view", run, "--smiles", "CCO", "--method", "magic", "-o", tmp_path / "no.html").code == 2


def test_smiles_become_a_page(molattn, run, tmp_path):
    path = tmp_path / "page.html"
    answer = molattn("view", run, "--smiles", "CCO", "--smiles", "c1ccccc1", "-o", path)
    assert (answer.code, answer.out) == (0, "")
    assert answer.err == f"{path} shows 2 molecules: open it in a browser\n"
    molecules = shown(path)
    assert [m["smiles"] for m in molecules] == ["CCO", "c1ccccc1"]
    predicted = molattn("predict", run, "--smiles", "CCO", "--json")
    (row,) = json.loads(predicted.out)
    (prediction,) = molecules[0]["predictions"]
    assert prediction["predicted"] == pytest.approx(row["y"], abs=1e-6)
    assert {k: v for k, v in prediction.items() if k != "predicted"} == {
        "target": "y",
        "of": "",
        "true": None,
        "unit": "",
    }
    attention = molecules[0]["attention"]
    assert attention["layers"] == 2
    data = page_data(path)
    measured = json.loads((run / "faithfulness.json").read_text())["targets"]["y"]["methods"]
    assert data["faithfulness"][attention["faithfulness"]] == measured["attention"]["summary"]
    methods = [method["method"] for method in data["methods"]]
    assert methods[0] == "fragment-shapley" and {"additive", "occlusion", "attention"} <= set(methods)
    for method in data["methods"]:
        summary = measured[method["method"]]["summary"] if method["method"] in measured else "not measured: molattn"
        assert method["target"] == "y" and method["faithfulness"].startswith(summary)
    for molecule in molecules:
        assert [a["of"] for a in molecule["attributions"]] == [*range(len(methods))]
        assert all(len(a["values"]) == molecule["num_atoms"] for a in molecule["attributions"])


def test_a_table_adds_true_values_and_reports_the_limit(molattn, run, table, tmp_path):
    path = tmp_path / "page.html"
    answer = molattn("view", run, table, "-o", path, "--max-rows", 9, "--method", "additive")
    assert answer.code == 0
    assert "warning: 1 of 9 molecules cannot be shown; the first, line 9: " in answer.err
    assert f"{path} shows 8 molecules, the first of {table}; --max-rows shows more: open" in answer.err
    lines = table.read_text().splitlines()[1:10]
    expected = [line.split(",") for line in lines if not line.startswith("C1CC,")]
    truth = [m["predictions"][0]["true"] for m in shown(path)]
    assert [m["smiles"] for m in shown(path)] == [smiles for smiles, _ in expected]
    assert truth == [float(y) if y != "unknown" else "unknown" for _, y in expected]
    again = molattn("view", run, table, "-o", path, "--max-rows", 100, "--method", "additive", "--force", "--quiet")
    assert again.code == 0 and "--max-rows" not in again.err
    assert len(shown(path)) == 41


def test_true_values_have_the_number_format_of_their_column(molattn, run, tmp_path):
    table, path = tmp_path / "in.csv", tmp_path / "page.html"
    table.write_text("smiles;y\nCCO;1.234\nCC;0,5\nC;NA\n")
    assert molattn("view", run, table, "-o", path).code == 0
    assert [m["predictions"][0]["true"] for m in shown(path)] == [1234, 0.5, "NA"]
    table.write_text("smiles\ty\nCCO\t1,700\n")
    answer = molattn("view", run, table, "-o", path, "--force")
    assert answer.code == 3 and "column 'y' is ambiguous" in answer.err
    assert molattn("view", run, table, "-o", path, "--force", "--decimal", ",").code == 0
    assert shown(path)[0]["predictions"][0]["true"] == 1.7


def test_names_are_those_of_a_column_of_the_table(molattn, run, tmp_path):
    table, path = tmp_path / "in.csv", tmp_path / "page.html"
    table.write_text("Compound ID,smiles,other\nA-1,CCO,x\nA-2,C1CC,y\nA-3,C,z\n")
    assert molattn("view", run, table, "-o", path).code == 0
    assert [(m["name"], m["smiles"]) for m in shown(path)] == [("A-1", "CCO"), ("A-3", "C")]
    assert molattn("view", run, table, "-o", path, "--force", "--names-column", "other").code == 0
    assert [m["name"] for m in shown(path)] == ["x", "z"]
    answer = molattn("view", run, table, "-o", path, "--force", "--names-column", "oter")
    assert answer.code == 2 and "did you mean 'other'?" in answer.err
    assert molattn("view", run, "--smiles", "CCO", "--names-column", "other", "-o", path, "--force").code == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-o", "page.html"], 2, "either a table or --smiles"),
        (["--smiles", "CCO", "-o", "page.txt"], 2, "page.txt: the page is written as .html"),
        (["--smiles", "CCO", "-o", "no/page.html"], 3, "there is no folder"),
        (["--smiles", "C1CC", "-o", "page.html"], 3, "1 of 1 molecules cannot be shown; the first, --smiles C1CC"),
        (["--smiles", "CCO", "--smiles", "C1CC", "--strict"], 4, "1 of 2 molecules cannot be shown"),
        (["there.csv", "-o", "page.html"], 3, "there.csv"),
        (["taken.csv", "--smiles-column", "smile"], 2, "did you mean 'smiles'?"),
        (["empty.csv"], 3, "empty.csv has no rows"),
        (["--smiles", "CCO", "-o", "taken.html"], 2, "taken.html exists"),
    ],
)
def test_invalid_arguments_are_refused_and_write_nothing(molattn, run, tmp_path, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.html").write_text("mine")
    (tmp_path / "taken.csv").write_text("smiles,y\nCCO,1\n")
    (tmp_path / "empty.csv").write_text("smiles,y\n")
    before = sorted(tmp_path.iterdir())
    answer = molattn("view", run, *arguments)
    assert answer.code == code
    assert words in " ".join(answer.err.replace("\u2502", " ").split())
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "taken.html").read_text() == "mine"


SMALL = {"hidden_dim": 16, "num_heads": 4, "num_layers": 1}


def test_the_reason_for_missing_attributions_is_printed(capsys):
    model = build_model(GraphModelConfig(**SMALL), 1, num_descriptors=1).eval().requires_grad_(False)
    given = replace(artifact_of(model), descriptors=DescriptorScaler(("pH",), (0.0,), (1.0,)))
    predictor = Predictor(given)
    assert page_attributions(predictor, ["CCO"], warn) == []
    assert "warning: the page has no attributions: the model reads 'pH' for each molecule" in capsys.readouterr().err
    # Models of tokens have no attributions, so no reason is printed.
    tokens = build_model(SmilesModelConfig(**SMALL), 1).eval().requires_grad_(False)
    predictor = Predictor(artifact_of(tokens))
    assert page_attributions(predictor, ["CCO"], warn) == []
    assert capsys.readouterr().err == ""


def test_a_molecule_without_attributions_does_not_affect_the_others(capsys, monkeypatch):
    predictor = Predictor(artifact_of(build_model(GraphModelConfig(**SMALL), 1).eval().requires_grad_(False)))
    real = explainer.attribute

    def broken(artifact, molecule, *arguments, **more):
        if molecule.smiles == "CCO":
            raise SmilesError("CCO", "not finite")
        return real(artifact, molecule, *arguments, **more)

    monkeypatch.setattr(explainer, "attribute", broken)
    found = page_attributions(predictor, ["CCO", "CCN"], warn, ["occlusion", "additive"])
    assert [(a.smiles, a.method) for a in found] == [("CCN", "occlusion"), ("CCN", "additive")]
    assert "warning: 1 of 2 attributions are missing; the first, 'CCO': not finite" in capsys.readouterr().err
