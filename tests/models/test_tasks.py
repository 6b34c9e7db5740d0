"""Decoding of outputs, for every task."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.dummy import DummyClassifier
from torch.distributions import Dirichlet

from molattn.errors import InputError
from molattn.models.losses import losses_of
from molattn.models.names import TASK_TYPES
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Binary, Multiclass, Regression, task_from_dict

CLASSES = Multiclass(classes=(("a", "b"), ("x", "y", "z")))
EVIDENCE = [Binary("dirichlet"), Multiclass("dirichlet", CLASSES.classes)]
ALL = [*map(Regression, losses_of("regression")), Binary(), CLASSES, *EVIDENCE]
OUTPUTS = np.random.default_rng(0).normal(size=(7, 8)) * 5


@pytest.mark.parametrize("task", ALL, ids=lambda t: f"{t.kind}-{t.loss}")
def test_a_task_is_saved_and_loaded(task: Task) -> None:
    assert task_from_dict(task.to_dict()) == task


def test_the_error_for_an_unknown_task_says_upgrade() -> None:
    for settings in ({"kind": "ranking", "loss": "mse"}, {"kind": "binary", "loss": "focal"}):
        with pytest.raises(InputError, match="upgrade molattn"):
            task_from_dict(settings)


@pytest.mark.parametrize("task", ALL, ids=lambda t: f"{t.kind}-{t.loss}")
def test_predictions_and_baseline_have_the_shapes_of_their_columns(task: Task) -> None:
    outputs = OUTPUTS[:, : task.num_outputs(2)]
    train = np.array([[0.0, 1.0], [1.0, np.nan], [1.0, 0.0]])
    scaler = task.fit_scaler(train)
    for predictions, n in ((task.decode(outputs, scaler), 7), (task.baseline_predictions(train, 4), 4)):
        assert predictions.values.shape == (n, 2)
        assert predictions.extra_values.shape == (n, len(task.distribution_columns(["p", "q"])) + 2 * task.has_std)
        assert task.to_array(predictions).shape[:2] == (n, 2)
        assert len(task.scores(predictions, 1)) == n


def test_probabilities_are_those_of_torch_even_at_extreme_logits() -> None:
    x = np.array([[0.0], [3.0], [-800.0], [800.0]])
    p = Binary().decode(x, TargetScaler.identity(1)).values
    assert p.ravel() == pytest.approx(torch.sigmoid(torch.tensor(x)).numpy().ravel())
    predictions = CLASSES.decode(OUTPUTS[:, :5] * 300, TargetScaler.identity(2))
    assert predictions.extra_values[:, 2:] == pytest.approx(
        torch.softmax(torch.tensor(OUTPUTS[:, 2:5] * 300), 1).numpy()
    )
    assert (predictions.values[:, 1] == OUTPUTS[:, 2:5].argmax(1)).all()
    uncertain = CLASSES.decode(OUTPUTS[:, :5] / 5, TargetScaler.identity(2))
    for t, columns in enumerate((slice(2), slice(2, 5))):
        expected = torch.softmax(torch.tensor(OUTPUTS[:, columns] / 5), 1).numpy()
        assert CLASSES.probabilities(uncertain, t) == pytest.approx(expected)
    assert CLASSES.class_names(1) == ("x", "y", "z")
    assert CLASSES.distribution_columns(["p", "q"]) == ["p_prob_a", "p_prob_b", "q_prob_x", "q_prob_y", "q_prob_z"]
    assert CLASSES.table_value(2.0, 1) == "z"
    array = CLASSES.to_array(predictions)
    assert array.shape == (7, 2, 3)
    assert array.sum(-1) == pytest.approx(np.ones((7, 2)))
    assert not array[:, 0, 2].any()


def test_a_std_is_in_the_unit_of_its_target() -> None:
    task, scaler = Regression("mve"), TargetScaler((1.0, 2.0), (10.0, 0.1))
    predictions = task.decode(np.array([[0.0, 0.0, 0.0, 0.0]]), scaler)
    assert predictions.values.tolist() == [[1.0, 2.0]]
    assert predictions.extra_values[0] == pytest.approx(np.sqrt(np.log(2)) * np.array([10.0, 0.1]), rel=1e-5)


def test_the_baseline_is_the_share_of_the_classes() -> None:
    train = np.array([[0.0, 2.0], [1.0, 2.0], [np.nan, 0.0], [1.0, np.nan]])
    assert Binary().baseline_predictions(train[:, :1], 2).values == pytest.approx(np.full((2, 1), 2 / 3))
    shares = CLASSES.baseline_predictions(train, 1)
    assert shares.extra_values[0] == pytest.approx([1 / 3, 2 / 3, 1 / 3, 0, 2 / 3])
    assert shares.values.tolist() == [[1.0, 2.0]]
    assert Binary().class_priors(train[:, :1]) == ((pytest.approx(1 / 3), pytest.approx(2 / 3)),)
    assert Regression().class_priors(train) == ()


def two(task: Task) -> TargetScaler:
    return TargetScaler((1.0, -2.0), (10.0, 0.5)) if task.kind == "regression" else TargetScaler.identity(2)


@pytest.mark.parametrize("loss", losses_of("regression"))
@pytest.mark.parametrize("atom_level", [False, True])
def test_numbers_are_predicted_in_the_unit_of_their_target(loss: str, atom_level: bool) -> None:
    task = Regression(loss, atom_level)
    outputs = OUTPUTS[:, : len(task.target_of_output(2))]
    predictions = task.decode(outputs, two(task))
    np.testing.assert_allclose(predictions.values, np.array([1.0, -2.0]) + np.array([10.0, 0.5]) * outputs[:, :2])
    assert (predictions.std is not None) == task.has_std == (loss in ("mve", "evidential", "quantile"))
    np.testing.assert_array_equal(task.member_values(predictions, predictions), predictions.values)
    np.testing.assert_array_equal(task.scores(predictions, 1), predictions.values[:, 1])
    assert task.table_value(0.25, 0) == 0.25
    assert task.class_names(0) == ()
    for requested in (lambda: task.probabilities(predictions, 0), lambda: task.with_probabilities([OUTPUTS])):
        with pytest.raises(TypeError, match="regression has no classes"):
            requested()


def test_evidential_regression_is_the_normal_inverse_gamma_distribution() -> None:
    """Variances by scipy's inverse gamma distribution, not by the closed forms."""
    task = Regression("evidential")
    outputs = np.array([[0.5, -1.0, 1.0, 0.3, 4.0, 3.0, -0.5, 2.0]])
    predictions = task.decode(outputs, two(task))
    nu, above_one, beta = (np.log1p(np.exp(o)) + 1e-6 for o in np.split(outputs[0, 2:], 3))
    noise = stats.invgamma(1 + above_one, scale=beta).mean()
    assert predictions.std is not None and predictions.epistemic_share is not None
    unit = np.array([10.0, 0.5])
    np.testing.assert_allclose(predictions.std[0], unit * np.sqrt(noise * (1 + 1 / nu)))
    # Of the variance of the mean, noise / nu, and the noise, the first is the epistemic part.
    np.testing.assert_allclose(predictions.epistemic_share[0], (noise / nu) / (noise / nu + noise))


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_the_std_of_quantiles_is_that_of_a_normal_distribution(alpha: float) -> None:
    task = Regression("quantile", alpha=alpha)
    outputs = OUTPUTS[:, :6]
    scaler = two(task)
    predictions = task.decode(outputs, scaler)
    median, below, above = np.split(outputs, 3, 1)
    expected = [scaler.unscale(q) for q in (median - np.log1p(np.exp(below)), median + np.log1p(np.exp(above)))]
    np.testing.assert_allclose(predictions.distribution, np.concatenate(expected, 1))
    assert predictions.std is not None
    ends = stats.norm.interval(1 - alpha, scale=predictions.std)
    np.testing.assert_allclose(ends[1] - ends[0], expected[1] - expected[0])
    assert task.distribution_columns(["p", "q"]) == [
        f"{t}_q{100 * q:g}" for q in (alpha / 2, 1 - alpha / 2) for t in ("p", "q")
    ]


def test_the_baseline_of_regression_is_mean_std_and_quantiles() -> None:
    train = np.array([[1.0, 10.0], [2.0, np.nan], [4.0, 30.0], [9.0, 20.0]])
    for loss in losses_of("regression"):
        guess = Regression(loss, alpha=0.4).baseline_predictions(train, 3)
        np.testing.assert_allclose(guess.values, np.tile([4.0, 20.0], (3, 1)))
        if loss == "quantile":
            np.testing.assert_allclose(
                guess.distribution[2], [np.nanquantile(train[:, t], p) for p in (0.2, 0.8) for t in range(2)]
            )
        else:
            assert guess.distribution.shape == (3, 0)
        if guess.std is not None:
            np.testing.assert_allclose(guess.std, np.tile(np.nanstd(train, 0), (3, 1)))
        assert (guess.std is not None) == (loss in ("mve", "evidential", "quantile"))


EVIDENCE_OF = np.array([[2.0, -1.0, 0.5, 3.0], [-3.0, 0.2, 1.0, -2.0]])


def test_binary_evidence_is_a_beta_distribution() -> None:
    task = Binary("dirichlet")
    predictions = task.decode(EVIDENCE_OF, two(task))
    # The first two outputs are for no, one for each target, and the last two for yes.
    a = 1 + np.log1p(np.exp(EVIDENCE_OF))
    yes = stats.beta(a[:, 2:], a[:, :2])
    np.testing.assert_allclose(predictions.values, yes.mean())
    np.testing.assert_allclose(predictions.std, yes.std())
    assert predictions.distribution.shape == (2, 0)
    for t in range(2):
        np.testing.assert_allclose(
            task.probabilities(predictions, t), np.stack([1 - yes.mean()[:, t], yes.mean()[:, t]], 1)
        )
    again = task.with_probabilities([task.probabilities(predictions, t) for t in range(2)], predictions.std)
    np.testing.assert_allclose(again.values, predictions.values)
    np.testing.assert_array_equal(again.std, predictions.std)
    assert task.class_names(0) == ("0", "1")


def test_multiclass_evidence_is_a_dirichlet_distribution() -> None:
    task = EVIDENCE[1]
    outputs = OUTPUTS[:, :5]
    predictions = task.decode(outputs, two(task))
    a = torch.from_numpy(1 + np.logaddexp(0, outputs))
    for t, columns in enumerate((slice(2), slice(2, 5))):
        belief = Dirichlet(a[:, columns])
        p = belief.mean.numpy()
        np.testing.assert_allclose(task.probabilities(predictions, t), p)
        np.testing.assert_array_equal(predictions.values[:, t], p.argmax(1))
        assert predictions.std is not None
        chosen = p.argmax(1)[:, None]
        np.testing.assert_allclose(
            predictions.std[:, [t]], np.take_along_axis(belief.variance.sqrt().numpy(), chosen, 1)
        )


def test_the_std_of_the_baseline_is_that_of_a_categorical_distribution() -> None:
    """scikit-learn's DummyClassifier that predicts the shares, and the standard deviation of one draw from them."""
    train = np.array([[0.0, 2.0], [1.0, 2.0], [np.nan, 0.0], [1.0, np.nan]])
    guess = Binary("dirichlet").baseline_predictions(train[:, :1], 2)
    np.testing.assert_allclose(guess.values, np.full((2, 1), 2 / 3))
    np.testing.assert_allclose(guess.std, stats.bernoulli(guess.values).std())
    assert Binary().baseline_predictions(train[:, :1], 2).std is None
    shares = EVIDENCE[1].baseline_predictions(train, 5)
    assert shares.std is not None
    np.testing.assert_allclose(shares.std, np.tile(stats.bernoulli([2 / 3, 2 / 3]).std(), (5, 1)))
    for t in range(2):
        known = train[np.isfinite(train[:, t]), t]
        prior = DummyClassifier(strategy="prior").fit(known[:, None], known)
        found = EVIDENCE[1].probabilities(shares, t)
        np.testing.assert_allclose(found[:, prior.classes_.astype(int)], prior.predict_proba(np.zeros((5, 1))))
        np.testing.assert_allclose(found.sum(1), 1)
    assert CLASSES.baseline_predictions(train, 5).std is None


@pytest.mark.parametrize("task", [Regression("quantile"), Binary(), CLASSES], ids=lambda t: t.kind)
def test_ensembles_predict_the_mean(task: Task) -> None:
    draw = np.random.default_rng(3)
    parts = [task.decode(draw.normal(size=(4, len(task.target_of_output(2)))), two(task)) for _ in range(3)]
    mixed = task.ensemble_mean(parts)
    assert mixed.std is None
    np.testing.assert_allclose(mixed.distribution, sum(p.distribution for p in parts) / 3)
    if task is not CLASSES:
        np.testing.assert_allclose(mixed.values, sum(p.values for p in parts) / 3)
        return
    for t in range(2):
        answered = task.probabilities(mixed, t).argmax(1)
        np.testing.assert_array_equal(mixed.values[:, t], answered)
        # Of each model the probability of the class that the ensemble predicts.
        for part in parts:
            expected = task.probabilities(part, t)[np.arange(4), answered]
            np.testing.assert_array_equal(task.member_values(part, mixed)[:, t], expected)


def test_the_outputs_of_each_loss() -> None:
    numbers = {"mse": 1, "mae": 1, "huber": 1, "mve": 2, "evidential": 4, "quantile": 3}
    assert {loss: Regression(loss).target_of_output(2) for loss in numbers} == {
        k: [0, 1] * n for k, n in numbers.items()
    }
    assert Binary().target_of_output(2) == [0, 1] and Binary("dirichlet").target_of_output(2) == [0, 1, 0, 1]
    assert CLASSES.target_of_output(2) == replace(CLASSES, loss="dirichlet").target_of_output(2) == [0, 0, 1, 1, 1]


def test_names_of_tasks_and_uncertainty_methods_of_losses() -> None:
    names = {
        "mve": "mve",
        "evidential": "evidential-total",
        "quantile": "quantile-regression",
        "dirichlet": "dirichlet",
    }
    for task in ALL:
        assert task.uncertainty_method == names.get(task.loss, "none")
        assert task.has_std == (task.loss in names)
        atom_level = replace(task, atom_level=True)
        assert (task.name, atom_level.name) == (task.kind, f"atom-{task.kind}")
        assert {task.name, atom_level.name} <= set(TASK_TYPES)
        assert task_from_dict(atom_level.to_dict()) == atom_level
        # What is the default is not written, for older versions to read it.
        assert task.to_dict()["atom_level"] is False
    assert task_from_dict(Regression("quantile", alpha=0.3).to_dict()) == Regression("quantile", alpha=0.3)
    assert "alpha" not in Regression().to_dict() and "classes" not in Regression().to_dict()
    assert [Regression(loss).target_of_output(2) for loss in ("mse", "mve", "quantile", "evidential")] == [
        [0, 1] * times for times in (1, 2, 3, 4)
    ]


def test_binary_targets_other_than_0_and_1_are_errors_but_missing_ones_are_not() -> None:
    good = np.array([[0.0, 1.0], [1.0, np.nan]])
    for task in (Binary(), Binary(atom_level=True), Regression(), CLASSES):
        task.check(good, ("a", "b"))
    bad = np.array([[0.0, 1.0], [1.0, 0.5]])
    with pytest.raises(InputError, match=r"column 'b' holds 0.5, .*--task-type regression or multiclass"):
        Binary().check(bad, ("a", "b"))
    with pytest.raises(InputError, match=r"column 'b' holds 0.5, .*--task-type atom-regression or multiclass"):
        Binary(atom_level=True).check(bad, ("a", "b"))
    Regression().check(bad, ("a", "b"))


def test_only_numbers_are_scaled() -> None:
    train = np.array([[1.0, 10.0], [3.0, np.nan], [5.0, 20.0]])
    assert Regression().fit_scaler(train) == TargetScaler((3.0, 15.0), (math.sqrt(8 / 3), 5.0))
    for task in (Binary(), CLASSES):
        assert task.fit_scaler(train) == TargetScaler((0.0, 0.0), (1.0, 1.0))
