"""`molattn heads`: a summary of what each attention head attends to, over the molecules of a table."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from molattn.cli.options import Accelerator, NumWorkers, Quiet, Run, Smiles, Strict, load_predictor
from molattn.cli.table_reading import DEFAULT_READING, TableReading, reads_table
from molattn.cli.terminal import print_status, warn
from molattn.errors import UsageError
from molattn.hub.address import address_text


@reads_table(without=("decimal", "thousands"))
def heads(
    run: Run,
    table: Annotated[
        Path | None,
        typer.Argument(
            help="A table of molecules; - for standard input. [default: the run's test molecules]",
            show_default=False,
        ),
    ] = None,
    smiles: Smiles = None,
    outputs: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            help="Output file: a table (.csv, .tsv, .parquet) or a figure (.svg, .png); may be repeated.",
            show_default=False,
        ),
    ] = None,
    max_rows: Annotated[
        int | None, typer.Option(min=1, help="Read only the first N rows.", metavar="N", show_default=False)
    ] = None,
    reading: TableReading = DEFAULT_READING,
    num_workers: NumWorkers = 0,
    strict: Strict = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the output files.")] = False,
    accelerator: Accelerator = "cpu",
    quiet: Quiet = False,
) -> None:
    """Summarize what every head attends to: near or far atoms, which elements and functional groups.

    `molattn heads runs/esol` reads the test molecules of the run; `--smiles CCO` or a table gives others.
    `molattn heads runs/esol in.csv -o heads.csv -o heads.svg` writes, for each layer and head, the share of attention
    from atoms to themselves, to bonded atoms and to others by distance, to each element, and to 21 functional groups;
    each with the share of uniform attention, and their ratio; and the entropy. Memory is bounded. Attention shows which
    atoms the model reads, and is not by itself an explanation of its predictions.
    """
    from molattn.cli.head_report import print_summary
    from molattn.cli.table_report import TableProgress
    from molattn.explain.head_summary import check_summary_output
    from molattn.inference.table_job import check_output

    if table is not None and smiles:
        raise typer.BadParameter("give a table or --smiles, not both")
    reading.check_has_table(table)
    outputs = list(outputs or ())
    for path in outputs:
        check_summary_output(path)
        check_output(path, force, table)

    predictor = load_predictor(run, accelerator)
    from molattn.inference.attention_table import summarize_smiles, summarize_table

    if table is None:
        texts, locations, source = _molecules(run, smiles, max_rows)
        if source and not quiet:
            print_status(source)
        summary, counts = summarize_smiles(predictor, texts, locations, num_workers, strict)
    else:
        source = reading.input_table(table)
        progress = partial(TableProgress, quiet=quiet)
        summary, counts = summarize_table(predictor, source, progress, warn, max_rows, num_workers, strict)
    if counts.failed:
        warn(counts.failure_message("are left out"))
    for path in outputs:
        summary.save(path)
        if not quiet:
            print_status(f"written to {path}")
    if not quiet:
        print_summary(summary)


def _molecules(run: Path, smiles: Sequence[str] | None, max_rows: int | None) -> tuple[list[str], list[str], str]:
    """The given SMILES, or those of the run's test molecules; their locations for messages; and their description."""
    if smiles:
        texts = [*smiles][:max_rows]
        return texts, [f"--smiles number {i}" for i in range(len(texts))], ""
    from molattn.explain.run_faithfulness import molecules_of_run

    if not (run / "predictions.csv").is_file():
        name = address_text(run)
        raise UsageError(f"{name} has no predictions.csv, which lists its test molecules: give a table or --smiles")
    molecules = molecules_of_run(run)
    texts = molecules.smiles[:max_rows]
    source = f"{len(texts):,} test molecules of {molecules.data}"
    return texts, [f"test molecule {i}" for i in range(len(texts))], source
