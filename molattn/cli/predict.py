"""`molattn predict`: what a trained model says of molecules, row by row, never stopping at a bad one."""

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molattn.errors import InputError, RowsFailed, UsageError

if TYPE_CHECKING:
    from molattn.api import Predictor, RowPrediction


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a run.", show_default=False)],
    table: Annotated[
        Path | None, typer.Argument(help="A CSV, TSV, Parquet, SMI or SDF table of molecules.", show_default=False)
    ] = None,
    smiles: Annotated[
        list[str] | None, typer.Option("--smiles", "-s", help="A SMILES; may be repeated.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where the table goes. [default: print it]", show_default=False),
    ] = None,
    smiles_column: Annotated[
        str | None, typer.Option(help="Column of SMILES; found by its name if not given.", show_default=False)
    ] = None,
    num_workers: Annotated[int, typer.Option("--num-workers", "-n", min=0, help="Processes that read molecules.")] = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Stop with code 4 if a row has no prediction.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Errors and warnings only.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print rows as JSON, with --smiles.")] = False,
) -> None:
    """Predict molecules given by SMILES, or every row of a table.

    `molattn predict runs/esol --smiles CCO` prints. `molattn predict runs/esol in.csv -o out.csv` keeps every row and
    column of in.csv, in order, and adds `<target>_pred`, `status` (ok or error) and `error` (why). Of a binary target
    the prediction is the probability of 1; of several classes a class, with `<target>_prob_<class>` beside it.
    """
    if (table is None) == (not smiles):
        raise typer.BadParameter("give either a table or --smiles")
    if smiles and (output is not None or smiles_column is not None):
        raise typer.BadParameter("--output and --smiles-column go with a table, not with --smiles")
    if table is not None and as_json:
        raise typer.BadParameter("--json goes with --smiles; a table brings a table")
    if output is not None:
        _check_output(output, table, force)
    from molattn import api

    predictor = api.load(run)
    if smiles:
        failed = _print_smiles(predictor, smiles, as_json)
        first = next((f"--smiles {r.smiles}: {r.error}" for r in failed), "")
        total = len(smiles)
    else:
        assert table is not None
        failed, first, total = _predict_table(predictor, table, smiles_column, output, num_workers, strict, quiet)
        if output is not None and not quiet:
            print(f"{total - len(failed)} of {total} rows predicted, written to {output}", file=sys.stderr)
    if failed:
        count = f"{len(failed)} of {total} rows have no prediction; the first, {first}"
        if strict:
            raise RowsFailed(count)
        print(f"warning: {count}", file=sys.stderr)


def _print_smiles(predictor: "Predictor", smiles: Sequence[str], as_json: bool) -> list["RowPrediction"]:
    """Print one line per SMILES; return the ones that failed."""
    rows = list(predictor.rows(smiles))
    if as_json:
        content = [
            {
                "smiles": r.smiles,
                **dict(zip(predictor.targets, r.values or [None] * len(predictor.targets), strict=True)),
                **dict(zip(predictor.more, r.more or [None] * len(predictor.more), strict=True)),
            }
            | {"status": "error" if r.error else "ok", "error": r.error, "warnings": list(r.warnings)}
            for r in rows
        ]
        json.dump(content, sys.stdout, indent=1)
        print()
        return [r for r in rows if r.error]
    binary = predictor.task.kind == "binary"
    units = ["probability" if binary else u for u in predictor.units]
    heads = [f"{t} ({u})" if u else t for t, u in zip(predictor.targets, units, strict=True)] + [*predictor.more]
    lines = [("smiles", *heads)]
    for r in rows:
        values = [f"error: {r.error}"]
        if r.values is not None:
            values = [v if isinstance(v, str) else f"{v:.3f}" for v in (*r.values, *r.more)]
        lines.append((str(r.smiles), *values))
    width = max(len(line[0]) for line in lines)
    for line in lines:
        print(line[0].ljust(width), *line[1:], sep="  ")
    for r in rows:
        for warning in r.warnings:
            print(f"warning: {r.smiles}: {warning}", file=sys.stderr)
    return [r for r in rows if r.error]


def _predict_table(
    predictor: "Predictor",
    path: Path,
    smiles_column: str | None,
    output: Path | None,
    num_workers: int,
    strict: bool,
    quiet: bool,
) -> tuple[list["RowPrediction"], str, int]:
    """Predict every row of a table; return the rows that failed, the first of them in words, and how many rows."""
    from molattn.api import without_geometry
    from molattn.cli.progress import TerminalReporter
    from molattn.data import guess_smiles_column, read_table, write_table
    from molattn.data.tables import column, write_rows

    table = read_table(path)
    cells = column(table, smiles_column or guess_smiles_column(table.columns))
    added = _new_names([*(f"{t}_pred" for t in predictor.targets), *predictor.more, "status", "error"], table.columns)
    with TerminalReporter(quiet) as reporter:
        total = len(cells)
        # Without 3D, reading is quick.
        told = None if predictor.conformers is None else lambda done: reporter.molecules(done, total)
        rows = list(predictor.rows(cells, num_workers, told))
    if message := without_geometry(rows):
        print(f"warning: {message}", file=sys.stderr)
    for row, reason in table.unreadable.items():
        if not cells[row]:
            rows[row] = replace(rows[row], error=reason)
    failed = [r for r in rows if r.error]
    first = next((f"{table.place(k)}: {r.error}" for k, r in enumerate(rows) if r.error), "")
    if failed and strict:
        return failed, first, len(rows)
    blank = [""] * (len(predictor.targets) + len(predictor.more))
    result = (
        [
            *row,
            *(blank if r.values is None else map(_digits, (*r.values, *r.more))),
            "error" if r.error else "ok",
            r.error,
        ]
        for row, r in zip(table.rows, rows, strict=True)
    )
    columns = (*table.columns, *added)
    if output is None:
        write_rows(sys.stdout, columns, result)
    else:
        write_table(output, columns, result)
    return failed, first, len(rows)


def _digits(value: float | str) -> str:
    """Seven significant digits: all that float32 arithmetic can mean; the name of a class as it is."""
    return value if isinstance(value, str) else f"{value:.7g}"


def _new_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """`names`, numbered where the table has such a column already: nothing of the input is overwritten."""
    fresh: list[str] = []
    for name in names:
        number, candidate = 1, name
        while candidate in taken or candidate in fresh:
            number += 1
            candidate = f"{name}_{number}"
        if candidate != name:
            print(f"warning: the table has a column {name!r}; the new one is {candidate!r}", file=sys.stderr)
        fresh.append(candidate)
    return fresh


def _check_output(output: Path, table: Path | None, force: bool) -> None:
    if table is not None and output.exists() and table.exists() and os.path.samefile(output, table):
        raise UsageError(f"{output} is the input itself: write to another file")
    if output.exists() and not force:
        raise UsageError(f"{output} exists: give another --output, or --force to replace it")
    if not output.absolute().parent.is_dir():
        raise InputError(f"there is no folder {output.absolute().parent}: create it first")
