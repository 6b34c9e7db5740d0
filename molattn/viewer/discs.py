"""A molecule over a disc for every atom: what attention, and values of atoms, are drawn with."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from molattn.errors import UsageError
from molattn.viewer.molecule import places_of
from molattn.viewer.picture import Picture

Colour = tuple[float, float, float]

DARKEST: Colour = (0.35, 0.62, 0.87)
"""Blue: a disc at the largest weight, or at the value furthest below 0. Black on it has a contrast of 7 to 1."""

ORANGE: Colour = (0.96, 0.64, 0.25)
"""A disc at the largest value, where some may be below 0; told apart from blue by every kind of colour vision."""

_RING: Colour = (0.84, 0.37, 0.0)
_OUTLINE: Colour = (0.75, 0.8, 0.85)
_BLACK: Colour = (0.0, 0.0, 0.0)
_GREY: Colour = (0.35, 0.35, 0.35)
_RADIUS = 0.42  # of a disc; a bond is 1.5 long
_LEGEND = 86  # height in pixels
_USUAL, _SMALLEST, _LARGEST = (480, 388), (260, 188), (1600, 1200)  # width and height of a picture in pixels
_READABLE = 20  # pixels for the length of 1 in a drawing, so that a bond has 30 and its atoms' numbers can be read


@dataclass(frozen=True)
class Scale:
    """From a value to a colour, white at 0, and what stands at the ends of its strip."""

    low: float
    high: float
    at_low: str
    at_high: str
    above: Colour = DARKEST
    below: Colour = DARKEST

    def colour(self, value: float) -> Colour:
        """`above` at `high`, `below` as far below 0."""
        share = value / self.high
        return disc_colour(share, self.above) if share >= 0 else disc_colour(-share, self.below)


def disc_colour(share: float, darkest: Colour = DARKEST) -> Colour:
    """White for 0, `darkest` for 1, straight between them."""
    share = min(max(share, 0.0), 1.0)
    red, green, blue = (1 - share * (1 - channel) for channel in darkest)
    return red, green, blue


def draw_discs(
    mol: Chem.Mol,
    values: np.ndarray,
    scale: Scale,
    words: Sequence[str],
    title: str,
    *,
    ringed: int | None = None,
    notes: Sequence[str] = (),
    foot: str = "",
    size: tuple[int, int] | None = None,
) -> Picture:
    """The molecule over discs for the values of its atoms; an atom whose value is NaN has none.

    Args:
        mol: as `drawable` makes it.
        values: (n,).
        scale: their colours.
        words: two lines below the molecule.
        title: of the SVG, which screen readers read.
        ringed: an atom that a ring marks.
        notes: n texts that stand at the atoms in the place of their numbers.
        foot: a line below the scale, small; cut where it is longer than two.
        size: width and height of the SVG in pixels, by default what the molecule needs.

    Raises:
        UsageError: the size is too small.
    """
    width, height = fitting(mol) if size is None else size
    if width < _SMALLEST[0] or height < _SMALLEST[1]:
        raise UsageError(f"size is at least {_SMALLEST[0]} x {_SMALLEST[1]} pixels, not {width} x {height}")
    if notes:
        mol = Chem.Mol(mol)
        for atom, note in zip(mol.GetAtoms(), notes, strict=True):
            atom.SetProp("atomNote", note)
    svg = rdMolDraw2D.MolDraw2DSVG(width, height, width, height - _LEGEND)
    png = rdMolDraw2D.MolDraw2DCairo(2 * width, 2 * height, 2 * width, 2 * (height - _LEGEND))
    for drawer, zoom in ((svg, 1), (png, 2)):
        _draw(drawer, mol, values, scale, ringed, zoom, not notes)
        _legend(drawer, (*words, *textwrap.wrap(foot, width // 5)[:2]), scale, zoom)
        drawer.FinishDrawing()
    head, mark, rest = svg.GetDrawingText().partition("<!-- END OF HEADER -->")
    assert mark  # RDKit writes it
    # RDKit declares Latin-1; what it writes is ASCII, and files of pictures are UTF-8.
    head = head.replace("iso-8859-1", "UTF-8")
    return Picture(f"{head}<title>{escape(title)}</title>\n{rest.lstrip()}", png.GetDrawingText())


def fitting(mol: Chem.Mol) -> tuple[int, int]:
    """The size of a picture in which the numbers at the atoms can be read, if it need not be huge."""
    wide, high = np.ptp(places_of(mol), axis=0) + 3.0
    wanted = (int(_READABLE * wide), int(_READABLE * high) + _LEGEND)
    width, height = (max(u, min(w, m)) for u, w, m in zip(_USUAL, wanted, _LARGEST, strict=True))
    return width, height


def atom_places(
    mol: Chem.Mol, width: int, height: int, zoom: int, indices: bool = True
) -> tuple[list[tuple[float, float]], float]:
    """Where a drawing of that size has its atoms, and the radius of its discs, in pixels."""
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    drawing_options(drawer, zoom, 1.0, indices)
    drawer.DrawMolecule(mol)
    points = [drawer.GetDrawCoords(i) for i in range(mol.GetNumAtoms())]
    zero, one = (drawer.GetDrawCoords(Point2D(x, 0.0)) for x in (0.0, _RADIUS))
    return [(p.x, p.y) for p in points], one.x - zero.x


def drawing_options(drawer: Any, zoom: int, line: float, indices: bool = True) -> None:
    """How molecules are drawn here; with the places of the atoms beside them, or without."""
    options = drawer.drawOptions()
    options.useBWAtomPalette()
    options.addAtomIndices = indices
    options.annotationFontScale = 0.6
    options.prepareMolsBeforeDrawing = False
    options.includeMetadata = False
    options.clearBackground = False
    options.fixedBondLength = 45 * zoom
    options.bondLineWidth = line
    options.minFontSize, options.maxFontSize = 6 * zoom, 16 * zoom
    options.padding = 0.12


def draw_disc(drawer: Any, x: float, y: float, radius: float, colour: Colour, fill: bool, line: float = 1.0) -> None:
    """A filled disc, or its outline."""
    drawer.SetFillPolys(fill)
    drawer.SetColour(colour)
    drawer.SetLineWidth(line)
    drawer.DrawEllipse(Point2D(x - radius, y - radius), Point2D(x + radius, y + radius), True)


def _draw(
    drawer: Any, mol: Chem.Mol, values: np.ndarray, scale: Scale, ringed: int | None, zoom: int, indices: bool
) -> None:
    """Discs and ring below, the molecule above them."""
    centres, radius = atom_places(mol, drawer.Width(), drawer.Height() - zoom * _LEGEND, zoom, indices)
    line = min(2.0 * zoom, radius / 8)  # thinner where a big molecule is drawn small
    drawer.ClearDrawing()
    for value, (x, y) in zip(values.tolist(), centres, strict=True):
        if not np.isnan(value):
            draw_disc(drawer, x, y, radius, scale.colour(value), fill=True)
            draw_disc(drawer, x, y, radius, _OUTLINE, fill=False, line=line / 2)
    if ringed is not None:
        draw_disc(drawer, *centres[ringed], radius, _RING, fill=False, line=1.5 * line)
    drawing_options(drawer, zoom, line, indices)
    drawer.DrawMolecule(mol)


def _legend(drawer: Any, lines: Sequence[str], scale: Scale, zoom: int) -> None:
    """Two lines of words, on a third a strip of the colours of the scale, and the foot below it."""
    top, middle = drawer.Height() - zoom * _LEGEND, drawer.Width() / 2
    looks = ((8, 13.0, _BLACK), (25, 13.0, _BLACK), (64, 10.0, _GREY), (76, 10.0, _GREY))
    for text, (y, font, colour) in zip(lines, looks, strict=False):
        fits = max(6.0, 1.85 * drawer.Width() / zoom / max(len(text), 1))  # letters are about half as wide as high
        drawer.SetColour(colour)
        drawer.SetFontSize(zoom * min(font, fits))
        drawer.DrawString(text, Point2D(middle, top + zoom * y), 0, True)
    y, steps, step = top + zoom * 45, 24, 4 * zoom
    left = middle - steps * step / 2 + 30 * zoom
    drawer.SetColour(_BLACK)
    drawer.SetFontSize(12.0 * zoom)
    drawer.DrawString(scale.at_low, Point2D(left - 5 * zoom, y), 2, True)
    drawer.DrawString(scale.at_high, Point2D(left + steps * step + 8 * zoom, y), 1, True)
    drawer.SetFillPolys(True)
    drawer.SetLineWidth(1)
    for k in range(steps):
        drawer.SetColour(scale.colour(scale.low + (scale.high - scale.low) * k / (steps - 1)))
        x = left + k * step
        drawer.DrawRect(Point2D(x, y - 5 * zoom), Point2D(x + step, y + 5 * zoom), True)
