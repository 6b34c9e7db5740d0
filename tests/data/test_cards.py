import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from molattn.data import SPLITS, read_records, read_split_file, read_table
from molattn.data.datasets import cards, folders, pins
from molattn.data.datasets.fetch import fetch_dataset
from molattn.errors import InputError, UsageError


def read(card):
    return read_records(read_table(card.path), card.smiles_column, card.target_columns)


NAMES = cards.dataset_names()
CARRIED = [name for name in NAMES if cards.load_card(name).path.is_file()]


def test_common_data_sets_are_available():
    toxicity = {"clintox", "sider", "tox21", "toxcast"}
    activity = {"bace-classification", "bace-regression", "bbbp", "hiv", "muv"}
    physics = {"esol", "freesolv", "lipophilicity", "qm7", "qm8", "qm9"}
    assert set(NAMES) >= toxicity | activity | physics | {"nci-logp", "nci-tpsa"}
    assert CARRIED == ["esol"]


@pytest.mark.parametrize("name", CARRIED)
def test_a_card_matches_its_table(name):
    card = cards.load_card(name)
    pins.verify(card)
    assert hashlib.sha256(card.path.read_bytes()).hexdigest() == card.sha256
    records = read(card)
    assert len(records.smiles) == card.rows
    assert records.rejected == []


@pytest.mark.parametrize("name", NAMES)
def test_a_card_has_the_required_fields(name):
    card = cards.load_card(name)
    assert card.file == f"{name.replace('/', '-')}.csv"
    assert card.split in SPLITS or (card.split == "official") == (card.official_split is not None)
    assert (card.task, card.metric) in {
        ("regression", "rmse"),
        ("regression", "mae"),
        ("regression", "spearman"),
        ("classification", "auroc"),
        ("classification", "auprc"),
    }
    for text in (card.title, card.source, card.licence, *card.citation, *card.notes):
        assert text.strip()
    for target in card.targets:
        assert bool(target.unit) == (card.task == "regression")
        assert target.description.endswith(".")
    # The checksum and the number of rows are stated together, once a table was verified.
    assert bool(card.sha256) == bool(card.rows)
    assert (card.download is not None) + bool(card.computed) + card.path.is_file() == 1
    if card.download is not None:
        assert set(card.download.columns) == set(card.target_columns)
        assert all(url.startswith("https://") for url in card.download.urls)
        # A URL of Dataverse has the number of a file instead of its name.
        named = [url for url in card.download.urls if "dataverse" not in url]
        assert all(url.endswith("/" + card.download.file) for url in named)


def test_the_groups_are_the_tasks_of_benchmarks_with_their_official_splits():
    found = [cards.load_card(name) for name in NAMES if cards.group_of(name)]
    assert Counter(card.group for card in found) == {"tdc": 22, "moleculeace": 20}
    for card in found:
        validation = ("tdc-scaffold", 0.125) if card.group == "tdc" else ("random", 0.1)
        assert card.official_split == cards.OfficialSplit("split", *validation)
        assert card.rows and card.sha256 and len(card.target_columns) == 1
        assert any("sha256 and rows are those of the table that molattn makes" in note for note in card.notes)
        assert re.search("unclear|CC BY|MIT", card.licence)
    # The archive of TDC is one file for all tasks; its checksum is not pinned, those of its files are.
    assert {(c.download.file, c.download.sha256) for c in found if c.group == "tdc"} == {("admet_group.zip", "")}
    assert all(c.download.sha256 for c in found if c.group == "moleculeace")


def test_names_do_not_read_the_cards(monkeypatch):
    monkeypatch.delenv(folders.DATA_VARIABLE, raising=False)
    monkeypatch.setattr(cards.tomllib, "loads", lambda _: pytest.fail("a card was read"))
    assert "tdc/herg" in cards.dataset_names()


def test_the_numbers_on_the_card_of_esol():
    card = cards.load_card("esol")
    records = read(card)
    values = defaultdict(list)
    for smiles, value in zip(records.smiles, records.targets[:, 0], strict=True):
        values[smiles].append(value)
    twice = [found for found in values.values() if len(found) > 1]
    assert card.rows == 1128
    assert [len(found) for found in twice] == [2] * 11
    assert sum(first != second for first, second in twice) == 6
    assert f"{np.std(records.targets, ddof=1):.3f}" == "2.096"
    assert any(note.startswith("11 molecules occur twice, 6 of them") for note in card.notes)
    assert any("2.096" in note for note in card.notes)


def test_the_splits_of_esol_fit_its_table():
    card = cards.load_card("esol")
    found = sorted((folders.datasets_dir() / "splits").glob("esol-*.csv"))
    names = [*(f"random{seed}" for seed in range(10)), "scaffold", "scaffold-balanced0"]
    assert {path.name for path in found} == {f"esol-{name}.csv" for name in names}
    for path in found:
        assert read_table(path).columns == ("smiles", "split")
        labels = read_split_file(path, read(card).smiles)
        # A repeated molecule that did not fit moves one row on.
        counts = [int((labels == side).sum()) for side in ("train", "val", "test")]
        assert counts == pytest.approx([902, 113, 113], abs=1)


def test_an_unknown_data_set_raises_with_the_available_ones():
    with pytest.raises(UsageError, match=r"'eslo': did you mean 'esol'\? There are bace-.*, tox21"):
        cards.load_card("eslo")
    with pytest.raises(UsageError, match="There are bace-"):
        cards.load_card("../pyproject")
    with pytest.raises(UsageError, match=r"There are bace-.*, 20 of moleculeace/, 22 of tdc/$"):
        cards.load_card("xyzzy")
    with pytest.raises(
        UsageError, match=r"did you mean 'moleculeace/CHEMBL214_Ki'\? There are moleculeace/CHEMBL1862_Ki, "
    ):
        cards.load_card("moleculeace/chembl214_ki")


def test_a_changed_or_missing_table_is_refused(tmp_path):
    card = replace(cards.load_card("esol"), folder=tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        pins.verify(card)
    data = bytearray(cards.load_card("esol").path.read_bytes())
    data[1000] ^= 1
    card.path.write_bytes(data)
    with pytest.raises(InputError, match=r"esol\.csv: sha256 is \w{64}, that in the card is a90d6ae1"):
        pins.verify(card)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rows = 1128\n", "", "the card has no 'rows'"),
        ("rows = 1128", "rows = ", "invalid card"),
        ('unit = "log10(mol/L)"\n', "", "invalid card: .*unit"),
        ('name = "esol"', 'name = "other"', "its name is 'other', that of its file is 'esol'"),
    ],
)
def test_an_invalid_card_raises_with_the_reason(tmp_path, monkeypatch, old, new, message):
    text = (folders.datasets_dir() / "esol.toml").read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "esol.toml").write_text(text.replace(old, new, 1), encoding="utf-8")
    monkeypatch.setattr(cards, "datasets_dir", lambda: tmp_path)
    with pytest.raises(InputError, match=message):
        cards.load_card("esol")


def test_the_folder_in_the_package_comes_first_and_folders_without_cards_are_skipped(tmp_path, monkeypatch):
    package = tmp_path / "molattn"
    monkeypatch.setattr(folders, "__file__", str(package / "data" / "datasets" / "folders.py"))
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "__init__.py").touch()
    with pytest.raises(InputError, match="no data sets were found"):
        folders.datasets_dir()
    (tmp_path / "datasets" / "one.toml").touch()
    assert folders.datasets_dir() == tmp_path / "datasets"
    (package / "_datasets").mkdir(parents=True)
    (package / "_datasets" / "two.toml").touch()
    assert folders.datasets_dir() == package / "_datasets"
    assert cards.dataset_names() == ("two",)


def test_reading_data_imports_neither_torch_nor_rdkit():
    code = "import sys, molattn.data; print(sorted({'torch', 'rdkit', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


INSTALLED = """
import molattn
from molattn.data import datasets_dir, load_card, read_table, verify
from molattn.data.datasets.excluded_molecules import evaluation_molecules
from molattn.training.bases import DEFAULT_BASE, bases_dir
assert molattn.__file__.startswith({site!r}), molattn.__file__
assert str(datasets_dir()) == {site!r} + "/molattn/_datasets", datasets_dir()
card = load_card("esol")
verify(card)
assert len(read_table(card.path).rows) == card.rows
assert all((datasets_dir() / "splits" / f"esol-{{name}}.csv").is_file() for name in ("random0", "random9", "scaffold"))
assert "c1ccccc1" in evaluation_molecules()
assert str(bases_dir()) == {site!r} + "/molattn/_bases", bases_dir()
assert molattn.load(bases_dir() / DEFAULT_BASE).predict("CCO").shape
print("installed")
"""


def test_every_data_set_has_a_page_in_the_documentation():
    folder = Path(__file__).parents[2] / "docs" / "reference" / "datasets"
    groups = {cards.group_of(name) for name in NAMES} - {""}
    single = {name for name in NAMES if not cards.group_of(name)}
    assert {path.stem for path in folder.glob("*.md")} == {*single, *groups, "index"}
    for name in single:
        assert f"<!-- dataset: {name} -->" in (folder / f"{name}.md").read_text(encoding="utf-8")
    for group in groups:
        assert f"<!-- dataset group: {group} -->" in (folder / f"{group}.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_data_are_in_the_wheel_and_the_sdist(tmp_path):
    root = Path(__file__).parents[2]
    clean = {"cwd": tmp_path, "capture_output": True, "text": True}
    # A copy, since a build leaves traces; only what the build reads.
    source = tmp_path / "source"
    keep = ("molattn", "datasets", "bases", "tools/release")
    for name in keep:
        shutil.copytree(root / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, source)

    # Without --wheel, `build` makes the sdist and then the wheel out of the sdist.
    for arguments, dist in ((["--wheel"], "direct"), ([], "through")):
        build = [sys.executable, "-m", "build", *arguments, "--outdir", dist, str(source)]
        done = subprocess.run(build, **clean)
        assert done.returncode == 0, done.stdout + done.stderr
        (wheel,) = (tmp_path / dist).glob("*.whl")
        # The files of the page are no Python files either.
        assert {"molattn/viewer/web/page.js", "molattn/viewer/web/page.css"} <= set(ZipFile(wheel).namelist())
        site = tmp_path / f"site-{dist}"
        install = ["-m", "pip", "install", "-q", "--no-deps", "--target", str(site), str(wheel)]
        done = subprocess.run([sys.executable, *install], **clean)
        assert done.returncode == 0, done.stdout + done.stderr
        environment = {"PYTHONPATH": str(site), "PATH": os.environ["PATH"], "XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = subprocess.run([sys.executable, "-c", INSTALLED.format(site=str(site))], env=environment, **clean)
        assert done.stdout.strip() == "installed", done.stdout + done.stderr


def test_a_card_in_a_folder_of_molattn_data_is_found_with_its_table(tmp_path, monkeypatch):
    text = (folders.datasets_dir() / "esol.toml").read_text(encoding="utf-8")
    table = "smiles,log_solubility\nCCO,1.0\n"
    (tmp_path / "mine.csv").write_text(table)
    own = re.sub(r'sha256 = ".*"', f'sha256 = "{hashlib.sha256(table.encode()).hexdigest()}"', text)
    own = own.replace('name = "esol"', 'name = "mine"').replace('file = "esol.csv"', 'file = "mine.csv"')
    (tmp_path / "mine.toml").write_text(own, encoding="utf-8")
    (tmp_path / "esol.toml").write_text("name = 'esol'\nsmiles_column = 'another'\n")
    (tmp_path / "settings.toml").write_text("[tool]\n")
    (tmp_path / "broken.toml").write_text("[")
    monkeypatch.setenv(folders.DATA_VARIABLE, str(tmp_path))
    assert set(cards.dataset_names()) == {*NAMES, "mine"}
    card, message = fetch_dataset("mine")
    assert (card.path, message) == (tmp_path / "mine.csv", "")
    assert cards.load_card("esol").smiles_column == "smiles"  # a bundled card is not replaced
