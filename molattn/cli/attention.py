"""`molattn attention`: attention weights of every molecule of a table."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import Accelerator, Force, MoleculeTable, NumWorkers, Quiet, Run, Strict, load_predictor
from molattn.cli.table_reading import DEFAULT_READING, TableReading, reads_table
from molattn.cli.terminal import print_status, warn


@reads_table(without=("decimal", "thousands"))
def attention(
    run: Run,
    table: MoleculeTable,
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file: .parquet or .csv.", show_default=False)],
    reading: TableReading = DEFAULT_READING,
    layer: Annotated[
        int | None, typer.Option(help="Only this layer; negative numbers count from the last.", show_default=False)
    ] = None,
    head: Annotated[
        str | None, typer.Option(help="Only this head, or the mean or max over all heads.", show_default=False)
    ] = None,
    num_workers: NumWorkers = 0,
    strict: Strict = False,
    force: Force = False,
    accelerator: Accelerator = "cpu",
    quiet: Quiet = False,
) -> None:
    """Write the attention weights of every molecule of a table, one weight per row.

    `molattn attention runs/esol in.csv -o maps.parquet` has the columns row (of in.csv, from 0), smiles, layer, head,
    receiver, sender, their labels and elements, bond, path_length and weight. A molecule of 25 atoms has 625 weights
    for every layer and head: `--layer -1 --head mean` writes one of them. Tables may be of any length. Rows that cannot
    be read are left out; a warning reports how many there are, and the first.
    """
    from molattn.cli.table_report import TableProgress
    from molattn.inference.table_job import check_attention_output

    check_attention_output(output, force, table)
    predictor = load_predictor(run, accelerator)
    from molattn.inference.attention_table import write_attention

    progress = partial(TableProgress, quiet=quiet)
    source = reading.input_table(table)
    counts = write_attention(predictor, source, output, progress, warn, layer, head, num_workers, strict)
    if not quiet:
        print_status(f"{counts.weights:,} weights of {counts.rows - counts.failed} molecules, written to {output}")
    if counts.failed:
        warn(counts.failure_message("have no weights"))
