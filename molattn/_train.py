"""`molattn.train`: training from Python."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from molattn.errors import MolattnError, warn_caller
from molattn.training.options import TrainOptions
from molattn.training.run_status import resolve_resume

if TYPE_CHECKING:
    from molattn.training.callbacks import Callback
    from molattn.training.loggers import Logger
    from molattn.training.train_and_evaluate import RunResult

SECONDS_BETWEEN_LINES = 5.0
"""The minimum time between two lines that report how many molecules have been read."""


def train(
    dataset: Any = "",
    *,
    output_dir: str | Path | None = None,
    config: str | Path | None = None,
    settings: Sequence[str] = (),
    force: bool = False,
    resume: str | Path | None = None,
    quiet: bool = False,
    callbacks: "Sequence[str | Callback]" = (),
    logger: "str | Logger | Sequence[str | Logger]" = (),
    **options: Unpack[TrainOptions],
):
    """Train a model and write its run folder, with plots: what `molattn train` does.

    Args:
        dataset: a name such as "esol", the path of a table, or a pandas or polars data frame, which is saved in the
            user's cache so that its run can be resumed and repeated.
        output_dir: folder of the run; runs/NAME by default.
        config: a TOML file of settings, such as the `config.toml` of a run.
        settings: strings "section.key=value"; they override all other settings.
        force: replace a run in `output_dir`.
        resume: the folder of an unfinished run to continue, with its own settings.
        quiet: issue only warnings; by default progress is printed to standard error.
        callbacks: instances of `molattn.training.callbacks.Callback`, or names that plugins define. A run that is
            resumed needs the same.
        logger: where settings, metrics and files are logged: "csv", "tensorboard", "mlflow", "wandb", a
            `molattn.training.loggers.Logger`, or a list of these.
        options: any setting by its name, `epochs`, `seed`, `split`, `target_columns`, ..., as in `TrainOptions`; they
            are described in `molattn.training.config` and `molattn.models.config`.

    Returns:
        A `RunResult`: `.folder`, `.metrics`, `.history` and the predictions; or a `MultipleRunsResult` for folds and
        replicates: `.folder`, `.metrics` with mean and standard deviation, and `.runs`.

    Raises:
        UsageError: an option or a data set that does not exist, an option that is invalid, a folder that exists, or a
            run that cannot be resumed.
        InputError: data that cannot be used.
        MissingExtra: openpyxl is not installed, for a table that is a workbook, or the package of a logger.
        ProcessLost: with several devices, a process that the others depend on has ended.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import molattn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder, "boiling.csv")  # methanol to decanol, in °C
    ...     _ = table.write_text("smiles,bp\\n" + "".join(f"{n * 'C'}O,{50 + 18 * n}\\n" for n in range(1, 11)))
    ...     run = molattn.train(table, output_dir=f"{folder}/run", epochs=1, hidden_dim=8, num_layers=1, quiet=True)
    ...     molattn.load(run.folder)
    Predictor(targets=('bp',), model='graph')
    >>> len(run.history), "rmse" in run.metrics["test"]["bp"]
    (1, True)
    """
    from molattn.training.run_config import resolve

    if not isinstance(dataset, str | Path):
        from molattn.data.tables.arrow import cache_frame

        dataset = cache_frame(dataset)
    all_options: dict[str, Any] = {**options, "dataset": str(dataset)} if dataset else {**options}
    all_options["callbacks"], objects = split_names(callbacks)
    all_options["logger"], loggers = split_names(logger)
    if resume is not None:
        config, output_dir = resolve_resume(resume, config, output_dir, force)
    resolved = resolve(config, all_options, settings)
    return run_and_plot(resolved, output_dir, PrintReporter(quiet), force, resume is not None, objects, loggers)


def split_names(given: Any) -> tuple[tuple[str, ...] | None, list[Any]]:
    """Split callbacks or loggers, one or a list of them, into names, None without any, and objects."""
    items = () if given is None else given if isinstance(given, list | tuple) else (given,)
    names = tuple(item for item in items if isinstance(item, str))
    return names or None, [item for item in items if not isinstance(item, str)]


def run_and_plot(
    config: Any,
    output_dir: str | Path | None,
    reporter: Any,
    force: bool = False,
    resume: bool = False,
    callbacks: "Sequence[Callback]" = (),
    loggers: Sequence[Any] = (),
):
    """Train with a `RunConfig`, and draw the plots of the run folder.

    With `resume`, continue the unfinished run in `output_dir`. Folds and replicates return a `MultipleRunsResult`.
    """
    # Imported here, because prediction does not need the training modules.
    from molattn.training.multiple_runs import planned_runs, run_multiple
    from molattn.training.run import run

    def finish(result: "RunResult") -> None:
        finish_run(result, config.training.faithfulness_molecules, reporter)

    if planned_runs(config):
        return run_multiple(config, output_dir, reporter, force, resume, finish, callbacks, loggers)
    return run(config, output_dir, reporter, force, resume, callbacks, loggers, finish)


def finish_run(result: "RunResult", max_molecules: int, reporter: Any) -> None:
    """Draw the plots of a finished run, and measure the faithfulness of its explanations.

    Args:
        result, max_molecules, reporter: as for `measure_faithfulness`.
    """
    from molattn.viewer import write_plots

    write_plots(result)
    measure_faithfulness(result, max_molecules, reporter)


def measure_faithfulness(result: "RunResult", max_molecules: int, reporter: Any) -> None:
    """Measure the faithfulness of the explanations of a finished run, save it in its folder, and report it.

    Args:
        result: the run.
        max_molecules: largest number of test molecules; 0 to measure nothing.
        reporter: receives one line with the result.
    """
    from molattn.explain.attribute import choose_attribution_method
    from molattn.explain.run_faithfulness import measure_quickly

    if not max_molecules:
        return
    artifact = result.artifact
    try:
        method = choose_attribution_method(artifact)
        faithfulness = measure_quickly(
            artifact, lambda s: artifact.model.read(s, artifact.read_options), result.folder, max_molecules
        )
    except (MolattnError, RuntimeError, ValueError) as error:  # a measurement must not fail a finished training
        reporter.stage(f"faithfulness of explanations is not measured: {error}")
    else:
        summary = faithfulness.record["methods"][method]["summary"]
        reporter.stage(f"faithfulness of {method}: {summary}; all methods: molattn faithfulness {result.folder}")


class PrintReporter:
    """Reports the progress of a run in plain lines on standard error; warnings as Python warnings."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet
        self.last_line = time.monotonic()

    def stage(self, text: str) -> None:
        """Report that a new stage of the work begins."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def warning(self, text: str) -> None:
        """Issue a Python warning."""
        warn_caller(text)

    def molecules(self, done: int, total: int) -> None:
        """Report every few seconds how many molecules have been read."""
        if not self.quiet and time.monotonic() > self.last_line + SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            print(f"molecule {done} of {total}", file=sys.stderr)

    def epoch(self, record: Any, epochs: int) -> None:
        """Report the end of about ten of the epochs, evenly spaced."""
        if not self.quiet and record.epoch % max(1, epochs // 10) == 0:
            print(f"epoch {record.epoch}/{epochs}: {record.describe()}", file=sys.stderr)
