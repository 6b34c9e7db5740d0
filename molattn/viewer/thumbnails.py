"""The heads of one attention map: a thumbnail for each head of each layer."""

import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from rdkit import Chem

from molattn.errors import UsageError, check_type, short_repr
from molattn.explain import AttentionMap
from molattn.explain.attention_map import resolve_index
from molattn.viewer.cells import resolve_vmax
from molattn.viewer.discs import molecule_from_map
from molattn.viewer.figures import WEIGHTS, add_axes, footer_height, new_figure, render, shorten, write_footer
from molattn.viewer.palette import ATTENTION, MARK
from molattn.viewer.picture import Picture
from molattn.viewer.pictures import describe_receiver
from molattn.viewer.web.drawing import draw_molecule

_DISC_COLORS = LinearSegmentedColormap.from_list("discs", ["white", ATTENTION])
_MAX_CELLS = 2000  # of all thumbnails together: more are drawn as images
_GAP = 0.08  # inches between thumbnails
# In pixels of the drawing, in which a bond is about 45 long.
_DISC_RADIUS = 15.0
_MIN_WIDTH = 180.0  # a small molecule is not enlarged further
_PATH_CODES: dict[str, int] = {
    name: int(code)
    for name, code in zip("MLQCZ", (Path.MOVETO, Path.LINETO, Path.CURVE3, Path.CURVE4, Path.CLOSEPOLY), strict=True)
}


def head_grid(
    attention: AttentionMap,
    show: Literal["matrix", "atoms"] = "matrix",
    atom: int | None = None,
    scale: Literal["common", "each"] = "common",
) -> Picture:
    """Draw a thumbnail for each head: a row for each layer, a column for each head.

    Args:
        attention: the attention map of a molecule.
        show: "matrix" for n x n cells with receivers as rows, as in `heat_map`; "atoms" for the molecule with a disc
            for each atom, as in `draw_atoms`, and a square in the corner for each virtual node.
        atom: with show="atoms", the index of the receiver, marked by a ring; indices after the atoms are virtual
            nodes. None for the attention that each atom receives, the mean over all receivers.
        scale: "common" if the darkest color is the largest weight of all heads; "each" for that of each head.

    Raises:
        TypeError: `attention` is not an AttentionMap.
        UsageError: unknown view, atom or scale; an atom with show="matrix"; or show is "atoms" and the nodes of the
            map are tokens.
        InputError: show is "atoms", and the atoms of the map are not those of its SMILES.

    >>> import numpy as np
    >>> from molattn.explain import AttentionMap
    >>> from molattn.viewer import head_grid
    >>> attention = AttentionMap("CCO", ("C", "C", "O"), np.full((2, 4, 3, 3), 1 / 3), {}, {})
    >>> picture = head_grid(attention, show="atoms", atom=2)  # 2 x 4 molecules: what the oxygen attends to
    >>> picture.svg.count("</svg>")
    1
    """
    check_type(attention, AttentionMap, "head_grid")
    if show not in ("matrix", "atoms") or scale not in ("common", "each"):
        raise UsageError(f"show is 'matrix' or 'atoms', scale 'common' or 'each', not {short_repr((show, scale))}")
    if show == "matrix" and atom is not None:
        raise UsageError("atom applies only to show='atoms'")
    layers, heads, n = attention.weights.shape[:3]
    structure, ratio = (_Structure.of(molecule_from_map(attention)), 0.8) if show == "atoms" else (None, 1.0)
    values = attention.weights.astype(np.float64)
    if structure is not None and atom is not None:
        atom = resolve_index(atom, n, "atom")
        values = values[:, :, atom]
    elif structure is not None:
        values = values.mean(2)
    top = resolve_vmax(values, None)
    side = 1.1 if heads <= 8 else max(0.6, 8.8 / heads)
    left, right, above = 0.65, 1.0, 0.65
    width = left + heads * (side + _GAP) + right
    below = 0.22 + footer_height(attention.faithfulness, width)
    total = (width, above + layers * (ratio * side + _GAP) + below)
    with new_figure(*total) as figure:
        for layer, head in np.ndindex(layers, heads):
            y = total[1] - above - (layer + 1) * (ratio * side + _GAP)
            axes = add_axes(figure, left + head * (side + _GAP), y, side, ratio * side)
            axes.set_xticks([])
            axes.set_yticks([])
            frame = {"edgecolor": "#bbbbbb", "linewidth": 0.5}
            if structure is None:  # the cells would hide the edge of the patch
                axes.spines[:].set(visible=True, **frame)
            else:  # the edge of the patch is one path in the SVG, the spines are four
                axes.spines[:].set_visible(False)
                axes.patch.set(**frame)
            value = values[layer, head]
            norm = Normalize(0, top if scale == "common" else resolve_vmax(value, None))
            if structure is None:
                _draw_matrix(axes, value, norm, layers * heads * n * n <= _MAX_CELLS)
            else:
                _draw_atoms(axes, structure, value, norm, atom, (side, ratio))
            if layer == 0:
                axes.set_title(f"head {head}", fontsize=8, pad=3)
            if head == 0:
                axes.set_ylabel(f"layer {layer}", fontsize=8)
        height = min(2.5, total[1] - above - below - _GAP)
        bar = add_axes(figure, left + heads * (side + _GAP) + 0.1, total[1] - above - height, 0.12, height)
        norm = Normalize(0, top if scale == "common" else 1.0)
        label = "attention weight" if scale == "common" else "relative to the head's largest"
        mappable = ScalarMappable(norm, WEIGHTS if show == "matrix" else _DISC_COLORS)
        figure.colorbar(mappable, cax=bar, label=label).ax.tick_params(labelsize=8)
        subject = (
            f"rows attend (receivers), columns are attended to (senders), {attention.position_type} in order"
            if show == "matrix"
            else describe_receiver(attention, atom)
        )
        subject += "" if attention.rows_sum_to_one else "; rows do not sum to 1"
        style = {"fontsize": min(10.0, 72 * (total[0] - 0.2) / (0.55 * len(subject))), "parse_math": False}
        smiles = shorten(attention.smiles, int(10 * total[0]))
        figure.text(0.5, 1 - 0.08 / total[1], f"{smiles}\n{subject}", ha="center", va="top", **style)
        write_footer(figure, attention.faithfulness)
        return render(figure)


def _draw_matrix(axes: Any, weights: np.ndarray, norm: Normalize, vector: bool) -> None:
    """Draw (n, n) weights in a thumbnail, as cells, or as an image if not `vector`."""
    if vector:
        axes.pcolormesh(weights, cmap=WEIGHTS, norm=norm)
        axes.invert_yaxis()
    else:
        axes.imshow(weights, cmap=WEIGHTS, norm=norm, aspect="auto", interpolation_stage="data")


def _draw_atoms(
    axes: Any,
    structure: "_Structure",
    values: np.ndarray,
    norm: Normalize,
    atom: int | None,
    shape: tuple[float, float],
) -> None:
    """Draw the molecule in a thumbnail, with a disc for each atom and a square for each virtual node.

    Args:
        axes: of the thumbnail.
        structure: the molecule of n atoms.
        values: (n + virtual nodes,) attention.
        norm: from values to colors.
        atom: index of the receiver, marked by a ring; None for none.
        shape: width of the thumbnail in inches, and its ratio of height to width.
    """
    positions, (side, ratio) = structure.positions, shape
    low, high = structure.low, structure.high
    middle, width = (low + high) / 2, max(high[0] - low[0], (high[1] - low[1]) / ratio, _MIN_WIDTH)
    axes.set_xlim(middle[0] - width / 2, middle[0] + width / 2)
    axes.set_ylim(middle[1] + ratio * width / 2, middle[1] - ratio * width / 2)  # y points down
    disc = 72 * side * 2 * _DISC_RADIUS / width  # diameter in points
    style = {"s": disc**2, "marker": "o"}
    colors = _DISC_COLORS(norm(values[: len(positions)]))
    axes.scatter(*positions.T, c=colors, edgecolors="#bbbbbb", linewidths=min(0.3, 0.05 * disc), zorder=1, **style)
    line = min(0.8, 0.09 * disc)
    points = 72 * side / width  # per pixel of the drawing
    lines = {"markeredgecolor": "black", "markeredgewidth": line, "fillstyle": "none"}
    _draw_as_marker(axes, structure.bonds, points, middle, **lines)
    _draw_as_marker(axes, structure.letters, points, middle, markerfacecolor="black", markeredgewidth=0)
    if np.size(structure.dashes.vertices):
        dashed = {"facecolor": "none", "edgecolor": "black", "linewidth": line, "linestyle": (0, (1.5, 1.5))}
        axes.add_patch(PathPatch(structure.dashes, zorder=2, **dashed))
    if atom is not None and atom < len(positions):
        x, y = positions[atom]
        axes.scatter(x, y, facecolors="none", edgecolors=MARK, linewidths=min(1.2, 0.2 * disc), zorder=4, **style)
    for k, value in enumerate(values[len(positions) :]):
        edge = MARK if atom == len(positions) + k else "#999999"
        square = {"color": _DISC_COLORS(norm(value)), "markeredgecolor": edge, "markeredgewidth": 0.5}
        axes.plot(0.93 - 0.1 * k, 0.08, marker="s", markersize=5, transform=axes.transAxes, zorder=4, **square)


def _draw_as_marker(axes: Any, path: Path, points: float, at: np.ndarray, **style: Any) -> None:
    """Draw a path as a marker: the SVG defines a marker once and refers to it in each thumbnail.

    Args:
        axes: of a thumbnail.
        path: the path, in pixels of the drawing.
        points: points of the figure per pixel of the drawing.
        at: (2,) the pixel that becomes the position of the marker.
        style: properties of the marker.
    """
    if not np.size(path.vertices):
        return
    vertices = (np.asarray(path.vertices) - at) * [1, -1]  # y of a marker points up
    # matplotlib scales the path of a marker such that its largest coordinate is half of the marker size.
    size = 2 * points * float(np.abs(vertices).max())
    axes.plot(*at, marker=Path(vertices, path.codes), markersize=size, zorder=2, **style)


@dataclass(frozen=True, eq=False)
class _Structure:
    """A molecule as RDKit draws it, as paths in pixels of the drawing.

    Attributes:
        positions: (n, 2) positions of the atoms; a bond is about 45 long, and y points down.
        low, high: (2,) corners of the drawing.
        bonds, dashes, letters: the lines of bonds, dashed lines, and the outlines of letters.
    """

    positions: np.ndarray
    low: np.ndarray
    high: np.ndarray
    bonds: Path
    dashes: Path
    letters: Path

    @classmethod
    def of(cls, mol: Chem.Mol) -> "_Structure":
        drawing = draw_molecule(mol)
        low = np.array([drawing["left"], drawing["top"]])
        size = np.array([drawing["width"], drawing["height"]])
        positions = np.array(drawing["nodes"])[:, :2]
        bonds, dashes, letters = (
            _path(text) for text in (drawing["lines"] + drawing["thin"], drawing["dashed"], drawing["solid"])
        )
        return cls(positions, low, low + size, bonds, dashes, letters)


def _path(text: str) -> Path:
    """Convert an SVG path with the commands M, L, Q, C and Z to a path of matplotlib."""
    points: list[tuple[float, float]] = []
    codes: list[int] = []
    for command, numbers in re.findall(r"([MLQCZ])([^MLQCZ]*)", text):
        xy = [float(x) for x in numbers.split()]
        pairs = list(zip(xy[::2], xy[1::2], strict=True)) or [(0.0, 0.0)]
        points += pairs
        codes += [_PATH_CODES[command]] * len(pairs)
    return Path(np.array(points).reshape(-1, 2), codes)
