"""Raw outputs, embeddings and attention weights of a model for molecules that have been read."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from molattn.data.store.batches import Batch
from molattn.data.store.molecule_store import select_molecules
from molattn.data.tables.atom_lists import offsets_from_counts
from molattn.models.base import MoleculeModel
from molattn.models.batching import MAX_BATCH_MOLECULES, run_in_batches
from molattn.models.device import autocast
from molattn.models.molecule import Molecule

MAX_ATTENTION_PAIRS = 2**17
"""Pairs of positions in a batch, padding included, when attention is computed: 16 MB with 4 layers of 8 heads."""


def compute_outputs(
    model: MoleculeModel,
    molecules: Sequence[Molecule],
    batch_size: int = MAX_BATCH_MOLECULES,
    descriptors: np.ndarray | None = None,
    failures: dict[int, str] | None = None,
) -> np.ndarray:
    """The raw outputs of the model for `molecules`, (n, outputs) float64, in their order; see `Task.decode`.

    With atom-level targets, (N, outputs): a row for each atom, molecule by molecule; see `model.rows_per_molecule`.

    Args:
        batch_size: the maximum number of molecules in a batch; batches of large molecules have fewer, see
            `batches_by_size`.
        descriptors: (n, k), standardized; None for a model without descriptors.
        failures: receives, by index, the error message of each molecule without a valid output. Either it is too large
            for the memory even in a batch of its own, and its outputs are NaN, or its outputs are not finite. If
            `failures` is None, the former raises, and the latter is not reported.

    Raises:
        SmilesError: a molecule is too large for the memory, and `failures` is None.
    """
    return _run_in_batches(model, model, model.head.out_features, molecules, batch_size, descriptors, failures)


def compute_embeddings(
    model: MoleculeModel,
    molecules: Sequence[Molecule],
    batch_size: int = MAX_BATCH_MOLECULES,
    descriptors: np.ndarray | None = None,
    failures: dict[int, str] | None = None,
) -> np.ndarray:
    """The embeddings of `molecules`, each followed by its descriptors, (n, d + k) float64; see `model.embeddings`.

    Args:
        batch_size, descriptors, failures: as for `compute_outputs`.

    Raises:
        SmilesError: as `compute_outputs`.
    """
    return _run_in_batches(
        model, model.embeddings, model.head.in_features, molecules, batch_size, descriptors, failures
    )


def compute_outputs_and_embeddings(
    model: MoleculeModel,
    molecules: Sequence[Molecule],
    batch_size: int = MAX_BATCH_MOLECULES,
    descriptors: np.ndarray | None = None,
    failures: dict[int, str] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """`compute_outputs` and `compute_embeddings` of a model with molecule-level targets, from one pass.

    Args:
        batch_size, descriptors, failures: as for `compute_outputs`.

    Raises:
        SmilesError: as `compute_outputs`.
    """

    def run(batch: Batch) -> Tensor:
        embeddings = model.embeddings(batch)
        return torch.cat([model.apply_head(embeddings), embeddings], 1)

    outputs = model.head.out_features
    width = outputs + model.head.in_features
    numbers = _run_in_batches(model, run, width, molecules, batch_size, descriptors, failures)
    return numbers[:, :outputs], numbers[:, outputs:]


def _run_in_batches(
    model: MoleculeModel,
    function: Callable[[Batch], Tensor],
    width: int,
    molecules: Sequence[Molecule],
    batch_size: int,
    descriptors: np.ndarray | None,
    failures: dict[int, str] | None,
) -> np.ndarray:
    """Apply `function` batch by batch; return a row of `width` numbers for each molecule or atom, float64."""
    device = next(model.parameters()).device

    def run(rows: np.ndarray) -> np.ndarray:
        z = None if descriptors is None else descriptors[rows]
        batch = model.collate(select_molecules(molecules, rows), None, z).to(device)
        with autocast(device, model.precision):
            numbers = function(batch)
        return numbers.cpu().double().numpy()  # numpy has no bfloat16

    with torch.inference_mode():
        return run_in_batches(
            run,
            width,
            molecules,
            atom_level=model.atom_level,
            position_type=model.position_type,
            batch_size=batch_size,
            failures=failures,
        )


def iter_attention(
    model: MoleculeModel, molecules: Sequence[Molecule], descriptors: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The raw outputs of each molecule, (outputs,), and its attention weights, (layers, heads, n, n), in order.

    With atom-level targets, the raw outputs are (n, outputs). Batches have up to `MAX_ATTENTION_PAIRS`.

    Args:
        descriptors: (number of molecules, k), standardized; None for a model without descriptors.
    """
    start = largest = 0
    for end, molecule in enumerate(molecules):
        largest = max(largest, molecule.size)
        if end > start and (end + 1 - start) * largest**2 > MAX_ATTENTION_PAIRS:
            yield from _batch_attention(model, molecules[start:end], _slice(descriptors, start, end))
            start, largest = end, molecule.size
    if start < len(molecules):
        yield from _batch_attention(model, molecules[start:], _slice(descriptors, start, len(molecules)))


def _slice(descriptors: np.ndarray | None, start: int, end: int) -> np.ndarray | None:
    return None if descriptors is None else descriptors[start:end]


def _batch_attention(
    model: MoleculeModel, molecules: Sequence[Molecule], descriptors: np.ndarray | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    device, n = next(model.parameters()).device, max(m.size for m in molecules)
    with torch.inference_mode():
        batch_outputs, weights = model.attention(model.collate(molecules, None, descriptors).to(device))
    outputs, virtual = batch_outputs.cpu().numpy(), range(n, weights.shape[-1])
    ends = pairwise(offsets_from_counts(model.rows_per_molecule(molecules)))
    rows = [outputs[i:j] for i, j in ends] if model.atom_level else outputs
    for molecule, y, w in zip(molecules, rows, weights.cpu().numpy(), strict=True):
        # Virtual nodes come after the padding.
        real = np.array([*range(molecule.size), *virtual])
        yield y, w[:, :, real[:, None], real]
