"""`molattn tune`: search for the settings that suit a data set, by trials on its validation molecules."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from molattn.cli.options import Quiet
from molattn.cli.terminal import print_json, print_line
from molattn.cli.train_options import with_settings
from molattn.errors import UsageError
from molattn.training.config import read_config, resolve
from molattn.training.run_status import TUNED

OFFERED = (
    *("dataset", "smiles_column", "target_columns", "task_type", "split", "splits_file", "metrics", "loss", "model"),
    *("epochs", "seed", "accelerator", "num_workers"),
)
"""The settings that are options; `--set` reaches the others."""


@with_settings(*OFFERED)
def tune(
    table: Annotated[
        Path | None, typer.Argument(help="A CSV, TSV, Parquet, SMI or SDF table to learn from.", show_default=False)
    ] = None,
    *,
    num_trials: Annotated[int, typer.Option(help="Trials in all, pruned ones among them.")] = 20,
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

    `molattn tune --dataset esol` tries twenty settings. Trials are compared on the validation molecules; test
    molecules are not used. `--resume FOLDER` continues an interrupted study with its own settings.
    """
    if table is not None and options["dataset"] is not None:
        raise typer.BadParameter("give a table or --dataset, not both")
    if table is not None:
        options["dataset"] = str(table)
    where = list(search or ())
    if resume is not None:
        if output_dir is not None or config is not None:
            raise UsageError("a study that is resumed has its folder and settings: give no --config or --output-dir")
        if not (resume / TUNED).is_file():
            raise UsageError(f"{resume} is not a study of molattn tune, it has no {TUNED}: there is nothing to resume")
        previous = read_config(resume / TUNED)
        if missing := [name for name in ("search", "pruner") if name not in previous]:
            raise UsageError(f"{resume / TUNED} is damaged, it has no {missing[0]!r}: start a new study")
        # Others than those of the study are refused below.
        where, pruner = where or previous["search"], pruner or previous["pruner"]
        previous = {name: value for name, value in previous.items() if name not in ("search", "pruner")}
        resolved = resolve(None, {}).updated(previous, str(resume / TUNED))
        resolved = resolved.updated(
            {"training": {"num_workers": options["num_workers"] or resolved.training.num_workers}}, "--num-workers"
        )
        if any(value is not None for name, value in options.items() if name != "num_workers") or settings:
            raise UsageError("a study that is resumed has its own settings: give only --resume and --num-trials")
    else:
        resolved = resolve(config, options, settings or ())
    from molattn.cli.progress import TuneReporter
    from molattn.training.metrics import METRICS
    from molattn.training.tune import tune as run

    folder = resume or output_dir or Path("runs") / f"{Path(resolved.data.dataset).stem or 'study'}-tune"
    with TuneReporter(quiet) as reporter:
        found = run(resolved, folder, reporter, num_trials, where, pruner or "median", resume is not None)
    if as_json:
        content = {"folder": str(found.folder), "metric": found.metric, "value": found.value}
        print_json({**content, "trials": found.trials, "values": found.values})
    elif not quiet:
        print_line()
        print_line(f"Best of {found.trials} trials, validation {METRICS[found.metric].label} {found.value:.4g}:")
        for name, value in found.values.items():
            print_line(f"  {name} = {value:.4g}" if isinstance(value, float) else f"  {name} = {value}")
        best = shlex.quote(str(found.folder / "best.toml"))
        print_line(f"The study lies in {found.folder}: best.toml, trials.csv and all trials. Next:")
        print_line(f"  molattn train --config {best}")
