"""Drawings of the page: molecules as SVG paths with the positions of their atoms, tokens as boxes in rows."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

from molattn.viewer.discs import drawing_options
from molattn.viewer.glyphs import Glyphs

Drawing = dict[str, Any]

RADIUS = 13.0
"""Radius of a disc, in pixels of the drawing; a bond is 44 long."""

_LETTER_WIDTH = 8.0  # of a token
_ROW_WIDTH = 620.0  # of tokens
_ROW_HEIGHT = 40.0
_PATH = re.compile(r"<path( class='[^']*')? d='([^']*)' (?:style|fill)='([^']*)'")


def draw_molecule(mol: Chem.Mol, virtual: Sequence[str] = (), glyphs: Glyphs | None = None) -> Drawing:
    """The drawing of a molecule that was prepared for drawing.

    Args:
        mol: from `drawable_molecule`.
        virtual: names of virtual nodes.
        glyphs: receives its letters, which are then `letters`, [index, x, y]; None for those in `solid`.

    Returns:
        `left`, `top`, `width` and `height`; `radius` of a disc; `nodes`, [x, y, half the width] of each atom and then
        of each virtual node; `bonds`, pairs of atoms; and the SVG paths of RDKit, joined by style: `lines`, `thin`,
        `dashed` and `solid`. The page places the labels of the atoms.
    """
    # Flexible size: all molecules are drawn at the same scale.
    drawer = rdMolDraw2D.MolDraw2DSVG(-1, -1)
    options = drawing_options(drawer)
    options.scalingFactor = 30
    options.fixedFontSize = 15
    options.padding = 0.0
    drawer.DrawMolecule(mol)
    drawer.FinishDrawing()
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


def draw_tokens(tokens: Sequence[str], virtual: Sequence[str] = ()) -> Drawing:
    """The drawing of tokens in rows, like `draw_molecule`, with the places of their labels, `indices`.

    Adjacent tokens are "bonded", for keyboard navigation.
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
    """[x, y, half the width] of boxes around texts, in rows of at most `max_width` if possible; and their extent."""
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
    """The kind of a path of RDKit: "lines", "thin", "dashed" or "solid"."""
    if "dasharray" in style:
        return "dashed"
    if "fill:none" not in style:
        return "solid"
    return "thin" if "stroke-width:1.0px" in style else "lines"


def _rounded(rows: Iterable[Sequence[float]]) -> list[list[float]]:
    return [[round(x, 1) for x in row] for row in rows]
