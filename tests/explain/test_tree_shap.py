"""TreeSHAP of the boosted trees of a combined model: it is additive, and every footer names the explained model."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest

import molattn
from molattn.chem import feature_columns, feature_vectors, molecule_graph
from molattn.errors import UsageError
from molattn.explain.attribute import attribute
from molattn.explain.tree_shap import ABSENT, TREE_SHAP, tree_shap
from molattn.models.blended_trees import BlendedTrees
from molattn.models.boosted_trees import BoostedTrees
from molattn.models.tasks import Binary, Multiclass
from molattn.training import trees
from tests.cli.conftest import QUICK, Molattn
from tests.cli.conftest import molattn as molattn_command
from tests.explain.test_attributions import artifact_of, model_of
from tests.molecules import esol

SMILES, VALUES = esol(100)
TINY: dict[str, Any] = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "epochs": 1, "accelerator": "cpu"}
command = molattn_command


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs with trees, of numbers, of two classes and of three."""
    y = np.array(VALUES)
    columns: dict[str, Any] = {
        "numbers": y,
        "binary": (y > np.median(y)).astype(int),
        "words": np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, [0.33, 0.66]))],
    }
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(trees.SMALL_TREES, "num_boost_round", 20)
        for name, column in columns.items():
            folder = tmp_path_factory.mktemp(name)
            pd.DataFrame({"smiles": SMILES, "y": column}).to_csv(folder / "t.csv", index=False)
            molattn.train(folder / "t.csv", **TINY, with_trees=True, output_dir=folder / "run", quiet=True)
            found[name] = folder / "run"
    return found


@pytest.mark.parametrize("kind", ["numbers", "binary", "words"])
def test_the_terms_add_up_to_the_prediction_of_the_trees(runs: dict[str, Path], kind: str) -> None:
    predictor = molattn.load(runs[kind])
    artifact = predictor._artifact
    blended = artifact.trees
    assert blended is not None
    for smiles in SMILES[:5]:
        found = predictor.attributions(smiles, "tree-shap")
        assert found.adds_up and found.prediction == pytest.approx(sum(found.terms.values()))
        alone = blended.predict(artifact.task, artifact.scaler, feature_vectors([smiles], blended.featurizers))
        if kind == "numbers":
            assert found.prediction == pytest.approx(alone.values[0, 0], rel=1e-5, abs=1e-5)
        elif isinstance(artifact.task, Binary):
            assert found.probability == pytest.approx(alone.values[0, 0])
            assert 1 / (1 + np.exp(-found.prediction)) == pytest.approx(found.probability, rel=1e-5)
        else:
            assert found.probability in artifact.task.probabilities(alone, 0)[0]


def test_with_a_target_of_three_classes_both_of_two_classes_have_their_log_odds() -> None:
    x, y = feature_vectors(SMILES, ["morgan_count"]), np.array(VALUES)
    options = {"verbosity": -1, "num_threads": 1, "min_data_in_leaf": 5, "use_missing": False}
    two = lightgbm.train({**options, "objective": "binary"}, lightgbm.Dataset(x, y > np.median(y)), 5)
    of_three = np.digitize(y, np.quantile(y, [0.33, 0.66]))
    three = lightgbm.train({**options, "objective": "multiclass", "num_class": 3}, lightgbm.Dataset(x, of_three), 5)
    grown = tuple(BoostedTrees.from_lightgbm(booster.model_to_string()) for booster in (two, three))
    task = Multiclass(classes=(("no", "yes"), ("low", "middle", "high")))
    artifact = replace(
        artifact_of(model_of(5), ("two", "three"), task), trees=BlendedTrees(("morgan_count",), grown, (0.5, 0.5))
    )
    for smiles, expected in zip(SMILES[:5], two.predict(x[:5]), strict=True):
        no, yes = (attribute(artifact, molecule_graph(smiles), TREE_SHAP, f"two_prob_{name}") for name in ("no", "yes"))
        for found, name, probability in ((no, "no", 1 - expected), (yes, "yes", expected)):
            assert found.probability == pytest.approx(probability)
            assert 1 / (1 + np.exp(-found.prediction)) == pytest.approx(probability)
            assert (found.unit, found.quantity) == ("log-odds", f"log-odds of {name} of two")
            assert sum(found.terms.values()) == pytest.approx(found.prediction)
        np.testing.assert_allclose(no.values, -yes.values, rtol=0, atol=1e-12)
        assert no.terms == {term: pytest.approx(-value) for term, value in yes.terms.items()}
        score = attribute(artifact, molecule_graph(smiles), TREE_SHAP, "three_prob_high")
        assert (score.unit, score.quantity) == ("score", "score of class high of three")


def test_atoms_have_the_terms_of_the_substructures_that_they_are_in() -> None:
    """Of a model that counts one substructure, its two carbonyl oxygens have all of the term, equally."""
    smiles = ["O=CCC=O", *SMILES[:60]]
    x = feature_vectors(smiles, ["morgan_count"])
    oxygen = feature_vectors(["O=CCC=O", "CCC"], ["morgan_count"])
    bits = np.flatnonzero((oxygen[0] == 2) & (oxygen[1] == 0))
    options = {
        "objective": "regression",
        "min_data_in_leaf": 1,
        "verbosity": -1,
        "num_threads": 1,
        "use_missing": False,
    }
    for bit in bits:
        only = np.zeros_like(x)
        only[:, bit] = x[:, bit]
        booster = lightgbm.train(options, lightgbm.Dataset(only, x[:, bit].astype(float)), 5)
        grown = BoostedTrees.from_lightgbm(booster.model_to_string())
        (molecule,) = molattn.models.graph_model.GraphModel.read(["O=CCC=O"])
        terms = tree_shap(BlendedTrees(("morgan_count",), (grown,), (0.5,)), molecule, 0)
        # The molecule is symmetric.
        np.testing.assert_allclose(terms.values, terms.values[::-1], atol=1e-12)
        assert terms.other_terms == {ABSENT: pytest.approx(0.0)}
        assert terms.constant is not None
        predicted = grown.predict(only[:1].astype(float))[0, 0]
        assert terms.values.sum() + terms.constant == pytest.approx(predicted)


def test_trees_whose_mean_is_0_have_a_constant_of_0_and_add_up() -> None:
    """Grown on as many alcohols, of 1, as alkanes, of -1; shown in the unit of the target, 3 + 2 f."""
    x = feature_vectors(["CO", "CC"] * 10, ["morgan_count"])
    options = {"min_data_in_leaf": 1, "verbosity": -1, "num_threads": 1, "use_missing": False}
    booster = lightgbm.train(options, lightgbm.Dataset(x, np.tile([1.0, -1.0], 10)), 5)
    grown = BoostedTrees.from_lightgbm(booster.model_to_string())
    artifact = replace(artifact_of(model_of()), trees=BlendedTrees(("morgan_count",), (grown,), (0.5,)))
    for smiles, row in (("CO", x[:1]), ("CC", x[1:2])):
        found = attribute(artifact, molecule_graph(smiles), "tree-shap")
        assert found.constant == 3.0
        assert found.prediction == pytest.approx(3 + 2 * grown.predict(row.astype(float))[0, 0])
        assert sum(found.terms.values()) == pytest.approx(found.prediction)


def test_hydrogens_and_spellings(runs: dict[str, Path]) -> None:
    predictor = molattn.load(runs["numbers"])
    one, other = (predictor.attributions(s, "tree-shap").values for s in ("CCO", "OCC"))
    np.testing.assert_allclose(one, other[::-1], rtol=1e-6, atol=1e-9)


def test_every_footer_names_the_explained_model(runs: dict[str, Path], command: Molattn, tmp_path: Path) -> None:
    predictor = molattn.load(runs["numbers"])
    blended = predictor._artifact.trees
    assert blended is not None
    share = f"{100 * blended.weights[0]:.0f}%"
    of_trees, attention = predictor.attributions("CCO", "tree-shap"), predictor.attention("CCO")
    command_of_run = f"molattn faithfulness {shlex.quote(str(runs['numbers']))}"
    assert of_trees.faithfulness == f"of the boosted trees, {share} of the prediction; not measured: {command_of_run}"
    for text in (predictor.attributions("CCO").faithfulness, attention.faithfulness):
        assert text.startswith("of the attention model, ") and f"(boosted trees: {share})" in text
    # The number shown with a map is the result of `predict`.
    assert attention.prediction["y"] == pytest.approx(float(predictor.predict("CCO")), rel=1e-5)
    page = tmp_path / "page.html"
    assert command("explain", runs["numbers"], "--smiles", "CCO", "--method", "tree-shap", "-o", page).code == 0
    assert f"of the boosted trees, {share} of the prediction" in page.read_text()
    picture = command("explain", runs["numbers"], "--smiles", "CCO", "-o", tmp_path / "a.svg")
    assert picture.code == 0 and f"boosted trees: {share}" in (tmp_path / "a.svg").read_text().replace("\n", " ")
    answer = command("explain", runs["numbers"], "--smiles", "CCO", "--method", "tree-shap")
    assert answer.code == 0 and "descriptors" in answer.out and "absent substructures" in answer.out


def test_shares_of_several_targets_are_a_range() -> None:
    blended = BlendedTrees(("erg",), (), (0.25, 0.5))
    assert blended.describe_share() == "of the attention model, 50 to 75% of the prediction (boosted trees: 25 to 50%)"
    assert blended.describe_share(1, of_trees=True) == "of the boosted trees, 50% of the prediction"


def test_a_model_without_trees_has_no_tree_shap(command: Molattn, tmp_path: Path) -> None:
    pd.DataFrame({"smiles": SMILES[:30], "y": VALUES[:30]}).to_csv(tmp_path / "t.csv", index=False)
    assert command("train", tmp_path / "t.csv", *QUICK, "-o", tmp_path / "run").code == 0
    with pytest.raises(UsageError, match="applies only to models with boosted trees"):
        molattn.load(tmp_path / "run").attributions("CCO", "tree-shap")


def test_columns_of_other_features_are_terms_of_their_own(runs: dict[str, Path]) -> None:
    predictor = molattn.load(runs["numbers"])
    blended = predictor._artifact.trees
    assert blended is not None
    found = predictor.attributions(SMILES[0], "tree-shap")
    x = feature_vectors([SMILES[0]], blended.featurizers).astype(float)
    shap = blended.trees[0].shap_values(x)[0, 0]
    columns = feature_columns(blended.featurizers)
    scale = predictor._artifact.scaler.std[0]
    assert found.other_terms["descriptors"] == pytest.approx(scale * shap[columns["rdkit_fast"]].sum())
    assert found.other_terms["pharmacophore pairs"] == pytest.approx(scale * shap[columns["erg"]].sum())


def test_an_attribution_names_the_part_of_the_model_that_it_explains(runs: dict[str, Path]) -> None:
    predictor = molattn.load(runs["numbers"])
    of_trees, of_attention = (predictor.attributions("CCO", method) for method in ("tree-shap", "additive"))
    assert of_trees.part == "the boosted trees" and of_trees.equation.startswith("y of the boosted trees ")
    assert of_attention.part == "the attention model" and of_attention.equation.startswith("y of the attention model ")
