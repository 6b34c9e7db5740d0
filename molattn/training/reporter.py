"""Reporters: the interface by which a training reports its progress."""

from typing import Protocol, runtime_checkable

from molattn.training.early_stopping import EpochRecord


@runtime_checkable
class Reporter(Protocol):
    """Reports the progress of a run."""

    def stage(self, text: str) -> None:
        """Report the start of a stage of the run."""

    def warning(self, text: str) -> None:
        """Report a warning."""

    def molecules(self, done: int, total: int) -> None:
        """Report the number of molecules that have been read."""

    def epoch(self, record: EpochRecord, epochs: int) -> None:
        """Report the end of one of at most `epochs` epochs."""


class SilentReporter(Reporter):
    """A `Reporter` without output, for every rank except rank 0."""


@runtime_checkable
class TuneReporter(Reporter, Protocol):
    """Reports the progress of a hyper-parameter optimization."""

    def trial(self, done: int, total: int, best: float | None) -> None:
        """Report the number of finished trials, and the best value."""
