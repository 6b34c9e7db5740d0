"""Predictions on a terminal: of a few SMILES, as lines or JSON; progress over the rows of a table, and its end."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from molattn.cli.terminal import console, print_json, print_line, print_status, printable, warn

if TYPE_CHECKING:
    from molattn.inference import PredictionOptions, Predictor, RowPrediction
    from molattn.inference.rows import RowCounts, Value


SECONDS_BETWEEN_LINES = 10.0
"""The time between two lines, if there is no bar: a table can take hours."""


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
        """Report the number of molecules read so far by this run."""
        now = time.monotonic()
        if self.quiet:
            return
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


def report_rows(counts: "RowCounts", noun: str, verb: str, output: Path | None, quiet: bool) -> None:
    """Report on standard error how many rows were predicted or embedded, and warn of those that failed."""
    geometry, failures = counts.geometry_message, counts.failure_message(noun)
    if geometry:
        warn(geometry)
    if output is not None and not quiet:
        print_status(f"{counts.rows - counts.failed} of {counts.rows} rows {verb}, written to {output}")
    if failures:
        warn(failures)


def _format(value: "Value") -> str:
    """A prediction as text."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_format, value))}]"
    return value if isinstance(value, str) else f"{value:.3f}"


def print_predictions(
    predictor: "Predictor", smiles: Sequence[str], as_json: bool, options: "PredictionOptions"
) -> list["RowPrediction"]:
    """Print one line per SMILES; return the ones that failed."""
    names = [c.name for c in predictor.extra_columns_for(options)]
    rows = list(predictor.predict_rows(smiles, options=options))
    if as_json:
        content = [
            {
                "smiles": r.smiles,
                **dict(zip(predictor.targets, r.values or [None] * len(predictor.targets), strict=True)),
                **dict(zip(names, r.extra_values or [None] * len(names), strict=True)),
            }
            | {"status": "error" if r.error else "ok", "error": r.error, "warnings": list(r.warnings)}
            for r in rows
        ]
        print_json(content)
        return [r for r in rows if r.error]
    binary = predictor.task.kind == "binary"
    units = ["probability" if binary else u for u in predictor.units]
    header = [f"{t} ({u})" if u else t for t, u in zip(predictor.targets, units, strict=True)] + names
    lines = [("smiles", *header)]
    for r in rows:
        values = [f"error: {r.error}"]
        if r.values is not None:
            values = list(map(_format, (*r.values, *r.extra_values)))
        lines.append((printable(r.smiles), *values))
    width = max(len(line[0]) for line in lines)
    for line in lines:
        print_line("  ".join([line[0].ljust(width), *line[1:]]))
    for r in rows:
        for warning in r.warnings:
            warn(f"{r.smiles}: {warning}")
    return [r for r in rows if r.error]
