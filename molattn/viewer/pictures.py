"""Attention as pictures: the matrix, and the molecule with what its atoms look at."""

import operator
from collections.abc import Sequence
from typing import Any, Literal
from xml.sax.saxutils import escape

import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from molattn.errors import UsageError, shown
from molattn.explain import AttentionMap
from molattn.viewer.figures import new_figure, rendered, short, styled
from molattn.viewer.molecule import molecule_of, places_of
from molattn.viewer.picture import Picture

Head = int | Literal["mean", "max"]
Layer = int | Literal["rollout"]
Colour = tuple[float, float, float]

DARKEST: Colour = (0.35, 0.62, 0.87)
"""A disc at the largest weight; black on it has a contrast of 7 to 1."""

_RING: Colour = (0.84, 0.37, 0.0)
_OUTLINE: Colour = (0.75, 0.8, 0.85)
_BLACK: Colour = (0.0, 0.0, 0.0)
_RADIUS = 0.42  # of a disc; a bond is 1.5 long
_GREY: Colour = (0.35, 0.35, 0.35)
_LEGEND = 74  # height in pixels
_USUAL, _SMALLEST, _LARGEST = (480, 376), (260, 176), (1600, 1200)  # width and height of a picture in pixels
_READABLE = 20  # pixels for the length of 1 in a drawing, so that a bond has 30 and its atoms' numbers can be read
_LABEL = 14  # letters of a label
_VECTOR_CELLS = 40  # atoms up to which the cells of a heat map are drawn one by one


def heat_map(
    attention: AttentionMap, layer: Layer = -1, head: Head = "mean", top: int | float | None = None
) -> Picture:
    """The weights of one layer as a square of n x n cells: row i shows what atom, or token, i attends to.

    Virtual nodes are the last rows and columns.

    Args:
        layer: from 0; negative numbers count from the last. "rollout" for `attention.rollout()`, through all layers.
        head: from 0, or "mean" or "max" over the heads; of no meaning for rollout.
        top: the weight of the darkest cell; the largest there is by default.

    Raises:
        UsageError: there is no such layer or head.
    """
    weights, where = chosen(attention, layer, head)
    n, top = len(weights), _top(weights, top)
    side = min(max(0.27 * n, 2.2), 7.5)  # inches
    cell = 72 * side / n  # points
    size = min(9.0, max(5.0, 0.85 * cell))
    ticks = np.arange(0, n, max(1, int(np.ceil(1.15 * size / cell))))
    labels = [short(attention.labels[i], _LABEL) for i in ticks]
    longest = max(map(len, labels)) * 0.7 * size  # points
    upright = longest > cell * (ticks[1] if n > 1 else 1)
    # Placed in inches: a layout engine crops the labels of axes that have to stay square.
    left, bottom = 0.4 + longest / 72, 0.62 + (longest if upright else size) / 72
    width, height = left + side + 1.2, bottom + side + 0.6
    with styled():
        figure = new_figure(width, height)
        axes = figure.add_axes((left / width, bottom / height, side / width, side / height))
        bar = figure.add_axes(((left + side + 0.2) / width, bottom / height, 0.14 / width, side / height))
        lines = "white" if n <= _VECTOR_CELLS else "none"
        mesh = axes.pcolormesh(weights, cmap="Blues", vmin=0, vmax=top, edgecolors=lines, linewidth=0.4)
        # A big SVG is slow to show: many cells go into it as one image.
        mesh.set_rasterized(n > _VECTOR_CELLS)
        axes.invert_yaxis()
        axes.set_xticks(ticks + 0.5, labels, fontsize=size, rotation=90 if upright else 0, parse_math=False)
        axes.set_yticks(ticks + 0.5, labels, fontsize=size, parse_math=False)
        axes.tick_params(length=0 if len(ticks) == n else 2)
        axes.spines[:].set_visible(False)
        place = attention.places[:-1]
        axes.set_xlabel(f"{place} attended to (sender)")
        axes.set_ylabel(f"{place} that attends (receiver)")
        smiles = short(attention.smiles, int(12 + 8 * side))
        figure.text(0.5, 1 - 0.1 / height, f"{smiles}\n{where}", ha="center", va="top", parse_math=False)
        write_foot(figure, attention)
        figure.colorbar(mesh, cax=bar, label="attention weight")
        return rendered(figure)


def draw_atoms(
    attention: AttentionMap,
    atom: int | None = None,
    layer: Layer = -1,
    head: Head = "mean",
    size: tuple[int, int] | None = None,
    top: int | float | None = None,
) -> Picture:
    """The molecule, with a disc under every atom that is the darker the more attention goes to it.

    The numbers at the atoms are their places in the SMILES, as in `heat_map`. White is 0, and the darkest disc is
    the largest weight of this picture, which its scale names: compare numbers, not colours, between pictures. What
    goes to virtual nodes is said in words.

    Args:
        atom: whose attention is shown, from 0; a ring marks it. None for the attention that each atom receives from
            all, on average. The numbers behind the atoms are those of virtual nodes.
        layer: from 0; negative numbers count from the last. "rollout" for `attention.rollout()`, through all layers.
        head: from 0, or "mean" or "max" over the heads; of no meaning for rollout.
        size: width and height of the SVG in pixels, by default what the molecule needs; the PNG has twice as many each
            way.
        top: the weight of the darkest disc, to compare pictures; the largest in this one by default.

    Raises:
        UsageError: there is no such atom, layer or head, the size is too small, or the map is one of tokens.
        InputError: the atoms of the map are not those of its SMILES.
    """
    matrix, where = chosen(attention, layer, head)
    if atom is None:
        weights, what = matrix.mean(0), "attention each atom receives, mean of all atoms"
    else:
        atom = place_of(atom, len(matrix), "atom")
        ringed = " (ringed)" if atom < attention.num_atoms else ""
        weights, what = matrix[atom], f"what {short(attention.labels[atom], _LABEL)}{ringed} attends to"
    if attention.virtual:
        shares = zip(attention.virtual, weights[attention.num_atoms :], strict=True)
        what += "; " + ", ".join(f"{short(name, _LABEL)} {share:.2g}" for name, share in shares)
        weights = weights[: attention.num_atoms]
    mol = molecule_of(attention)
    width, height = _fitting(mol) if size is None else size
    if width < _SMALLEST[0] or height < _SMALLEST[1]:
        raise UsageError(f"size is at least {_SMALLEST[0]} x {_SMALLEST[1]} pixels, not {width} x {height}")
    top = _top(weights, top)
    words = (what, where, foot_line(attention.measured))
    svg = rdMolDraw2D.MolDraw2DSVG(width, height, width, height - _LEGEND)
    png = rdMolDraw2D.MolDraw2DCairo(2 * width, 2 * height, 2 * width, 2 * (height - _LEGEND))
    for drawer, zoom in ((svg, 1), (png, 2)):
        _draw(drawer, mol, weights / top, atom, (*words, f"{top:.2g}"), zoom)
    smiles = short(attention.smiles, 200)
    title = f"<title>{escape(f'{smiles}: {what}; {where}; darkest = {top:.2g}')}</title>"
    head_of_svg, mark, rest = svg.GetDrawingText().partition("<!-- END OF HEADER -->")
    assert mark  # RDKit writes it
    # RDKit declares Latin-1; what it writes is ASCII, and files of pictures are UTF-8.
    return Picture(f"{head_of_svg.replace('iso-8859-1', 'UTF-8')}{title}\n{rest.lstrip()}", png.GetDrawingText())


def foot_line(measured: str) -> str:
    """The line that every picture of attention has at its foot: how far it is an explanation."""
    return f"as an explanation of the prediction: {short(measured, 200)}"


def write_foot(figure: Any, attention: AttentionMap) -> None:
    """That line at the foot of a figure, as large as it fits."""
    text, (width, height) = foot_line(attention.measured), figure.get_size_inches()
    size = min(8.0, 72 * (width - 0.2) / (0.55 * len(text)))
    figure.text(0.5, 0.06 / height, text, ha="center", va="bottom", fontsize=size, color=_GREY, parse_math=False)


def disc_colour(share: float) -> Colour:
    """White for 0, `DARKEST` for 1, straight between them."""
    share = min(max(share, 0.0), 1.0)
    red, green, blue = (1 - share * (1 - channel) for channel in DARKEST)
    return red, green, blue


def _draw(drawer: Any, mol: Chem.Mol, shares: np.ndarray, atom: int | None, words: Sequence[str], zoom: int) -> None:
    """Discs and ring below, the molecule above them, the words and the scale at the foot."""
    width, height = drawer.Width(), drawer.Height() - zoom * _LEGEND
    centres, radius = _places(mol, width, height, zoom)
    line = min(2.0 * zoom, radius / 8)  # thinner where a big molecule is drawn small
    drawer.ClearDrawing()
    for share, (x, y) in zip(shares, centres, strict=True):
        _disc(drawer, x, y, radius, disc_colour(float(share)), fill=True)
        _disc(drawer, x, y, radius, _OUTLINE, fill=False, line=line / 2)
    if atom is not None and atom < len(centres):
        _disc(drawer, *centres[atom], radius, _RING, fill=False, line=1.5 * line)
    _options(drawer, zoom, line)
    drawer.DrawMolecule(mol)
    _legend(drawer, words, width, height, zoom)
    drawer.FinishDrawing()


def _fitting(mol: Chem.Mol) -> tuple[int, int]:
    """The size of a picture in which the numbers at the atoms can be read, if it need not be huge."""
    wide, high = np.ptp(places_of(mol), axis=0) + 3.0
    wanted = (int(_READABLE * wide), int(_READABLE * high) + _LEGEND)
    width, height = (max(u, min(w, m)) for u, w, m in zip(_USUAL, wanted, _LARGEST, strict=True))
    return width, height


def _places(mol: Chem.Mol, width: int, height: int, zoom: int) -> tuple[list[tuple[float, float]], float]:
    """Where a drawing of that size has its atoms, and the radius of its discs, in pixels."""
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    _options(drawer, zoom, 1.0)
    drawer.DrawMolecule(mol)
    points = [drawer.GetDrawCoords(i) for i in range(mol.GetNumAtoms())]
    zero, one = (drawer.GetDrawCoords(Point2D(x, 0.0)) for x in (0.0, _RADIUS))
    return [(p.x, p.y) for p in points], one.x - zero.x


def _options(drawer: Any, zoom: int, line: float) -> None:
    options = drawer.drawOptions()
    options.useBWAtomPalette()
    options.addAtomIndices = True
    options.annotationFontScale = 0.6
    options.prepareMolsBeforeDrawing = False
    options.includeMetadata = False
    options.clearBackground = False
    options.fixedBondLength = 45 * zoom
    options.bondLineWidth = line
    options.minFontSize, options.maxFontSize = 6 * zoom, 16 * zoom
    options.padding = 0.12


def _disc(drawer: Any, x: float, y: float, radius: float, colour: Colour, fill: bool, line: float = 1.0) -> None:
    drawer.SetFillPolys(fill)
    drawer.SetColour(colour)
    drawer.SetLineWidth(line)
    drawer.DrawEllipse(Point2D(x - radius, y - radius), Point2D(x + radius, y + radius), True)


def _legend(drawer: Any, words: Sequence[str], width: int, height: int, zoom: int) -> None:
    """The words on two lines, on a third a strip of colours from 0 to the top, and the foot below it."""
    *above, foot, top = words
    drawer.SetColour(_BLACK)
    middle = width / 2

    def write(text: str, y: float, size: float) -> None:
        fits = 1.85 * width / zoom / max(len(text), 1)  # letters are about half as wide as high
        drawer.SetFontSize(zoom * min(size, fits))
        drawer.DrawString(text, Point2D(middle, height + zoom * y), 0, True)

    for line, text in enumerate(above):
        write(text, 8.0 + 17.0 * line, 13.0)
    y, steps, step = height + zoom * 45, 24, 4 * zoom
    left = middle - steps * step / 2 + 30 * zoom
    drawer.SetFontSize(12.0 * zoom)
    drawer.DrawString("attention weight 0", Point2D(left - 5 * zoom, y), 2, True)
    drawer.DrawString(top, Point2D(left + steps * step + 8 * zoom, y), 1, True)
    drawer.SetColour(_GREY)
    write(foot, 64.0, 10.0)
    drawer.SetFillPolys(True)
    drawer.SetLineWidth(1)
    for k in range(steps):
        drawer.SetColour(disc_colour(k / (steps - 1)))
        x = left + k * step
        drawer.DrawRect(Point2D(x, y - 5 * zoom), Point2D(x + step, y + 5 * zoom), True)


def chosen(attention: AttentionMap, layer: Layer, head: Head) -> tuple[np.ndarray, str]:
    """The (n, n) weights, and the words for their layer and head.

    Raises:
        UsageError: there is no such layer or head.
    """
    layers, heads = attention.num_layers, attention.num_heads
    if layer == "rollout":
        return attention.rollout(), f"rollout through {layers} layers, mean of {heads} heads"
    layer = place_of(layer, layers, "layer")
    if head in ("mean", "max"):
        of = {"mean": "mean", "max": "maximum"}[head]
        which = f"{of} of {heads} heads" if heads > 1 else "its only head"
    else:
        head = place_of(head, heads, "head", ", 'mean' or 'max'")
        which = f"head {head}"
    last = " (the last)" if layer == layers - 1 else ""
    sums = "" if attention.rows_sum_to_one else "; rows do not sum to 1"
    return np.asarray(attention.matrix(layer, head), dtype=np.float64), f"layer {layer}{last}, {which}{sums}"


def place_of(value: Any, count: int, name: str, also: str = "") -> int:
    """`value` as a place among `count` things, from 0, or the UsageError that says which there are."""
    try:
        index = operator.index(value)
    except TypeError:
        index = count
    if not -count <= index < count:
        valid = f"from 0 to {count - 1}" if count > 1 else "0"
        raise UsageError(f"{name} is {valid}{also}, not {shown(value)}; negative numbers count from the end")
    return index % count


def _top(weights: np.ndarray, top: int | float | None) -> float:
    """The weight of the darkest colour: what was asked for, else the largest, or 1 where all are 0."""
    if top is None:
        return float(weights.max()) or 1.0
    if not top > 0:
        raise UsageError(f"the darkest colour stands for a weight above 0, not for {shown(top)}")
    return float(top)
