"""`molattn evaluate`: the metrics of a trained model on another table."""

from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import Accelerator, NumWorkers, Precision, Quiet, Run, Strict, load_predictor
from molattn.cli.table_reading import DEFAULT_READING, TableReading, reads_table
from molattn.cli.terminal import print_json, print_status, warn
from molattn.errors import RowsFailed, UsageError, describe_failures
from molattn.training.run_status import check_folder_name


@reads_table(without=("input_format",))
def evaluate(
    run: Run,
    table: Annotated[Path, typer.Argument(help="A table with SMILES and labels.", show_default=False)],
    output_dir: Annotated[
        Path | None,
        typer.Option("--output-dir", "-o", help="A new folder for metrics.json and plots.", show_default=False),
    ] = None,
    reading: TableReading = DEFAULT_READING,
    target_columns: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of the labels, in the order of the model's targets. [default: the targets' names]",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None, typer.Option("--metric", help="Metric to report; may be repeated.", show_default=False)
    ] = None,
    num_workers: NumWorkers = 0,
    strict: Strict = False,
    accelerator: Accelerator = "cpu",
    precision: Precision = "32-true",
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the metrics as JSON.")] = False,
) -> None:
    """Evaluate a model on a table with labels of its targets.

    `molattn evaluate runs/esol other.csv` prints the same metrics as training. Rows without a label or with a SMILES
    that cannot be read are left out and counted. Metrics are too optimistic on molecules that the model was trained or
    selected with (in splits.csv of the run): the metrics of the other molecules are reported separately.
    """
    if output_dir is not None:
        check_folder_name(output_dir)
    if output_dir is not None and output_dir.exists() and (not output_dir.is_dir() or any(output_dir.iterdir())):
        raise UsageError(f"{output_dir} exists: give another --output-dir")
    from molattn.cli.metrics import print_metrics, print_transformed
    from molattn.cli.progress import TerminalReporter
    from molattn.cli.uncertainty_metrics import print_uncertainty

    predictor = load_predictor(run, accelerator, precision)
    with TerminalReporter(quiet) as reporter:
        progress = None if predictor.read_options.conformers is None else reporter.molecules
        result = predictor.evaluate(
            table,
            smiles_column=reading.smiles_column or "",
            target_columns=target_columns or (),
            metrics=tuple(metrics or ()),
            num_workers=num_workers,
            progress=progress,
            table_options=reading.options,
        )
    for warning in result.warnings:
        warn(warning)
    if result.rejected:
        first = result.rejected[0]
        reason, total = f"{first.location}: {first.reason}", len(result.rejected) + len(result.rows)
        message = describe_failures(len(result.rejected), total, "rows are left out", reason)
        if strict:
            raise RowsFailed(message)
        warn(message)
    seen = int(result.seen.sum())
    if seen:
        count = f"{seen:,} of {len(result.rows):,} molecules were used to train or select the model"
        others = "the others have metrics of their own" if result.unseen_metrics else "there are no others in the table"
        warn(f"{count} (splits.csv of the run), so that their metrics are too optimistic; {others}")
    rejected = [{"row": r.row, "line": r.line, "smiles": r.smiles, "reason": r.reason} for r in result.rejected]
    content = {
        "targets": result.metrics,
        "intervals": result.intervals,
        **({"mean": result.mean} if result.mean else {}),
        "rejected": rejected,
        "baseline": result.baseline,
        "seen": seen,
        "unseen": result.unseen_metrics,
    }
    if result.transformed:
        content["transformed"] = result.transformed
    if result.uncertainty:
        content["uncertainty"] = result.uncertainty
    if output_dir is not None:
        from molattn.training.run_folder import write_json
        from molattn.training.run_status import METRICS_FILE
        from molattn.viewer.run_plots import evaluation_plots

        output_dir.mkdir(parents=True, exist_ok=True)
        write_json(output_dir / METRICS_FILE, content)
        plots = evaluation_plots(result, predictor.task, predictor.targets, predictor.units)
        for stem, picture in plots.items():
            picture.save(output_dir / f"{stem}.png")
        if not quiet:
            print_status(
                f"{METRICS_FILE} and {len(plots)} {'plot' if len(plots) == 1 else 'plots'} are in {output_dir}"
            )
    if as_json:
        print_json(content)
    elif not quiet:
        noun = "atoms" if predictor.task.atom_level else "molecules"
        units = dict(zip(predictor.targets, predictor.units, strict=True))
        labels, unseen = result.baseline_labels, result.unseen_metrics
        print_metrics(result.metrics, noun, units, result.baseline, labels, unseen, result.intervals)
        print_transformed(result.transformed)
        if result.uncertainty:
            print_uncertainty(result.uncertainty, noun, units)
