"""The variants of a molecule on a terminal, and as a CSV."""

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from molattn.cli.terminal import print_line

if TYPE_CHECKING:
    from molattn.inference.trade_offs import TradeOffs
    from molattn.inference.what_if import WhatIf, WhatIfRow


def print_variants(found: "TradeOffs", size: int) -> None:
    """Print the parent, the best variants, and how far the predicted changes can be trusted."""
    several = len(found.results) > 1
    for name, result in zip(found.names, found.results, strict=True):
        print_line(_parent(name, result))
    print_line()
    if not found.rows:
        print_line("there is no variant: no hydrogen and no substituent can be replaced")
        return
    header = ["change", "atom", *(["front"] if several else [])]
    for name, result in zip(found.names, found.results, strict=True):
        header += [name if several else "predicted", f"change, {result.level:.0%} interval", "", "measured"]
    rows = []
    for row, on_front in list(zip(found.rows, found.front, strict=True))[:size]:
        cells = [row[0].variant.name, ",".join(map(str, row[0].variant.atoms)), *(["*" if on_front else ""] * several)]
        for property_row in row:
            cells += _cells(property_row)
        score = row[0].accessibility
        rows.append(
            [*cells, "-" if score is None else f"{score:.1f}", ", ".join(row[0].new_alerts), row[0].variant.smiles]
        )
    _print_columns([*header, "SA", "new alerts", "variant"], rows)
    print_line()
    if len(found.rows) > size:
        print_line(f"{size} of {len(found.rows)} variants; -n shows more, and -o variants.csv has all")
    for name, result in zip(found.names, found.results, strict=True):
        print_line(f"{name}: intervals from {interval_source(result)}; {result.agreement_text}")


def interval_source(result: "WhatIf") -> str:
    """Where the intervals of the changes come from, in words."""
    return f"{result.source} of {result.molecules} held-out molecules"


def _parent(name: str, result: "WhatIf") -> str:
    unit = f" {result.unit}" if result.unit else ""
    measured = "" if result.measured is None else f", measured {result.measured:.3g}"
    seen = {True: "; in the training set", False: "; not in the training set", None: ""}[result.known]
    return f"{result.smiles}: {name} {result.prediction:.3g}{unit}{measured}{seen}; {result.goal}"


def _cells(row: "WhatIfRow") -> list[str]:
    """The prediction, the change with its interval, marks, and what was measured."""
    marks = " ".join(mark for mark, holds in (("?", not row.sure), ("far", row.in_domain is False)) if holds)
    effect = "" if row.effect is None else f"{row.effect.mean:+.2f} in {row.effect.count}"
    return [f"{row.prediction:.2f}", f"{row.change:+.2f} ({row.lower:+.2f} to {row.upper:+.2f})", marks, effect]


def _print_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print text in columns; the last one is not padded."""
    widths = [max(map(len, cells)) for cells in zip(header, *rows, strict=True)]
    for cells in (header, *rows):
        padded = [cell.ljust(width) for cell, width in zip(cells[:-1], widths, strict=False)]
        print_line("  ".join([*padded, cells[-1]]).rstrip())


def variant_csv(found: "TradeOffs", size: int | None) -> str:
    """The variants as CSV: atoms and alerts are separated by spaces, and unknown values are empty."""
    frame = found.to_frame()
    frame = frame if size is None else frame.slice(0, size)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(frame.column_names)
    for row in frame.to_pylist():
        writer.writerow(map(_csv_cell, row.values()))
    return text.getvalue()


def _csv_cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " ".join(map(str, value)) if isinstance(value, list) else "" if value is None else value
