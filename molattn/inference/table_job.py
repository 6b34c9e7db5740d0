"""One table to process: its input, its output, its range of rows, and the checks before a model is loaded.

Imports neither torch nor RDKit: the command line checks its arguments first.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from molattn.data.locks import lock_output, raise_open_file_limit
from molattn.data.paths import describe_missing_folder
from molattn.data.tables.columns import find_column, guess_smiles_column
from molattn.data.tables.lines import STDIN
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions, Warn, ignore_warning
from molattn.data.tables.parts import parts_folder
from molattn.data.tables.readers import OUTPUT_SUFFIXES, count_rows, has_known_suffix, infer_format, open_stream
from molattn.data.tables.row_stream import CHUNK_SIZE, Chunk, RowStream
from molattn.errors import InputError, UsageError


@dataclass(frozen=True)
class InputTable:
    """A table to read.

    Attributes:
        path: its path; "-" for standard input.
        smiles_column: name of the SMILES column; guessed when None.
        format: "csv", "tsv", "smi", "sdf", "parquet" or "xlsx"; by the file's name when None.
        options: encoding, header and sheet of the table, and the format of its numbers.
    """

    path: Path
    smiles_column: str | None = None
    format: str | None = None
    options: TableOptions = DEFAULT_TABLE_OPTIONS

    @contextmanager
    def open(
        self, max_atoms: int, warn: Warn, *, molblocks: bool = False, atom_maps: bool = False
    ) -> Iterator[tuple[RowStream, str]]:
        """The rows and the name of the column of SMILES; see `open_stream`.

        Raises:
            InputError: the table cannot be read.
            UsageError: there is no such column, or none that could be that of the SMILES.
        """
        with open_stream(
            self.path,
            self.format,
            self.options,
            molblocks=molblocks,
            atom_maps=atom_maps,
            max_atoms=max_atoms,
            warn=warn,
        ) as stream:
            name = self.smiles_column or guess_smiles_column(stream.columns, stream.smiles_column)
            find_column(stream.columns, name, stream.source)
            yield stream, name

    def row_range(
        self,
        shard: tuple[int, int] | None = None,
        warn: Warn = ignore_warning,
        scan: Callable[[Chunk], object] | None = None,
    ) -> tuple[int, int | None]:
        """The first row to process and the end of the range; the end is None for a pipe, whose rows cannot be counted.

        Reads a whole file, which also finds malformed rows. Shards start at multiples of `CHUNK_SIZE` rows, so that the
        same molecules share a batch as in the whole table.

        Args:
            shard: (i, n) for the i-th of n shards of the rows, from 1; None for all rows.
            warn: receives messages on how the file is read.
            scan: receives each chunk of rows of a file: see `count_rows`.
        """
        if not is_regular_file(self.path):
            return 0, None
        total = count_rows(self.path, self.format, self.options, warn, scan)
        i, n = shard or (1, 1)
        chunks = -(-total // CHUNK_SIZE)
        return min(chunks * (i - 1) // n * CHUNK_SIZE, total), min(chunks * i // n * CHUNK_SIZE, total)


def is_regular_file(table: Path) -> bool:
    """Whether a table is a file whose rows can be counted: not a pipe, and not "-", whatever files there are."""
    return str(table) != STDIN and table.is_file()


@dataclass(frozen=True)
class TableJob:
    """One table to process.

    Attributes:
        input: the table.
        output: the file to write; None writes CSV through `write_text`.
        write_text: receives the text of the CSV; required without `output`.
        shard: (i, n) for the i-th of n shards of the rows, from 1; None for all rows.
        num_workers: processes that read molecules.
        resume: continue with an unfinished output.
        strict: raise RowsFailed at the first row that fails.
        force: replace the output file.
        quiet: do not warn about a slow model.
        escape_formulas: put an apostrophe before cells that a spreadsheet would read as a formula.
        multiple_tables: whether it is one of several tables; the records of its parts are then kept until all tables
            are finished, for `resume`.
    """

    input: InputTable
    output: Path | None
    write_text: Callable[[str], object] | None = None
    shard: tuple[int, int] | None = None
    num_workers: int = 0
    resume: bool = False
    strict: bool = False
    force: bool = False
    quiet: bool = False
    escape_formulas: bool = False
    multiple_tables: bool = False

    def check(self) -> None:
        """Validate the arguments.

        Raises:
            UsageError: an invalid argument, or an output that exists or has an unknown suffix.
            InputError: the folder of the output does not exist.
        """
        table, output = self.input.path, self.output
        if self.shard is not None and not 1 <= self.shard[0] <= self.shard[1]:
            raise UsageError(f"a shard is (i, n), the i-th of n, from (1, n) to (n, n), not {self.shard}")
        if (self.shard or self.resume) and not is_regular_file(table) and (str(table) == STDIN or table.exists()):
            option = "a shard" if self.shard else "resume"
            raise UsageError(f"{option} needs the number of rows in advance: give a regular file instead of a pipe")
        if self.resume and output is None:
            raise UsageError("resume continues an output file: give an output")
        if output is None:
            return
        parts = parts_folder(output)
        if self.resume and not parts.exists() and output.is_file() and not self.force:
            raise UsageError(
                f"{output} exists and has no unfinished parts: there is nothing to resume; give another output, or "
                "--force (force=True) to replace it"
            )
        check_output(output, self.force or (self.resume and parts.exists()), table)
        # In a folder, an output has the name of its table.
        if not self.multiple_tables and not has_known_suffix(output):
            raise UsageError(f"{output.name}: {OUTPUT_SUFFIXES}")
        if parts.exists() and not self.force and not self.resume:
            raise UsageError(
                f"{parts} holds finished parts of {output}: --resume (resume=True) continues, --force (force=True) "
                "starts over"
            )


def check_output(path: Path, force: bool = False, table: Path | None = None) -> None:
    """Validate that a file can be written.

    Args:
        path: the file.
        force: whether it may exist, and is then replaced.
        table: the table that is read, if there is one, which the file must not be.

    Raises:
        UsageError: it exists and `force` is False, it is not a regular file, it is "-", or it is the table itself.
        InputError: its folder does not exist.
    """
    if str(path) == STDIN:
        raise UsageError("- is standard output, and this output is a file: give its path")
    if table is not None and str(table) == STDIN:
        table = None
    if table is not None and path.exists() and table.exists() and os.path.samefile(path, table):
        raise UsageError(f"{path} is the input itself: write to another file")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a regular file: give another path")
    if path.exists() and not force:
        raise UsageError(f"{path} exists: give another output, or --force (force=True) to replace it")
    if not path.absolute().parent.is_dir():
        raise InputError(describe_missing_folder(path.absolute().parent))


def check_attention_output(path: Path, force: bool = False, table: Path | None = None) -> None:
    """Validate the output of `attention_table`; see `check_output`.

    Raises:
        UsageError: another suffix than .parquet and .csv; and as `check_output`.
        InputError: as `check_output`.
    """
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise UsageError(f"{path.name}: attention weights are written as .parquet or .csv")
    check_output(path, force, table)


@contextmanager
def locked_outputs(jobs: Sequence[TableJob]) -> Iterator[Sequence[TableJob]]:
    """Validate the jobs and lock their outputs for the duration of the block.

    Raises:
        UsageError: another process writes to one of the outputs; and as `TableJob.check`.
        InputError: as `TableJob.check`.
    """
    raise_open_file_limit(len(jobs))
    with ExitStack() as stack:
        for job in jobs:
            job.check()
            if job.output is not None:
                stack.enter_context(lock_output(job.output))
                # Checked again: the file may have appeared or disappeared before it was locked.
                job.check()
        yield jobs


def jobs_for_tables(job: TableJob, tables: Sequence[Path], output: str | None) -> list[TableJob]:
    """A job for each table, with the settings of `job`; `job` itself for a single table without an output folder.

    Raises:
        UsageError, InputError: as `create_output_folder`, or several tables without a folder.
    """
    if output is None or (len(tables) == 1 and not output.endswith(("/", os.sep)) and not Path(output).is_dir()):
        if len(tables) > 1:
            raise UsageError(f"the predictions of {len(tables)} tables are written to a folder: give --output FOLDER/")
        return [job]
    pairs = zip(tables, create_output_folder(Path(output), tables), strict=True)
    return [
        replace(job, input=replace(job.input, path=table), output=path, multiple_tables=True) for table, path in pairs
    ]


def create_output_folder(folder: Path, tables: Sequence[Path]) -> list[Path]:
    """Create the folder for the results of several tables; returns an output file for each table.

    Raises:
        UsageError: the path is a file, standard input is among the tables, or two tables would have the same output.
        InputError: the folder's parent does not exist.
    """
    if any(str(table) == STDIN for table in tables):
        raise UsageError("standard input is a single table: give a file with --output, not a folder")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file: give a folder with --output for {len(tables)} tables")
    outputs = output_paths(folder, tables)
    if not folder.absolute().parent.is_dir():
        raise InputError(describe_missing_folder(folder.absolute().parent))
    folder.mkdir(exist_ok=True)
    return outputs


def output_paths(folder: Path, tables: Sequence[Path]) -> list[Path]:
    """The output of each table in a folder: the table's own name, with `.csv` for SMI and SDF."""
    table_by_output: dict[Path, Path] = {}
    for table in tables:
        kind, name = infer_format(table), table.name
        if kind in ("smi", "sdf", "parquet", "xlsx") and name.lower().endswith(".gz"):
            name = name[:-3]
        suffix = {"smi": ".csv", "sdf": ".csv", "xlsx": ".xlsx"}.get(kind)
        output = folder / (name if suffix is None else Path(name).stem + suffix)
        if output in table_by_output:
            raise UsageError(
                f"{table_by_output[output]} and {table} would both be written to {output}: predict them separately"
            )
        table_by_output[output] = table
    return [*table_by_output]
