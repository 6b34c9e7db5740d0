"""Drawings of molecules by RDKit, with a disc under each atom whose color is a value."""

import math
import operator
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
from molattn.errors import UsageError, short_repr
from molattn.explain import AttentionMap
from molattn.explain.attention_map import check_symbols
from molattn.viewer.labels import place_labels
from molattn.viewer.layout import lay_out
from molattn.viewer.palette import ATTENTION, BELOW, MARK, Color, to_color
from molattn.viewer.picture import Picture
from molattn.viewer.svg_text import share_letters

# Lengths are in the units of the 2D coordinates, in which a bond is about 1.5 long.
_FRAGMENT_GAP = 2.4
_DISC_RADIUS = 0.42
_PIXELS_PER_UNIT = 20  # a bond has 30 pixels, so that atom indices are readable

# Sizes are in pixels of the SVG; (width, height) of pictures.
_LEGEND_HEIGHT = 86
_DEFAULT_SIZE, _MIN_SIZE, _MAX_SIZE = (480, 388), (260, 188), (1600, 1200)

_RING_COLOR: Color = to_color(MARK)
_OUTLINE_COLOR: Color = (0.75, 0.8, 0.85)
_BLACK: Color = (0.0, 0.0, 0.0)
_GRAY: Color = (0.35, 0.35, 0.35)

_LETTER = re.compile(r"<path (?:class='atom[^']*' )?d='(M[^']*)' (fill='[^']*')/>")
"""The outline of a letter as RDKit writes it."""


def molecule_from_map(attention: AttentionMap) -> Chem.Mol:
    """The molecule of an attention map, see `drawable_molecule`.

    Raises:
        UsageError: the nodes of the map are tokens.
        InputError: the SMILES cannot be read, or the atoms of the map are not those of the SMILES.
    """
    if attention.position_type != "atoms":
        raise UsageError("the nodes of this attention map are tokens of a SMILES, not atoms: draw it with heat_map")
    return drawable_molecule(attention.smiles, attention.symbols, attention.add_hs, "the attention map")


def drawable_molecule(smiles: str, symbols: Sequence[str], add_hs: bool, owner: str) -> Chem.Mol:
    """Read a SMILES as the models do, and prepare the molecule for drawing: see `prepare_for_drawing`.

    Args:
        smiles: the SMILES.
        symbols: the expected element symbols of its atoms, in order.
        add_hs: whether hydrogens are atoms.
        owner: what the symbols belong to, for the error, such as "the attribution".

    Raises:
        SmilesError: the SMILES cannot be read.
        InputError: its atoms have other symbols.
    """
    mol = read_smiles(smiles, add_hs=add_hs, max_atoms=max(MAX_ATOMS, len(symbols)))
    check_symbols(owner, smiles, symbols, [atom.GetSymbol() for atom in mol.GetAtoms()])
    return prepare_for_drawing(mol)


def prepare_for_drawing(mol: Chem.Mol) -> Chem.Mol:
    """A copy with 2D coordinates, kekulized, for `draw_discs`, with the same atoms in the same order.

    Coordinates that the molecule already has are used, and fragments are moved next to each other. `mol` itself loses
    its atom map numbers, which could be mistaken for atom indices, and gets coordinates if it has none.
    """
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
    """Move fragments next to each other, in place, with a gap: RDKit leaves no room for the labels between them."""
    fragments = Chem.GetMolFrags(mol)
    if len(fragments) == 1:
        return
    positions, left = positions_2d(mol).copy(), 0.0
    for fragment in map(list, fragments):
        low, high = positions[fragment].min(0), positions[fragment].max(0)
        positions[fragment] += [left - low[0], -(low[1] + high[1]) / 2]
        left += high[0] - low[0] + _FRAGMENT_GAP
    conformer = mol.GetConformer()
    for i, (x, y) in enumerate(positions):
        conformer.SetAtomPosition(i, (float(x), float(y), 0.0))


@dataclass(frozen=True)
class Scale:
    """A color scale that is white at 0.

    Attributes:
        low, high: the values at the ends of its legend; `high` is above 0, `low` is 0 or `-high`.
        low_label, high_label: their texts.
        positive, negative: the colors of `high` and of `-high`.
    """

    low: float
    high: float
    low_label: str
    high_label: str
    positive: Color = ATTENTION
    negative: Color = BELOW

    def color(self, value: float) -> Color:
        """The color of a value; values outside of -high to high have the color of that end."""
        fraction = value / self.high
        return disc_color(fraction, self.positive) if fraction >= 0 else disc_color(-fraction, self.negative)


def disc_color(fraction: float, darkest: Color = ATTENTION) -> Color:
    """The color of a fraction: white for 0 and less, `darkest` for 1 and more, linear in between."""
    fraction = min(max(fraction, 0.0), 1.0)
    red, green, blue = (1 - fraction * (1 - channel) for channel in darkest)
    return red, green, blue


def format_values(values: np.ndarray, plus: bool = True) -> list[str]:
    """Format numbers with one number of decimals, at which the largest has three significant digits (two if below 1).

    Args:
        values: (n,) numbers; those that are not finite do not count for the decimals, and NaN is "nan".
        plus: whether positive numbers begin with a plus sign.

    >>> format_values(np.array([1.234, -0.05, 0.0]))
    ['+1.23', '-0.05', '0.00']
    """
    power = math.floor(math.log10(float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) or 1.0))
    decimals = min(max(1 - power if power < 0 else 2 - power, 0), 9)
    # Adding 0.0 turns -0.0 into 0.0.
    rounded = np.round(values, decimals) + 0.0
    sign = "+" if plus else ""
    return [f"{x:{sign if abs(x) > 0 else ''}.{decimals}f}" for x in rounded]  # no sign of 0 and NaN


def draw_discs(
    mol: Chem.Mol,
    values: np.ndarray,
    scale: Scale,
    caption: Sequence[str],
    title: str,
    *,
    ring_atom: int | None = None,
    labels: Sequence[str] = (),
    footer: str = "",
    size: Any = None,
) -> Picture:
    """Draw a molecule with a disc under each atom for its value; atoms with NaN have no disc.

    Args:
        mol: from `drawable_molecule` or `prepare_for_drawing`.
        values: (n,) the value of each atom.
        scale: the color scale.
        caption: two lines below the molecule.
        title: title of the SVG, for screen readers.
        ring_atom: index of an atom to mark with a ring.
        labels: n texts at the atoms; their indices if empty.
        footer: small text below the scale, cut after two lines, see `footer_lines`.
        size: width and height of the SVG in pixels, by default `default_size`; those of the PNG are doubled.

    Raises:
        UsageError: the size is too small, or not two integers.
    """
    try:
        width, height = default_size(mol) if size is None else map(operator.index, size)
    except (TypeError, ValueError):
        raise UsageError(f"size is the width and height in pixels, two integers, not {short_repr(size)}") from None
    if width < _MIN_SIZE[0] or height < _MIN_SIZE[1]:
        raise UsageError(f"size is at least {_MIN_SIZE[0]} x {_MIN_SIZE[1]} pixels, not {width} x {height}")
    texts = [*labels] or [str(i) for i in range(mol.GetNumAtoms())]
    offsets, font = _label_offsets(mol, texts, width, height - _LEGEND_HEIGHT)
    svg = rdMolDraw2D.MolDraw2DSVG(width, height, width, height - _LEGEND_HEIGHT)
    png = rdMolDraw2D.MolDraw2DCairo(2 * width, 2 * height, 2 * width, 2 * (height - _LEGEND_HEIGHT))
    for drawer, zoom in ((svg, 1), (png, 2)):
        _draw_molecule(drawer, mol, values, scale, ring_atom, zoom)
        drawer.SetColour(_BLACK)
        drawer.SetFontSize(zoom * font)
        centers, *_ = atom_positions(mol, zoom * width, zoom * (height - _LEGEND_HEIGHT), zoom)
        for text, (x, y) in zip(texts, (np.array(centers) + zoom * offsets).tolist(), strict=True):
            drawer.DrawString(text, Point2D(x, y), 0, True)
        _draw_legend(drawer, (*caption, *footer_lines(footer, width)), scale, zoom)
        drawer.FinishDrawing()
    header, separator, body = svg.GetDrawingText().partition("<!-- END OF HEADER -->")
    assert separator
    # RDKit declares Latin-1 but writes ASCII; pictures are saved as UTF-8.
    header = header.replace("iso-8859-1", "UTF-8")
    document = share_letters(f"{header}<title>{escape(title)}</title>\n{body.lstrip()}", _LETTER)
    return Picture(document, png.GetDrawingText())


def footer_lines(footer: str, width: int) -> list[str]:
    """The footer, wrapped for a picture of `width` pixels; what does not fit into two lines is replaced by "..."."""
    return textwrap.wrap(footer, width // 5, max_lines=2, placeholder=" ...")


def default_size(mol: Chem.Mol) -> tuple[int, int]:
    """Width and height in pixels at which the atom indices are readable: from 480 x 388 to 1600 x 1200."""
    width, height = (int(_PIXELS_PER_UNIT * length) for length in np.ptp(positions_2d(mol), axis=0) + 3.0)
    width, height = np.clip((width, height + _LEGEND_HEIGHT), _DEFAULT_SIZE, _MAX_SIZE).tolist()
    return width, height


def atom_positions(
    mol: Chem.Mol, width: int, height: int, zoom: int
) -> tuple[list[tuple[float, float]], float, np.ndarray]:
    """Where RDKit draws the atoms of a molecule in a drawing of `width` x `height` pixels.

    Args:
        mol: from `prepare_for_drawing`.
        width, height: size of the drawing in pixels.
        zoom: factor of bond lengths and font sizes: 1 for the SVG, 2 for the PNG.

    Returns:
        (x, y) of the n atoms; the radius of a disc; and the boxes of the letters, [x, y, half the width, half the
        height], (letters, 4). All in pixels; y points down.
    """
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    _set_options(drawer, zoom, 1.0)
    drawer.DrawMolecule(mol)
    points = [drawer.GetDrawCoords(i) for i in range(mol.GetNumAtoms())]
    zero, one = (drawer.GetDrawCoords(Point2D(x, 0.0)) for x in (0.0, _DISC_RADIUS))
    drawer.FinishDrawing()
    boxes = []
    for path, _ in _LETTER.findall(drawer.GetDrawingText()):
        corners = np.array(re.findall(r"-?[\d.]+", path), dtype=float).reshape(-1, 2)
        low, high = corners.min(0), corners.max(0)
        boxes.append([*(low + high) / 2, *(high - low) / 2])
    return [(p.x, p.y) for p in points], one.x - zero.x, np.array(boxes).reshape(-1, 4)


def drawing_options(drawer: Any) -> Any:
    """The options of a drawer of RDKit, changed to black atoms without a background; they apply to the drawer."""
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
    """Draw a filled disc, or its outline, at (x, y) in pixels."""
    drawer.SetFillPolys(fill)
    drawer.SetColour(color)
    drawer.SetLineWidth(line)
    drawer.DrawEllipse(Point2D(x - radius, y - radius), Point2D(x + radius, y + radius), True)


def _label_offsets(mol: Chem.Mol, labels: Sequence[str], width: int, height: int) -> tuple[np.ndarray, float]:
    """The offset of each label from its atom, (n, 2), and the font size, in pixels of the SVG.

    They are computed once for both formats: rounding to pixels could choose other positions in the PNG.
    """
    centers, radius, letters = atom_positions(mol, width, height, 1)
    font = min(max(0.62 * radius, 7.0), 10.0)
    bonds = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()], dtype=int).reshape(-1, 2)
    points = np.array(centers)
    boxes = place_labels(labels, points, radius, bonds, letters, font, (width, height))
    return boxes[:, :2] - points, font


def _draw_molecule(
    drawer: Any,
    mol: Chem.Mol,
    values: np.ndarray,
    scale: Scale,
    ring_atom: int | None,
    zoom: int,
) -> None:
    """Draw the discs and the ring, and the molecule on top of them."""
    size = drawer.Width(), drawer.Height() - zoom * _LEGEND_HEIGHT
    centers, radius, _ = atom_positions(mol, *size, zoom)
    line = min(2.0 * zoom, radius / 8)  # thinner for a large molecule, which is drawn at a smaller scale
    drawer.ClearDrawing()
    for value, (x, y) in zip(values.tolist(), centers, strict=True):
        if not np.isnan(value):
            draw_disc(drawer, x, y, radius, scale.color(value), fill=True)
            draw_disc(drawer, x, y, radius, _OUTLINE_COLOR, fill=False, line=line / 2)
    if ring_atom is not None:
        draw_disc(drawer, *centers[ring_atom], radius, _RING_COLOR, fill=False, line=1.5 * line)
    _set_options(drawer, zoom, line)
    drawer.DrawMolecule(mol)


def _draw_legend(drawer: Any, lines: Sequence[str], scale: Scale, zoom: int) -> None:
    """Draw the two lines of the caption, the color scale, and the lines of the footer."""
    top, middle = drawer.Height() - zoom * _LEGEND_HEIGHT, drawer.Width() / 2
    styles = ((8, 13.0, _BLACK), (25, 13.0, _BLACK), (64, 10.0, _GRAY), (76, 10.0, _GRAY))
    for text, (y, font_size, color) in zip(lines, styles, strict=False):
        # A letter is about half as wide as high.
        max_size = max(6.0, 1.85 * drawer.Width() / zoom / max(len(text), 1))
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
