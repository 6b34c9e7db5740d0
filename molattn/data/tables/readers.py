"""Readers of CSV, TSV, SMI, SDF, Parquet and Excel tables, from a file or standard input, in chunks of rows.

At most a few chunks are in memory. Every row has its index and its location in the file. A malformed table is an error
with the location: no row is skipped or shifted.
"""

import gzip
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from molattn.data.paths import file_suffix
from molattn.data.tables.csv_text import csv_stream
from molattn.data.tables.lines import STDIN, open_input, read_blocks, read_lines, source_name
from molattn.data.tables.molecule_files import sdf_stream, smi_stream
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions, Warn, ignore_warning, warn_once
from molattn.data.tables.row_stream import Chunk, RowStream
from molattn.errors import InputError, UsageError, unknown_choice

FILE_FORMATS = ("csv", "tsv", "smi", "sdf", "parquet", "xlsx")

OUTPUT_SUFFIXES = "use the suffix .csv, .tsv or .sdf, with or without .gz, .parquet or .xlsx"

_FORMAT_OF_SUFFIX = {
    ".tsv": "tsv",
    ".tab": "tsv",
    ".smi": "smi",
    ".smiles": "smi",
    ".sdf": "sdf",
    ".sd": "sdf",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
}


def infer_format(path: str | Path) -> str:
    """The format of a file by its suffix, which `.gz` may follow: one of `FILE_FORMATS`; CSV for an unknown suffix."""
    return _FORMAT_OF_SUFFIX.get(file_suffix(Path(path)), "csv")


def has_known_suffix(path: Path) -> bool:
    """Whether the suffix of a file says what it holds: a table, also of a format that is not written, or `.npy`."""
    return file_suffix(path) in (*_FORMAT_OF_SUFFIX, ".csv", ".npy") or is_unsupported_spreadsheet(path)


def is_unsupported_spreadsheet(path: str | Path) -> bool:
    """Whether a file has the suffix of a spreadsheet format that is not supported."""
    return file_suffix(Path(path)) in (".xls", ".xlsb", ".ods", ".numbers")


def delimiter_of_suffix(path: str | Path) -> str:
    """The delimiter of a text file by its suffix; empty if that does not define it."""
    return "\t" if infer_format(path) == "tsv" else ""


@contextmanager
def open_stream(
    path: str | Path,
    format: str | None = None,
    options: TableOptions = DEFAULT_TABLE_OPTIONS,
    *,
    number_duplicate_columns: bool = False,
    max_bytes: int | None = None,
    atom_maps: bool = False,
    molblocks: bool = False,
    structures: bool = True,
    max_atoms: int = 0,
    warn: Warn = ignore_warning,
) -> Iterator[RowStream]:
    """Open the rows of a file, or of standard input for "-".

    The encoding of text is detected by `read_lines`; lines end with LF, CRLF or CR. The delimiter of a CSV, a comma,
    semicolon or tab, is inferred from its header; empty lines are skipped. A line of an SMI is a SMILES, and a name
    after the first space or tab; a first line that begins with `smiles` is a header. Each record of an SDF is a row
    with the canonical SMILES of its structure, its title, and all properties that occur in the file. Parquet keeps its
    types. The cells of an Excel workbook have the text that Excel writes to a CSV. All may be gzipped, under any name.
    Parquet, SDF and workbooks from standard input, and gzipped Parquet and workbooks, are copied to a temporary file.

    Args:
        path: the file; "-" for standard input.
        format: one of `FILE_FORMATS`; None infers it from the suffix. The default of standard input is "csv".
        options: encoding, header and sheet.
        number_duplicate_columns: whether duplicate names in the header of a CSV are numbered, `y` and `y.1`, instead of
            raising an error.
        max_bytes: maximum unpacked bytes of a gzip; None for no limit.
        atom_maps: whether the chunks of an SDF have `Chunk.atom_maps`.
        molblocks: whether the chunks of an SDF have `Chunk.molblocks`.
        structures: whether the structures of an SDF are parsed; its SMILES are empty otherwise.
        max_atoms: largest number of atoms in a record of an SDF, if it is above `MAX_ATOMS`.
        warn: called with messages about how the table is read, each once, some only when the rows are reached.

    Raises InputError, once the location is reached, for a malformed table; UsageError for an unknown format or an
    option that the format does not have; MissingExtra for a workbook without openpyxl.
    """
    format = format or infer_format(path)
    if format not in FILE_FORMATS:
        raise UsageError(unknown_choice("format", format, FILE_FORMATS))
    source = source_name(path)
    if is_unsupported_spreadsheet(path):
        raise InputError(f"{source} is a spreadsheet of a format that is not read: save its first sheet as CSV")
    options.check(format, source)
    warn = warn_once(warn)
    with ExitStack() as stack:
        if format in ("parquet", "xlsx") or (format == "sdf" and str(path) == STDIN):
            path = _on_disk(stack, path, source, max_bytes)
        if format == "parquet":
            # Imported here, because it imports pyarrow.
            from molattn.data.tables.arrow import parquet_stream

            yield stack.enter_context(parquet_stream(path, source, warn))
            return
        if format == "xlsx":
            from molattn.data.tables.workbook import workbook_stream  # imported here, because few tables need it

            yield stack.enter_context(workbook_stream(path, source, options, number_duplicate_columns, warn))
            return

        def lines() -> Iterator[str]:
            file = stack.enter_context(open_input(path))
            encoding, latin_1 = options.encoding, format == "sdf"
            return read_lines(file, source, latin_1=latin_1, max_bytes=max_bytes, encoding=encoding, warn=warn)

        if format == "sdf":
            yield sdf_stream(
                lines, source, atom_maps=atom_maps, molblocks=molblocks, structures=structures, max_atoms=max_atoms
            )
        elif format == "smi":
            yield smi_stream(lines(), source, warn)
        else:
            delimiter = "\t" if format == "tsv" else ""
            yield csv_stream(lines(), source, delimiter, number_duplicate_columns, options.header_row, warn)


def count_rows(
    path: str | Path,
    format: str | None = None,
    options: TableOptions = DEFAULT_TABLE_OPTIONS,
    warn: Warn = ignore_warning,
    scan: Callable[[Chunk], object] | None = None,
) -> int:
    """The number of rows of a file, which is read as a whole. Raises the errors of `open_stream` for all rows.

    Args:
        path, format, options, warn: as for `open_stream`.
        scan: called with each chunk of rows; the structures of an SDF are not parsed.
    """
    format = format or infer_format(path)
    source = source_name(path)
    options.check(format, source)
    if scan is None and format == "parquet":
        from molattn.data.tables.arrow import count_parquet_rows  # imported here, because it imports pyarrow

        with ExitStack() as stack:
            return count_parquet_rows(_on_disk(stack, path, source, None), source)
    if scan is None and format == "sdf":
        from molattn.chem.sdf import scan_sdf  # imported here, because it imports RDKit

        # Structures that RDKit cannot read are not errors of the file, so they are not parsed.
        with open_input(path) as file:
            return scan_sdf(read_lines(file, source, latin_1=True, encoding=options.encoding)).records
    count = 0
    with open_stream(path, format, options, structures=False, warn=warn) as stream:
        for chunk in stream.chunks:
            count += len(chunk)
            if scan is not None:
                scan(chunk)
    return count


def _on_disk(stack: ExitStack, path: str | Path, source: str, max_bytes: int | None) -> str | Path:
    """A regular file with the content of `path`: `path` itself, or an unpacked copy that is removed with `stack`."""
    with open_input(path) as file:
        if str(path) != STDIN and not isinstance(file, gzip.GzipFile):
            if Path(path).is_file():
                return path
            raise InputError(f"{source} is not a regular file, which Parquet and workbooks must be: copy it to one")
        # Closed before it is read: Windows does not open the file of `NamedTemporaryFile` a second time.
        folder = tempfile.TemporaryDirectory(prefix="molattn-", ignore_cleanup_errors=True)
        path_of_copy = Path(stack.enter_context(folder)) / "table"
        with open(path_of_copy, "wb") as copy:
            for block in read_blocks(file, source, max_bytes):
                copy.write(block)
    return path_of_copy
