"""`molattn heads`: a summary of what each attention head attends to, over the molecules of a table."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import (
    Encoding,
    InputFormat,
    NoHeaderRow,
    NumWorkers,
    Quiet,
    Run,
    Sheet,
    Smiles,
    SmilesColumn,
    load_predictor,
    table_options,
)
from molattn.cli.terminal import print_status, warn
from molattn.errors import UsageError


def heads(
    run: Run,
    table: Annotated[
        Path | None,
        typer.Argument(
            help="A table of molecules; - reads it from standard input. [default: the run's test molecules]",
            show_default=False,
        ),
    ] = None,
    smiles: Smiles = None,
    outputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            help="A table (.csv, .tsv, .parquet) or a figure (.svg, .png); may be repeated.",
            show_default=False,
        ),
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option(min=1, help="Read only this many rows, the first ones.", show_default=False)
    ] = None,
    smiles_column: SmilesColumn = None,
    input_format: InputFormat = None,
    encoding: Encoding = None,
    no_header_row: NoHeaderRow = False,
    sheet: Sheet = None,
    num_workers: NumWorkers = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Stop with code 4 at a row that cannot be read.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the output files.")] = False,
    quiet: Quiet = False,
) -> None:
    """Summarise what every head attends to: near or far atoms, which elements and functional groups.

    `molattn heads runs/esol` reads the test molecules of the run; `--smiles CCO` or a table gives others.
    `molattn heads runs/esol in.csv -o heads.csv -o heads.svg` gives, for each layer and head, the share of attention
    that atoms give to themselves, to bonded atoms and to others by distance, to each element, and to 21 functional
    groups; each next to the share of uniform attention, and their ratio; and the entropy. Memory is bounded. It is
    what the model looks at, not proof of why it answers as it does.
    """
    from molattn.cli.head_report import print_summary
    from molattn.cli.table_report import TableProgress
    from molattn.explain.head_summary import check_summary_output
    from molattn.inference.table_job import check_output

    if table is not None and smiles:
        raise typer.BadParameter("give a table or --smiles, not both")
    if table is None and (smiles_column or input_format or encoding or no_header_row or sheet):
        raise typer.BadParameter(
            "--smiles-column, --input-format, --encoding, --no-header-row and --sheet go with a table"
        )
    outputs = list(outputs or ())
    for path in outputs:
        check_summary_output(path)
        check_output(path, force)

    predictor = load_predictor(run)
    from molattn.inference.attention_table import summarize_smiles, summarize_table

    if table is None:
        texts, places, source = _molecules(run, smiles, max_rows)
        if source and not quiet:
            print_status(source)
        summary, counts = summarize_smiles(predictor, texts, places, num_workers, strict)
    else:
        summary, counts = summarize_table(
            predictor,
            table,
            partial(TableProgress, quiet=quiet),
            smiles_column=smiles_column,
            input_format=input_format,
            table_options=table_options(encoding, no_header_row, sheet),
            warn=warn,
            max_rows=max_rows,
            num_workers=num_workers,
            strict=strict,
        )
    if counts.failed:
        warn(counts.warning("are left out"))
    for path in outputs:
        summary.save(path)
        if not quiet:
            print_status(f"{path} is written")
    if not quiet:
        print_summary(summary)


def _molecules(run: Path, smiles: Sequence[str] | None, max_rows: int | None) -> tuple[list[str], list[str], str]:
    """The SMILES that are given, or those of the run's test molecules; their places; and what they are, in a line."""
    if smiles:
        return [*smiles], [f"--smiles number {i}" for i in range(len(smiles))], ""
    from molattn.explain.run_faithfulness import molecules_of_run

    if not (run / "predictions.csv").is_file():
        raise UsageError(f"{run} has no predictions.csv, which lists its test molecules: give a table or --smiles")
    found = molecules_of_run(run)
    texts = found.smiles[:max_rows]
    return texts, [f"test molecule {i}" for i in range(len(texts))], f"{len(texts):,} test molecules of {found.data}"
