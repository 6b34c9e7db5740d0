"""What a caller may pass as molecules: every kind of list, table and array gives what the list of SMILES gives."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from rdkit import Chem

import molattn
from molattn.errors import MolattnWarning, UsageError
from molattn.explain import AttentionMap
from molattn.inference import Predictor, molecules
from molattn.inference.molecules import as_smiles
from molattn.sklearn import MolAttentionRegressor
from tests.assertions import assert_same_predictions
from tests.molecules import esol

SMILES = ["CCO", "c1ccccc1", "CC(=O)O"]
SMALL = ["model.num_layers=2", "model.hidden_dim=16", "model.num_heads=4"]
CONTAINERS: dict[str, Callable[[], Any]] = {
    "a tuple": lambda: tuple(SMILES),
    "a generator": lambda: (s for s in SMILES),
    "an array": lambda: np.array(SMILES),
    "an array of objects": lambda: np.array(SMILES, dtype=object),
    "an array of one column": lambda: np.array(SMILES)[:, None],
    "a Series of pandas": lambda: pd.Series(SMILES, index=[7, 3, 5]),
    "a Series of polars": lambda: pl.Series(SMILES),
    "a frame of one column": lambda: pd.DataFrame({"ligand": SMILES}, index=[7, 3, 5]),
    "a frame of pandas": lambda: pd.DataFrame({"id": [1, 2, 3], "canonical_smiles": SMILES}),
    "a frame of polars": lambda: pl.DataFrame({"id": [1, 2, 3], "SMILES": SMILES}),
    "a table of pyarrow": lambda: pa.table({"id": [1, 2, 3], "smiles": SMILES}),
    "an array of pyarrow": lambda: pa.array(SMILES),
    "a column of pyarrow": lambda: pa.table({"smiles": SMILES})["smiles"],
    "RDKit molecules": lambda: [Chem.MolFromSmiles(s) for s in SMILES],
    "a frame of RDKit molecules": lambda: pd.DataFrame({"mol": [Chem.MolFromSmiles(s) for s in SMILES]}),
    "molecules with explicit hydrogens": lambda: [Chem.AddHs(Chem.MolFromSmiles(s)) for s in SMILES],
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("molecules")
    rows = [f"{s},{y},{len(s)}" for s, y in zip(*esol(40), strict=True)]
    (root / "t.csv").write_text("\n".join(["smiles,y,length", *rows]) + "\n")
    options: dict[str, Any] = {"settings": SMALL, "epochs": 1, "quiet": True, "target_columns": ["y"]}
    molattn.train(root / "t.csv", output_dir=root / "run", **options)
    molattn.train(root / "t.csv", output_dir=root / "described", descriptor_columns=["length"], **options)
    return root


@pytest.fixture(scope="module")
def predictor(root: Path) -> Predictor:
    return molattn.load(root / "run")


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_is_read_as_the_list_of_its_smiles(predictor: Predictor, container: str) -> None:
    make = CONTAINERS[container]
    assert_same_predictions(predictor.predict(make()), predictor.predict(SMILES))
    assert_same_predictions(predictor.embed(make()), predictor.embed(SMILES))
    lower, upper = np.array([r.values for r in predictor.predict_rows(make())]), predictor.predict(SMILES)
    assert_same_predictions(lower[:, 0], upper)
    for found, expected in zip(predictor.attention(make()), predictor.attention(SMILES), strict=True):
        assert_same_predictions(found.weights, expected.weights)
    for found, expected in zip(predictor.attributions(make()), predictor.attributions(SMILES), strict=True):
        assert_same_predictions(found.values, expected.values)
    for found, expected in zip(predictor.attentions(make()), predictor.attention(SMILES), strict=True):
        assert_same_predictions(found.weights, expected.weights)


def test_one_rdkit_molecule_is_one_molecule(predictor: Predictor) -> None:
    mol = Chem.MolFromSmiles("CCO")
    assert_same_predictions(predictor.predict(mol), predictor.predict("CCO"))
    assert predictor.embed(mol).shape == (predictor.embedding_dim,)
    assert predictor.attention(mol).smiles == "CCO"
    assert predictor.attributions(mol).smiles == "CCO"
    (row,) = predictor.predict_rows("CCO")
    assert row.smiles == "CCO"


def test_stereochemistry_charges_and_isotopes_of_a_molecule_are_kept(predictor: Predictor) -> None:
    written = ["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "F/C=C/F", "F/C=C\\F", "[13CH3][NH3+].[Cl-]"]
    assert_same_predictions(predictor.predict([Chem.MolFromSmiles(s) for s in written]), predictor.predict(written))


def test_a_molecule_that_is_none_is_the_error_of_its_row(predictor: Predictor) -> None:
    # The result of Chem.MolFromSmiles and PandasTools for an invalid structure.
    with pytest.warns(MolattnWarning, match=r"1 of 3 SMILES have no prediction \(NaN\); the first, row 1"):
        values = predictor.predict([Chem.MolFromSmiles("CCO"), None, Chem.MolFromSmiles("CC")])
    assert np.isnan(values).tolist() == [False, True, False]


def test_another_order_of_the_atoms_is_reported(predictor: Predictor) -> None:
    mol = Chem.RenumberAtoms(Chem.MolFromSmiles("CCOC"), [0, 2, 1, 3])  # C, O, C, C: the first two are not bonded
    for explain in (predictor.attention, predictor.attributions, lambda m: list(predictor.attentions(m))):
        with pytest.warns(MolattnWarning, match="row 0: the atoms are in the order of the SMILES 'CCOC'"):
            explain(mol)
    assert_same_predictions(predictor.predict(mol), predictor.predict("CCOC"))


def test_descriptors_are_taken_from_the_frame_of_the_molecules(root: Path) -> None:
    predictor = molattn.load(root / "described")
    expected = predictor.predict(SMILES, descriptors=[[3], [8], [7]])
    for frame in (pd.DataFrame, pl.DataFrame, pa.table):
        table = frame({"length": [3.0, 8.0, 7.0], "smiles": SMILES})
        assert_same_predictions(predictor.predict(table), expected)
        assert_same_predictions(predictor.predict(table, descriptors=[[3], [8], [9]])[:2], expected[:2])
        assert predictor.attributions(table)[0].smiles == "CCO"
        (target,) = predictor.targets
        rows = [row.values for row in predictor.predict_rows(table)]
        assert_same_predictions(np.ravel(np.array(rows)), expected)
        assert_same_predictions(np.array([row.values for row in predictor.embed_rows(table)]), predictor.embed(table))
        maps = [found for found in predictor.attentions(table) if isinstance(found, AttentionMap)]
        assert_same_predictions([found.prediction[target] for found in maps], expected)
    without = [found for found in predictor.attentions(SMILES) if isinstance(found, AttentionMap)]
    assert [found.prediction for found in without] == [{}, {}, {}]
    bare = pd.DataFrame({"smiles": SMILES})
    for method in (predictor.predict, predictor.predict_rows, predictor.embed_rows, predictor.attentions):
        with pytest.raises(UsageError, match="length"):
            list(method(bare))


@pytest.mark.parametrize("wrong", [None, 3, 1.5, b"CCO", {"smiles": SMILES}, set(SMILES), np.array([SMILES, SMILES])])
def test_what_is_no_list_of_molecules_is_a_type_error(predictor: Predictor, wrong: Any) -> None:
    for method in (predictor.predict, predictor.embed, predictor.attention, predictor.attributions):
        with pytest.raises(TypeError, match=r"(type|list) of molecules"):
            method(wrong)
        with pytest.raises(TypeError, match=r"a LazyFrame has no rows yet: pass the result of its collect\(\)"):
            method(pl.DataFrame({"smiles": SMILES}).lazy())


@pytest.mark.parametrize(
    "wrong",
    [[1, 2], (1.5,), np.array([1.0, 2.0]), pd.Series([3, 4]), pd.DataFrame({"x": [1, 2]}), [SMILES, SMILES], [b"CCO"]],
    ids=str,
)
def test_a_list_without_any_molecule_is_a_type_error(predictor: Predictor, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"elements are not molecules, the first is .*: pass SMILES or RDKit molecules"):
        predictor.predict(wrong)


@pytest.mark.parametrize("missing", [None, float("nan"), np.nan, pd.NA, pd.NaT, ""], ids=repr)
def test_empty_cells_and_single_wrong_ones_are_errors_of_their_rows(predictor: Predictor, missing: Any) -> None:
    """A column without a single molecule may still be a column of a user's table: its rows come back."""
    with pytest.warns(MolattnWarning, match="2 of 2"):
        assert np.isnan(predictor.predict([missing, missing])).all()
    with pytest.warns(MolattnWarning, match="1 of 2"):
        assert np.isnan(predictor.predict([5, "CCO"])).tolist() == [True, False]
    assert predictor.predict([]).shape == (0,)


def test_a_frame_without_a_column_of_smiles_is_refused(predictor: Predictor) -> None:
    with pytest.raises(UsageError, match=r"no column of .*a.*b.* is named smiles: pass the column .* frame\['a'\]"):
        predictor.predict(pd.DataFrame({"a": SMILES, "b": SMILES}))


def test_a_frame_without_columns_or_with_two_of_the_name_is_refused() -> None:
    for frame in (pd.DataFrame(), pl.DataFrame(), pa.table({})):
        with pytest.raises(UsageError, match="the data frame has no columns: pass one with a column of SMILES"):
            as_smiles(frame)
    two = pd.concat([pd.DataFrame({"smiles": SMILES})] * 2, axis=1)
    with pytest.raises(UsageError, match="has 2 columns 'smiles': rename all but one"):
        as_smiles(two)
    assert [*as_smiles(pd.concat([two["smiles"].iloc[:, :1], pd.DataFrame({"x": [1, 1, 1]})], axis=1)).smiles] == SMILES


def test_the_warning_of_another_order_names_the_line_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """For any iterable; without the frames that the type checks under pytest add."""
    for function in ("_mols_to_smiles", "warn_caller"):
        monkeypatch.setattr(molecules, function, inspect.unwrap(getattr(molecules, function)))
    mol = Chem.RenumberAtoms(Chem.MolFromSmiles("CCOC"), [0, 2, 1, 3])
    read = inspect.unwrap(as_smiles)

    def iterate() -> object:
        return [*read([mol], atom_order=True).smiles]

    def at_once() -> object:
        return read(mol, atom_order=True)

    for function in (iterate, at_once):
        with pytest.warns(MolattnWarning, match="row 0") as warned:
            function()
        assert (warned[0].filename, warned[0].lineno) == (__file__, function.__code__.co_firstlineno + 1)


def test_estimators_take_rdkit_molecules() -> None:
    smiles, y = esol(30)
    options: dict[str, Any] = {"epochs": 1, "settings": SMALL}
    expected = MolAttentionRegressor(**options).fit(smiles, y).predict(smiles)
    mols = [Chem.MolFromSmiles(s) for s in smiles]
    assert_same_predictions(MolAttentionRegressor(**options).fit(mols, y).predict(mols), expected)
