"""Which molecules a run's attributions are tried on, which truth they are held against, and what is kept of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from molattn.chem import MoleculeGraph, atom_contributions, molecule_graph
from molattn.data import load_card
from molattn.errors import InputError, SmilesError, UsageError
from molattn.explain import trial as room
from molattn.explain.faithfulness import Faithfulness, Measured
from molattn.explain.measured import FILE
from molattn.explain.trial import HeldOut, known_terms, of_run, of_table, trial
from molattn.models.artifact import save_artifact
from tests.explain.test_attributions import artifact_of, model_of

ARTIFACT = artifact_of(model_of(num_layers=0, readout="sum"))
SMILES = ["CCO", "C1CC", "CCN", "CCCl", "CCF", "OCC=O"]
NOTHING = Measured(None, None, None, None, None)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder that says which molecules were held out, and of which data set they are."""
    rows = [f"{'train' if i % 3 == 1 else 'test'},{s},1.0" for i, s in enumerate(["CCCC", "CC", *SMILES])]
    (tmp_path / "predictions.csv").write_text("\n".join(["split,smiles,y", *rows]) + "\n")
    (tmp_path / "config.toml").write_text('[data]\ndataset = "nci-logp"\n')
    save_artifact(tmp_path / "model", ARTIFACT)
    return tmp_path


def read(smiles: Any) -> list[MoleculeGraph | SmilesError]:
    return [SmilesError(s, "a ring is open") if s == "C1CC" else molecule_graph(s) for s in smiles]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Any]]:
    """What is measured, without measuring it."""
    told: list[tuple[list[str], Any]] = []

    def measure(artifact: Any, molecules: list[MoleculeGraph], target: Any, truth: Any, **more: Any) -> Faithfulness:
        assert artifact is ARTIFACT and (truth is None or callable(truth))
        told.append(([m.smiles for m in molecules], {"target": target, "truth": truth, **more}))
        return Faithfulness(target or "y", "cm", len(molecules), 0, {"random": NOTHING}, {})

    monkeypatch.setattr(room, "measure", measure)
    return told


def test_the_molecules_of_a_run_are_those_of_its_test_side(run: Path) -> None:
    kept = [s for i, s in enumerate(["CCCC", "CC", *SMILES]) if i % 3 != 1]
    assert of_run(run) == HeldOut(kept, "nci-logp", "test")
    (run / "predictions.csv").unlink()
    with pytest.raises(UsageError, match=r"has no predictions.csv that says .*--table"):
        of_run(run)


def test_the_molecules_of_a_table_are_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "some.csv"
    path.write_text("name,smiles,other\na,CC,C\nb,CCC,N\n")
    assert of_table(path) == of_table(str(path)) == HeldOut(["CC", "CCC"], "some.csv", "")
    assert of_table(path, "other").smiles == ["C", "N"]


def test_a_data_set_is_called_by_its_name_a_table_by_its_file_and_a_bare_run_by_its_folder(run: Path) -> None:
    for said, name in (("esol", "esol"), ("/some/where/own.csv", "own.csv"), ("", "")):
        (run / "config.toml").write_text(f'[data]\ndataset = "{said}"\n')
        assert of_run(run).data == name
    (run / "config.toml").write_text("[training]\nepochs = 1\n")
    assert of_run(run).data == ""
    (run / "config.toml").write_text("[data]\ndataset = 3\n")
    with pytest.raises(InputError, match="says that the data set is 3: it is damaged"):
        of_run(run)
    (run / "config.toml").unlink()
    assert of_run(run).data == run.name


def test_true_terms_are_known_where_rdkit_made_the_target(run: Path) -> None:
    card = load_card("nci-logp")
    assert card.made and known_terms(run, card.target_columns[0]) == card.made
    assert known_terms(run, "another") == ""
    (run / "config.toml").write_text('[data]\ndataset = "own.csv"\n')
    assert known_terms(run, card.target_columns[0]) == ""
    (run / "config.toml").write_text('[data]\ndataset = "esol"\n')
    assert known_terms(run, load_card("esol").target_columns[0]) == load_card("esol").made


def test_a_trial_is_over_what_can_be_read_and_is_kept(run: Path, asked: list) -> None:
    told = lambda done, total: None  # noqa: ARG005, E731
    found = trial(ARTIFACT, read, str(run), methods=("additive",), seed=3, progress=told)
    kept = [s for i, s in enumerate(["CCCC", "CC", *SMILES]) if i % 3 != 1]
    readable = [s for s in kept if s != "C1CC"]
    assert asked[0][0] == readable
    assert asked[0][1] == {"target": None, "truth": None, "methods": ("additive",), "seed": 3, "progress": told}
    assert [e.smiles for e in found.rejected] == [s for s in kept if s == "C1CC"]
    assert (found.of, found.truth, found.found.molecules) == (len(readable), "", len(readable))
    record = json.loads((run / FILE).read_text())["targets"]["y"]
    assert record == found.record
    assert (record["data"], record["side"], record["truth"]) == ("nci-logp", "test", "")
    # A model that stands in the folder itself, and a table.
    alone = run / "model"
    (run / "t.csv").write_text("smiles,x\nCC,C\nCCC,N\n")
    found = trial(ARTIFACT, read, alone, table=run / "t.csv", smiles_column="x", target="y")
    assert asked[-1][0] == ["C", "N"] and asked[-1][1]["target"] == "y"
    assert (found.record["data"], found.record["side"]) == ("t.csv", "")
    assert (alone / FILE).is_file()


def test_of_many_molecules_some_are_chosen_by_the_seed_in_their_order(run: Path, asked: list) -> None:
    (run / "t.csv").write_text("\n".join(["smiles", *("C" * n for n in range(1, 31))]) + "\n")
    for most, seed in ((29, 0), (10, 0), (10, 0), (10, 1), (30, 0), (31, 0)):
        found = trial(ARTIFACT, read, run, table=run / "t.csv", max_molecules=most, seed=seed)
        assert found.of == 30
        sizes = [len(s) for s in asked[-1][0]]
        assert len(sizes) == len(set(sizes)) == min(30, most) and sizes == sorted(sizes)
    assert asked[1][0] == asked[2][0] != asked[3][0]
    trial(ARTIFACT, read, run, table=run / "t.csv")
    assert len(asked[-1][0]) == 30
    (run / "bad.csv").write_text("smiles\nC1CC\nC1CC\n")
    with pytest.raises(InputError, match=r"none of the 2 molecules of bad.csv can be read"):
        trial(ARTIFACT, read, run, table=run / "bad.csv")


def test_the_truth_is_rdkits_terms_of_each_molecule(run: Path, asked: list) -> None:
    card = load_card("nci-logp")
    found = trial(ARTIFACT, read, run, target=card.target_columns[0])
    assert found.truth == found.record["truth"] == card.made != ""
    truth = asked[-1][1]["truth"]
    np.testing.assert_allclose(truth(molecule_graph("OCC=O")), atom_contributions("OCC=O", card.made, 1000, False))
