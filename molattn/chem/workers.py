"""Apply a function to many rows, in order, in this process or in worker processes, which are replaced if they die."""

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from threading import Thread
from typing import Any, TypeVar

from molattn.errors import InputError, MolattnError, SmilesError, UsageError, short_repr

T = TypeVar("T")

WORKER_DIED = "reading this row ended its process twice: it may need more memory than there is, or crash RDKit"
"""The reason of `WorkerDied`."""

_MAX_WORKERS = 61 if sys.platform == "win32" else sys.maxsize
"""The largest `max_workers` of a `ProcessPoolExecutor`: Windows cannot wait for more processes."""


class WorkerDied(SmilesError):
    """The error of a row that kills every process that reads it; with more memory it may succeed."""


def map_chunks(
    rows: Iterable[object], function: Callable[[object], T], num_workers: int = 0, chunk_size: int = 256
) -> Generator[tuple[list[object], list[T | SmilesError]], None, None]:
    """Apply `function` to rows, in order: chunks of rows, each with its results, a SmilesError for a row that fails.

    A row that is a SmilesError is its own result; exceptions become the error of their row, see `map_chunk`. Workers
    are started once, and at most four chunks for each of them are read ahead. A worker that dies is replaced, and its
    chunk is bisected: the rows that kill a worker again get an error, all others their result.

    Args:
        rows: any number of rows, of any type.
        function: applied to each row; with workers it is pickled.
        num_workers: number of worker processes; 0 to process rows one by one in this process.
        chunk_size: number of rows that a worker gets at once.

    Raises UsageError if workers die as they start, or if `function` cannot be pickled; and what `map_chunk` raises.
    """
    if num_workers < 1:
        for row in rows:
            yield [row], map_chunk([row], function)
        return
    pool = _Pool(num_workers, partial(map_chunk, function=function))
    source = iter(rows)
    waiting: deque[tuple[list[object], Future[Any]]] = deque()
    try:
        while True:
            while len(waiting) < 4 * num_workers and (chunk := list(islice(source, chunk_size))):
                waiting.append((chunk, pool.submit(chunk)))
            if not waiting:
                return
            chunk, future = waiting.popleft()
            try:
                yield chunk, future.result()
            except BrokenProcessPool:
                # Which chunk killed the worker is unknown: this one is tried by itself, the others are resubmitted.
                pool.restart()
                results = pool.run_isolated(chunk)
                waiting = deque((later, pool.submit(later)) for later, _ in waiting)
                yield chunk, results
    finally:
        pool.stop()


def map_chunk(rows: list[object], function: Callable[[object], T]) -> list[T | SmilesError]:
    """The result of each row, or its error.

    Raises MemoryError, ImportError, and any MolattnError other than an InputError, since they concern all rows.
    """
    results: list[T | SmilesError] = []
    for row in rows:
        try:
            results.append(row if isinstance(row, SmilesError) else function(row))
        except SmilesError as error:
            results.append(error)
        except InputError as error:
            results.append(SmilesError(row, str(error)))
        except (MolattnError, MemoryError, ImportError):
            raise
        except Exception as error:
            reason = f"reading it fails with an unexpected error ({type(error).__name__}: {short_repr(str(error))})"
            results.append(SmilesError(row, reason))
    return results


class _Pool:
    """Worker processes, restarted when one of them dies."""

    def __init__(self, num_workers: int, function: Callable[[list[object]], list[Any]]):
        try:
            ForkingPickler.dumps(function)
        except Exception as error:  # of any type: objects decide how they are pickled
            raise UsageError(
                f"worker processes need a function that can be pickled ({error}): define it at the top level of a "
                "module, or set num_workers to 0"
            ) from error
        self.num_workers, self.function = num_workers, function
        self.executor = self._start()

    def _start(self) -> ProcessPoolExecutor:
        # Not fork: it can hang in a process with threads, such as torch's.
        context, count = get_context("spawn"), min(self.num_workers, _MAX_WORKERS)
        reader, self._writer = context.Pipe(duplex=False)
        return ProcessPoolExecutor(count, mp_context=context, initializer=_exit_with, initargs=(reader,))

    def submit(self, rows: list[object]) -> "Future[list[Any]]":
        """A future of the results of `rows`."""
        try:
            return self.executor.submit(self.function, rows)
        except BrokenProcessPool as error:
            # Raised by `result`, like the death of a worker during the work.
            future: Future[list[Any]] = Future()
            future.set_exception(error)
            return future

    def restart(self) -> None:
        """Replace all processes.

        Raises UsageError if the new ones die without any work.
        """
        self.stop(kill=True)
        self.executor = self._start()
        try:
            self.executor.submit(_no_op).result()
        except BrokenProcessPool as error:
            raise UsageError(
                "worker processes die as they start: a script that uses workers needs "
                '`if __name__ == "__main__":`; or set num_workers to 0'
            ) from error

    def run_isolated(self, rows: list[object]) -> list[Any]:
        """The results of `rows`, while no other rows are processed; an error for each row that kills its process."""
        try:
            return self.submit(rows).result()
        except BrokenProcessPool:
            self.restart()
        if len(rows) == 1:
            return [WorkerDied(rows[0], WORKER_DIED)]
        half = len(rows) // 2
        return self.run_isolated(rows[:half]) + self.run_isolated(rows[half:])

    def stop(self, kill: bool = False) -> None:
        """Stop the processes, and wait for them; with `kill`, running functions are interrupted."""
        if kill:
            # An executor whose process died terminates the others, but not one that `submit` starts at the same time;
            # then it waits for that one forever.
            self._writer.close()
        self.executor.shutdown(cancel_futures=True)
        self._writer.close()


def _exit_with(reader: Connection) -> None:
    """Make a worker exit when the other end of `reader` is closed, or when its parent process ends or is killed.

    Otherwise it would wait for work forever.
    """
    parent = parent_process()
    handles = [reader] if parent is None else [reader, parent.sentinel]

    def watch() -> None:
        wait(handles)
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _no_op() -> None:
    """Do nothing; that it returns shows that worker processes start."""
