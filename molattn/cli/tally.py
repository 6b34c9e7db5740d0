"""What became of the rows of a table, and what is said of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from molattn.cli.job import Job
from molattn.cli.terminal import tell, warn
from molattn.errors import InputError, short_repr

if TYPE_CHECKING:
    from molattn.data.tables.parts import Parts
    from molattn.data.tables.row_stream import Chunk, RowStream
    from molattn.inference import RowPrediction


@dataclass
class Tally:
    """What became of the rows so far."""

    rows: int = 0
    failed: int = 0
    first: str = ""
    """Place and reason of the first that failed."""
    flat: int = 0
    """Rows for which path lengths stand in for a 3D geometry."""
    first_flat: str = ""

    def add(self, other: "Tally") -> None:
        """Count the rows that follow."""
        self.rows += other.rows
        self.failed += other.failed
        self.flat += other.flat
        self.first = self.first or other.first
        self.first_flat = self.first_flat or other.first_flat


def tally_of_chunk(stream: "RowStream", chunk: "Chunk", answers: Sequence["RowPrediction"]) -> Tally:
    """What became of the rows of a chunk."""
    from molattn.inference.rows import geometry_warning

    tally = Tally(rows=len(chunk))
    for row, (place, answer) in enumerate(zip(chunk.places, answers, strict=True)):
        if answer.error:
            tally.add(Tally(failed=1, first=f"{stream.place} {place}: {answer.error}"))
        elif warning := geometry_warning(answer):
            where = f"row {chunk.start + row}, {short_repr(answer.smiles)}"
            tally.add(Tally(flat=1, first_flat=f"{where}: {warning}"))
    return tally


def tally_of(parts: "Parts") -> Tally:
    """What became of the rows of all finished parts."""
    tally = Tally()
    for number in sorted(parts.finished):
        tally.add(Tally(**parts.finished[number]["tally"]))
    return tally


def whole(tally: Tally, first: int, end: int | None, source: str) -> Tally:
    """The tally, if all rows that were counted beforehand are in it."""
    if end is not None and tally.rows != end - first:
        raise InputError(f"{source} was changed while it was read: predict it again")
    return tally


def named(tally: Tally, job: Job) -> Tally:
    """The tally with the table in its sentences, where there are several."""
    if not job.one_of_many:
        return tally
    said = {key: f"{job.table}, {text}" for key in ("first", "first_flat") if (text := getattr(tally, key))}
    return replace(tally, **said)


def strictly(job: Job, tally: Tally) -> str:
    """Why `--strict` stops."""
    return f"{tally.first}; --strict stops at the first row without a {job.what}"


def tell_rows(job: Job, tally: Tally) -> None:
    """Say how a table went, on standard error."""
    if tally.flat:
        count = f"{tally.flat} of {tally.rows} SMILES have no 3D geometry"
        warn(f"{count}; the first, {tally.first_flat}")
    if job.output is not None and not job.quiet:
        done = {"prediction": "predicted", "fingerprint": "embedded"}[job.what]
        tell(f"{tally.rows - tally.failed} of {tally.rows} rows {done}, written to {job.output}")
    if tally.failed:
        count = f"{tally.failed} of {tally.rows} rows have no {job.what}"
        warn(f"{count}; the first, {tally.first}")
