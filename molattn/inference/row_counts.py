"""How many rows of a table were processed, and which failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from molattn.data.tables.parts import Parts
from molattn.data.tables.row_stream import Chunk, RowStream
from molattn.errors import short_repr
from molattn.inference.rows import RowPrediction, geometry_warning


@dataclass
class RowCounts:
    """How many rows of a table were processed, and which failed.

    Attributes:
        rows: rows processed.
        failed: rows with an error instead of a result.
        first_failed: place and reason of the first of them.
        without_geometry: rows whose path lengths stand in for a 3D geometry that was not found.
        first_without_geometry: row, SMILES and reason of the first of them.
    """

    rows: int = 0
    failed: int = 0
    first_failed: str = ""
    without_geometry: int = 0
    first_without_geometry: str = ""

    def add(self, other: "RowCounts", table: object = None) -> None:
        """Add the counts of the rows that follow; `table`, if given, is named with the first row of each problem."""
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

    def to_record(self) -> dict[str, Any]:
        """The counts under the names that the records of finished parts have on disk."""
        return {
            "rows": self.rows,
            "failed": self.failed,
            "first": self.first_failed,
            "flat": self.without_geometry,
            "first_flat": self.first_without_geometry,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "RowCounts":
        """The inverse of `to_record`."""
        return cls(record["rows"], record["failed"], record["first"], record["flat"], record["first_flat"])

    @classmethod
    def of_chunk(cls, stream: RowStream, chunk: Chunk, predictions: Sequence[RowPrediction]) -> "RowCounts":
        """The counts of a chunk of rows."""
        counts = cls(rows=len(chunk))
        for row, (place, prediction) in enumerate(zip(chunk.lines, predictions, strict=True)):
            if prediction.error:
                counts.add(cls(failed=1, first_failed=f"{stream.unit} {place}: {prediction.error}"))
            elif warning := geometry_warning(prediction):
                first = f"row {chunk.start + row}, {short_repr(prediction.smiles)}: {warning}"
                counts.add(cls(without_geometry=1, first_without_geometry=first))
        return counts

    @classmethod
    def of_parts(cls, parts: Parts) -> "RowCounts":
        """The counts of all finished parts."""
        counts = cls()
        for number in sorted(parts.finished):
            counts.add(cls.from_record(parts.finished[number]["tally"]))
        return counts


@dataclass
class AttentionCounts:
    """How many weights `attention_table` wrote, and which rows failed.

    Attributes:
        rows: rows of the input.
        failed: rows that cannot be read.
        first_failed: place and reason of the first of them.
        weights: rows of the output.
    """

    rows: int = 0
    failed: int = 0
    first_failed: str = ""
    weights: int = 0

    @property
    def warning(self) -> str:
        """A sentence about the rows that failed; empty for none."""
        if not self.failed:
            return ""
        return f"{self.failed} of {self.rows} rows have no weights; the first, {self.first_failed}"
