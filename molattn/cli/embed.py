"""`molattn embed`: the fingerprint of every molecule of a table, the input of a model's last layer."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import (
    Force,
    InputFormat,
    MoleculeTable,
    NumWorkers,
    Quiet,
    Resume,
    Run,
    SmilesColumn,
    parse_shard,
)
from molattn.cli.start import load_predictor
from molattn.cli.terminal import warn


def embed(
    run: Run,
    table: MoleculeTable,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where the vectors go: .parquet, .csv, .tsv or .npy.", show_default=False),
    ],
    smiles_column: SmilesColumn = None,
    input_format: InputFormat = None,
    num_workers: NumWorkers = 0,
    shard: Annotated[
        str | None, typer.Option(help="i/n: embed only the i-th of n parts of the rows.", show_default=False)
    ] = None,
    resume: Resume = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop with code 4 if a row has no vector.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Embed every row of a table: the vector before the model's last, linear map, as a fingerprint.

    `molattn embed runs/esol in.csv -o out.parquet` keeps every row and column of in.csv, in order, and adds `f0`, `f1`,
    ..., `status` (ok or error) and `error` (why). A `.npy` file holds only the vectors, one row for each row of the
    table, NaN where a molecule cannot be read. All else is as for `molattn predict`.
    """
    from molattn.cli.table_report import TableProgress, report_rows
    from molattn.inference.table_job import TableJob, is_npy, locked_outputs

    job = TableJob(
        input=table,
        output=output,
        smiles_column=smiles_column,
        input_format=input_format,
        shard=parse_shard(shard),
        num_workers=num_workers,
        resume=resume,
        strict=strict,
        force=force,
        quiet=quiet,
    )
    with locked_outputs([job]):
        predictor = load_predictor(run)
        from molattn.inference.table_engine import run_jobs
        from molattn.inference.table_task import fingerprint_task

        task = fingerprint_task(predictor, numbers_only=is_npy(output))
        counts = run_jobs([job], task, partial(TableProgress, quiet=quiet), warn)
    report_rows(counts, "fingerprint", "embedded", output, quiet)
