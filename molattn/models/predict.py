"""Predictions and attention weights for molecules that were read already."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch

from molattn.data.atom_lists import label_rows, offsets_of
from molattn.data.batches import batches_by_size
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import REGRESSION, Task

PAIRS = 2**17
"""Pairs of places, padding included, whose attention is computed together: 16 MB with 4 layers of 8 heads."""


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
        for rows in batches_by_size([m.size for m in molecules], batch_size):
            outputs[label_rows(offsets, rows)] = (
                model(model.collate([molecules[i] for i in rows]).to(device)).cpu().numpy()
            )
    return outputs


def embed_molecules(model: MoleculeModel, molecules: Sequence[Molecule], batch_size: int = 128) -> np.ndarray:
    """The fingerprints of `molecules`, (n, d) float64: what the head reads of each."""
    device = next(model.parameters()).device
    embedded = np.empty((len(molecules), model.head.in_features))
    with torch.inference_mode():
        for rows in batches_by_size([m.size for m in molecules], batch_size):
            vectors = model.fingerprint(model.collate([molecules[i] for i in rows]).to(device))
            embedded[rows] = vectors.cpu().numpy()
    return embedded


def attention_of(model: MoleculeModel, molecule: Molecule) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of one molecule, (T,), standardised, and its weights, (layers, heads, n, n), place by place.

    Outputs of atoms are (n, T).
    """
    return next(attentions_of(model, [molecule]))


def attentions_of(model: MoleculeModel, molecules: Iterable[Molecule]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`attention_of` each of any number of molecules, in order, `PAIRS` at a time."""
    waiting: list[Molecule] = []
    for molecule in molecules:
        largest = max(m.size for m in [*waiting, molecule])
        if waiting and (len(waiting) + 1) * largest**2 > PAIRS:
            yield from _attentions(model, waiting)
            waiting = []
        waiting.append(molecule)
    if waiting:
        yield from _attentions(model, waiting)


def _attentions(model: MoleculeModel, molecules: Sequence[Molecule]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    device, n = next(model.parameters()).device, max(m.size for m in molecules)
    with torch.inference_mode():
        outputs, weights = model.attention(model.collate(molecules).to(device))
    virtual, outputs = range(n, weights.shape[-1]), outputs.cpu().numpy()
    offsets = offsets_of(model.counts(molecules))
    rows = [outputs[i:j] for i, j in pairwise(offsets)] if model.of_atoms else outputs
    for molecule, y, w in zip(molecules, rows, weights.cpu().numpy(), strict=True):
        # Virtual nodes stand behind the padding.
        real = np.array([*range(molecule.size), *virtual])
        yield y, w[:, :, real[:, None], real]
