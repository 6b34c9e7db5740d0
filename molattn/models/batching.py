"""Apply a function of batches to any number of molecules, within the memory, and report molecules that fail."""

import sys
from collections.abc import Callable, Sequence

import numpy as np

from molattn.data.store.molecule_store import molecule_sizes, select_molecules
from molattn.data.store.padding import MAX_PAIRS, batches_by_size
from molattn.data.tables.atom_lists import label_rows, offsets_from_counts
from molattn.errors import SmilesError
from molattn.models.molecule import Molecule

MAX_BATCH_MOLECULES = 512
"""The maximum number of molecules in a batch."""

NOT_FINITE = (
    "the model's output for it is not a finite number: its weights are too large for it, or the molecule is too far "
    "from those of training; use another model"
)
"""The error for a molecule whose outputs are not finite."""

# Parts of the messages of memory errors without an exception class of their own: of torch's CPU allocator (on Linux and
# macOS, and on Windows), of C++, and of ONNX Runtime.
_OUT_OF_MEMORY_MESSAGES = ("can't allocate memory", "not enough memory", "std::bad_alloc", "Failed to allocate memory")


def run_in_batches(
    run: Callable[[np.ndarray], np.ndarray],
    width: int,
    molecules: Sequence[Molecule],
    *,
    atom_level: bool = False,
    position_type: str = "atoms",
    batch_size: int = MAX_BATCH_MOLECULES,
    max_pairs: int = MAX_PAIRS,
    failures: dict[int, str] | None = None,
) -> np.ndarray:
    """Apply `run` batch by batch; return a row of `width` numbers for each molecule or atom, float64.

    Args:
        run: from the indices of the molecules of a batch to their rows of numbers.
        width: the length of a row.
        molecules: n molecules.
        atom_level: whether there is a row for each atom, molecule by molecule.
        position_type: "atoms" or "tokens", for messages.
        batch_size: the maximum number of molecules in a batch; batches of large molecules have fewer, see
            `batches_by_size`.
        max_pairs: the maximum pairs of positions in a batch, as there.
        failures: receives, by index, the error message of each molecule without a valid output. Either it is too large
            for the memory even in a batch of its own, and its outputs are NaN, or its outputs are not finite. If
            `failures` is None, the former raises, and the latter is not reported.

    Raises:
        SmilesError: a molecule is too large for the memory, and `failures` is None.
    """
    sizes = molecule_sizes(molecules)
    offsets = offsets_from_counts(rows_per_molecule(molecules, atom_level))
    result = np.full((offsets[-1], width), np.nan)

    def try_batch(rows: np.ndarray) -> bool:
        """Run one batch; False if there is not enough memory."""
        try:
            result[label_rows(offsets, rows)] = run(rows)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            return False
        return True

    pending = batches_by_size(sizes, batch_size, max_pairs)[::-1]
    while pending:
        rows = pending.pop()
        if try_batch(rows):
            continue
        if len(rows) > 1:
            pending += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
            continue
        size = f"{sizes[rows[0]]} {position_type}"
        reason = f"there is not enough memory for its {size}: close other programs, or use a larger machine"
        if failures is None:
            raise SmilesError(select_molecules(molecules, rows)[0].smiles, reason)
        failures[int(rows[0])] = reason
    if failures is not None:
        record_not_finite(result, offsets, failures)
    return result


def rows_per_molecule(molecules: Sequence[Molecule], atom_level: bool) -> np.ndarray:
    """(n,) the number of rows of the output for each molecule: one, or one for each atom."""
    return molecule_sizes(molecules) if atom_level else np.ones(len(molecules), dtype=np.int64)


def record_not_finite(numbers: np.ndarray, offsets: np.ndarray, failures: dict[int, str]) -> None:
    """Add `NOT_FINITE` to `failures` for each molecule i with a non-finite number in its rows.

    These are the rows from `offsets[i]` up to, not including, `offsets[i + 1]` of `numbers`.
    """
    rows = np.flatnonzero(~np.isfinite(numbers).all(1))
    if len(rows):
        for i in np.unique(np.searchsorted(offsets, rows, side="right") - 1).tolist():
            failures.setdefault(i, NOT_FINITE)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of Python, numpy, torch, compiled attention or ONNX Runtime means that memory ran out.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("can't allocate memory"))
    (True, False)
    """
    torch = sys.modules.get("torch")  # not imported here: predictions with ONNX need no torch
    if isinstance(error, MemoryError) or (torch is not None and isinstance(error, torch.OutOfMemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(message in str(error) for message in _OUT_OF_MEMORY_MESSAGES)
