"""`RowPrediction`, the prediction of one SMILES or why there is none."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from molattn.chem import NO_GEOMETRY
from molattn.errors import SmilesError
from molattn.models.descriptor_stream import InputRow, usable_molecules
from molattn.models.molecule import Molecule
from molattn.models.predictions import Predictions
from molattn.models.task import Task

Value = float | str | tuple[float, ...] | tuple[str, ...]
"""The prediction of one target: a number or the name of a class; a tuple of them for the atoms of a molecule."""

RowValues = tuple[tuple[Value, ...], tuple[Value, ...]]
"""The predictions of a molecule, and its extra values."""


@dataclass(frozen=True)
class RowPrediction:
    """The prediction of one SMILES, or why there is none.

    Attributes:
        smiles: the SMILES as it was passed.
        values: the prediction per target: a number in units, the probability of the positive class, or the name of
            a class; for an atom-level target, a tuple with one for each atom, in the order of the SMILES. From
            `embed_rows`, the numbers of the embedding. None when there is an error.
        error: why there is none; empty otherwise.
        warnings: features of the molecule that the model cannot represent, one sentence each.
        extra_values: the values of `molattn.Predictor.extra_value_columns`; empty when there is an error.

    >>> from molattn.inference import RowPrediction
    >>> rows = [RowPrediction("CCO", (78.2,)), RowPrediction("C1CC", None, "a ring is not closed")]  # of predict_rows
    >>> [row.smiles for row in rows if row.error]
    ['C1CC']
    """

    smiles: object
    values: tuple[Value, ...] | None
    error: str = ""
    warnings: tuple[str, ...] = ()
    extra_values: tuple[Value, ...] = ()


def transpose(rows: Iterable[Sequence[Any]]) -> tuple[Value, ...]:
    """From the values of n atoms, (n, T), to T tuples of n."""
    return tuple(zip(*rows, strict=True))


def all_finite(values: Value | RowValues | tuple[Value, ...]) -> bool:
    """Whether no number among the values is NaN or infinite."""
    if isinstance(values, tuple):
        return all(all_finite(value) for value in values)
    return isinstance(values, str) or isfinite(values)


def split_atoms(row: RowPrediction) -> list[RowPrediction]:
    """A row for each atom of a molecule; none where there is no prediction."""
    if row.values is None:
        return []
    values: list[Any] = list(zip(*row.values, strict=True))  # pyright: ignore[reportArgumentType]
    extra: list[Any] = list(zip(*row.extra_values, strict=True))  # pyright: ignore[reportArgumentType]
    extra = extra or [()] * len(values)
    return [RowPrediction(row.smiles, v, extra_values=e) for v, e in zip(values, extra, strict=True)]


def rows_to_arrays(
    task: Task, rows: Sequence[RowPrediction], num_targets: int, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """(n, T) or (n, T, classes), and the last T of the `width` extra columns; NaN without a prediction."""
    numbers, extra = np.full((len(rows), num_targets), np.nan), np.full((len(rows), width), np.nan)
    for i, row in enumerate(rows):
        if row.values is not None:
            numbers[i] = [np.nan if isinstance(v, str) else v for v in row.values]
            extra[i] = row.extra_values
    return task.to_array(Predictions(numbers, extra)), extra[:, max(0, width - num_targets) :]


def geometry_warning(warnings: Iterable[str]) -> str:
    """The one of a molecule's warnings that says that its 3D geometry was not found; empty if there is none."""
    return next((w for w in warnings if w.startswith(NO_GEOMETRY)), "")


def merge_predictions(
    rows: Sequence[InputRow], predict: Callable[[Sequence[Molecule], np.ndarray | None], list[RowValues | str]]
) -> Iterator[RowPrediction]:
    """The prediction of each row, in order, with the values that `predict` returns for its molecule, or an error.

    Args:
        rows: SMILES with their molecules and descriptors.
        predict: from molecules and descriptors to the values of each, or why it has none.
    """
    predicted = iter(predict(*usable_molecules(rows)))
    for smiles, molecule, _ in rows:
        if isinstance(molecule, SmilesError):
            yield RowPrediction(smiles, None, molecule.reason)
            continue
        found = next(predicted)
        if isinstance(found, str):
            yield RowPrediction(smiles, None, found)
        else:
            values, extra = found
            yield RowPrediction(smiles, values, "", molecule.warnings, extra)
