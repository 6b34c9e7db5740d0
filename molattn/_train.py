"""Training from Python: what `molattn train` does."""

import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from molattn.errors import MolattnWarning
from molattn.training.run_status import resolve_resume

# Between two lines that say how far a long reading of molecules is.
SECONDS = 5.0


def train(
    dataset: Any = "",
    *,
    output_dir: str | Path | None = None,
    config: str | Path | None = None,
    settings: Sequence[str] = (),
    force: bool = False,
    resume: str | Path | None = None,
    quiet: bool = False,
    **options: Any,
):
    """Train a model and write its run folder: what `molattn train` does.

    Args:
        dataset: a name such as "esol", the path of a table, or a data frame of pandas or polars, which is kept in
            the user's cache, so that its run can be resumed and repeated.
        output_dir: where the run goes; runs/NAME by default.
        config: a TOML file of settings, such as the `config.toml` of a run.
        settings: "section.key=value", the last word.
        force: replace a run that stands in `output_dir`.
        resume: the folder of an unfinished run, which goes on; it brings its settings along.
        quiet: say nothing but warnings.
        options: any setting by its own name: `epochs`, `seed`, `split`, `target_columns`, ...; see `RunConfig`.

    Returns:
        A `RunResult`: `.folder`, `.metrics`, `.history` and the predictions; or a `MultipleRunsResult` for folds and
        replicates: `.folder`, `.metrics` with mean and standard deviation, and `.runs`.

    Raises:
        UsageError: an option that does not exist or makes no sense, a folder that is taken, or a run that cannot be
            resumed.
        InputError: data that cannot be used.
    """
    from molattn.training.config import resolve

    if not isinstance(dataset, str | Path):
        from molattn.data.tables.arrow import cache_frame

        dataset = cache_frame(dataset)
    if dataset:
        options["dataset"] = str(dataset)
    if resume is not None:
        config, output_dir = resolve_resume(resume, config, output_dir, force)
    return run(resolve(config, options, settings), output_dir, PrintReporter(quiet), force, resume is not None)


def run(config: Any, output_dir: str | Path | None, reporter: Any, force: bool = False, resume: bool = False):
    """Train as `config`, a `RunConfig`, says, and draw the plots of the run folder.

    With `resume`, the unfinished run in `output_dir` goes on. Folds and replicates bring a `MultipleRunsResult`.
    """
    # Late: a prediction does without all that training brings in.
    from molattn.training.distributed import is_main_process
    from molattn.training.multiple_runs import planned_runs, run_multiple
    from molattn.training.run import run as train_and_evaluate
    from molattn.viewer import write_plots

    if planned_runs(config):
        return run_multiple(config, output_dir, reporter, force, resume, write_plots)
    result = train_and_evaluate(config, output_dir, reporter, force, resume)
    if is_main_process():
        write_plots(result)
    return result


class PrintReporter:
    """Tells how a run goes in plain lines on standard error; warnings as Python warnings."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet
        self.told = time.monotonic()

    def stage(self, text: str) -> None:
        """A new part of the work begins."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def warning(self, text: str) -> None:
        """Something a user should know."""
        warnings.warn(MolattnWarning(text), stacklevel=2)

    def molecules(self, done: int, total: int) -> None:
        """So many of all molecules have been read; told every few seconds."""
        if not self.quiet and time.monotonic() > self.told + SECONDS:
            self.told = time.monotonic()
            print(f"molecule {done} of {total}", file=sys.stderr)

    def epoch(self, record: Any, epochs: int) -> None:
        """One of at most `epochs` epochs is over; every tenth of them is told."""
        if not self.quiet and (record.epoch + 1) % max(1, epochs // 10) == 0:
            from molattn.training.metrics import METRICS

            metric = f"validation {METRICS[record.metric].label} {record.val_metric:.3f}"
            print(f"epoch {record.epoch + 1}/{epochs}: {metric}", file=sys.stderr)
