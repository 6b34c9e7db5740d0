"""How many rows of a table were processed, and which failed, with the sentences about them."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from molattn.data.tables.parts import Parts
from molattn.errors import MolattnWarning, describe_failures, short_repr
from molattn.inference.rows import RowPrediction, geometry_warning


@dataclass
class FailureCounts:
    """How many rows were processed, and which failed.

    Attributes:
        rows: rows processed.
        failed: rows with an error instead of a result.
        first_failed: location and reason of the first of them.
    """

    rows: int = 0
    failed: int = 0
    first_failed: str = ""

    def add_failure(self, message: str) -> None:
        """Count a row that failed; `message` is its location and the reason."""
        self.failed += 1
        self.first_failed = self.first_failed or message

    def failure_message(self, effect: str, noun: str = "rows") -> str:
        """A sentence about the rows that failed; empty for none.

        Args:
            effect: what follows for them, such as "have no prediction".
            noun: what they are.
        """
        return describe_failures(self.failed, self.rows, f"{noun} {effect}", self.first_failed)


@dataclass
class RowCounts(FailureCounts):
    """How many rows of a table were processed, and which failed.

    Attributes:
        rows: rows processed.
        failed: rows with an error instead of a result.
        first_failed: location and reason of the first of them.
        without_geometry: rows with path lengths instead of a 3D geometry, which was not found.
        first_without_geometry: row, SMILES and reason of the first of them.

    >>> from molattn.inference import RowCounts
    >>> counts = RowCounts(rows=3, failed=1, first_failed="line 4: a ring is not closed")  # of predict_table
    >>> counts.failure_message("have no prediction")
    '1 of 3 rows have no prediction; the first, line 4: a ring is not closed'
    """

    without_geometry: int = 0
    first_without_geometry: str = ""

    def add(self, other: "RowCounts", table: object = None) -> None:
        """Add the counts `other` of further rows; `table`, if given, is named in the first message of each kind."""
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
        found = "SMILES have no 3D geometry"
        return describe_failures(self.without_geometry, self.rows, found, self.first_without_geometry)

    def add_geometry(self, smiles: object, warnings: Iterable[str]) -> None:
        """Count the molecule `smiles` if one of its `warnings` says that its 3D geometry was not found."""
        if warning := geometry_warning(warnings):
            self.add(RowCounts(without_geometry=1, first_without_geometry=f"{short_repr(smiles)}: {warning}"))

    @classmethod
    def of_rows(cls, rows: Sequence[RowPrediction], locations: Sequence[str], start: int = 0) -> "RowCounts":
        """The counts of rows with these locations for messages, such as "line 3"; `start` is the index of the first.

        Raises:
            ValueError: another number of locations than of rows.
        """
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
        """The counts of all finished parts, the `parts` of one output."""
        counts = cls()
        for number in sorted(parts.finished):
            counts.add(cls(**parts.finished[number]["counts"]))
        return counts


@dataclass
class AttentionCounts(FailureCounts):
    """How many rows of a table have attention maps, how many weights were written, and which rows failed.

    Attributes:
        rows: rows of the input.
        failed: rows that cannot be read.
        first_failed: location and reason of the first of them.
        weights: rows of the output.

    >>> from molattn.inference import AttentionCounts
    >>> counts = AttentionCounts(rows=3, failed=1, first_failed="line 4: a ring is not closed", weights=640)
    >>> counts.failure_message("have no weights")
    '1 of 3 rows have no weights; the first, line 4: a ring is not closed'
    """

    weights: int = 0


def warn_failed(rows: Sequence[RowPrediction], noun: str) -> None:
    """Warn, at the line that called the caller, of rows that are NaN without a `noun`, and of missing 3D geometries."""
    counts = RowCounts.of_rows(rows, [f"row {i}, {short_repr(row.smiles)}" for i, row in enumerate(rows)])
    if counts.failed:
        warnings.warn(MolattnWarning(counts.failure_message(f"have no {noun} (NaN)", "SMILES")), stacklevel=3)
    if counts.geometry_message:
        warnings.warn(MolattnWarning(counts.geometry_message), stacklevel=3)
