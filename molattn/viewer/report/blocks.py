"""What the sections of a report are made of: paragraphs, tables, molecules, and what was not measured.

The page shows any of these dictionaries without knowing what a section is about.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Block = dict[str, Any]
Cell = str | float | int | None | dict[str, int]

_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")


def section(name: str, title: str, blocks: Iterable[Block], target: int | None = None) -> Block:
    """A section with an identifier and a title; with `target` it is shown only for that target."""
    return {"id": name, "title": title, "blocks": list(blocks), "target": target}


def paragraph(text: str, command: str = "") -> Block:
    """A paragraph of plain text, which may end with a command."""
    return {"kind": "text", "text": clean(text), "command": clean(command)}


def not_measured(what: str, command: str = "") -> Block:
    """A sentence on what is missing, and the command that measures it."""
    return {"kind": "missing", "text": clean(what), "command": clean(command)}


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Block:
    """A table; its cells are texts, numbers, None, or molecules: see `molecule`."""
    return {
        "kind": "table",
        "caption": clean(caption),
        "columns": [clean(name) for name in columns],
        "rows": [[_cell(cell) for cell in row] for row in rows],
    }


def molecule(index: int) -> dict[str, int]:
    """A cell that shows a molecule of the report and opens it."""
    return {"molecule": int(index)}


def cards(indices: Iterable[int]) -> Block:
    """Molecules side by side, with their numbers."""
    return {"kind": "cards", "molecules": [int(i) for i in indices]}


def curve(
    x_label: str, y_label: str, series: Mapping[str, tuple[Sequence[float], Sequence[float]]], mark: Any
) -> Block:
    """Lines by name, each of x and y; `mark` is a pair of a number on the x axis and its label, or None."""
    lines = [
        {"name": clean(name), "points": [[number(a), number(b)] for a, b in zip(x, y, strict=True)]}
        for name, (x, y) in series.items()
    ]
    return {"kind": "curve", "x": clean(x_label), "y": clean(y_label), "lines": lines, "mark": mark}


def folded(title: str, blocks: Iterable[Block]) -> Block:
    """Blocks that are folded away at first."""
    return {"kind": "folded", "title": clean(title), "blocks": list(blocks)}


def clean(text: object) -> str:
    """Text with control characters, lone surrogates and direction marks replaced."""
    return _INVISIBLE.sub("\ufffd", str(text))


def number(value: Any) -> float | None:
    """A number for JSON with six digits; None for NaN and infinity, which JSON lacks."""
    return None if value is None or not math.isfinite(value) else float(f"{float(value):.6g}")


def _cell(cell: Cell) -> Cell:
    if isinstance(cell, str):
        return clean(cell)
    if isinstance(cell, dict) or cell is None:
        return cell
    return int(cell) if isinstance(cell, int) else number(cell)
