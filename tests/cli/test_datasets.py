"""`molattn datasets`: the list, the cards, and the paths of the tables."""

import hashlib
import json
from pathlib import Path

import pytest

from molattn.data import dataset_names, group_of, load_card
from tests.cli.conftest import QUICK, Molattn


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOLATTN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_all_are_listed(molattn: Molattn) -> None:
    answer = molattn("datasets", "list")
    assert answer.code == 0
    for name in dataset_names():
        assert (name in answer.out) == (not group_of(name))
    assert "tdc/  the 22 tasks of a benchmark: molattn datasets list tdc" in answer.out
    lines = answer.out.splitlines()
    assert lines[0].split() == ["name", "rows", "targets", "task", "unit", "table"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:] if line and not line.startswith(" ")}
    assert rows["esol"] == ["1,128", "1", "regression", "log10(mol/L)", "here"]
    assert rows["tox21"] == ["7,831", "12", "classification", "download"]
    assert rows["sider"] == ["classification", "download"]  # neither rows nor targets are known before
    assert lines[lines.index(next(x for x in lines if x.startswith("esol "))) + 1].strip() == load_card("esol").title
    assert max(map(len, lines[:-2])) <= 80
    answer = molattn("datasets", "list", "tdc")
    rows = {line.split()[0]: line.split()[1:] for line in answer.out.splitlines() if line.startswith("tdc/")}
    assert len(rows) == 22 and rows["tdc/caco2_wang"] == ["910", "1", "regression", "log10(cm/s)", "download"]
    assert answer.out.endswith("molattn train --dataset tdc/ames\n")
    refused = molattn("datasets", "list", "tcd")
    assert refused.code == 2 and "'tcd'" in refused.err and "tdc" in refused.err
    listed = {d["name"]: d for d in json.loads(molattn("datasets", "list", "--json").out)}
    assert set(listed) == set(dataset_names())
    assert listed["esol"]["path"] == str(load_card("esol").path)
    assert listed["esol"]["rows"] == 1128 and listed["hiv"]["rows"] is None
    assert listed["hiv"]["path"] is None and listed["hiv"]["task"] == "classification"


def test_a_card_is_shown(molattn: Molattn) -> None:
    answer = molattn("datasets", "show", "freesolv")
    assert answer.code == 0
    for text in ("kcal/mol", "hydration_free_energy", "SAMPL.csv", "642", "Mobley"):
        assert text in answer.out
    assert "unknown before the first download" in molattn("datasets", "show", "toxcast").out
    shown = json.loads(molattn("datasets", "show", "qm8", "--json").out)
    assert shown["metric"] == "mae" and not shown["sha256"] and len(shown["targets"]) == 12


def test_an_unknown_name_is_refused(molattn: Molattn) -> None:
    answer = molattn("datasets", "show", "freesov")
    assert answer.code == 2 and "there is no data set 'freesov': did you mean 'freesolv'?" in answer.err
    answer = molattn("train", "--dataset", "xyzzy")
    assert answer.code == 2 and "a table of your own is a path, such as my.csv. There are bace-" in answer.err


def test_a_generated_data_set_is_cached(molattn: Molattn, tmp_path: Path) -> None:
    answer = molattn("datasets", "get", "nci-tpsa")
    path = tmp_path / "cache" / "molattn" / "datasets" / "nci-tpsa.csv"
    assert answer.code == 0 and str(path) in answer.out and "was computed with RDKit" in answer.err
    again = json.loads(molattn("datasets", "get", "nci-tpsa", "--json").out)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    assert again == {"name": "nci-tpsa", "path": str(path), "rows": 4756, "sha256": sha256}
    listed = {d["name"]: d["path"] for d in json.loads(molattn("datasets", "list", "--json").out)}
    assert listed["nci-tpsa"] == str(path)


def test_a_damaged_table_is_reported_in_the_list(
    molattn: Molattn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "freesolv.csv").write_text("smiles,hydration_free_energy\nCC,1\n")
    monkeypatch.setenv("MOLATTN_DATA", str(tmp_path))
    answer = molattn("datasets", "list")
    assert answer.code == 0 and "damaged" in answer.out and "that in the card is fb029937" in answer.err


def test_training_by_name_takes_a_table_from_a_folder(molattn: Molattn, tmp_path: Path) -> None:
    # A card without a checksum accepts any table with its columns.
    rows = [f"{'C' * i}{end},{i}.5" for i in range(1, 11) for end in ("O", "N", "Cl")]
    (tmp_path / "bace-regression.csv").write_text("\n".join(["smiles,pic50", *rows]) + "\n")
    run = tmp_path / "run"
    answer = molattn("train", "--dataset", "bace-regression", "--data-dir", tmp_path, *QUICK, "-o", run)
    assert answer.code == 0, answer.err
    assert "pic50 in -log10(mol/L)" in answer.out
    assert f'data_dir = "{tmp_path}"' in (run / "config.toml").read_text()


def test_the_rows_of_a_downloaded_table_are_known(molattn: Molattn, tmp_path: Path) -> None:
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "bace.csv").write_text("mol,CID,Class,Model,pIC50\nCCO,a,1,Train,7\nCCN,b,0,Test,5\n")
    answer = molattn("datasets", "get", "bace-regression", "--data-dir", tmp_path)
    assert answer.code == 0, answer.err
    assert ["rows", "2"] in [
        x.split() for x in molattn("datasets", "show", "bace-regression", "--data-dir", tmp_path).out.splitlines()
    ]
    listed = json.loads(molattn("datasets", "list", "--json", "--data-dir", tmp_path).out)
    assert {d["name"]: d["rows"] for d in listed}["bace-regression"] == 2


def test_training_learns_every_column_where_the_card_names_none(molattn: Molattn, tmp_path: Path) -> None:
    rows = [f"{'C' * i}{end},{i % 2},{'' if i == 3 else 1}" for i in range(1, 11) for end in ("O", "N", "Cl")]
    (tmp_path / "sider.csv").write_text("\n".join(['smiles,Eye disorders,"Neoplasms, all"', *rows]) + "\n")
    run = tmp_path / "run"
    answer = molattn("train", "--dataset", "sider", "--data-dir", tmp_path, *QUICK, "-o", run, "--json")
    assert answer.code == 0, answer.err
    assert list(json.loads(answer.out)["test"]) == ["Eye disorders", "Neoplasms, all"]
