"""`--molecule-featurizers`: descriptors that RDKit computes, from a table to a prediction."""

import csv
import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import molattn as package
from molattn.chem import FEW_DESCRIPTORS, MOLECULE_FEATURIZERS, descriptors, featurizer_descriptors
from molattn.errors import UsageError
from molattn.models.graph_model import GraphModel
from molattn.sklearn import MolAttentionRegressor
from molattn.training.config import FEATURIZER_NAMES, DataConfig
from molattn.training.prepare import prepare
from molattn.training.pretrain_config import PretrainConfig
from molattn.training.pretraining import pretrain
from molattn.training.reporter import SilentReporter
from molattn.training.run_config import resolve
from tests.cli.conftest import Molattn
from tests.molecules import esol

SMILES, VALUES = esol(40)
SMALL = ["model.num_layers=1", "model.hidden_dim=16"]
FAST = ("--epochs", "2", "--set", SMALL[0], "--set", SMALL[1], "--accelerator", "cpu", "-q", "--base", "none")


def write(path: Path, **columns: list[object]) -> Path:
    pd.DataFrame({"smiles": SMILES, "y": VALUES, **columns}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("featurizers")
    package.train(
        write(folder / "my.csv"),
        output_dir=folder / "run",
        molecule_featurizers=["rdkit_few"],
        target_columns=["y"],
        epochs=2,
        base="none",
        accelerator="cpu",
        settings=SMALL,
        quiet=True,
    )
    return folder / "run"


def test_the_help_names_the_featurizers(molattn: Molattn) -> None:
    assert FEATURIZER_NAMES == MOLECULE_FEATURIZERS
    out = molattn("train", "--help-all").out
    assert all(name in out for name in FEATURIZER_NAMES)


def test_they_are_scaled_by_the_training_molecules(run: Path) -> None:
    with open(run / "splits.csv", newline="") as file:
        train = [s for s, row in zip(SMILES, csv.DictReader(file), strict=True) if row["split"] == "train"]
    saved = json.loads((run / "model" / "config.json").read_text())["descriptors"]
    assert tuple(d["name"] for d in saved) == FEW_DESCRIPTORS
    found = np.array([descriptors(s, FEW_DESCRIPTORS) for s in train])
    np.testing.assert_allclose([d["mean"] for d in saved], found.mean(0), rtol=1e-12)
    np.testing.assert_allclose([d["std"] for d in saved], found.std(0), rtol=1e-12)
    assert tomllib.loads((run / "config.toml").read_text())["data"]["molecule_featurizers"] == ["rdkit_few"]


def test_predict_embed_evaluate_and_python_agree_with_the_run(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("\n".join(["smiles", *SMILES, "C1CC", ""]))
    answer = molattn("predict", run, tmp_path / "in.csv", "-o", tmp_path / "out.csv", "-n", "1")
    assert answer.code == 0, answer.err
    own = pd.read_csv(run / "predictions.csv")
    out = pd.read_csv(tmp_path / "out.csv")["y_pred"]
    np.testing.assert_allclose(out[:40], own["y_pred"], atol=1e-6)
    assert np.isnan(out[40])
    np.testing.assert_allclose(package.load(run).predict(SMILES), own["y_pred"], atol=1e-6)
    assert molattn("embed", run, tmp_path / "in.csv", "-o", tmp_path / "e.npy", "-q").code == 0
    assert np.load(tmp_path / "e.npy").shape == (41, 16 + len(FEW_DESCRIPTORS))
    evaluation = package.load(run).evaluate(write(tmp_path / "my.csv"), num_workers=1)
    np.testing.assert_allclose(evaluation.predictions.values[:, 0], own["y_pred"], atol=1e-6)
    assert molattn("predict", run, "--smiles", "CCO").code == 0
    assert molattn("explain", run, "--smiles", "CCO", "-o", tmp_path / "x.svg").code == 0


@pytest.mark.finished_runs
def test_faithfulness_is_measured_with_them(molattn: Molattn, run: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(run, tmp_path / "run"))
    answer = molattn("faithfulness", own)
    assert answer.code == 0, answer.err
    record = json.loads((own / "faithfulness.json").read_text())["targets"]["y"]
    assert record["methods"]["random"]["deletion_ratio"] == pytest.approx(1)


def test_they_follow_the_columns_of_the_table(tmp_path: Path) -> None:
    table = write(tmp_path / "my.csv", mine=[float(i) for i in range(40)])
    config = DataConfig(str(table), target_columns=("y",), descriptor_columns=("mine",))
    alone = prepare(config, GraphModel, seed=0)
    both = prepare(DataConfig(**{**vars(config), "molecule_featurizers": ("rdkit_few",)}), GraphModel, seed=0)
    assert both.descriptors is not None and alone.descriptors is not None
    assert both.descriptors.shape == (40, 1 + len(FEW_DESCRIPTORS))
    np.testing.assert_array_equal(both.descriptors[:, :1], alone.descriptors)
    assert both.descriptor_scaler is not None and both.descriptor_scaler.provided == ("mine",)


def test_unknown_and_duplicate_featurizers_are_refused(tmp_path: Path) -> None:
    table = write(tmp_path / "my.csv", TPSA=[float(i) for i in range(40)])
    twice = DataConfig(
        str(table), target_columns=("y",), descriptor_columns=("TPSA",), molecule_featurizers=("rdkit_few",)
    )
    with pytest.raises(UsageError, match="'TPSA' would be a descriptor twice, as a column and computed"):
        prepare(twice, GraphModel, seed=0)
    # Raised before anything is read.
    with pytest.raises(UsageError, match="unknown molecule featurizer 'mordred'"):
        prepare(DataConfig(str(table), molecule_featurizers=("mordred",)), GraphModel, seed=0)
    config = PretrainConfig(molecules=str(table), run=resolve(None, {"molecule_featurizers": ["rdkit_few"]}))
    with pytest.raises(UsageError, match="a base model is trained on molecules as they are"):
        pretrain(config, tmp_path / "base", SilentReporter())


def test_models_of_atoms_have_no_featurizers(molattn: Molattn, tmp_path: Path) -> None:
    rows = [f'{"C" * n}O,"{[1.5] * (n + 1)}"' for n in range(1, 30)]
    (tmp_path / "a.csv").write_text("\n".join(["smiles,a", *rows]))
    answer = molattn("train", tmp_path / "a.csv", "--molecule-featurizers", "rdkit_few", *FAST, "-o", tmp_path / "run")
    assert answer.code == 2
    assert "--molecule-featurizers applies only to molecule-level targets" in answer.err
    assert not (tmp_path / "run").exists()


def test_folds_ensembles_and_smiles_models_compute_them_too(molattn: Molattn, tmp_path: Path) -> None:
    options = ("--molecule-featurizers", "rdkit_few", "--ensemble-size", "2", "--model", "smiles-transformer")
    table = write(tmp_path / "my.csv")
    answer = molattn("train", table, *options, "--num-folds", "2", *FAST, "-o", tmp_path / "run")
    assert answer.code == 0, answer.err
    for fold in (0, 1):
        folder = tmp_path / "run" / f"fold_{fold}"
        own = pd.read_csv(folder / "predictions.csv")["y_pred"]
        np.testing.assert_allclose(package.load(folder).predict(SMILES), own, atol=1e-6)


def test_estimators_compute_them() -> None:
    settings = {"epochs": 2, "base": "none", "hidden_dim": 16, "num_layers": 1}
    made = MolAttentionRegressor(molecule_featurizers=["rdkit_few"], **settings).fit(SMILES, VALUES)
    assert made.predictor_._artifact.descriptors.computed == FEW_DESCRIPTORS
    assert np.isfinite(made.predict(SMILES)).all()


def test_counted_fingerprints_are_computed_with_others_and_with_a_base(molattn: Molattn, tmp_path: Path) -> None:
    table = write(tmp_path / "my.csv")
    fast = ("--epochs", "1", "--accelerator", "cpu", "-q")
    answer = molattn(
        "train", table, "--molecule-featurizers", "rdkit_few", "morgan_count", *fast, "-o", tmp_path / "run"
    )
    assert answer.code == 0, answer.err
    own = pd.read_csv(tmp_path / "run" / "predictions.csv")
    predictor = package.load(tmp_path / "run")
    np.testing.assert_allclose(predictor.predict(SMILES), own["y_pred"], atol=1e-6)
    assert predictor._artifact.descriptors.computed == featurizer_descriptors(["rdkit_few", "morgan_count"])
    # Predictions depend on the counts: those of a wrong molecule are other ones.
    molecules = predictor._artifact.model.read(SMILES[:2])
    x = np.array([descriptors(s, predictor._artifact.descriptors.computed) for s in SMILES[:2]])
    z = predictor._artifact.descriptors.scale(x)
    right, wrong = (predictor._artifact.predict(molecules, rows).values for rows in (z, z[::-1]))
    np.testing.assert_allclose(right[:, 0], own["y_pred"][:2], atol=1e-6)
    assert np.abs(right - wrong).max() > 1e-3
    answer = molattn("explain", tmp_path / "run", "--smiles", "CCO", "-o", tmp_path / "x.svg")
    assert answer.code == 0, answer.err
