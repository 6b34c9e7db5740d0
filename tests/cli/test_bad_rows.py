"""A row on which RDKit raises, or which it misreads, is an error of that row only, in every command."""

import csv
import re
from pathlib import Path

import pytest
from rdkit import Chem

from molattn.chem import molecule
from tests.cli.conftest import QUICK, Molattn
from tests.molecules import esol

WRAPPED = ("[#119]", "[#255]", "[*H128]", "[CH200]", "[CH260]", "[C-255]", "[C+257]", "[#262]", "[65536CH4]")
"""Numbers in brackets that RDKit fails on, or reads as others."""


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return [*csv.DictReader(file)]


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A table with every bad row, a good one before each and at the end."""
    path = tmp_path / "bad.csv"
    rows = [line for i, text in enumerate(WRAPPED) for line in (f"{'C' * i}O,1", f"{text},2")]
    path.write_text("\n".join(["smiles,y", *rows, "C,3"]))
    return path


@pytest.fixture
def sulfur(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of twenty molecules, two of which have sulfur: RDKit fails on it with an unexpected error."""
    true = molecule.molecule_codes

    def fails(mol: Chem.Mol) -> object:
        if any(atom.GetSymbol() == "S" for atom in mol.GetAtoms()):
            raise IndexError("no such atom")
        return true(mol)

    monkeypatch.setattr(molecule, "molecule_codes", fails)
    smiles, values = esol(20)
    rows = [f"{s},{y}" for s, y in zip(smiles, values, strict=True) if "S" not in s]
    rows[3:3], rows[9:9] = ["CCS,1"], ["CSC,2"]
    path = tmp_path / "sulfur.csv"
    path.write_text("\n".join(["smiles,y", *rows]))
    return path


def test_a_row_that_rdkit_fails_on_is_an_error_among_predictions(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    (tmp_path / "z.csv").write_text("id,smiles\n1,CCO\n2,[#119]\n3,CC\n")
    answer = molattn("predict", run, tmp_path / "z.csv", "-o", tmp_path / "out.csv")
    assert answer.code == 0, answer.err
    rows = _rows(tmp_path / "out.csv")
    assert [(row["id"], row["smiles"], row["status"]) for row in rows] == [
        ("1", "CCO", "ok"),
        ("2", "[#119]", "error"),
        ("3", "CC", "ok"),
    ]
    assert rows[1]["y_pred"] == "" and "element 119, and the last is 118" in rows[1]["error"]


@pytest.mark.parametrize("options", [(), ("-n", 2), ("--resume",)], ids=["alone", "workers", "resume"])
def test_numbers_that_overflow_are_errors(
    molattn: Molattn, run: Path, bad: Path, tmp_path: Path, options: tuple[object, ...]
) -> None:
    answer = molattn("predict", run, bad, "-o", tmp_path / "out.csv", *options)
    assert answer.code == 0, answer.err
    rows = _rows(tmp_path / "out.csv")
    assert [row["smiles"] for row in rows] == [row["smiles"] for row in _rows(bad)]
    assert [row["status"] for row in rows] == ["ok", "error"] * len(WRAPPED) + ["ok"]
    assert all(f"the bracket {row['smiles']} at character 0" in row["error"] for row in rows[1::2])


def test_training_lists_them_as_rejected(molattn: Molattn, bad: Path, tmp_path: Path) -> None:
    answer = molattn("train", bad, "--target-columns", "y", *QUICK, "-o", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert [row["smiles"] for row in _rows(tmp_path / "run" / "rejected.csv")] == list(WRAPPED)


@pytest.mark.parametrize("name", ["bad", "sulfur"])
def test_every_command_continues_after_bad_rows(
    molattn: Molattn, run: Path, tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(name)
    bad, total = {"bad": (len(WRAPPED), 2 * len(WRAPPED) + 1), "sulfur": (2, len(_rows(path)))}[name]
    for arguments in (
        ("predict", run, path, "-o", tmp_path / "predicted.csv"),
        ("embed", run, path, "-o", tmp_path / "vectors.parquet"),
        ("attention", run, path, "-o", tmp_path / "maps.parquet"),
        ("heads", run, path),
        ("evaluate", run, path),
        ("view", run, path, "--max-rows", 100, "-o", tmp_path / "page.html"),
        ("train", path, "--target-columns", "y", *QUICK, "-o", tmp_path / "run"),
    ):
        answer = molattn(*arguments)
        assert answer.code == 0, (arguments, answer.err)
        assert re.search(rf"\b{bad} (of {total}|rows)\b", answer.err), (arguments, answer.err)


def test_explain_warns_of_excluded_smiles(molattn: Molattn, run: Path) -> None:
    answer = molattn("explain", run, "-s", "CCO", "-s", "[CH260]")
    assert answer.code == 0 and "--smiles number 1" in answer.err and "260 hydrogens" in answer.err
    answer = molattn("explain", run, "-s", "[#119]")
    assert answer.code == 3 and "the last is 118" in answer.err


def test_pretraining_excludes_them(molattn: Molattn, tmp_path: Path) -> None:
    rows = [*WRAPPED, *("C" * n + "[Si](C)(C)CCCl" for n in range(1, 20))]
    (tmp_path / "mine.csv").write_text("\n".join(["smiles", *rows]))
    small = ("--epochs", 1, "--set", "model.num_layers=1", "--set", "model.hidden_dim=16")
    answer = molattn(
        "pretrain", tmp_path / "mine.csv", *small, "--set", "training.accelerator=cpu", "-o", tmp_path / "b"
    )
    assert answer.code == 0, answer.err
    assert f"left out: {len(WRAPPED)}, it cannot be read" in answer.err
