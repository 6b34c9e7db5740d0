"""Rows of molecules from a file or standard input, a chunk at a time: CSV, TSV, SMI, SDF and Parquet.

Nothing here holds more than a few chunks of rows. Every row keeps its number and its place in the file, and whatever
cannot be read as the table that it says it is stops the reading with its place: no row is lost or shifted.
"""

import csv
import itertools
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from molattn.data.lines import STDIN, opened, shown_source, text_lines
from molattn.errors import InputError, SmilesError, UsageError, shown

CHUNK = 1024
"""Rows that travel together. Rows are cut at multiples of it, wherever reading starts: what a model answers can depend
on the company of a molecule in its batch, in the last digit."""

LARGEST_CELL = 2**24
"""Characters in a cell of a CSV: what an unclosed quote may swallow before it is called one."""

QUOTING = 'a field that holds the delimiter must stand in double quotes, as in "2,4-D"'

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".smi": "smi",
    ".smiles": "smi",
    ".sdf": "sdf",
    ".sd": "sdf",
    ".parquet": "parquet",
    ".pq": "parquet",
}
"""The format of a file by the end of its name, which `.gz` may follow; any other is read as CSV."""

Row = tuple[int, list[str], SmilesError | None]
"""Its place, its cells, and why the file holds no molecule there, if so."""


@dataclass(frozen=True)
class Chunk:
    """Some rows that follow each other."""

    start: int
    """The number of the first, from 0."""
    places: Sequence[int]
    """n numbers, of the line that each row starts on or of the record that it is: see `RowStream.place`."""
    cells: list[list[str]] | None = None
    """n rows of text cells; None where the file has types."""
    frame: Any = None
    """The n rows as a `pyarrow.Table`, where the file has types."""
    refused: Mapping[int, SmilesError] = field(default_factory=dict)
    """Why there is no molecule in a row of an SDF, by its number in the chunk."""

    def __len__(self) -> int:
        return len(self.places)

    def rows(self) -> list[list[str]]:
        """The rows as text; a missing value is empty."""
        if self.cells is not None:
            return self.cells
        columns = [_as_text(column) for column in self.frame.columns]
        return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in self.places]

    def column(self, index: int) -> list[object]:
        """The n values of a column, as they stand in the file."""
        if self.cells is not None:
            return [row[index] for row in self.cells]
        return self.frame.column(index).to_pylist()


@dataclass(frozen=True)
class RowStream:
    """A table that is read a chunk at a time, once."""

    source: str
    """What errors call it."""
    columns: tuple[str, ...]
    """The names of its columns."""
    chunks: Iterator[Chunk]
    """Its rows, `CHUNK` in each but the last."""
    place: str = "line"
    """What the places of its rows are: "line" or "record", from 1, or "row", from 0 as everywhere else."""
    smiles_column: str | None = None
    """The column of molecules, where the format says which."""
    schema: Any = None
    """The types of the columns, a `pyarrow.Schema`, where the file has types."""

    def molecules(self, chunk: Chunk, index: int) -> list[object]:
        """The molecules of a chunk: the values of a column, or why the record holds none."""
        values = chunk.column(index)
        if self.columns[index] == self.smiles_column:
            for row, error in chunk.refused.items():
                values[row] = error
        return values


def format_of(path: str | Path) -> str:
    """The format that a file's name says: one of "csv", "tsv", "smi", "sdf", "parquet"."""
    path = Path(path)
    if path.suffix.lower() == ".gz":
        path = path.with_suffix("")
    return FORMATS.get(path.suffix.lower(), "csv")


@contextmanager
def open_stream(path: str | Path, format: str | None = None) -> Iterator[RowStream]:
    """The rows of a file, or of standard input for "-".

    A CSV or TSV is what `read_table` takes. A line of an SMI is a SMILES, and a name behind the first blank or tab;
    a first line that begins with `smiles` names them. Each record of an SDF is a row with the canonical SMILES of its
    structure, its name, and all properties that occur in the file. Parquet keeps its types. Each but Parquet may be in
    a gzip, `.csv.gz`. Parquet and SDF from standard input go through a temporary file on disk.

    Args:
        path: The file; "-" for standard input.
        format: One of "csv", "tsv", "smi", "sdf", "parquet"; None goes by the name. Standard input has none: "csv".

    Raises InputError, when it gets to the place, for whatever is not such a table; UsageError for another format.
    """
    format = format or format_of(path)
    if format not in _OPEN:
        raise UsageError(f"there is no format {shown(format)}; known: {', '.join(_OPEN)}")
    source = shown_source(path)
    with ExitStack() as stack:
        if str(path) == STDIN and format in ("sdf", "parquet"):
            copy = stack.enter_context(tempfile.NamedTemporaryFile(prefix="molattn-"))
            shutil.copyfileobj(stack.enter_context(opened(path)), copy)
            copy.flush()
            path = copy.name
        yield _OPEN[format](stack, path, source)


def count_rows(path: str | Path, format: str | None = None) -> int:
    """How many rows a file has, after all of it was read, so that what `open_stream` refuses is refused here."""
    if (format or format_of(path)) == "sdf":
        from molattn.chem.sdf import records

        # What RDKit makes of a structure stops nothing, and takes its time.
        with opened(path) as file:
            return sum(1 for _ in records(text_lines(file, shown_source(path))))
    with open_stream(path, format) as stream:
        return sum(len(chunk) for chunk in stream.chunks)


def csv_rows(lines: Iterable[str], source: str, delimiter: str | None) -> tuple[tuple[str, ...], Iterator[Row]]:
    """The header of a CSV, and its rows as they come; a wholly empty line is no row.

    Raises InputError as `read_table` does, for the header at once and for a row when it comes.
    """
    head: list[str] = []
    lines = iter(lines)
    for line in lines:
        head.append(line)
        text = "".join(head)
        if text.strip("\r\n") and (text.count('"') % 2 == 0 or len(text) > LARGEST_CELL):
            break
    # The limit is one for the whole process: it is never lowered.
    csv.field_size_limit(max(csv.field_size_limit(), LARGEST_CELL))
    # strict: without it an unclosed quote swallows the rest of the file as one cell.
    reader = csv.reader(itertools.chain(head, lines), delimiter=delimiter or _delimiter("".join(head)), strict=True)
    rows = _csv_lines(reader, source)
    line, columns = next(rows, (1, []))
    if not columns:
        raise InputError(f"{source}: the file is empty; the first line must name the columns")
    _check_names(f"{source}, line {line}", columns)
    return tuple(columns), _of_width(rows, source, tuple(columns))


def _csv_lines(reader: Any, source: str) -> Iterator[tuple[int, list[str]]]:
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(f"{source}, line {line}: the quotes do not match ({error}): {QUOTING}") from error
        if cells is None:
            return
        if cells:
            yield line, cells


def _of_width(rows: Iterable[tuple[int, list[str]]], source: str, columns: tuple[str, ...]) -> Iterator[Row]:
    for line, cells in rows:
        if len(cells) != len(columns):
            raise InputError(_wrong_width(f"{source}, line {line}", cells, columns))
        yield line, cells, None


def _open_csv(stack: ExitStack, path: str | Path, source: str, delimiter: str | None = None) -> RowStream:
    columns, rows = csv_rows(text_lines(stack.enter_context(opened(path)), source), source, delimiter)
    return RowStream(source, columns, _chunks(rows))


def _open_tsv(stack: ExitStack, path: str | Path, source: str) -> RowStream:
    return _open_csv(stack, path, source, "\t")


def _open_smi(stack: ExitStack, path: str | Path, source: str) -> RowStream:
    lines = text_lines(stack.enter_context(opened(path)), source)
    head: list[str] = []
    for line in lines:
        head.append(line)
        if line.strip():
            break
    lines = itertools.chain(head, lines)
    if head and re.match(r"smiles\s*\t", head[-1].strip(), re.IGNORECASE):
        # A header whose tabs name further columns, as training reads it.
        columns, rows = csv_rows(lines, source, "\t")
        return RowStream(source, columns, _chunks(rows))
    return RowStream(source, ("smiles", "name"), _chunks(_smi_rows(lines)), smiles_column="smiles")


def _smi_rows(lines: Iterable[str]) -> Iterator[Row]:
    first = True
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        words = re.split(r"[ \t]+", line.strip(" \t\r\n"), maxsplit=1)
        # `m` and `e` are no atoms: this can be no molecule.
        if not (first and words[0].casefold() == "smiles"):
            yield number, [words[0], words[1] if len(words) > 1 else ""], None
        first = False


def _open_sdf(stack: ExitStack, path: str | Path, source: str) -> RowStream:
    from molattn.chem.sdf import property_names, read_record, records

    with opened(path) as file:
        names = property_names(text_lines(file, source))
    # The structure is the molecule: a property of the same name stays beside it.
    smiles, name = _free("smiles", names), _free("name", names)
    lines = text_lines(stack.enter_context(opened(path)), source)

    def rows() -> Iterator[Row]:
        for number, record in enumerate(records(lines), start=1):
            made = read_record(record)
            text, refused = ("", made.smiles) if isinstance(made.smiles, SmilesError) else (made.smiles, None)
            yield number, [text, made.name, *(made.properties.get(n, "") for n in names)], refused

    return RowStream(source, (smiles, name, *names), _chunks(rows()), "record", smiles)


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name = f"{name}_of_structure"
    return name


def _open_parquet(stack: ExitStack, path: str | Path, source: str) -> RowStream:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not Path(path).is_file():
        with opened(path):  # says what is wrong
            pass
        raise InputError(f"{source} is no ordinary file, as Parquet must be; write it to one first")
    try:
        # Not memory-mapped: what is read of the file would count as memory of the process.
        file = stack.enter_context(pq.ParquetFile(path, memory_map=False))
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{source} cannot be read as Parquet ({_first_line(error)}): copy it again") from error
    schema = file.schema_arrow
    _check_names(source, schema.names)
    return RowStream(source, tuple(schema.names), _frames(file, source), "row", schema=schema)


def _frames(file: Any, source: str) -> Iterator[Chunk]:
    """The rows of a Parquet file, cut anew: its batches end where its row groups do."""
    import pyarrow as pa

    schema, start = file.schema_arrow, 0
    waiting = pa.Table.from_batches([], schema)
    batches = file.iter_batches(CHUNK, use_threads=False)
    while True:
        try:
            batch = next(batches, None)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{source} is damaged after row {start} ({_first_line(error)}): copy it again") from error
        if batch is not None:
            waiting = pa.concat_tables([waiting, pa.Table.from_batches([batch], schema)])
        while waiting.num_rows >= CHUNK or (batch is None and waiting.num_rows):
            part, waiting = waiting.slice(0, CHUNK), waiting.slice(CHUNK)
            yield Chunk(start, range(start, start + part.num_rows), frame=part)
            start += part.num_rows
        if batch is None:
            return


def _chunks(rows: Iterator[Row]) -> Iterator[Chunk]:
    for start in itertools.count(0, CHUNK):
        some = list(itertools.islice(rows, CHUNK))
        if not some:
            return
        refused = {i: error for i, (_, _, error) in enumerate(some) if error is not None}
        yield Chunk(start, [place for place, _, _ in some], [cells for _, cells, _ in some], refused=refused)


def _as_text(column: Any) -> list[str]:
    """A column with types as text: numbers with all their digits, lists and structs as JSON."""
    import pyarrow as pa

    try:
        values = column.cast(pa.string()).to_pylist()
    except pa.ArrowException:
        values = [v if v is None else json.dumps(v, default=str) for v in column.to_pylist()]
    return ["" if v is None else v for v in values]


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0].rstrip(".")


def _delimiter(head: str) -> str:
    """What separates the cells, from the header; one of a single column has a comma."""
    # The header ends at the first line end outside quotes, and a delimiter inside quotes separates nothing.
    header = re.match(r'[\r\n]*((?:"[^"]*"|[^"\r\n])*)', head)
    bare = re.sub(r'"[^"]*"', "", header[1]) if header else ""
    return next((mark for mark in ",;\t" if mark in bare), ",")


def _check_names(where: str, names: Sequence[str]) -> None:
    """Refuse names of columns that are missing or stand twice."""
    first_place: dict[str, int] = {}
    for place, cell in enumerate(names, start=1):
        name = cell.strip()
        if not name:
            raise InputError(f"{where}: column {place} of {len(names)} has no name; give it one")
        if "\0" in name:
            raise InputError(f"{where}: NUL in column {place} of the header; save the file as UTF-8 text")
        if name in first_place:
            raise InputError(
                f"{where}: columns {first_place[name]} and {place} are both named {shown(name)}; rename one"
            )
        first_place[name] = place


def _wrong_width(where: str, cells: list[str], columns: tuple[str, ...]) -> str:
    """Why a row that is too short or too long cannot be read."""
    found = f"{where}: {len(cells)} fields where the header has {len(columns)}"
    if len(cells) < len(columns):
        missing = shown(columns[len(cells)])
        return f"{found}: nothing for column {missing}; is a delimiter missing or a quote unclosed?"
    return f"{found}: {shown(cells[len(columns)])} follows column {shown(columns[-1])}; {QUOTING}"


_OPEN: dict[str, Callable[[ExitStack, str | Path, str], RowStream]] = {
    "csv": _open_csv,
    "tsv": _open_tsv,
    "smi": _open_smi,
    "sdf": _open_sdf,
    "parquet": _open_parquet,
}
