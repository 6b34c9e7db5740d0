"""Predictions of a few SMILES, printed as lines or as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from molattn.cli.terminal import console, print_json, print_line, printable, warn
from molattn.errors import RowsFailed

if TYPE_CHECKING:
    from molattn.inference import PredictionOptions, Predictor, RowPrediction
    from molattn.inference.rows import Value

MAX_COLUMNS = 4
"""Up to this many values, each SMILES has a line; above, there is a line for each value."""


def predict_smiles(
    predictor: "Predictor",
    smiles: Sequence[str],
    options: tuple[float | None, str, str, bool],
    as_json: bool,
    strict: bool,
) -> None:
    """Print the prediction of each SMILES; warn of those that failed, or raise RowsFailed if `strict`."""
    from molattn.inference import PredictionOptions

    if failed := _print(predictor, smiles, as_json, PredictionOptions(*options)):
        first = f"--smiles {failed[0].smiles}: {failed[0].error}"
        count = f"{len(failed)} of {len(smiles)} rows have no prediction; the first, {first}"
        if strict:
            raise RowsFailed(count)
        warn(count)


def _format(value: "Value") -> str:
    """A prediction as text."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_format, value))}]"
    return value if isinstance(value, str) else f"{value:.3f}"


def _print(
    predictor: "Predictor", smiles: Sequence[str], as_json: bool, options: "PredictionOptions"
) -> list["RowPrediction"]:
    """Print the predictions of each SMILES; return the ones that failed."""
    from molattn.data.tables.columns import has_unit

    names = [c.name for c in predictor.extra_columns_for(options)]
    rows = list(predictor.predict_rows(smiles, options=options))
    if as_json:
        content = [
            {
                "smiles": r.smiles,
                **dict(zip(predictor.targets, r.values or [None] * len(predictor.targets), strict=True)),
                **dict(zip(names, r.extra_values or [None] * len(names), strict=True)),
            }
            | {"status": "error" if r.error else "ok", "error": r.error, "warnings": list(r.warnings)}
            for r in rows
        ]
        print_json(content)
        return [r for r in rows if r.error]
    units = list(predictor.units)
    if predictor.task.kind == "binary":
        units = [f"probability of {names[1]}" for names in predictor.task.classes] or ["probability"] * len(units)
    header = [
        f"{t} ({u})" if u and not has_unit(t, u) else t for t, u in zip(predictor.targets, units, strict=True)
    ] + names
    if len(header) > MAX_COLUMNS:
        _print_table(header, rows)
    else:
        _print_lines(header, rows)
    for r in rows:
        for warning in r.warnings:
            warn(f"{r.smiles}: {warning}")
    return [r for r in rows if r.error]


def _print_lines(header: Sequence[str], rows: Sequence["RowPrediction"]) -> None:
    """Print a line for each SMILES."""
    lines = [("smiles", *header)]
    for r in rows:
        values = [f"error: {r.error}"]
        if r.values is not None:
            values = list(map(_format, (*r.values, *r.extra_values)))
        lines.append((printable(r.smiles), *values))
    width = max(len(line[0]) for line in lines)
    for line in lines:
        print_line("  ".join([line[0].ljust(width), *line[1:]]))


def _print_table(header: Sequence[str], rows: Sequence["RowPrediction"]) -> None:
    """Print tables with a line for each value, and a column for each of a few SMILES."""
    from rich.table import Table
    from rich.text import Text

    predicted = [r for r in rows if r.values is not None]
    for start in range(0, len(predicted), MAX_COLUMNS):
        part = predicted[start : start + MAX_COLUMNS]
        table = Table()
        table.add_column("", overflow="fold")
        for r in part:
            table.add_column(Text(printable(r.smiles)), justify="right", overflow="fold")
        cells = [map(_format, (*(r.values or ()), *r.extra_values)) for r in part]
        for name, *values in zip(header, *cells, strict=True):
            table.add_row(Text(name), *map(Text, values))
        console().print(table)
    for r in rows:
        if r.values is None:
            print_line(f"{r.smiles}  error: {r.error}")
