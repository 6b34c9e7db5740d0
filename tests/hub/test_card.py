"""Model cards: their figures are those of the run, and the hub's own library reads their metadata."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard
from hypothesis import given
from hypothesis import strategies as st

import molattn as library
from molattn.errors import InputError
from molattn.hub.address import parse_address
from molattn.publish.card import model_card
from molattn.publish.markdown import code, escaped, number, table, yaml_lines
from molattn.publish.training_molecules import training_molecules
from tests.cli.conftest import Molattn
from tests.molecules import esol

ADDRESS = parse_address("hf://user/solubility")


def rows_of(text: str, title: str) -> list[list[str]]:
    """The cells of the table of a section, with its header."""
    section = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if not line.startswith("| ---")]


def section_of(text: str, title: str) -> str:
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_metadata_is_what_the_hub_reads(run: Path) -> None:
    data = ModelCard(model_card(run, ADDRESS, "apache-2.0")).data
    assert (data.library_name, data.license, data.pipeline_tag) == ("molattn", "apache-2.0", "graph-ml")
    assert "chemistry" in data.tags
    metrics = json.loads((run / "metrics.json").read_text())["test"]["y"]
    found = {result.metric_type: result.metric_value for result in data.eval_results}
    assert found == {name: pytest.approx(metrics[name], rel=1e-5) for name in ("rmse", "mae", "r2", "spearman")}
    assert {result.dataset_name for result in data.eval_results} == {"solubility.csv"}
    assert ModelCard(model_card(run, ADDRESS)).data.license is None


def test_the_figures_are_those_of_the_run(run: Path, table: Path) -> None:
    card = model_card(run, ADDRESS)
    metrics = json.loads((run / "metrics.json").read_text())
    (_, *rows) = rows_of(card, "Metrics")
    rmse = rows[0]
    assert rmse[0] == "RMSE of `y`"
    expected = [metrics["val"]["y"]["rmse"], metrics["test"]["y"]["rmse"]]
    assert rmse[1:3] == [number(x) for x in expected]
    assert rmse[3] == " to ".join(map(number, metrics["test_intervals"]["y"]["rmse"]))
    assert rmse[4] == number(metrics["baseline"]["test"]["y"]["rmse"])
    environment = json.loads((run / "env.json").read_text())
    assert f"`{environment['data_sha256']}`" in section_of(card, "Data")
    report = json.loads((run / "data_report.json").read_text())
    assert rows_of(card, "Split")[1] == [str(n) for n in report["split"].values()]
    assert f"{report['rows']} rows, {report['used']} used, {report['rejected']} rejected" in card
    assert f"`{table.name}`" in card and str(table.parent) not in card
    assert rows_of(card, "How it was made")[1] == ["model", "`graph`, 2 layers of 16 channels, 8 heads"]
    assert "- Standard deviations: none\n- Calibration: none\n- Coverage: not measured" in card
    saved = json.loads((run / "faithfulness.json").read_text())["targets"]["y"]["methods"]
    faithfulness = section_of(card, "Faithfulness of its explanations")
    assert all(f"- `{name}`: {method['summary']}" in faithfulness for name, method in saved.items() if name != "random")


def test_what_the_training_molecules_are_made_of(run: Path) -> None:
    found = training_molecules(run)
    splits = [line.rpartition(",") for line in (run / "splits.csv").read_text().splitlines()[1:]]
    train = [smiles for smiles, _, split in splits if split == "train"]
    assert found is not None
    assert found.count == found.examined == len(train)
    assert found.elements["Cl"] == sum("Cl" in smiles for smiles in train) > 0
    assert max(found.elements.values()) == found.elements["C"] <= len(train)
    assert found.sizes[0] <= found.sizes[1] <= found.sizes[2]
    some = training_molecules(run, max_molecules=5)
    assert some is not None and (some.count, some.examined) == (len(train), 5)
    assert f"Trained on {len(train)} molecules." in model_card(run, ADDRESS)


def test_the_card_of_a_model_without_its_run_lists_what_is_missing(run: Path, tmp_path: Path) -> None:
    library.load(run).save(tmp_path)
    card = model_card(tmp_path, ADDRESS)
    assert "Not measured: `molattn evaluate` measures them" in section_of(card, "Metrics")
    assert "Not recorded: this model was saved without its run." in section_of(card, "Data")
    assert section_of(card, "Split").strip() == "Not recorded."
    assert "are not recorded: the run's predictions.csv is missing" in section_of(card, "Limits")
    assert ModelCard(card).data.eval_results is None
    assert rows_of(card, "What it predicts") == rows_of(model_card(run, ADDRESS), "What it predicts")


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two targets of two classes, one with a hostile name, with calibration."""
    folder = tmp_path_factory.mktemp("classes")
    smiles, values = esol(60)
    rows = [f"{s},{int(y > -3)},{int(len(s) > 12)}" for s, y in zip(smiles, values, strict=True)]
    (folder / "my data.csv").write_text("\n".join(['smiles,active,"a|b <i>`x`"', *rows]) + "\n")
    options = {"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "epochs": 1, "base": "none", "quiet": True}
    targets = ["active", "a|b <i>`x`"]
    library.train(
        folder / "my data.csv", output_dir=folder / "run", calibration_size=0.3, target_columns=targets, **options
    )
    return folder / "run"


def test_classes_and_hostile_names(classes: Path) -> None:
    card = model_card(classes, ADDRESS)
    header, *rows = rows_of(card, "What it predicts")
    assert header == ["target", "classes", "frequencies in training"]
    assert [row[0] for row in rows] == ["`active`", r"`a\|b <i>'x'`"]
    assert all("undefined" in row[2] or abs(sum(map(float, row[2].split(", "))) - 1) < 1e-3 for row in rows)
    metrics = json.loads((classes / "metrics.json").read_text())
    data = ModelCard(card).data
    auroc = [r.metric_value for r in data.eval_results if r.metric_type == "auroc"]
    known = [v["auroc"] for v in metrics["test"].values() if v["auroc"] is not None]
    assert auroc == pytest.approx(known, rel=1e-5)
    found = metrics["uncertainty"]["test"]["active"]["coverage"]
    _, *measured = rows_of(card, "Uncertainty")
    assert measured[1][:3] == ["`active`", "test", number(found)]
    assert "The sets of classes for a probability of 90%:" in card


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two token models that read a column of the table, too."""
    folder = tmp_path_factory.mktemp("columns")
    rows = [f"{s},{y},{len(s)}" for s, y in zip(*esol(40), strict=True)]
    (folder / "in.csv").write_text("\n".join(["smiles,y,length", *rows]) + "\n")
    sizes = {"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "epochs": 1, "ensemble_size": 2}
    kind = {"model": "smiles-transformer", "target_columns": ["y"], "descriptor_columns": ["length"]}
    library.train(folder / "in.csv", output_dir=folder / "run", quiet=True, **sizes, **kind)
    return folder / "run"


@pytest.mark.usefixtures("hub")
def test_the_code_of_a_card_runs(
    run: Path, columns: Path, tmp_path: Path, molattn: Molattn, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(columns.parent / "in.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    for k, folder in enumerate((run, columns)):
        card = library.push(folder, f"hf://user/model-{k}").card
        bash, python = (section_of(card, "Use").partition(f"```{name}\n")[2] for name in ("bash", "python"))
        exec(python.partition("```")[0], {})
        commands = [line.split()[1:] for line in bash.partition("```")[0].splitlines()[1:]]
        assert len(commands) == (3, 1)[k]
        assert [molattn(*command, "--force").code for command in commands] == [0] * len(commands)
    limits = section_of(card, "Limits")
    assert "Tables must have these columns in addition to the SMILES: `length`." in limits
    assert "Its input is the tokens of canonical SMILES" in limits and "Hydrogens" not in limits
    assert "| epochs | 1 / 1, the model is that of epoch 1 / 1 |" in card


def test_a_data_set_with_a_card_is_cited(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    config = (run / "config.toml").read_text()
    line = next(line for line in config.splitlines() if line.startswith("dataset = "))
    (tmp_path / "run" / "config.toml").write_text(config.replace(line, 'dataset = "esol"'))
    card = model_card(tmp_path / "run", ADDRESS)
    assert "doi:10.1021/ci034243x" in section_of(card, "Data")
    assert ModelCard(card).data.datasets is None  # names there are those of data sets of the hub


def test_bounds_are_counted_separately_from_the_labels_of_a_metric(tmp_path: Path) -> None:
    rows = [f"{s},{'>' * (i % 3 == 0)}{y}" for i, (s, y) in enumerate(zip(*esol(40), strict=True))]
    (tmp_path / "in.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    sizes = {"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "epochs": 1, "base": "none"}
    library.train(tmp_path / "in.csv", output_dir=tmp_path / "run", split_sizes=(0.4, 0.2, 0.4), quiet=True, **sizes)
    test = json.loads((tmp_path / "run" / "metrics.json").read_text())["test"]["y"]
    assert test["n"] + test["censored"] == 16 and test["censored"] > 0
    counts = f"Test labels: {test['n']} of `y` (and {test['censored']} bounds, which metrics ignore)."
    assert counts in model_card(tmp_path / "run", ADDRESS)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.json", b"{"),
        ("metrics.json", b"[]"),
        ("metrics.json", b'{"test": {"y": 1}, "val": {}}'),
        ("data_report.json", b'{"rows": "many"}'),
        ("env.json", b'{"packages": 3}'),
        ("predictions.csv", b"row,split,smiles\n"),
    ],
)
def test_a_damaged_file_of_a_run(run: Path, tmp_path: Path, name: str, content: bytes) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / name).write_bytes(content)
    if name == "predictions.csv":
        assert "are not recorded" in model_card(tmp_path / "run", ADDRESS)
        return
    with pytest.raises(InputError, match="is damaged"):
        model_card(tmp_path / "run", ADDRESS)


PLAIN = st.one_of(st.text(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False))
CONTENT = st.dictionaries(
    st.sampled_from(("license", "model-index", "tags")),
    st.recursive(PLAIN, lambda x: st.one_of(st.lists(x, max_size=3), st.dictionaries(st.just("key"), x, max_size=1))),
)


@given(CONTENT)
def test_the_metadata_is_yaml(content: dict[str, object]) -> None:
    assert yaml.safe_load("\n".join(yaml_lines(content))) == content or not content


@given(st.text(min_size=1))
def test_names_stay_within_a_line_and_a_cell(name: str) -> None:
    for text in (escaped(name), code(name)):
        assert len(text.splitlines()) <= 1
        assert "|" not in text.replace("\\|", "")
    assert len(table(["a"], [[code(name)]])) == 3
