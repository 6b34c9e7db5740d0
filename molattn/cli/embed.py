"""`molattn embed`: learned embeddings for every row of a table."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import (
    Accelerator,
    Force,
    MoleculeTable,
    NumWorkers,
    Precision,
    Quiet,
    Resume,
    Run,
    Shard,
    Strict,
    load_predictor,
    parse_shard,
)
from molattn.cli.table_reading import DEFAULT_READING, TableReading, reads_table
from molattn.cli.terminal import warn


@reads_table()
def embed(
    run: Run,
    table: MoleculeTable,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Output file of the embeddings: .parquet, .csv, .tsv, .xlsx, .sdf or .npy.",
            show_default=False,
        ),
    ],
    reading: TableReading = DEFAULT_READING,
    num_workers: NumWorkers = 0,
    shard: Shard = None,
    resume: Resume = False,
    strict: Strict = False,
    force: Force = False,
    accelerator: Accelerator = "cpu",
    precision: Precision = "32-true",
    quiet: Quiet = False,
) -> None:
    """Embed every row of a table: the input of the model's final linear layer.

    `molattn embed runs/esol in.csv -o out.parquet` keeps every row and column of in.csv, in order, and adds `f0`, `f1`,
    ..., `status` (ok or error) and `error` (the reason). A `.npy` file has only the embeddings, one row for each row of
    the table, NaN where a molecule cannot be read. All other options are those of `molattn predict`.
    """
    from molattn.cli.table_report import TableProgress, report_rows, resume_hint
    from molattn.inference.table_job import TableJob, locked_outputs

    job = TableJob(
        input=reading.input_table(table),
        output=output,
        shard=parse_shard(shard),
        num_workers=num_workers,
        resume=resume,
        strict=strict,
        force=force,
        quiet=quiet,
    )
    with locked_outputs([job]):
        predictor = load_predictor(run, accelerator, precision)
        from molattn.inference.added_columns import embedding_columns
        from molattn.inference.table_engine import run_jobs

        added, progress = embedding_columns(predictor, output), partial(TableProgress, quiet=quiet)
        with resume_hint([job], quiet):
            counts = run_jobs([job], added, progress, warn)
    report_rows(counts, "embedding", "embedded", output, quiet)
