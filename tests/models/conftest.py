"""A trained model, shared by the tests."""

import numpy as np
import pytest
import torch

from molattn.chem import molecule_graph
from molattn.models.artifact import Artifact
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.scaler import TargetScaler
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules
from molattn.training.fit import fit
from tests.molecules import esol


@pytest.fixture(scope="session")
def artifact() -> Artifact:
    """The default model after a few epochs on a hundred molecules: its weights are no longer the initial ones."""
    smiles, values = esol(120)
    data = LabelledMolecules([molecule_graph(s) for s in smiles], np.array(values)[:, None])
    train, val = (
        LabelledMolecules(data.molecules[:100], data.targets[:100]),
        LabelledMolecules(data.molecules[100:], data.targets[100:]),
    )
    scaler = TargetScaler.fit(train.targets)
    torch.manual_seed(0)
    model = GraphModel(GraphModelConfig())
    fit(model, train, val, scaler, TrainingConfig(epochs=3, ema=0.5, accelerator="cpu"))
    return Artifact(model.requires_grad_(False), scaler, ("log_solubility",), ("log10(mol/L)",))
