"""Prediction with Ray Data: the parts of the outputs are written by the processes of a cluster, or of this machine.

Only part numbers are sent between processes; tables, model and outputs are files that every machine can read. Each part
is written atomically, as in `table_engine`, so that both engines write the same bytes, and either can resume an output
that the other has started.
"""

import json
import logging
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from molattn import errors
from molattn.data.tables.options import Warn, warn_once
from molattn.data.tables.parts import MANIFEST, PartFiles, Parts
from molattn.errors import MissingExtra, MolattnError, ProcessLost, UsageError
from molattn.inference.added_columns import AddedColumns, prediction_columns
from molattn.inference.open_table import check_strict, open_table
from molattn.inference.options import PredictionOptions
from molattn.inference.output_parts import NUMBER_FORMATS_KEY, discard_records, join_parts, open_parts, rows_per_part
from molattn.inference.predictor import load
from molattn.inference.row_counts import RowCounts
from molattn.inference.table_engine import ProgressFactory
from molattn.inference.table_job import TableJob, is_regular_file

MAX_TASK_RETRIES = 4
"""How often a part is started again after the process that was writing it has died."""

OBJECT_STORE_BYTES = 128 * 2**20
"""Size of Ray's object store on this machine; it holds only part numbers."""


@dataclass(frozen=True)
class _CountedTable:
    """A table with its number of rows."""

    job: TableJob
    parts: Parts
    first: int
    end: int
    source: str

    def missing_parts(self) -> list[int]:
        """The parts that are not finished."""
        count = -(-(self.end - self.first) // rows_per_part())
        return [] if self.parts.is_joined else [k for k in range(count) if k not in self.parts.finished]


def run_on_ray(
    jobs: Sequence[TableJob],
    added: AddedColumns,
    model_folder: Path,
    options: PredictionOptions,
    progress: ProgressFactory,
    warn: Warn,
) -> RowCounts:
    """Predict tables with Ray; as `table_engine.run_jobs`.

    Args:
        jobs, added, progress, warn: as for `run_jobs`.
        model_folder: the folder that the processes load the model from.
        options: what is predicted.

    Raises:
        MissingExtra: Ray is not installed.
        UsageError: a table or an output is not a file.
        ProcessLost: processes died repeatedly while they wrote one part, or the cluster cannot be reached.
    """
    for job in jobs:
        if job.output is None or not is_regular_file(job.input.path):
            raise UsageError("--engine ray needs files for input and output: give tables and --output")
    tables = [_count(job, added, warn) for job in jobs]
    todo = [{"table": i, "part": part} for i, table in enumerate(tables) for part in table.missing_parts()]
    counts = RowCounts()
    with ExitStack() as stack:
        written = stack.enter_context(closing(_write_parts(todo, jobs, model_folder, options)))
        report = stack.enter_context(_total_progress(tables, progress))
        for i, table in enumerate(tables):
            for _ in table.missing_parts():
                number, part_counts = next(written)
                assert number == i
                report(part_counts.rows)
                check_strict(table.job, added, part_counts)
            counts.add(_join(table, added), table.job.input.path if table.job.multiple_tables else None)
    discard_records(jobs)
    return counts


def _count(job: TableJob, added: AddedColumns, warn: Warn) -> _CountedTable:
    warn = warn_once(warn)
    with open_table(job, added, warn) as table:
        # The rows are read by other processes, which do not report messages: they are reported here.
        first, end, formats = table.row_range(warn)
        table.check_row_limit(first, end)
        parts = open_parts(table, first, end, formats, always=True)
        assert parts is not None and end is not None
        return _CountedTable(job, parts, first, end, table.stream.source)


def _join(table: _CountedTable, added: AddedColumns) -> RowCounts:
    """Join the parts of a table."""
    if table.parts.is_joined:
        return RowCounts.of_parts(table.parts)
    table.parts.read()
    check_strict(table.job, added, RowCounts.of_parts(table.parts))
    return join_parts(table.parts, table.job, table.first, table.end, table.source)


@contextmanager
def _total_progress(tables: Sequence[_CountedTable], progress: ProgressFactory) -> Iterator[Callable[[int], None]]:
    """Progress over the rows of all tables; the callback receives the number of rows of each part."""
    before, done = sum(RowCounts.of_parts(table.parts).rows for table in tables), 0
    with progress(sum(table.end - table.first for table in tables), before) as report:

        def add(rows: int) -> None:
            nonlocal done
            done += rows
            report(done)

        yield add


def _write_parts(
    todo: list[dict[str, int]], jobs: Sequence[TableJob], model_folder: Path, options: PredictionOptions
) -> Generator[tuple[int, RowCounts], None, None]:
    """Write the parts; yields for each, in order, the index of its table and the counts of its rows."""
    if not todo:
        return
    num_workers = jobs[0].num_workers
    ray = _start(num_workers)
    try:
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        workers = num_workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        parts = ray.data.from_items(todo, override_num_blocks=len(todo)).map_batches(
            _PartWriter,
            fn_constructor_args=([_worker_job(job) for job in jobs], model_folder.absolute(), options),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(workers, len(todo))),
            num_cpus=1,
            max_restarts=-1,
            max_task_retries=MAX_TASK_RETRIES,
        )
        for row in parts.iter_rows():
            result = json.loads(row["result"])
            if "error" in result:
                raise _error(result)
            yield int(row["table"]), RowCounts(**result)
    except ray.exceptions.RayError as error:
        first = str(error).strip().split("\n")[0]
        raise ProcessLost(f"Ray failed ({first}): finished parts are kept, and --resume continues") from error
    finally:
        ray.shutdown()


def _start(num_workers: int) -> Any:
    """Connect Ray to the cluster in RAY_ADDRESS, or start it on this machine; it sends no usage statistics."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # errors are reported here
    # With Ray's default niceness of 15, any other process would slow the workers down.
    os.environ.setdefault("RAY_worker_niceness", "0")
    local = not os.environ.get("RAY_ADDRESS")
    if local:
        # Other users of this machine could connect: require the token that Ray creates.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        # Without cluster support Ray listens on the loopback address only, on Linux too. Ray reads this at its import.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtra("Ray", "ray", "--engine ray") from None
    if ray.is_initialized():
        raise UsageError("Ray already runs in this process: call ray.shutdown() first, or use the engine local")
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if local:
        settings |= {
            "address": "local",
            "num_cpus": num_workers or os.cpu_count() or 1,
            "object_store_memory": OBJECT_STORE_BYTES,
            "include_dashboard": False,
        }
    try:
        ray.init(**settings)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise ProcessLost(f"Ray does not start: {error}") from error
    return ray


def _worker_job(job: TableJob) -> TableJob:
    """The job with absolute paths: a process can start in another folder."""
    assert job.output is not None
    # The caller checks for rows that failed; the workers write them.
    table = replace(job.input, path=job.input.path.absolute())
    return replace(job, input=table, output=job.output.absolute(), strict=False, num_workers=0)


def _error(result: dict[str, Any]) -> Exception:
    """The error that a process returned."""
    kind = getattr(errors, result["error"], None)
    if isinstance(kind, type) and issubclass(kind, MolattnError):
        # Not from the arguments of its class, which are not known: its text is complete.
        error = kind.__new__(kind)
        error.args = (result["text"],)
        return error
    return OSError(result["errno"], result["text"])


class _PartWriter:
    """Runs in a Ray process: loads the model once and writes parts."""

    def __init__(self, jobs: list[TableJob], model_folder: Path, options: PredictionOptions):
        self.jobs, self.model_folder, self.options = jobs, model_folder, options
        self.added: AddedColumns | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        table, part = int(batch["table"][0]), int(batch["part"][0])
        try:
            if self.added is None:
                self.added = prediction_columns(load(self.model_folder), self.options)
            result = asdict(_write_part(self.jobs[table], self.added, part))
        except MolattnError as error:
            result = {"error": type(error).__name__, "text": str(error)}
        except OSError as error:
            result = {"error": "OSError", "errno": error.errno, "text": str(error)}
        return {"table": [table], "result": [json.dumps(result)]}


def _write_part(job: TableJob, added: AddedColumns, part: int) -> RowCounts:
    """Write one part of the output of a job.

    If another process started this part and died, the molecules are read in a separate process: a molecule that crashes
    the reader then becomes an error in its row.
    """
    assert job.output is not None
    with open_table(job, added, lambda _: None) as table:
        parts = PartFiles(job.output, table.output)
        started = parts.table(part).with_suffix(".started")
        workers = int(started.exists())
        started.write_text(f"{os.getpid()}\n", encoding="utf-8")
        manifest = json.loads((parts.folder / MANIFEST).read_text(encoding="utf-8"))
        first, end = manifest["first_row"], manifest["first_row"] + manifest["num_rows"]
        table.descriptors.use(manifest[NUMBER_FORMATS_KEY])
        chunks = table.chunks(first, min(end, first + (part + 1) * rows_per_part()), lambda k: k == part)
        with closing(table.results(chunks, workers, lambda _: None)) as predicted:
            table.write_part(parts, part, predicted)
        started.unlink(missing_ok=True)
        return RowCounts(**parts.finished[part]["counts"])
