"""`molattn train`: from a table to a trained model and its run folder."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from molattn.cli.launch import end_with_launcher, launch
from molattn.cli.terminal import console, print_json, print_line
from molattn.models.config import CONFIGS
from molattn.models.presets import PRESETS
from molattn.training.config import DataConfig, RunConfig, TrainingConfig, resolve
from molattn.training.distributed import is_main_process, launched_world_size, requested_world_size
from molattn.training.run_status import resolve_resume

if TYPE_CHECKING:
    from molattn.training.multiple_runs import MultipleRunsResult
    from molattn.training.run import RunResult

_DATA, _FIT, _RUN = "Data", "Training", "Run"
# As in molattn.data and molattn.chem, which are not imported for a screen of help.
_SPLITS = ("random", "scaffold", "scaffold-balanced", "cluster", "kennard-stone", "stratified")
_FEATURIZERS = ("rdkit_few", "rdkit_2d")
_data, _training = DataConfig(), TrainingConfig()


def _option(
    panel: str, text: str, *names: str, default: object = None, metavar: str | None = None, hidden: bool = False
) -> Any:
    """An option that is None when not given, so that a configuration file can say it instead.

    A hidden one works, but leaves the screen to those that more people need; `--help-all` shows it.
    """
    text = text if default is None else f"{text} [default: {default}]"
    return typer.Option(*names, help=text, rich_help_panel=panel, metavar=metavar, show_default=False, hidden=hidden)


def _show_all(context: typer.Context, asked: bool) -> None:
    if asked:
        for parameter in context.command.params:
            parameter.hidden = False  # pyright: ignore[reportAttributeAccessIssue]
        print(context.get_help())
        raise typer.Exit


def train(
    table: Annotated[
        Path | None, typer.Argument(help="A CSV, TSV, Parquet, SMI or SDF table to learn from.", show_default=False)
    ] = None,
    dataset: Annotated[str | None, _option(_DATA, "A data set by name, such as esol, or a table's path.")] = None,
    data_dir: Annotated[
        Path | None,
        _option(_DATA, "A folder of data sets to look into first, and to download to; MOLATTN_DATA.", hidden=True),
    ] = None,
    smiles_column: Annotated[str | None, _option(_DATA, "Column of SMILES; found by its name if not given.")] = None,
    target_columns: Annotated[
        list[str] | None, _option(_DATA, "Column to learn; repeat it to learn several.", metavar="NAME")
    ] = None,
    task_type: Annotated[
        str | None,
        _option(
            _DATA,
            "regression, binary or multiclass; atom-regression, ...; guessed and said.",
            "--task-type",
            "-t",
        ),
    ] = None,
    weight_column: Annotated[
        str | None, _option(_DATA, "Column that says how much each row counts.", metavar="NAME", hidden=True)
    ] = None,
    group_column: Annotated[
        str | None,
        _option(_DATA, "Column of groups: the rows of one are on one side of the split.", metavar="NAME", hidden=True),
    ] = None,
    descriptor_columns: Annotated[
        list[str] | None,
        _option(_DATA, "Column of numbers that joins the readout; may be repeated.", metavar="NAME", hidden=True),
    ] = None,
    molecule_featurizers: Annotated[
        list[str] | None,
        _option(
            _DATA,
            f"Descriptors that RDKit computes and that join the readout: {', '.join(_FEATURIZERS)}.",
            metavar="NAME",
            hidden=True,
        ),
    ] = None,
    add_hs: Annotated[
        bool | None, typer.Option("--add-hs", help="Make hydrogens atoms of the graph.", rich_help_panel=_DATA)
    ] = None,
    standardize: Annotated[
        str | None,
        _option(_DATA, "Form molecules are brought to: parent (no salt, neutral) or tautomer.", hidden=True),
    ] = None,
    split: Annotated[
        str | None,
        _option(_DATA, f"How to split: {', '.join(_SPLITS)}.", "--split", "--split-type", default=_data.split),
    ] = None,
    split_sizes: Annotated[
        tuple[float, float, float] | None,
        _option(_DATA, "Shares of train, val, test.", default=" ".join(map(str, _data.split_sizes)), hidden=True),
    ] = None,
    calibration_size: Annotated[
        float | None,
        _option(_DATA, "Share of the molecules set aside, from training, to calibrate.", metavar="SHARE", hidden=True),
    ] = None,
    split_column: Annotated[
        str | None,
        _option(
            _DATA,
            "A column of the table that says train, val or test; taken as it is.",
            "--split-column",
            "--splits-column",
            hidden=True,
        ),
    ] = None,
    splits_file: Annotated[
        Path | None, _option(_DATA, "A table with columns smiles and split, row for row; taken as it is.")
    ] = None,
    num_folds: Annotated[
        int | None, _option(_DATA, "k-fold: so many runs, each molecule tested in one.", hidden=True)
    ] = None,
    num_replicates: Annotated[
        int | None, _option(_DATA, "So many runs, with this seed and the next ones.", hidden=True)
    ] = None,
    on_3d_failure: Annotated[
        str | None,
        _option(
            _DATA,
            "A molecule without a 3D geometry: paths (path lengths instead), reject or stop.",
            default=_data.on_3d_failure,
            hidden=True,
        ),
    ] = None,
    model: Annotated[
        str | None, _option(_FIT, "What learns: " + " or ".join(CONFIGS) + ".", default=RunConfig().model.kind)
    ] = None,
    preset: Annotated[
        str | None, _option(_FIT, "A published model, see `molattn presets`: " + ", ".join(PRESETS) + ".")
    ] = None,
    base: Annotated[
        str | None,
        _option(
            _FIT,
            "Where weights start: a base model's name (nci) or folder, none, or auto: nci where it fits.",
            default="auto",
        ),
    ] = None,
    loss: Annotated[
        str | None,
        _option(
            _FIT,
            "mse, mae, huber, mve, evidential, quantile; bce, cross-entropy, dirichlet.",
            "--loss-function",
            "--loss",
            "-l",
            hidden=True,
        ),
    ] = None,
    ensemble_size: Annotated[
        int | None, _option(_FIT, "Models, of which the mean answers.", default=_training.ensemble_size, hidden=True)
    ] = None,
    uncertainty_method: Annotated[
        str | None,
        _option(_FIT, "How standard deviations are made, such as dropout. [default: by ensemble or loss]", hidden=True),
    ] = None,
    calibration_method: Annotated[
        str | None,
        _option(_FIT, "conformal-regression, zscaling, isotonic; conformal-multiclass, ...", hidden=True),
    ] = None,
    metrics: Annotated[
        list[str] | None, _option(_FIT, "What is reported, such as auroc; may be repeated.", "--metric", hidden=True)
    ] = None,
    class_balance: Annotated[
        bool | None,
        typer.Option("--class-balance", help="Classes count alike in the loss.", rich_help_panel=_FIT, hidden=True),
    ] = None,
    epochs: Annotated[int | None, _option(_FIT, "At most so many epochs.", default=_training.epochs)] = None,
    batch_size: Annotated[
        int | None, _option(_FIT, "Molecules in a batch.", "--batch-size", "-b", default=_training.batch_size)
    ] = None,
    seed: Annotated[int | None, _option(_FIT, "Of split, weights and batches.", default=_training.seed)] = None,
    accelerator: Annotated[
        str | None, _option(_FIT, "What computes: auto, cpu or gpu.", default=_training.accelerator, hidden=True)
    ] = None,
    devices: Annotated[
        str | None,
        _option(_FIT, "How many of them on each machine, a process for each.", default=_training.devices, hidden=True),
    ] = None,
    num_nodes: Annotated[
        int | None, _option(_FIT, "Machines that train together.", default=_training.num_nodes, hidden=True)
    ] = None,
    num_workers: Annotated[
        int | None,
        _option(_FIT, "Processes that read molecules.", "--num-workers", "-n", default=_training.num_workers),
    ] = None,
    output_dir: Annotated[
        Path | None, _option(_RUN, "Folder of the run. [default: runs/NAME]", "--output-dir", "-o")
    ] = None,
    resume: Annotated[
        Path | None, _option(_RUN, "Folder of an unfinished run, which goes on.", metavar="RUN", hidden=True)
    ] = None,
    config: Annotated[Path | None, _option(_RUN, "A TOML file of settings, such as a run's config.toml.")] = None,
    settings: Annotated[
        list[str] | None, _option(_RUN, "Any setting, e.g. model.num_layers=6.", "--set", metavar="SECTION.KEY=VALUE")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the run there.", rich_help_panel=_RUN)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only errors, warnings.", rich_help_panel=_RUN)] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.", rich_help_panel=_RUN)] = False,
    help_all: Annotated[  # noqa: ARG001
        bool, typer.Option("--help-all", help="Show all options and exit.", is_eager=True, callback=_show_all)
    ] = False,
) -> None:
    """Train a model; it ends with its test metrics, where the run lies, and what to type next.

    `molattn train --dataset esol` needs nothing else. Your own table: `molattn train my.csv --target-columns y`.
    """
    if table is not None and dataset is not None:
        raise typer.BadParameter("give a table or --dataset, not both")
    options = {
        "dataset": str(table) if table is not None else dataset,
        "data_dir": None if data_dir is None else str(data_dir),
        "smiles_column": smiles_column,
        "target_columns": target_columns,
        "task_type": task_type,
        "weight_column": weight_column,
        "group_column": group_column,
        "descriptor_columns": descriptor_columns,
        "molecule_featurizers": molecule_featurizers,
        "add_hs": add_hs,
        "standardize": standardize,
        "split": split,
        "split_sizes": split_sizes,
        "calibration_size": calibration_size,
        "split_column": split_column,
        "num_folds": num_folds,
        "num_replicates": num_replicates,
        "splits_file": None if splits_file is None else str(splits_file),
        "on_3d_failure": on_3d_failure,
        "model": model,
        "preset": preset,
        "base": base,
        "loss": loss,
        "ensemble_size": ensemble_size,
        "uncertainty_method": uncertainty_method,
        "calibration_method": calibration_method,
        "metrics": metrics,
        "class_balance": class_balance,
        "epochs": epochs,
        "batch_size": batch_size,
        "seed": seed,
        "accelerator": accelerator,
        "devices": devices,
        "num_nodes": num_nodes,
        "num_workers": num_workers,
    }
    if resume is not None:
        config, output_dir = resolve_resume(resume, config, output_dir, force)
    # Settings are checked before anything heavy is imported.
    resolved = resolve(config, options, settings or ())
    if launched_world_size() == 1 and (several := requested_world_size(resolved.training)) > 1:
        nodes = resolved.training.num_nodes
        raise typer.Exit(launch(sys.argv[1:], several // nodes, nodes))
    end_with_launcher()
    from molattn._train import run
    from molattn.cli.datasets import fetched
    from molattn.cli.progress import TerminalReporter
    from molattn.training.multiple_runs import MultipleRunsResult
    from molattn.training.table_source import is_path

    if resolved.data.dataset and not is_path(resolved.data.dataset):
        fetched(resolved.data.dataset, resolved.data.data_dir, quiet or not is_main_process())
    with TerminalReporter(quiet) as reporter:
        result = run(resolved, output_dir, reporter, force, resume is not None)
    if not is_main_process():
        return
    if as_json:
        print_json({"run": str(result.folder), **result.metrics})
    elif isinstance(result, MultipleRunsResult):
        if not quiet:
            _report_several(result)
    elif not quiet:
        _report(result)


def _report(result: "RunResult") -> None:
    """The table of test metrics beside the baseline, where the run lies, and the next two commands."""
    from molattn.cli.metrics import print_metrics, print_uncertainty

    metrics, always = result.metrics, result.dataset.task.baseline_label
    of = "atoms of " if result.dataset.task.of_atoms else ""
    print_metrics(metrics["test"], f"{of}test molecules", metrics["units"], metrics["baseline"]["test"], always)
    if "uncertainty" in metrics:
        print_uncertainty(metrics["uncertainty"], f"{of}test molecules", metrics["units"])
    run, program = shlex.quote(str(result.folder)), _program()
    print_line(f"The run lies in {result.folder}: metrics.json, predictions.csv, plots/, model/ and more. Next:")
    beside = result.dataset.config.descriptor_columns
    level = " --interval 0.9" if result.artifact is not None and result.artifact.calibration is not None else ""
    if not beside:
        print_line(f"  {program} predict {run} --smiles CCO --smiles c1ccccc1")
    within = f"   (with {', '.join(beside)} in it)" if beside else ""
    print_line(f"  {program} predict {run} in.csv -o out.csv{level}{within}")


def _report_several(result: "MultipleRunsResult") -> None:
    """The test metrics of every run, their mean and deviation, where the runs lie, and a next command."""
    from rich.table import Table

    from molattn.cli.metrics import number
    from molattn.training.metrics import METRICS

    out = console()
    for target, metrics in result.metrics["test"].items():
        unit = result.metrics["units"][target]
        print_line()
        print_line(f"{target}{f' in {unit}' if unit else ''}, test molecules of {len(result.runs)} runs:")
        # A metric that no run could give has no mean.
        numbers = {name: m for name, m in metrics.items() if name in METRICS and isinstance(m, dict) and "mean" in m}
        table = Table()
        table.add_column("")
        for name in numbers:
            table.add_column(METRICS[name].label, justify="right")
        for i, run in enumerate(result.runs):
            row = [number(m["values"][i]) for m in numbers.values()]
            table.add_row(run, *row, end_section=i + 1 == len(result.runs))
        table.add_row("mean", *(number(m["mean"]) for m in numbers.values()))
        table.add_row("standard deviation", *(number(m["std"]) for m in numbers.values()))
        out.print(table)
    first = shlex.quote(str(result.folder / next(iter(result.runs))))
    example = "in.csv -o out.csv" if result.descriptors else "--smiles CCO"
    print_line(f"The runs lie in {result.folder}, each in its folder; metrics.json has mean, std and all values. Next:")
    print_line(f"  {_program()} predict {first} {example}")


def _program() -> str:
    """`molattn` as it can be typed here: by its path where the virtual environment is not activated."""
    called = sys.argv[0]
    if Path(called).name == "__main__.py":  # a process of several, see `launch`
        beside = Path(sys.executable).with_name("molattn")
        called = str(beside) if beside.is_file() else called
    found = shutil.which("molattn")
    if found is not None and Path(found).resolve() == Path(called).resolve():
        return "molattn"
    return shlex.quote(called) if Path(called).name == "molattn" else "molattn"
