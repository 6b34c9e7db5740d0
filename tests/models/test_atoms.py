"""Predictions for atoms: permuted with the atoms, and invariant to everything else."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from molattn.chem import molecule_graph
from molattn.data.store.batches import collate
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import load_artifact, save_artifact
from molattn.models.base import build_model
from molattn.models.config import GraphModelConfig, SmilesModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.predict import compute_outputs
from molattn.models.presets import PRESETS
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Regression
from tests.molecules import SPECIAL, esol
from tests.predictions import compute_attention

GRAPHS = [molecule_graph(s) for s in (*SPECIAL, *esol(20)[0])]
LARGEST = max(GRAPHS, key=lambda g: g.num_atoms)
SMALL = {"hidden_dim": 16, "num_layers": 2, "num_heads": 8}


def _model(preset: str = "molattn", seed: int = 0, **more: Any) -> GraphModel:
    settings = {k: tuple(v) if isinstance(v, list) else v for k, v in PRESETS[preset].settings["model"].items()}
    torch.manual_seed(seed)
    config = GraphModelConfig(**{"edge_dim": 4, **settings, **SMALL, **more})
    return GraphModel(config, num_outputs=2, atom_level=True).double().eval()


def _with_distances(preset: str) -> list:
    """The graphs, with random symmetric distances if the preset reads distances."""
    if not PRESETS[preset].needs_3d:
        return GRAPHS
    draw, molecules = np.random.default_rng(0), []
    for g in GRAPHS:
        places = draw.normal(size=(g.num_atoms, 3))
        d = np.linalg.norm(places[:, None] - places[None], axis=-1).astype(np.float32)
        molecules.append(dataclasses.replace(g, distances=d))
    return molecules


@pytest.mark.parametrize("preset", PRESETS)
def test_predictions_are_permuted_with_the_atoms_and_invariant_to_batch_and_padding(preset: str) -> None:
    model, graphs, draw = _model(preset), _with_distances(preset), np.random.default_rng(1)
    together = np.split(compute_outputs(model, graphs, batch_size=7), np.cumsum(model.rows_per_molecule(graphs))[:-1])
    with torch.inference_mode():
        large = max(graphs, key=lambda g: g.num_atoms)
        for graph, expected in zip(graphs, together, strict=True):
            order = draw.permutation(graph.num_atoms).tolist()
            assert expected.shape == (graph.num_atoms, 2)
            np.testing.assert_allclose(compute_outputs(model, [graph.permute(order)]), expected[order], atol=1e-9)
            padded = model(collate([graph, large]))[: graph.num_atoms]
            np.testing.assert_allclose(padded.numpy(), expected, atol=1e-9)
    # The predictions of different atoms differ.
    assert np.ptp(np.concatenate(together), axis=0).min() > 1e-3


def test_in_float32_it_holds_to_1e_5() -> None:
    model, draw = _model().float(), np.random.default_rng(2)
    for graph in GRAPHS:
        order = draw.permutation(graph.num_atoms).tolist()
        expected = compute_outputs(model, [graph])[order]
        np.testing.assert_allclose(compute_outputs(model, [graph.permute(order)]), expected, atol=1e-5)


def test_each_prediction_is_the_head_of_its_node() -> None:
    model = _model("graphormer")
    graph = model.input_graph(collate([GRAPHS[4], LARGEST]))
    for block in model.blocks:
        graph = block(graph)
    v = model.norm(graph.v)[:, 1:]  # behind the virtual node
    literal = [model.head(v[b, i]) for b, g in enumerate((GRAPHS[4], LARGEST)) for i in range(g.num_atoms)]
    torch.testing.assert_close(model(collate([GRAPHS[4], LARGEST])), torch.stack(literal), rtol=1e-12, atol=1e-12)


def test_predictions_are_the_same_with_and_without_attention() -> None:
    model = _model("graphormer")
    outputs, weights = compute_attention(model, GRAPHS[4])
    np.testing.assert_allclose(outputs, compute_outputs(model, [GRAPHS[4]]), atol=1e-12)
    assert weights.shape[-1] == GRAPHS[4].num_atoms + 1


def test_every_weight_gets_a_gradient() -> None:
    # A readout would have weights that no output depends on.
    model = _model(readout="attention").train()
    model(collate(GRAPHS)).square().sum().backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []


def test_a_model_of_atoms_has_no_vector_and_no_terms_of_a_molecule() -> None:
    for method in (_model().embeddings, _model().contributions):
        with pytest.raises(ValueError, match="atom-level targets has no"):
            method(collate(GRAPHS[:2]))


def test_a_model_of_tokens_has_no_atoms() -> None:
    with pytest.raises(ValueError, match="has no atom-level targets: choose the model 'graph'"):
        build_model(SmilesModelConfig(), 1, atom_level=True)


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    model = _model("graphormer").float()
    task = Regression(atom_level=True)
    scaler = TargetScaler((0.5, 1.0), (2.0, 3.0))
    save_artifact(tmp_path, Artifact(model, scaler, ("a", "b"), ("", ""), task=task))
    loaded = load_artifact(tmp_path)
    assert loaded.task == task
    assert loaded.task.name == "atom-regression"
    assert loaded.model.atom_level
    np.testing.assert_array_equal(compute_outputs(loaded.model, GRAPHS), compute_outputs(model, GRAPHS))
