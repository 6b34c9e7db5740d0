"""Predictions and attention weights of a model that has no artifact."""

from collections.abc import Sequence

import numpy as np

from molattn.models.base import Molecule, MoleculeModel
from molattn.models.predict import MAX_BATCH_MOLECULES, compute_outputs, iter_attention
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import REGRESSION


def predict_molecules(
    model: MoleculeModel,
    scaler: TargetScaler,
    molecules: Sequence[Molecule],
    batch_size: int = MAX_BATCH_MOLECULES,
    task: Task = REGRESSION,
) -> np.ndarray:
    """`Predictions.values`, (n, T), in the units of the targets."""
    return scaler.inverse_transform(task.decode(compute_outputs(model, molecules, batch_size), scaler)).values


def compute_attention(
    model: MoleculeModel, molecule: Molecule, descriptors: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The raw outputs of one molecule and its attention weights, see `iter_attention`."""
    return next(iter_attention(model, [molecule], descriptors))
