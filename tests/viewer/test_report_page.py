"""The report as a document: its data, its size, and that names are only text."""

import json
import re
from pathlib import Path

import pytest

from molattn.data import load_card, read_table
from molattn.errors import UsageError
from molattn.viewer.report.comparison import align, comparison_payload
from molattn.viewer.report.document import report_document
from molattn.viewer.report.payload import report_payload
from molattn.viewer.report.run_files import read_run
from molattn.viewer.web.document import script, source
from tests.molecules import SPECIAL
from tests.viewer.run_folders import write_run
from tests.viewer.test_page import HOSTILE, Elements, content

MAX_ESOL_BYTES = 1_000_000


def report_of(folder: Path, **options: object) -> str:
    return report_document(report_payload(read_run(folder), **options))  # pyright: ignore[reportArgumentType]


def test_the_whole_of_esol_is_small(tmp_path: Path) -> None:
    table = read_table(load_card("esol").path)
    smiles, true = [row[0] for row in table.rows], [float(row[1]) for row in table.rows]
    document = report_of(write_run(tmp_path / "esol", smiles, {"y": true, "y_pred": [y + 0.25 for y in true]}))
    assert len(document.encode()) < MAX_ESOL_BYTES
    data = content(document)
    assert len(data["smiles"]) == len(data["drawings"]) == len(data["has"]) == 1128
    assert data["targets"][0]["error"] == pytest.approx([0.25] * 1128, abs=1e-4)


def test_code_and_style_are_small() -> None:
    assert len((script("report.js") + source("report.css")).encode()) <= 48_000


def test_only_the_report_s_own_script_and_style_may_run(tmp_path: Path) -> None:
    document = report_of(write_run(tmp_path / "run", ["CCO"], {"y": [1.0], "y_pred": [1.5]}))
    elements = Elements(document)
    (policy,) = [a["content"] for a, _ in elements.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    assert re.fullmatch(
        r"default-src 'none'; script-src 'sha256-\S+'; style-src 'sha256-\S+'; img-src data: blob:; "
        r"base-uri 'none'; form-action 'none'",
        policy,
    )
    assert not re.search(r"(src|href)=[\"'](?!data:,|#)", document.partition("<script")[0])
    assert "http" not in source("report.js").replace("http://www.w3.org/2000/svg", "")
    assert "innerHTML" not in source("report.js") and "style=" not in source("report.js")


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_wherever_they_come_from(tmp_path: Path, name: str) -> None:
    columns = {"y": [1.0, 2.0], "y_pred": [1.0, 2.0]}
    run = read_run(write_run(tmp_path / "run", ["CCO", "CCN"], columns))
    document = report_document(report_payload(run, names=[name, "b"], smarts={name: "O"}, note=name))
    elements = Elements(document)
    assert len(elements.all("script")) == 2 and len(elements.all("style")) == 1
    assert {tag for tag, _, _ in elements.found} <= {
        *("html", "head", "meta", "link", "title", "style", "body", "main", "noscript", "script")
    }
    data = content(document)
    assert data["names"][1] == "b"
    assert data["names"][0] == data["groups"][0] == data["note"]
    document.encode("utf-8")


def test_special_molecules_and_missing_labels_are_shown(tmp_path: Path) -> None:
    n = len(SPECIAL)
    columns = {"y": [None] * n, "y_pred": [0.5] * n}
    data = content(report_of(write_run(tmp_path / "run", SPECIAL, columns, splits=["train"] * n)))
    assert data["targets"][0]["error"] == [None] * n
    assert [data["splits"][k] for k in data["split"]] == ["train"] * n


def test_a_report_of_one_molecule_is_whole(tmp_path: Path) -> None:
    data = content(report_of(write_run(tmp_path / "run", ["C"], {"y": [1.0], "y_pred": [1.5]}, splits=["test"])))
    assert data["similarity"] == [None]
    assert data["sections"][0]["id"] == "metrics"


def test_classes_and_several_targets_have_sections_of_their_own(tmp_path: Path) -> None:
    columns = {"a": [0.0, 1.0], "a_pred": [0.25, 0.75], "b": [1.0, None], "b_pred": [0.5, 0.5]}
    task = {"kind": "binary", "classes": [["no", "yes"], ["0", "1"]]}
    data = content(report_of(write_run(tmp_path / "run", ["CCO", "CCN"], columns, task=task)))
    assert [t["name"] for t in data["targets"]] == ["a", "b"]
    assert data["targets"][0]["classes"] == ["no", "yes"]
    assert data["targets"][1]["error"] == [0.5, None]
    assert [s["target"] for s in data["sections"] if s["id"] == "cliffs"] == [0, 1]


def test_bounds_are_shown_as_they_are(tmp_path: Path) -> None:
    columns = {"y": [1.0, None], "y_pred": [1.0, 2.0], "y_bound": ["", ">10.0"]}
    data = content(report_of(write_run(tmp_path / "run", ["CCO", "CCN"], columns)))
    assert data["targets"][0]["bounds"] == ["", ">10.0"]


def test_a_smarts_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", ["CCO"], {"y": [1.0], "y_pred": [1.5]})
    with pytest.raises(UsageError, match=r"'\[OX2H', the SMARTS of 'hydroxyl', cannot be read"):
        report_of(folder, smarts={"hydroxyl": "[OX2H"})


def test_runs_of_one_name_are_distinguished_by_their_paths(tmp_path: Path) -> None:
    columns = {"y": [1.0], "y_pred": [1.5]}
    runs = [read_run(write_run(tmp_path / parent / "run", ["CCO"], columns)) for parent in ("a", "b")]
    data = content(report_document(comparison_payload(*align(*runs))))
    assert data["runs"] == [str(tmp_path / "a" / "run"), str(tmp_path / "b" / "run")]
    json.dumps(data, allow_nan=False)
