"""`molattn attention`: the attention weights of a whole table of molecules, as one tidy table."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import Force, InputFormat, MoleculeTable, NumWorkers, Quiet, Run, SmilesColumn
from molattn.cli.start import load_predictor
from molattn.cli.terminal import print_status, warn


def attention(
    run: Run,
    table: MoleculeTable,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Where the weights go: .parquet or .csv.", show_default=False)
    ],
    smiles_column: SmilesColumn = None,
    input_format: InputFormat = None,
    layer: Annotated[
        int | None, typer.Option(help="One layer only; negative numbers count from the last.", show_default=False)
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="One head only, or the mean or max of all.", show_default=False)
    ] = None,
    num_workers: NumWorkers = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Stop with code 4 at a row that cannot be read.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write the attention weights of every molecule of a table, one weight per row.

    `molattn attention runs/esol in.csv -o maps.parquet` has the columns row (of in.csv, from 0), smiles, layer, head,
    receiver, sender, their labels and elements, bond, path_length and weight. A molecule of 25 atoms has 625 weights
    for every layer and head: `--layer -1 --head mean` keeps one of them. Tables may be of any length. A row that
    cannot be read is left out, counted and named.
    """
    from molattn.cli.table_report import TableProgress
    from molattn.inference.table_job import check_attention_output

    check_attention_output(output, force)
    predictor = load_predictor(run)
    from molattn.inference.attention_table import write_attention

    counts = write_attention(
        predictor,
        table,
        output,
        partial(TableProgress, quiet=quiet),
        smiles_column=smiles_column,
        input_format=input_format,
        layer=layer,
        head=head,
        num_workers=num_workers,
        strict=strict,
    )
    if not quiet:
        print_status(f"{counts.weights:,} weights of {counts.rows - counts.failed} molecules, written to {output}")
    if counts.warning:
        warn(counts.warning)
