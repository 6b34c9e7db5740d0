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
    from molattn.explain import AttentionMap, Attribution
    from molattn.inference import Predictor
    from molattn.viewer.web.payload import MeasuredValues


@reads_table()
def view(
    run: Run,
    table: Annotated[
        Path | None,
        typer.Argument(help="A table of molecules; columns named as the targets are shown as true values."),
    ] = None,
    smiles: Smiles = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file, .html.")] = Path("page.html"),
    max_rows: Annotated[int, typer.Option(min=1, help="Show only the first N rows of a table.", metavar="N")] = 20,
    names_column: Annotated[
        str | None, typer.Option(help="Name of the column of names. [default: detected]", show_default=False)
    ] = None,
    reading: TableReading = DEFAULT_READING,
    strict: Strict = False,
    force: Force = False,
    accelerator: Accelerator = "cpu",
    quiet: Quiet = False,
) -> None:
    """Write an interactive HTML page that shows what atoms attend to.

    `molattn view runs/esol --smiles CCO -o page.html`, or `molattn view runs/esol in.csv -o page.html` for the first
    molecules of a table, with an index to sort and to search. The page is a single file that needs no network and sends
    no data. `page.html#molecule=1&layer=0&head=3` opens the second molecule at that layer and head.
    """
    if (table is None) == (not smiles):
        raise typer.BadParameter("give either a table or --smiles")
    reading.check_has_table(table, names_column=names_column)
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{output.name}: the page is written as .html")
    from molattn.inference.table_job import check_output

    check_output(output, force, table)
    from molattn.viewer.web import write_page

    predictor = load_predictor(run, accelerator)
    if table is None:
        rows = ViewedRows(list(smiles or ()), [f"--smiles {text}" for text in smiles or ()], [None] * len(smiles or ()))
    else:
        rows = first_rows(predictor, reading.input_table(table), max_rows, names_column)
    maps: list[AttentionMap] = []
    truth_of_maps: list[MeasuredValues | None] = []
    names_of_maps: list[str] = []
    failed: list[str] = []
    for i, result in enumerate(predictor.attentions(rows.smiles)):
        if isinstance(result, SmilesError):
            failed.append(f"{rows.locations[i]}: {result.reason}")
        else:
            maps.append(result)
            truth_of_maps.append(rows.truth[i])
            names_of_maps += rows.names[i : i + 1]
    if failed:
        message = describe_failures(len(failed), len(rows.smiles), "molecules cannot be shown", failed[0])
        if strict:
            raise RowsFailed(message)
        if not maps:
            raise InputError(message)
        warn(message)
    write_page(output, maps, _attributions(predictor, maps), truth_of_maps, names_of_maps)
    if not quiet:
        count = "1 molecule" if len(maps) == 1 else f"{len(maps)} molecules"
        print_status(f"{output} shows {count}{rows.note}: open it in a browser")


def _attributions(predictor: "Predictor", maps: list["AttentionMap"]) -> list["Attribution"]:
    """The attributions for each target; empty for a model that has none, such as a model of tokens.

    Warns if there are none for another reason, or not for all molecules.
    """
    from molattn.explain.methods import unsupported_model_reason

    if unsupported_model_reason(predictor.model):
        return []
    smiles = [attention.smiles for attention in maps]
    try:
        results = [a for target in predictor.targets for a in predictor.attribution_rows(smiles, target=target)]
    except UsageError as error:
        warn(f"the page has no attributions: {error}")
        return []
    if failed := [str(result) for result in results if isinstance(result, SmilesError)]:
        warn(describe_failures(len(failed), len(results), "attributions are missing", failed[0]))
    return [result for result in results if not isinstance(result, SmilesError)]
