"""Descriptors as extra inputs: scaled by training molecules only, concatenated to the readout, with their own term."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from molattn.chem import MoleculeGraph, molecule_graph, smiles_tokens
from molattn.data.store.batches import collate
from molattn.errors import MolattnWarning, SmilesError, UsageError
from molattn.inference import Predictor
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import load_artifact, save_artifact
from molattn.models.base import MoleculeModel, build_model
from molattn.models.config import GraphModelConfig, SmilesModelConfig
from molattn.models.descriptor_stream import DescriptorStream
from molattn.models.graph_model import GraphModel
from molattn.models.scaler import DescriptorScaler, TargetScaler
from tests.assertions import assert_same_predictions

SMILES = ["CC(=O)Oc1ccccc1C(=O)O", "C", "[Na+].[Cl-]", "CCO"]
SMALL = {"hidden_dim": 16, "num_heads": 2, "num_layers": 1}
CONFIGS = [
    *(GraphModelConfig(**SMALL, readout=name) for name in ("mean", "sum", "max", "attention", "additive")),
    GraphModelConfig(**SMALL, readout="global", global_dim=8),
    GraphModelConfig(**SMALL, readout="virtual-node", virtual_node=True),
    SmilesModelConfig(**SMALL),
]
NUMBERS = st.floats(-1e6, 1e6, allow_subnormal=False)


def small_model(config: GraphModelConfig | SmilesModelConfig, k: int, num_outputs: int = 1) -> MoleculeModel:
    torch.manual_seed(0)
    return build_model(config, num_outputs, num_descriptors=k).eval().requires_grad_(False)


def read(model: MoleculeModel) -> list[object]:
    return [molecule_graph(s) if isinstance(model, GraphModel) else smiles_tokens(s) for s in SMILES]


@given(arrays(float, st.tuples(st.integers(2, 20), st.integers(1, 4)), elements=NUMBERS))
@example(np.full((3, 1), 0.1))
@example(np.full((4, 2), 1e300))
@settings(max_examples=100, deadline=None)
def test_scaled_columns_have_mean_0_and_deviation_1_and_constant_ones_are_0(x: np.ndarray) -> None:
    scaler = DescriptorScaler.fit([f"c{i}" for i in range(x.shape[1])], x)
    z = scaler.scale(x)
    assert np.isfinite(z).all()
    for column, scaled, std, name in zip(x.T, z.T.astype(float), scaler.std, scaler.names, strict=True):
        if (column == column[0]).all():
            assert std == 0 and (scaled == 0).all() and name in scaler.constant
        elif np.ptp(column) > 1e-3 * (1 + np.abs(column).max()):
            assert abs(scaled.mean()) < 1e-3 and abs(scaled.std() - 1) < 1e-3
    # Columns that are constant in training have no effect in prediction.
    assert (scaler.scale(x + 1)[:, np.array(scaler.std) == 0] == 0).all()


def test_a_number_too_far_from_training_is_an_error() -> None:
    scaler = DescriptorScaler.fit(["a", "b"], np.array([[0.0, 1.0], [1e-3, 2.0]]))
    assert scaler.range_error([1.0, 5.0]) == ""
    assert scaler.range_error([0.0, 1e300]) == "column 'b': 1e+300 is too far from the numbers of training"


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: getattr(c, "readout", c.kind))
def test_every_model_appends_descriptors_to_its_readout(config: GraphModelConfig | SmilesModelConfig) -> None:
    model = small_model(config, 2, num_outputs=3)
    rng = np.random.default_rng(0)
    z = rng.normal(size=(4, 2))
    molecules = read(model)
    batch, plain = model.collate(molecules, None, z), model.collate(molecules, None, 0 * z)
    vectors = model.embeddings(batch)
    assert vectors.shape == (4, model.head.in_features)
    torch.testing.assert_close(vectors[:, -2:].numpy(), z.astype(np.float32).astype(float), rtol=0, atol=0)
    torch.testing.assert_close(model.apply_head(vectors), model(batch))
    torch.testing.assert_close(model.attention(batch)[0], model(batch), rtol=1e-5, atol=1e-6)
    # Descriptors change the output by their terms only.
    terms = model.descriptor_terms(batch)
    assert terms.shape == (4, 2, 3) and (terms != 0).all()
    torch.testing.assert_close(model(plain) + terms.sum(1), model(batch), rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="reads 2 descriptors for each molecule, not 0"):
        model(model.collate(molecules))
    with pytest.raises(ValueError, match="reads 0 descriptors for each molecule, not 2"):
        small_model(config, 0)(batch)


@pytest.mark.parametrize("readout", ["sum", "mean", "additive"])
def test_terms_of_atoms_and_descriptors_and_the_bias_sum_to_the_output(readout: str) -> None:
    model = small_model(GraphModelConfig(**SMALL, readout=readout), 3, num_outputs=2).double()
    assert isinstance(model, GraphModel)
    batch = collate([molecule_graph(s) for s in SMILES], None, np.random.default_rng(1).normal(size=(4, 3)))
    total = model.contributions(batch).sum(1) + model.descriptor_terms(batch).sum(1) + model.constant_term()
    torch.testing.assert_close(total, model(batch), rtol=1e-12, atol=1e-12)
    without = small_model(GraphModelConfig(**SMALL, readout=readout), 0)
    assert without.descriptor_terms(collate([molecule_graph("C")])).shape == (1, 0, 1)


def test_initial_weights_without_descriptors_are_unchanged() -> None:
    torch.manual_seed(0)
    before = GraphModel(GraphModelConfig(**SMALL)).state_dict()
    torch.manual_seed(0)
    after = build_model(GraphModelConfig(**SMALL), 1, num_descriptors=0).state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.fixture
def predictor() -> Predictor:
    scaler = DescriptorScaler(("logp", "mw", "constant"), (1.0, 100.0, 5.0), (2.0, 50.0, 0.0))
    artifact = Artifact(small_model(CONFIGS[0], 3), TargetScaler((0.5,), (2.0,)), ("y",), ("",))
    return Predictor(replace(artifact, descriptors=scaler))


def test_a_saved_model_has_its_descriptors(predictor: Predictor, tmp_path: Path) -> None:
    numbers = np.array([[1.0, 50.0, 5.0], [0.1, 1.0, 7.0]])
    before = predictor.predict(["CCO", "C"], descriptors=numbers)
    save_artifact(tmp_path, predictor._artifact)
    loaded = Predictor(load_artifact(tmp_path))
    assert loaded.descriptors == ("logp", "mw", "constant") and loaded.embedding_dim == 19
    np.testing.assert_array_equal(loaded.predict(["CCO", "C"], descriptors=numbers), before)
    assert not any(d["computed"] for d in json.loads((tmp_path / "config.json").read_text())["descriptors"])


def test_descriptors_may_be_rows_frames_or_one_row(predictor: Predictor) -> None:
    smiles, rows = ["CCO", "C", "CC"], [[1.0, 50, 5], ["0.1", " 1.0", 7], (2, np.float32(3), True)]
    expected = predictor.predict(smiles, descriptors=rows)
    columns = {"mw": [50.0, 1.0, 3.0], "other": [*"abc"], "logp": [1.0, 0.1, 2.0], "constant": [0, 0, 0]}
    np.testing.assert_array_equal(predictor.predict(smiles, descriptors=pd.DataFrame(columns)), expected)
    np.testing.assert_array_equal(predictor.predict(smiles, descriptors=pl.DataFrame(columns)), expected)
    np.testing.assert_array_equal(predictor.predict(iter(smiles), descriptors=iter(rows)), expected)
    alone = predictor.predict("CCO", descriptors=rows[0])
    assert predictor.predict("CCO", descriptors=np.array(rows[0])) == alone
    assert_same_predictions(alone, expected[0])
    # With returned weights, attention is computed in another order.
    assert predictor.attention("CCO", descriptors=rows[0]).prediction == {"y": pytest.approx(expected[0], abs=1e-6)}
    assert predictor.embed("CCO", descriptors=rows[0])[-3:].tolist() == [0.0, -1.0, 0.0]
    with pytest.raises(UsageError, match="the frame has no column 'logp'; it has 'mw'"):
        predictor.predict(smiles, descriptors=pd.DataFrame({"mw": [1.0, 2, 3]}))


def test_maps_need_no_descriptors_which_change_only_their_predictions(predictor: Predictor) -> None:
    rows = [[1.0, 50, 5], [1, 2, 3], [0.1, 1, 7]]
    smiles = ["CCO", "C1CC", "CC(=O)O.[Na+]"]
    given_maps = list(predictor.attentions(smiles, descriptors=rows))
    without = list(predictor.attentions(smiles))
    for made_with, made_without, text, row in zip(given_maps, without, smiles, rows, strict=True):
        if text == "C1CC":
            assert isinstance(made_with, SmilesError) and isinstance(made_without, SmilesError)
        else:
            assert made_with.prediction["y"] == pytest.approx(predictor.predict(text, descriptors=row), abs=1e-6)
            assert made_without.prediction == {}
            np.testing.assert_array_equal(made_with.weights, made_without.weights)
    with pytest.raises(UsageError, match="fewer rows of descriptors"):
        list(predictor.attentions(smiles, descriptors=rows[:2]))


def test_each_bad_row_has_an_error_and_does_not_affect_others(predictor: Predictor) -> None:
    cells = [
        [1, 50, 5],
        ["", 50, 5],
        [1, "0,5", 5],
        [None, float("nan"), 5],
        [1, 1e300, 5],
        [1, float("inf"), 5],
        ["x", 50, 5],
    ]
    smiles = ["CCO"] * 6 + ["C1CC"]
    rows = list(predictor.predict_rows(smiles, descriptors=cells))
    assert rows[0].values is not None
    assert_same_predictions(rows[0].values, predictor.predict(["CCO"], descriptors=cells[:1]))
    assert [row.error for row in rows[1:6]] == [
        "no value in column 'logp'",
        "column 'mw': '0,5' is not a finite number: write a decimal point, 0.5",
        "no value in columns 'logp', 'mw'",
        "column 'mw': 1e+300 is too far from the numbers of training",
        "column 'mw': inf is not a finite number",
    ]
    assert "ring" in rows[6].error or "RDKit" in rows[6].error
    with pytest.warns(MolattnWarning, match=r"6 of 7 .*row 1, 'CCO': no value in column 'logp'"):
        predictor.predict(smiles, descriptors=cells)
    with pytest.raises(SmilesError, match="no value in column 'logp'"):
        predictor.attention("CCO", descriptors=["", 1, 1])


@pytest.mark.parametrize(
    ("given_descriptors", "message"),
    [
        (None, "the model reads 'logp', 'mw', 'constant' for each molecule: give a table"),
        ([[1, 2, 3]], "fewer rows of descriptors than SMILES"),
        ([[1, 2, 3]] * 3, "more rows of descriptors than SMILES"),
        ([[1, 2]] * 2, "a row has 2 descriptors; the model reads 'logp', 'mw', 'constant'"),
        ([1.0, 2.0], "a row has 1 descriptors"),
    ],
)
def test_descriptors_that_do_not_match_are_an_error(
    predictor: Predictor, given_descriptors: object, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        predictor.predict(["CCO", "C"], descriptors=given_descriptors)


def test_a_model_without_descriptors_rejects_them() -> None:
    plain = Predictor(Artifact(small_model(CONFIGS[0], 0), TargetScaler((0.0,), (1.0,)), ("y",), ("",)))
    assert plain.descriptors == () and np.isfinite(plain.predict("CCO"))
    with pytest.raises(UsageError, match="the model reads no descriptors"):
        plain.predict("CCO", descriptors=[1.0])


@given(st.lists(st.integers(1, 7), max_size=12), st.integers(1, 3))
@settings(max_examples=50, deadline=None)
def test_rows_stay_with_their_molecules_in_chunks_of_any_size(sizes: list[int], k: int) -> None:
    n = sum(sizes)
    numbers = np.arange(n * k, dtype=float).reshape(n, k)
    scaler = DescriptorScaler(tuple(f"c{i}" for i in range(k)), (0.0,) * k, (1.0,) * k)
    rows = DescriptorStream(scaler, numbers)
    molecule = molecule_graph("C")
    joined = []
    for size in sizes:
        joined += rows.join(["C"] * size, [molecule] * size)
    rows.check_end()
    assert all(isinstance(m, MoleculeGraph) for _, m, _ in joined)
    np.testing.assert_array_equal(np.array([z for _, _, z in joined]).reshape(n, k), numbers)
