"""Data sets of benchmark groups: found as they are published, unpacked or in an archive, or downloaded."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from molattn.data import column, fetch_dataset, load_card, read_table
from molattn.data.datasets.fetch import has_public_file
from molattn.errors import InputError
from tests.data.groups import NUM_TEST, NUM_TRAIN, esol_smiles, moleculeace_file, tdc_files, write_files, zip_files
from tests.data.server import serve

module = sys.modules["molattn.data.datasets.fetch"]
TASK, TARGET = "tdc/caco2_wang", "moleculeace/CHEMBL2034_Ki"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no data folders of the user."""
    monkeypatch.delenv("MOLATTN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "molattn" / "datasets"


def check_task(path: Path) -> None:
    """The table of the task has the rows of both files, in their order and with their cells."""
    table = read_table(path)
    assert table.columns == ("smiles", "log_permeability", "split")
    assert column(table, "smiles") == esol_smiles()
    assert column(table, "split") == ["train"] * NUM_TRAIN + ["test"] * NUM_TEST
    files = tdc_files("caco2_wang").values()
    cells = [line.rpartition(",")[2] for text in files for line in text.splitlines()[1:]]
    assert column(table, "log_permeability") == cells


@pytest.mark.parametrize("layout", ["the cache of TDC's package", "a folder for each task"])
def test_a_task_of_tdc_is_found_unpacked(
    layout: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tdc_files("caco2_wang")
    if layout.startswith("a folder"):
        files = {name.replace("admet_group/", "tdc/"): text for name, text in files.items()}
    data = write_files(tmp_path / "data", files)
    assert not has_public_file(load_card(TASK))
    monkeypatch.setenv("MOLATTN_DATA", str(data))
    assert has_public_file(load_card(TASK)) and not has_public_file(load_card("tdc/herg"))
    card, message = fetch_dataset(TASK)
    assert f"{TASK} was read from {data}" in message
    # The molecules are made up: the warning is that the table is not the published one.
    assert "the table is not the one of the card, which has 910 rows" in message
    assert card.path == cache / "tdc-caco2_wang.csv"
    check_task(card.path)
    assert json.loads((cache / "tdc-caco2_wang.pin.json").read_text())["rows"] == NUM_TRAIN + NUM_TEST
    assert fetch_dataset(TASK) == (card, "")


def test_the_archive_of_tdc_is_downloaded_once_for_all_tasks(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = zip_files(tdc_files("caco2_wang") | tdc_files("herg", is_binary=True))
    with serve({"4426004": archive}) as server:
        for_tests = {}
        for name in (TASK, "tdc/herg"):
            card = load_card(name)
            assert card.download is not None
            for_tests[name] = replace(card, download=replace(card.download, urls=(server.url("4426004"),)))
        monkeypatch.setattr(module, "load_card", for_tests.__getitem__)
        card, message = fetch_dataset(TASK)
        assert "was downloaded from http://127.0.0.1" in message and "pinned from now on" in message
        check_task(card.path)
        other, message = fetch_dataset("tdc/herg")
        assert "was read from" in message and "admet_group.zip" in message
        assert set(column(read_table(other.path), "blocker")) == {"0", "1"}
        assert server.requested == ["4426004"]
    card.path.unlink()
    check_task(fetch_dataset(TASK)[0].path)  # from the archive, without a network
    (cache / "downloads" / "admet_group.zip").write_bytes(zip_files(tdc_files("herg")))
    card.path.unlink()
    with pytest.raises(InputError, match="sha256 is .* is expected"):
        fetch_dataset(TASK)


def test_an_archive_without_the_task_is_refused(cache: Path) -> None:
    (cache / "downloads").mkdir(parents=True)
    (cache / "downloads" / "admet_group.zip").write_bytes(zip_files(tdc_files("herg")))
    with pytest.raises(InputError, match=r"has no 'admet_group/caco2_wang/train_val\.csv' in it"):
        fetch_dataset(TASK)
    assert not (cache / "tdc-caco2_wang.csv").exists()


def test_a_target_of_moleculeace_keeps_its_split_and_cliffs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write_files(tmp_path / "data", {f"{TARGET}.csv": moleculeace_file()})
    with pytest.raises(InputError, match="CHEMBL2034_Ki.csv: sha256 is .* is expected"):
        fetch_dataset(TARGET, data)
    card = load_card(TARGET)
    assert card.download is not None
    unpinned = replace(card, download=replace(card.download, sha256=""))
    monkeypatch.setattr(module, "load_card", lambda _: unpinned)
    found, _ = fetch_dataset(TARGET, data)
    table = read_table(found.path)
    assert found.path == data / "moleculeace-CHEMBL2034_Ki.csv"
    assert table.columns == ("smiles", "pki", "split", "cliff")
    public = read_table(data / f"{TARGET}.csv")
    for name, published in (("smiles", "smiles"), ("pki", "y [pEC50/pKi]"), ("split", "split"), ("cliff", "cliff_mol")):
        assert column(table, name) == column(public, published)
