"""Preparing a data set: every row is accounted for, and the split is as configured."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from molattn.chem import MoleculeGraph
from molattn.data import SPLITS, SPLITS_BY_TARGET, datasets_dir, load_card
from molattn.errors import InputError, UsageError
from molattn.models.graph_model import GraphModel
from molattn.training.config import DataConfig
from molattn.training.prepare import prepare
from molattn.training.table_source import is_path
from tests.molecules import esol

SMILES, VALUES = esol(30)
_prepare = partial(prepare, model=GraphModel)


def _table(path: Path, rows: list[tuple[str, str]]) -> DataConfig:
    path.write_text("smiles,y\n" + "".join(f"{s},{y}\n" for s, y in rows))
    return DataConfig(dataset=str(path))


GOOD = [(s, str(y)) for s, y in zip(SMILES, VALUES, strict=True)]


def test_all_rows_of_esol_are_used() -> None:
    dataset = _prepare(DataConfig(dataset="esol"), seed=0)
    assert len(dataset.molecules) == len(dataset.smiles) == 1128
    assert not dataset.rejected
    assert dataset.units == ("log10(mol/L)",)
    assert dataset.sha256 == load_card("esol").sha256
    assert [g.smiles for g in dataset.molecules] == dataset.smiles
    counts = [len(dataset.indices(split)) for split in ("train", "val", "test")]
    assert sum(counts) == 1128
    assert counts == pytest.approx([902, 113, 113], abs=2)
    # Repeated molecules are in one split.
    assert not dataset.warnings


def test_a_name_with_a_dot_is_not_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLATTN_DATA", str(tmp_path))
    (tmp_path / "esol.v2.toml").write_text('name = "esol.v2"\nsmiles_column = "smiles"\n')
    assert [is_path(text) for text in ("esol", "esol.v2", "esol.v3", "t.csv")] == [False, False, True, True]
    monkeypatch.chdir(tmp_path)
    for name in ("esol", "esol.v2"):
        (tmp_path / name).touch()
        assert is_path(name)


def test_a_split_file_is_used_unchanged_and_its_leakage_is_reported() -> None:
    file = datasets_dir() / "splits" / "esol-random0.csv"
    dataset = _prepare(DataConfig(dataset="esol", splits_file=str(file)), seed=0)
    assert [len(dataset.indices(split)) for split in ("train", "val", "test")] == [902, 113, 113]
    assert [line.rpartition(",")[2] for line in file.read_text().split()[1:]] == dataset.split_labels.tolist()
    (warning,) = dataset.warnings
    assert "6 molecules are in more than one subset" in warning
    assert "used unchanged" in warning


@pytest.mark.parametrize("split", [*SPLITS, *SPLITS_BY_TARGET])
def test_every_split_method_works_by_name(split: str) -> None:
    dataset = _prepare(DataConfig(dataset="esol", split=split), seed=0)
    counts = [len(dataset.indices(split)) for split in ("train", "val", "test")]
    assert counts == pytest.approx([902, 113, 113], abs=2)
    assert not dataset.warnings


def test_a_split_column_assigns_the_split(tmp_path: Path) -> None:
    sides = [("train", "validation", "", "Test", "train")[i % 5] for i in range(len(GOOD))]
    lines = [f"{smiles},{side},{y}" for (smiles, y), side in zip(GOOD, sides, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,set,y", *lines]) + "\n")
    data = DataConfig(dataset=str(tmp_path / "t.csv"), split_column="set")
    dataset = _prepare(data, seed=0)
    assert dataset.config.target_columns == ("y",)
    assert dataset.split_labels.tolist() == [("train", "val", "", "test", "train")[i % 5] for i in range(len(GOOD))]
    with pytest.raises(UsageError, match="has no column 'sets'"):
        _prepare(replace(data, split_column="sets", target_columns=("y",)), seed=0)


@pytest.mark.parametrize(
    ("split", "num_folds"), [("random", 1), ("random", 3), ("stratified", 1), ("stratified", 3), ("kennard-stone", 1)]
)
def test_a_group_is_in_one_split(tmp_path: Path, split: str, num_folds: int) -> None:
    # Spaces around a group name are ignored; a row in the middle cannot be used.
    lines = [f"{smiles},{y}, batch {i % 7}{' ' * (i % 2)}" for i, (smiles, y) in enumerate(GOOD)]
    lines[4:4] = ["C1CC,1,batch 0"]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,y,batch", *lines]) + "\n")
    data = DataConfig(str(tmp_path / "t.csv"), group_column="batch", split=split, num_folds=num_folds, fold=0)
    dataset = _prepare(data, seed=0)
    assert dataset.groups == [f"batch {i % 7}" for i in range(len(GOOD))]
    sides: dict[str, str] = {}
    for group, side in zip(dataset.groups, dataset.split_labels[dataset.rows], strict=True):
        assert sides.setdefault(group, side) == side
    assert set(sides.values()) == {"train", "val", "test"}
    assert len(dataset.warnings) == 1 and "1 row is left out" in dataset.warnings[0]


def test_a_group_in_two_splits_of_a_split_column_is_reported_by_rows_of_the_table(tmp_path: Path) -> None:
    sides = [("train", "val", "test")[i % 3] for i in range(len(GOOD))]
    lines = [f"{s},{y},{side},g{i // 2}" for i, ((s, y), side) in enumerate(zip(GOOD, sides, strict=True))]
    lines[:1] = ["C1CC,1,train,g0", f"{GOOD[2][0]},1,val,g0"]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,y,set,g", *lines]) + "\n")
    data = DataConfig(str(tmp_path / "t.csv"), split_column="set", group_column="g", target_columns=("y",))
    _, molecules, groups = _prepare(data, seed=0).warnings
    assert molecules.startswith("1 molecule is in more than one subset of the split, 2 rows in all")
    assert "in val and test, rows 1, 3" in molecules and "column 'set' is used unchanged" in molecules
    assert groups.startswith(f"{len(GOOD) // 2 - 1} groups are in more than one subset of the split")
    assert "'g1' in train and test, rows 3, 4" in groups and groups.endswith("column 'set' is used unchanged")


def test_bad_rows_are_reported_and_the_others_are_unchanged(tmp_path: Path) -> None:
    rows = list(GOOD)
    rows[3:3] = [("C1CC", "1.0"), ("", "2.0")]
    rows[10:10] = [("CCO", "N/D"), ("CCC", "")]
    dataset = _prepare(_table(tmp_path / "t.csv", rows), seed=0)
    assert [r.row for r in dataset.rejected] == [3, 4, 10, 11]
    assert [r.line for r in dataset.rejected] == [5, 6, 12, 13]
    assert [g.smiles for g in dataset.molecules] == SMILES
    np.testing.assert_array_equal(dataset.targets[:, 0], VALUES)
    assert dataset.warnings[0] == "1 cell of column 'y' is read as missing: 'N/D' (1)"
    assert dataset.warnings[1].startswith("4 rows are left out, see rejected.csv; the first, line 5:")
    assert len(dataset.rows) + len(dataset.rejected) == len(dataset.smiles) == len(rows)


def test_two_smiles_of_one_molecule_are_in_one_split(tmp_path: Path) -> None:
    pairs = [(s, t) for n in range(1, 8) for s, t in [("O" + "C" * n, "C" * n + "O"), ("N" + "C" * n, "C" * n + "N")]]
    rows = [(s, "1.0") for s, _ in pairs] + [(t, "2.0") for _, t in pairs]
    dataset = _prepare(_table(tmp_path / "t.csv", rows), seed=1)
    assert dataset.split_labels[: len(pairs)].tolist() == dataset.split_labels[len(pairs) :].tolist()


def test_the_only_other_column_is_the_target(tmp_path: Path) -> None:
    dataset = _prepare(_table(tmp_path / "t.csv", GOOD), seed=0)
    assert dataset.config.smiles_column == "smiles"
    assert dataset.config.target_columns == ("y",)
    assert dataset.name == "t"


def test_ambiguous_target_columns_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,smiles,y\na,C,1\n")
    with pytest.raises(UsageError, match="--target-columns: .* has name, y"):
        _prepare(DataConfig(dataset=str(tmp_path / "t.csv")), seed=0)


def test_no_usable_row_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no row can be used; the first, line 2"):
        _prepare(_table(tmp_path / "t.csv", [("C1CC", "1"), ("x", "2")]), seed=0)


def test_too_few_molecules_for_three_splits_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        _prepare(_table(tmp_path / "t.csv", GOOD[:2]), seed=0)


def test_a_missing_data_set_is_an_error() -> None:
    with pytest.raises(UsageError, match="--dataset esol"):
        _prepare(DataConfig(), seed=0)


def test_an_unknown_split_method_is_an_error() -> None:
    with pytest.raises(UsageError, match="choose one of random, scaffold"):
        _prepare(DataConfig(dataset="esol", split="randum"), seed=0)


def test_molecules_that_the_codes_cannot_represent_are_reported(tmp_path: Path) -> None:
    dataset = _prepare(_table(tmp_path / "t.csv", [*GOOD, ("[C+7]", "1.0")]), seed=0)
    assert any("[C+7]" in w for w in dataset.warnings)


def test_hydrogens_become_atoms_on_request(tmp_path: Path) -> None:
    config = _table(tmp_path / "t.csv", GOOD)
    with_hs = _prepare(DataConfig(dataset=config.dataset, add_hs=True), seed=0)
    assert all("H" in g.symbols for g in with_hs.molecules if "C" in g.symbols and len(g.symbols) > 8)


def test_the_number_of_workers_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = _table(tmp_path / "t.csv", GOOD)
    one = _prepare(config, seed=0)
    monkeypatch.setenv("MOLATTN_CACHE", str(tmp_path / "another"))
    two = _prepare(config, seed=0, num_workers=2)
    assert list(one.molecules) == list(two.molecules)
    assert one.molecules.canonical_smiles == two.molecules.canonical_smiles
    assert two.cache_folder is None


def test_molecules_are_read_once_whatever_their_targets(tmp_path: Path) -> None:
    rows = [("C1CC", "1.0"), ("[2H]C", "1.0"), *GOOD]
    first = _prepare(_table(tmp_path / "t.csv", rows), seed=0)
    other = [(s, str(-i)) for i, (s, _) in enumerate(rows)]
    again = _prepare(_table(tmp_path / "u.csv", other), seed=1)
    assert first.cache_folder is None
    assert again.cache_folder is not None
    assert list(again.molecules) == list(first.molecules)
    assert [(r.row, r.line, r.reason) for r in again.rejected] == [(r.row, r.line, r.reason) for r in first.rejected]
    assert again.warnings == first.warnings
    assert again.targets[1] == -2


IMPOSSIBLE = [("C1CC2CC1=C2", "1.0"), ("C1#CC1", "2.0")]


def _with_3d(path: Path, policy: str) -> DataConfig:
    data = _table(path, [*GOOD[:3], *IMPOSSIBLE, *GOOD[3:], ("OB(O)C", "1.0")])
    return replace(data, conformers=True, on_3d_failure=policy)


def test_molecules_whose_distances_are_path_lengths_are_counted(tmp_path: Path) -> None:
    dataset = _prepare(_with_3d(tmp_path / "t.csv", "paths"), seed=0)
    assert len(dataset.molecules) == len(GOOD) + 3
    assert all(m.distances is not None for m in dataset.molecules if isinstance(m, MoleculeGraph))
    without, unoptimized = dataset.warnings
    assert without.startswith("2 molecules have no 3D geometry; the first, C1CC2CC1=C2: distances are path lengths")
    assert unoptimized.startswith("1 molecule has a 3D geometry that is not optimized; the first, OB(O)C: ")


def test_molecules_without_a_geometry_can_be_left_out(tmp_path: Path) -> None:
    dataset = _prepare(_with_3d(tmp_path / "t.csv", "reject"), seed=0)
    assert [(r.line, r.smiles) for r in dataset.rejected] == [(5, "C1CC2CC1=C2"), (6, "C1#CC1")]
    assert "RDKit finds no 3D geometry" in dataset.rejected[0].reason
    assert dataset.warnings[0].startswith("2 rows are left out, see rejected.csv; the first, line 5:")


def test_a_molecule_without_a_geometry_can_stop_the_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"t\.csv, line 5: 'C1CC2CC1=C2': RDKit finds no 3D .*--on-3d-failure paths"):
        _prepare(_with_3d(tmp_path / "t.csv", "stop"), seed=0)


def test_without_3d_no_molecule_is_embedded(tmp_path: Path) -> None:
    dataset = _prepare(replace(_with_3d(tmp_path / "t.csv", "stop"), conformers=False), seed=0)
    assert all(m.distances is None for m in dataset.molecules if isinstance(m, MoleculeGraph))
    assert not dataset.warnings
