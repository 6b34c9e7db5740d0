"""Descriptors that RDKit computes: the same numbers in every function and for every SMILES of a molecule."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import Crippen, rdMolDescriptors

from molattn.chem import (
    DESCRIPTORS,
    FEW_DESCRIPTORS,
    ReadOptions,
    descriptors,
    featurizer_descriptors,
    standardized_smiles,
)
from molattn.errors import InputError, MolattnWarning, UsageError
from molattn.inference import Predictor
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import load_artifact, save_artifact
from molattn.models.base import build_model
from molattn.models.config import GraphModelConfig
from molattn.models.scaler import DescriptorScaler, TargetScaler
from tests.assertions import assert_same_predictions
from tests.molecules import esol

SMILES = ["CC(=O)Oc1ccccc1C(=O)O", "C", "[Na+].[Cl-]", "CCO"]
MANY, _ = esol(30)
NAMES = ("MolLogP", "TPSA")
SCALER = DescriptorScaler(NAMES, (1.0, 20.0), (2.0, 30.0), NAMES)


def predictor(scaler: DescriptorScaler = SCALER, **settings: object) -> Predictor:
    torch.manual_seed(0)
    config = GraphModelConfig(hidden_dim=16, num_heads=2, num_layers=1)
    model = build_model(config, 1, num_descriptors=len(scaler.names)).eval().requires_grad_(False)
    model.head.weight[:, -len(scaler.names) :] = 1.0
    artifact = Artifact(model, TargetScaler((0.5,), (2.0,)), ("y",), ("",))
    return Predictor(replace(artifact, descriptors=scaler, **settings))


def numbers(smiles: str) -> list[float]:
    mol = Chem.MolFromSmiles(smiles)
    return [Crippen.MolLogP(mol), rdMolDescriptors.CalcTPSA(mol)]


def test_computed_and_provided_descriptors_predict_the_same() -> None:
    computed, provided = predictor(), predictor(replace(SCALER, computed=()))
    rows = [numbers(s) for s in SMILES]
    assert computed.descriptors == () and provided.descriptors == NAMES
    np.testing.assert_allclose(computed.predict(SMILES), provided.predict(SMILES, descriptors=rows), rtol=1e-6)
    np.testing.assert_allclose(computed.embed(SMILES), provided.embed(SMILES, descriptors=rows), rtol=1e-5, atol=1e-6)
    # And not those of other numbers.
    assert not np.allclose(computed.predict(SMILES), provided.predict(SMILES, descriptors=rows[::-1]))


def test_provided_columns_come_before_computed_ones() -> None:
    both = predictor(DescriptorScaler(("mine", *NAMES), (0.0, 1.0, 20.0), (1.0, 2.0, 30.0), NAMES))
    provided = predictor(DescriptorScaler(("mine", *NAMES), (0.0, 1.0, 20.0), (1.0, 2.0, 30.0)))
    assert both.descriptors == ("mine",)
    mine = [[0.5], [1], [-2.0], [3]]
    rows = [[float(m[0]), *numbers(s)] for m, s in zip(mine, SMILES, strict=True)]
    expected = provided.predict(SMILES, descriptors=rows)
    np.testing.assert_allclose(both.predict(SMILES, descriptors=mine), expected, rtol=1e-6)
    np.testing.assert_allclose(both.predict(SMILES, descriptors=pd.DataFrame(mine, columns=["mine"])), expected)
    with pytest.raises(UsageError, match="the model reads 'mine' for each molecule"):
        both.predict(SMILES)
    with pytest.raises(UsageError, match="a row has 3 descriptors; the model reads 'mine'"):
        both.predict(SMILES, descriptors=rows)


@pytest.mark.parametrize("spelling", ["OCC", "C(O)C", "[CH3][CH2][OH]"])
def test_the_smiles_of_a_molecule_does_not_matter(spelling: str) -> None:
    assert predictor().predict(spelling) == pytest.approx(predictor().predict("CCO"), abs=1e-6)


def test_descriptors_are_of_the_standardized_molecule() -> None:
    model = predictor(read_options=ReadOptions(standardize="parent"))
    salt = "CC(=O)[O-].[Na+]"
    assert model.predict(salt) == pytest.approx(predictor().predict(standardized_smiles(salt, "parent")), abs=1e-6)
    assert model.predict(salt) != pytest.approx(predictor().predict(salt), abs=1e-3)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bad_row_does_not_affect_others_with_or_without_workers(workers: int) -> None:
    smiles = ["CCO", "C1CC", None, "C", "CC(=O)O"] * 40
    good = [s for s in smiles if s not in ("C1CC", None)]
    with pytest.warns(MolattnWarning, match=r"80 of 200 .*row 1"):
        predictions = predictor().predict(smiles, num_workers=workers)
    assert np.isnan(predictions).sum() == 80
    assert_same_predictions(predictions[np.isfinite(predictions)], predictor().predict(good))


def test_maps_and_attributions_need_no_provided_descriptors() -> None:
    model, smiles = predictor(), ["CCO", "C1CC", "CC(=O)O"]
    maps = list(model.attentions(smiles))
    assert maps[0].prediction["y"] == pytest.approx(model.predict("CCO"), abs=1e-6)
    assert model.attention("CCO").prediction.keys() == maps[0].prediction.keys() == {"y"}
    assert_same_predictions(model.attention("CCO").prediction["y"], maps[0].prediction["y"])
    found = model.attributions("CCO", "additive")
    assert set(found.other_terms) == set(NAMES)
    total = found.constant + found.values.sum() + sum(found.other_terms.values())
    assert total == pytest.approx(found.prediction, rel=1e-5)


def test_a_model_with_only_computed_descriptors_rejects_provided_ones() -> None:
    with pytest.raises(UsageError, match="the model reads only descriptors that it computes: leave them out"):
        predictor().predict(["CCO"], descriptors=[[1.0, 2.0]])


def test_missing_computed_descriptors_are_the_mean_and_outliers_are_clipped() -> None:
    x = np.array([[0.0, np.nan, 1.0], [2.0, np.nan, 1.0], [np.nan, np.nan, 1.0]])
    scaler = DescriptorScaler.fit((), x, ("a", "b", "c"))
    assert scaler.mean == (1.0, 0.0, 1.0) and scaler.std == (1.0, 0.0, 0.0)
    assert scaler.provided == () and scaler.constant == ["b", "c"]
    z = scaler.scale(np.array([[np.nan, 3.0, np.nan], [1e300, np.inf, 9.0], [-np.inf, 0.0, 1.0], [2.0, 0.0, 1.0]]))
    far = DescriptorScaler.MAX_ABS_Z
    np.testing.assert_array_equal(z, [[0, 0, 0], [far, 0, 0], [-far, 0, 0], [1, 0, 0]])
    # A provided column is an error where it is far.
    mixed = DescriptorScaler(("mine", "a"), (0.0, 0.0), (1e-5, 1.0), ("a",))
    assert mixed.range_error([1e300, 1e300]) == "column 'mine': 1e+300 is too far from the numbers of training"
    assert mixed.range_error([0.0, 1e300]) == ""
    # Platinum has descriptors that are no numbers.
    every = predictor(DescriptorScaler(DESCRIPTORS, (0.0,) * len(DESCRIPTORS), (1.0,) * len(DESCRIPTORS), DESCRIPTORS))
    assert np.isfinite(every.predict(["[Pt]", "CCO"])).all()


def test_a_saved_model_computes_the_same(tmp_path: Path) -> None:
    model = predictor()
    save_artifact(tmp_path, model._artifact)
    loaded = Predictor(load_artifact(tmp_path))
    np.testing.assert_array_equal(loaded.predict(SMILES), model.predict(SMILES))
    saved = json.loads((tmp_path / "config.json").read_text())["descriptors"]
    assert [d["name"] for d in saved if d["computed"]] == list(SCALER.computed)
    assert loaded._artifact.descriptors == SCALER


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "MolLogD"}, "requires what is not available: the descriptor .MolLogD.; upgrade rdkit or molattn"),
        ({"computed": False}, "descriptors has one that is computed before one that is not"),
    ],
)
def test_unknown_computed_descriptors_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], message: str
) -> None:
    from molattn.models import artifact_file as module

    one, other = module.descriptor_settings(SCALER)
    wrong = [{**one, **change}, other] if "name" in change else [one, {**other, **change}]
    monkeypatch.setattr(module, "descriptor_settings", lambda _: wrong)
    save_artifact(tmp_path, predictor()._artifact)
    with pytest.raises(InputError, match=message):
        load_artifact(tmp_path)


def test_featurizers_name_descriptors_of_rdkit() -> None:
    assert featurizer_descriptors(["rdkit_few"]) == FEW_DESCRIPTORS
    assert featurizer_descriptors(["rdkit_2d"]) == DESCRIPTORS
    assert set(featurizer_descriptors(["rdkit_few", "rdkit_2d"])) == set(DESCRIPTORS)
    assert featurizer_descriptors(["rdkit_few", "rdkit_2d"])[:12] == FEW_DESCRIPTORS
    assert featurizer_descriptors([]) == ()
    both = featurizer_descriptors(["rdkit_few", "morgan_count"])
    assert both == (*FEW_DESCRIPTORS, *featurizer_descriptors(["morgan_count"])) and len(both) == 12 + 1024
    with pytest.raises(UsageError, match="unknown molecule featurizer 'mordred': choose one of rdkit_few, rdkit_2d"):
        featurizer_descriptors(["mordred"])


def test_columns_of_the_fingerprint_have_one_standard_deviation() -> None:
    names = featurizer_descriptors(["morgan_count", "rdkit_few"])
    x = np.array([descriptors(s, names) for s in MANY])
    scaler = DescriptorScaler.fit((), x, names)
    z, columns = scaler.scale(x), slice(0, 1024)
    assert set(scaler.std[columns]) == {0.0, max(scaler.std[columns])}
    np.testing.assert_array_equal(np.array(scaler.std[columns]) == 0, np.ptp(x[:, columns], axis=0) == 0)
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-6)
    assert (z[:, columns].astype(float) ** 2).sum(1).mean() == pytest.approx(1, rel=1e-5)
    # Distances between molecules are those of log(1 + count), in one unit; nothing is clipped.
    between = np.linalg.norm(z[0, columns] - z[1, columns]) * max(scaler.std[columns])
    assert between == pytest.approx(np.linalg.norm(x[0, columns] - x[1, columns]), rel=1e-5)
    # The other descriptors are as without the fingerprint, as are columns of the table of such a name.
    alone = DescriptorScaler.fit((), x[:, 1024:], names[1024:])
    assert alone.std == scaler.std[1024:] and alone.mean == scaler.mean[1024:]
    provided = DescriptorScaler.fit(names[:40], x[:, :40])
    np.testing.assert_allclose(provided.std, x[:, :40].std(0), atol=1e-12)


def test_substructures_that_training_has_not_seen_change_nothing() -> None:
    names = featurizer_descriptors(["morgan_count"])
    scaler = DescriptorScaler.fit((), np.array([descriptors(s, names) for s in ["C", "CC", "CCC"]]), names)
    model = predictor(scaler)
    seen = np.array(scaler.std) > 0
    x = np.array([descriptors(s, names) for s in ["CCO", "C[Se]C"]])
    masked = np.where(seen, x, 0.0)
    assert (x != masked).any()
    np.testing.assert_array_equal(scaler.scale(x), scaler.scale(masked))
    assert np.isfinite(model.predict(["CCO", "C[Se]C"])).all()


def test_the_fingerprint_is_saved_with_the_model_and_has_one_term(tmp_path: Path) -> None:
    names = (*NAMES, *featurizer_descriptors(["morgan_count"]))
    model = predictor(DescriptorScaler.fit((), np.array([descriptors(s, names) for s in MANY]), names))
    save_artifact(tmp_path, model._artifact)
    loaded = Predictor(load_artifact(tmp_path))
    np.testing.assert_array_equal(loaded.predict(SMILES), model.predict(SMILES))
    provided = predictor(replace(model._artifact.descriptors, computed=()))
    rows = [descriptors(s, names).tolist() for s in SMILES]
    np.testing.assert_allclose(loaded.predict(SMILES), provided.predict(SMILES, descriptors=rows), rtol=1e-5)
    found = loaded.attributions("CC(=O)O", "additive")
    assert set(found.other_terms) == {*NAMES, "Morgan counts"}
    total = found.constant + found.values.sum() + sum(found.other_terms.values())
    assert total == pytest.approx(found.prediction, rel=1e-5)
