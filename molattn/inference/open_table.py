"""A table that is open for reading, with the results of its rows, and how they are written."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace

from molattn.data.files import atomic_write
from molattn.data.tables.columns import find_column, format_names
from molattn.data.tables.npy_writer import NpyFormat
from molattn.data.tables.number_columns import NumberColumns, peek_decimal_commas
from molattn.data.tables.options import Warn, ignore_warning
from molattn.data.tables.parts import PartFiles
from molattn.data.tables.row_stream import Chunk, RowStream
from molattn.data.tables.writers import NewColumn, TableFormat, TableWriter, is_sdf, output_format
from molattn.errors import RowsFailed, UsageError
from molattn.inference.added_columns import AddedColumns
from molattn.inference.output_parts import rows_per_part
from molattn.inference.row_counts import RowCounts
from molattn.inference.rows import RowPrediction
from molattn.inference.table_job import TableJob

NumberedChunk = tuple[int, Chunk]
"""The number of a part of the output, and a chunk of its rows."""
ChunkResult = tuple[int, Chunk, list[RowPrediction]]
"""A `NumberedChunk` with the results of its rows."""


@dataclass(frozen=True)
class OpenTable:
    """A table that is open for reading, and how its results are written.

    Attributes:
        job, added: the table, and the columns that are added to it.
        stream: its rows.
        smiles_column: its column of SMILES.
        output: the format of the result.
        columns: names of all columns of the result.
        descriptors: the columns of numbers that the model reads.
    """

    job: TableJob
    added: AddedColumns
    stream: RowStream
    smiles_column: str
    output: TableFormat
    columns: list[str]
    descriptors: NumberColumns

    def row_range(self, warn: Warn = ignore_warning) -> tuple[int, int | None, dict[str, list[str]]]:
        """The range of rows, see `InputTable.row_range`, and the number formats of the descriptors of a file.

        Raises:
            InputError: a malformed row, or descriptors whose number format is ambiguous.
        """
        first, end = self.job.input.row_range(self.job.shard, warn, self.descriptors.scan if self.descriptors else None)
        return first, end, {} if end is None else self.descriptors.choose()

    def check_row_limit(self, first: int, end: int | None) -> None:
        """Raise UsageError if there are more rows than the format of the output can hold."""
        max_rows = self.output.max_rows
        if max_rows is not None and end is not None and end - first > max_rows:
            raise UsageError(
                f"{self.job.output} can have {max_rows:,} rows below its header, and the table has {end - first:,}: "
                "write .csv or .parquet, or shards of it, as in --shard 1/2"
            )

    def chunks(self, first: int, end: int | None, needed: Callable[[int], bool]) -> Iterator[NumberedChunk]:
        """The chunks of rows `first` to `end` in the parts that are needed."""
        for chunk in self.stream.chunks:
            if end is not None and chunk.start >= end:
                return
            part = (chunk.start - first) // rows_per_part()
            if chunk.start >= first and needed(part):
                yield part, chunk

    def results(
        self, chunks: Iterable[NumberedChunk], num_workers: int, progress: Callable[[int], None]
    ) -> Generator[ChunkResult, None, None]:
        """Compute the results of the rows of these chunks, in order."""
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

        results: list[RowPrediction] = []
        rows = self.added.compute_rows(molecules(), num_workers, progress, numbers() if self.descriptors else None)
        with closing(rows):
            for result in rows:
                results.append(result)
                part, chunk = pending[0]
                if len(results) == len(chunk):
                    pending.popleft()
                    yield part, chunk, results
                    results = []

    def write(self, writer: TableWriter, chunks: Iterable[ChunkResult]) -> RowCounts:
        """Write the rows of these chunks."""
        counts = RowCounts()
        for _, chunk, results in chunks:
            locations = [f"{self.stream.line_kind} {line}" for line in chunk.lines]
            counts.add(RowCounts.of_rows(results, locations, chunk.start))
            check_strict(self.job, self.added, counts)
            writer.write(chunk, self.added.cells(results))
        writer.close()
        return counts

    def write_part(self, parts: PartFiles, number: int, chunks: Iterable[ChunkResult]) -> None:
        """Write a part, then record that it is finished."""
        with atomic_write(parts.table(number)) as file:
            counts = self.write(self.output.writer(file), chunks)
        parts.finish(number, {"counts": asdict(counts)})


@contextmanager
def open_table(job: TableJob, added: AddedColumns, warn: Warn) -> Iterator[OpenTable]:
    """Open the table of a job; `warn` also receives messages on how it is read, some only when the rows are read."""
    options, limit = job.input.options, added.max_atoms
    to_sdf = is_sdf(job.output)
    of_atoms = any(column.kind.startswith("list<") for column in added.columns)
    opened = job.input.open(limit, warn, molblocks=to_sdf, atom_maps=to_sdf and of_atoms)
    with opened as (stream, smiles_column):
        descriptors = _descriptor_columns(job, added, stream, warn)
        if added.numbers_only:
            new = list(added.columns)
            output: TableFormat = NpyFormat(new)
        else:
            new = _rename_duplicates(added.columns, stream.columns, warn)
            stream, comma = peek_decimal_commas(stream, smiles_column, options)
            output = output_format(job.output, stream, new, job.escape_formulas, smiles_column, comma, limit)
        columns = [*stream.columns, *(c.name for c in new)]
        yield OpenTable(job, added, stream, smiles_column, output, columns, descriptors)


def check_strict(job: TableJob, added: AddedColumns, counts: RowCounts) -> None:
    """Raise RowsFailed if a row failed and the job is strict."""
    if job.strict and counts.failed:
        raise RowsFailed(f"{counts.first_failed}; strict stops at the first row without a {added.noun}")


def _descriptor_columns(job: TableJob, added: AddedColumns, stream: RowStream, warn: Warn) -> NumberColumns:
    """The columns of descriptors that the model reads."""
    try:
        return NumberColumns(stream, added.descriptors, job.input.options, warn)
    except UsageError as error:
        raise UsageError(f"{error}; the model reads {format_names(added.descriptors)} for each molecule") from error


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
