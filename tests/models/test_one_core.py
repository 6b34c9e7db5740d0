"""One core: its softmax determines predictions and maps alike, and every backend gives the same numbers."""

import pytest
import torch

from molattn.attention import BACKENDS, DenseLayout, EdgeListLayout, PaddedGraphLayout, backend, record_backends
from molattn.chem import ConformerOptions, ReadOptions, molecule_graph
from molattn.kernels.blocks import LIBRARY
from molattn.models.base import build_model
from molattn.models.presets import PRESETS
from molattn.training.run_config import resolve
from tests.assertions import assert_close

SMILES = ("CC(=O)Oc1ccccc1C(=O)O", "C", "OCC(F)(F)Cl", "[Na+].[Cl-]")
SETTINGS = ("model.num_layers=2", "model.hidden_dim=32", "model.num_heads=2")
MODELS = {preset: (preset, ()) for preset in PRESETS}
MODELS |= {
    "additive": (None, ("model.score=additive",)),
    "general": (None, ("model.score=general",)),
    "sparsemax": (None, ("model.normalizer=sparsemax",)),
    "hard": (None, ("model.temperature=0",)),
    "joined by a mean": (None, ("model.join=mean",)),
    "with graph features": (None, ("model.global_dim=8", "model.readout=global")),
    "bonded": (None, ("model.neighbours=bonded",)),
    "smiles-transformer": (None, ("model.kind=smiles-transformer",)),
}


@pytest.fixture(params=MODELS)
def model_and_batch(request):
    """A model and its batch."""
    preset, settings = MODELS[request.param]
    extra = ("model.edge_dim=2",) if preset == "graphormer" else ()
    given = {"base": "none"} if preset is None else {"preset": preset}
    config = resolve(None, given, (*SETTINGS, *extra, *settings)).model
    torch.manual_seed(0)
    model = build_model(config, 1).eval()
    reader = model.reader(ReadOptions(conformers=ConformerOptions() if config.needs_3d else None))
    return model, model.collate([reader(smiles) for smiles in SMILES])


def predict_with_maps(model, batch):
    """The predictions, and the predictions with their maps."""
    with torch.no_grad():
        return model(batch), *model.attention(batch)


def test_with_the_reference_the_softmax_of_the_core_decides_predictions_and_maps(model_and_batch, monkeypatch):
    model, batch = model_and_batch
    with backend("reference"), record_backends() as calls:
        y, with_maps, maps = predict_with_maps(model, batch)
        assert {call.backend for call in calls} <= {"reference"}
        if (
            getattr(model.config, "normalizer", "softmax") == "sparsemax"
            or getattr(model.config, "temperature", 1) == 0
        ):
            return  # no softmax decides there
        for layout in (DenseLayout, PaddedGraphLayout):
            monkeypatch.setattr(
                layout, "softmax", lambda layout, logits: layout.zero_masked(logits.new_ones(logits.shape) / 7)
            )
        monkeypatch.setattr(EdgeListLayout, "softmax", lambda _, logits: logits.new_ones(logits.shape) / 7)
        other, other_with_maps, other_maps = predict_with_maps(model, batch)
    assert (other - y).abs().max() > 1e-3
    assert (other_with_maps - with_maps).abs().max() > 1e-3
    assert (other_maps - maps).abs().max() > 1e-2
    assert_close(other, other_with_maps, 1e-6)


def test_every_backend_predicts_what_the_reference_does(model_and_batch):
    model, batch = model_and_batch
    with backend("reference"):
        expected = predict_with_maps(model, batch)
    for names in (BACKENDS, *((name,) for name in BACKENDS)):
        with backend(*names):
            found = predict_with_maps(model, batch)
        for x, exact in zip(found, expected, strict=True):
            assert_close(x, exact, 1e-6 * max(1.0, float(exact.abs().max())))


def test_the_default_model_trains_and_predicts_in_one_fused_operation():
    config = resolve(None, {"base": "none"}, SETTINGS).model
    model = build_model(config, 1)
    if LIBRARY.unavailable_reason():
        pytest.skip(f"no compiled blocks: {LIBRARY.unavailable_reason()}")
    batch = model.collate([molecule_graph(smiles) for smiles in SMILES])
    with record_backends() as calls:
        model(batch).sum().backward()
    assert [call.backend for call in calls if call.operation == "blocks"] == ["compiled"]
    assert not [call for call in calls if call.operation == "attention"]
    slow = build_model(resolve(None, {"base": "none"}, (*SETTINGS, "model.global_dim=8")).model, 1)
    assert slow.slow_reason() == "graph features (global_dim)"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (("model.score=cosine",), "unknown score 'cosine': choose one of dot, scaled_dot, general, additive"),
        (("model.score=location",), "positions"),
        (("model.normalizer=argmax",), "unknown normalizer 'argmax'"),
        (("model.join=sum",), "unknown join 'sum'"),
        (("model.normalizer=sparsemax", "model.temperature=2"), "a temperature needs the softmax"),
        (
            ("model.attention=grit", "model.score=additive"),
            "model.score is an option of the attentions molattn and tensor-dot",
        ),
    ],
)
def test_an_invalid_setting_is_an_error(settings, says):
    with pytest.raises(ValueError, match=says):
        build_model(resolve(None, {"base": "none"}, (*SETTINGS, *settings)).model, 1)


def test_a_head_with_a_hook_or_of_a_subclass_is_called(model_and_batch):
    model, batch = model_and_batch
    expected, inputs = model(batch), []
    hook = model.head.register_forward_hook(lambda _, x, y: inputs.append(x[0]) or 2 * y)
    assert_close(model(batch), 2 * expected, 1e-4)
    assert_close(model.attention(batch)[0], 2 * expected, 1e-4)
    assert_close(inputs[0].double(), model.embeddings(batch).double(), 1e-5)
    hook.remove()
    head, model.head = model.head, torch.nn.Sequential(model.head, torch.nn.Tanh())
    assert_close(model(batch), expected.tanh(), 1e-4)
    model.head = head
    assert_close(model(batch), expected, 1e-6)


def test_a_hook_of_the_edge_encoding_changes_predictions_with_and_without_maps(model_and_batch):
    model, batch = model_and_batch
    if getattr(model, "edges", None) is None:
        return
    expected = model(batch)
    model.edges.register_forward_hook(lambda _, __, e: 3 * e)
    assert (model(batch) - expected).abs().max() > 1e-5
    assert_close(model(batch), model.attention(batch)[0], 1e-5)


def test_a_head_without_parameters_gets_what_the_other_layers_compute_with(model_and_batch):
    model, batch = model_and_batch
    expected, linear = model(batch), model.head

    class WithoutParameters(torch.nn.Module):  # as one of torch's quantized layers
        def forward(self, x):
            return torch.nn.functional.linear(x, linear.weight, linear.bias)

    model.head = WithoutParameters()
    assert_close(model(batch), expected, 1e-4)


def test_an_output_that_is_not_linear_in_the_input_of_the_head_has_no_terms():
    torch.manual_seed(0)
    model = build_model(resolve(None, {"base": "none"}, (*SETTINGS, "model.readout=sum")).model, 1).eval()
    batch = model.collate([model.reader(ReadOptions())(smiles) for smiles in SMILES])
    terms = model.contributions(batch).sum(1) + model.constant_term()
    assert_close(terms, model(batch), 1e-5)
    model.head.register_forward_hook(lambda _, __, y: 3 * y)
    with pytest.raises(ValueError, match="the head, a Linear, was replaced or has a hook: the output has no terms"):
        model.contributions(batch)
