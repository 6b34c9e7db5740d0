"""Atom-level targets from the table to the prediction: lists in, lists out, in the order of the SMILES."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rdkit import Chem

import molattn as library
from molattn.chem import MoleculeGraph, molecule_graph, read_smiles
from molattn.errors import MolattnWarning, UsageError
from tests.cli.conftest import QUICK, Molattn
from tests.molecules import esol

SMILES, _ = esol(40)
GRAPHS = [molecule_graph(s) for s in SMILES]
WORTH = {"C": 0.5, "O": -1.0, "N": 1.5}


def _lists(of: Callable[[str], object]) -> list[list[object]]:
    return [[of(symbol) for symbol in g.symbols] for g in GRAPHS]


def _write(path: Path, **columns: list[list[object]]) -> Path:
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["smiles", *columns])
        cells = [[json.dumps(x) for x in lists] for lists in columns.values()]
        table.writerows(zip(SMILES, *cells, strict=True))
    return path


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def _worth(g: MoleculeGraph) -> list[float]:
    return [WORTH.get(s, 0.0) + 0.1 * i for i, s in enumerate(g.symbols)]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A list for each molecule, one label missing, and in line 4 a list that is too short."""
    lists: list[list[object]] = [list(_worth(g)) for g in GRAPHS]
    lists[0][0] = None
    lists[2] = lists[2][1:]
    return _write(tmp_path_factory.mktemp("atoms") / "t.csv", q=lists)


@pytest.fixture(scope="module")
def run(numbers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("atoms") / "run"
    settings = ("model.num_layers=2", "model.hidden_dim=16", "training.accelerator=cpu")
    with pytest.warns(MolattnWarning, match="1 row is left out"):
        library.train(numbers, output_dir=folder, epochs=2, settings=settings, quiet=True)
    return folder


@pytest.mark.finished_runs
def test_a_list_of_the_wrong_length_is_named_and_the_others_are_learned(
    molattn: Molattn, numbers: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    answer = molattn("train", numbers, *QUICK, "-o", folder)
    assert answer.code == 0
    assert "task: atom-regression, q holds lists of numbers; --task-type overrides it" in answer.err
    n = GRAPHS[2].num_atoms
    wrong = f"line 4: column 'q': {n - 1} values for the {n} atoms of '{SMILES[2]}'"
    assert f"1 row is left out, see rejected.csv; the first, {wrong}" in answer.err
    assert "atoms of test molecules" in answer.out
    assert (folder / "plots" / "parity.png").exists()
    metrics = json.loads((folder / "metrics.json").read_text())
    rows = _rows(folder / "predictions.csv")
    assert [r["smiles"] for r in rows] == [*SMILES[:2], *SMILES[3:]]
    # Metrics are over all labelled atoms of a subset, the baseline predicts the mean of the training atoms.
    sides = {}
    for side in ("train", "val", "test"):
        mine = [(json.loads(r["q"]), json.loads(r["q_pred"])) for r in rows if r["split"] == side]
        assert all(len(y) == len(p) for y, p in mine)
        y, p = (np.array([x for lists in part for x in lists], dtype=float) for part in zip(*mine, strict=True))
        sides[side] = y[np.isfinite(y)]
        assert metrics[side]["q"]["n"] == len(sides[side])
        assert metrics[side]["q"]["rmse"] == pytest.approx(np.sqrt(np.nanmean((y - p) ** 2)))
        far = sides[side] - sides["train"].mean()
        assert metrics["baseline"][side]["q"]["mae"] == pytest.approx(np.abs(far).mean())
    assert sum(map(len, sides.values())) == sum(g.num_atoms for g in GRAPHS) - n - 1
    # The saved settings reproduce the run.
    assert molattn("train", "--config", folder / "config.toml", "-o", tmp_path / "again", "-q").code == 0
    assert (folder / "metrics.json").read_bytes() == (tmp_path / "again" / "metrics.json").read_bytes()


def test_predictions_follow_the_atoms_of_the_smiles_as_written(run: Path) -> None:
    predictor, draw = library.load(run), np.random.default_rng(0)
    for smiles in SMILES[::4]:
        mol = read_smiles(smiles)
        shuffled = draw.permutation(mol.GetNumAtoms())
        renumbered = Chem.RenumberAtoms(mol, shuffled.tolist())
        spelled = Chem.MolToSmiles(renumbered, canonical=False)
        order = shuffled[list(renumbered.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"])]
        a, b = predictor.predict([smiles, spelled])
        np.testing.assert_allclose(b, a[order], atol=1e-5)


def test_python_returns_a_list_of_arrays_with_an_empty_one_for_a_bad_smiles(run: Path, numbers: Path) -> None:
    predictor = library.load(run)
    with pytest.warns(MolattnWarning, match="1 of 3 SMILES have no prediction .*row 1, 'C1CC'"):
        answers = predictor.predict([SMILES[3], "C1CC", "C"])
    assert [a.shape for a in answers] == [(GRAPHS[3].num_atoms,), (0,), (1,)]
    np.testing.assert_allclose(predictor.predict(SMILES[3]), answers[0], atol=1e-6)
    result = predictor.evaluate(numbers)
    assert result.targets.shape == (sum(g.num_atoms for g in GRAPHS) - GRAPHS[2].num_atoms, 1)
    assert [r.line for r in result.rejected] == [4]
    metrics = json.loads((run / "metrics.json").read_text())
    squares = sum(metrics[s]["q"]["rmse"] ** 2 * metrics[s]["q"]["n"] for s in ("train", "val", "test"))
    assert result.metrics["q"]["rmse"] == pytest.approx((squares / result.metrics["q"]["n"]) ** 0.5, rel=1e-6)
    attention = predictor.attention("CCO")
    assert attention.num_atoms == 3
    assert attention.prediction == {}
    with pytest.raises(UsageError, match="no embedding of a molecule"):
        predictor.embed("CCO")


def test_tables_get_columns_of_lists_in_row_order(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    smiles = ["CCO", "C1CC", *SMILES[:5], "", "[H]C([H])([H])O"]
    (tmp_path / "in.csv").write_text("\n".join(["name,smiles", *(f"m{i},{s}" for i, s in enumerate(smiles))]) + "\n")
    answers = {}
    for out in (tmp_path / "out.csv", tmp_path / "out.parquet"):
        assert molattn("predict", run, tmp_path / "in.csv", "-o", out).code == 0
        rows = _rows(out) if out.suffix == ".csv" else pq.read_table(out).to_pylist()
        assert [r["name"] for r in rows] == [f"m{i}" for i in range(len(smiles))]
        assert [r["status"] for r in rows] == ["ok", "error", *["ok"] * 5, "error", "ok"]
        answers[out.suffix] = [r["q_pred"] for r in rows]
    assert pq.read_schema(tmp_path / "out.parquet").field("q_pred").type == pa.list_(pa.float64())
    for text, values in zip(answers[".csv"], answers[".parquet"], strict=True):
        assert (text == "") == (values is None)
        if values is not None:
            assert json.loads(text) == pytest.approx(values, rel=1e-6, abs=1e-12)
    counts = [None if v is None else len(v) for v in answers[".parquet"]]
    assert counts == [3, None, *(g.num_atoms for g in GRAPHS[:5]), None, 2]
    printed = molattn("predict", run, "--smiles", "CCO").out.splitlines()[1]
    assert printed.startswith("CCO") and printed.count(",") == 2
    (row,) = json.loads(molattn("predict", run, "--smiles", "CCO", "--json").out)
    assert row["q"] == pytest.approx(answers[".parquet"][0], abs=1e-6)


def test_embed_of_a_model_of_atoms_is_refused_and_writes_no_file(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("smiles\nCCO\n")
    answer = molattn("embed", run, tmp_path / "in.csv", "-o", tmp_path / "out.parquet")
    assert answer.code == 2
    assert "no embedding of a molecule" in answer.err
    assert [p.name for p in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.finished_runs
def test_several_binary_columns_with_folds(molattn: Molattn, tmp_path: Path) -> None:
    oxygen, nitrogen = _lists(lambda s: int(s == "O")), _lists(lambda s: int(s == "N"))
    nitrogen[5] = [None] * len(nitrogen[5])
    table = _write(tmp_path / "t.csv", oxygen=oxygen, nitrogen=nitrogen)
    wanted = ("--target-columns", "oxygen", "--target-columns", "nitrogen")
    answer = molattn("train", table, *wanted, *QUICK, "--class-balance", "--num-folds", "2", "-o", tmp_path / "run")
    assert answer.code == 0
    assert "task: atom-binary, 2 targets hold lists of only 0 and 1" in answer.err
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    values = metrics["mean"]["test"]["auroc"]["values"]
    assert len(values) == 2
    assert (tmp_path / "run" / "fold_0" / "plots" / "classification-oxygen.png").exists()
    answers = library.load(tmp_path / "run" / "fold_0").predict(["CCO", "C"])
    assert [a.shape for a in answers] == [(3, 2), (1, 2)]
    assert all(((a > 0) & (a < 1)).all() for a in answers)


@pytest.mark.finished_runs
def test_strings_of_atoms_are_classes(molattn: Molattn, tmp_path: Path) -> None:
    kind = _lists(lambda s: s if s in ("C", "O") else "other")
    run = tmp_path / "run"
    assert molattn("train", _write(tmp_path / "t.csv", kind=kind), *QUICK, "-o", run).code == 0
    predictor = library.load(run)
    assert predictor.task.name == "atom-multiclass"
    assert predictor.task.classes == (("C", "O", "other"),)
    probabilities = predictor.predict("CCO")
    assert probabilities.shape == (3, 3)
    np.testing.assert_allclose(probabilities.sum(1), 1)
    (tmp_path / "in.csv").write_text("smiles\nCCO\nC1CC\n")
    assert molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "out.parquet", "-q").code == 0
    first, second = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert first["kind_pred"] == [("C", "O", "other")[i] for i in probabilities.argmax(1)]
    assert first["kind_prob_O"] == pytest.approx(probabilities[:, 1].tolist())
    assert second["kind_pred"] is None
    assert json.loads(_rows(run / "predictions.csv")[0]["kind"]) == kind[0]
    assert (run / "plots" / "confusion.png").exists()
    answer = molattn("evaluate", run, tmp_path / "t.csv", "--json")
    assert json.loads(answer.out)["targets"]["kind"]["n"] == sum(g.num_atoms for g in GRAPHS)


def test_lists_of_a_frame_and_of_parquet_are_those_of_a_csv(tmp_path: Path, run: Path, numbers: Path) -> None:
    lists = [json.loads(r["q"]) for r in _rows(numbers)]
    pq.write_table(pa.table({"smiles": SMILES, "q": pa.array(lists, pa.list_(pa.float64()))}), tmp_path / "t.parquet")
    predictor = library.load(run)
    expected, found = predictor.evaluate(numbers), predictor.evaluate(tmp_path / "t.parquet")
    np.testing.assert_array_equal(found.targets, expected.targets)
    assert found.metrics == expected.metrics


def test_hydrogens_are_atoms_with_add_hs(molattn: Molattn, tmp_path: Path) -> None:
    whole = [molecule_graph(s, add_hs=True) for s in SMILES]
    lists: list[list[object]] = [[float(s == "H") for s in g.symbols] for g in whole]
    table = _write(tmp_path / "t.csv", h=lists)
    answer = molattn("train", table, *QUICK, "-o", tmp_path / "run")
    assert answer.code == 3  # two molecules have no hydrogens
    assert "hydrogens are not atoms of the graph, even those written as [H]" in answer.err
    assert molattn("train", table, *QUICK, "--add-hs", "-o", tmp_path / "run", "-q").code == 0
    assert library.load(tmp_path / "run").predict("CO").shape == (6,)


def test_an_sdf_trains_the_same_model_as_a_csv_of_its_smiles(molattn: Molattn, tmp_path: Path) -> None:
    """RDKit's property lists, over hydrogens too and in any order of the atoms; a list that does not fit is named."""
    lists, draw = [], np.random.default_rng(0)
    with Chem.SDWriter(str(tmp_path / "t.sdf")) as writer:
        for smiles in SMILES:
            mol = Chem.AddHs(Chem.MolFromSmiles(smiles))
            mol = Chem.RenumberAtoms(mol, draw.permutation(mol.GetNumAtoms()).tolist())
            for atom in mol.GetAtoms():
                atom.SetDoubleProp("q", WORTH.get(atom.GetSymbol(), 0.0) + atom.GetDegree())
            Chem.CreateAtomDoublePropertyList(mol, "q")
            writer.write(mol)
            written = Chem.CanonSmiles(smiles)
            lists.append([a.GetDoubleProp("q") for a in _same_atoms(mol, written)])
        short = Chem.MolFromSmiles("CCO")
        short.SetProp("atom.dprop.q", "1 2")
        writer.write(short)
    rows = [f'{Chem.CanonSmiles(s)},"{json.dumps(y)}"' for s, y in zip(SMILES, lists, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["smiles,atom.dprop.q", *rows]) + "\n")
    answers = {}
    for kind in ("csv", "sdf"):
        answers[kind] = molattn("train", tmp_path / f"t.{kind}", *QUICK, "-o", tmp_path / kind)
        assert answers[kind].code == 0
    assert (tmp_path / "csv" / "metrics.json").read_bytes() == (tmp_path / "sdf" / "metrics.json").read_bytes()
    err = answers["sdf"].err
    assert "task: atom-regression, atom.dprop.q holds lists of numbers" in err
    assert "38 records have values of hydrogens, which are left out; the first, record 2; --add-hs" in err
    assert "record 41: column 'atom.dprop.q': 2 values for the 3 atoms of the record" in err
    measured = molattn("evaluate", tmp_path / "csv", tmp_path / "t.sdf", "--json")
    assert json.loads(measured.out)["targets"]["atom.dprop.q"]["n"] == sum(map(len, lists))
    # Predictions are written with the SMILES whose atom order they follow; the list of the record is unchanged.
    assert molattn("predict", tmp_path / "csv", tmp_path / "t.sdf", "-o", tmp_path / "out.csv").code == 0
    row = _rows(tmp_path / "out.csv")[0]
    assert len(json.loads(row["atom.dprop.q_pred"])) == molecule_graph(row["smiles"]).num_atoms
    assert f"\n{row['atom.dprop.q']}\n" in (tmp_path / "t.sdf").read_text()
    # In an SDF they follow the atoms of the record, where RDKit reads them.
    assert molattn("predict", tmp_path / "csv", tmp_path / "t.sdf", "-o", tmp_path / "out.sdf").code == 0
    rows = _rows(tmp_path / "out.csv")
    for mol, row in zip(Chem.SDMolSupplier(str(tmp_path / "out.sdf"), removeHs=False), rows, strict=True):
        values = json.loads(row["atom.dprop.q_pred"])
        atoms = _same_atoms(mol, row["smiles"])
        assert [a.GetDoubleProp("q_pred") for a in atoms] == pytest.approx(values)
        assert sum(a.HasProp("q_pred") for a in mol.GetAtoms()) == len(values)


def _same_atoms(mol: Chem.Mol, smiles: str) -> list[Chem.Atom]:
    """The atoms of `mol` in the order of another spelling of it."""
    return [mol.GetAtomWithIdx(i) for i in mol.GetSubstructMatch(Chem.MolFromSmiles(smiles), useChirality=True)]


@pytest.mark.slow
def test_the_card_of_a_data_set_names_its_targets_of_atoms(molattn: Molattn, tmp_path: Path) -> None:
    """Of all molecules, with the smallest of models: what each atom adds to log P is far from its mean."""
    small = ("--epochs", "1", "--set", "model.num_layers=1", "--set", "model.hidden_dim=8", "--accelerator", "cpu")
    small += ("--set", "model.num_heads=2", "--batch-size", "64", "--set", "training.learning_rate=0.01")
    answer = molattn("train", "--dataset", "nci-logp", "--task-type", "atom-regression", *small, "-o", tmp_path / "run")
    assert answer.code == 0
    assert "atom_log_p in log10(ratio), " in answer.out
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["units"] == {"atom_log_p": "log10(ratio)"}
    assert metrics["test"]["atom_log_p"]["rmse"] < 0.7 * metrics["baseline"]["test"]["atom_log_p"]["rmse"]
    assert "of atoms" in molattn("datasets", "show", "nci-logp").out
