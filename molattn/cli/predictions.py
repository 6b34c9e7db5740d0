"""Predictions of a few SMILES, printed as lines or as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from molattn.cli.terminal import console, print_json, print_line, printable, warn
from molattn.errors import RowsFailed, describe_failures

if TYPE_CHECKING:
    from molattn.inference import OnnxPredictor, PredictionOptions, Predictor, RowPrediction
    from molattn.inference.rows import Value

MAX_COLUMNS = 4
"""Up to this many values, there is a line for each SMILES; above, a line for each value."""


def predict_smiles(
    predictor: "Predictor | OnnxPredictor",
    smiles: Sequence[str],
    options: "PredictionOptions",
    as_json: bool,
    strict: bool,
) -> None:
    """Print the prediction of each SMILES; warn of those that failed, or raise RowsFailed if `strict`."""
    rows = list(predictor.predict_rows(smiles, options=options))
    extra_names = [column.name for column in predictor.extra_value_columns(options)]
    if as_json:
        _print_json(predictor, extra_names, rows)
    else:
        _print(predictor, extra_names, rows)
    if failed := [row for row in rows if row.error]:
        first = f"--smiles {failed[0].smiles}: {failed[0].error}"
        message = describe_failures(len(failed), len(smiles), "rows have no prediction", first)
        if strict:
            raise RowsFailed(message)
        warn(message)


def _format(value: "Value") -> str:
    """A prediction as text."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_format, value))}]"
    return value if isinstance(value, str) else f"{value:.3f}"


def _print_json(
    predictor: "Predictor | OnnxPredictor", extra_names: Sequence[str], rows: Sequence["RowPrediction"]
) -> None:
    """Print a JSON object for each SMILES; values are null where a row failed."""
    content = []
    for r in rows:
        values = dict(zip(predictor.targets, r.values or [None] * len(predictor.targets), strict=True))
        extra = dict(zip(extra_names, r.extra_values or [None] * len(extra_names), strict=True))
        status = {"status": "error" if r.error else "ok", "error": r.error, "warnings": list(r.warnings)}
        content.append({"smiles": r.smiles, **values, **extra, **status})
    print_json(content)


def _print(predictor: "Predictor | OnnxPredictor", extra_names: Sequence[str], rows: Sequence["RowPrediction"]) -> None:
    """Print the predictions as text, and the molecules' warnings."""
    from molattn.data.tables.units import name_has_unit

    units = list(predictor.units)
    if predictor.task.kind == "binary":
        units = [f"probability of {names[1]}" for names in predictor.task.classes] or ["probability"] * len(units)
    named = zip(predictor.targets, units, strict=True)
    header = [*(f"{t} ({u})" if u and not name_has_unit(t, u) else t for t, u in named), *extra_names]
    if len(header) > MAX_COLUMNS:
        _print_table(header, rows)
    else:
        _print_lines(header, rows)
    for r in rows:
        for warning in r.warnings:
            warn(f"{r.smiles}: {warning}")


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
