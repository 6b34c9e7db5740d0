"""Many rows through one function, in order, in this process or in others that may die."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, TypeVar

from molattn.errors import InputError, MolattnError, SmilesError, UsageError, short_repr

T = TypeVar("T")

DIED = "the process that read it died, twice; it may be too large for the memory"
"""The reason at a row that ends whatever process reads it."""


def stream_outcomes(
    rows: Iterable[object], make: Callable[[object], T], num_workers: int = 0, chunk: int = 256
) -> Generator[tuple[list[object], list[T | SmilesError]], None, None]:
    """Rows, and what `make` makes of each or a SmilesError that says why it cannot: some at a time, in order.

    A row that is a SmilesError already stays one; whatever else `make` raises is that row's error, see `made`. Workers
    are started once, however many rows come, and at most four chunks for each are read ahead. A worker that dies is
    replaced; the rows at which one dies again, alone, have an error, and all others their outcome.

    Args:
        rows: Any number of rows, of any type.
        make: From a row to what is wanted; with workers, something that pickle can carry to them.
        num_workers: Processes to share the work; 0 does it in this one, row by row.
        chunk: Rows that go to a worker at once.

    Errors: UsageError where workers die as they start; what `made` lets pass.
    """
    if num_workers < 1:
        for row in rows:
            yield [row], made([row], make)
        return
    pool = _Pool(num_workers, partial(made, make=make))
    source = iter(rows)
    waiting: deque[tuple[list[object], Future[Any]]] = deque()
    try:
        while True:
            while len(waiting) < 4 * num_workers and (some := list(islice(source, chunk))):
                waiting.append((some, pool.submit(some)))
            if not waiting:
                return
            some, future = waiting.popleft()
            try:
                yield some, future.result()
            except BrokenProcessPool:
                # Which chunk it was is not known: each is read again alone until one has passed.
                pool.restart()
                outcomes = pool.alone(some)
                waiting = deque((later, pool.submit(later)) for later, _ in waiting)
                yield some, outcomes
    finally:
        pool.stop()


def made(rows: list[object], make: Callable[[object], T]) -> list[T | SmilesError]:
    """The outcome of each row; whatever is raised over one row is its error, and no other's.

    Errors: MemoryError, ImportError, and each MolattnError that is not about data: they are about all rows.
    """
    outcomes: list[T | SmilesError] = []
    for row in rows:
        try:
            outcomes.append(row if isinstance(row, SmilesError) else make(row))
        except SmilesError as error:
            outcomes.append(error)
        except InputError as error:
            outcomes.append(SmilesError(row, str(error)))
        except (MolattnError, MemoryError, ImportError):
            raise
        except Exception as error:
            reason = (
                f"reading it fails in a way that was not foreseen ({type(error).__name__}: {short_repr(str(error))})"
            )
            outcomes.append(SmilesError(row, reason))
    return outcomes


class _Pool:
    """Processes that read rows; started anew when one of them has died."""

    def __init__(self, num_workers: int, work: Callable[[list[object]], list[Any]]):
        self.num_workers, self.work = num_workers, work
        self.executor = self._started()

    def _started(self) -> ProcessPoolExecutor:
        # Forking a process that has threads, as torch's have, can hang.
        return ProcessPoolExecutor(self.num_workers, mp_context=get_context("spawn"), initializer=_end_with_parent)

    def submit(self, rows: list[object]) -> "Future[list[Any]]":
        """The outcomes of `rows`, to come."""
        try:
            return self.executor.submit(self.work, rows)
        except BrokenProcessPool as error:
            # Told like a death during the work, when its turn comes.
            future: Future[list[Any]] = Future()
            future.set_exception(error)
            return future

    def restart(self) -> None:
        """New processes.

        Errors: UsageError where they die without any work.
        """
        self.stop()
        self.executor = self._started()
        try:
            self.executor.submit(_nothing).result()
        except BrokenProcessPool as error:
            raise UsageError(
                "worker processes die as they start: a script that asks for workers needs "
                '`if __name__ == "__main__":`; or give num_workers 0'
            ) from error

    def alone(self, rows: list[object]) -> list[Any]:
        """The outcomes of `rows`, with nothing else under way; an error at each row that ends its process."""
        try:
            return self.submit(rows).result()
        except BrokenProcessPool:
            self.restart()
        if len(rows) == 1:
            return [SmilesError(rows[0], DIED)]
        half = len(rows) // 2
        return self.alone(rows[:half]) + self.alone(rows[half:])

    def stop(self) -> None:
        """End the processes, and wait for them."""
        self.executor.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """In a worker: leave as soon as the process that started it is gone, killed perhaps; it would wait forever."""
    parent = parent_process()
    if parent is not None:

        def watch() -> None:
            parent.join()
            os._exit(1)

        Thread(target=watch, daemon=True).start()


def _nothing() -> None:
    """The least that a process can do."""
