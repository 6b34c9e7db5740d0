"""`molattn embed` and `molattn attention`: embeddings and attention weights for every row of a table."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import (
    Decimal,
    Encoding,
    Force,
    InputFormat,
    MoleculeTable,
    NoHeaderRow,
    NumWorkers,
    Quiet,
    Resume,
    Run,
    Shard,
    Sheet,
    SmilesColumn,
    Thousands,
    load_predictor,
    parse_shard,
    table_options,
)
from molattn.cli.terminal import print_status, warn


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
    smiles_column: SmilesColumn = None,
    input_format: InputFormat = None,
    encoding: Encoding = None,
    no_header_row: NoHeaderRow = False,
    sheet: Sheet = None,
    decimal: Decimal = "",
    thousands: Thousands = "",
    num_workers: NumWorkers = 0,
    shard: Shard = None,
    resume: Resume = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop with code 4 if a row has no embedding.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Embed every row of a table: the input of the model's final linear layer.

    `molattn embed runs/esol in.csv -o out.parquet` keeps every row and column of in.csv, in order, and adds `f0`, `f1`,
    ..., `status` (ok or error) and `error` (the reason). A `.npy` file has only the embeddings, one row for each row of
    the table, NaN where a molecule cannot be read. All other options are those of `molattn predict`.
    """
    from molattn.cli.table_report import TableProgress, report_rows
    from molattn.inference.table_job import TableJob, locked_outputs

    job = TableJob(
        input=table,
        output=output,
        smiles_column=smiles_column,
        input_format=input_format,
        table_options=table_options(encoding, no_header_row, sheet, decimal, thousands),
        shard=parse_shard(shard),
        num_workers=num_workers,
        resume=resume,
        strict=strict,
        force=force,
        quiet=quiet,
    )
    with locked_outputs([job]):
        predictor = load_predictor(run)
        from molattn.inference.row_predictor import embedding_task
        from molattn.inference.table_engine import run_jobs

        counts = run_jobs([job], embedding_task(predictor, output), partial(TableProgress, quiet=quiet), warn)
    report_rows(counts, "embedding", "embedded", output, quiet)


def attention(
    run: Run,
    table: MoleculeTable,
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file: .parquet or .csv.", show_default=False)],
    smiles_column: SmilesColumn = None,
    input_format: InputFormat = None,
    encoding: Encoding = None,
    no_header_row: NoHeaderRow = False,
    sheet: Sheet = None,
    layer: Annotated[
        int | None, typer.Option(help="Only this layer; negative numbers count from the last.", show_default=False)
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="Only this head, or the mean or max over all heads.", show_default=False)
    ] = None,
    num_workers: NumWorkers = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Stop with code 4 at a row that cannot be read.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write the attention weights of every molecule of a table, one weight per row.

    `molattn attention runs/esol in.csv -o maps.parquet` has the columns row (of in.csv, from 0), smiles, layer, head,
    receiver, sender, their labels and elements, bond, path_length and weight. A molecule of 25 atoms has 625 weights
    for every layer and head: `--layer -1 --head mean` writes one of them. Tables may be of any length. Rows that cannot
    be read are left out; a warning reports how many there are, and the first.
    """
    from molattn.cli.table_report import TableProgress
    from molattn.inference.table_job import TableJob, check_attention_output

    check_attention_output(output, force, table)
    predictor = load_predictor(run)
    from molattn.inference.attention_table import write_attention

    job = TableJob(
        input=table,
        output=output,
        smiles_column=smiles_column,
        input_format=input_format,
        table_options=table_options(encoding, no_header_row, sheet),
        num_workers=num_workers,
        strict=strict,
    )
    counts = write_attention(predictor, job, partial(TableProgress, quiet=quiet), warn, layer, head)
    if not quiet:
        print_status(f"{counts.weights:,} weights of {counts.rows - counts.failed} molecules, written to {output}")
    if counts.failed:
        warn(counts.failure_message("have no weights"))
