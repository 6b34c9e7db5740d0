"""The one reader of tables: CSV, TSV, SMI, SDF and Parquet, from a file or standard input, a chunk of rows at a time.

Nothing here holds more than a few chunks of rows. Every row keeps its number and its place in the file, and whatever
cannot be read as the table that it says it is stops the reading with its place: no row is lost or shifted.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from molattn.data.files import file_suffix
from molattn.data.tables.csv_text import csv_stream
from molattn.data.tables.molecule_files import sdf_stream, smi_stream
from molattn.data.tables.row_stream import RowStream
from molattn.data.tables.text_input import STDIN, open_input, read_blocks, read_lines, source_name
from molattn.errors import InputError, UsageError, short_repr

FORMATS = ("csv", "tsv", "smi", "sdf", "parquet")

_ENDINGS = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".smi": "smi",
    ".smiles": "smi",
    ".sdf": "sdf",
    ".sd": "sdf",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def infer_format(path: str | Path) -> str:
    """The format of a file by the end of its name, which `.gz` may follow: one of `FORMATS`; CSV for any other end."""
    return _ENDINGS.get(file_suffix(Path(path)), "csv")


def is_spreadsheet(path: str | Path) -> bool:
    """Whether a file is, by the end of its name, of a program that has its own format of tables."""
    return file_suffix(Path(path)) in (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")


def infer_delimiter(path: str | Path) -> str:
    """What separates the cells of a text by the end of its name; empty where that does not say."""
    return "\t" if infer_format(path) == "tsv" else ""


@contextmanager
def open_stream(
    path: str | Path,
    format: str | None = None,
    *,
    number_repeats: bool = False,
    most: int | None = None,
    places: bool = False,
) -> Iterator[RowStream]:
    """The rows of a file, or of standard input for "-".

    Text is UTF-8, with a byte-order mark or without; lines end with LF, CRLF or CR. A CSV is split at commas, or, when
    its header has none, at semicolons, or else at tabs; a wholly empty line is no row. A line of an SMI is a SMILES,
    and a name behind the first blank or tab; a first line that begins with `smiles` names them. Each record of an SDF
    is a row with the canonical SMILES of its structure, its title, and all properties that occur in the file. Parquet
    keeps its types. Each may be in a gzip, `.csv.gz`. Parquet and SDF from standard input, and Parquet in a gzip, go
    through a temporary file on disk.

    Args:
        path: The file; "-" for standard input.
        format: One of `FORMATS`; None goes by the name. Standard input has none: "csv".
        number_repeats: Whether a name that stands twice in the header of a CSV gets a number, `y` and `y.1`, instead
            of being refused.
        most: Bytes that a gzip may turn into; None for any number.
        places: Whether the rows of an SDF say where in their record the atoms of their SMILES stand.

    Raises InputError, when it gets to the place, for whatever is not such a table; UsageError for another format.
    """
    format = format or infer_format(path)
    if format not in FORMATS:
        raise UsageError(f"there is no format {short_repr(format)}; known: {', '.join(FORMATS)}")
    source = source_name(path)
    if is_spreadsheet(path):
        raise InputError(f"{source} is a spreadsheet, of which the first sheet can be saved as CSV: give that")
    with ExitStack() as stack:
        if format == "parquet" or (format == "sdf" and str(path) == STDIN):
            path = _on_disk(stack, path, source, most)
        if format == "parquet":
            # Here, because it brings pyarrow.
            from molattn.data.tables.arrow import parquet_stream

            yield stack.enter_context(parquet_stream(path, source))
            return

        def lines() -> Iterator[str]:
            return read_lines(stack.enter_context(open_input(path)), source, latin=format == "sdf", most=most)

        if format == "sdf":
            yield sdf_stream(lines, source, places)
        elif format == "smi":
            yield smi_stream(lines(), source)
        else:
            yield csv_stream(lines(), source, "\t" if format == "tsv" else "", number_repeats)


def count_rows(path: str | Path, format: str | None = None) -> int:
    """How many rows a file has, after all of it was read, so that what `open_stream` refuses is refused here."""
    if (format or infer_format(path)) == "parquet":
        from molattn.data.tables.arrow import parquet_rows  # here, because it brings pyarrow

        with ExitStack() as stack:
            return parquet_rows(_on_disk(stack, path, source_name(path), None), source_name(path))
    if (format or infer_format(path)) == "sdf":
        from molattn.chem.sdf import scan_sdf  # here, because it brings RDKit

        # What RDKit makes of a structure stops nothing, and takes its time.
        with open_input(path) as file:
            return scan_sdf(read_lines(file, source_name(path), latin=True)).records
    with open_stream(path, format) as stream:
        return sum(len(chunk) for chunk in stream.chunks)


def _on_disk(stack: ExitStack, path: str | Path, source: str, most: int | None) -> str | Path:
    """An ordinary file with the bytes of `path`: itself, or a copy for as long as `stack` is open."""
    with open_input(path) as file:
        if str(path) != STDIN and Path(path).suffix.lower() != ".gz":
            if Path(path).is_file():
                return path
            raise InputError(f"{source} is no ordinary file, as Parquet must be; write it to one first")
        copy = stack.enter_context(tempfile.NamedTemporaryFile(prefix="molattn-"))  # noqa: SIM115
        for block in read_blocks(file, source, most):
            copy.write(block)
    copy.flush()
    return copy.name
