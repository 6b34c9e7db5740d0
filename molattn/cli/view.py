"""`molattn view`: what the atoms of molecules attend to, as an HTML page."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.cli.options import (
    Encoding,
    Force,
    NoHeaderRow,
    Quiet,
    Run,
    Sheet,
    Smiles,
    SmilesColumn,
    load_predictor,
    table_options,
)
from molattn.cli.terminal import print_status, warn
from molattn.errors import InputError, RowsFailed, SmilesError, UsageError

if TYPE_CHECKING:
    from molattn.data.tables.options import TableOptions
    from molattn.explain import AttentionMap, Attribution
    from molattn.inference import Predictor
    from molattn.viewer.web.payload import Truth


def view(
    run: Run,
    table: Annotated[
        Path | None,
        typer.Argument(help="A table of molecules, with true values in the columns of the targets, if it has them."),
    ] = None,
    smiles: Smiles = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page, an .html file.")] = Path("page.html"),
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="The most rows of a table to show, from its first.")
    ] = 20,
    smiles_column: SmilesColumn = None,
    encoding: Encoding = None,
    no_header_row: NoHeaderRow = False,
    sheet: Sheet = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop with code 4 at a SMILES that cannot be read.")] = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Make a page that shows what atoms attend to: one file, to open in a browser, to keep or to send.

    `molattn view runs/esol --smiles CCO -o page.html`, or `molattn view runs/esol in.csv -o page.html` for the first
    molecules of a table. The page needs no network and sends nothing.
    """
    if (table is None) == (not smiles):
        raise typer.BadParameter("give either a table or --smiles")
    if smiles and (smiles_column or encoding or no_header_row or sheet):
        names = "--smiles-column, --encoding, --no-header-row and --sheet"
        raise typer.BadParameter(f"{names} go with a table, not with --smiles")
    if output.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{output.name}: the page is an .html file; name it so")
    from molattn.inference.table_job import check_output

    check_output(output, force)
    from molattn.viewer.web import write_page

    predictor = load_predictor(run)
    if table is None:
        texts: list[object] = list(smiles or ())
        places, truth, more = [f"--smiles {text}" for text in texts], [None] * len(texts), ""
    else:
        texts, places, truth, more = _rows(
            predictor, table, smiles_column, limit, table_options(encoding, no_header_row, sheet)
        )
    maps: list[AttentionMap] = []
    true: list[Truth | None] = []
    failed: list[str] = []
    for place, known, made in zip(places, truth, predictor.attentions(texts), strict=True):
        if isinstance(made, SmilesError):
            failed.append(f"{place}: {made.reason}")
        else:
            maps.append(made)
            true.append(known)
    if failed:
        message = f"{len(failed)} of {len(texts)} molecules cannot be shown; the first, {failed[0]}"
        if strict:
            raise RowsFailed(message)
        if not maps:
            raise InputError(message)
        warn(message)
    write_page(output, maps, _attributions(predictor, maps), true)
    if not quiet:
        count = "1 molecule" if len(maps) == 1 else f"{len(maps)} molecules"
        print_status(f"{output} shows {count}{more}: open it in a browser")


def _attributions(predictor: "Predictor", maps: list["AttentionMap"]) -> list["Attribution"]:
    """The attributions for each target; empty if no method supports the model, such as a model of tokens."""
    try:
        smiles = [each.smiles for each in maps]
        return [found for target in predictor.targets for found in predictor.attributions(smiles, target=target)]
    except UsageError:
        return []


def _rows(
    predictor: "Predictor", table: Path, smiles_column: str | None, limit: int, options: "TableOptions"
) -> tuple[list[object], list[str], list["Truth | None"], str]:
    """The first molecules of a table, their places, their true values, and a remark if there are more rows."""
    from molattn.data.tables.readers import open_stream
    from molattn.data.tables.records import guess_smiles_column
    from molattn.data.tables.table import find_column

    with open_stream(table, options=options, warn=warn) as stream:
        column = smiles_column or stream.smiles_column or guess_smiles_column(stream.columns)
        index = find_column(stream.columns, column, stream.source)
        plain = [name.strip() for name in stream.columns]
        targets = {t: plain.index(t) for t in predictor.targets if t in plain}
        texts: list[object] = []
        places: list[str] = []
        truth: list[Truth | None] = []
        for chunk in stream.chunks:
            found = zip(stream.molecule_column(chunk, index), chunk.lines, chunk.rows(), strict=True)
            for text, place, cells in islice(found, limit + 1 - len(texts)):
                texts.append(text)
                places.append(f"{stream.unit} {place}")
                truth.append({t: _value(cells[k]) for t, k in targets.items()})
            if len(texts) > limit:
                break
    if not texts:
        raise InputError(f"{table} has no rows")
    more = f", the first of {table}; --limit shows more" if len(texts) > limit else ""
    return texts[:limit], places[:limit], truth[:limit], more


def _value(text: str) -> float | str | None:
    """A number, or else the name of a class; None for an empty cell."""
    from molattn.data.tables.cells import NUMBER

    bare = text.strip()
    return float(bare) if NUMBER.fullmatch(bare) else bare or None
