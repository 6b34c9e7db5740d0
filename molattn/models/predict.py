"""Predictions and attention weights for molecules that were read already."""

from collections.abc import Sequence

import numpy as np
import torch

from molattn.data.atom_lists import label_rows, offsets_of
from molattn.data.batches import batches_by_size
from molattn.data.store import chosen, sizes_of
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import REGRESSION, Task


def predict_molecules(
    model: MoleculeModel,
    scaler: TargetScaler,
    molecules: Sequence[Molecule],
    batch_size: int = 128,
    task: Task = REGRESSION,
) -> np.ndarray:
    """The predictions for `molecules`, (n, T) float64, in their order whatever goes into one batch; as `outputs_of`.

    They are `Answers.values`: numbers in units, or what another `task` answers.
    """
    return task.answers(outputs_of(model, molecules, batch_size), scaler).values


def outputs_of(model: MoleculeModel, molecules: Sequence[Molecule], batch_size: int = 128) -> np.ndarray:
    """What the model puts out for `molecules`, (n, outputs) float64, in their order; `Task.answers` reads it.

    Of a model of atoms (N, outputs): a row for each atom, molecule by molecule, as `model.counts` counts them.
    """
    device = next(model.parameters()).device
    offsets = offsets_of(model.counts(molecules))
    outputs = np.empty((offsets[-1], model.head.out_features))
    with torch.inference_mode():
        for rows in batches_by_size(sizes_of(molecules), batch_size):
            outputs[label_rows(offsets, rows)] = model(model.collate(chosen(molecules, rows)).to(device)).cpu().numpy()
    return outputs


def embed_molecules(model: MoleculeModel, molecules: Sequence[Molecule], batch_size: int = 128) -> np.ndarray:
    """The fingerprints of `molecules`, (n, d) float64: what the head reads of each."""
    device = next(model.parameters()).device
    embedded = np.empty((len(molecules), model.head.in_features))
    with torch.inference_mode():
        for rows in batches_by_size(sizes_of(molecules), batch_size):
            vectors = model.fingerprint(model.collate(chosen(molecules, rows)).to(device))
            embedded[rows] = vectors.cpu().numpy()
    return embedded


def attention_of(model: MoleculeModel, molecule: Molecule) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of one molecule, (T,), standardised, and its weights, (layers, heads, n, n), place by place.

    Outputs of atoms are (n, T).
    """
    device = next(model.parameters()).device
    with torch.inference_mode():
        outputs, weights = model.attention(model.collate([molecule]).to(device))
    return (outputs if model.of_atoms else outputs[0]).cpu().numpy(), weights[0].cpu().numpy()
