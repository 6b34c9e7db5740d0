"""Predictions of a few SMILES, printed as lines or as JSON."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from molattn.cli.terminal import print_json, print_line, printable, warn
from molattn.errors import RowsFailed

if TYPE_CHECKING:
    from molattn.inference import PredictionOptions, Predictor, RowPrediction
    from molattn.inference.rows import Value


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
    """Print one line per SMILES; return the ones that failed."""
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
    binary = predictor.task.kind == "binary"
    units = ["probability" if binary else u for u in predictor.units]
    header = [f"{t} ({u})" if u else t for t, u in zip(predictor.targets, units, strict=True)] + names
    lines = [("smiles", *header)]
    for r in rows:
        values = [f"error: {r.error}"]
        if r.values is not None:
            values = list(map(_format, (*r.values, *r.extra_values)))
        lines.append((printable(r.smiles), *values))
    width = max(len(line[0]) for line in lines)
    for line in lines:
        print_line("  ".join([line[0].ljust(width), *line[1:]]))
    for r in rows:
        for warning in r.warnings:
            warn(f"{r.smiles}: {warning}")
    return [r for r in rows if r.error]
