"""Predictions and attention weights for molecules that are graphs already."""

from collections.abc import Sequence

import numpy as np
import torch

from molattn.chem import MoleculeGraph
from molattn.data.batches import batches_by_size, collate
from molattn.models.property_model import PropertyModel
from molattn.models.scaler import TargetScaler


def predict_graphs(
    model: PropertyModel, scaler: TargetScaler, graphs: Sequence[MoleculeGraph], batch_size: int = 128
) -> np.ndarray:
    """The predictions for `graphs`, (n, T) float64 in units, in their order whatever goes into one batch."""
    device = next(model.parameters()).device
    predicted = np.empty((len(graphs), len(scaler.mean)))
    with torch.inference_mode():
        for rows in batches_by_size([g.num_atoms for g in graphs], batch_size):
            outputs = model(collate([graphs[i] for i in rows]).to(device))
            predicted[rows] = scaler.unscale(outputs.cpu().numpy())
    return predicted


def attention_of(model: PropertyModel, graph: MoleculeGraph) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of one molecule, (T,), standardised, and its weights, (layers, heads, n, n), in its atom order."""
    device = next(model.parameters()).device
    with torch.inference_mode():
        outputs, weights = model.attention(collate([graph]).to(device))
    return outputs[0].cpu().numpy(), weights[0].cpu().numpy()
