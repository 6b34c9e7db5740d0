"""What is asked of a table that goes through a model: which rows of it, and where the result goes."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from molattn.cli.terminal import warn
from molattn.errors import InputError, UsageError, short_repr


@dataclass(frozen=True)
class Job:
    """What is asked of a table."""

    run: Path
    """The folder of the run whose model it is."""
    table: Path
    """The input; "-" for standard input."""
    output: Path | None
    """Where the result goes; None prints it."""
    smiles_column: str | None = None
    input_format: str | None = None
    shard: str | None = None
    """"i/n": the i-th of n parts of the rows, from 1."""
    num_workers: int = 0
    resume: bool = False
    strict: bool = False
    force: bool = False
    quiet: bool = False
    escape_formulas: bool = False
    what: str = "prediction"
    """What a row gets."""
    beside: str = ""
    """What is asked for beside it, for the parts of an output to be of one kind."""
    one_of_many: bool = False
    """Whether it is one of several tables: then what is known of it stays until all are done, for `--resume`."""

    def check(self) -> None:
        """Refuse what makes no sense, before anything is loaded."""
        from molattn.data.tables.parts import parts_folder

        if self.shard is not None:
            _shard(self.shard)
        counted = self.table.is_file()
        if (self.shard or self.resume) and not counted and (str(self.table) == "-" or self.table.exists()):
            asked = "--shard" if self.shard else "--resume"
            raise UsageError(f"{asked} needs to know all rows beforehand: give an ordinary file in place of a pipe")
        if self.resume and self.output is None:
            raise UsageError("--resume goes on with a file: give --output")
        output, table = self.output, self.table
        if output is None:
            return
        if output.exists() and table.exists() and os.path.samefile(output, table):
            raise UsageError(f"{output} is the input itself: write to another file")
        if output.exists() and not output.is_file():
            raise UsageError(f"{output} is not an ordinary file: give another path")
        parts = parts_folder(output)
        going_on = self.resume and parts.exists()
        if output.exists() and not self.force and not going_on:
            raise UsageError(f"{output} exists: give another --output, or --force to replace it")
        if parts.exists() and not self.force and not self.resume:
            raise UsageError(f"{parts} holds what is done of {output}: --resume goes on, --force begins anew")
        if not output.absolute().parent.is_dir():
            raise InputError(f"there is no folder {output.absolute().parent}: create it first")


@contextmanager
def outputs_held(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """These jobs, which make sense, and at whose outputs nobody else works within the block.

    Raises UsageError where another process does, and what `Job.check` raises.
    """
    from molattn.data.locks import lock_output, raise_open_file_limit

    raise_open_file_limit(len(jobs))
    with ExitStack() as stack:
        for job in jobs:
            job.check()
            if job.output is not None:
                stack.enter_context(lock_output(job.output))
                # What was there may have come, or gone, before it was ours.
                job.check()
        yield jobs


def rows_of(job: Job) -> tuple[int, int | None]:
    """The first row that is asked for, and the one behind the last; None where nobody can know.

    A table in a file is read once through for that.
    """
    from molattn.data.tables.readers import count_rows
    from molattn.data.tables.row_stream import CHUNK_SIZE

    if not job.table.is_file():
        return 0, None
    return _bounds(job.shard, count_rows(job.table, job.input_format), CHUNK_SIZE)


def outputs_in(folder: Path, tables: Sequence[Path]) -> list[Path]:
    """Where the results of several tables go: files in a folder, called as they are, but for kinds not written."""
    from molattn.data.tables.readers import infer_format

    found: dict[Path, Path] = {}
    for table in tables:
        kind, name = infer_format(table), table.name
        if kind in ("smi", "sdf", "parquet") and name.lower().endswith(".gz"):
            name = name[:-3]
        output = folder / (Path(name).stem + ".csv" if kind in ("smi", "sdf") else name)
        if output in found:
            raise UsageError(f"{found[output]} and {table} would both be {output}: give them apart")
        found[output] = table
    return [*found]


def new_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """`names`, numbered where the table has such a column already: nothing of the input is overwritten."""
    fresh: list[str] = []
    # Many, in the case of fingerprints: looked up, not searched.
    used = set(taken)
    for name in names:
        number, candidate = 1, name
        while candidate in used:
            number += 1
            candidate = f"{name}_{number}"
        if candidate != name:
            warn(f"the table has a column {name!r}; the new one is {candidate!r}")
        fresh.append(candidate)
        used.add(candidate)
    return fresh


def _shard(text: str) -> tuple[int, int]:
    """i and n of "i/n"."""
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise typer.BadParameter(f"--shard takes i/n, the i-th of n parts, from 1/n to n/n, not {short_repr(text)}")
    return int(found[1]), int(found[2])


def _bounds(shard: str | None, total: int, step: int) -> tuple[int, int]:
    """The first row of a shard, and the one behind its last.

    Shards are cut at multiples of `step` rows, so that the same molecules share a batch as in the whole table.
    """
    i, n = (1, 1) if shard is None else _shard(shard)
    chunks = -(-total // step)
    return min(chunks * (i - 1) // n * step, total), min(chunks * i // n * step, total)
