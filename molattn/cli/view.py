"""`molattn view`: an HTML page of what the atoms of molecules attend to."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.options import (
    Accelerator,
    Decimal,
    Encoding,
    Force,
    NoHeaderRow,
    Quiet,
    Run,
    Sheet,
    Smiles,
    SmilesColumn,
    Strict,
    Thousands,
    load_predictor,
    table_options,
)
from molattn.cli.terminal import print_status, warn
from molattn.errors import InputError, RowsFailed, SmilesError, UsageError, describe_failures

if TYPE_CHECKING:
    from molattn.explain import AttentionMap, Attribution
    from molattn.inference import Predictor
    from molattn.inference.table_job import InputTable
    from molattn.viewer.web.payload import MeasuredValues


def view(
    run: Run,
    table: Annotated[
        Path | None,
        typer.Argument(help="A table of molecules; columns named as the targets are shown as true values."),
    ] = None,
    smiles: Smiles = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Output file, .html.")] = Path("page.html"),
    max_rows: Annotated[int, typer.Option(min=1, help="Show only the first N rows of a table.", metavar="N")] = 20,
    smiles_column: SmilesColumn = None,
    encoding: Encoding = None,
    no_header_row: NoHeaderRow = False,
    sheet: Sheet = None,
    decimal: Decimal = "",
    thousands: Thousands = "",
    strict: Strict = False,
    force: Force = False,
    accelerator: Accelerator = "cpu",
    quiet: Quiet = False,
) -> None:
    """Write an interactive HTML page that shows what atoms attend to.

    `molattn view runs/esol --smiles CCO -o page.html`, or `molattn view runs/esol in.csv -o page.html` for the first
    molecules of a table. The page is a single file that needs no network and sends no data.
    """
    if (table is None) == (not smiles):
        raise typer.BadParameter("give either a table or --smiles")
    if smiles and (smiles_column or encoding or no_header_row or sheet or decimal or thousands):
        names = "--smiles-column, --encoding, --no-header-row, --sheet, --decimal and --thousands"
        raise typer.BadParameter(f"{names} apply only to a table")
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{output.name}: the page is written as .html")
    from molattn.inference.table_job import InputTable, check_output

    check_output(output, force, table)
    from molattn.viewer.web import write_page

    predictor = load_predictor(run, accelerator)
    if table is None:
        texts: list[object] = list(smiles or ())
        locations, truth, note = [f"--smiles {text}" for text in texts], [None] * len(texts), ""
    else:
        options = table_options(encoding, no_header_row, sheet, decimal, thousands)
        source = InputTable(table, smiles_column, options=options)
        texts, locations, truth, note = _rows(predictor, source, max_rows)
    maps: list[AttentionMap] = []
    truth_of_maps: list[MeasuredValues | None] = []
    failed: list[str] = []
    for location, true_values, result in zip(locations, truth, predictor.attentions(texts), strict=True):
        if isinstance(result, SmilesError):
            failed.append(f"{location}: {result.reason}")
        else:
            maps.append(result)
            truth_of_maps.append(true_values)
    if failed:
        message = describe_failures(len(failed), len(texts), "molecules cannot be shown", failed[0])
        if strict:
            raise RowsFailed(message)
        if not maps:
            raise InputError(message)
        warn(message)
    write_page(output, maps, _attributions(predictor, maps), truth_of_maps)
    if not quiet:
        count = "1 molecule" if len(maps) == 1 else f"{len(maps)} molecules"
        print_status(f"{output} shows {count}{note}: open it in a browser")


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


def _rows(
    predictor: "Predictor", table: "InputTable", max_rows: int
) -> tuple[list[object], list[str], list["MeasuredValues | None"], str]:
    """The first molecules of a table, their locations, their true values, and a note if there are more rows."""
    from molattn.data.tables.columns import find_column
    from molattn.data.tables.number_columns import NumberColumns

    with table.open(predictor.read_options.max_atoms, warn) as (stream, smiles_column):
        index = find_column(stream.columns, smiles_column, stream.source)
        names = [name.strip() for name in stream.columns]
        targets = {t: names.index(t) for t in predictor.targets if t in names}
        has_numbers = predictor.task.kind == "regression" and not predictor.task.atom_level
        numbers = NumberColumns(stream, [*targets] if has_numbers else [], table.options, warn)
        texts: list[object] = []
        locations: list[str] = []
        truth: list[MeasuredValues | None] = []
        for chunk in stream.chunks:
            rows_of_chunk = chunk.rows()
            for values, k in zip(numbers.read(chunk), targets.values(), strict=False):  # without numbers, of no target
                for row, value in zip(rows_of_chunk, values, strict=True):
                    row[k] = value if isinstance(value, str) else row[k]
            rows = zip(stream.molecule_column(chunk, index), chunk.lines, rows_of_chunk, strict=True)
            for text, line, cells in islice(rows, max_rows + 1 - len(texts)):
                texts.append(text)
                locations.append(f"{stream.line_kind} {line}")
                truth.append({t: _value(cells[k]) for t, k in targets.items()})
            if len(texts) > max_rows:
                break
    if not texts:
        raise InputError(f"{table.path} has no rows")
    note = f", the first of {table.path}; --max-rows shows more" if len(texts) > max_rows else ""
    return texts[:max_rows], locations[:max_rows], truth[:max_rows], note


def _value(text: str) -> float | str | None:
    """A number, or the name of a class; None for an empty cell."""
    from molattn.data.tables.cells import NUMBER

    text = text.strip()
    return float(text) if NUMBER.fullmatch(text) else text or None
