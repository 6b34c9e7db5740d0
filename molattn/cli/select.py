"""`molattn select`: the molecules of a pool to measure next."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import Accelerator, Force, MoleculeTable, Precision, Quiet, Run, Strict, load_predictor
from molattn.cli.table_reading import DEFAULT_READING, TableReading, reads_table
from molattn.cli.terminal import STDIO, print_status, stdout_writer, warn


@reads_table()
def select(
    run: Run,
    table: MoleculeTable,
    size: Annotated[int, typer.Option("--size", "-n", min=1, help="How many molecules are selected.")] = 96,
    strategy: Annotated[
        str, typer.Option(help="uncertainty, expected-improvement or diverse: see below.")
    ] = "uncertainty",
    target: Annotated[
        str | None,
        typer.Option(
            "--target", help="Target to learn or to improve; required if there are several.", show_default=False
        ),
    ] = None,
    goal: Annotated[str, typer.Option(help="For expected-improvement: maximize or minimize.")] = "maximize",
    best: Annotated[
        float | None,
        typer.Option(help="For expected-improvement: the best value measured so far.", show_default=False),
    ] = None,
    uncertainty_method: Annotated[
        str | None,
        typer.Option(
            help="How standard deviations are computed: dropout, ... [default: as trained]", show_default=False
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="For diverse, of the first molecule if the model has no training molecules.")
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Output file: .csv, .tsv, .sdf, .parquet, .xlsx. [default: print]",
            show_default=False,
        ),
    ] = None,
    reading: TableReading = DEFAULT_READING,
    num_workers: Annotated[int, typer.Option("--num-workers", min=0, help="Processes that read molecules.")] = 0,
    strict: Strict = False,
    force: Force = False,
    accelerator: Accelerator = "cpu",
    precision: Precision = "32-true",
    quiet: Quiet = False,
) -> None:
    """Select the molecules of a pool to measure next.

    `molattn select runs/esol pool.csv -n 96 -o next.csv` writes 96 rows of pool.csv, the first choice first, with all
    their columns, the predictions, `selection_score` and `selection_rank`. The strategies:

    - `uncertainty`, to learn: the largest standard deviation of the prediction, from a model trained with
      `--ensemble-size 5`, for example; for classes, the largest entropy of their probabilities.
    - `expected-improvement`, to find better molecules: the largest expected improvement on `--best`.
    - `diverse`, to explore: each next molecule is the one with the largest Tanimoto distance to the training molecules
      and those selected before.

    Rows that cannot be read are not selected; a warning reports how many there are, and the first. The whole table is
    held in memory.
    """
    from molattn.inference.table_job import TableJob, locked_outputs

    output = None if output == Path(STDIO) else output  # both print
    job = TableJob(
        input=reading.input_table(table),
        output=output,
        write_text=stdout_writer() if output is None else None,
        num_workers=num_workers,
        strict=strict,
        force=force,
        quiet=quiet,
    )
    with locked_outputs([job]):
        predictor = load_predictor(run, accelerator, precision)
        from molattn.cli.table_report import TableProgress
        from molattn.inference.selection import SelectionOptions, select_from_table

        options = SelectionOptions(size, strategy, target, goal, best, uncertainty_method or "", seed)
        selection, counts = select_from_table(predictor, job, options, partial(TableProgress, quiet=quiet), warn)
    if counts.failed:
        warn(counts.failure_message("have no prediction"))
    if not quiet and output is not None:
        print_status(f"{len(selection.rows)} of {counts.rows:,} molecules selected, written to {output}")
