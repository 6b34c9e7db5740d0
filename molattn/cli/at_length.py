"""A table of any length through a model: every row comes back with what the model says of it, in bounded memory."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from molattn.cli.job import Job, rows_of
from molattn.cli.tally import Tally, named, strictly, tally_of, tally_of_chunk, whole
from molattn.cli.terminal import table_to_stdout, warn
from molattn.errors import RowsFailed, UsageError

if TYPE_CHECKING:
    from molattn.data.tables.parts import PartFiles, Parts
    from molattn.data.tables.row_stream import Chunk, RowStream
    from molattn.data.tables.writers import Column, NewColumn, TableFormat, TableWriter
    from molattn.inference import RowPrediction

    Rows = Callable[[Iterable[object], int, Callable[[int], None], object], Generator[RowPrediction, None, None]]
    Piece = tuple[int, Chunk, list[RowPrediction]]

_LONG = 10_000
"""Rows from which on it matters how fast a model runs."""
PART = 16
"""Chunks in a part of the output: what a kill can cost."""


@dataclass(frozen=True)
class Making:
    """How the rows of a table get what a model says of them."""

    rows: "Rows"
    """From molecules, a number of workers, whom to tell of progress, and the descriptors beside the molecules or None,
    to the answers, in order."""
    added: Callable[["RowStream"], list["NewColumn"]]
    """The new columns, beside those of the table."""
    cells: Callable[[Sequence["RowPrediction"]], list["Column"]]
    """From answers to the values of the new columns."""
    form: Callable[[Path | None, "RowStream", Sequence["NewColumn"]], "TableFormat"]
    """From the path, the table and the new columns to the form of the result."""
    descriptors: Sequence[str] = ()
    """The columns of numbers that the model reads beside each molecule."""
    why_slow: Callable[[], str] = str
    """Why the model runs slower than it could, in words; nothing where it does not."""


@dataclass(frozen=True)
class Work:
    """A table that is open, and what is made of it."""

    job: Job
    making: Making
    stream: "RowStream"
    name: str
    """The column of SMILES."""
    output: "TableFormat"
    columns: list[str]
    """All that the output has."""

    def chunks(self, first: int, end: int | None, wanted: Callable[[int], bool]) -> Iterator[tuple[int, "Chunk"]]:
        """The chunks of the parts that are wanted, each with the number of its part."""
        from molattn.data.tables.row_stream import CHUNK_SIZE

        for chunk in self.stream.chunks:
            if end is not None and chunk.start >= end:
                return
            part = (chunk.start - first) // (PART * CHUNK_SIZE)
            if chunk.start >= first and wanted(part):
                yield part, chunk

    def answered(
        self, wanted: Iterable[tuple[int, "Chunk"]], num_workers: int, told: Callable[[int], None]
    ) -> Generator["Piece", None, None]:
        """These chunks with their answers, in order."""
        from molattn.data.tables.columns import find_column

        index = find_column(self.stream.columns, self.name, self.stream.source)
        beside = _places(self.stream, self.making.descriptors)
        return _answered(wanted, self.stream, index, beside, self.making.rows, num_workers, told)

    def write(self, writer: "TableWriter", pieces: Iterable["Piece"]) -> Tally:
        """Write the rows of these chunks."""
        tally = Tally()
        for _, chunk, answers in pieces:
            tally.add(tally_of_chunk(self.stream, chunk, answers))
            if self.job.strict and tally.failed:
                raise RowsFailed(strictly(self.job, tally))
            writer.write(chunk, self.making.cells(answers))
        writer.close()
        return tally

    def write_part(self, parts: "PartFiles", number: int, pieces: Iterable["Piece"]) -> None:
        """Write a part, and note that it is finished."""
        from molattn.data.files import atomic_write

        with atomic_write(parts.table(number)) as file:
            tally = self.write(self.output.writer(file), pieces)
        parts.finish(number, {"tally": asdict(tally)})


@contextmanager
def opened_work(job: Job, making: Making) -> Iterator[Work]:
    """The table of a job, open."""
    from molattn.data import guess_smiles_column
    from molattn.data.tables.columns import find_column
    from molattn.data.tables.readers import open_stream

    with open_stream(job.table, job.input_format) as stream:
        name = job.smiles_column or guess_smiles_column(stream.columns, stream.smiles_column)
        find_column(stream.columns, name, stream.source)
        _places(stream, making.descriptors)
        new = making.added(stream)
        yield Work(
            job, making, stream, name, making.form(job.output, stream, new), [*stream.columns, *(c.name for c in new)]
        )


def run_job(job: Job, making: Making) -> Tally:
    """Read the table, ask the model of every row and write the result; what became of the rows.

    A table in a file is read once through before the first molecule is, so that a malformed row near its end costs
    seconds. One that comes through a pipe is checked as it comes: a malformed row stops it, and leaves the output
    file as it was.
    """
    from molattn.cli.rows_progress import RowsProgress
    from molattn.data.files import atomic_write
    from molattn.data.tables.writers import TextFormat, open_compressed

    with ExitStack() as stack:
        work = stack.enter_context(opened_work(job, making))
        first, end = rows_of(job)
        parts = parts_of(work, first, end, job.one_of_many)
        if parts is not None and parts.joined:
            return tally_of(parts)
        if not job.quiet and end is not None and end - first >= _LONG and (why := making.why_slow()):
            warn(f"the model runs 2 to 4 times slower than it could: {why}; see molattn doctor")
        finished = {} if parts is None else dict(parts.finished)
        wanted = work.chunks(first, end, lambda part: part not in finished)
        before = sum(record["tally"]["rows"] for record in finished.values())
        told = stack.enter_context(RowsProgress(None if end is None else end - first, job.quiet, before))
        answered = stack.enter_context(closing(work.answered(wanted, job.num_workers, told)))
        source = work.stream.source
        if job.output is None:
            assert isinstance(work.output, TextFormat)
            return whole(work.write(work.output.text_writer(table_to_stdout()), answered), first, end, source)
        if parts is None:
            with atomic_write(job.output) as file:
                with open_compressed(job.output, file) as inner:
                    tally = work.write(work.output.writer(inner), answered)
                return whole(tally, first, end, source)
        for number, pieces in groupby(answered, lambda piece: piece[0]):
            work.write_part(parts, number, pieces)
        return join_parts(parts, job, first, end, source)


def join_parts(parts: "Parts", job: Job, first: int, end: int | None, source: str) -> Tally:
    """Put all parts together, if all rows are in them; what became of the rows."""
    tally = whole(tally_of(parts), first, end, source)
    parts.join(keep=job.one_of_many)
    return tally


def run_jobs(jobs: Sequence[Job], run: Callable[[Job], Tally]) -> Tally:
    """Do one after the other; what became of the rows of all."""
    tally = Tally()
    for job in jobs:
        tally.add(named(run(job), job))
    forget_parts(jobs)
    return tally


def forget_parts(jobs: Sequence[Job]) -> None:
    """All of several tables are done: nothing more is kept of their parts."""
    from molattn.data.tables.parts import discard_parts

    for job in jobs:
        if job.one_of_many and job.output is not None:
            discard_parts(job.output)


def _answered(
    wanted: Iterable[tuple[int, "Chunk"]],
    stream: "RowStream",
    index: int,
    beside: Sequence[int],
    rows: "Rows",
    num_workers: int,
    told: Callable[[int], None],
) -> Generator["Piece", None, None]:
    """Chunks with their answers, in order, each with the number of the part it goes to."""
    pending: deque[tuple[int, Chunk]] = deque()
    # Taken after the molecules of the same rows, which are read ahead.
    described: deque[Iterable[Sequence[object]]] = deque()

    def molecules() -> Iterator[object]:
        for part, chunk in wanted:
            pending.append((part, chunk))
            if beside:
                described.append(zip(*(stream.numbers(chunk, place) for place in beside), strict=True))
            yield from stream.molecules(chunk, index)

    def numbers() -> Iterator[Sequence[object]]:
        while described:
            yield from described.popleft()

    answers: list[RowPrediction] = []
    with closing(rows(molecules(), num_workers, told, numbers() if beside else None)) as made:
        for answer in made:
            answers.append(answer)
            part, chunk = pending[0]
            if len(answers) == len(chunk):
                pending.popleft()
                yield part, chunk, answers
                answers = []


def _places(stream: "RowStream", names: Sequence[str]) -> list[int]:
    """Where the columns stand that the model reads beside the molecules."""
    from molattn.data.tables.columns import find_column, format_names

    try:
        return [find_column(stream.columns, name, stream.source) for name in names]
    except UsageError as error:
        raise UsageError(f"{error}; the model reads {format_names(names)} beside each molecule") from error


def parts_of(work: Work, first: int, end: int | None, always: bool = False) -> "Parts | None":
    """The parts of a long output, or of any, with `always`; None where it is written at one go."""
    from molattn import __version__
    from molattn.data.tables.parts import Parts, discard_parts, file_sha256, parts_folder
    from molattn.data.tables.row_stream import CHUNK_SIZE
    from molattn.inference import model_folder

    job = work.job
    if job.output is None:
        return None
    if job.force and not job.resume:
        discard_parts(job.output)
    short = not always and end is not None and end - first <= PART * CHUNK_SIZE
    if end is None or (short and not parts_folder(job.output).exists()):
        return None
    made_of = {
        "what is made": job.what,
        "what is asked for beside it": job.beside,
        "the input's SHA-256": file_sha256(job.table),
        "the model's SHA-256": file_sha256(model_folder(job.run) / "config.json"),
        "molattn's version": __version__,
        "the column of SMILES": work.name,
        "the list of columns": work.columns,
        "the first row": first,
        "the number of rows": end - first,
        "the number of rows in a part": PART * CHUNK_SIZE,
        "the kind of file": work.output.suffix,
        **({"the escaping of formulas": True} if job.escape_formulas else {}),
    }
    return Parts(job.output, work.output, made_of)
