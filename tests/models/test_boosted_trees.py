"""Boosted trees as arrays, against LightGBM, which grew them, and with invalid arrays."""

import dataclasses
from typing import Any

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molattn.errors import UsageError
from molattn.models import boosted_trees
from molattn.models.boosted_trees import TREE_ARRAYS, BoostedTrees

OPTIONS: dict[str, Any] = {"min_data_in_leaf": 5, "use_missing": False, "verbosity": -1, "num_threads": 1}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "regression": {"objective": "regression"},
    "binary": {"objective": "binary"},
    "multiclass": {"objective": "multiclass", "num_class": 3},
}


def _data(objective: str, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.poisson(1.0, (n, 6)), rng.normal(size=(n, 3))], 1)
    y = 2 * x[:, 0] + (x[:, 1] > 0) * x[:, 7] + rng.normal(size=n)
    classes = {"binary": 2, "multiclass": 3}.get(objective)
    return x, y if classes is None else np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))


def _grown(objective: str, rounds: int = 30) -> tuple[Any, BoostedTrees, np.ndarray]:
    x, y = _data(objective)
    booster = lightgbm.train({**OPTIONS, "num_leaves": 7, **OBJECTIVES[objective]}, lightgbm.Dataset(x, y), rounds)
    return booster, BoostedTrees.from_lightgbm(booster.model_to_string()), x


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_predictions_and_shap_values_are_those_of_lightgbm(objective: str) -> None:
    booster, trees, x = _grown(objective)
    raw = booster.predict(x, raw_score=True).reshape(len(x), -1)
    np.testing.assert_allclose(trees.predict(x), raw, rtol=1e-10, atol=1e-12)
    shap = trees.shap_values(x)
    np.testing.assert_allclose(shap.reshape(len(x), -1), booster.predict(x, pred_contrib=True), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(shap.sum(-1), trees.predict(x), rtol=1e-8, atol=1e-10)
    trees.check()


def test_few_molecules_at_a_time_have_the_same_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    _, trees, x = _grown("multiclass")
    whole = trees.predict(x)
    monkeypatch.setattr(boosted_trees, "CHUNK", 7 * trees.num_trees)
    np.testing.assert_allclose(trees.predict(x), whole, rtol=1e-12, atol=1e-12)
    assert trees.predict(x[:0]).shape == (0, 3)


def test_shap_values_of_two_features_are_shapley_values() -> None:
    """f(x) of a stump on each of two features: their contributions are the deviations from the means of training."""
    trees = BoostedTrees(
        num_features=2,
        outputs=1,
        leaves=np.array([2, 2], np.int32),
        feature=np.array([0, 1], np.int32),
        threshold=np.array([0.5, 0.5]),
        left=np.array([-1, -1], np.int32),
        right=np.array([-2, -2], np.int32),
        node_rows=np.array([4, 4], np.int32),
        value=np.array([0.0, 8.0, 1.0, 3.0]),
        leaf_rows=np.array([3, 1, 2, 2], np.int32),
    )
    trees.check()
    np.testing.assert_allclose(trees.predict(np.array([[0.0, 0.0], [1.0, 1.0]])), [[1.0], [11.0]])
    # The means of training are 8 / 4 = 2 and (2 + 6) / 4 = 2.
    np.testing.assert_allclose(trees.shap_values(np.array([[1.0, 0.0]])), [[[6.0, -1.0, 4.0]]])


def test_a_model_without_splits_is_a_constant() -> None:
    data = lightgbm.Dataset(np.zeros((9, 2)), np.arange(9.0))
    booster = lightgbm.train({**OPTIONS, "objective": "regression"}, data, 3)
    text = booster.model_to_string()
    for written in (text, text.replace("leaf_count=9\n", "leaf_count=\n")):  # as LightGBM 4.5 writes it
        trees = BoostedTrees.from_lightgbm(written)
        trees.check()
        np.testing.assert_allclose(trees.predict(np.ones((2, 2))), 4.0)


def test_splits_by_category_are_refused() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 8, (200, 1)).astype(float)
    options = {**OPTIONS, "objective": "regression", "min_data_per_group": 1, "cat_smooth": 0.0}
    data = lightgbm.Dataset(x, np.isin(x[:, 0], [1, 4, 6]) * 1.0, categorical_feature=[0])
    with pytest.raises(ValueError, match="categorical splits"):
        BoostedTrees.from_lightgbm(lightgbm.train(options, data, 3).model_to_string())


_FEW = _grown("regression", rounds=3)


@settings(deadline=None)
@given(st.sampled_from(sorted(TREE_ARRAYS)), st.integers(0, 10**6), st.integers(-3, 40))
def test_changed_arrays_are_refused_or_still_trees(name: str, position: int, number: int) -> None:
    """Arrays that pass the check can be evaluated: evaluation ends, and reads no leaf outside the arrays."""
    _, trees, x = _FEW
    array = getattr(trees, name).copy()
    array[position % len(array)] = number
    changed = dataclasses.replace(trees, **{name: array})
    try:
        changed.check()
    except ValueError:
        return
    assert np.isfinite(changed.predict(x[:20])).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"left": [0]}, "comes before it"),
        ({"left": [1]}, "does not exist"),
        ({"left": [-3]}, "does not exist"),
        ({"left": [-2]}, "child of two others"),
        ({"feature": [9]}, "outside 0 to 1"),
        ({"feature": [-1]}, "outside 0 to 1"),
        ({"threshold": [np.nan]}, "not finite"),
        ({"value": [np.inf, 0.0]}, "not finite"),
        ({"value": [0.0]}, "leaves differ in length"),
        ({"right": [-2, -2]}, "inner nodes differ in length"),
        ({"leaves": [0]}, "a tree has no leaf"),
        ({"node_rows": [0]}, "number of rows"),
    ],
)
def test_invalid_trees_are_refused(changes: dict[str, Any], message: str) -> None:
    stump: dict[str, Any] = {
        "leaves": [2],
        "feature": [0],
        "threshold": [0.5],
        "left": [-1],
        "right": [-2],
        "node_rows": [4],
        "value": [0.0, 1.0],
        "leaf_rows": [2, 2],
    }
    arrays = {name: np.array({**stump, **changes}[name], dtype) for name, (dtype, _) in TREE_ARRAYS.items()}
    with pytest.raises(ValueError, match=message):
        BoostedTrees(num_features=2, outputs=1, **arrays).check()


def test_without_lightgbm_one_sentence_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _, trees, x = _grown("regression", rounds=2)
    monkeypatch.setitem(__import__("sys").modules, "lightgbm", None)
    assert np.isfinite(trees.predict(x)).all()
    with pytest.raises(UsageError, match=r"pip install 'molattn\[trees\]'"):
        trees.shap_values(x)
