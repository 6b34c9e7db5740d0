"""`molattn tune`: hyperparameter search, by the metrics of the validation molecules."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from molattn.cli import train_options as opt
from molattn.cli.terminal import print_json, print_line, quote_argument
from molattn.errors import UsageError
from molattn.training.run_config import resolve

if TYPE_CHECKING:
    from molattn.training.tune import TuneResult

SETTINGS = (
    *("dataset", "smiles_column", "target_columns", "task_type", "split", "splits_file", "metrics", "loss", "model"),
    *("base", "tracking_metric", "epochs", "seed", "accelerator", "num_workers"),
)
"""The settings that have an option; `--set` changes the others."""


@opt.with_settings(*SETTINGS)
def tune(
    table: opt.Table = None,
    *,
    num_trials: Annotated[
        int | None,
        typer.Option(
            help="Total number of trials, with the default settings, pruned trials and those of other processes. "
            "[default: 20, or that of the resumed study]",
            show_default=False,
        ),
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            help="Search space, e.g. model.num_layers=2..6 or model.readout=['mean', 'sum']; may be repeated.",
            metavar="KEY=VALUES",
            show_default=False,
        ),
    ] = None,
    pruner: Annotated[
        str | None,
        typer.Option(
            help="Early stopping of poor trials: median, hyperband or none. [default: median]", show_default=False
        ),
    ] = None,
    output_dir: Annotated[
        Path | None, typer.Option("--output-dir", "-o", help="A new folder. [default: runs/NAME-tune]")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="The folder of a study to continue.", metavar="FOLDER", show_default=False)
    ] = None,
    config: opt.Config = None,
    settings: opt.Settings = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
    **options: Any,
) -> None:
    """Search for the best settings (hyperparameters); `molattn train --config best.toml` trains with them.

    `molattn tune --dataset esol` runs twenty trials: first the default settings, as `molattn train` with the same
    options, then others, from the same base model. Settings that the base model determines, such as `model.hidden_dim`,
    are searched with `--base none` or if `--search` names them: then training starts from scratch. Trials are compared
    on the validation molecules, by the first `--metric`; test molecules are not used.

    `--resume FOLDER` continues an interrupted study with its own settings. Run it in several terminals at the same time
    to share the trials of one study among them.
    """
    opt.set_table(options, table)
    search = list(search or ())
    if resume is not None:
        if output_dir is not None or config is not None:
            raise UsageError("a resumed study has its own folder and settings: give no --config or --output-dir")
        if any(value is not None for name, value in options.items() if name != "num_workers") or settings:
            raise UsageError("a resumed study has its own settings: give only --resume and --num-trials")
        from molattn.training.study import read_study

        study = read_study(resume)
        resolved = study.config
        # Values other than those of the study are rejected below.
        search, pruner = search or study.search, pruner or study.pruner
        num_trials = study.num_trials if num_trials is None else num_trials
        if options["num_workers"] is not None:
            resolved = resolved.updated({"training": {"num_workers": options["num_workers"]}}, "--num-workers")
    else:
        resolved = resolve(config, options, settings or ())
    from molattn.cli.progress import TuneReporter
    from molattn.training.tune import DEFAULT_TRIALS
    from molattn.training.tune import tune as run

    folder = resume or output_dir or Path("runs") / f"{Path(resolved.data.dataset).stem or 'study'}-tune"
    with TuneReporter(quiet) as reporter:
        trials = DEFAULT_TRIALS if num_trials is None else num_trials
        result = run(resolved, folder, reporter, trials, search, pruner or "median", resume is not None)
    if as_json:
        content = {"folder": str(result.folder), "metric": result.metric, "value": result.value}
        content |= {"trials": result.trials, "values": result.values, "best_trial": result.number}
        print_json({**content, "default_value": result.default_value, "default_values": result.default_values})
    elif not quiet:
        _report(result)


def _report(result: "TuneResult") -> None:
    """Print the validation metrics of the best and the default settings, their difference, and the next command."""
    from molattn.training.metrics import METRICS

    print_line()
    print_line(f"Validation {METRICS[result.metric].label} of {result.trials} trials:")
    default = "no value, see trials.csv" if result.default_value is None else f"{result.default_value:.4g}"
    print_line(f"  default  {default}   (molattn train with the same options)")
    if result.is_default:
        print_line("No trial was better than the default: best.toml has the default settings.")
    else:
        print_line(f"  best     {result.value:.4g}   (trial {result.number})")
        print_line("Settings of the best trial that are not the default:")
        for name, value in result.values.items():
            print_line(f"  {name} = {_text(value)}   (default {_text(result.default_values[name])})")
    best = quote_argument(result.folder / "best.toml")
    print_line(f"Saved in {result.folder}: best.toml, trials.csv and all trials. Next:")
    print_line(f"  molattn train --config {best}")


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
