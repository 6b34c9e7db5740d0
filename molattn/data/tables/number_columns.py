"""Columns of numbers of a table or a stream, rewritten with decimal points and without thousands separators.

Every column has one format: see `number_formats`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from molattn.data.tables.cells import split_bound
from molattn.data.tables.columns import find_column
from molattn.data.tables.number_formats import (
    PLAIN,
    FormatCandidates,
    NumberFormat,
    Reading,
    first_misfit,
    is_number,
)
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions, Warn, ignore_warning
from molattn.data.tables.row_stream import Chunk, RowStream
from molattn.data.tables.table import Table, column_index
from molattn.errors import InputError, short_repr


def normalize_numbers(
    table: Table, columns: Sequence[str], options: TableOptions = DEFAULT_TABLE_OPTIONS
) -> tuple[Table, tuple[str, ...]]:
    """The table with the numbers of some columns rewritten as 1234.5, and a warning for each column that changed.

    Between semicolons, and without `options.decimal`, a comma is the decimal mark where both readings are possible.
    Cells that are a number in no format are unchanged. If no format fits all numbers of a column, it is unchanged.

    Args:
        table, columns: the table, and the names of the columns.
        options: the decimal mark and the thousands separator; if empty, they are inferred, column by column.

    Raises:
        UsageError: a format that does not exist.
        InputError: a column whose format is ambiguous, or with numbers that do not have the configured format.
    """
    options.check_number_format()
    warnings, replaced = [], {}
    for name in columns:
        index = column_index(table, name)
        cells = [row[index] for row in table.rows]
        texts = list(map(_number_text, cells))
        candidates = FormatCandidates(options)
        candidates.add(texts)
        place = table.location(texts.index(candidates.contradiction)) if candidates.contradiction else ""
        reading = candidates.choose(_where(table.source, place, name), table.decimal_commas)
        if reading.example:
            replaced[index] = [_normalize_cell(cell, reading.format) for cell in cells]
            warnings.append(reading.describe(name))
    return table.replace_columns(replaced), tuple(warnings)


class NumberColumns:
    """Columns of numbers of a stream, read chunk by chunk.

    The format of a column is that of all its numbers if they are scanned first, as those of a file are. Otherwise, as
    for a pipe, it is that of the numbers up to the chunk that is read, and one that contradicts it later is an error.

    Args:
        stream: the table, whose chunks are passed to `scan` or `read`.
        names: the names of the columns.
        options: the decimal mark and the thousands separator, if they are known.
        warn: called once for each column whose numbers are rewritten.

    Raises UsageError for a column that the table does not have.
    """

    def __init__(
        self,
        stream: RowStream,
        names: Sequence[str],
        options: TableOptions = DEFAULT_TABLE_OPTIONS,
        warn: Warn = ignore_warning,
    ):
        self._source, self._line_kind, self._comma_first = stream.source, stream.line_kind, stream.decimal_commas
        self._names, self._warn = names, warn
        self._indices = [find_column(stream.columns, name, stream.source) for name in names]
        self._candidates = [FormatCandidates(options) for _ in names]
        self._contradictions = [""] * len(names)  # where they are
        self._readings: list[Reading] | None = None  # of the chunks that were read
        self._formats: list[NumberFormat] | None = None  # of all chunks, once they are known

    def __bool__(self) -> bool:
        return bool(self._names)

    def scan(self, chunk: Chunk) -> None:
        """Take the numbers of a chunk into account."""
        for k, candidates in enumerate(self._candidates):
            texts = self._texts(chunk, k)
            known = candidates.contradiction
            candidates.add(texts)
            if candidates.contradiction != known:
                self._contradictions[k] = self._location(chunk, texts.index(candidates.contradiction))

    def choose(self) -> dict[str, list[str]]:
        """Choose the formats, once all chunks are scanned: the decimal mark and the thousands separator by column.

        Raises InputError as `normalize_numbers` does.
        """
        self._readings = self._choose()
        self._formats = [reading.format for reading in self._readings]
        return {n: [f.decimal, f.thousands] for n, f in zip(self._names, self._formats, strict=True)}

    def use(self, formats: Mapping[str, Sequence[str]]) -> None:
        """Use the formats that `choose` returned in another process."""
        self._formats = [NumberFormat(*formats[name]) for name in self._names]

    def read(self, chunk: Chunk) -> list[list[object]]:
        """The values of each column in a chunk: in text, numbers with decimal points and without separators.

        Raises InputError, unless the formats are chosen, as `normalize_numbers` does, and for a number that does not
        have the format in which the chunks before were read.
        """
        formats = self._formats
        if formats is None:
            self.scan(chunk)
            before, self._readings = self._readings, self._choose()
            for k, reading in enumerate(before or ()):
                if self._readings[k].format not in reading.formats:
                    raise self._changed_format(chunk, k, reading)
            formats = [reading.format for reading in self._readings]
        columns = [chunk.column(index) for index in self._indices]
        return [
            values if f == PLAIN else [_normalize_cell(v, f) if isinstance(v, str) else v for v in values]
            for values, f in zip(columns, formats, strict=True)
        ]

    def _choose(self) -> list[Reading]:
        chosen = []
        for k, (name, candidates) in enumerate(zip(self._names, self._candidates, strict=True)):
            reading = candidates.choose(_where(self._source, self._contradictions[k], name), self._comma_first)
            if reading.example and not (self._readings and self._readings[k].example):
                self._warn(reading.describe(name))
            chosen.append(reading)
        return chosen

    def _changed_format(self, chunk: Chunk, k: int, reading: Reading) -> InputError:
        """The error for the first number of a chunk that does not fit how the chunks before were read."""
        texts = self._texts(chunk, k)
        row = first_misfit(texts, reading)
        where = _where(self._source, self._location(chunk, row), self._names[k])
        return InputError(
            f"{where}: {short_repr(texts[row])} does not have the format of the numbers before it, which are read "
            "already: give the table as a file instead of a pipe, or the format with --decimal and --thousands"
        )

    def _texts(self, chunk: Chunk, k: int) -> list[str]:
        """The numbers of a column of text; none if it holds values of another type."""
        if chunk.arrow_table is not None:
            import pyarrow as pa  # imported already, by what has made the table

            if pa.types.is_primitive(chunk.arrow_table.schema.field(self._indices[k]).type):
                return []
        return list(map(_number_text, chunk.column(self._indices[k])))

    def _location(self, chunk: Chunk, row: int) -> str:
        return f"{self._line_kind} {chunk.lines[row]}"


def peek_decimal_commas(
    stream: RowStream, smiles_column: str, options: TableOptions = DEFAULT_TABLE_OPTIONS
) -> tuple[RowStream, bool]:
    """The stream, unchanged, and whether a column of numbers in its first chunk has decimal commas, and none points.

    A column of numbers is one in which most cells that are not empty are numbers. The answer is False if the delimiter
    is not a semicolon.
    """
    if not stream.decimal_commas or (first := next(stream.chunks, None)) is None:
        return stream, False
    marks = {
        _decimal_mark(first.column(index), options)
        for index, name in enumerate(stream.columns)
        if name.strip() != smiles_column.strip()
    }
    return replace(stream, chunks=chain([first], stream.chunks)), "," in marks and "." not in marks


def _decimal_mark(cells: Sequence[object], options: TableOptions) -> str:
    """The decimal mark of a column between semicolons; empty if it has none, or is not a column of numbers."""
    texts = [text for text in map(_number_text, cells) if text]
    if 2 * sum(map(is_number, texts)) <= len(texts):
        return ""
    candidates = FormatCandidates(options)
    candidates.add(texts)
    return "" if candidates.contradiction else candidates.choose("", comma_first=True).decimal


def _number_text(cell: object) -> str:
    """A cell of text without surrounding white space and the sign of a bound; empty for a value of another type."""
    return _split_sign(cell.strip())[1] if isinstance(cell, str) else ""


def _normalize_cell(cell: str, number_format: NumberFormat) -> str:
    """The cell with its number in plain form, after the sign of a bound; other cells are unchanged."""
    sign, text = _split_sign(cell.strip())
    number = number_format.normalize(text)
    return cell if number is None or number == text else sign + number


def _split_sign(text: str) -> tuple[str, str]:
    """The sign of a bound, empty if there is none, and the rest of the cell."""
    if (bound := split_bound(text)) is None:
        return "", text
    return text[: len(text) - len(bound[1])], bound[1]


def _where(source: str, location: str, column: str) -> str:
    """The place of a cell, or without a location its column, for errors."""
    return (
        f"{source}, {location}, column {short_repr(column)}" if location else f"{source}: column {short_repr(column)}"
    )
