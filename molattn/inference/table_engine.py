"""Tables of any length, predicted in bounded memory by this process or with Ray: parts, resumes and shards.

A long output is written in parts, each of which is complete or absent, so that an interrupted run can be resumed.
"""

import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from itertools import groupby

from molattn.data import guess_smiles_column
from molattn.data.files import atomic_write, file_sha256
from molattn.data.tables.columns import find_column, format_names
from molattn.data.tables.number_columns import NumberColumns, peek_decimal_commas
from molattn.data.tables.options import ignore_warning
from molattn.data.tables.parts import PartFiles, Parts, discard_parts, parts_folder
from molattn.data.tables.readers import open_stream
from molattn.data.tables.row_stream import CHUNK_SIZE, Chunk, RowStream
from molattn.data.tables.writers import (
    NewColumn,
    NpyFormat,
    TableFormat,
    TableWriter,
    TextFormat,
    is_sdf,
    open_compressed,
    output_format,
)
from molattn.errors import InputError, MolattnWarning, RowsFailed, UsageError
from molattn.inference.base_predictor import PredictionOptions
from molattn.inference.row_predictor import RowPredictor, TableTask, prediction_task
from molattn.inference.rows import RowCounts, RowPrediction
from molattn.inference.table_job import LOCAL, TableJob, check_engine

NumberedChunk = tuple[int, Chunk]
"""The number of a part of the output, and a chunk of its rows."""
PredictedChunk = tuple[int, Chunk, list[RowPrediction]]
"""A `NumberedChunk` with the results of its rows."""
ProgressFactory = Callable[[int | None, int], AbstractContextManager[Callable[[int], None]]]
"""A function of the number of rows, None if unknown, and the number that an earlier run has finished. It returns a
context manager of a callback, which receives the number of rows that this run has read so far."""
Warn = Callable[[str], object]

MIN_ROWS_TO_WARN = 10_000
"""The smallest number of rows for which a slow model is reported."""
NUMBER_FORMATS = "number_formats"
"""The dependency of an output that holds the decimal mark and the thousands separator of each descriptor."""
CHUNKS_PER_PART = 16
"""The number of chunks in a part of the output; an interruption loses at most the unfinished part."""


@dataclass(frozen=True)
class OpenTable:
    """A table that is open for reading, and how its results are written.

    Attributes:
        job, task: the table, and the columns that are added to it.
        stream: its rows.
        smiles_column: its column of SMILES.
        output: the format of the result.
        columns: names of all columns of the result.
        descriptors: the columns of numbers that the model reads.
    """

    job: TableJob
    task: TableTask
    stream: RowStream
    smiles_column: str
    output: TableFormat
    columns: list[str]
    descriptors: NumberColumns

    def row_range(self, warn: Warn = ignore_warning) -> tuple[int, int | None, dict[str, list[str]]]:
        """The range of rows, see `TableJob.row_range`, and the number formats of the descriptors of a file.

        Raises:
            InputError: a malformed row, or descriptors whose number format is ambiguous.
        """
        first, end = self.job.row_range(warn, self.descriptors.scan if self.descriptors else None)
        return first, end, {} if end is None else self.descriptors.choose()

    def chunks(self, first: int, end: int | None, needed: Callable[[int], bool]) -> Iterator[NumberedChunk]:
        """The chunks of rows `first` to `end` in the parts that are needed."""
        for chunk in self.stream.chunks:
            if end is not None and chunk.start >= end:
                return
            part = (chunk.start - first) // rows_per_part()
            if chunk.start >= first and needed(part):
                yield part, chunk

    def predict(
        self, chunks: Iterable[NumberedChunk], num_workers: int, progress: Callable[[int], None]
    ) -> Generator[PredictedChunk, None, None]:
        """Predict the rows of these chunks, in order."""
        smiles = find_column(self.stream.columns, self.smiles_column, self.stream.source)
        pending: deque[NumberedChunk] = deque()
        # Molecules are read ahead of the prediction: their descriptors are kept until then.
        descriptor_rows: deque[Iterable[Sequence[object]]] = deque()

        def molecules() -> Iterator[object]:
            for part, chunk in chunks:
                pending.append((part, chunk))
                if self.descriptors:
                    descriptor_rows.append(zip(*self.descriptors.read(chunk), strict=True))
                yield from self.stream.molecule_column(chunk, smiles)

        def numbers() -> Iterator[Sequence[object]]:
            while descriptor_rows:
                yield from descriptor_rows.popleft()

        predictions: list[RowPrediction] = []
        rows = self.task.predict_rows(molecules(), num_workers, progress, numbers() if self.descriptors else None)
        with closing(rows):
            for prediction in rows:
                predictions.append(prediction)
                part, chunk = pending[0]
                if len(predictions) == len(chunk):
                    pending.popleft()
                    yield part, chunk, predictions
                    predictions = []

    def write(self, writer: TableWriter, chunks: Iterable[PredictedChunk]) -> RowCounts:
        """Write the rows of these chunks."""
        counts = RowCounts()
        for _, chunk, predictions in chunks:
            locations = [f"{self.stream.unit} {line}" for line in chunk.lines]
            counts.add(RowCounts.of_rows(predictions, locations, chunk.start))
            check_strict(self.job, self.task, counts)
            writer.write(chunk, self.task.cells(predictions))
        writer.close()
        return counts

    def write_part(self, parts: PartFiles, number: int, chunks: Iterable[PredictedChunk]) -> None:
        """Write a part, then record that it is finished."""
        with atomic_write(parts.table(number)) as file:
            counts = self.write(self.output.writer(file), chunks)
        parts.finish(number, {"counts": asdict(counts)})


@contextmanager
def open_table(job: TableJob, task: TableTask, warn: Warn) -> Iterator[OpenTable]:
    """Open the table of a job; `warn` also receives messages on how it is read, some only when the rows are read."""
    options, limit = job.table_options, task.max_atoms
    with open_stream(
        job.input, job.input_format, options, molblocks=is_sdf(job.output), max_atoms=limit, warn=warn
    ) as stream:
        smiles_column = job.smiles_column or guess_smiles_column(stream.columns, stream.smiles_column)
        find_column(stream.columns, smiles_column, stream.source)
        descriptors = _descriptor_columns(job, task, stream, warn)
        if task.numbers_only:
            new = list(task.columns)
            output: TableFormat = NpyFormat(new)
        else:
            new = _rename_duplicates(task.columns, stream.columns, warn)
            stream, comma = peek_decimal_commas(stream, smiles_column, options)
            output = output_format(job.output, stream, new, job.escape_formulas, smiles_column, comma, limit)
        columns = [*stream.columns, *(c.name for c in new)]
        yield OpenTable(job, task, stream, smiles_column, output, columns, descriptors)


def run_jobs(jobs: Sequence[TableJob], task: TableTask, progress: ProgressFactory, warn: Warn) -> RowCounts:
    """Process tables one after the other.

    Args:
        jobs: the tables; their outputs are locked by the caller, see `locked_outputs`.
        task: the columns that are added to them.
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
        counts.add(run_job(job, task, progress, warn), job.input if job.multiple_tables else None)
    discard_records(jobs)
    return counts


def run_job(job: TableJob, task: TableTask, progress: ProgressFactory, warn: Warn) -> RowCounts:
    """Process one table; see `run_jobs`.

    A file is read completely once before the first molecule, so that a malformed row near its end is found within
    seconds. A pipe is checked while it is read: a malformed row stops it, and leaves the output file unchanged.
    """
    with ExitStack() as stack:
        table = stack.enter_context(open_table(job, task, warn))
        first, end, formats = table.row_range()
        check_row_limit(table, first, end)
        parts = open_parts(table, first, end, formats, job.multiple_tables)
        if parts is not None and parts.is_joined:
            return RowCounts.of_parts(parts)
        if not job.quiet and end is not None and end - first >= MIN_ROWS_TO_WARN and (reason := task.slow_reason()):
            warn(f"the model runs 2 to 4 times slower than it could: {reason}; see molattn doctor")
        finished = {} if parts is None else dict(parts.finished)
        chunks = table.chunks(first, end, lambda part: part not in finished)
        before = sum(record["counts"]["rows"] for record in finished.values())
        report = stack.enter_context(progress(None if end is None else end - first, before))
        predicted = stack.enter_context(closing(table.predict(chunks, job.num_workers, report)))
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


def rows_per_part() -> int:
    """The number of rows in a part of the output; the last part may have fewer."""
    return CHUNKS_PER_PART * CHUNK_SIZE


def check_row_limit(table: OpenTable, first: int, end: int | None) -> None:
    """Raise UsageError if the table has more rows than the format of the output can hold."""
    max_rows = table.output.max_rows
    if max_rows is not None and end is not None and end - first > max_rows:
        raise UsageError(
            f"{table.job.output} can have {max_rows:,} rows below its header, and the table has {end - first:,}: write "
            ".csv or .parquet, or shards of it, as in --shard 1/2"
        )


def open_parts(
    table: OpenTable, first: int, end: int | None, formats: Mapping[str, Sequence[str]], always: bool = False
) -> Parts | None:
    """The parts of a long output, or of any output with `always`; None for one that is written directly.

    Args:
        table: the table.
        first, end, formats: as from `OpenTable.row_range`.
        always: whether a short output is written in parts, too.

    Raises:
        InputError: there are unfinished parts of another input, model or set of options.
    """
    job, task = table.job, table.task
    if job.output is None:
        return None
    if job.force and not job.resume:
        discard_parts(job.output)
    short = not always and end is not None and end - first <= rows_per_part()
    if end is None or (short and not parts_folder(job.output).exists()):
        return None
    dependencies = {
        "task": task.noun,
        "options": task.options,
        "input_sha256": file_sha256(job.input),
        "model_sha256": task.model_sha256(),
        "molattn_version": version("molattn"),
        "smiles_column": table.smiles_column,
        "columns": table.columns,
        "first_row": first,
        "num_rows": end - first,
        "rows_per_part": rows_per_part(),
        "suffix": table.output.suffix,
        "escape_formulas": job.escape_formulas,
        "table_options": str(job.table_options),
        NUMBER_FORMATS: dict(formats),
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


def check_strict(job: TableJob, task: TableTask, counts: RowCounts) -> None:
    """Raise RowsFailed if a row failed and the job is strict."""
    if job.strict and counts.failed:
        raise RowsFailed(f"{counts.first_failed}; strict stops at the first row without a {task.noun}")


def _descriptor_columns(job: TableJob, task: TableTask, stream: RowStream, warn: Warn) -> NumberColumns:
    """The columns of descriptors that the model reads."""
    try:
        return NumberColumns(stream, task.descriptors, job.table_options, warn)
    except UsageError as error:
        raise UsageError(f"{error}; the model reads {format_names(task.descriptors)} for each molecule") from error


def _rename_duplicates(columns: Sequence[NewColumn], existing: Sequence[str], warn: Warn) -> list[NewColumn]:
    """The columns, with a number appended to names that the table already has, so that no column of it is replaced."""
    renamed: list[NewColumn] = []
    used = set(existing)  # embeddings have hundreds of columns
    for column in columns:
        number, name = 1, column.name
        while name in used:
            number += 1
            name = f"{column.name}_{number}"
        if name != column.name:
            warn(f"the table has a column {column.name!r}; the new one is {name!r}")
        renamed.append(replace(column, name=name))
        used.add(name)
    return renamed


ProgressCallback = Callable[[int, int | None], object]
"""Called with the number of rows read so far, and the number of all rows, None if unknown."""


def predict_jobs(
    predictor: RowPredictor,
    jobs: Sequence[TableJob],
    options: PredictionOptions,
    engine: str,
    progress: ProgressFactory,
    warn: Warn,
) -> RowCounts:
    """Predict tables whose outputs the caller has locked; see `table_engine.run_jobs`.

    Args:
        predictor: the model.
        jobs: the tables.
        options: what is computed in addition to the predictions.
        engine: "local", one after the other in this process, or "ray".
        progress, warn: as for `run_jobs`.

    Raises:
        UsageError: the model does not support the options, or is not in a folder that Ray's processes can read.
    """
    check_engine(engine)
    task = prediction_task(predictor, options)
    if engine == LOCAL:
        return run_jobs(jobs, task, progress, warn)
    from molattn.inference.ray_engine import run_on_ray  # needs an extra

    if predictor.folder is None:
        raise UsageError("--engine ray needs a model in a folder: save it, and load it from there")
    return run_on_ray(jobs, task, predictor.folder, options, progress, warn)


def callback_progress(callback: ProgressCallback | None) -> ProgressFactory:
    """Report progress to a function."""

    @contextmanager
    def progress(total: int | None, before: int) -> Iterator[Callable[[int], None]]:
        def report(done: int) -> None:
            if callback is not None:
                callback(before + done, total)

        yield report

    return progress


def warn_user(message: str) -> None:
    """Issue a `MolattnWarning` at the caller of the caller's caller."""
    warnings.warn(MolattnWarning(message), stacklevel=4)
