"""Where the page has its atoms, tokens and virtual nodes, and the strokes of the bonds between them."""

import math
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

Drawing = dict[str, Any]

RADIUS = 13.0
"""Of a disc, in the drawing's pixels; a bond is 44 long."""

_LETTER = 8.0  # width of a letter of a token
_ROW = 620.0  # width of a row of tokens
_STEP = 40.0  # from row to row
_PATH = re.compile(r"<path( class='[^']*')? d='([^']*)' (?:style|fill)='([^']*)'")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def draw_molecule(mol: Chem.Mol, virtual: Sequence[str] = ()) -> Drawing:
    """A molecule, prepared for drawing, as what the page needs to draw it in its own way.

    Returns:
        `width` and `height`; `radius` of a disc; `at`, [x, y, half the width] of every atom and then of every virtual
        node; `numbers`, [x, y] where the place of each atom in the SMILES is written; `bonds`, pairs of atoms; and the
        paths of SVG that RDKit draws, joined by how they are painted: `lines`, `thin`, `dashed` and `solid`.
    """
    # As large as the molecule: all molecules are drawn to one scale, however many atoms they have.
    drawer = rdMolDraw2D.MolDraw2DSVG(-1, -1)
    options = drawer.drawOptions()
    options.useBWAtomPalette()
    options.addAtomIndices = True
    options.annotationFontScale = 0.6
    options.prepareMolsBeforeDrawing = False
    options.includeMetadata = False
    options.clearBackground = False
    options.scalingFactor = 30
    options.fixedFontSize = 15
    options.padding = 0.0
    drawer.DrawMolecule(mol)
    drawer.FinishDrawing()
    points = [drawer.GetDrawCoords(i) for i in range(mol.GetNumAtoms())]
    paths: dict[str, list[str]] = {"lines": [], "thin": [], "dashed": [], "solid": []}
    digits: list[tuple[float, float, float, float]] = []
    for kind, d, style in _PATH.findall(drawer.GetDrawingText()):
        if "note" in kind:
            digits.append(_box(d))
        else:
            paths[_painted(style)].append(re.sub(r"\s*([MLQCZ])\s*", r"\1", d.replace(",", " ")).replace("  ", " "))
    margin = RADIUS + 8
    at = [[p.x, p.y, RADIUS] for p in points]
    width, height = float(drawer.Width()), float(drawer.Height())
    if virtual:
        # Below the molecule, where no atom is.
        boxes, right, bottom = _rows(virtual, max(width, 200.0))
        at += [[x, y + height + 3 * RADIUS, half] for x, y, half in boxes]
        width, height = max(width, right), height + 3 * RADIUS + bottom
    return {
        "left": -margin,
        "top": -margin,
        "width": width + 2 * margin,
        "height": height + 2 * margin,
        "radius": RADIUS,
        "at": _rounded(at),
        "numbers": _rounded(map(_beside, at, _centres(digits, range(len(points))))),
        "bonds": [[b.GetBeginAtomIdx(), b.GetEndAtomIdx()] for b in mol.GetBonds()],
        **{name: "".join(parts) for name, parts in paths.items()},
    }


def draw_tokens(tokens: Sequence[str], virtual: Sequence[str] = ()) -> Drawing:
    """Tokens in rows, as `draw_molecule` has atoms; neighbours in the row are bonded, for whoever walks along."""
    boxes, width, height = _rows([*tokens, *virtual], _ROW)
    margin = RADIUS + 8
    return {
        "left": -margin,
        "top": -margin,
        "width": width + 2 * margin,
        "height": height + 2 * margin + 8,
        "radius": RADIUS,
        "at": _rounded(boxes),
        "numbers": _rounded([[x, y + RADIUS + 7] for x, y, _ in boxes[: len(tokens)]]),
        "bonds": [[i, i + 1] for i in range(len(tokens) - 1)],
    }


def _rows(texts: Sequence[str], room: float) -> tuple[list[list[float]], float, float]:
    """[x, y, half the width] of boxes around texts, in rows no wider than `room` if it can be; and how far they go."""
    boxes: list[list[float]] = []
    x = y = right = 0.0
    for text in texts:
        half = max(RADIUS, _LETTER * min(len(text), 24) / 2 + 5)
        if x and x + 2 * half > room:
            x, y = 0.0, y + _STEP
        boxes.append([x + half, y + RADIUS, half])
        x += 2 * half + 4
        right = max(right, x - 4)
    return boxes, right, y + 2 * RADIUS


def _box(d: str) -> tuple[float, float, float, float]:
    numbers = [float(x) for x in _NUMBER.findall(d)]
    xs, ys = numbers[::2], numbers[1::2]
    return min(xs), min(ys), max(xs), max(ys)


def _centres(digits: Iterable[tuple[float, float, float, float]], numbers: Iterable[int]) -> list[list[float]]:
    """The middle of each number, whose digits RDKit draws one after the other."""
    rest = iter(digits)
    centres = []
    for number in numbers:
        parts = list(islice(rest, len(str(number))))
        left, top, right, bottom = (f(p[k] for p in parts) for k, f in enumerate((min, min, max, max)))
        centres.append([(left + right) / 2, (top + bottom) / 2])
    return centres


def _beside(place: Sequence[float], number: Sequence[float]) -> list[float]:
    """Where a number stands just outside of a disc, on the side on which RDKit found room for it."""
    x, y = number[0] - place[0], number[1] - place[1]
    far = math.hypot(x, y) or 1.0
    return [place[0] + x / far * (RADIUS + 6), place[1] + y / far * (RADIUS + 6)]


def _painted(style: str) -> str:
    """Which of the four kinds of strokes a path of RDKit's is."""
    if "dasharray" in style:
        return "dashed"
    if "fill:none" not in style:
        return "solid"
    return "thin" if "stroke-width:1.0px" in style else "lines"


def _rounded(rows: Iterable[Sequence[float]]) -> list[list[float]]:
    return [[round(x, 1) for x in row] for row in rows]
