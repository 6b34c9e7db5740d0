"""Numbers in columns of a table or a stream, rewritten with decimal points and without thousands separators.

Every column has one format: see `number_formats`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

from molattn.data.tables.cells import split_bound
from molattn.data.tables.columns import find_column
from molattn.data.tables.number_formats import (
    PLAIN,
    EquivalentFormats,
    FormatCandidates,
    NumberFormat,
    first_mismatch,
    is_number,
)
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions, Warn, ignore_warning
from molattn.data.tables.row_stream import Chunk, RowStream
from molattn.data.tables.table import Table, column_index
from molattn.errors import InputError, short_ascii, short_repr


def normalize_numbers(
    table: Table, columns: Sequence[str], options: TableOptions = DEFAULT_TABLE_OPTIONS
) -> tuple[Table, tuple[str, ...]]:
    """Rewrite the numbers of some columns as 1234.5; returns the table, and a warning for each column that changed.

    If the delimiter is a semicolon, and without `options.decimal`, a comma that may be a decimal mark or a thousands
    separator is the decimal mark. Cells that are a number in no format are unchanged, and so are columns whose numbers
    match no common format.

    Args:
        table, columns: the table, and the names of the columns.
        options: the decimal mark and the thousands separator; if empty, they are inferred, column by column.

    Raises:
        UsageError: a column that the table does not have, or an unknown decimal mark or thousands separator.
        InputError: a column whose format is ambiguous, or a number that does not match `options`.
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
        chosen = candidates.choose(_where(table.source, place, name), table.decimal_commas)
        if chosen.example:
            replaced[index] = [_normalize_cell(cell, chosen.format) for cell in cells]
            warnings.append(chosen.describe(name))
    return table.replace_columns(replaced), tuple(warnings)


class NumberColumns:
    """Columns of numbers of a stream, read chunk by chunk; False if there are none.

    For a file, all chunks are passed to `scan` first, and `choose` infers the formats from all numbers. For a pipe,
    `read` infers them from the numbers up to the current chunk, and a later number that does not match is an error.

    Args:
        stream: the table, whose chunks are passed to `scan` or `read`.
        names: the names of the columns.
        options: the decimal mark and the thousands separator; empty ones are inferred.
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
        self._contradiction_locations = [""] * len(names)
        self._chosen: list[EquivalentFormats] | None = None  # for the chunks so far
        self._formats: list[NumberFormat] | None = None  # for all chunks, once `choose` or `use` was called

    def __bool__(self) -> bool:
        return bool(self._names)

    def scan(self, chunk: Chunk) -> None:
        """Add the numbers of a chunk to those that the formats are inferred from."""
        for k, candidates in enumerate(self._candidates):
            texts = self._texts(chunk, k)
            known = candidates.contradiction
            candidates.add(texts)
            if candidates.contradiction != known:
                self._contradiction_locations[k] = self._location(chunk, texts.index(candidates.contradiction))

    def choose(self) -> dict[str, list[str]]:
        """Infer the formats after all chunks are scanned: the decimal mark and thousands separator of each column.

        Raises InputError as `normalize_numbers`.
        """
        self._chosen = self._choose()
        self._formats = [chosen.format for chosen in self._chosen]
        return {n: [f.decimal, f.thousands] for n, f in zip(self._names, self._formats, strict=True)}

    def use(self, formats: Mapping[str, Sequence[str]]) -> None:
        """Set the formats that `choose` returned, such as in another process."""
        self._formats = [NumberFormat(*formats[name]) for name in self._names]

    def read(self, chunk: Chunk) -> list[list[object]]:
        """The values of each column in a chunk; in text, numbers have decimal points and no thousands separators.

        Before `choose` or `use`, raises InputError as `normalize_numbers`, and for a number that does not match the
        format of earlier chunks.
        """
        formats = self._formats
        if formats is None:
            self.scan(chunk)
            before, self._chosen = self._chosen, self._choose()
            for k, chosen_before in enumerate(before or ()):
                if self._chosen[k].format not in chosen_before.formats:
                    raise self._changed_format(chunk, k, chosen_before)
            formats = [chosen.format for chosen in self._chosen]
        columns = [chunk.column(index) for index in self._indices]
        return [
            values if f == PLAIN else [_normalize_cell(v, f) if isinstance(v, str) else v for v in values]
            for values, f in zip(columns, formats, strict=True)
        ]

    def _choose(self) -> list[EquivalentFormats]:
        result = []
        for k, (name, candidates) in enumerate(zip(self._names, self._candidates, strict=True)):
            chosen = candidates.choose(_where(self._source, self._contradiction_locations[k], name), self._comma_first)
            if chosen.example and not (self._chosen and self._chosen[k].example):
                self._warn(chosen.describe(name))
            result.append(chosen)
        return result

    def _changed_format(self, chunk: Chunk, k: int, before: EquivalentFormats) -> InputError:
        """The error for the first number of a chunk that does not match the format of earlier chunks."""
        texts = self._texts(chunk, k)
        row = first_mismatch(texts, before)
        where = _where(self._source, self._location(chunk, row), self._names[k])
        return InputError(
            f"{where}: {short_ascii(texts[row])} does not have the format of the numbers before it, which are "
            "already read: give the table as a file instead of a pipe, or the format with --decimal and --thousands"
        )

    def _texts(self, chunk: Chunk, k: int) -> list[str]:
        """The cells of a column as `_number_text`; empty for a typed column of another type than text."""
        if chunk.arrow_table is not None:
            import pyarrow as pa  # already imported by the module that made the table

            if pa.types.is_primitive(chunk.arrow_table.schema.field(self._indices[k]).type):
                return []
        return list(map(_number_text, chunk.column(self._indices[k])))

    def _location(self, chunk: Chunk, row: int) -> str:
        return f"{self._line_kind} {chunk.lines[row]}"


def peek_decimal_commas(
    stream: RowStream, smiles_column: str, options: TableOptions = DEFAULT_TABLE_OPTIONS
) -> tuple[RowStream, bool]:
    """Whether numbers in the first chunk have decimal commas, and none has a decimal point; and the unchanged stream.

    Only columns in which most cells that are not empty are numbers are considered. The result is False if the delimiter
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
    """The decimal mark of a column, of a table with semicolons; empty if it has none or is not a column of numbers."""
    texts = [text for text in map(_number_text, cells) if text]
    if 2 * sum(map(is_number, texts)) <= len(texts):
        return ""
    candidates = FormatCandidates(options)
    candidates.add(texts)
    return "" if candidates.contradiction else candidates.choose("", comma_first=True).decimal


def _number_text(cell: object) -> str:
    """A cell of text without surrounding whitespace and the sign of a bound; empty for a value of another type."""
    return _split_sign(cell.strip())[1] if isinstance(cell, str) else ""


def _normalize_cell(cell: str, number_format: NumberFormat) -> str:
    """The cell with its number as a plain one, after the sign of a bound if there is one; other cells are unchanged."""
    sign, text = _split_sign(cell.strip())
    number = number_format.normalize(text)
    return cell if number is None or number == text else sign + number


def _split_sign(text: str) -> tuple[str, str]:
    """The sign of a bound, empty if there is none, and the rest of the cell."""
    if (bound := split_bound(text)) is None:
        return "", text
    return text[: len(text) - len(bound[1])], bound[1]


def _where(source: str, location: str, column: str) -> str:
    """The location of a cell for errors; without `location`, that of its column."""
    return (
        f"{source}, {location}, column {short_repr(column)}" if location else f"{source}: column {short_repr(column)}"
    )
