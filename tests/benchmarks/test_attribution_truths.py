"""The comparison of attributions with true contributions: the truth stays at its atoms, and the measures are right."""

import zipfile

import numpy as np
import pytest
from attribution_truths import MEASURES, _exact, _fragments, _ibenchmark, prepare, summary, table, unmeasured
from rdkit import Chem

from molattn.chem import atom_contributions


@pytest.fixture
def data(tmp_path):
    """Files as those of the two benchmarks, of few molecules."""
    smiles = ["CCO", "Oc1ccccc1", "CCN", "CC(=O)O", "CCCl", "CC#N"] * 5
    lines = ["Compound ID,smiles,Exp_logp", *(f"{i},{text},0" for i, text in enumerate(smiles))]
    (tmp_path / "crippen_smiles.csv").write_text("\n".join(lines))
    np.savez(tmp_path / "crippen_traintest_indices.npz", train_index=np.arange(24), test_index=np.arange(24, 30))
    (tmp_path / "ibenchmark").mkdir()
    for side in ("train", "test"):
        blocks = []
        for text in ("OCCN", "NC(C)=O", "CCO"):
            mol = Chem.MolFromSmiles(text)
            symbols = [atom.GetSymbol() for atom in mol.GetAtoms()]
            labels = ",".join("1" if symbol == "N" else "0" for symbol in symbols)
            blocks.append(
                f"{Chem.MolToMolBlock(mol)}> <activity>\n{symbols.count('N')}\n\n> <lbls>\n{labels}\n\n$$$$\n"
            )
        with zipfile.ZipFile(tmp_path / "ibenchmark" / f"N_{side}_lbl.zip", "w") as archive:
            archive.writestr(f"N_{side}_lbl.sdf", "".join(blocks))
    return tmp_path


def test_true_contributions_stay_with_their_atoms(data):
    rows = list(_ibenchmark(data, "N"))
    assert [row[0] for row in rows] == ["train"] * 3 + ["test"] * 3
    for _, smiles, y, truth in rows:
        symbols = [atom.GetSymbol() for atom in Chem.MolFromSmiles(smiles).GetAtoms()]
        assert truth.tolist() == [float(symbol == "N") for symbol in symbols] and truth.sum() == y


def test_no_label_of_a_test_molecule_is_in_the_table(data, tmp_path):
    task = prepare(data, "crippen", tmp_path, 5)
    lines = [line.split(",") for line in task.table.read_text().splitlines()[1:]]
    assert {row[2] for row in lines} == {"train", "val", "test"}
    assert len([row for row in lines if row[2] != "test"]) == 24
    validation = [row[:2] for row in lines if row[2] == "val"]
    assert all(row[:2] in validation for row in lines if row[2] == "test")
    assert len(task.smiles) == len(task.truth) == 5 and not task.binary
    for smiles, truth in zip(task.smiles, task.truth, strict=True):
        np.testing.assert_allclose(truth, atom_contributions(smiles, "log_p"))


def test_with_the_exact_log_p_terms_are_those_of_hand_calculation(data, tmp_path):
    """Ethanol from its fragments CH4, H2O, C2H6 and CH3OH: the middle carbon is first in a third of the orders."""
    task = prepare(data, "crippen", tmp_path, 5)
    found = _exact(task)
    i = task.smiles.index("CCO")
    c, o, cc, co, cco = (atom_contributions(smiles, "log_p").sum() for smiles in ("C", "O", "CC", "CO", "CCO"))
    wanted = [
        ((cco - co) / 3 + (cc - c) / 6 + (cco - co) / 6),
        ((cc - c) / 3 + (co - o) / 3),
        ((cco - cc) / 3 + (cco - cc) / 6 + (co - c) / 6),
    ]
    np.testing.assert_allclose(found["exact log P: fragment-shapley"][i], wanted, atol=1e-9)
    for values, truth in zip(found["truth, ties at random"], task.truth, strict=True):
        np.testing.assert_allclose(values, truth, atol=1e-8)
    assert _exact(prepare(data, "N", tmp_path, 5)) == {}


@pytest.mark.parametrize("name", MEASURES)
def test_the_truth_has_the_best_score_and_its_opposite_the_worst(name):
    truth = np.array([0.0, 1.0, 0.0, 1.0]) if name == "AUROC" else np.array([0.1, -0.4, 0.9, 0.3])
    measure = MEASURES[name]
    assert measure(3 * truth, truth) == pytest.approx(1)
    assert measure(-truth, truth) == pytest.approx(0 if name == "AUROC" else -1)


def test_fragments_have_the_atoms_within_their_radius():
    counts, places = _fragments("CCO")
    assert {code: len(found) for code, found in places.items()} == counts
    assert sorted(tuple(atoms) for found in places.values() for atoms in found) == [
        (0,), (0, 1), (0, 1, 2), (1,), (1, 2), (2,),
    ]  # fmt: skip


def test_the_interval_is_around_the_mean():
    found = summary([0.0, 1.0] * 50)
    assert found["low"] < found["mean"] == 0.5 < found["high"] < 0.65


def test_the_table_shows_which_means_are_over_fewer_molecules():
    few, all_ = summary([0.25] * 3), summary([0.5] * 5)
    scores = {"molattn: occlusion": {"AUROC": all_}, "chemprop: Myerson values": {"AUROC": few}}
    rows = table({"N": {"molecules": 5, "scores": scores}}).splitlines()
    assert rows[2] == "| occlusion | 0.50 (0.50 to 0.50) |"
    assert rows[3] == "| chemprop: Myerson values | 0.25 (0.25 to 0.25; 3 molecules) |"


def test_the_page_names_the_tasks_without_myerson_values():
    results = {"crippen": {"scores": {"chemprop: Myerson values": {}}}, "N": {"scores": {"molattn: occlusion": {}}}}
    assert unmeasured(results).endswith("not measured for N.")
    del results["N"]
    assert unmeasured(results) == ""
