"""`molattn tune`: search for the settings that suit a data set, by trials on its validation molecules."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from molattn.cli.options import NumWorkers, Quiet
from molattn.cli.terminal import print_json, print_line
from molattn.errors import UsageError
from molattn.training.config import DataConfig, TrainingConfig, read_config, resolve
from molattn.training.run_status import TUNED

_data, _training = DataConfig(), TrainingConfig()


def tune(
    table: Annotated[
        Path | None, typer.Argument(help="A CSV, TSV, Parquet, SMI or SDF table to learn from.", show_default=False)
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="A data set by name, such as esol, or a table's path.", show_default=False)
    ] = None,
    smiles_column: Annotated[
        str | None, typer.Option(help="Column of SMILES; found by its name if not given.", show_default=False)
    ] = None,
    target_columns: Annotated[
        list[str] | None, typer.Option(help="Column to learn; may be repeated.", show_default=False)
    ] = None,
    task_type: Annotated[
        str | None, typer.Option("--task-type", "-t", help="As for molattn train.", show_default=False)
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", "--split-type", help=f"How to split. [default: {_data.split}]")
    ] = None,
    splits_file: Annotated[
        Path | None, typer.Option(help="A table with columns smiles and split.", show_default=False)
    ] = None,
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
        str, typer.Option(help="How poor trials are stopped early: median, hyperband or none.")
    ] = "median",
    metrics: Annotated[
        list[str] | None, typer.Option("--metric", help="What is compared, such as mae.", show_default=False)
    ] = None,
    loss: Annotated[
        str | None, typer.Option("--loss-function", "--loss", "-l", help="As for molattn train.", show_default=False)
    ] = None,
    model: Annotated[str | None, typer.Option(help="graph or smiles-transformer. [default: graph]")] = None,
    epochs: Annotated[
        int | None, typer.Option(help=f"Maximum number in each trial. [default: {_training.epochs}]")
    ] = None,
    seed: Annotated[int | None, typer.Option(help=f"Of split, weights and trials. [default: {_training.seed}]")] = None,
    accelerator: Annotated[str | None, typer.Option(help="auto, cpu or gpu", show_default=False)] = None,
    num_workers: NumWorkers = 0,
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
) -> None:
    """Find settings by trial; `best.toml` is for `molattn train --config`.

    `molattn tune --dataset esol` tries twenty settings. Trials are compared on the validation molecules; test
    molecules are not used. `--resume FOLDER` continues an interrupted study with its own settings.
    """
    if table is not None and dataset is not None:
        raise typer.BadParameter("give a table or --dataset, not both")
    options: dict[str, Any] = {
        "dataset": str(table) if table is not None else dataset,
        "smiles_column": smiles_column,
        "target_columns": target_columns,
        "task_type": task_type,
        "split": split,
        "splits_file": None if splits_file is None else str(splits_file),
        "metrics": metrics,
        "loss": loss,
        "model": model,
        "epochs": epochs,
        "seed": seed,
        "accelerator": accelerator,
        "num_workers": num_workers or None,
    }
    where = list(search or ())
    if resume is not None:
        if output_dir is not None or config is not None:
            raise UsageError("a study that is resumed has its folder and settings: give no --config or --output-dir")
        if not (resume / TUNED).is_file():
            raise UsageError(f"{resume} is not a study of molattn tune, it has no {TUNED}: there is nothing to resume")
        previous = read_config(resume / TUNED)
        where, pruner = where or previous.pop("search"), previous.pop("pruner")
        previous.pop("search", None)
        resolved = resolve(None, {}).updated(previous, str(resume / TUNED))
        resolved = resolved.updated(
            {"training": {"num_workers": num_workers or resolved.training.num_workers}}, "--num-workers"
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
        found = run(resolved, folder, reporter, num_trials, where, pruner, resume is not None)
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
