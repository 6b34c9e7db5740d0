"""Explicit validation molecules (`eval_set`) and continued training (`warm_start`) of the estimators."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from molattn import MolAttentionClassifier, MolAttentionRegressor
from tests.molecules import esol

SMILES, VALUES = esol(60)
VALUES = np.array(VALUES)
SMALL = {"hidden_dim": 8, "num_layers": 1, "num_heads": 2, "epochs": 3}
TRAIN, HELD = slice(0, 45), slice(45, 60)
CLASSES = np.where(np.median(VALUES) < VALUES, "high", "low")


def rmse(model, smiles, values):
    return float(np.sqrt(np.mean((model.predict(smiles) - values) ** 2)))


# eval_set


def test_the_validation_metric_is_that_of_eval_set():
    model = MolAttentionRegressor(**SMALL).fit(SMILES[TRAIN], VALUES[TRAIN], eval_set=(SMILES[HELD], VALUES[HELD]))
    best = model.history_[model.best_epoch_ - 1]
    assert best["val_metric"] == pytest.approx(rmse(model, SMILES[HELD], VALUES[HELD]), rel=1e-4)


def test_all_molecules_of_X_are_trained_on():
    """The mean of the scaler is that of all values of y."""
    model = MolAttentionRegressor(**SMALL).fit(SMILES[TRAIN], VALUES[TRAIN], eval_set=[(SMILES[HELD], VALUES[HELD])])
    assert model.predictor_._artifact.scaler.mean[0] == pytest.approx(VALUES[TRAIN].mean())


def test_values_of_eval_set_reach_no_weight():
    """Only the choice of the epoch depends on them; with one epoch there is no choice."""
    first, second = (
        MolAttentionRegressor(**{**SMALL, "epochs": 1})
        .fit(SMILES[TRAIN], VALUES[TRAIN], eval_set=(SMILES[HELD], values))
        .predict(SMILES)
        for values in (VALUES[HELD], -VALUES[HELD])
    )
    np.testing.assert_array_equal(first, second)


def test_eval_set_with_weights_descriptors_calibration_and_several_targets():
    frame = pd.DataFrame({"smiles": SMILES, "mass": np.arange(60.0)})
    y = np.stack([VALUES, -VALUES], 1)
    y[3, 0] = np.nan
    settings = {**SMALL, "smiles_column": "smiles", "descriptor_columns": ["mass"], "calibration_size": 0.2}
    model = MolAttentionRegressor(**settings)
    model.fit(frame[TRAIN], y[TRAIN], sample_weight=np.ones(45), eval_set=(frame[HELD], y[HELD]))
    assert model.predict(frame).shape == (60, 2)
    assert model.predict_interval(frame[:2], 0.5)[0].shape == (2, 2)


def test_eval_set_of_classes():
    model = MolAttentionClassifier(**SMALL)
    model.fit(SMILES[TRAIN], CLASSES[TRAIN], eval_set=(SMILES[HELD], CLASSES[HELD]))
    assert model.classes_.tolist() == ["high", "low"]
    with pytest.raises(ValueError, match=r"row 1 \(from 0\): the label 'none' is not among \['high', 'low'\]"):
        model.fit(SMILES[TRAIN], CLASSES[TRAIN], eval_set=(SMILES[:2], ["low", "none"]))


@pytest.mark.parametrize(
    ("eval_set", "reason"),
    [
        ((SMILES[:3],), "eval_set is a pair"),
        ([(SMILES[:3], VALUES[:3])] * 2, "eval_set is a pair"),
        (SMILES[:3], "eval_set is a pair"),
        ((SMILES[:3], VALUES[:2]), "inconsistent numbers of samples"),
        ((SMILES[:3], VALUES[:6].reshape(3, 2)), "y of eval_set has 2 targets, not 1"),
        (
            (["CCO", "C(", "CC"], VALUES[:3]),
            "among the validation molecules, 1 of 3 SMILES cannot be used, .*: row 1, 'C",
        ),
    ],
)
def test_an_invalid_eval_set_is_refused(eval_set, reason):
    with pytest.raises(ValueError, match=reason):
        MolAttentionRegressor(**SMALL).fit(SMILES[TRAIN], VALUES[TRAIN], eval_set=eval_set)


def test_a_descriptor_of_eval_set_is_located_in_it():
    frame = pd.DataFrame({"smiles": SMILES, "mass": np.arange(60.0)})
    held = frame[HELD].assign(mass=[1.0, None, *range(13)])
    model = MolAttentionRegressor(**SMALL, smiles_column="smiles", descriptor_columns=["mass"])
    with pytest.raises(ValueError, match=r"row 1 \(from 0\) of X of eval_set: .*mass"):
        model.fit(frame[TRAIN], VALUES[TRAIN], eval_set=(held, VALUES[HELD]))
    far = frame[HELD].assign(mass=[1.0, 1e300, *range(13)])
    with pytest.raises(ValueError, match=r"row 1 \(from 0\) of the validation molecules: .*mass"):
        model.fit(frame[TRAIN], VALUES[TRAIN], eval_set=(far, VALUES[HELD]))


# warm_start

STILL = ["training.learning_rate=1e-12", "training.weight_decay=0"]


@pytest.mark.parametrize("settings", [{}, {"ensemble_size": 2}, {"molecule_featurizers": "rdkit_few", "base": "none"}])
def test_training_continues_from_the_weights_and_scaling_before(settings):
    """With a learning rate of almost 0, other data and other values change nothing."""
    model = MolAttentionRegressor(**SMALL, **settings, warm_start=True).fit(SMILES[TRAIN], VALUES[TRAIN])
    before = model.predict(SMILES)
    model.set_params(settings=STILL, epochs=1).fit(SMILES[HELD], 5 + 2 * VALUES[HELD])
    np.testing.assert_allclose(model.predict(SMILES), before, atol=1e-4)
    cold = clone(model).fit(SMILES[HELD], 5 + 2 * VALUES[HELD])  # a clone is not fitted
    assert abs(cold.predict(SMILES) - before).max() > 1


def test_training_that_continues_learns():
    model = MolAttentionRegressor(**SMALL, warm_start=True)
    pair = (SMILES[TRAIN], VALUES[TRAIN])
    errors = []
    for _ in range(3):
        model.fit(*pair, eval_set=pair)
        errors.append(rmse(model, *pair))
    assert errors[2] < errors[1] < errors[0]


def test_a_warm_start_keeps_a_transform_of_the_target():
    values = 10 ** (VALUES / 3)
    model = MolAttentionRegressor(**SMALL, warm_start=True, target_transform="log10").fit(SMILES[TRAIN], values[TRAIN])
    before = model.predict(SMILES)
    model.set_params(settings=STILL, epochs=1).fit(SMILES[HELD], 100 * values[HELD])
    np.testing.assert_allclose(model.predict(SMILES), before, rtol=1e-3)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"hidden_dim": 16}, "the hidden_dim was 8 and is 16, so that training cannot continue"),
        ({"ensemble_size": 2}, "the ensemble_size was 1 and is 2"),
        ({"loss": "mve"}, "the task was .* and is .*mve"),
    ],
)
def test_another_model_cannot_continue(change, reason):
    model = MolAttentionRegressor(**SMALL, warm_start=True).fit(SMILES[TRAIN], VALUES[TRAIN])
    with pytest.raises(ValueError, match=reason):
        model.set_params(**change).fit(SMILES[TRAIN], VALUES[TRAIN])
    model.set_params(warm_start=False).fit(SMILES[TRAIN], VALUES[TRAIN])


def test_other_descriptors_cannot_continue():
    """They would be scaled as those of the first call."""
    frame = pd.DataFrame({"smiles": SMILES, "a": VALUES, "b": -1000 * VALUES})
    model = MolAttentionRegressor(**SMALL, warm_start=True, descriptor_columns=["a"]).fit(frame, VALUES)
    with pytest.raises(
        ValueError, match=r"the list of descriptors was \['a'\] and is \['b'\], so that training cannot continue"
    ):
        model.set_params(descriptor_columns=["b"]).fit(frame, VALUES)


def test_targets_of_eval_set_are_not_reshaped():
    both = np.stack([VALUES, 100 * VALUES], 1)
    for wrong in (both[:3].T, both[:3].ravel()):
        with pytest.raises(ValueError, match=r"y of eval_set has \d targets?, not 2"):
            MolAttentionRegressor(**SMALL).fit(SMILES[TRAIN], both[TRAIN], eval_set=(SMILES[:3], wrong))


def test_other_targets_or_classes_cannot_continue():
    model = MolAttentionRegressor(**SMALL, warm_start=True).fit(SMILES[TRAIN], VALUES[TRAIN])
    with pytest.raises(ValueError, match="the number of targets was 1 and is 2"):
        model.fit(SMILES[TRAIN], np.stack([VALUES, VALUES], 1)[TRAIN])
    classifier = MolAttentionClassifier(**SMALL, warm_start=True).fit(SMILES[TRAIN], CLASSES[TRAIN])
    with pytest.raises(ValueError, match=r"the classes were \['high', 'low'\] and are \['lower', 'upper'\]"):
        classifier.fit(SMILES[TRAIN], np.where(CLASSES == "high", "upper", "lower")[TRAIN])
    assert classifier.fit(SMILES[HELD], CLASSES[HELD]).classes_.tolist() == ["high", "low"]
