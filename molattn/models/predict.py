"""Raw outputs, embeddings and attention weights of a model for molecules that have been read."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from molattn.data.store.batches import Batch, batches_by_size
from molattn.data.store.molecule_store import molecule_sizes, select_molecules
from molattn.data.tables.atom_lists import label_rows, offsets_from_counts
from molattn.errors import SmilesError
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.device import autocast

MAX_BATCH_MOLECULES = 512
"""The maximum number of molecules in a batch."""

NOT_FINITE = (
    "the model's output for it is not a finite number: its weights are too large for it, or the molecule is too far "
    "from those of training; use another model"
)
"""The error for a molecule whose outputs are not finite."""

MAX_ATTENTION_PAIRS = 2**17
"""Pairs of positions in a batch, padding included, when attention is computed: 16 MB with 4 layers of 8 heads."""


# Parts of the messages of memory errors without an exception class of their own: of torch's CPU allocator (on Linux and
# macOS, and on Windows), and of C++.
_OUT_OF_MEMORY_MESSAGES = ("can't allocate memory", "not enough memory", "std::bad_alloc")


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
    offsets, sizes = offsets_from_counts(model.rows_per_molecule(molecules)), molecule_sizes(molecules)
    result = np.full((offsets[-1], width), np.nan)

    def run(rows: np.ndarray) -> bool:
        """Run one batch; False if there is not enough memory."""
        z = None if descriptors is None else descriptors[rows]
        try:
            batch = model.collate(select_molecules(molecules, rows), None, z).to(device)
            with autocast(device, model.precision):
                numbers = function(batch)
            result[label_rows(offsets, rows)] = numbers.cpu().double().numpy()  # numpy has no bfloat16
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            return False
        return True

    pending = batches_by_size(sizes, batch_size)[::-1]
    with torch.inference_mode():
        while pending:
            rows = pending.pop()
            if run(rows):
                continue
            if len(rows) > 1:
                pending += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
                continue
            size = f"{sizes[rows[0]]} {model.position_type}"
            reason = f"there is not enough memory for its {size}: close other programs, or use a larger machine"
            if failures is None:
                raise SmilesError(select_molecules(molecules, rows)[0].smiles, reason)
            failures[int(rows[0])] = reason
    if failures is not None:
        record_not_finite(result, offsets, failures)
    return result


def record_not_finite(numbers: np.ndarray, offsets: np.ndarray, failures: dict[int, str]) -> None:
    """Add `NOT_FINITE` to `failures` for each molecule i with a non-finite number in its rows.

    These are the rows from `offsets[i]` up to, not including, `offsets[i + 1]` of `numbers`.
    """
    rows = np.flatnonzero(~np.isfinite(numbers).all(1))
    if len(rows):
        for i in np.unique(np.searchsorted(offsets, rows, side="right") - 1).tolist():
            failures.setdefault(i, NOT_FINITE)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of Python, numpy, torch or compiled attention means that memory ran out.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("can't allocate memory"))
    (True, False)
    """
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(message in str(error) for message in _OUT_OF_MEMORY_MESSAGES)


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
