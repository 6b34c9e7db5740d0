"""`molattn view`: an HTML page of what the atoms of molecules attend to."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.options import Accelerator, Force, Quiet, Run, Smiles, Strict, load_predictor
from molattn.cli.table_reading import DEFAULT_READING, TableReading, reads_table
from molattn.cli.terminal import print_status, warn
from molattn.cli.viewed_rows import ViewedRows, first_rows
from molattn.errors import InputError, RowsFailed, SmilesError, UsageError, describe_failures

if TYPE_CHECKING:
    from molattn.explain import AttentionMap
    from molattn.viewer.web.outcomes import MeasuredValues


@reads_table()
def view(
    run: Run,
    table: Annotated[
        Path | None,
        typer.Argument(help="A table of molecules; columns named as the targets are shown as measured values."),
    ] = None,
    smiles: Smiles = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file, .html.")] = Path("page.html"),
    max_rows: Annotated[int, typer.Option(min=1, help="Show only the first N rows of a table.", metavar="N")] = 20,
    names_column: Annotated[
        str | None, typer.Option(help="Name of the column of names. [default: detected]", show_default=False)
    ] = None,
    reading: TableReading = DEFAULT_READING,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Method of attribution; repeat for several. [default: all]", show_default=False),
    ] = None,
    strict: Strict = False,
    force: Force = False,
    accelerator: Accelerator = "cpu",
    quiet: Quiet = False,
) -> None:
    """Write an interactive HTML page that shows what atoms attend to.

    `molattn view runs/esol --smiles CCO -o page.html`, or `molattn view runs/esol in.csv -o page.html` for the first
    molecules of a table, with an index to sort and to search. The page is a single file that needs no network and sends
    no data. `page.html#molecule=1&layer=0&head=3` opens the second molecule at that layer and head. A second tab shows
    what each atom contributes to the prediction, by every method, with its measured faithfulness.
    """
    if (table is None) == (not smiles):
        raise typer.BadParameter("give either a table or --smiles")
    reading.check_has_table(table, names_column=names_column)
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{output.name}: the page is written as .html")
    from molattn.inference.table_job import check_output

    check_output(output, force, table)
    from molattn.inference.views import page_attributions, page_classes
    from molattn.viewer.web import write_page

    predictor = load_predictor(run, accelerator)
    if table is None:
        rows = ViewedRows(list(smiles or ()), [f"--smiles {text}" for text in smiles or ()], [None] * len(smiles or ()))
    else:
        rows = first_rows(predictor, reading.input_table(table), max_rows, names_column)
    maps: list[AttentionMap] = []
    measured: list[MeasuredValues | None] = []
    names: list[str] = []
    failed: list[str] = []
    for i, result in enumerate(predictor.attentions(rows.smiles)):
        if isinstance(result, SmilesError):
            failed.append(f"{rows.locations[i]}: {result.reason}")
        else:
            maps.append(result)
            measured.append(rows.measured[i])
            names += rows.names[i : i + 1]
    if failed:
        message = describe_failures(len(failed), len(rows.smiles), "molecules cannot be shown", failed[0])
        if strict:
            raise RowsFailed(message)
        if not maps:
            raise InputError(message)
        warn(message)
    attributions = page_attributions(predictor, [attention.smiles for attention in maps], warn, method or ())
    write_page(output, maps, attributions, measured, names, page_classes(predictor))
    if not quiet:
        count = "1 molecule" if len(maps) == 1 else f"{len(maps)} molecules"
        print_status(f"{output} shows {count}{rows.note}: open it in a browser")
