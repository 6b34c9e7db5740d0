"""`molattn train`: from a table to a trained model and its run folder, and what is printed at the end."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from molattn.cli import train_options as opt
from molattn.cli.launch import end_with_launcher, launch
from molattn.cli.terminal import console, print_json, print_line
from molattn.training.config import resolve
from molattn.training.distributed import is_main_process, launched_world_size, requested_world_size
from molattn.training.run_status import check_new_folder, resolve_resume

if TYPE_CHECKING:
    from molattn.training.multiple_runs import MultipleRunsResult
    from molattn.training.run import RunResult


def report_run(result: "RunResult") -> None:
    """Print the test metrics next to the baseline's, the run's folder, and the next two commands."""
    from molattn.cli.metrics import print_metrics, print_uncertainty

    metrics, always = result.metrics, result.dataset.task.baseline_label
    of = "atoms of " if result.dataset.task.of_atoms else ""
    test, baseline, intervals = metrics["test"], metrics["baseline"]["test"], metrics["test_intervals"]
    print_metrics(test, f"{of}test molecules", metrics["units"], baseline, always, intervals=intervals)
    if "uncertainty" in metrics:
        print_uncertainty(metrics["uncertainty"], f"{of}test molecules", metrics["units"])
    run, program = shlex.quote(str(result.folder)), _program()
    print_line(f"The run lies in {result.folder}: metrics.json, predictions.csv, plots/, model/ and more. Next:")
    descriptors = result.dataset.config.descriptor_columns
    level = " --interval 0.9" if result.artifact is not None and result.artifact.calibration is not None else ""
    if not descriptors:
        print_line(f"  {program} predict {run} --smiles CCO --smiles c1ccccc1")
    columns = f"   (with {', '.join(descriptors)} in it)" if descriptors else ""
    print_line(f"  {program} predict {run} in.csv -o out.csv{level}{columns}")


def report_runs(result: "MultipleRunsResult") -> None:
    """Print the test metrics of every run, their mean and standard deviation, the folder, and a next command."""
    from rich.table import Table

    from molattn.cli.metrics import number
    from molattn.training.metrics import METRICS

    out = console()
    for target, metrics in result.metrics["test"].items():
        unit = result.metrics["units"][target]
        print_line()
        print_line(f"{target}{f' in {unit}' if unit else ''}, test molecules of {len(result.runs)} runs:")
        # A metric that is undefined in all runs has no mean.
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
    """How to call `molattn` here: by its path if the virtual environment is not activated."""
    called = sys.argv[0]
    if Path(called).name == "__main__.py":  # one of several processes, see `launch`
        script = Path(sys.executable).with_name("molattn")
        called = str(script) if script.is_file() else called
    found = shutil.which("molattn")
    if found is not None and Path(found).resolve() == Path(called).resolve():
        return "molattn"
    return shlex.quote(called) if Path(called).name == "molattn" else "molattn"


@opt.with_settings()
def train(
    table: opt.Table = None,
    *,
    output_dir: opt.OutputDir = None,
    resume: opt.Resume = None,
    config: opt.Config = None,
    settings: opt.Settings = None,
    force: opt.Force = False,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
    help_all: opt.HelpAll = False,  # noqa: ARG001
    **options: Any,
) -> None:
    """Train a model; prints its test metrics, the run's folder, and what to type next.

    `molattn train --dataset esol` needs nothing else. Your own table: `molattn train my.csv --target-columns y`.
    """
    if table is not None and options["dataset"] is not None:
        raise typer.BadParameter("give a table or --dataset, not both")
    if table is not None:
        options["dataset"] = str(table)
    if resume is not None:
        config, output_dir = resolve_resume(resume, config, output_dir, force)
    # Settings are checked before anything heavy is imported.
    resolved = resolve(config, options, settings or ())
    if launched_world_size() == 1 and (several := requested_world_size(resolved.training)) > 1:
        nodes = resolved.training.num_nodes
        raise typer.Exit(launch(sys.argv[1:], several // nodes, nodes))
    end_with_launcher()
    from molattn.cli.datasets import fetch_with_progress
    from molattn.training.table_source import find_table, is_path

    if output_dir is not None and resume is None:
        check_new_folder(output_dir, force)
    if resolved.data.dataset and not is_path(resolved.data.dataset):
        fetch_with_progress(resolved.data.dataset, resolved.data.data_dir, quiet or not is_main_process())
    find_table(resolved.data)

    from molattn._train import run
    from molattn.cli.progress import TerminalReporter
    from molattn.training.multiple_runs import MultipleRunsResult

    with TerminalReporter(quiet) as reporter:
        result = run(resolved, output_dir, reporter, force, resume is not None)
    if not is_main_process():
        return
    if as_json:
        print_json({"run": str(result.folder), **result.metrics})
    elif isinstance(result, MultipleRunsResult):
        if not quiet:
            report_runs(result)
    elif not quiet:
        report_run(result)
