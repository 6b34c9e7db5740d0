"""Tables of any length, processed in bounded memory by this process, one after the other: see `OpenTable`."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from itertools import groupby

from molattn.data.files import atomic_write
from molattn.data.tables.options import Warn
from molattn.data.tables.writers import TextFormat, open_compressed
from molattn.inference.added_columns import AddedColumns
from molattn.inference.open_table import open_table
from molattn.inference.output_parts import check_complete, discard_records, join_parts, open_parts
from molattn.inference.row_counts import RowCounts
from molattn.inference.table_job import TableJob

ProgressFactory = Callable[[int | None, int], AbstractContextManager[Callable[[int], None]]]
"""A function of the number of rows, None if unknown, and the number that an earlier run has finished. It returns a
context manager of a callback, which receives the number of rows that this run has read so far."""

MIN_ROWS_TO_WARN = 10_000
"""The smallest number of rows for which a slow model is reported."""


def run_jobs(jobs: Sequence[TableJob], added: AddedColumns, progress: ProgressFactory, warn: Warn) -> RowCounts:
    """Process tables one after the other.

    Args:
        jobs: the tables; their outputs are locked by the caller, see `locked_outputs`.
        added: the columns that are added to them.
        progress: called for each table.
        warn: receives warnings.

    Returns:
        The counts of the rows of all tables.

    Raises:
        InputError: a table that cannot be read, or whose SMILES column is missing.
        UsageError: a column or an output format that does not exist.
        RowsFailed: a row failed, and its job is strict.
    """
    counts = RowCounts()
    for job in jobs:
        counts.add(run_job(job, added, progress, warn), job.input.path if job.multiple_tables else None)
    discard_records(jobs)
    return counts


def run_job(job: TableJob, added: AddedColumns, progress: ProgressFactory, warn: Warn) -> RowCounts:
    """Process one table; see `run_jobs`.

    A file is read completely once before the first molecule, so that a malformed row near its end is found within
    seconds. A pipe is checked while it is read: a malformed row stops it, and leaves the output file unchanged.
    """
    with ExitStack() as stack:
        table = stack.enter_context(open_table(job, added, warn))
        first, end, formats = table.row_range()
        table.check_row_limit(first, end)
        parts = open_parts(table, first, end, formats, job.multiple_tables)
        if parts is not None and parts.is_joined:
            return RowCounts.of_parts(parts)
        if not job.quiet and end is not None and end - first >= MIN_ROWS_TO_WARN and (reason := added.slow_reason()):
            warn(f"the model runs 2 to 4 times slower than it could: {reason}; see molattn doctor")
        finished = {} if parts is None else dict(parts.finished)
        chunks = table.chunks(first, end, lambda part: part not in finished)
        before = sum(record["counts"]["rows"] for record in finished.values())
        report = stack.enter_context(progress(None if end is None else end - first, before))
        predicted = stack.enter_context(closing(table.results(chunks, job.num_workers, report)))
        source = table.stream.source
        if job.output is None:
            assert isinstance(table.output, TextFormat) and job.write_text is not None
            return check_complete(table.write(table.output.text_writer(job.write_text), predicted), first, end, source)
        if parts is None:
            with atomic_write(job.output) as file:
                with open_compressed(job.output, file) as inner:
                    counts = table.write(table.output.writer(inner), predicted)
                return check_complete(counts, first, end, source)
        for number, chunks_of_part in groupby(predicted, lambda chunk: chunk[0]):
            table.write_part(parts, number, chunks_of_part)
        return join_parts(parts, job, first, end, source)
