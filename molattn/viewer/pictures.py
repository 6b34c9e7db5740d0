"""Attention as pictures: the matrix, and the molecule with what its atoms look at; and a molecule with values."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from xml.sax.saxutils import escape

import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from molattn.chem import MAX_ATOMS, read_smiles
from molattn.errors import InputError, UsageError, shown
from molattn.explain import AttentionMap
from molattn.viewer.figures import new_figure, rendered, short, styled
from molattn.viewer.picture import Picture

Head = int | Literal["mean", "max"]
Colour = tuple[float, float, float]

DARKEST: Colour = (0.35, 0.62, 0.87)
"""A disc at the largest weight; black on it has a contrast of 7 to 1."""

BELOW: Colour = (0.96, 0.65, 0.35)
"""A disc at the lowest value below 0; black on it has more contrast still."""

_RING: Colour = (0.84, 0.37, 0.0)
_OUTLINE: Colour = (0.75, 0.8, 0.85)
_BLACK: Colour = (0.0, 0.0, 0.0)
_RADIUS = 0.42  # of a disc; a bond is 1.5 long
_LEGEND = 58  # height in pixels
_SMALLEST = (260, 160)  # width and height of a picture in pixels
_VECTOR_CELLS = 40  # atoms up to which the cells of a heat map are drawn one by one


def heat_map(attention: AttentionMap, layer: int = -1, head: Head = "mean") -> Picture:
    """The weights of one layer as a square of n x n cells: row i shows what atom i attends to.

    Args:
        layer: from 0; negative numbers count from the last.
        head: from 0, or "mean" or "max" over the heads.

    Raises:
        UsageError: there is no such layer or head.
    """
    weights, where = _chosen(attention, layer, head)
    n = len(weights)
    side = min(max(0.27 * n, 2.2), 7.5)  # inches
    cell = 72 * side / n  # points
    size = min(9.0, max(5.0, 0.85 * cell))
    ticks = np.arange(0, n, max(1, int(np.ceil(1.15 * size / cell))))
    labels = [short(attention.labels[i], 8) for i in ticks]
    longest = max(map(len, labels)) * 0.7 * size  # points
    upright = longest > cell * (ticks[1] if n > 1 else 1)
    # Placed in inches: a layout engine crops the labels of axes that have to stay square.
    left, bottom = 0.4 + longest / 72, 0.45 + (longest if upright else size) / 72
    width, height = left + side + 1.2, bottom + side + 0.6
    with styled():
        figure = new_figure(width, height)
        axes = figure.add_axes((left / width, bottom / height, side / width, side / height))
        bar = figure.add_axes(((left + side + 0.2) / width, bottom / height, 0.14 / width, side / height))
        lines = "white" if n <= _VECTOR_CELLS else "none"
        mesh = axes.pcolormesh(weights, cmap="Blues", vmin=0, vmax=_top(weights), edgecolors=lines, linewidth=0.4)
        # A big SVG is slow to show: many cells go into it as one image.
        mesh.set_rasterized(n > _VECTOR_CELLS)
        axes.invert_yaxis()
        axes.set_xticks(ticks + 0.5, labels, fontsize=size, rotation=90 if upright else 0, parse_math=False)
        axes.set_yticks(ticks + 0.5, labels, fontsize=size, parse_math=False)
        axes.tick_params(length=0 if len(ticks) == n else 2)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("atom attended to (sender)")
        axes.set_ylabel("atom that attends (receiver)")
        smiles = short(attention.smiles, int(12 + 8 * side))
        figure.text(0.5, 1 - 0.1 / height, f"{smiles}\n{where}", ha="center", va="top", parse_math=False)
        figure.colorbar(mesh, cax=bar, label="attention weight")
        return rendered(figure)


def draw_atoms(
    attention: AttentionMap,
    atom: int | None = None,
    layer: int = -1,
    head: Head = "mean",
    size: tuple[int, int] = (480, 360),
) -> Picture:
    """The molecule, with a disc under every atom that is the darker the more attention goes to it.

    The numbers at the atoms are their places in the SMILES, as in `heat_map`. White is 0, and the darkest disc is
    the largest weight of this picture, which its scale names: compare numbers, not colours, between pictures.

    Args:
        atom: whose attention is shown, from 0; a ring marks it. None for the attention that each atom receives from
            all, on average.
        layer: from 0; negative numbers count from the last.
        head: from 0, or "mean" or "max" over the heads.
        size: width and height of the SVG in pixels, more for more than 40 atoms; the PNG has twice as many each way.

    Raises:
        UsageError: there is no such atom, layer or head, or the size is too small.
        InputError: the atoms of the map are not those of its SMILES.
    """
    matrix, where = _chosen(attention, layer, head)
    if atom is None:
        weights, what = matrix.mean(0), "attention each atom receives, mean of all atoms"
    else:
        atom = _index(atom, attention.num_atoms, "atom", "")
        weights, what = matrix[atom], f"what {short(attention.labels[atom], 8)} (ringed) attends to"
    if attention.virtual:
        share = weights[attention.num_atoms :].sum()
        what += f"; {' and '.join(attention.virtual)} {share:.2g}"
        weights = weights[: attention.num_atoms]
    _check_size(size)
    top = _top(weights)
    scale = _Scale(0.0, top, "attention weight 0", f"{top:.2g}")
    title = f"{short(attention.smiles, 200)}: {what}; {where}; darkest = {top:.2g}"
    return _picture(_molecule(attention), weights, atom, (what, where), scale, title, size)


def draw_atom_values(
    smiles: str,
    values: Sequence[float] | np.ndarray,
    *,
    name: str = "value",
    unit: str = "",
    add_hs: bool = False,
    size: tuple[int, int] = (480, 360),
) -> Picture:
    """The molecule, with a disc under every atom for its value: blue above 0, orange below, white at 0.

    The darkest disc is the value furthest from 0 in this picture, which its scale names. An atom without a value, NaN,
    has no disc. `draw_atom_values(smiles, molattn.load(run).predict(smiles))` draws what a model of atoms answers.

    Args:
        smiles: of the molecule.
        values: n numbers, in the order of its atoms.
        name, unit: of the values.
        add_hs: whether hydrogens have values too, behind those of the other atoms.
        size: as for `draw_atoms`.

    Raises:
        SmilesError: the SMILES cannot be read.
        InputError: there are more or fewer values than atoms.
        UsageError: the size is too small.
    """
    numbers = np.asarray(values, dtype=np.float64)
    mol = read_smiles(smiles, add_hs=add_hs, max_atoms=max(MAX_ATOMS, numbers.size))
    if numbers.shape != (mol.GetNumAtoms(),):
        raise InputError(
            f"values of shape {numbers.shape} for the {mol.GetNumAtoms()} atoms of {shown(smiles)}: give one for each"
        )
    _check_size(size)
    finite = np.abs(numbers[np.isfinite(numbers)])
    top = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    low = -top if (numbers < 0).any() else 0.0
    of_unit = f" {short(unit, 20)}" if unit else ""
    scale = _Scale(low, top, f"{low:.2g}", f"{top:.2g}{of_unit}")
    words = (f"{short(name, 40)} of each atom", short(smiles, 60))
    title = f"{short(smiles, 200)}: {words[0]}; darkest = {top:.2g}{of_unit}"
    return _picture(_drawable(mol), numbers, None, words, scale, title, size)


@dataclass(frozen=True)
class _Scale:
    """From a value to a colour, white at 0, and what stands at the ends of its strip."""

    low: float
    high: float
    at_low: str
    at_high: str

    def colour(self, value: float) -> Colour:
        share = value / self.high
        return disc_colour(share) if share >= 0 else disc_colour(-share, BELOW)


def _check_size(size: tuple[int, int]) -> None:
    width, height = size
    if width < _SMALLEST[0] or height < _SMALLEST[1]:
        raise UsageError(f"size is at least {_SMALLEST[0]} x {_SMALLEST[1]} pixels, not {width} x {height}")


def _picture(
    mol: Chem.Mol,
    values: np.ndarray,
    atom: int | None,
    words: Sequence[str],
    scale: _Scale,
    title: str,
    size: tuple[int, int],
) -> Picture:
    """The molecule over discs for the values of its atoms."""
    width, height = size
    svg = rdMolDraw2D.MolDraw2DSVG(width, height, width, height - _LEGEND)
    png = rdMolDraw2D.MolDraw2DCairo(2 * width, 2 * height, 2 * width, 2 * (height - _LEGEND))
    _draw(svg, mol, values, atom, words, scale, 1)
    _draw(png, mol, values, atom, words, scale, 2)
    head_of_svg, mark, rest = svg.GetDrawingText().partition("<!-- END OF HEADER -->")
    assert mark  # RDKit writes it
    # RDKit declares Latin-1; what it writes is ASCII, and files of pictures are UTF-8.
    return Picture(
        f"{head_of_svg.replace('iso-8859-1', 'UTF-8')}<title>{escape(title)}</title>\n{rest.lstrip()}",
        png.GetDrawingText(),
    )


def disc_colour(share: float, darkest: Colour = DARKEST) -> Colour:
    """White for 0, `darkest` for 1, straight between them."""
    share = min(max(share, 0.0), 1.0)
    red, green, blue = (1 - share * (1 - channel) for channel in darkest)
    return red, green, blue


def _draw(
    drawer: Any,
    mol: Chem.Mol,
    values: np.ndarray,
    atom: int | None,
    words: Sequence[str],
    scale: _Scale,
    zoom: int,
) -> None:
    """Discs and ring below, the molecule above them, the words and the scale at the foot."""
    width, height = drawer.Width(), drawer.Height() - zoom * _LEGEND
    centres, radius = _places(mol, width, height, zoom)
    line = min(2.0 * zoom, radius / 8)  # thinner where a big molecule is drawn small
    drawer.ClearDrawing()
    for i, (x, y) in enumerate(centres):
        if np.isnan(values[i]):
            continue
        _disc(drawer, x, y, radius, scale.colour(float(values[i])), fill=True)
        _disc(drawer, x, y, radius, _OUTLINE, fill=False, line=line / 2)
    if atom is not None:
        _disc(drawer, *centres[atom], radius, _RING, fill=False, line=1.5 * line)
    _options(drawer, zoom, line)
    drawer.DrawMolecule(mol)
    _legend(drawer, words, scale, width, height, zoom)
    drawer.FinishDrawing()


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


def _legend(drawer: Any, words: Sequence[str], scale: _Scale, width: int, height: int, zoom: int) -> None:
    """The words on two lines, and on a third a strip of the colours of the scale."""
    drawer.SetColour(_BLACK)
    middle = width / 2
    for line, text in enumerate(words):
        fits = 1.85 * width / zoom / max(len(text), 1)  # letters are about half as wide as high
        drawer.SetFontSize(zoom * min(13.0, fits))
        drawer.DrawString(text, Point2D(middle, height + zoom * (8 + 17 * line)), 0, True)
    y, steps, step = height + zoom * 45, 24, 4 * zoom
    left = middle - steps * step / 2 + 30 * zoom
    drawer.SetFontSize(12.0 * zoom)
    drawer.DrawString(scale.at_low, Point2D(left - 5 * zoom, y), 2, True)
    drawer.DrawString(scale.at_high, Point2D(left + steps * step + 8 * zoom, y), 1, True)
    drawer.SetFillPolys(True)
    drawer.SetLineWidth(1)
    for k in range(steps):
        drawer.SetColour(scale.colour(scale.low + (scale.high - scale.low) * k / (steps - 1)))
        x = left + k * step
        drawer.DrawRect(Point2D(x, y - 5 * zoom), Point2D(x + step, y + 5 * zoom), True)


def _molecule(attention: AttentionMap) -> Chem.Mol:
    """The molecule of the map, ready to be drawn, its atoms those of the map."""
    limit = max(MAX_ATOMS, attention.num_atoms)
    mol = read_smiles(attention.smiles, add_hs=attention.add_hs, max_atoms=limit)
    symbols = tuple(a.GetSymbol() for a in mol.GetAtoms())
    if symbols != attention.symbols:
        raise InputError(
            f"the attention map has {attention.num_atoms} atoms ({shown(' '.join(attention.symbols))}), "
            f"its SMILES {shown(attention.smiles)} has {len(symbols)} ({shown(' '.join(symbols))})"
        )
    return _drawable(mol)


def _drawable(mol: Chem.Mol) -> Chem.Mol:
    """The molecule ready to be drawn, its atoms as they are."""
    # Not drawn with hydrogens at stereocentres: they would be atoms that have no value.
    return rdMolDraw2D.PrepareMolForDrawing(mol, kekulize=True, addChiralHs=False)


def _chosen(attention: AttentionMap, layer: int, head: Head) -> tuple[np.ndarray, str]:
    """The (n, n) weights, and the words for their layer and head."""
    layers, heads = attention.num_layers, attention.num_heads
    layer = _index(layer, layers, "layer", "")
    if head in ("mean", "max"):
        of = {"mean": "mean", "max": "maximum"}[head]
        which = f"{of} of {heads} heads" if heads > 1 else "its only head"
    else:
        head = _index(head, heads, "head", ", 'mean' or 'max'")
        which = f"head {head}"
    last = " (the last)" if layer == layers - 1 else ""
    return np.asarray(attention.matrix(layer, head), dtype=np.float64), f"layer {layer}{last}, {which}"


def _index(value: Any, count: int, name: str, also: str) -> int:
    """`value` as a place among `count` things, from 0, or the UsageError that says which there are."""
    try:
        index = operator.index(value)
    except TypeError:
        index = count
    if not -count <= index < count:
        valid = f"from 0 to {count - 1}" if count > 1 else "0"
        raise UsageError(f"{name} is {valid}{also}, not {shown(value)}; negative numbers count from the end")
    return index % count


def _top(weights: np.ndarray) -> float:
    """The largest weight, or 1 where all are 0."""
    return float(weights.max()) or 1.0
