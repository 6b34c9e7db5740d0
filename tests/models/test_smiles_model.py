"""The SMILES model: the same properties as for the graph model, with tokens."""

from pathlib import Path

import numpy as np
import pytest
import torch

from molattn.chem import ConformerOptions, ReadOptions
from molattn.errors import SmilesError, UsageError
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import load_artifact, save_artifact
from molattn.models.base import MODELS, Molecule, MoleculeModel, build_model
from molattn.models.config import CONFIGS
from molattn.models.scaler import TargetScaler
from molattn.models.smiles_model import SmilesModel
from tests.molecules import SPECIAL, esol
from tests.predictions import compute_attention, predict_molecules

SCALER = TargetScaler((-3.0,), (2.0,))
SMILES = (*SPECIAL, *esol(60)[0])


@pytest.fixture(scope="module")
def model() -> MoleculeModel:
    torch.manual_seed(0)
    return build_model(CONFIGS["smiles-transformer"](), num_outputs=1).eval().requires_grad_(False)


def _read(smiles: tuple[str, ...] | list[str]) -> list[Molecule]:
    molecules = SmilesModel.read(smiles)
    return [m for m in molecules if not isinstance(m, SmilesError)]


def test_every_kind_of_configuration_has_a_model() -> None:
    assert CONFIGS.keys() == MODELS.keys()
    for kind, config in CONFIGS.items():
        assert config().kind == kind


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_batch_invariance(dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    model = build_model(CONFIGS["smiles-transformer"](), num_outputs=1).to(dtype).eval()
    molecules = _read(SMILES)
    together = predict_molecules(model, SCALER, molecules, batch_size=9)[:, 0]
    alone = np.array([predict_molecules(model, SCALER, [m])[0, 0] for m in molecules])
    assert (np.abs(together - alone) / np.maximum(1, np.abs(alone))).max() <= tolerance


def test_all_smiles_of_a_molecule_predict_the_same(model: MoleculeModel) -> None:
    for a, b in (("OCC", "C(O)C"), ("c1ccccc1O", "OC1=CC=CC=C1"), ("[Na+].[Cl-]", "[Cl-].[Na+]")):
        one, other = predict_molecules(model, SCALER, _read([a, b]))
        assert one == pytest.approx(other, abs=1e-6)


def test_conformers_are_an_error() -> None:
    with pytest.raises(UsageError, match="'smiles-transformer' reads no 3D"):
        SmilesModel.read(["C"], ReadOptions(conformers=ConformerOptions()))


def test_order_matters(model: MoleculeModel) -> None:
    # Predictions depend on positions: the same tokens in another order are another molecule.
    one, other = predict_molecules(model, SCALER, _read(["CCOC", "CCCO"]))
    assert one != other


def test_attention_is_over_the_tokens_of_the_canonical_smiles(model: MoleculeModel) -> None:
    for molecule in _read(SMILES)[:20]:
        outputs, weights = compute_attention(model, molecule)
        assert weights.shape == (4, 8, molecule.size, molecule.size)
        np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-5)
        assert "".join(molecule.labels) == molecule.encoded_smiles
        without = predict_molecules(model, SCALER, [molecule])[0, 0]
        assert SCALER.unscale(outputs)[0] == pytest.approx(without, abs=1e-5)


def test_save_and_load_are_bitwise_exact(model: MoleculeModel, tmp_path: Path) -> None:
    save_artifact(tmp_path, Artifact(model, SCALER, ("y",), ("",)))
    loaded = load_artifact(tmp_path)
    assert isinstance(loaded.model, SmilesModel)
    molecules = _read(SMILES)
    assert np.array_equal(
        predict_molecules(model, SCALER, molecules), predict_molecules(loaded.model, loaded.scaler, molecules)
    )
