"""The output of `molattn train`: the metrics, the run's folder, and the next commands."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from molattn.cli.terminal import console, print_line, quote_argument

if TYPE_CHECKING:
    from molattn.training.multiple_runs import MultipleRunsResult
    from molattn.training.train_and_evaluate import RunResult


def report_run(result: "RunResult") -> None:
    """Print the test metrics next to the baseline's, the run's folder, and the next commands."""
    from molattn.cli.metrics import print_metrics, print_transformed
    from molattn.cli.uncertainty_metrics import print_uncertainty
    from molattn.models.baseline import baseline_labels

    metrics, dataset = result.metrics, result.dataset
    labels = baseline_labels(dataset.task, dataset.config.target_columns, dataset.transforms)
    prefix = "atoms of " if dataset.task.atom_level else ""
    test, baseline, intervals = metrics["test"], metrics["baseline"]["test"], metrics["test_intervals"]
    forest = {"random forest": metrics["baseline_forest"]["test"]} if "baseline_forest" in metrics else {}
    print_metrics(test, f"{prefix}test molecules", metrics["units"], baseline, labels, None, intervals, forest)
    print_transformed(metrics.get("transformed", {}).get("test", {}))
    if "uncertainty" in metrics:
        print_uncertainty(metrics["uncertainty"], f"{prefix}test molecules", metrics["units"])
    run, program = quote_argument(result.folder), _program()
    print_line(f"Saved in {result.folder}: metrics.json, predictions.csv, plots/, model/ and more. Next:")
    descriptors = result.dataset.config.descriptor_columns
    level = " --interval 0.9" if result.artifact.calibration is not None else ""
    if not descriptors:
        print_line(f"  {program} view {run} --smiles CCO -o {quote_argument(result.folder / 'ethanol.html')}")
        if (target := _explained_target(result)) is not None:
            print_line(f"  {program} explain {run} --smiles CCO{target}")
        print_line(f"  {program} predict {run} --smiles CCO --smiles c1ccccc1")
    columns = f"   (with {', '.join(descriptors)} in it)" if descriptors else ""
    print_line(f"  {program} predict {run} in.csv -o out.csv{level}{columns}")


def _explained_target(result: "RunResult") -> str | None:
    """The option that names a target to `molattn explain`, if it needs one; None if no prediction can be explained."""
    from molattn.explain.methods import available_methods

    if not available_methods(result.artifact.model):
        return None
    if not result.dataset.task.loss_function.is_explainable:
        return None
    targets = result.dataset.config.target_columns
    return f" --target {quote_argument(targets[0])}" if len(targets) > 1 else ""


def report_runs(result: "MultipleRunsResult") -> None:
    """Print the test metrics of every run, their mean and standard deviation, the folder, and a next command."""
    from rich.table import Table

    from molattn.cli.metrics import number
    from molattn.data.tables.units import name_has_unit
    from molattn.training.metrics import METRICS

    out = console()
    for target, metrics in result.metrics["test"].items():
        unit = result.metrics["units"][target]
        print_line()
        in_unit = f" in {unit}" if unit and not name_has_unit(target, unit) else ""
        print_line(f"{target}{in_unit}, test molecules of {len(result.runs)} runs:")
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
    first = quote_argument(result.folder / next(iter(result.runs)))
    example = "in.csv -o out.csv" if result.descriptor_columns else "--smiles CCO"
    print_line(f"Saved in {result.folder}: a folder for each run; metrics.json has mean, std and all values. Next:")
    print_line(f"  {_program()} predict {first} {example}")


def _program() -> str:
    """The command that runs `molattn`: its path if the virtual environment is not activated."""
    called = sys.argv[0]
    if Path(called).name == "__main__.py":  # one of several processes, see `launch`
        script = Path(sys.executable).with_name("molattn")
        called = str(script) if script.is_file() else called
    found = shutil.which("molattn")
    if found is not None and _without_exe(found) == _without_exe(called):
        return "molattn"
    return quote_argument(called) if Path(called).stem == "molattn" else "molattn"


def _without_exe(program: str) -> Path:
    """The path of a program; Windows finds `molattn.exe`, and calls it `molattn`."""
    path = Path(program).resolve()
    return path.with_suffix("") if path.suffix.lower() == ".exe" else path
