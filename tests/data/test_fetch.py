"""Fetching the table of a data set: found, downloaded or computed, once for all processes."""

import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from molattn.data import cache_dir, column, dataset_names, fetch_dataset, files, find_dataset, load_card, read_table
from molattn.data.datasets import archives
from molattn.data.datasets.fetch import UnreachableError
from molattn.errors import InputError, UsageError
from tests.data.server import serve

module = sys.modules["molattn.data.datasets.fetch"]
PUBLIC = b"iupac,smiles,expt,calc\nethanol,CCO,-5.00,-4.9\nethane,CC,1.83,2.1\n"
OWN = "smiles,hydration_free_energy\nCCO,-5.00\nCC,1.83\n"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and no data folders of the user."""
    monkeypatch.delenv("MOLATTN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "molattn" / "datasets"


@pytest.fixture
def home(monkeypatch):
    """A server with FreeSolv's public file, to which its card points."""
    with serve({"SAMPL.csv": PUBLIC}) as server:
        point(monkeypatch, urls=(server.url("SAMPL.csv"),))
        yield server


def point(monkeypatch, **download):
    """The card of FreeSolv with another download."""
    card = load_card("freesolv")
    assert card.download is not None
    changed = replace(card, download=replace(card.download, **download))
    monkeypatch.setattr(module, "load_card", lambda _: changed)


def names(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"}


def test_a_table_is_downloaded_once_in_the_columns_of_its_card_and_pinned(cache, home):
    card, notice = fetch_dataset("freesolv")
    sha256, url = hashlib.sha256(PUBLIC).hexdigest(), home.url("SAMPL.csv")
    assert notice == f"freesolv was downloaded from {url}, sha256 {sha256} (pinned from now on)"
    assert card.path.read_text() == OWN
    assert names(cache) == {"freesolv.csv", "freesolv.pin.json", "downloads/SAMPL.csv"}
    assert json.loads((cache / "freesolv.pin.json").read_text())["source_sha256"] == sha256
    assert fetch_dataset("freesolv") == (card, "")
    assert home.requested == ["SAMPL.csv"]


def test_a_pinned_file_that_its_publisher_changes_raises(cache, home):
    card, _ = fetch_dataset("freesolv")
    card.path.unlink()
    (cache / "downloads" / "SAMPL.csv").unlink()
    home.files["SAMPL.csv"] = PUBLIC.replace(b"1.83", b"1.84")
    with pytest.raises(InputError, match="is not the expected file"):
        fetch_dataset("freesolv")
    assert names(cache) == {"freesolv.pin.json"}
    home.files["SAMPL.csv"] = PUBLIC
    assert fetch_dataset("freesolv")[0].path.read_text() == OWN


@pytest.mark.usefixtures("home")
def test_a_table_that_was_changed_is_refused(cache):
    card, _ = fetch_dataset("freesolv")
    card.path.write_text(OWN.replace("1.83", "1.84"))
    with pytest.raises(InputError, match=r"freesolv\.pin\.json is .*: the file was changed or damaged; remove it"):
        fetch_dataset("freesolv")
    card.path.unlink()
    assert fetch_dataset("freesolv")[0].path.read_text() == OWN
    (cache / "freesolv.pin.json").write_text("{")
    with pytest.raises(InputError, match=r"freesolv\.pin\.json is damaged: remove it together with freesolv\.csv"):
        fetch_dataset("freesolv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"iupac,smiles,measured\nethane,CC,1.83\n", r"no column 'expt'; .*: the file is not the one .* of freesolv"),
        (b"<html>not here any more</html>\n", "no column 'smiles'"),
        (b"smiles,expt\n", "has no rows"),
        (b"smiles,expt\nCC\n", "line 2: 1 fields where the header has 2"),
    ],
)
def test_another_file_raises_and_leaves_no_table(cache, home, content, message):
    home.files["SAMPL.csv"] = content
    with pytest.raises(InputError, match=message):
        fetch_dataset("freesolv")
    assert not (cache / "freesolv.csv").exists()


def test_without_a_network_the_error_names_the_file_and_its_folder(cache, home, tmp_path):
    home.shutdown()
    home.server_close()
    with pytest.raises(UnreachableError) as error:
        fetch_dataset("freesolv")
    assert f"download {home.url('SAMPL.csv')} on another machine and copy it to {cache / 'downloads'}" in str(
        error.value
    )
    (cache / "downloads").mkdir(exist_ok=True)
    (cache / "downloads" / "SAMPL.csv").write_bytes(PUBLIC)
    card, notice = fetch_dataset("freesolv")
    assert card.path.read_text() == OWN
    assert "was read from" in notice
    # A custom folder works as well.
    assert fetch_dataset("freesolv", tmp_path / "mine")[0].path == cache / "freesolv.csv"


def test_another_address_is_tried_when_one_does_not_answer(home, monkeypatch):
    with serve({}) as gone:
        dead = gone.url("SAMPL.csv")
    point(monkeypatch, urls=(dead, home.url("SAMPL.csv")))
    assert fetch_dataset("freesolv")[0].path.read_text() == OWN


def test_data_dir_comes_first_then_the_folders_of_the_environment(home, tmp_path, monkeypatch):
    held = replace(load_card("freesolv"), sha256=hashlib.sha256(OWN.encode()).hexdigest())
    monkeypatch.setattr(module, "load_card", lambda _: held)
    for name in ("asked", "environment"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "freesolv.csv").write_text(OWN)
    monkeypatch.setenv("MOLATTN_DATA", os.pathsep.join([str(tmp_path / "nowhere"), str(tmp_path / "environment")]))
    assert fetch_dataset("freesolv")[0].folder == tmp_path / "environment"
    assert fetch_dataset("freesolv", tmp_path / "asked")[0].folder == tmp_path / "asked"
    (tmp_path / "asked" / "freesolv.csv").write_text(OWN + "C,2\n")
    with pytest.raises(InputError, match="that in the card is .*changed or damaged"):
        fetch_dataset("freesolv", tmp_path / "asked")
    assert home.requested == []


@pytest.mark.usefixtures("home")
def test_a_download_goes_to_data_dir(cache, tmp_path):
    card, _ = fetch_dataset("freesolv", tmp_path / "asked")
    assert card.folder == tmp_path / "asked"
    assert not cache.exists()
    assert find_dataset(load_card("freesolv")) is None


def test_a_folder_that_cannot_be_written_to_raises(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written to .*--data-dir"):
        fetch_dataset("freesolv", tmp_path / "file")


def test_the_columns_of_a_card_without_targets_are_all_but_the_smiles(home, monkeypatch):
    card = load_card("toxcast")
    assert card.download is not None
    home.files["toxcast_data.csv.gz"] = gzip.compress(b"smiles,A 1,B\nCC,0,\nC,1,0\n")
    changed = replace(card, download=replace(card.download, urls=(home.url("toxcast_data.csv.gz"),)))
    monkeypatch.setattr(module, "load_card", lambda _: changed)
    table = read_table(fetch_dataset("toxcast")[0].path)
    assert table.columns == ("smiles", "A 1", "B")
    assert table.rows == [["CC", "0", ""], ["C", "1", "0"]]


def test_a_column_that_a_public_file_has_twice_is_the_first(home, monkeypatch):
    card = load_card("qm8")
    assert card.download is not None
    header = ["smiles", *card.target_columns, *(c for c in card.target_columns if "PBE0" in c)]
    home.files["qm8.csv"] = (",".join(header) + "\nC," + ",".join(map(str, range(16))) + "\n").encode()
    changed = replace(card, download=replace(card.download, urls=(home.url("qm8.csv"),)))
    monkeypatch.setattr(module, "load_card", lambda _: changed)
    assert read_table(fetch_dataset("qm8")[0].path).rows == [["C", *map(str, range(12))]]


ASK = """
import sys
from dataclasses import replace
from molattn.data import load_card, fetch_dataset
card = load_card("freesolv")
module = sys.modules["molattn.data.datasets.fetch"]
module.load_card = lambda _: replace(card, download=replace(card.download, urls=(sys.argv[1],)))
print(fetch_dataset("freesolv")[0].path.read_text())
"""


def test_four_processes_on_a_cold_cache_fetch_it_once(cache, home):
    ask = [sys.executable, "-c", ASK, home.url("SAMPL.csv")]
    asking = [subprocess.Popen(ask, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0] for process in asking] == [OWN + "\n"] * 4
    assert home.requested == ["SAMPL.csv"]
    assert names(cache) == {"freesolv.csv", "freesolv.pin.json", "downloads/SAMPL.csv"}


def test_a_table_never_exists_without_its_pin(cache, home, monkeypatch):
    card = load_card("freesolv")
    assert card.download is not None
    here = replace(card, download=replace(card.download, urls=(home.url("SAMPL.csv"),)))
    monkeypatch.setattr(module, "load_card", lambda _: here)
    write, seen = module.write_text, []

    def watched(path, text):
        seen.append((cache / "freesolv.csv").exists())
        write(path, text)

    monkeypatch.setattr(module, "write_text", watched)
    assert fetch_dataset("freesolv")[0].path.is_file()
    assert seen == [False]


@pytest.mark.parametrize(("name", "what"), [("nci-logp", "log_p"), ("nci-tpsa", "tpsa")])
def test_tables_computed_by_rdkit_match_their_cards(name, what):
    card, notice = fetch_dataset(name)
    assert "was computed with RDKit" in notice
    table = read_table(card.path)
    assert len(table.rows) == card.rows
    assert hashlib.sha256(card.path.read_bytes()).hexdigest() == load_card(name).sha256
    for value, terms in zip(column(table, what), column(table, f"atom_{what}"), strict=True):
        assert sum(map(float, terms.split())) == pytest.approx(float(value), abs=1e-9)


@pytest.mark.parametrize("name", [n for n in dataset_names() if load_card(n).sha256 and load_card(n).download])
def test_available_tables_match_their_cards(name, monkeypatch):
    folder = os.environ.get("MOLATTN_TEST_DATA")
    card = load_card(name)
    if folder is None:
        # The tables are not part of molattn: without them only the fields of the cards can be checked.
        assert len(card.sha256) == 64 and card.rows
        return
    monkeypatch.setenv("MOLATTN_DATA", folder)
    found, _ = fetch_dataset(name)
    assert found.folder == Path(folder)
    table = read_table(found.path)
    assert table.columns == (card.smiles_column, *card.target_columns)
    assert len(table.rows) == card.rows


def test_the_cache_is_in_the_folder_of_the_system(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_dir() == tmp_path / ".cache" / "molattn" / "datasets"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_dir() == tmp_path / "Library" / "Caches" / "molattn" / "datasets"


def archive(path: Path, kind: str, entries: dict[str, bytes]) -> None:
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as whole:
            for name, content in entries.items():
                whole.writestr(name, content)
        return
    with tarfile.open(path, "w:gz") as whole:
        for name, content in entries.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            whole.addfile(entry, io.BytesIO(content))
        for name, target in (("link", "/etc/passwd"), ("../up", "SAMPL.csv")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            whole.addfile(entry)


@pytest.mark.parametrize(("kind", "file"), [("zip", "FreeSolv.zip"), ("tar", "FreeSolv.tar.gz")])
def test_an_archive_gives_its_one_member_and_writes_nothing(home, monkeypatch, tmp_path, kind, file):
    hostile = {"../outside.csv": b"x", "/absolute.csv": b"x", "SAMPL.csv": PUBLIC, "big.csv": b"\0" * 3_000_000}
    archive(tmp_path / file, kind, hostile)
    home.files[file] = (tmp_path / file).read_bytes()
    point(monkeypatch, urls=(home.url(file),), file=file, member="SAMPL.csv")
    assert fetch_dataset("freesolv")[0].path.read_text() == OWN
    assert names(tmp_path) == {
        file,
        *(f"cache/molattn/datasets/{n}" for n in ("freesolv.csv", "freesolv.pin.json", f"downloads/{file}")),
    }
    with pytest.raises(InputError, match="has no 'other.csv' in it"):
        archives.read_archive_member(tmp_path / file, "other.csv")
    if kind == "tar":
        with pytest.raises(InputError, match="'link' in it is not a regular file"):
            archives.read_archive_member(tmp_path / file, "link")
    monkeypatch.setattr(files, "MAX_UNPACKED", 1_000_000)
    with pytest.raises(InputError, match="unpacks to more than 1,000,000 bytes"):
        archives.read_archive_member(tmp_path / file, "big.csv")
    (tmp_path / file).write_bytes((tmp_path / file).read_bytes()[:100])
    with pytest.raises(InputError, match="is damaged, it cannot be unpacked"):
        archives.read_archive_member(tmp_path / file, "SAMPL.csv")


def test_compressed_tables_are_read_and_bombs_and_damage_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "t.tsv.gz"
    path.write_bytes(gzip.compress(b"smiles\ty\nCC\t1\n"))
    assert read_table(path).rows == [["CC", "1"]]
    whole = path.read_bytes()
    for damaged in (whole[:-9], whole[:15] + bytes([whole[15] ^ 1]) + whole[16:], b"smiles,y\n"):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"t\.tsv\.gz is damaged, it cannot be unpacked"):
            read_table(path)
    path.write_bytes(gzip.compress(b"smiles\n" + b"C" * 3_000_000))
    monkeypatch.setattr(files, "MAX_UNPACKED", 1_000_000)
    with pytest.raises(InputError, match="unpacks to more than 1,000,000 bytes"):
        read_table(path)
