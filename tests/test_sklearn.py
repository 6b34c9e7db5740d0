"""`MolAttentionRegressor` and `MolAttentionClassifier`: usage as scikit-learn estimators."""

import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_type_hints

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import get_tags

import molattn
from molattn import MolAttentionClassifier, MolAttentionRegressor
from molattn.chem import standardized_smiles
from molattn.models.config import CONFIGS
from molattn.models.tasks import Binary, Multiclass
from molattn.training.config import DataConfig, TrainingConfig
from molattn.training.options import TrainOptions
from molattn.training.run_config import RunConfig
from tests.assertions import assert_same_predictions
from tests.molecules import esol

SMILES, VALUES = esol(40)
KINDS = np.where(np.array(VALUES) > -2.5, "soluble", "insoluble")
TINY: dict[str, Any] = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "epochs": 2, "accelerator": "cpu"}


def regressor(**parameters: Any) -> MolAttentionRegressor:
    return MolAttentionRegressor(**{**TINY, **parameters})


def classifier(**parameters: Any) -> MolAttentionClassifier:
    return MolAttentionClassifier(**{**TINY, **parameters})


@pytest.fixture(scope="module")
def fitted() -> MolAttentionRegressor:
    return regressor().fit(SMILES, VALUES)


@pytest.fixture(scope="module")
def fitted_classifier() -> MolAttentionClassifier:
    return classifier().fit(SMILES, KINDS)


def test_importing_molattn_imports_neither_scikit_learn_nor_torch() -> None:
    code = "import sys, molattn; print([m for m in ('sklearn', 'torch', 'rdkit') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_every_shape_of_a_column_is_the_same_molecules(fitted: MolAttentionRegressor) -> None:
    expected = fitted.predict(SMILES)
    assert expected.shape == (40,) and expected.dtype == np.float64
    column = np.array(SMILES)
    table = pd.DataFrame({"smiles": SMILES})
    for X in (tuple(SMILES), column, column[:, None], table["smiles"], table, pl.Series(SMILES), table.astype(object)):
        np.testing.assert_array_equal(fitted.predict(X), expected)


def test_predictions_are_those_of_its_predictor_and_of_a_saved_model(
    fitted: MolAttentionRegressor, tmp_path: Path
) -> None:
    expected = fitted.predict(SMILES)
    np.testing.assert_array_equal(fitted.predictor_.predict(SMILES), expected)
    fitted.predictor_.save(tmp_path / "model")
    np.testing.assert_array_equal(molattn.load(tmp_path / "model").predict(SMILES), expected)
    assert fitted.predictor_.attention("CCO").weights.shape == (1, 2, 3, 3)


def test_the_same_seed_is_the_same_model_and_another_is_not() -> None:
    first, again, other = (regressor(random_state=s).fit(SMILES, VALUES).predict(SMILES) for s in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    state = np.random.RandomState(0)
    generated = [regressor(random_state=state).fit(SMILES, VALUES).predict(SMILES) for _ in range(2)]
    assert not np.array_equal(*generated)


def test_fit_is_silent_leaves_no_file_and_no_random_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    np.random.seed(1)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    regressor().fit(SMILES, VALUES).predict(SMILES)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
    regressor(verbose=True).fit(SMILES, VALUES)
    assert "epoch 2/2" in capfd.readouterr().err


def test_it_learns() -> None:
    smiles = ["C" * n for n in range(1, 25)]
    model = regressor(epochs=40, learning_rate=1e-2, readout="sum", batch_size=8).fit(smiles, range(24))
    assert model.score(smiles, range(24)) > 0.9
    assert len(model.history_) == 40 and model.history_[0]["train_loss"] > model.history_[-1]["train_loss"]
    kinds = ["alcohol", "amine"] * 12
    both = [f"{s}{'O' if k == 'alcohol' else 'N'}" for s, k in zip(smiles, kinds, strict=True)]
    learned = classifier(epochs=40, learning_rate=1e-2, batch_size=8).fit(both, kinds)
    assert learned.score(both, kinds) == 1.0
    assert learned.predict(["CCCO", "CCCN"]).tolist() == ["alcohol", "amine"]


@pytest.mark.parametrize("make", [regressor, classifier])
def test_pickle_and_joblib_and_deep_copies_predict_the_same(make: Any, tmp_path: Path) -> None:
    y = VALUES if make is regressor else KINDS
    model = make().fit(SMILES, y)
    joblib.dump(model, tmp_path / "m.joblib")
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "m.joblib")):  # noqa: S301
        np.testing.assert_array_equal(copy.predict(SMILES), model.predict(SMILES))
        assert copy.get_params() == model.get_params() and copy.history_ == model.history_
    unfitted = pickle.loads(pickle.dumps(make()))  # noqa: S301
    with pytest.raises(NotFittedError):
        unfitted.predict(SMILES)


def test_a_pickle_predicts_without_molattn_training(fitted: MolAttentionRegressor, tmp_path: Path) -> None:
    (tmp_path / "m.pkl").write_bytes(pickle.dumps(fitted))
    code = (
        "import pickle, sys; m = pickle.load(open(sys.argv[1], 'rb')); print(m.predict(['CCO']).shape, "
        "'molattn.training.fit' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "m.pkl"], capture_output=True, text=True, check=True)
    assert done.stdout == "(1,) False\n"


def test_clones_have_the_parameters_and_no_model(fitted: MolAttentionRegressor) -> None:
    copy = clone(fitted).set_params(epochs=5)
    assert copy.get_params() == {**fitted.get_params(), "epochs": 5}
    with pytest.raises(NotFittedError):
        copy.predict(SMILES)


def test_cross_validation_scores_held_out_molecules() -> None:
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(regressor(), SMILES, VALUES, cv=folds)
    predicted = cross_val_predict(regressor(), SMILES, VALUES, cv=folds)
    for (train, test), score in zip(folds.split(SMILES), scores, strict=True):
        model = regressor().fit([SMILES[i] for i in train], [VALUES[i] for i in train])
        expected = model.predict([SMILES[i] for i in test])
        np.testing.assert_array_equal(predicted[test], expected)
        assert score == pytest.approx(r2_score(np.array(VALUES)[test], expected))


def test_grid_search_over_a_pipeline() -> None:
    def strip_salts(smiles: list[str]) -> list[str]:
        return [standardized_smiles(s, "parent") for s in smiles]

    pipeline = make_pipeline(FunctionTransformer(strip_salts), classifier())
    grid = {"molattentionclassifier__hidden_dim": np.array([8, 16]), "molattentionclassifier__dropout": [0.0]}
    search = GridSearchCV(pipeline, grid, cv=2, scoring="roc_auc", error_score="raise").fit(SMILES, KINDS)
    assert search.best_estimator_[-1].predictor_.model.config.hidden_dim in (8, 16)
    np.testing.assert_array_equal(search.predict(["CCO.Cl"]), search.predict(["CCO"]))


def test_several_targets_with_missing_values() -> None:
    y = pd.DataFrame({"a": VALUES, "b": np.arange(40.0)})
    y.loc[::3, "b"] = np.nan
    y.loc[5] = np.nan
    model = regressor().fit(SMILES, y)
    predicted = model.predict(SMILES)
    assert predicted.shape == (40, 2) and np.isfinite(predicted).all()
    assert model.predictor_.targets == ("a", "b")
    known = y["b"].notna()
    expected = [r2_score(y["a"].drop(5), np.delete(predicted[:, 0], 5)), r2_score(y["b"][known], predicted[known, 1])]
    assert model.score(SMILES, y) == pytest.approx(np.mean(expected))
    # A molecule without a label has no effect.
    rest = [i for i in range(40) if i != 5]
    without = regressor().fit([SMILES[i] for i in rest], y.iloc[rest])
    np.testing.assert_array_equal(without.predict(SMILES), predicted)


def test_a_single_column_of_values_stays_a_column() -> None:
    y = np.array(VALUES)
    flat, column = regressor().fit(SMILES, y).predict(SMILES), regressor().fit(SMILES, y[:, None]).predict(SMILES)
    assert column.shape == (40, 1)
    np.testing.assert_array_equal(column[:, 0], flat)


def test_classes_are_strings_numbers_or_booleans(fitted_classifier: MolAttentionClassifier) -> None:
    model = fitted_classifier
    assert model.classes_.tolist() == ["insoluble", "soluble"]
    rng = model.predict_proba(SMILES)
    np.testing.assert_allclose(rng.sum(1), 1)
    np.testing.assert_array_equal(model.predict(SMILES), model.classes_[rng.argmax(1)])
    assert model.score(SMILES, KINDS) == accuracy_score(KINDS, model.predict(SMILES))
    for labels in ((KINDS == "soluble"), (KINDS == "soluble").astype(int) + 7):
        other = classifier().fit(SMILES, labels)
        assert other.classes_.dtype == labels.dtype
        np.testing.assert_array_equal(other.predict_proba(SMILES), rng)
        assert set(other.predict(SMILES)) <= set(labels)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["active", "inactive"], (("active", "inactive"),)),  # the first in the alphabet stays the first of `classes_`
        ([5, 10], (("5", "10"),)),
        ([1.0, 2.0], (("1", "2"),)),
        ([0.0, 1.0], ()),
        ([False, True], ()),
        ([1.0, 2.0, 3.0], (("1", "2", "3"),)),
        (["1", "1.0", "a"], (("1", "1.0", "a"),)),
    ],
)
def test_a_saved_classifier_evaluates_a_table_of_its_labels(labels: list[Any], names: tuple, tmp_path: Path) -> None:
    y = np.array(labels, dtype=object)[np.arange(len(SMILES)) % len(labels)]
    model = classifier(epochs=1, base="none").fit(SMILES, y)
    model.predictor_.save(tmp_path / "model")
    loaded = molattn.load(tmp_path / "model")
    assert isinstance(loaded.task, Binary | Multiclass) and loaded.task.classes == names
    if labels == ["1", "1.0", "a"]:
        return  # a table reads these texts as one number
    pd.DataFrame({"smiles": SMILES, "y": y}).to_csv(tmp_path / "t.csv", index=False)
    found = loaded.evaluate(tmp_path / "t.csv").metrics["y"]["accuracy"]
    assert found == pytest.approx(model.score(SMILES, y))


def test_a_target_of_one_class_beside_others_has_its_name_and_a_warning() -> None:
    y = np.stack([KINDS, np.full(len(KINDS), "dry")], 1)
    with pytest.warns(molattn.errors.MolattnWarning, match="'y1' has training labels of one class only"):
        model = classifier(epochs=1).fit(SMILES, y)
    task = model.predictor_.task
    assert isinstance(task, Binary) and task.classes == (("insoluble", "soluble"), ("dry", "not dry"))
    assert [p.shape[1] for p in model.predict_proba(SMILES[:2])] == [2, 1]


def test_labels_and_weights_of_another_length_are_errors(
    fitted: MolAttentionRegressor, fitted_classifier: MolAttentionClassifier
) -> None:
    missing = np.where(np.arange(len(VALUES)) < 5, np.nan, VALUES)
    for model, y in ((fitted, VALUES), (fitted, missing), (fitted_classifier, KINDS)):
        assert model.score(SMILES, y, sample_weight=np.ones(len(SMILES))) == pytest.approx(model.score(SMILES, y))
        for length in (2, len(SMILES) + 3):
            with pytest.raises(ValueError, match="inconsistent numbers of samples"):
                model.score(SMILES, y, sample_weight=np.ones(length))


def test_an_arrow_table_of_targets_names_them() -> None:
    y = pa.table({"logS": VALUES, "other": VALUES[::-1]})
    assert regressor(epochs=1).fit(SMILES, y).predictor_.targets == ("logS", "other")
    assert regressor(epochs=1).fit(SMILES, y.select(["logS"])).predictor_.targets == ("logS",)


def test_descriptors_of_one_column_or_of_one_molecule_are_a_series_too() -> None:
    frame = pd.DataFrame({"smiles": SMILES, "a": np.arange(40.0), "b": np.arange(40.0)[::-1]})
    one = regressor(epochs=1, descriptor_columns=["a"]).fit(frame[["smiles", "a"]], VALUES).predictor_
    wanted = one.predict(SMILES[:3], descriptors=[0, 1, 2])
    for column in (frame["a"][:3], pl.Series([0, 1, 2]), pa.chunked_array([[0, 1, 2]])):
        np.testing.assert_array_equal(one.predict(SMILES[:3], descriptors=column), wanted)
    assert one.predict(SMILES[0], descriptors=np.float32(0)) == pytest.approx(wanted[0])
    two = regressor(epochs=1, descriptor_columns=["a", "b"]).fit(frame, VALUES).predictor_
    expected = two.predict(SMILES[4], descriptors=[4, 35])
    assert two.predict(SMILES[4], descriptors=frame.loc[4, ["a", "b"]]) == pytest.approx(expected)
    assert two.predict(SMILES[4], descriptors=pl.Series([4, 35])) == pytest.approx(expected)


def test_geometries_that_the_model_does_not_read_are_a_warning() -> None:
    with pytest.warns(molattn.errors.MolattnWarning, match='no distances: add --set model.edges=."bond","path","dist'):
        regressor(epochs=1, conformers=True).fit(SMILES[:12], VALUES[:12])
    regressor(epochs=1, conformers=True, edges=["bond", "distance"]).fit(SMILES[:12], VALUES[:12])


def test_three_classes_some_of_them_unknown() -> None:
    labels: list[Any] = [["low", "middle", "high"][int(v > -4) + int(v > -2)] for v in VALUES]
    labels[3], labels[4] = None, np.nan
    model = classifier().fit(SMILES, labels)
    assert model.classes_.tolist() == ["high", "low", "middle"]
    rng = model.predict_proba(SMILES)
    assert rng.shape == (40, 3)
    np.testing.assert_allclose(rng.sum(1), 1)
    known = [i for i in range(40) if i not in (3, 4)]
    predicted = model.predict(SMILES)
    assert model.score(SMILES, labels) == accuracy_score([labels[i] for i in known], predicted[known])


def test_several_targets_of_classes_with_missing_labels_and_one_of_one_class() -> None:
    y = np.stack([(np.array(VALUES) > -2.5), np.arange(40) % 2, np.ones(40)], 1).astype(float)
    y[::4, 1] = np.nan
    with pytest.warns(molattn.errors.MolattnWarning, match="'y2' has training labels of one class only"):
        model = classifier().fit(SMILES, y)
    assert [c.tolist() for c in model.classes_] == [[0, 1], [0, 1], [1]]
    chances = model.predict_proba(SMILES)
    assert [p.shape for p in chances] == [(40, 2), (40, 2), (40, 1)]
    predicted = model.predict(SMILES)
    assert predicted.shape == (40, 3) and (predicted[:, 2] == 1).all()
    right = (np.isnan(y) | (y == predicted)).all(1)
    assert model.score(SMILES, y) == right.mean()


def test_targets_of_strings_and_numbers_keep_their_types() -> None:
    y = pd.DataFrame({"kind": KINDS, "odd": np.arange(40, dtype=np.float32) % 3})
    y.loc[7, "odd"] = np.nan
    model = classifier().fit(SMILES, y)
    assert [c.tolist() for c in model.classes_] == [["insoluble", "soluble"], [0, 1, 2]]
    predicted = model.predict(SMILES)
    assert {type(v) for v in predicted[:, 0]} == {str} and {type(v) for v in predicted[:, 1]} == {float}
    assert 0 <= model.score(SMILES, y) <= 1
    np.testing.assert_allclose(model.predict_proba(SMILES)[1].sum(1), 1)


def test_sample_weights_are_used_and_zero_excludes_a_molecule() -> None:
    weights = np.ones(40)
    weights[:10] = 0
    few = regressor().fit(SMILES[10:], VALUES[10:]).predict(SMILES)
    np.testing.assert_allclose(regressor().fit(SMILES, VALUES, weights).predict(SMILES), few, rtol=1e-5)
    weights[10:20] = 5
    assert not np.allclose(regressor().fit(SMILES, VALUES, weights).predict(SMILES), few, rtol=1e-3)


def test_a_bad_smiles_is_named_by_its_row(fitted: MolAttentionRegressor) -> None:
    bad = [*SMILES[:10], "C1CC", *SMILES[10:20], "", None]
    for act in (lambda: regressor().fit(bad, np.arange(23.0)), lambda: fitted.predict(bad)):
        with pytest.raises(ValueError, match=r"3 of 23 SMILES cannot be used.*row 10, 'C1CC': .*row 21, '': .*row 22"):
            act()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ("CCO", "a single string: give a list"),
        ([], "0 samples"),
        ([["C", "CC"], ["CC", "C"]], r"shape \(2, 2\)"),
        (["C", 2.0], "row 1, 2.0"),
        ([1.0, 2.0], "the 2 elements are not molecules, the first is float 1.0"),
    ],
)
def test_invalid_X_is_an_error(fitted: MolAttentionRegressor, X: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        fitted.predict(X)
    with pytest.raises((ValueError, TypeError), match=message):
        regressor().fit(X, [0.0, 1.0][: len(X)])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epochs": 0}, "epochs is 1 or more"),
        ({"epochs": "many"}, "a whole number"),
        ({"preset": "mta"}, "did you mean 'mat'"),
        ({"loss": "bce"}, "--task-type binary"),
        ({"validation_fraction": 1.0}, "validation_fraction is above 0"),
        ({"split": "alphabet"}, "unknown split 'alphabet'"),
        ({"settings": ["model.num_layer=3"]}, "num_layers"),
        ({"hidden_dim": 10, "num_heads": 3}, "3 heads do not divide 10"),
    ],
)
def test_invalid_parameters_are_errors_in_fit(parameters: dict[str, Any], message: str) -> None:
    model = regressor(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(SMILES, VALUES)


def test_molecules_may_have_as_many_atoms_as_max_atoms(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise InterruptedError

    monkeypatch.setattr("molattn.training.train_arrays.fit_ensemble", stop)
    smiles = ["C" * 1001, *SMILES[1:]]
    with pytest.raises(ValueError, match="1001|1,001"):
        regressor().fit(smiles, VALUES)
    with pytest.raises(InterruptedError):
        regressor(max_atoms=2000, settings=["data.molecule_featurizers=[]"]).fit(smiles, VALUES)


def test_invalid_labels_are_errors() -> None:
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        regressor().fit(SMILES, VALUES[:-1])
    with pytest.raises(ValueError, match="infinity"):
        regressor().fit(SMILES, [*VALUES[:-1], np.inf])
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(SMILES, VALUES)
    with pytest.raises(ValueError, match=r"one class, \['a'\]"):
        classifier().fit(SMILES, ["a"] * 40)
    with pytest.raises(ValueError, match="no label of 'y1'"):
        classifier().fit(SMILES, [[kind, None] for kind in KINDS])
    for mixed in ([1, "a"] * 20, np.array([1, "a"] * 20, dtype=object)):
        with pytest.raises(ValueError, match="labels are text, such as 'a', and others are not, such as 1: give"):
            classifier().fit(SMILES, mixed)
    with pytest.raises(ValueError, match="n_samples=1"):
        regressor().fit(["CCO"], [1.0])
    with pytest.raises(ValueError, match="no label of 'y1'"):
        regressor(validation_fraction=0.9).fit(SMILES, np.stack([VALUES, [1.0] + [np.nan] * 39], 1))


@pytest.mark.parametrize("dtype", ["string", "boolean", "Int64"])
def test_labels_that_pandas_marks_as_missing_are_left_out_of_the_score(dtype: str) -> None:
    kinds = pd.Series([pd.NA, *(np.arange(39) % 2)], dtype="Int64").astype(dtype)
    model = classifier().fit(SMILES, kinds)
    known = kinds[1:].to_numpy(model.classes_.dtype if dtype == "boolean" else None)
    assert model.score(SMILES, kinds) == pytest.approx(np.mean(model.predict(SMILES[1:]) == known))


def test_the_score_of_another_number_of_targets_raises() -> None:
    """Also where numpy could broadcast it."""
    two = regressor().fit(SMILES, np.stack([VALUES, VALUES], 1))
    kinds = np.stack([KINDS, KINDS], 1)
    one_class, two_classes = classifier().fit(SMILES, KINDS), classifier().fit(SMILES, kinds)
    for model, y, message in (
        (two, np.array([[1.0, 2.0, 3.0], [1.0, np.nan, 2.0]]), "y has 3 targets, not 2"),
        (two, [1.0, np.nan], "y has 1 target, not 2"),
        (two_classes, KINDS[:2], "y has 1 target, not 2"),
        (one_class, kinds[:2], "y has 2 targets, not 1"),
    ):
        with pytest.raises(ValueError, match=message):
            model.score(SMILES[:2], y)


def test_labels_that_are_missing_are_the_reason() -> None:
    smiles = SMILES[:4]
    for model, missing in ((MolAttentionRegressor(**TINY), np.nan), (MolAttentionClassifier(**TINY), None)):
        with pytest.raises(ValueError, match="none of the 4 molecules has a label: there is nothing to learn"):
            model.fit(smiles, [missing] * 4)
    with pytest.raises(ValueError, match="1 molecule cannot fill the 2 subsets .* 3 of 4 molecules have no label"):
        MolAttentionRegressor(**TINY).fit(smiles, [1.0, np.nan, np.nan, np.nan])


def test_parameters_are_the_options_of_train_and_have_no_values_of_their_own() -> None:
    sections = {name for settings in RunConfig().to_dict().values() for name in settings}
    own = {"settings", "verbose", "validation_fraction", "random_state", "smiles_column", "descriptor_columns"}
    own |= {"callbacks", "logger", "warm_start"}
    parameters = inspect.signature(MolAttentionRegressor).parameters
    assert parameters == inspect.signature(MolAttentionClassifier).parameters
    settings = set(parameters) - own
    assert settings - {"preset", "model"} < sections and len(settings) > 50
    # A parameter with a default other than None would silently override a preset or a base model.
    assert all(parameters[name].default is None for name in settings)
    for name in parameters:
        assert re.search(rf"^ {{4}}(\w+, )*{name}(, \w+)*: ", MolAttentionRegressor.__doc__, re.MULTILINE), name


def test_every_setting_is_an_option_of_train_by_its_type() -> None:
    kinds = {tuple[str, ...]: Sequence[str] | str | None, tuple[float, ...]: Sequence[float] | float | None}
    kinds[tuple[float | str, ...]] = Sequence[float | str] | float | str | None
    hints: dict[str, Any] = {}
    for kind in (DataConfig, TrainingConfig, *CONFIGS.values()):
        hints |= {name: kinds.get(hint, hint | None) for name, hint in get_type_hints(kind).items()}
    del hints["kind"], hints["dataset"], hints["callbacks"], hints["logger"]  # arguments of their own
    assert get_type_hints(TrainOptions) == {"preset": str | None, "model": str | None, **hints}


def test_a_parameter_that_does_not_exist_is_refused_with_the_closest_one() -> None:
    with pytest.raises(TypeError, match=r"'hidden_dims': did you mean 'hidden_dim'\?"):
        MolAttentionRegressor(**{"hidden_dims": 3})


def test_any_setting_can_be_searched() -> None:
    search = GridSearchCV(regressor(epochs=1), {"max_path": [3, 6], "edges": [("path",)]}, cv=2, error_score="raise")
    config = search.fit(SMILES, VALUES).best_estimator_.predictor_.model.config
    assert config.edges == ("path",) and config.max_path in (3, 6)


def test_a_preset_and_any_other_setting_reach_the_model() -> None:
    model = regressor(preset="graphormer", settings=["model.edge_dim=2"], epochs=1).fit(SMILES, VALUES)
    config = model.predictor_.model.config
    assert (config.attention, config.readout, config.edge_dim) == ("graphormer", "virtual-node", 2)
    # Not by `regressor`, which sets the number of layers.
    model = MolAttentionRegressor(preset="additive", hidden_dim=16, epochs=1, accelerator="cpu").fit(SMILES, VALUES)
    assert model.predictor_.model.config.num_layers == 2
    tokens = classifier(model="smiles-transformer", epochs=1).fit(SMILES, KINDS)
    assert tokens.predictor_.model.config.kind == "smiles-transformer"


def test_tags_describe_the_inputs() -> None:
    for model in (regressor(), classifier()):
        tags = get_tags(model)
        assert tags.input_tags.string and tags.input_tags.one_d_array and not tags.input_tags.two_d_array
        assert tags.target_tags.multi_output and tags.target_tags.required


def test_standard_deviations_intervals_and_sets() -> None:
    model = regressor(ensemble_size=2, calibration_size=0.3).fit(SMILES, VALUES)
    mean, std = model.predict(SMILES, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(SMILES))
    each = [member.predict(SMILES) for member in model.predictor_.members]
    np.testing.assert_allclose(std, np.std(each, axis=0), atol=1e-12)
    lower, upper = model.predict_interval(SMILES, 0.8)
    assert lower.shape == upper.shape == (40,) and (lower < mean).all() and (mean < upper).all()
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_array_equal(again.predict_interval(SMILES, 0.8)[1], upper)
    with pytest.raises(ValueError, match="has no standard deviations"):
        regressor().fit(SMILES, VALUES).predict(SMILES, return_std=True)
    # Of a table of two targets, too.
    several = regressor(calibration_size=0.3).fit(SMILES, np.stack([VALUES, VALUES], 1))
    assert [end.shape for end in several.predict_interval(SMILES[:3], 0.8)] == [(3, 2), (3, 2)]
    calibrated = classifier(calibration_size=0.3).fit(SMILES, KINDS)
    within = calibrated.predict_set(SMILES, 0.8)
    assert within.shape == (40, 2) and within.dtype == bool
    for function in (model.predict_interval, calibrated.predict_set):
        with pytest.raises(ValueError, match="1 of 2 SMILES cannot be used.*row 1, 'C1CC'"):
            function(["CCO", "C1CC"], 0.8)


def test_an_estimator_is_a_transformer_to_its_embeddings() -> None:
    smiles, y = SMILES[:30], VALUES[:30]
    steps = make_pipeline(regressor(), StandardScaler(), Ridge())
    predicted = steps.fit(smiles, y).predict(smiles)
    assert predicted.shape == (30,) and np.isfinite(predicted).all()
    fitted = steps[0]
    embeddings = fitted.transform(smiles)
    assert_same_predictions(embeddings, fitted.predictor_.embed(smiles))
    assert_same_predictions(fitted.transform(smiles[::-1]), embeddings[::-1])
    names = fitted.get_feature_names_out()
    assert names.tolist() == [f"molattentionregressor{k}" for k in range(fitted.predictor_.embedding_dim)]
    frame = fitted.set_output(transform="pandas").transform(smiles)
    assert frame.columns.tolist() == names.tolist() and len(frame) == 30
    with pytest.raises(ValueError, match="1 of 2 SMILES cannot be used.*row 1"):
        fitted.transform(["CCO", "C1CC"])
    with pytest.raises(NotFittedError):
        MolAttentionRegressor().transform(smiles)
