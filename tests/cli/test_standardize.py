"""`molattn train --standardize`: changes are recorded, and prediction standardises the same way."""

import json
from pathlib import Path

import numpy as np
import pytest

import molattn as package
from molattn.data import read_table
from molattn.data.schema import dumps_checksummed
from molattn.errors import InputError
from tests.assertions import assert_same_predictions
from tests.cli.conftest import QUICK, Molattn
from tests.molecules import esol

SALT, ACID = "CCCC(=O)[O-].[Na+]", "CCCC(=O)O"


@pytest.fixture(scope="module")
def salts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("salts") / "salts.csv"
    rows = [f"{s},{y}" for s, y in zip(*esol(30), strict=True)]
    rows[3:3] = [f"{SALT},1.0", "C1CC,2.0"]
    path.write_text("\n".join(["smiles,y", *rows]) + "\n")
    return path


@pytest.mark.parametrize("model", ["graph", "smiles-transformer"])
def test_changes_are_recorded_and_repeated_in_prediction(
    molattn: Molattn, salts: Path, tmp_path: Path, model: str
) -> None:
    run = tmp_path / "run"
    answer = molattn("train", salts, "--standardize", "parent", "--model", model, *QUICK, "-o", run)
    assert answer.code == 0, answer.err
    assert f"see standardized.csv; the first, line 5: {SALT!r} as {ACID!r}" in answer.err
    changed = read_table(run / "standardized.csv")
    assert changed.columns == ("row", "smiles", "standardized")
    assert ["3", SALT, ACID] in changed.rows
    # Files of the run that list rows have the SMILES of the table.
    assert SALT in [row[2] for row in read_table(run / "predictions.csv").rows]
    config = json.loads((run / "model" / "config.json").read_text())
    # A release that does not know of forms must refuse the model.
    assert config["molecules"]["standardize"] == "parent"
    predictor = package.load(run)
    assert_same_predictions(*predictor.predict([SALT, ACID]))
    assert [r.smiles for r in predictor.predict_rows([SALT])] == [SALT]
    (tmp_path / "in.csv").write_text(f"smiles\n{SALT}\n{ACID}\n")
    assert molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "out.csv").code == 0
    first, second = read_table(tmp_path / "out.csv").rows
    assert first[0] == SALT
    assert_same_predictions(float(first[1]), float(second[1]))
    (tmp_path / "labels.csv").write_text(f"smiles,y\n{SALT},1\n{ACID},1\nC1CC,1\n")
    evaluation = predictor.evaluate(tmp_path / "labels.csv")
    assert_same_predictions(evaluation.predictions.values[0], evaluation.predictions.values[1])
    assert evaluation.rejected[0].location == "line 4"
    config["molecules"]["standardize"] = "other"
    (run / "model" / "config.json").write_bytes(dumps_checksummed(config, "config.json"))
    with pytest.raises(InputError, match="the standard form 'other'; upgrade molattn"):
        package.load(run)


def test_molecules_are_unchanged_by_default(molattn: Molattn, salts: Path, tmp_path: Path) -> None:
    assert molattn("train", salts, *QUICK, "-o", tmp_path / "run", "-q").code == 0
    assert not (tmp_path / "run" / "standardized.csv").exists()
    config = json.loads((tmp_path / "run" / "model" / "config.json").read_text())
    assert config["molecules"]["standardize"] == ""
    assert np.diff(package.load(tmp_path / "run").predict([SALT, ACID])) != 0


def test_an_unknown_form_is_refused(molattn: Molattn, salts: Path) -> None:
    answer = molattn("train", salts, "--standardize", "parents", *QUICK)
    assert answer.code == 2 and "choose one of parent, tautomer" in answer.err
