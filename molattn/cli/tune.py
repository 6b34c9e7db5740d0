"""`molattn tune`: search for the settings that suit a data set, by trials on its validation molecules."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from molattn.cli.options import Quiet
from molattn.cli.terminal import print_json, print_line
from molattn.cli.train_options import with_settings
from molattn.errors import UsageError
from molattn.training.run_config import resolve

if TYPE_CHECKING:
    from molattn.training.tune import TuneResult

OFFERED = (
    *("dataset", "smiles_column", "target_columns", "task_type", "split", "splits_file", "metrics", "loss", "model"),
    *("base", "tracking_metric", "epochs", "seed", "accelerator", "num_workers"),
)
"""The settings that are options; `--set` reaches the others."""


@with_settings(*OFFERED)
def tune(
    table: Annotated[
        Path | None,
        typer.Argument(help="A CSV, TSV, Excel, Parquet, SMI or SDF table to learn from.", show_default=False),
    ] = None,
    *,
    num_trials: Annotated[
        int | None,
        typer.Option(
            help="Trials in all: the default, pruned ones, and those of other processes among them. [default: 20, or "
            "those of the study that is resumed]",
            show_default=False,
        ),
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            help="Where to look, e.g. model.num_layers=2..6 or model.readout=['mean', 'sum']; may be repeated.",
            metavar="SECTION.KEY=WHERE",
            show_default=False,
        ),
    ] = None,
    pruner: Annotated[
        str | None,
        typer.Option(
            help="How poor trials are stopped early: median, hyperband or none. [default: median]", show_default=False
        ),
    ] = None,
    output_dir: Annotated[
        Path | None, typer.Option("--output-dir", "-o", help="A new folder. [default: runs/NAME-tune]")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="The folder of a study to continue.", metavar="FOLDER", show_default=False)
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file of settings, such as a run's config.toml.", show_default=False)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Any setting, e.g. training.ema=0.9.", metavar="SECTION.KEY=VALUE", show_default=False
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
    **options: Any,
) -> None:
    """Find settings by trial; `best.toml` is for `molattn train --config`.

    `molattn tune --dataset esol` tries twenty settings: first the default, which is `molattn train` of the same
    options, then others around it, from the same base model. What the base model fixes, such as `model.hidden_dim`, is
    searched with `--base none` or where `--search` names it: then training starts from scratch. Trials are compared on
    the validation molecules, by the first `--metric`; test molecules are not used.

    `--resume FOLDER` continues an interrupted study with its own settings. Given in several terminals at the same time,
    it shares the trials of one study among them.
    """
    if table is not None and options["dataset"] is not None:
        raise typer.BadParameter("give a table or --dataset, not both")
    if table is not None:
        options["dataset"] = str(table)
    where = list(search or ())
    if resume is not None:
        if output_dir is not None or config is not None:
            raise UsageError("a study that is resumed has its folder and settings: give no --config or --output-dir")
        if any(value is not None for name, value in options.items() if name != "num_workers") or settings:
            raise UsageError("a study that is resumed has its own settings: give only --resume and --num-trials")
        from molattn.training.study import read_study

        study = read_study(resume)
        resolved = study.config
        # Others than those of the study are refused below.
        where, pruner = where or study.search, pruner or study.pruner
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
        found = run(resolved, folder, reporter, trials, where, pruner or "median", resume is not None)
    if as_json:
        content = {"folder": str(found.folder), "metric": found.metric, "value": found.value}
        content |= {"trials": found.trials, "values": found.values, "best_trial": found.number}
        print_json({**content, "default_value": found.default_value, "default_values": found.default_values})
    elif not quiet:
        _report(found)


def _report(found: "TuneResult") -> None:
    """Print the best beside the default, what differs between them, and the next command."""
    from molattn.training.metrics import METRICS

    print_line()
    print_line(f"Validation {METRICS[found.metric].label} of {found.trials} trials:")
    default = "no value, see trials.csv" if found.default_value is None else f"{found.default_value:.4g}"
    print_line(f"  default  {default}   (molattn train of the same options)")
    if found.is_default:
        print_line("No trial was better than the default: best.toml repeats the default.")
    else:
        print_line(f"  best     {found.value:.4g}   (trial {found.number})")
        print_line("What the best has set otherwise:")
        for name, value in found.values.items():
            print_line(f"  {name} = {_text(value)}   (default {_text(found.default_values[name])})")
    best = shlex.quote(str(found.folder / "best.toml"))
    print_line(f"The study lies in {found.folder}: best.toml, trials.csv and all trials. Next:")
    print_line(f"  molattn train --config {best}")


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
