"""The blocks that the sections of a report consist of: paragraphs, tables, molecules, curves, missing measurements.

The page shows each kind of block in the same way in all sections.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from molattn.viewer.web.json_values import json_number, visible_text

Block = dict[str, Any]
"""A part of a section for the page; its "kind" is the name of the function of report.js that shows it."""

Cell = str | float | int | None | dict[str, int]
"""A cell of a `table`; a dictionary is a `molecule`."""


def section(name: str, title: str, blocks: Iterable[Block], target: int | None = None) -> Block:
    """A section of the report.

    Args:
        name: its id in the page, and in the address of a link to it.
        title: its heading.
        blocks: its content.
        target: index of the target that it is shown for; None for all targets.
    """
    return {"id": name, "title": title, "blocks": list(blocks), "target": target}


def paragraph(text: str, command: str = "") -> Block:
    """A paragraph of plain text, followed by a command unless that is empty."""
    return {"kind": "text", "text": visible_text(text), "command": visible_text(command)}


def not_measured(text: str, command: str = "") -> Block:
    """A sentence about a missing measurement, and the command that measures it, or "" if there is none."""
    return {"kind": "missing", "text": visible_text(text), "command": visible_text(command)}


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Block:
    """A table with a caption, which may be empty; None is an empty cell, and `molecule` makes one with a molecule."""
    return {
        "kind": "table",
        "caption": visible_text(caption),
        "columns": [visible_text(name) for name in columns],
        "rows": [[_cell(cell) for cell in row] for row in rows],
    }


def molecule(index: int) -> dict[str, int]:
    """A cell that shows the molecule with that index, and opens its panel when clicked."""
    return {"molecule": int(index)}


def cards(indices: Iterable[int]) -> Block:
    """A grid of molecules with these indices, each with its true and predicted value."""
    return {"kind": "cards", "molecules": [int(i) for i in indices]}


def curve(
    x_label: str, y_label: str, series: Mapping[str, tuple[Sequence[float], Sequence[float]]], mark: Any
) -> Block:
    """A line plot.

    Args:
        x_label, y_label: labels of the axes.
        series: the x and y of each line, by name.
        mark: a vertical line, as a pair of its x and its label; None for none.
    """
    lines = [
        {"name": visible_text(name), "points": [[json_number(a), json_number(b)] for a, b in zip(x, y, strict=True)]}
        for name, (x, y) in series.items()
    ]
    return {"kind": "curve", "x": visible_text(x_label), "y": visible_text(y_label), "lines": lines, "mark": mark}


def folded(title: str, blocks: Iterable[Block]) -> Block:
    """Blocks that are hidden until their title is clicked."""
    return {"kind": "folded", "title": visible_text(title), "blocks": list(blocks)}


def _cell(cell: Cell) -> Cell:
    if isinstance(cell, str):
        return visible_text(cell)
    if isinstance(cell, dict) or cell is None:
        return cell
    return int(cell) if isinstance(cell, int) else json_number(cell)
