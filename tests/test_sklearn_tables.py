"""X as a table: SMILES in one column and descriptors in others, as usual in scikit-learn."""

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from molattn import MolAttentionClassifier, MolAttentionRegressor
from tests.molecules import esol

SMILES, VALUES = esol(40)
Y = np.array(VALUES)
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"id": range(40), "logp": Y + RNG.normal(0, 0.1, 40), "Structure": SMILES, "mw": np.arange(40.0)})
TINY: dict[str, Any] = {"hidden_dim": 16, "num_layers": 1, "num_heads": 2, "epochs": 2, "accelerator": "cpu"}
DESCRIPTORS = ["logp", "mw"]


def regressor(**parameters: Any) -> MolAttentionRegressor:
    return MolAttentionRegressor(**{**TINY, "descriptor_columns": DESCRIPTORS, **parameters})


@pytest.fixture(scope="module")
def fitted() -> MolAttentionRegressor:
    return regressor().fit(FRAME, Y)


def test_the_model_reads_the_columns_and_every_kind_of_table_is_the_same(fitted: MolAttentionRegressor) -> None:
    expected = fitted.predict(FRAME)
    assert fitted.predictor_.descriptors == ("logp", "mw")
    assert (fitted.n_features_in_, fitted.feature_names_in_.tolist()) == (4, list(FRAME.columns))
    np.testing.assert_array_equal(fitted.predictor_.predict(SMILES, descriptors=FRAME), expected)
    shuffled = FRAME[["mw", "Structure", "logp", "id"]]
    for X in (shuffled, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME), FRAME.astype(object), FRAME.iloc[:, 1:]):
        np.testing.assert_array_equal(fitted.predict(X), expected)
    other = FRAME.assign(logp=FRAME["logp"] + 5)
    assert (fitted.predict(other) != expected).all()


def test_it_trains_as_from_a_table_with_these_columns(fitted: MolAttentionRegressor) -> None:
    """By index in an array, as a ColumnTransformer returns; scaled with the training molecules only."""
    table = FRAME[["Structure", "logp", "mw"]].to_numpy(dtype=object)
    model = regressor(descriptor_columns=[1, -1]).fit(table, Y)
    assert model.predictor_.descriptors == ("x1", "x2")
    np.testing.assert_array_equal(model.predict(table), fitted.predict(FRAME))
    weights = np.ones(40)
    weights[:5] = 0  # in no subset of the split
    wild = FRAME.copy()
    wild.loc[:4, "logp"] = 1e6
    one, other = (regressor().fit(X, Y, weights).predict(FRAME) for X in (FRAME, wild))
    np.testing.assert_array_equal(one, other)


def test_informative_descriptors_improve_predictions() -> None:
    y = np.random.default_rng(1).normal(size=40)
    frame = pd.DataFrame({"smiles": SMILES, "hint": y})
    settings = {"epochs": 60, "learning_rate": 1e-2, "batch_size": 8}
    assert regressor(descriptor_columns=["hint"], **settings).fit(frame, y).score(frame, y) > 0.9


def test_copies_pickles_and_searches(fitted: MolAttentionRegressor) -> None:
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params() and not hasattr(copy, "predictor_")
    read = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(read.predict(FRAME), fitted.predict(FRAME))
    assert np.isfinite(cross_val_score(regressor(), FRAME, Y, cv=2, error_score="raise")).all()
    grid = {"descriptor_columns": [None, ["logp"], DESCRIPTORS], "smiles_column": ["Structure"]}
    search = GridSearchCV(regressor(), grid, cv=2, error_score="raise").fit(FRAME, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(FRAME).shape == (40,)


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_missing_numbers_are_filled_in_by_a_column_transformer(output: str) -> None:
    holes = FRAME.copy()
    holes.loc[[3, 20], "logp"] = np.nan
    fill = make_column_transformer((SimpleImputer(), DESCRIPTORS), ("passthrough", ["Structure"]))
    fill.set_output(transform=output)
    columns = {"pandas": ["simpleimputer__logp", "simpleimputer__mw"], "default": [0, 1]}[output]
    smiles = {"pandas": "passthrough__Structure", "default": 2}[output]
    pipeline = make_pipeline(fill, regressor(descriptor_columns=columns, smiles_column=smiles)).fit(holes, Y)
    assert np.isfinite(pipeline.predict(holes)).all()
    with pytest.raises(ValueError, match=r"row 3 \(from 0\) of X: no value in column 'logp'"):
        regressor().fit(holes, Y)


def test_classes() -> None:
    model = MolAttentionClassifier(**TINY, descriptor_columns=DESCRIPTORS).fit(FRAME, np.where(Y > -2.5, "high", "low"))
    rng = model.predict_proba(FRAME)
    np.testing.assert_allclose(rng.sum(1), 1)
    assert set(model.predict(FRAME)) <= {"high", "low"}


def test_a_frame_may_have_other_columns_without_any_descriptor() -> None:
    model = regressor(descriptor_columns=None, smiles_column="Structure").fit(FRAME, Y)
    plain = regressor(descriptor_columns=None).fit(SMILES, Y)
    np.testing.assert_array_equal(model.predict(FRAME), plain.predict(SMILES))
    tags = [get_tags(e).input_tags.two_d_array for e in (model, plain, regressor())]
    assert tags == [True, False, True]


def test_the_smiles_column_of_a_frame_is_found_by_its_name_without_descriptors_too() -> None:
    plain = regressor(descriptor_columns=None).fit(SMILES, Y)
    model = regressor(descriptor_columns=None).fit(FRAME, Y)
    assert (model.n_features_in_, model.predictor_.descriptors) == (4, ())
    for X in (FRAME, SMILES, FRAME[["Structure"]], pa.Table.from_pandas(FRAME)):
        np.testing.assert_array_equal(model.predict(X), plain.predict(SMILES))
    with pytest.raises(ValueError, match="named smiles: select it with smiles_column"):
        model.predict(FRAME.drop(columns="Structure"))


def test_columns_that_are_selected_by_index_are_those_of_fit() -> None:
    by_index = regressor(descriptor_columns=[1, -1]).fit(FRAME, Y)
    np.testing.assert_array_equal(by_index.predict(FRAME), regressor().fit(FRAME, Y).predict(FRAME))
    for other in (FRAME[["id", "mw", "Structure", "logp"]], FRAME.assign(extra=1.0)):
        with pytest.raises(ValueError, match=r"the descriptors of X are .*, and were 'logp', 'mw' in fit: select"):
            by_index.predict(other)
    table = FRAME[["Structure", "logp", "mw"]].to_numpy(dtype=object)
    of_arrays = regressor(descriptor_columns=[-1]).fit(table[:, :2], Y)
    with pytest.raises(ValueError, match="X has 3 columns, and had 2 in fit"):
        of_arrays.predict(table)


def test_columns_of_descriptors_may_be_an_index_or_an_array(fitted: MolAttentionRegressor) -> None:
    for columns in (pd.Index(DESCRIPTORS), np.array(DESCRIPTORS)):
        model = regressor(descriptor_columns=columns).fit(FRAME, Y)
        assert get_tags(model).input_tags.two_d_array
        np.testing.assert_array_equal(model.predict(FRAME), fitted.predict(FRAME))


def test_names_of_columns_are_those_of_the_last_fit() -> None:
    model = regressor(descriptor_columns=None).fit(FRAME, Y)
    assert model.fit(SMILES, Y).n_features_in_ == 1 and not hasattr(model, "feature_names_in_")
    assert list(model.fit(FRAME, Y).feature_names_in_) == list(FRAME.columns)


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({"descriptor_columns": ["logd"]}, FRAME, "X has no column 'logd'; it has 'id', 'logp', 'Structure', 'mw'"),
        ({"smiles_column": "logp"}, FRAME, "a column is selected twice among 'logp', 'logp', 'mw'"),
        ({}, FRAME.drop(columns="Structure"), "named smiles: select it with smiles_column$"),
        ({}, SMILES, r"X has the shape \(40,\): give a table"),
        ({"descriptor_columns": [9]}, FRAME.to_numpy(dtype=object), "X has no column 9; it has 'x0'"),
        ({}, FRAME.assign(mw=["a", *range(39)]), r"row 0 \(from 0\) of X: column 'mw': 'a' is not a finite number"),
        ({}, FRAME.assign(mw=np.inf), r"row 0 \(from 0\) of X: column 'mw': inf is not a finite number"),
        ({}, pd.concat([FRAME, FRAME[["mw"]]], axis=1), "2 columns 'mw': rename all but one"),
    ],
)
def test_invalid_tables_and_columns_are_errors(parameters: dict[str, Any], X: Any, message: str) -> None:
    model = regressor(**parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


def test_a_row_without_a_number_is_named_by_predict(fitted: MolAttentionRegressor) -> None:
    holes = FRAME.copy()
    holes.loc[7, "mw"] = np.nan
    with pytest.raises(ValueError, match="1 of 40 SMILES cannot be used.*row 7, .*no value in column 'mw'"):
        fitted.predict(holes)
    with pytest.raises(ValueError, match="X has no column 'mw'"):
        fitted.predict(FRAME.drop(columns="mw"))
