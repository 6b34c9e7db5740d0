"""Prediction by Ray Data: the parts of the outputs, made by the processes of a cluster, or of this machine.

What is handed around are the numbers of the parts; tables, model and outputs are files that every machine sees. Each
part is made as `at_length` makes it, whole or not at all, so that the outputs are the same to the byte, and what one
engine has begun the other can go on with.
"""

import json
import logging
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from molattn import errors
from molattn.cli.at_length import PART, Making, forget_parts, join_parts, opened_work, parts_of
from molattn.cli.job import Job, rows_of
from molattn.cli.tally import Tally, named, strictly, tally_of
from molattn.errors import MissingExtra, MolattnError, ProcessLost, RowsFailed, UsageError

if TYPE_CHECKING:
    from molattn.cli.predict import Asked
    from molattn.data.tables.parts import Parts

RETRIES = 4
"""How often a part is begun anew after the process that made it has died."""

STORE = 128 * 2**20
"""Bytes that Ray keeps for itself on this machine: numbers of parts need few."""


@dataclass(frozen=True)
class _Planned:
    """A table that was counted."""

    job: Job
    parts: "Parts"
    first: int
    end: int
    source: str

    def missing(self) -> list[int]:
        """The parts that are to be made."""
        from molattn.data.tables.row_stream import CHUNK_SIZE

        count = -(-(self.end - self.first) // (PART * CHUNK_SIZE))
        return [] if self.parts.joined else [k for k in range(count) if k not in self.parts.finished]


def run_on_ray(jobs: Sequence[Job], asked: "Asked") -> Tally:
    """Do these jobs; what became of the rows of all.

    Raises:
        MissingExtra: Ray is not installed.
        UsageError: what is asked for needs the rows one after the other.
        ProcessLost: processes died again and again over one part, or the cluster is not there.
    """
    for job in jobs:
        if job.output is None or not job.table.is_file():
            raise UsageError("--engine ray makes files of files: give tables and --output")
    making = asked.making()
    planned = [_plan(job, making) for job in jobs]
    todo = [{"table": i, "part": part} for i, plan in enumerate(planned) for part in plan.missing()]
    tally = Tally()
    with ExitStack() as stack:
        left = stack.enter_context(closing(_made(todo, jobs, asked, jobs[0].num_workers)))
        told = stack.enter_context(_progress(planned, jobs[0].quiet))
        for i, plan in enumerate(planned):
            for _ in plan.missing():
                table, made = next(left)
                assert table == i
                told(made.rows)
                if plan.job.strict and made.failed:
                    raise RowsFailed(strictly(plan.job, made))
            tally.add(named(_joined(plan), plan.job))
    forget_parts(jobs)
    return tally


def _plan(job: Job, making: Making) -> _Planned:
    with opened_work(job, making) as work:
        first, end = rows_of(job)
        parts = parts_of(work, first, end, always=True)
        assert parts is not None and end is not None
        return _Planned(job, parts, first, end, work.stream.source)


def _joined(plan: _Planned) -> Tally:
    """Put together what was made; what became of its rows."""
    if plan.parts.joined:
        return tally_of(plan.parts)
    plan.parts.read()
    if plan.job.strict and (before := tally_of(plan.parts)).failed:
        raise RowsFailed(strictly(plan.job, before))
    return join_parts(plan.parts, plan.job, plan.first, plan.end, plan.source)


@contextmanager
def _progress(planned: Sequence[_Planned], quiet: bool) -> Iterator[Any]:
    from molattn.cli.rows_progress import RowsProgress

    before, done = sum(tally_of(plan.parts).rows for plan in planned), 0
    with RowsProgress(sum(plan.end - plan.first for plan in planned), quiet, before) as progress:

        def told(rows: int) -> None:
            nonlocal done
            done += rows
            progress(done)

        yield told


def _made(
    todo: list[dict[str, int]], jobs: Sequence[Job], asked: "Asked", num_workers: int
) -> Generator[tuple[int, Tally], None, None]:
    """The parts, as they are made, in order: which table each is of, and what became of its rows."""
    if not todo:
        return
    ray = _started(num_workers)
    try:
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        workers = num_workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        parts = ray.data.from_items(todo, override_num_blocks=len(todo)).map_batches(
            _PartMaker,
            fn_constructor_args=([_everywhere(job) for job in jobs], replace(asked, run=asked.run.absolute())),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(workers, len(todo))),
            num_cpus=1,
            max_restarts=-1,
            max_task_retries=RETRIES,
        )
        for row in parts.iter_rows():
            told = json.loads(row["told"])
            if "error" in told:
                raise _error(told)
            yield int(row["table"]), Tally(**told)
    except ray.exceptions.RayError as error:
        first = str(error).strip().split("\n")[0]
        raise ProcessLost(f"Ray gave up ({first}): what is done is kept, and --resume goes on with it") from error
    finally:
        ray.shutdown()


def _started(num_workers: int) -> Any:
    """Ray, at the cluster in RAY_ADDRESS, or begun here; it reports to nobody."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what goes wrong is told here
    # Ray's own 15 leaves the work to whoever else wants a processor.
    os.environ.setdefault("RAY_worker_niceness", "0")
    local = not os.environ.get("RAY_ADDRESS")
    if local:
        # Other users of this machine can still come: let it ask for the token that it makes.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        # Without clusters Ray listens on the loopback address alone, on Linux too; read when it is imported.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtra("Ray", "ray", "--engine ray") from None
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if local:
        quiet |= {"address": "local", "num_cpus": num_workers or os.cpu_count() or 1, "object_store_memory": STORE}
        quiet |= {"include_dashboard": False}
    try:
        ray.init(**quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise ProcessLost(f"Ray does not start: {error}") from error
    return ray


def _everywhere(job: Job) -> Job:
    """The job with paths that are the same in whatever folder a process begins."""
    assert job.output is not None
    table, output = job.table.absolute(), job.output.absolute()
    # What to do about rows that fail is for the one who asks; here they are made.
    return replace(job, run=job.run.absolute(), table=table, output=output, strict=False, num_workers=0)


def _error(told: dict[str, Any]) -> Exception:
    """What went wrong in a process, as here."""
    kind = getattr(errors, told["error"], None)
    if isinstance(kind, type) and issubclass(kind, MolattnError):
        return kind(told["text"])
    return OSError(told["errno"], told["text"])


class _PartMaker:
    """In a process of Ray's: the model, and parts made with it."""

    def __init__(self, jobs: list[Job], asked: "Asked"):
        self.jobs, self.asked = jobs, asked
        self.making: Making | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        table, part = int(batch["table"][0]), int(batch["part"][0])
        try:
            if self.making is None:
                self.making = self.asked.making()
            told = asdict(_make(self.jobs[table], self.making, part))
        except MolattnError as error:
            told = {"error": type(error).__name__, "text": str(error)}
        except OSError as error:
            told = {"error": "OSError", "errno": error.errno, "text": str(error)}
        return {"table": [table], "told": [json.dumps(told)]}


def _make(job: Job, making: Making, part: int) -> Tally:
    """Make a part of the output of a job.

    Where it was begun before, and the process has died, its molecules are read by a process of their own: one that ends
    whoever reads it is then an error in its row.
    """
    from molattn.data.tables.parts import PartFiles
    from molattn.data.tables.row_stream import CHUNK_SIZE

    assert job.output is not None
    with opened_work(job, making) as work:
        parts = PartFiles(job.output, work.output)
        begun = parts.table(part).with_suffix(".begun")
        workers = int(begun.exists())
        begun.write_text(f"{os.getpid()}\n")
        first, end = _bounds_of(parts.folder)
        wanted = work.chunks(first, min(end, first + (part + 1) * PART * CHUNK_SIZE), lambda k: k == part)
        with closing(work.answered(wanted, workers, lambda _: None)) as pieces:
            work.write_part(parts, part, pieces)
        begun.unlink(missing_ok=True)
        return Tally(**parts.finished[part]["tally"])


def _bounds_of(folder: Path) -> tuple[int, int]:
    """The first row of an output, and the one behind its last, as its manifest has them."""
    from molattn.data.tables.parts import MANIFEST

    made_of = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return made_of["the first row"], made_of["the first row"] + made_of["the number of rows"]
