"""The parts in which a long output is written, each of which is complete or absent, so that it can be resumed."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING

from molattn.data.files import file_sha256
from molattn.data.tables.parts import Parts, discard_parts, parts_folder
from molattn.data.tables.row_stream import CHUNK_SIZE
from molattn.errors import InputError
from molattn.inference.row_counts import RowCounts
from molattn.inference.table_job import TableJob

if TYPE_CHECKING:
    from molattn.inference.open_table import OpenTable

NUMBER_FORMATS_KEY = "number_formats"
"""The dependency of an output that holds the decimal mark and the thousands separator of each descriptor."""
CHUNKS_PER_PART = 16
"""The number of chunks in a part of the output; an interruption loses at most the unfinished part."""


def rows_per_part() -> int:
    """The number of rows in a part of the output; the last part may have fewer."""
    return CHUNKS_PER_PART * CHUNK_SIZE


def open_parts(
    table: "OpenTable", first: int, end: int | None, formats: Mapping[str, Sequence[str]], always: bool = False
) -> Parts | None:
    """The parts of a long output, or of any output with `always`; None for one that is written directly.

    Args:
        table: the table.
        first, end, formats: as from `OpenTable.row_range`.
        always: whether a short output is written in parts, too.

    Raises:
        InputError: there are unfinished parts of another input, model or set of options.
    """
    job, added = table.job, table.added
    if job.output is None:
        return None
    if job.force and not job.resume:
        discard_parts(job.output)
    short = not always and end is not None and end - first <= rows_per_part()
    if end is None or (short and not parts_folder(job.output).exists()):
        return None
    dependencies = {
        "result": added.noun,
        "options": added.options,
        "input_sha256": file_sha256(job.input.path),
        "config_sha256": added.config_sha256(),
        "molattn_version": version("molattn"),
        "smiles_column": table.smiles_column,
        "columns": table.columns,
        "first_row": first,
        "num_rows": end - first,
        "rows_per_part": rows_per_part(),
        "suffix": table.output.suffix,
        "escape_formulas": job.escape_formulas,
        "table_options": str(job.input.options),
        NUMBER_FORMATS_KEY: dict(formats),
    }
    return Parts(job.output, table.output, dependencies)


def join_parts(parts: Parts, job: TableJob, first: int, end: int | None, source: str) -> RowCounts:
    """Join the parts into the output, after a check that all rows are in them."""
    counts = check_complete(RowCounts.of_parts(parts), first, end, source)
    parts.join(keep=job.multiple_tables)
    return counts


def discard_records(jobs: Sequence[TableJob]) -> None:
    """Remove the records of the parts of several tables, once all tables are finished."""
    for job in jobs:
        if job.multiple_tables and job.output is not None:
            discard_parts(job.output)


def check_complete(counts: RowCounts, first: int, end: int | None, source: str) -> RowCounts:
    """Raise InputError unless as many rows were processed as were counted before."""
    if end is not None and counts.rows != end - first:
        raise InputError(f"{source} was changed while it was read: predict it again")
    return counts
