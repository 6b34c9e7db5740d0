"""How far a table of predictions is: a bar on a terminal, plain lines where there is none."""

import sys
import time
from types import TracebackType
from typing import Self

from molattn.cli.terminal import console, tell

# Between two lines, where there is no bar: a table can take hours.
SECONDS_OF_ROWS = 10.0


class RowsProgress:
    """How far a table is: molecules, how many a second, and the time left where their number is known.

    A bar on a terminal; a line every ten seconds where there is none; nothing when quiet.

    Args:
        total: how many molecules there are; None if nobody knows.
        quiet: whether to say nothing.
        before: how many of them were done already, in another run.
    """

    def __init__(self, total: int | None, quiet: bool = False, before: int = 0):
        self.total, self.quiet, self.before = total, quiet, before
        self.start = self.told = self.drawn = time.monotonic()
        self.bar = None
        if not quiet and sys.stderr.isatty():
            # Here, because who writes to a file needs none of it.
            from rich.progress import BarColumn, Progress, TextColumn

            columns = TextColumn("molecules"), BarColumn(), TextColumn("{task.description}", markup=False)
            self.bar = Progress(*columns, console=console(stderr=True), transient=True)
            self.task = self.bar.add_task("", total=total)

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, done: int) -> None:
        """So many have been read, of those that were not done before."""
        now = time.monotonic()
        if self.quiet:
            return
        if self.bar is not None:
            if now > self.drawn + 0.1:
                self.drawn = now
                self.bar.update(self.task, completed=self.before + done, description=self.text(done, now - self.start))
        elif now > self.told + SECONDS_OF_ROWS:
            self.told = now
            tell(self.text(done, now - self.start))

    def text(self, done: int, seconds: float) -> str:
        """What there is to say after so many seconds."""
        rate = done / max(seconds, 1e-9)
        if self.total is None:
            return f"{done:,} molecules, {rate:,.0f} a second"
        said = f"{self.before + done:,} of {self.total:,} molecules, {rate:,.0f} a second"
        left = self.total - self.before - done
        return f"{said}, {_duration(left / rate)} left" if rate and left > 0 else said


def _duration(seconds: float) -> str:
    """As people say it: 45 s, 12 min, 3 h 20 min."""
    if seconds < 99:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
