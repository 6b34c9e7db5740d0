"""How a run goes, on a terminal: a bar with the validation error; plain lines where there is no terminal."""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from molattn.training.fit import EpochRecord


class TerminalReporter:
    """A `Reporter` on standard error: standard output is for results. Warnings are said even when quiet."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet
        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
        )
        self.task: TaskID | None = None
        self.best = float("inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.progress.stop()

    def stage(self, text: str) -> None:
        """A new part of the work begins."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def warning(self, text: str) -> None:
        """Something a user should know."""
        print(f"warning: {text}", file=sys.stderr)

    def epoch(self, record: "EpochRecord", epochs: int) -> None:
        """One of at most `epochs` epochs is over."""
        if record.best:
            self.best = record.val_rmse
        text = f"validation RMSE {record.val_rmse:.3f}, best {self.best:.3f}"
        if self.progress.disable:
            # Where there is no terminal, as in a log file, a line now and then says that it is alive.
            if not self.quiet and (record.epoch + 1) % max(1, epochs // 10) == 0:
                print(f"epoch {record.epoch + 1} of {epochs}: {text}", file=sys.stderr)
            return
        if self.task is None:
            self.progress.start()
            self.task = self.progress.add_task("", total=epochs)
        self.progress.update(self.task, completed=record.epoch + 1, description=text)
