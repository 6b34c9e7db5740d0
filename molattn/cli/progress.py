"""Progress of downloads and training: bars on a terminal, lines elsewhere."""

import math
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import DownloadColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from molattn.cli.terminal import bar_column, console, print_status, warn

if TYPE_CHECKING:
    from molattn.data import DatasetCard
    from molattn.training.early_stopping import EpochRecord

SECONDS_BETWEEN_LINES = 5.0
"""The time between two lines about the molecules read, if there is no bar."""


class TerminalReporter:
    """A `Reporter` on standard error: standard output is for results. Warnings are printed even when quiet."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet
        self.console = console(stderr=True)
        self.reading, self.training = self._bar("molecules"), self._bar("training")
        self.reading_task: TaskID | None = None
        self.training_task: TaskID | None = None
        self.last_line = time.monotonic()

    def _bar(self, title: str) -> Progress:
        return Progress(
            TextColumn(title),
            bar_column(),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            TimeRemainingColumn(),
            console=self.console,
            disable=self.quiet or not self.console.is_terminal,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        for bar in self._bars():
            if not bar.disable:  # Rich before 14.3 also prints an empty line for disabled bars.
                bar.stop()

    def _bars(self) -> tuple[Progress, ...]:
        return self.reading, self.training

    def stage(self, text: str) -> None:
        """Report that a new stage of the work begins."""
        if not self.quiet:
            print_status(text)

    def warning(self, text: str) -> None:
        """Print a warning."""
        warn(text)

    def molecules(self, done: int, total: int) -> None:
        """Report how many molecules have been read."""
        if self.reading.disable:
            if not self.quiet and time.monotonic() > self.last_line + SECONDS_BETWEEN_LINES:
                self.last_line = time.monotonic()
                print_status(f"molecule {done} of {total}")
            return
        if self.reading_task is None:
            self.reading.start()
            self.reading_task = self.reading.add_task("", total=total)
        self.reading.update(self.reading_task, completed=done)
        if done == total:
            self.reading.stop()

    def epoch(self, record: "EpochRecord", epochs: int) -> None:
        """Report the end of one of at most `epochs` epochs."""
        text = record.describe()
        if self.training.disable:
            # Without a terminal, as in a log file, ten lines in total.
            if not self.quiet and record.epoch % max(1, epochs // 10) == 0:
                print_status(f"epoch {record.epoch} of {epochs}: {text}")
            return
        if self.training_task is None:
            self.training.start()
            self.training_task = self.training.add_task("", total=epochs)
        self.training.update(self.training_task, completed=record.epoch, description=text)


class TuneReporter(TerminalReporter):
    """Progress of tuning: a bar over the trials with the best value so far and that of the current trial."""

    def __init__(self, quiet: bool = False):
        super().__init__(quiet)
        self.trials = self._bar("trials")
        self.trials_task: TaskID | None = None
        self.best_of_trials = ""

    def _bars(self) -> tuple[Progress, ...]:
        return (self.trials, *super()._bars())

    def epoch(self, record: "EpochRecord", epochs: int) -> None:
        """Report the end of one of at most `epochs` epochs of a trial."""
        if self.trials_task is not None:
            current = f"epoch {record.epoch} of {epochs}: {_number(record.val_metric)}"
            self.trials.update(self.trials_task, description=f"{self.best_of_trials}{current}")

    def trial(self, done: int, total: int, best: float | None) -> None:
        """Report how many trials are finished."""
        self.best_of_trials = "" if best is None else f"best {_number(best)}, "
        if self.trials.disable:
            if not self.quiet and done:
                so_far = "" if best is None else f": best {_number(best)}"
                print_status(f"{done} of {total} trials finished{so_far}")
            return
        if self.trials_task is None:
            self.trials.start()
            self.trials_task = self.trials.add_task("", total=total)
        self.trials.update(self.trials_task, completed=done, total=total, description=self.best_of_trials.rstrip(", "))


def _number(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "undefined"


def fetch_with_progress(name: str, data_dir: str | Path | None, quiet: bool = False) -> "DatasetCard":
    """The card of a data set whose table is available, downloaded with a progress bar if necessary."""
    from molattn.data import fetch_dataset

    err = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), bar_column(), DownloadColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=err, disable=quiet or not err.is_terminal, transient=True, refresh_per_second=5
    ) as bar:
        task = bar.add_task(name, total=None, visible=False)

        def progress(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total or None, visible=True)

        card, message = fetch_dataset(name, data_dir or "", progress)
    if message and not quiet:
        print_status(message)
    return card
