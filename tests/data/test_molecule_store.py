"""Molecules from the store are equal to those that are read from SMILES.

They are read once by any number of processes, also after crashes and damage.
"""

import json
import os
import random
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import RDConfig

from molattn.chem import ConformerOptions, canonical_smiles, featurize, molecule_graph, read_smiles, smiles_tokens
from molattn.chem import tokenize_all as tokenized
from molattn.data.datasets.folders import molecule_cache_dir
from molattn.data.store import ragged
from molattn.data.store.batches import collate, collate_tokens
from molattn.data.store.cache import HEADER, Featurization, _code_texts, cached_molecules
from molattn.data.store.packing import GraphPacking, TokenPacking
from molattn.errors import ConformerError, SmilesError, UsageError
from tests.chem.hostile import HOSTILE
from tests.chem.molecules import CAGES, DRUGLIKE, MIRRORED, ODD, STEREO
from tests.data.fill_store import logged, reading
from tests.molecules import SPECIAL

ROOT = Path(__file__).parents[2]
SMALL = [*SPECIAL, *DRUGLIKE, *STEREO, *MIRRORED, *CAGES, *ODD]
MANY = [*SMALL, *(text for text, _ in HOSTILE if isinstance(text, str) and len(text) < 2000)]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("MOLATTN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "molecules"


def nci(step: int) -> list[str]:
    """Every `step`-th of the 4,999 molecules of the NCI that RDKit includes."""
    lines = (Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi").read_text().splitlines()
    return [line.split("\t")[0] for line in lines if line.strip()][::step]


def same(found: Any, wanted: Any) -> bool:
    """Whether two molecules, or two errors, are equal in all fields."""
    if isinstance(wanted, SmilesError):
        return type(found) is type(wanted) and (found.smiles, found.reason) == (wanted.smiles, wanted.reason)
    if hasattr(wanted, "atom_codes"):
        return found == wanted and (found.distances is None) == (wanted.distances is None)
    fields = ("smiles", "encoded_smiles", "labels", "warnings")
    return all(getattr(found, f) == getattr(wanted, f) for f in fields) and np.array_equal(found.codes, wanted.codes)


@pytest.mark.parametrize("add_hs", [False, True])
def test_graphs_are_what_reading_gives(add_hs: bool) -> None:
    smiles = [*MANY, *nci(20)]
    wanted = featurize(smiles, add_hs=add_hs)
    found = cached_molecules(smiles, _reads_with(add_hs=add_hs)).molecules
    assert len(found) == len(wanted) > 300
    assert sum(isinstance(w, SmilesError) for w in wanted) > 20
    for i, w in enumerate(wanted):
        assert same(found[i], w), smiles[i]
    sizes = [0 if isinstance(w, SmilesError) else w.num_atoms for w in wanted]
    assert found.sizes.tolist() == sizes
    warned = [(i, w.warnings) for i, w in enumerate(wanted) if not isinstance(w, SmilesError) and w.warnings]
    assert list(found.warnings) == warned
    assert len(warned) > 2
    keys = [
        "" if isinstance(w, SmilesError) else canonical_smiles(read_smiles(s))
        for s, w in zip(smiles, wanted, strict=True)
    ]
    assert found.canonical_smiles == keys


def _reads_with(**how: Any) -> Featurization:
    return reading(partial(molecule_graph, **how), **how)


@pytest.mark.slow
def test_all_molecules_of_the_nci_are_what_reading_gives() -> None:
    smiles = nci(1)
    found = cached_molecules(smiles, _reads_with()).molecules
    assert all(same(f, w) for f, w in zip(found, featurize(smiles), strict=True))


def test_tokens_are_what_reading_gives() -> None:
    smiles = [*MANY, *nci(50)]
    wanted = tokenized(smiles)
    how = Featurization(featurize=smiles_tokens, packing=TokenPacking(), settings={})
    found = cached_molecules(smiles, how).molecules
    assert all(same(f, w) for f, w in zip(found, wanted, strict=True))
    kept = np.flatnonzero(found.sizes)
    ours, theirs = collate_tokens(found[kept]), collate_tokens([w for w in wanted if not isinstance(w, SmilesError)])
    assert torch.equal(ours.codes, theirs.codes)


def test_distances_are_what_reading_gives() -> None:
    smiles = ["C", "[Na+].[Cl-]", "CCO", "C1CC2CC1=C2", "C1CC", "OB(O)C", "F/C=C/[C@H](O)Cl"]
    for policy in ("paths", "reject"):
        c = ConformerOptions(on_failure=policy)
        make = partial(molecule_graph, conformers=c)
        how = Featurization(featurize=make, packing=GraphPacking(distances=True), settings={"policy": policy})
        found, wanted = cached_molecules(smiles, how).molecules, featurize(smiles, conformers=c)
        assert all(same(f, w) for f, w in zip(found, wanted, strict=True))
        assert isinstance(wanted[3], ConformerError) == (policy == "reject")
        kept = [i for i, w in enumerate(wanted) if not isinstance(w, SmilesError)]
        _equal(collate(found[kept]), collate([wanted[i] for i in kept]))
    how = Featurization(
        featurize=make, packing=GraphPacking(distances=True), settings={"policy": "stop"}, stop_on_conformer_error=True
    )
    with pytest.raises(ConformerError) as raised:
        cached_molecules(smiles, how)
    assert raised.value.row == 3
    assert not [p for p in molecule_cache_dir().iterdir() if p.suffix == ".tmp"]


def _equal(ours: Any, theirs: Any) -> None:
    for name, x in vars(theirs).items():
        y = getattr(ours, name)
        assert (x is None and y is None) or (x.dtype == y.dtype and torch.equal(x, y)), name


_STORE: dict[str, Any] = {}


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_batch_of_rows_is_that_of_their_molecules(data: st.DataObject) -> None:
    if not _STORE:
        _STORE["graphs"] = [m for m in featurize(SMALL) if not isinstance(m, SmilesError)]
        whole = cached_molecules(SMALL, _reads_with()).molecules
        _STORE["store"] = whole[np.flatnonzero(whole.sizes)]
    graphs, store = _STORE["graphs"], _STORE["store"]
    rows = data.draw(st.lists(st.integers(-len(graphs), len(graphs) - 1), min_size=1, max_size=12))
    part = data.draw(st.slices(len(rows)))
    chosen = store[rows]
    assert [m.smiles for m in chosen] == chosen.smiles == [graphs[i].smiles for i in rows]
    assert chosen[part].smiles == [graphs[i].smiles for i in rows[part]]
    labels = np.arange(len(rows), dtype=float)[:, None]
    _equal(collate(chosen, labels), collate([graphs[i] for i in rows], labels))


def test_released_pages_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ragged, "ROWS_PER_RELEASE", 5)
    found = cached_molecules(SMALL, _reads_with()).molecules
    for _ in range(2):
        assert all(same(f, w) for f, w in zip(found, featurize(SMALL), strict=True))


def _fails(smiles: object) -> Any:
    raise AssertionError(f"{smiles} is read again")


def test_stored_molecules_are_not_read_again() -> None:
    first = cached_molecules(SMALL, reading(molecule_graph, a=1))
    assert (first.folder, first.warning) == (None, "")
    calls: list[tuple[int, int]] = []
    again = cached_molecules(SMALL, reading(_fails, a=1), progress=lambda *t: calls.append(t))
    assert again.folder is not None and again.folder.parent == molecule_cache_dir()
    assert not calls
    assert all(same(f, w) for f, w in zip(again.molecules, first.molecules, strict=True))


@pytest.mark.parametrize(
    ("smiles", "how"),
    [
        (["CCO", "C"], {"a": 1}),  # the order
        (["C", "CCO", "C"], {"a": 1}),
        (["C", "OCC"], {"a": 1}),
        (['C", "CCO'], {"a": 1}),
        (["C", "CCO"], {"a": 2}),
        (["C", "CCO"], {}),
    ],
)
def test_other_molecules_or_settings_are_read(smiles: list[str], how: dict[str, int]) -> None:
    cached_molecules(["C", "CCO"], reading(molecule_graph, a=1))
    other = cached_molecules(smiles, reading(molecule_graph, **how))
    assert other.folder is None
    assert len(other.molecules) == len(smiles)


def test_another_version_reads_the_molecules_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("version", lambda _: "0"),
        ("rdkit_version", lambda: "0"),
        ("_code_digest", lambda: "changed"),
    ):
        cached_molecules(["C"], _reads_with())
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules["molattn.data.store.cache"], name, value)
            assert cached_molecules(["C"], _reads_with()).folder is None, name


def test_the_code_is_that_of_the_modules_and_of_the_compiled_reader() -> None:
    texts = _code_texts()
    for name in ("chem/bonds.py", "chem/parse.py", "kernels/csrc/binary.c", "kernels/csrc/cip.h"):
        assert (ROOT / "molattn" / name).read_text("utf-8") in texts, name


def test_an_empty_list_of_molecules() -> None:
    for smiles in ([], ["", "x"]):
        found = cached_molecules(smiles, _reads_with()).molecules
        assert len(found) == len(smiles)
        assert not found.sizes.any()
        assert all(isinstance(m, SmilesError) for m in found)


def test_the_number_of_workers_does_not_change_the_result(cache: Path) -> None:
    smiles = MANY[:60]
    one = cached_molecules(smiles, _reads_with()).molecules
    (cache / _only(cache)).rename(cache / "elsewhere")
    two = cached_molecules(smiles, _reads_with(), num_workers=2).molecules
    assert all(same(f, w) for f, w in zip(one, two, strict=True))


def _only(cache: Path) -> str:
    (name,) = [p.name for p in cache.iterdir() if p.is_dir()]
    return name


def dies(smiles: object, on_molecule: Any = None) -> Any:
    """Read one; some end the process."""
    if str(smiles) == "CO":
        os._exit(9)
    return molecule_graph(smiles, on_molecule=on_molecule)


def test_a_row_at_which_a_process_died_is_tried_again() -> None:
    first = cached_molecules(["C", "CO"], reading(dies), num_workers=1)
    assert "ended its process" in first.molecules[1].reason
    second = cached_molecules(["C", "CO"], reading(molecule_graph))
    assert second.folder is None
    assert second.molecules[1].num_atoms == 2
    assert cached_molecules(["C", "CO"], reading(_fails)).folder is not None


def test_damage_is_found_and_the_molecules_are_read_again(cache: Path) -> None:
    few = [*SMALL[::12], "[2H]C", "C1CC"]
    wanted = featurize(few)
    rng = random.Random(0)
    cached_molecules(few, _reads_with())
    folder = cache / _only(cache)
    files = sorted(p for p in folder.iterdir() if p.stat().st_size)
    assert len(files) == 13, "six columns, their offsets, and the header"
    tried = 0
    for file in files:
        whole = file.read_bytes()
        for damaged in (whole[:-1], b"", None, _flipped(whole, rng)):
            if damaged is None:
                file.unlink()
            else:
                file.write_bytes(damaged)
            again = cached_molecules(few, _reads_with())
            if file.name != HEADER:
                assert again.folder is None, file.name
            assert all(same(f, w) for f, w in zip(again.molecules, wanted, strict=True))
            assert cached_molecules(few, reading(_fails)).folder == folder
            tried += 1
    assert tried == 4 * 13


def _flipped(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]


def test_a_renamed_store_is_rejected(cache: Path) -> None:
    cached_molecules(["C"], _reads_with())
    first = _only(cache)
    cached_molecules(["CC"], _reads_with())
    (second,) = [p for p in cache.iterdir() if p.is_dir() and p.name != first]
    for file in second.iterdir():
        file.write_bytes((cache / first / file.name).read_bytes())
    (found,) = cached_molecules(["CC"], _reads_with()).molecules
    assert found.num_atoms == 2


def test_a_cache_writable_by_others_is_not_used(cache: Path) -> None:
    cached_molecules(["C"], _reads_with())
    key = cache / _only(cache)
    for folder, again in ((key, False), (cache, False), (cache.parent, False), (cache, True)):
        folder.chmod(0o777)
        stored = cached_molecules(["C"], _reads_with())
        assert stored.folder is None and stored.molecules[0].num_atoms == 1
        if folder == key:  # created again, in its own folder
            assert not stored.warning and not key.stat().st_mode & 0o022
        else:
            assert f"(others may write to {folder}, where" in stored.warning.replace(f"{cache}: ", "", 1)
        folder.chmod(0o1777 if again else 0o755)  # like /tmp: no user can move files of another
        assert cached_molecules(["C"], reading(_fails)).folder == key


def test_a_cache_of_another_user_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached_molecules(["C"], _reads_with())
    key, true = (cache / _only(cache)).resolve(), Path.stat

    def stat(path: Path, **options: Any) -> os.stat_result:  # only root can give files away
        about = [*true(path, **options)]
        about[4] = 12345 if path == key else about[4]
        return os.stat_result(about)

    monkeypatch.setattr(Path, "stat", stat)
    cache.chmod(0o1777)
    stored = cached_molecules(["C"], _reads_with())
    assert stored.folder is None and stored.molecules[0].num_atoms == 1


def test_a_link_in_the_cache_is_followed_to_where_others_may_write(cache: Path, tmp_path: Path) -> None:
    cached_molecules(["C"], _reads_with())
    key = cache / _only(cache)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    moved = key.rename(tmp_path / "open" / "molecules")
    key.symlink_to(moved)
    stored = cached_molecules(["C"], _reads_with())
    assert stored.folder is None and stored.molecules[0].num_atoms == 1


def test_a_read_only_home_does_not_stop_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MOLATTN_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for home in ("/proc/1", str(tmp_path / "file" / "home")):
        (tmp_path / "file").touch()
        monkeypatch.setenv("HOME", home)
        stored = cached_molecules(["C"], _reads_with())
        assert stored.molecules[0].num_atoms == 1
        assert home in stored.warning and "set MOLATTN_CACHE to a folder" in stored.warning


def test_a_read_only_cache_does_not_stop_a_run(cache: Path) -> None:
    cache.parent.mkdir()
    cache.write_text("this is no folder")
    found, folder, warning = cached_molecules(SMALL, _reads_with())
    assert folder is None
    assert warning.startswith("the molecules are not cached (")
    assert str(cache) in warning and "MOLATTN_CACHE" in warning
    assert all(same(f, w) for f, w in zip(found, featurize(SMALL), strict=True))


def _no_folder(prefix: str, **_: object) -> None:
    raise OSError(28, "No space left on device", prefix)


def test_no_writable_folder_is_an_error_of_one_sentence(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.parent.mkdir()
    cache.write_text("this is no folder")
    monkeypatch.setattr("tempfile.TemporaryDirectory", _no_folder)
    with pytest.raises(UsageError, match="nor can they be written to"):
        cached_molecules(["C"], _reads_with())


def _start(tmp_path: Path, smiles: list[str], killed_at: int = -1) -> subprocess.Popen[str]:
    (tmp_path / "smiles").write_text("\n".join(smiles))
    arguments = [str(tmp_path / "log"), str(tmp_path / "smiles"), str(killed_at), str(tmp_path / "start")]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.data.fill_store", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_write_leaves_no_invalid_store(tmp_path: Path, cache: Path) -> None:
    smiles = [s for s in nci(4) if " " not in s]  # more than the write buffer
    (tmp_path / "start").touch()
    killed = _start(tmp_path, smiles, killed_at=len(smiles) - 5)
    killed.communicate(timeout=120)
    assert killed.returncode == -9
    assert len((tmp_path / "log").read_bytes()) == len(smiles) - 5
    (left,) = [p for p in cache.iterdir() if p.suffix != ".lock"]
    assert left.suffix == ".tmp" and sum(p.stat().st_size for p in left.iterdir()) > 100_000
    # Another data set finds the leftover files, too.
    cached_molecules(["C"], _reads_with())
    assert not left.exists()
    log = tmp_path / "again"
    found = cached_molecules(smiles, reading(partial(logged, log=str(log), killed_at=-1)))
    assert found.folder is None
    assert len(log.read_bytes()) == len(smiles)
    assert all(same(f, w) for f, w in zip(found.molecules[::20], featurize(smiles[::20]), strict=True))


def test_the_header_is_plain(cache: Path) -> None:
    cached_molecules(["C", "C1CC"], _reads_with(add_hs=True))
    header = json.loads((cache / _only(cache) / HEADER).read_text())
    assert header["dependencies"]["settings"] == {"add_hs": True}
    assert header["dependencies"]["rows"] == 2


def test_a_mask_selects_molecules():
    store = cached_molecules(["C", "CC", "CCC"], reading(molecule_graph)).molecules
    assert store[np.array([True, False, True])].smiles == ["C", "CCC"]
    assert store[[1, 0, 1]].smiles == ["CC", "C", "CC"]
