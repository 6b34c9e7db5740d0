"""The presets: each is a complete model with the block and encodings that it names, and passes all checks."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from molattn.chem import ConformerOptions, ReadOptions, conformer, molecule_graph
from molattn.data.store.batches import collate
from molattn.errors import SmilesError, UsageError
from molattn.graph import GraphNetBlock
from molattn.graph.encodings import Encoding
from molattn.inference import Predictor
from molattn.models.artifact import Artifact
from molattn.models.base import build_model
from molattn.models.config import CONFIGS, GraphModelConfig
from molattn.models.encodings import EDGE_ENCODINGS, NODE_ENCODINGS
from molattn.models.graph_model import GraphModel
from molattn.models.presets import PRESETS
from molattn.models.scaler import TargetScaler
from molattn.testing import CheckFailed, check_model
from molattn.training.run_config import resolve
from tests.predictions import compute_attention

SMALL = ("model.hidden_dim=16", "model.num_heads=2", "model.num_layers=2")
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
FLEXIBLE = "CCCCOC(=O)CCCN"


def small(preset, *settings):
    """The preset's model with two layers of two heads."""
    heads = ("model.edge_dim=2",) if preset == "graphormer" else ()
    torch.manual_seed(0)
    return build_model(resolve(None, {"preset": preset}, (*SMALL, *heads, *settings)).model, 1).eval()


def graph_of(model, smiles, seed=0):
    return molecule_graph(smiles, conformers=ConformerOptions(seed=seed) if model.config.needs_3d else None)


def test_mat_with_the_softmax_kernel_has_rows_that_sum_to_1():
    check_model(small("mat", "model.distance_kernel=softmax"), rows_sum_to_one=True)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_virtual_node_comes_after_the_atoms(preset):
    model = small(preset)
    _, weights = compute_attention(model, graph_of(model, ASPIRIN))
    assert weights.shape == (2, 2, 13 + len(model.virtual_labels), 13 + len(model.virtual_labels))
    if preset == "mat":  # whose dummy node is adjacent to itself only
        fixed = weights[0, 0, -1] - weights[0, 0, -1].min()
        assert fixed.argmax() == 13 and fixed[-1] > 0.6


@pytest.mark.parametrize("preset", [name for name, preset in PRESETS.items() if preset.needs_3d])
def test_predictions_are_invariant_to_rotation_and_translation_but_not_to_the_conformer(preset):
    model = small(preset)
    graph = graph_of(model, FLEXIBLE)
    x = conformer(FLEXIBLE).coordinates
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    moved = x @ turn + [3.0, -20.0, 7.0]
    distances = np.linalg.norm(moved[:, None] - moved[None], axis=-1).astype(np.float32)
    here, there = (model(collate([g])).item() for g in (graph, replace(graph, distances=distances)))
    assert abs(here - there) <= 1e-6 * max(1.0, abs(here))
    other = model(collate([graph_of(model, FLEXIBLE, seed=1)])).item()
    assert abs(here - other) > 1e-5


@pytest.mark.parametrize("name", EDGE_ENCODINGS)
def test_every_edge_encoding_changes_the_output(name):
    conformers = ConformerOptions() if name.startswith("distance") else None
    torch.manual_seed(0)
    config = GraphModelConfig(hidden_dim=16, num_heads=2, num_layers=1, edges=(name,), max_path=3)
    model = GraphModel(config).double()
    batch = collate([molecule_graph(s, conformers=conformers) for s in ("CCO", "C", "c1ccccc1.[Na+]")])
    model(batch).sum().backward()
    # A table that is initialized with zeros adds nothing to the values yet, but has a gradient.
    gradients = [p.grad for p in (model.blocks[0].phi_e.w_ve.weight, *model.edges.parameters())]
    assert all(g.isfinite().all() for g in gradients) and max(g.abs().max() for g in gradients) > 0


@pytest.mark.parametrize("name", NODE_ENCODINGS)
def test_every_node_encoding_changes_the_output(name):
    model = GraphModel(GraphModelConfig(hidden_dim=16, num_heads=2, num_layers=1, nodes=(name,))).double()
    model(collate([molecule_graph("CCO")])).sum().backward()
    assert any(p.grad.abs().max() > 0 for p in model.nodes.parameters())


def test_a_custom_encoding_is_one_class_and_one_line(monkeypatch):
    class SameElement(Encoding):
        """e_ij = a learned row where i and j are the same element."""

        def __init__(self, dim):
            super().__init__()
            self.dim = dim
            self.row = torch.nn.Parameter(torch.randn(dim))

        def forward(self, molecules):
            element = molecules.atom_codes[..., 0]
            return (element.unsqueeze(-1) == element.unsqueeze(-2)).unsqueeze(-1) * self.row

    monkeypatch.setitem(EDGE_ENCODINGS, "same-element", lambda config: SameElement(config.edge_dim))
    config = GraphModelConfig(hidden_dim=16, num_heads=2, num_layers=2, edges=("bond", "path", "same-element"))
    check_model(GraphModel(config))


@pytest.mark.parametrize(
    "config", [kind(hidden_dim=16, num_heads=2, num_layers=1) for kind in CONFIGS.values()], ids=lambda c: c.kind
)
def test_a_model_with_descriptors_can_be_checked(config, monkeypatch):
    model = build_model(config, 1, num_descriptors=3)
    passed = check_model(model)
    assert passed == check_model(build_model(config, 1))
    append = type(model).append_descriptors
    leaking = lambda self, x, batch: append(self, x, batch) + batch.descriptors.sum()  # noqa: E731
    monkeypatch.setattr(type(model), "append_descriptors", leaking)
    with pytest.raises(CheckFailed):  # each output depends on all descriptors in the batch
        check_model(model)


def test_bonded_neighbours_are_all_that_an_atom_attends_to():
    model = small("gaan", "model.neighbours=bonded")
    check_model(model)
    graph = graph_of(model, ASPIRIN)
    _, weights = compute_attention(model, graph)
    assert (weights[..., graph.path_lengths > 1] == 0).all()
    assert (weights[..., graph.path_lengths <= 1] > 0).all()


@pytest.mark.parametrize("readout", ["sum", "mean", "additive"])
@pytest.mark.parametrize("virtual", [False, True])
def test_contributions_sum_to_the_output(readout, virtual):
    torch.manual_seed(0)
    config = GraphModelConfig(hidden_dim=16, num_heads=2, num_layers=2, readout=readout, virtual_node=virtual)
    model = GraphModel(config, num_outputs=3).double().eval()
    torch.nn.init.normal_(model.norm.bias)  # zeros at the start
    batch = collate([molecule_graph(s) for s in (ASPIRIN, "C", "[Na+].[Cl-]")])
    terms = model.contributions(batch)
    assert terms.shape == (3, 13 + virtual, 3)
    assert (terms[1, 1:13] == 0).all()
    torch.testing.assert_close(terms.sum(1) + model.constant_term(), model(batch), rtol=1e-12, atol=1e-12)


def test_a_readout_without_terms_has_no_contributions():
    model = GraphModel(GraphModelConfig(readout="max", hidden_dim=16, num_heads=2))
    with pytest.raises(ValueError, match="not a sum over atoms"):
        model.contributions(collate([molecule_graph("CCO")]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention": "mta"}, "unknown attention 'mta': choose one of molattn, "),
        ({"edges": ("bnod",)}, "unknown edge encoding 'bnod'"),
        ({"nodes": ("age",)}, "unknown node encoding 'age'"),
        ({"join_edges": "mix"}, "unknown join_edges 'mix'"),
        ({"neighbours": "few"}, "unknown neighbours 'few'"),
        ({"readout": "virtual-node"}, "model.virtual_node=true"),
        ({"edges": ("distance",), "radial_bases": "fourier"}, "unknown radial_bases 'fourier'"),
        ({"attention": "grit", "global_dim": 4}, "GRIT has no graph features"),
        ({"attention": "mat", "edges": ("adjacency",), "lambdas": (0.5, 0.2)}, "sum to 1"),
        ({"attention": "graphormer"}, "one channel per head"),
    ],
)
def test_invalid_settings_are_errors(settings, message):
    with pytest.raises(ValueError, match=message):
        GraphModel(GraphModelConfig(**settings))


def test_edges_without_encodings_have_no_features():
    check_model(GraphModel(GraphModelConfig(hidden_dim=16, num_heads=2, num_layers=1, edges=())))


def test_a_preset_is_overridden_by_later_settings():
    config = resolve(None, {"preset": "mat"}, ["model.num_layers=2", "model.lambdas=[0.5, 0.25, 0.25]"])
    assert config.model.attention == "mat" and config.model.num_layers == 2 and config.data.conformers
    assert config.model.lambdas == (0.5, 0.25, 0.25)


@pytest.mark.parametrize(
    ("options", "settings", "message"),
    [
        ({"preset": "matt"}, (), "unknown preset 'matt': choose one of"),
        ({"preset": "mat", "model": "smiles-transformer"}, (), "leave one out"),
        ({}, ['model.edges=["distance"]'], "data.conformers=true"),
    ],
)
def test_invalid_presets_are_errors(options, settings, message):
    with pytest.raises(UsageError, match=message):
        resolve(None, options, settings)


def test_every_preset_uses_a_published_block():
    for preset in PRESETS:
        assert all(isinstance(block, GraphNetBlock) for block in small(preset).blocks)


@pytest.mark.parametrize("preset", PRESETS)
def test_requesting_attention_changes_no_prediction_and_attention_is_batch_invariant(preset):
    model = small(preset)
    artifact = Artifact(
        model,
        TargetScaler((1.0,), (2.0,)),
        ("y",),
        ("",),
        ReadOptions(conformers=ConformerOptions() if model.config.needs_3d else None),
    )
    predictor = Predictor(artifact)
    smiles = [ASPIRIN, "C", "not one", "CC(=O)[O-].[NH4+]", FLEXIBLE]
    maps = list(predictor.attentions(smiles))
    assert isinstance(maps.pop(2), SmilesError)
    del smiles[2]
    assert [m.smiles for m in maps] == smiles
    for attention_map, predicted in zip(maps, predictor.predict(smiles), strict=True):
        assert attention_map.prediction["y"] == pytest.approx(predicted, abs=1e-6 * max(1, abs(predicted)))
        alone = predictor.attention(attention_map.smiles)
        np.testing.assert_allclose(attention_map.weights, alone.weights, rtol=0, atol=1e-6)
        if attention_map.rows_sum_to_one:
            np.testing.assert_allclose(attention_map.weights.sum(-1), 1, rtol=0, atol=1e-6)
    assert maps[0].symbols == tuple("CCOOCCCCCCCOO") and maps[0].weights.shape[-1] == 13 + len(model.virtual_labels)
