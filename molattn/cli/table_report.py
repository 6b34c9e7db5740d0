"""Progress over the rows of a table, and the report at its end."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from molattn.cli.terminal import bar_column, console, print_status, warn

if TYPE_CHECKING:
    from molattn.inference.row_counts import RowCounts
    from molattn.inference.table_job import TableJob


SECONDS_BETWEEN_LINES = 10.0
"""The time between two lines, if there is no bar."""


class TableProgress:
    """Progress over a table: molecules read, molecules per second, and the time left if their number is known.

    A bar on a terminal; elsewhere a line every ten seconds; nothing when quiet.

    Args:
        total: the number of molecules; None if it is unknown.
        before: how many of them were finished by an earlier run.
        quiet: print nothing.
    """

    def __init__(self, total: int | None, before: int = 0, quiet: bool = False):
        self.total, self.quiet, self.before = total, quiet, before
        self.start = self.last_line = self.last_drawn = time.monotonic()
        self.bar = None
        if not quiet and sys.stderr.isatty():
            # Imported here: output to a file does not need it.
            from rich.progress import Progress, TextColumn

            columns = TextColumn("molecules"), bar_column(), TextColumn("{task.description}", markup=False)
            self.bar = Progress(*columns, console=console(stderr=True), transient=True)
            self.task = self.bar.add_task("", total=total)

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, done: int, total: int | None = None) -> None:
        """Report the number of molecules read so far by this run.

        Args:
            done: the number.
            total: the number of molecules, if it was not known at the start.
        """
        now = time.monotonic()
        if self.quiet:
            return
        if self.total is None and total is not None:
            self.total = total
            if self.bar is not None:
                self.bar.update(self.task, total=total)
        if self.bar is not None:
            if now > self.last_drawn + 0.1:
                self.last_drawn = now
                self.bar.update(self.task, completed=self.before + done, description=self.text(done, now - self.start))
        elif now > self.last_line + SECONDS_BETWEEN_LINES:
            self.last_line = now
            print_status(self.text(done, now - self.start))

    def text(self, done: int, seconds: float) -> str:
        """The line after `done` molecules in `seconds`."""
        rate = done / max(seconds, 1e-9)
        if self.total is None:
            return f"{done:,} molecules, {rate:,.0f} a second"
        line = f"{self.before + done:,} of {self.total:,} molecules, {rate:,.0f} a second"
        left = self.total - self.before - done
        return f"{line}, {_duration(left / rate)} left" if rate and left > 0 else line


def _duration(seconds: float) -> str:
    """As text: 45 s, 12 min, 3 h 20 min."""
    if seconds < 99:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def resume_hint(jobs: "Sequence[TableJob]", quiet: bool) -> Iterator[None]:
    """Say how to continue if the block is stopped from the keyboard and leaves finished parts of an output."""
    try:
        yield
    except KeyboardInterrupt:
        from molattn.data.tables.parts import parts_folder

        unfinished = [job.output for job in jobs if job.output is not None and parts_folder(job.output).is_dir()]
        if unfinished and not quiet:
            first = unfinished[0]
            print_status(
                f"{parts_folder(first)} holds finished parts of {first}: the same command with --resume continues"
            )
        raise


def report_rows(counts: "RowCounts", noun: str, verb: str, output: Path | None, quiet: bool) -> None:
    """Report on standard error how many rows were predicted or embedded, and warn of those that failed."""
    geometry, failures = counts.geometry_message, counts.failure_message(f"have no {noun}")
    if geometry:
        warn(geometry)
    if output is not None and not quiet:
        print_status(f"{counts.rows - counts.failed} of {counts.rows} rows {verb}, written to {output}")
    if failures:
        warn(failures)
