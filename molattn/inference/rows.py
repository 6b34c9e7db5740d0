"""`RowPrediction`, the prediction of one SMILES or why there is none, and `RowCounts`, how many rows failed."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from molattn.chem import NO_GEOMETRY
from molattn.data.tables.parts import Parts
from molattn.errors import MolattnWarning, SmilesError, short_repr
from molattn.models.base import Molecule
from molattn.models.descriptor_stream import InputRow, usable_molecules

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
        extra_values: the values of `molattn.Predictor.extra_columns_for`; empty when there is an error.
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


def warn_failed(rows: Sequence[RowPrediction], noun: str) -> None:
    """Warn, as the caller's caller, of rows that are NaN because they have no `noun`, and of missing 3D geometries."""
    counts = RowCounts.of_rows(rows, [f"row {i}, {short_repr(row.smiles)}" for i, row in enumerate(rows)])
    if counts.failed:
        message = f"{counts.failed} of {counts.rows} SMILES have no {noun} (NaN); the first, {counts.first_failed}"
        warnings.warn(MolattnWarning(message), stacklevel=3)
    if counts.geometry_message:
        warnings.warn(MolattnWarning(counts.geometry_message), stacklevel=3)


@dataclass
class RowCounts:
    """How many rows of a table were processed, and which failed.

    Attributes:
        rows: rows processed.
        failed: rows with an error instead of a result.
        first_failed: location and reason of the first of them.
        without_geometry: rows with path lengths instead of a 3D geometry, which was not found.
        first_without_geometry: row, SMILES and reason of the first of them.
    """

    rows: int = 0
    failed: int = 0
    first_failed: str = ""
    without_geometry: int = 0
    first_without_geometry: str = ""

    def add(self, other: "RowCounts", table: object = None) -> None:
        """Add the counts of further rows; `table`, if given, is named in the first message of each kind."""
        prefix = "" if table is None else f"{table}, "
        self.rows += other.rows
        self.failed += other.failed
        self.without_geometry += other.without_geometry
        if not self.first_failed and other.first_failed:
            self.first_failed = prefix + other.first_failed
        if not self.first_without_geometry and other.first_without_geometry:
            self.first_without_geometry = prefix + other.first_without_geometry

    @property
    def geometry_message(self) -> str:
        """A sentence about rows without a 3D geometry; empty for none."""
        if not self.without_geometry:
            return ""
        count = f"{self.without_geometry} of {self.rows} SMILES have no 3D geometry"
        return f"{count}; the first, {self.first_without_geometry}"

    def failure_message(self, noun: str) -> str:
        """A sentence about rows without a `noun`, such as "prediction"; empty for none."""
        if not self.failed:
            return ""
        return f"{self.failed} of {self.rows} rows have no {noun}; the first, {self.first_failed}"

    @classmethod
    def of_rows(cls, rows: Sequence[RowPrediction], locations: Sequence[str], start: int = 0) -> "RowCounts":
        """The counts of rows with these locations for messages, such as "line 3"; `start` is the index of the first."""
        counts = cls(rows=len(rows))
        for i, (location, row) in enumerate(zip(locations, rows, strict=True), start):
            if row.error:
                counts.add(cls(failed=1, first_failed=f"{location}: {row.error}"))
            elif warning := geometry_warning(row.warnings):
                first = f"row {i}, {short_repr(row.smiles)}: {warning}"
                counts.add(cls(without_geometry=1, first_without_geometry=first))
        return counts

    @classmethod
    def of_parts(cls, parts: Parts) -> "RowCounts":
        """The counts of all finished parts."""
        counts = cls()
        for number in sorted(parts.finished):
            counts.add(cls(**parts.finished[number]["counts"]))
        return counts


@dataclass
class AttentionCounts:
    """How many rows of a table have attention maps, how many weights were written, and which rows failed.

    Attributes:
        rows: rows of the input.
        failed: rows that cannot be read.
        first_failed: location and reason of the first of them.
        weights: rows of the output.
    """

    rows: int = 0
    failed: int = 0
    first_failed: str = ""
    weights: int = 0

    def failure_message(self, effect: str) -> str:
        """A sentence about the rows that failed, with their `effect`, such as "have no weights"."""
        return f"{self.failed} of {self.rows} rows {effect}; the first, {self.first_failed}"
