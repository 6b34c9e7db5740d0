"""Explanations of an ensemble: attention and attributions of its first model, the prediction of all of them."""

import dataclasses

import numpy as np
import pytest
import torch

from molattn.inference.predictor import Predictor
from molattn.models.tasks import Binary, Multiclass
from tests.explain.test_attributions import artifact_of, model_of

SMILES = ["CCO", "c1ccccc1C(=O)O", "C", "CC(C)N"]


def ensemble_of(num_outputs, targets, task=None):
    """A predictor of three models."""
    models = []
    for seed in range(3):
        model = model_of(num_outputs)
        torch.manual_seed(seed)
        torch.nn.init.normal_(model.head.weight)
        models.append(model)
    first, *others = models
    return Predictor(dataclasses.replace(artifact_of(first, targets, task), other_models=tuple(others)))


@pytest.mark.parametrize(
    ("targets", "task", "outputs"),
    [(("a", "b"), None, 2), (("a",), Binary("bce"), 1), (("a",), Multiclass("cross-entropy", (("x", "y", "z"),)), 3)],
)
def test_the_prediction_of_a_map_is_that_of_the_ensemble(targets, task, outputs):
    predictor = ensemble_of(outputs, targets, task)
    one = predictor.members[0]
    members = [[list(m.prediction.values()) for m in member.attention(SMILES)] for member in predictor.members]
    expected = np.mean(members, 0)
    if task is None or isinstance(task, Binary):
        np.testing.assert_allclose(predictor.predict(SMILES).reshape(len(SMILES), -1), expected, rtol=1e-4, atol=1e-5)
    maps = predictor.attention(SMILES)
    found = np.array([list(m.prediction.values()) for m in maps])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(found - members[0]).max() > 1e-3
    for shown, own in zip(maps, one.attention(SMILES), strict=True):
        np.testing.assert_allclose(shown.weights, own.weights, atol=1e-6)
        assert shown.faithfulness.startswith("of the first of 3 models, whose mean is the prediction; ")
        assert "models" not in own.faithfulness


def test_an_attribution_says_that_it_explains_the_first_model():
    predictor = ensemble_of(2, ("a", "b"))
    found = predictor.attributions("CCO", "additive", "b")
    assert found.prediction == pytest.approx(predictor.members[0].predict(["CCO"])[0, 1], rel=1e-4)
    assert found.part == "the first of 3 models"
    assert found.equation.startswith(f"b of the first of 3 models {found.prediction:.3f} cm = ")
    assert predictor.members[0].attributions("CCO", "additive", "b").part == ""
