"""`RowPrediction`: the prediction of one SMILES, or why there is none."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from molattn.chem import NO_GEOMETRY
from molattn.errors import MolattnWarning, SmilesError, short_repr
from molattn.models.base import Molecule
from molattn.models.descriptors import MoleculeRow, stack_descriptors

Value = float | str | tuple[float, ...] | tuple[str, ...]
"""The prediction of one target: a number or the name of a class; a tuple of them for the atoms of a molecule."""

RowValues = tuple[tuple[Value, ...], tuple[Value, ...]]
"""The predictions of a molecule, and the values in addition to them."""


@dataclass(frozen=True)
class RowPrediction:
    """The prediction of one SMILES, or why there is none.

    Attributes:
        smiles: the SMILES as it was passed.
        values: the prediction per target: a number in units, the probability of the positive class, or the name of
            a class; for a target of atoms, a tuple with one for each atom, in the order of the SMILES. From
            `embed_rows`, the numbers of the fingerprint. None when there is an error.
        error: why there is none; empty otherwise.
        warnings: what the model could not read from the molecule, a sentence each.
        extra_values: those in addition to the predictions, see `molattn.Predictor.extra_columns`; empty when there is
            an error.
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


def missing_geometry_message(rows: Sequence[RowPrediction]) -> str:
    """How many predictions use path lengths because no 3D geometry was found, and the first; empty for none."""
    found = [(i, r, w) for i, r in enumerate(rows) if (w := geometry_warning(r))]
    if not found:
        return ""
    i, first, warning = found[0]
    count = f"{len(found)} of {len(rows)} SMILES have no 3D geometry"
    return f"{count}; the first, row {i}, {short_repr(first.smiles)}: {warning}"


def geometry_warning(row: RowPrediction) -> str:
    """The warning of a molecule whose 3D geometry was not found; empty where it was, or where the model uses none."""
    return next((w for w in row.warnings if w.startswith(NO_GEOMETRY)), "")


def predict_reads(
    reads: Sequence[MoleculeRow], predict: Callable[[Sequence[Molecule], np.ndarray | None], list[RowValues | str]]
) -> Iterator[RowPrediction]:
    """A row for each SMILES, in order, with the values that `predict` returns for its molecule, or an error.

    Args:
        reads: SMILES with their molecules and descriptors.
        predict: from molecules and descriptors to the values of each, or why it has none.
    """
    molecules = [m for _, m, _ in reads if not isinstance(m, SmilesError)]
    predicted = iter(predict(molecules, stack_descriptors(z for _, m, z in reads if not isinstance(m, SmilesError))))
    for text, outcome, _ in reads:
        if isinstance(outcome, SmilesError):
            yield RowPrediction(text, None, outcome.reason)
            continue
        found = next(predicted)
        if isinstance(found, str):
            yield RowPrediction(text, None, found)
        else:
            values, extra = found
            yield RowPrediction(text, values, "", outcome.warnings, extra)


def warn_failed(rows: Sequence[RowPrediction], noun: str) -> None:
    """Warn, at the caller's caller, of rows that are NaN because they have no `noun`, and of missing 3D geometries."""
    failed = [(i, r) for i, r in enumerate(rows) if r.error]
    if failed:
        i, first = failed[0]
        message = f"{len(failed)} of {len(rows)} SMILES have no {noun} (NaN); the first, row {i}, "
        warnings.warn(MolattnWarning(f"{message}{short_repr(first.smiles)}: {first.error}"), stacklevel=3)
    if message := missing_geometry_message(rows):
        warnings.warn(MolattnWarning(message), stacklevel=3)
