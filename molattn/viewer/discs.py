"""Molecules prepared for drawing, and drawn with a disc under each atom."""

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from molattn.chem import MAX_ATOMS, read_smiles
from molattn.errors import UsageError
from molattn.explain import AttentionMap
from molattn.explain.attention_map import check_symbols
from molattn.viewer.labels import place_labels
from molattn.viewer.layout import lay_out
from molattn.viewer.palette import ATTENTION, BELOW, MARK, Color, to_color
from molattn.viewer.picture import Picture
from molattn.viewer.svg_text import share_letters

_GAP = 2.4  # between fragments; a bond is 1.5 long


def molecule_of(attention: AttentionMap) -> Chem.Mol:
    """The molecule of a map, prepared for drawing.

    Raises:
        UsageError: the nodes of the map are tokens.
        InputError: the atoms of the map are not those of its SMILES.
    """
    if attention.position_type != "atoms":
        raise UsageError("the nodes of this attention map are tokens of a SMILES, not atoms: draw it with heat_map")
    return drawable_molecule(attention.smiles, attention.symbols, attention.add_hs, "the attention map")


def drawable_molecule(smiles: str, symbols: Sequence[str], add_hs: bool, owner: str) -> Chem.Mol:
    """The molecule of a SMILES as the models read it, with 2D coordinates: see `positions_2d`.

    Atom map numbers are removed, since they could be mistaken for atom indices.

    Args:
        smiles: the SMILES.
        symbols: the expected element symbols of its atoms, in order.
        add_hs: whether hydrogens are atoms.
        owner: the object with these symbols, for the error, such as "the attribution".

    Raises:
        InputError: its atoms have other symbols.
    """
    mol = read_smiles(smiles, add_hs=add_hs, max_atoms=max(MAX_ATOMS, len(symbols)))
    check_symbols(owner, smiles, symbols, [atom.GetSymbol() for atom in mol.GetAtoms()])
    return prepare_for_drawing(mol)


def prepare_for_drawing(mol: Chem.Mol) -> Chem.Mol:
    """Prepare a molecule for drawing without changing its atoms: see `drawable_molecule`."""
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)
    if not mol.GetNumConformers():
        lay_out(mol)
    # Add no hydrogens at stereocenters: they would be atoms without a value.
    mol = rdMolDraw2D.PrepareMolForDrawing(mol, kekulize=True, addChiralHs=False)
    _separate_fragments(mol)
    return mol


def positions_2d(mol: Chem.Mol) -> np.ndarray:
    """The 2D coordinates of the atoms, (n, 2); a bond is about 1.5 long, and y points up."""
    return mol.GetConformer().GetPositions()[:, :2]


def _separate_fragments(mol: Chem.Mol) -> None:
    """Place fragments side by side with a gap, since RDKit lets their labels touch."""
    fragments = Chem.GetMolFrags(mol)
    if len(fragments) == 1:
        return
    positions, left = positions_2d(mol).copy(), 0.0
    for fragment in map(list, fragments):
        low, high = positions[fragment].min(0), positions[fragment].max(0)
        positions[fragment] += [left - low[0], -(low[1] + high[1]) / 2]
        left += high[0] - low[0] + _GAP
    conformer = mol.GetConformer()
    for i, (x, y) in enumerate(positions):
        conformer.SetAtomPosition(i, (float(x), float(y), 0.0))


_RING: Color = to_color(MARK)
_OUTLINE: Color = (0.75, 0.8, 0.85)
_BLACK: Color = (0.0, 0.0, 0.0)
_GRAY: Color = (0.35, 0.35, 0.35)
_LETTER = re.compile(r"<path (?:class='atom[^']*' )?d='(M[^']*)' (fill='[^']*')/>")
_RADIUS = 0.42  # of a disc; a bond is 1.5 long
_LEGEND_HEIGHT = 86  # pixels
_DEFAULT_SIZE, _MIN_SIZE, _MAX_SIZE = (480, 388), (260, 188), (1600, 1200)  # width and height of a picture in pixels
_PIXELS_PER_UNIT = 20  # of length, so that a bond has 30 and the atom indices are readable


@dataclass(frozen=True)
class Scale:
    """A color scale from `low` to `high`, white at 0, with labels at both ends."""

    low: float
    high: float
    low_label: str
    high_label: str
    positive: Color = ATTENTION
    negative: Color = BELOW

    def color(self, value: float) -> Color:
        """The color of a value: `positive` at `high`, `negative` at `-high`."""
        fraction = value / self.high
        return disc_color(fraction, self.positive) if fraction >= 0 else disc_color(-fraction, self.negative)


def disc_color(fraction: float, darkest: Color = ATTENTION) -> Color:
    """White for 0, `darkest` for 1, linear in between."""
    fraction = min(max(fraction, 0.0), 1.0)
    red, green, blue = (1 - fraction * (1 - channel) for channel in darkest)
    return red, green, blue


def format_values(values: np.ndarray, plus: bool = True) -> list[str]:
    """Numbers with the decimals that the largest needs for two significant digits, or three from 1 on.

    Args:
        values: finite numbers, (n,).
        plus: whether numbers above 0 begin with a plus.

    >>> format_values(np.array([1.234, -0.05, 0.0]))
    ['+1.23', '-0.05', '0.00']
    """
    power = math.floor(math.log10(float(np.abs(values).max(initial=0.0)) or 1.0))
    decimals = min(max(1 - power if power < 0 else 2 - power, 0), 9)
    # Adding 0.0 turns -0.0 into 0.0.
    rounded = np.round(values, decimals) + 0.0
    sign = "+" if plus else ""
    return [f"{x:{sign}.{decimals}f}" if x else f"{0:.{decimals}f}" for x in rounded]


def draw_discs(
    mol: Chem.Mol,
    values: np.ndarray,
    scale: Scale,
    caption: Sequence[str],
    title: str,
    *,
    ring_atom: int | None = None,
    notes: Sequence[str] = (),
    footer: str = "",
    size: tuple[int, int] | None = None,
) -> Picture:
    """Draw a molecule with a disc under each atom for its value; atoms with NaN have no disc.

    Args:
        mol: from `drawable_molecule`.
        values: (n,).
        scale: the color scale.
        caption: two lines below the molecule.
        title: title of the SVG, for screen readers.
        ring_atom: index of an atom to mark with a ring.
        notes: n texts at the atoms, instead of their indices.
        footer: small text below the scale, of at most two lines; a longer one ends with "...".
        size: width and height of the SVG in pixels, by default fitted to the molecule.

    Raises:
        UsageError: the size is too small.
    """
    width, height = default_size(mol) if size is None else size
    if width < _MIN_SIZE[0] or height < _MIN_SIZE[1]:
        raise UsageError(f"size is at least {_MIN_SIZE[0]} x {_MIN_SIZE[1]} pixels, not {width} x {height}")
    labels = [*notes] or [str(i) for i in range(mol.GetNumAtoms())]
    offsets, font = _label_offsets(mol, labels, width, height - _LEGEND_HEIGHT)
    svg = rdMolDraw2D.MolDraw2DSVG(width, height, width, height - _LEGEND_HEIGHT)
    png = rdMolDraw2D.MolDraw2DCairo(2 * width, 2 * height, 2 * width, 2 * (height - _LEGEND_HEIGHT))
    for drawer, zoom in ((svg, 1), (png, 2)):
        _draw(drawer, mol, values, scale, ring_atom, zoom)
        drawer.SetColour(_BLACK)
        drawer.SetFontSize(zoom * font)
        centers, *_ = atom_positions(mol, zoom * width, zoom * (height - _LEGEND_HEIGHT), zoom)
        for text, (x, y) in zip(labels, (np.array(centers) + zoom * offsets).tolist(), strict=True):
            drawer.DrawString(text, Point2D(x, y), 0, True)
        _legend(drawer, (*caption, *footer_lines(footer, width)), scale, zoom)
        drawer.FinishDrawing()
    header, separator, body = svg.GetDrawingText().partition("<!-- END OF HEADER -->")
    assert separator  # RDKit writes it
    # RDKit declares Latin-1 but writes ASCII; pictures are saved as UTF-8.
    header = header.replace("iso-8859-1", "UTF-8")
    text = share_letters(f"{header}<title>{escape(title)}</title>\n{body.lstrip()}", _LETTER)
    return Picture(text, png.GetDrawingText())


def footer_lines(footer: str, width: int) -> list[str]:
    """The footer of a picture of that width in pixels, in at most two lines; "..." stands for what does not fit."""
    return textwrap.wrap(footer, width // 5, max_lines=2, placeholder=" ...")


def default_size(mol: Chem.Mol) -> tuple[int, int]:
    """The size at which the atom indices are readable, within limits."""
    width, height = (int(_PIXELS_PER_UNIT * length) for length in np.ptp(positions_2d(mol), axis=0) + 3.0)
    width, height = np.clip((width, height + _LEGEND_HEIGHT), _DEFAULT_SIZE, _MAX_SIZE).tolist()
    return width, height


def atom_positions(
    mol: Chem.Mol, width: int, height: int, zoom: int
) -> tuple[list[tuple[float, float]], float, np.ndarray]:
    """The positions of the atoms in a drawing of that size, the radius of its discs, and the boxes of its letters.

    All in pixels; boxes are [x, y, half the width, half the height], (letters, 4).
    """
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    _set_options(drawer, zoom, 1.0)
    drawer.DrawMolecule(mol)
    points = [drawer.GetDrawCoords(i) for i in range(mol.GetNumAtoms())]
    zero, one = (drawer.GetDrawCoords(Point2D(x, 0.0)) for x in (0.0, _RADIUS))
    drawer.FinishDrawing()
    boxes = []
    for path, _ in _LETTER.findall(drawer.GetDrawingText()):
        corners = np.array(re.findall(r"-?[\d.]+", path), dtype=float).reshape(-1, 2)
        low, high = corners.min(0), corners.max(0)
        boxes.append([*(low + high) / 2, *(high - low) / 2])
    return [(p.x, p.y) for p in points], one.x - zero.x, np.array(boxes).reshape(-1, 4)


def drawing_options(drawer: Any) -> Any:
    """RDKit's drawing options, set for black atoms without a background."""
    options = drawer.drawOptions()
    options.useBWAtomPalette()
    options.prepareMolsBeforeDrawing = False
    options.includeMetadata = False
    options.clearBackground = False
    return options


def _set_options(drawer: Any, zoom: int, line: float) -> None:
    options = drawing_options(drawer)
    options.fixedBondLength = 45 * zoom
    options.bondLineWidth = line
    options.minFontSize, options.maxFontSize = 6 * zoom, 16 * zoom
    options.padding = 0.12


def draw_disc(drawer: Any, x: float, y: float, radius: float, color: Color, fill: bool, line: float = 1.0) -> None:
    """A filled disc, or its outline."""
    drawer.SetFillPolys(fill)
    drawer.SetColour(color)
    drawer.SetLineWidth(line)
    drawer.DrawEllipse(Point2D(x - radius, y - radius), Point2D(x + radius, y + radius), True)


def _label_offsets(mol: Chem.Mol, labels: Sequence[str], width: int, height: int) -> tuple[np.ndarray, float]:
    """From each atom to its label, (n, 2), and the size of the font, in pixels of a drawing of that size.

    Both formats have the same: what is decided by a fraction of a pixel would differ between them.
    """
    centers, radius, letters = atom_positions(mol, width, height, 1)
    font = min(max(0.62 * radius, 7.0), 10.0)
    bonds = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()], dtype=int).reshape(-1, 2)
    points = np.array(centers)
    boxes = place_labels(labels, points, radius, bonds, letters, font, (width, height))
    return boxes[:, :2] - points, font


def _draw(
    drawer: Any,
    mol: Chem.Mol,
    values: np.ndarray,
    scale: Scale,
    ring_atom: int | None,
    zoom: int,
) -> None:
    """Draw the discs and the ring, and the molecule over them."""
    size = drawer.Width(), drawer.Height() - zoom * _LEGEND_HEIGHT
    centers, radius, _ = atom_positions(mol, *size, zoom)
    line = min(2.0 * zoom, radius / 8)  # thinner where a big molecule is drawn small
    drawer.ClearDrawing()
    for value, (x, y) in zip(values.tolist(), centers, strict=True):
        if not np.isnan(value):
            draw_disc(drawer, x, y, radius, scale.color(value), fill=True)
            draw_disc(drawer, x, y, radius, _OUTLINE, fill=False, line=line / 2)
    if ring_atom is not None:
        draw_disc(drawer, *centers[ring_atom], radius, _RING, fill=False, line=1.5 * line)
    _set_options(drawer, zoom, line)
    drawer.DrawMolecule(mol)


def _legend(drawer: Any, lines: Sequence[str], scale: Scale, zoom: int) -> None:
    """Draw two lines of text, the color scale, and the footer."""
    top, middle = drawer.Height() - zoom * _LEGEND_HEIGHT, drawer.Width() / 2
    styles = ((8, 13.0, _BLACK), (25, 13.0, _BLACK), (64, 10.0, _GRAY), (76, 10.0, _GRAY))
    for text, (y, font_size, color) in zip(lines, styles, strict=False):
        max_size = max(6.0, 1.85 * drawer.Width() / zoom / max(len(text), 1))  # letters are about half as wide as high
        drawer.SetColour(color)
        drawer.SetFontSize(zoom * min(font_size, max_size))
        drawer.DrawString(text, Point2D(middle, top + zoom * y), 0, True)
    y, steps, step = top + zoom * 45, 24, 4 * zoom
    left = middle - steps * step / 2 + 30 * zoom
    drawer.SetColour(_BLACK)
    drawer.SetFontSize(12.0 * zoom)
    drawer.DrawString(scale.low_label, Point2D(left - 5 * zoom, y), 2, True)
    drawer.DrawString(scale.high_label, Point2D(left + steps * step + 8 * zoom, y), 1, True)
    drawer.SetFillPolys(True)
    drawer.SetLineWidth(1)
    for k in range(steps):
        drawer.SetColour(scale.color(scale.low + (scale.high - scale.low) * k / (steps - 1)))
        x = left + k * step
        drawer.DrawRect(Point2D(x, y - 5 * zoom), Point2D(x + step, y + 5 * zoom), True)
