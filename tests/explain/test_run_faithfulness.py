"""Faithfulness of a run: the choice of molecules and of the ground truth, and the stored results."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rdkit import Chem

from molattn.chem import MoleculeGraph, atom_contributions, molecule_graph
from molattn.data import load_card
from molattn.errors import InputError, MolattnWarning, SmilesError, UsageError
from molattn.explain import run_faithfulness
from molattn.explain.faithfulness import Faithfulness, MethodScores
from molattn.explain.faithfulness_file import FILE
from molattn.explain.run_faithfulness import (
    EvaluationMolecules,
    ground_truth_property,
    measure_run,
    molecules_of_run,
    molecules_of_table,
)
from molattn.inference import Predictor
from molattn.models.artifact_file import save_artifact
from tests.explain.test_attributions import artifact_of, model_of

ARTIFACT = artifact_of(model_of(num_layers=0, readout="sum"))
SMILES = ["CCO", "C1CC", "CCN", "CCCl", "CCF", "OCC=O"]
NOTHING = MethodScores(None, None, None, None, None)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with predictions for a split, and the name of the data set."""
    rows = [f"{'train' if i % 3 == 1 else 'test'},{s},1.0" for i, s in enumerate(["CCCC", "CC", *SMILES])]
    (tmp_path / "predictions.csv").write_text("\n".join(["split,smiles,y", *rows]) + "\n")
    (tmp_path / "config.toml").write_text('[data]\ndataset = "nci-logp"\n')
    save_artifact(tmp_path / "model", ARTIFACT)
    return tmp_path


def read(smiles: Any) -> list[MoleculeGraph | SmilesError]:
    return [SmilesError(s, "a ring is open") if s == "C1CC" else molecule_graph(s) for s in smiles]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Any]]:
    """The arguments of `measure_faithfulness`, which is replaced."""
    calls: list[tuple[list[str], Any]] = []

    def measure_faithfulness(
        artifact: Any, molecules: list[MoleculeGraph], target: Any, true_contributions: Any, **more: Any
    ) -> Faithfulness:
        assert artifact is ARTIFACT and (true_contributions is None or callable(true_contributions))
        calls.append(
            ([m.smiles for m in molecules], {"target": target, "true_contributions": true_contributions, **more})
        )
        return Faithfulness(target or "y", "cm", len(molecules), 0, {"random": NOTHING}, {})

    monkeypatch.setattr(run_faithfulness, "measure_faithfulness", measure_faithfulness)
    return calls


def test_the_molecules_of_a_run_are_its_test_molecules(run: Path) -> None:
    test = [s for i, s in enumerate(["CCCC", "CC", *SMILES]) if i % 3 != 1]
    assert molecules_of_run(run) == EvaluationMolecules(test, "nci-logp", "test")
    (run / "predictions.csv").unlink()
    with pytest.raises(UsageError, match=r"has no predictions.csv, which lists .* pass a table"):
        molecules_of_run(run)


def test_the_molecules_of_a_table_are_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_text("name,smiles,other\na,CC,C\nb,CCC,N\n")
    assert (
        molecules_of_table(path) == molecules_of_table(str(path)) == EvaluationMolecules(["CC", "CCC"], "some.csv", "")
    )
    assert molecules_of_table(path, "other").smiles == ["C", "N"]
    path.write_text(",smiles\n0,CC\n")
    with pytest.warns(MolattnWarning, match="column 1 has no name"):
        assert molecules_of_table(path).smiles == ["CC"]


def test_the_molecules_of_an_sdf_are_its_structures_not_a_property_called_smiles(tmp_path: Path) -> None:
    mol = Chem.MolFromSmiles("CCO")
    mol.SetProp("smiles", "N")
    with Chem.SDWriter(str(tmp_path / "some.sdf")) as writer:
        writer.write(mol)
    assert molecules_of_table(tmp_path / "some.sdf").smiles == ["CCO"]


def test_a_data_set_is_called_by_its_name_a_table_by_its_file_and_a_bare_run_by_its_folder(run: Path) -> None:
    for dataset, name in (("esol", "esol"), ("/some/where/own.csv", "own.csv"), ("", "")):
        (run / "config.toml").write_text(f'[data]\ndataset = "{dataset}"\n')
        assert molecules_of_run(run).data == name
    (run / "config.toml").write_text("[training]\nepochs = 1\n")
    assert molecules_of_run(run).data == ""
    (run / "config.toml").write_text("[data]\ndataset = 3\n")
    with pytest.raises(InputError, match="has the data set 3: it is damaged"):
        molecules_of_run(run)
    (run / "config.toml").unlink()
    assert molecules_of_run(run).data == run.name


def test_there_is_ground_truth_for_targets_computed_by_rdkit(run: Path) -> None:
    card = load_card("nci-logp")
    assert card.computed and ground_truth_property(run, card.target_columns[0]) == card.computed
    assert ground_truth_property(run, "another") == ""
    (run / "config.toml").write_text('[data]\ndataset = "own.csv"\n')
    assert ground_truth_property(run, card.target_columns[0]) == ""
    (run / "config.toml").write_text('[data]\ndataset = "esol"\n')
    assert ground_truth_property(run, load_card("esol").target_columns[0]) == load_card("esol").computed


def test_readable_molecules_are_measured_and_the_results_stored(run: Path, calls: list) -> None:
    progress = lambda done, total: None  # noqa: ARG005, E731
    found = measure_run(ARTIFACT, read, str(run), methods=("additive",), seed=3, progress=progress)
    test = [s for i, s in enumerate(["CCCC", "CC", *SMILES]) if i % 3 != 1]
    readable = [s for s in test if s != "C1CC"]
    assert calls[0][0] == readable
    # All are measured as 1.0; the training molecules are partners, and make no pairs among themselves.
    pairs = calls[0][1].pop("pairs")
    assert pairs and all(pair.change == 0 for pair in pairs)
    assert all({pair.first.smiles, pair.second.smiles} & set(readable) for pair in pairs)
    assert calls[0][1] == {
        "target": None,
        "true_contributions": None,
        "methods": ("additive",),
        "max_edits": 100,
        "max_stability": 30,
        "seed": 3,
        "progress": progress,
    }
    assert [e.smiles for e in found.rejected] == [s for s in test if s == "C1CC"]
    assert (found.num_candidates, found.ground_truth_property, found.faithfulness.num_molecules) == (
        len(readable),
        "",
        len(readable),
    )
    record = json.loads((run / FILE).read_text())["targets"]["y"]
    assert record == found.record
    assert (record["data"], record["split"], record["truth"]) == ("nci-logp", "test", "")
    # A model in the folder itself, and a table.
    alone = run / "model"
    (run / "t.csv").write_text("smiles,x\nCC,C\nCCC,N\n")
    found = measure_run(ARTIFACT, read, alone, table=run / "t.csv", smiles_column="x", target="y")
    assert calls[-1][0] == ["C", "N"] and calls[-1][1]["target"] == "y"
    assert (found.record["data"], found.record["split"]) == ("t.csv", "")
    assert (alone / FILE).is_file()


def test_many_molecules_are_sampled_by_the_seed_in_their_order(run: Path, calls: list) -> None:
    (run / "t.csv").write_text("\n".join(["smiles", *("C" * n for n in range(1, 31))]) + "\n")
    for most, seed in ((29, 0), (10, 0), (10, 0), (10, 1), (30, 0), (31, 0)):
        found = measure_run(ARTIFACT, read, run, table=run / "t.csv", max_molecules=most, seed=seed)
        assert found.num_candidates == 30
        sizes = [len(s) for s in calls[-1][0]]
        assert len(sizes) == len(set(sizes)) == min(30, most) and sizes == sorted(sizes)
    assert calls[1][0] == calls[2][0] != calls[3][0]
    measure_run(ARTIFACT, read, run, table=run / "t.csv")
    assert len(calls[-1][0]) == 30
    (run / "bad.csv").write_text("smiles\nC1CC\nC1CC\n")
    with pytest.raises(InputError, match=r"none of the 2 molecules of bad.csv can be read"):
        measure_run(ARTIFACT, read, run, table=run / "bad.csv")


def test_the_ground_truth_is_rdkits_contributions(run: Path, calls: list) -> None:
    card = load_card("nci-logp")
    found = measure_run(ARTIFACT, read, run, target=card.target_columns[0])
    assert found.ground_truth_property == found.record["truth"] == card.computed != ""
    contributions_of = calls[-1][1]["true_contributions"]
    np.testing.assert_allclose(
        contributions_of(molecule_graph("OCC=O")), atom_contributions("OCC=O", card.computed, 1000, False)
    )


def test_results_are_saved_only_with_the_model_that_was_measured(run: Path, calls: list, tmp_path: Path) -> None:
    other = tmp_path / "other"
    save_artifact(other, artifact_of(model_of(num_layers=1, readout="sum")))
    predictor = Predictor(ARTIFACT, folder=run / "model")
    for wrong in (other, tmp_path / "nowhere"):
        with pytest.raises(UsageError, match=f"{wrong.name} does not hold this model: pass the folder of the run"):
            predictor.faithfulness(wrong, table=run / "predictions.csv")
    assert not calls and not (other / FILE).exists()
    # By default the folder that it was loaded from; or any folder with the same model, even if it was not loaded.
    assert len(predictor.faithfulness().rejected) == 1 and (run / FILE).is_file()
    predictor.save(tmp_path / "copy")
    for same in (predictor, Predictor(ARTIFACT)):
        same.faithfulness(tmp_path / "copy", table=run / "predictions.csv", methods=("additive",))
        (tmp_path / "copy" / FILE).unlink()
    with pytest.raises(UsageError, match="not loaded from a run: pass the folder that it is saved in"):
        Predictor(ARTIFACT).faithfulness()
