"""Drawings for drawing.js: molecules as SVG paths with the positions of their atoms, tokens as boxes in rows."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

from molattn.viewer.discs import drawing_options
from molattn.viewer.glyphs import Glyphs

Drawing = dict[str, Any]
"""A drawing as JSON, see `draw_molecule`."""

RADIUS = 13.0
"""Radius of a disc, in pixels of the drawing; a bond is about 45 long."""

# In pixels of the drawing: the letters of tokens, and the rows of tokens or virtual nodes.
_LETTER_WIDTH = 8.0
_ROW_WIDTH = 620.0
_ROW_HEIGHT = 40.0
_PATH = re.compile(r"<path( class='[^']*')? d='([^']*)' (?:style|fill)='([^']*)'")


def draw_molecule(mol: Chem.Mol, virtual: Sequence[str] = (), glyphs: Glyphs | None = None) -> Drawing:
    """The drawing of a molecule, without the labels of its atoms, which drawing.js places.

    Args:
        mol: from `drawable_molecule` or `prepare_for_drawing`.
        virtual: names of virtual nodes, which are boxes below the molecule.
        glyphs: the letters are added to these, and the drawing refers to them; None for letters in the drawing.

    Returns:
        In pixels of the drawing: `left`, `top`, `width` and `height`; `radius` of a disc; `nodes`, [x, y, half the
        width] of each atom and then of each virtual node; `bonds`, pairs of atoms; and the SVG paths of RDKit, joined
        by style: `lines`, `thin` and `dashed` bonds, and filled shapes, `solid`, among them the letters. With `glyphs`,
        letters are instead in `letters`, [index of the glyph, x, y] of each.
    """
    drawer = draw_at_fixed_scale(mol)
    points = [drawer.GetDrawCoords(i) for i in range(mol.GetNumAtoms())]
    paths: dict[str, list[str]] = {"lines": [], "thin": [], "dashed": [], "solid": []}
    letters: list[list[float]] = []
    for kind, d, style in _PATH.findall(drawer.GetDrawingText()):
        if glyphs is not None and "bond" not in kind and _stroke_kind(style) == "solid":
            letters.append([*glyphs.add(d)])
            continue
        paths[_stroke_kind(style)].append(re.sub(r"\s*([MLQCZ])\s*", r"\1", d.replace(",", " ")).replace("  ", " "))
    margin = RADIUS + 8
    nodes = [[p.x, p.y, RADIUS] for p in points]
    width, height = float(drawer.Width()), float(drawer.Height())
    if virtual:
        # Below the molecule.
        boxes, right, bottom = _rows(virtual, max(width, 200.0))
        nodes += [[x, y + height + 3 * RADIUS, half] for x, y, half in boxes]
        width, height = max(width, right), height + 3 * RADIUS + bottom
    return {
        "left": -margin,
        "top": -margin,
        "width": width + 2 * margin,
        "height": height + 2 * margin,
        "radius": RADIUS,
        "nodes": _rounded(nodes),
        "bonds": [[b.GetBeginAtomIdx(), b.GetEndAtomIdx()] for b in mol.GetBonds()],
        **({} if glyphs is None else {"letters": letters}),
        **{name: "".join(parts) for name, parts in paths.items()},
    }


def draw_at_fixed_scale(mol: Chem.Mol) -> Any:
    """Draw a molecule with bonds of about 45 pixels, whatever its size.

    Args:
        mol: from `drawable_molecule` or `prepare_for_drawing`.

    Returns:
        The `MolDraw2DSVG` of RDKit, for the text, the size and the positions of the atoms.
    """
    drawer = rdMolDraw2D.MolDraw2DSVG(-1, -1)  # the size of the molecule
    options = drawing_options(drawer)
    options.scalingFactor = 30
    options.fixedFontSize = 15
    options.padding = 0.0
    drawer.DrawMolecule(mol)
    drawer.FinishDrawing()
    return drawer


def draw_tokens(tokens: Sequence[str], virtual: Sequence[str] = ()) -> Drawing:
    """The drawing of tokens as boxes in rows, without paths; see `draw_molecule`.

    `indices` are the positions of the labels, [x, y]. `bonds` are adjacent tokens, for navigation by keyboard.
    """
    boxes, width, height = _rows([*tokens, *virtual], _ROW_WIDTH)
    margin = RADIUS + 8
    return {
        "left": -margin,
        "top": -margin,
        "width": width + 2 * margin,
        "height": height + 2 * margin + 8,
        "radius": RADIUS,
        "nodes": _rounded(boxes),
        "indices": _rounded([[x, y + RADIUS + 7] for x, y, _ in boxes[: len(tokens)]]),
        "bonds": [[i, i + 1] for i in range(len(tokens) - 1)],
    }


def _rows(texts: Sequence[str], max_width: float) -> tuple[list[list[float]], float, float]:
    """Arrange boxes for texts in rows of at most `max_width`, or of a single wider box.

    Returns:
        [x, y, half the width] of each box, and the width and height of all rows.
    """
    boxes: list[list[float]] = []
    x = y = right = 0.0
    for text in texts:
        half = max(RADIUS, _LETTER_WIDTH * min(len(text), 24) / 2 + 5)
        if x and x + 2 * half > max_width:
            x, y = 0.0, y + _ROW_HEIGHT
        boxes.append([x + half, y + RADIUS, half])
        x += 2 * half + 4
        right = max(right, x - 4)
    return boxes, right, y + 2 * RADIUS


def _stroke_kind(style: str) -> str:
    """The kind of a path of RDKit by its style: "lines", "thin", "dashed" or "solid"."""
    if "dasharray" in style:
        return "dashed"
    if "fill:none" not in style:
        return "solid"
    return "thin" if "stroke-width:1.0px" in style else "lines"


def _rounded(rows: Iterable[Sequence[float]]) -> list[list[float]]:
    return [[round(x, 1) for x in row] for row in rows]
