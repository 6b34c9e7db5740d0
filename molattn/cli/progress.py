"""How a run goes, on a terminal: a bar with the validation error; plain lines where there is no terminal."""

import math
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from molattn.training.fit import EpochRecord


# Between two lines that say how far a long reading of molecules is, where there is no bar.
SECONDS = 5.0


# The same for a whole table of predictions, which can take hours.
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
        console = Console(stderr=True)
        self.start = self.told = self.drawn = time.monotonic()
        self.bar = Progress(
            TextColumn("molecules"),
            BarColumn(),
            TextColumn("{task.description}"),
            console=console,
            disable=quiet or not console.is_terminal,
            transient=True,
        )
        self.task = self.bar.add_task("", total=total)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.bar.stop()

    def __call__(self, done: int) -> None:
        """So many have been read, of those that were not done before."""
        now = time.monotonic()
        if self.quiet:
            return
        if not self.bar.disable:
            if now > self.drawn + 0.1:
                self.drawn = now
                self.bar.update(self.task, completed=self.before + done, description=self.text(done, now - self.start))
        elif now > self.told + SECONDS_OF_ROWS:
            self.told = now
            print(self.text(done, now - self.start), file=sys.stderr)

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


class TerminalReporter:
    """A `Reporter` on standard error: standard output is for results. Warnings are said even when quiet."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet
        self.console = Console(stderr=True)
        self.reading, self.progress = self._bar("molecules"), self._bar("training")
        self.reading_task: TaskID | None = None
        self.task: TaskID | None = None
        self.told = time.monotonic()
        self.best = float("inf")

    def _bar(self, what: str) -> Progress:
        return Progress(
            TextColumn(what),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=self.quiet or not self.console.is_terminal,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.reading.stop()
        self.progress.stop()

    def stage(self, text: str) -> None:
        """A new part of the work begins."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def warning(self, text: str) -> None:
        """Something a user should know."""
        print(f"warning: {text}", file=sys.stderr)

    def molecules(self, done: int, total: int) -> None:
        """So many of all molecules have been read."""
        if self.reading.disable:
            if not self.quiet and time.monotonic() > self.told + SECONDS:
                self.told = time.monotonic()
                print(f"molecule {done} of {total}", file=sys.stderr)
            return
        if self.reading_task is None:
            self.reading.start()
            self.reading_task = self.reading.add_task("", total=total)
        self.reading.update(self.reading_task, completed=done)
        if done == total:
            self.reading.stop()

    def epoch(self, record: "EpochRecord", epochs: int) -> None:
        """One of at most `epochs` epochs is over."""
        # Training has brought it in already.
        from molattn.training.metrics import METRICS

        if record.best:
            self.best = record.val_metric
        name, value = METRICS[record.metric].label, _number(record.val_metric)
        text = f"validation {name} {value}, best {_number(self.best)}"
        if self.progress.disable:
            # Where there is no terminal, as in a log file, a line now and then says that it is alive.
            if not self.quiet and (record.epoch + 1) % max(1, epochs // 10) == 0:
                print(f"epoch {record.epoch + 1} of {epochs}: {text}", file=sys.stderr)
            return
        if self.task is None:
            self.progress.start()
            self.task = self.progress.add_task("", total=epochs)
        self.progress.update(self.task, completed=record.epoch + 1, description=text)


def _number(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "undefined"
