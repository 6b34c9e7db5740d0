"""Predictions and attention weights for molecules that were read already."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from molattn.data.store.batches import Batch, batches_by_size
from molattn.data.store.molecule_store import chosen, sizes_of
from molattn.data.tables.atom_lists import label_rows, offsets_of
from molattn.errors import SmilesError
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.memory import is_out_of_memory
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import REGRESSION, Task

MOLECULES = 512
"""The most molecules in a batch."""

NOT_FINITE = (
    "the model's answer for it is not a finite number: its weights are too large for it, or the molecule is too far "
    "from those of training; use another model"
)
"""Why there is no answer for a molecule whose numbers overflow."""

PAIRS = 2**17
"""Pairs of places, padding included, whose attention is computed together: 16 MB with 4 layers of 8 heads."""


def predict_molecules(
    model: MoleculeModel,
    scaler: TargetScaler,
    molecules: Sequence[Molecule],
    batch_size: int = MOLECULES,
    task: Task = REGRESSION,
) -> np.ndarray:
    """The predictions for `molecules`, (n, T) float64, in their order whatever goes into one batch; as `outputs_of`.

    They are `Answers.values`: numbers in units, or what another `task` answers.
    """
    return task.answers(outputs_of(model, molecules, batch_size), scaler).values


def outputs_of(
    model: MoleculeModel,
    molecules: Sequence[Molecule],
    batch_size: int = MOLECULES,
    descriptors: np.ndarray | None = None,
    refused: dict[int, str] | None = None,
) -> np.ndarray:
    """What the model puts out for `molecules`, (n, outputs) float64, in their order; `Task.answers` reads it.

    Of a model of atoms (N, outputs): a row for each atom, molecule by molecule, as `model.counts` counts them.

    Args:
        batch_size: the most molecules in a batch; large ones are fewer, see `batches_by_size`.
        descriptors: (n, k), standardised; None for a model without.
        refused: gets, by its place, why there is no answer for a molecule: it is too large for the memory, alone in
            its batch, and its numbers are NaN; or they are not finite. Without it the one is an error, and of the
            other nothing is said.

    Raises:
        SmilesError: a molecule is too large for the memory, and there is no `refused`.
    """
    return _in_batches(model, model, model.head.out_features, molecules, batch_size, descriptors, refused)


def embed_molecules(
    model: MoleculeModel,
    molecules: Sequence[Molecule],
    batch_size: int = MOLECULES,
    descriptors: np.ndarray | None = None,
    refused: dict[int, str] | None = None,
) -> np.ndarray:
    """The fingerprints of `molecules`, (n, d + k) float64: what the head reads of each.

    Args:
        batch_size, descriptors, refused: as for `outputs_of`.

    Raises:
        SmilesError: as `outputs_of`.
    """
    return _in_batches(model, model.fingerprint, model.head.in_features, molecules, batch_size, descriptors, refused)


def _in_batches(
    model: MoleculeModel,
    asked: Callable[[Batch], Tensor],
    width: int,
    molecules: Sequence[Molecule],
    batch_size: int,
    descriptors: np.ndarray | None,
    refused: dict[int, str] | None,
) -> np.ndarray:
    """What is asked of each molecule, or of each of its atoms, a row of `width` numbers each, float64."""
    device = next(model.parameters()).device
    offsets, sizes = offsets_of(model.counts(molecules)), sizes_of(molecules)
    answers = np.full((offsets[-1], width), np.nan)

    def answer(rows: np.ndarray) -> bool:
        """Whether there was memory enough."""
        beside = None if descriptors is None else descriptors[rows]
        try:
            batch = model.collate(chosen(molecules, rows), None, beside).to(device)
            answers[label_rows(offsets, rows)] = asked(batch).cpu().numpy()
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            return False
        return True

    waiting = batches_by_size(sizes, batch_size)[::-1]
    with torch.inference_mode():
        while waiting:
            rows = waiting.pop()
            if answer(rows):
                continue
            if len(rows) > 1:
                waiting += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
            elif refused is None:
                raise SmilesError(chosen(molecules, rows)[0].smiles, too_large(model, int(sizes[rows[0]])))
            else:
                refused[int(rows[0])] = too_large(model, int(sizes[rows[0]]))
    if refused is not None:
        refuse_not_finite(answers, offsets, refused)
    return answers


def refuse_not_finite(numbers: np.ndarray, offsets: np.ndarray, refused: dict[int, str]) -> None:
    """Add the molecules to `refused` whose rows, `offsets[i]` to `offsets[i + 1]`, hold a number that is not finite."""
    rows = np.flatnonzero(~np.isfinite(numbers).all(1))
    if len(rows):
        for i in np.unique(np.searchsorted(offsets, rows, side="right") - 1).tolist():
            refused.setdefault(i, NOT_FINITE)


def too_large(model: MoleculeModel, size: int) -> str:
    """Why there is no answer for a molecule that is too large for the memory."""
    return f"there is not enough memory for its {size} {model.places}: close other programs, or use a larger machine"


def attention_of(
    model: MoleculeModel, molecule: Molecule, descriptors: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The outputs of one molecule, (T,), standardised, and its weights, (layers, heads, n, n), place by place.

    Outputs of atoms are (n, T).

    descriptors: (1, k), standardised; None for a model without.
    """
    return next(attentions_of(model, [molecule], descriptors))


def attentions_of(
    model: MoleculeModel, molecules: Sequence[Molecule], descriptors: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """`attention_of` each of some molecules, in order, `PAIRS` at a time.

    descriptors: (n, k), standardised; None for a model without.
    """
    start = largest = 0
    for end, molecule in enumerate(molecules):
        largest = max(largest, molecule.size)
        if end > start and (end + 1 - start) * largest**2 > PAIRS:
            yield from _attentions(model, molecules[start:end], _some(descriptors, start, end))
            start, largest = end, molecule.size
    if start < len(molecules):
        yield from _attentions(model, molecules[start:], _some(descriptors, start, len(molecules)))


def _some(descriptors: np.ndarray | None, start: int, end: int) -> np.ndarray | None:
    return None if descriptors is None else descriptors[start:end]


def _attentions(
    model: MoleculeModel, molecules: Sequence[Molecule], descriptors: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    device, n = next(model.parameters()).device, max(m.size for m in molecules)
    with torch.inference_mode():
        answered, weights = model.attention(model.collate(molecules, None, descriptors).to(device))
    outputs, virtual = answered.cpu().numpy(), range(n, weights.shape[-1])
    ends = pairwise(offsets_of(model.counts(molecules)))
    rows = [outputs[i:j] for i, j in ends] if model.of_atoms else outputs
    for molecule, y, w in zip(molecules, rows, weights.cpu().numpy(), strict=True):
        # Virtual nodes stand behind the padding.
        real = np.array([*range(molecule.size), *virtual])
        yield y, w[:, :, real[:, None], real]
