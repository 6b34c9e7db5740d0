"""Prediction on a device, and with a precision, by choice.

The meta device has no data, but its operations refuse tensors of another device, as those of a GPU do. A model on it
shows that batches, buffers and random numbers follow the model.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from molattn import MolAttentionRegressor, load
from molattn.errors import UsageError
from molattn.inference import PredictionOptions, Predictor
from molattn.models.device import resolve_device
from molattn.models.presets import PRESETS
from tests.molecules import esol

SMILES = ["CCO", "c1ccccc1O", "CC(=O)N", "C1CC1", "CCN(C)C"]
VALUES = [0.2, -0.9, 1.1, -0.4, 0.5]


def fitted(**settings) -> Predictor:
    size = {} if "preset" in settings else {"hidden_dim": 8, "num_layers": 2, "num_heads": 2}
    return MolAttentionRegressor(epochs=1, base="none", **size, **settings).fit(SMILES, VALUES).predictor_


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return fitted(dropout=0.1)


@pytest.fixture
def gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def readable_meta(monkeypatch):
    """Results on the meta device, which have no values, are read as ones."""
    cpu = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda x: torch.ones(x.shape, dtype=x.dtype) if x.is_meta else cpu(x))


MODELS = [{"preset": name} for name in PRESETS] + [
    {"model": "smiles-transformer"},
    {"molecule_featurizers": "rdkit_few"},
]


@pytest.mark.parametrize("settings", MODELS, ids=lambda settings: "-".join(settings.values()))
@pytest.mark.usefixtures("readable_meta")
def test_every_tensor_follows_the_model(settings):
    predictor = fitted(dropout=0.1, **settings).to("meta")
    assert predictor.device.type == "meta"
    predictor.predict(SMILES)
    predictor.embed(SMILES)
    predictor.predict(SMILES, return_std=True, uncertainty_method="dropout")
    assert predictor.attention("CCO").weights.shape[-1] >= 3
    if "model" not in settings:
        predictor.attributions("CCO", method="occlusion")


@pytest.mark.usefixtures("readable_meta")
def test_the_check_by_the_meta_device_can_fail():
    predictor = fitted().to("meta")
    norm = next(m for m in predictor.model.modules() if isinstance(m, torch.nn.LayerNorm))
    norm.to_empty(device="cpu")
    with pytest.raises(RuntimeError, match="device"):
        predictor.predict(SMILES)


@pytest.mark.usefixtures("gpus")
def test_names_of_devices():
    assert resolve_device("gpu") == resolve_device("cuda") == resolve_device("auto") == torch.device("cuda")
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(UsageError, match="device 'cuda:2': there is no GPU 2 here, only 2 of them"):
        resolve_device("cuda:2")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize("device", ["gpu", "cuda", "cuda:1"])
def test_a_gpu_that_is_not_there(predictor, device):
    assert resolve_device("auto") == torch.device("cpu")
    with pytest.raises(UsageError, match=f"device '{device}': torch finds no GPU here, see `molattn doctor`"):
        predictor.to(device)


@pytest.mark.parametrize("device", ["gpus", "tpu", ""])
def test_an_unknown_device(predictor, device):
    with pytest.raises(UsageError, match="unknown device .*: one of auto, cpu, gpu"):
        predictor.to(device)


def test_load_takes_a_device_and_a_precision(predictor, tmp_path):
    predictor.save(tmp_path)
    expected = predictor.predict(SMILES)
    np.testing.assert_array_equal(load(tmp_path, device="cpu").predict(SMILES), expected)
    assert load(tmp_path, "auto").device == resolve_device("auto")
    with pytest.raises(UsageError, match="unknown precision 'bf16': choose one of 32-true, bf16-mixed"):
        load(tmp_path, precision="bf16")


def test_bfloat16_by_choice_is_close_and_is_another_precision(tmp_path):
    smiles, values = esol(60)
    model = MolAttentionRegressor(epochs=2, ensemble_size=2).fit(smiles, values)
    predictor = model.predictor_
    exact, embedding = predictor.predict(smiles), predictor.embed(smiles)
    weights = predictor.attention("CCO").weights
    assert predictor.to("cpu", precision="bf16-mixed") is predictor
    rounded = predictor.predict(smiles)
    assert 0 < abs(rounded - exact).max() < 0.05 * np.std(values)
    assert 0 < abs(predictor.embed(smiles) - embedding).max() < 0.05 * abs(embedding).max()
    np.testing.assert_allclose(predictor.attention("CCO").weights, weights, atol=1e-6)
    predictor.save(tmp_path)  # in float32, and without the precision
    np.testing.assert_allclose(load(tmp_path).predict(smiles), exact, atol=1e-5)
    np.testing.assert_allclose(predictor.to("cpu").predict(smiles), exact, atol=1e-5)


def test_an_output_is_not_resumed_with_another_precision(predictor):
    from molattn.inference.added_columns import embedding_columns, prediction_columns

    identities = set()
    for precision in ("32-true", "bf16-mixed"):
        predictor.to("cpu", precision)
        identities.add(prediction_columns(predictor, PredictionOptions()).options)
        identities.add(embedding_columns(predictor, Path("out.csv")).options)
    predictor.to("cpu")
    assert len(identities) == 4


@pytest.mark.parametrize("device", ["meta", torch.device("meta"), "vulkan", "hpu"])
def test_a_device_that_cannot_compute_here(predictor, tmp_path, device):
    predictor.save(tmp_path)
    with pytest.raises(
        UsageError, match=rf"^device '{device}': torch cannot compute on it here, see `molattn doctor`$"
    ):
        load(tmp_path, device=device)
