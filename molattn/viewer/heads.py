"""Overviews of attention heads: a thumbnail for each head of each layer, and the figure of a `HeadSummary`."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize, TwoSlopeNorm
from rdkit import Chem

from molattn.errors import UsageError, short_repr
from molattn.explain import AttentionMap, HeadSummary
from molattn.explain.head_summary import DISTANCES, OTHERS, Key
from molattn.viewer.discs import DARKEST, molecule_of, positions_2d
from molattn.viewer.figures import default_style, new_figure, render, shorten
from molattn.viewer.picture import Picture
from molattn.viewer.pictures import footer_height, resolve_index, write_footer

_DISCS = LinearSegmentedColormap.from_list("discs", ["white", DARKEST])
_RING = "#d55e00"
_VECTOR_CELLS = 2000  # number of cells of all thumbnails up to which they are drawn one by one
_GAP = 0.08  # inches between thumbnails
_RADIUS = 0.55  # of a disc; a bond is 1.5 long
_LETTER = 6.0  # diameter in points from which a disc shows the symbol of an element other than carbon


def head_grid(
    attention: AttentionMap,
    show: Literal["matrix", "atoms"] = "matrix",
    atom: int | None = None,
    scale: Literal["common", "each"] = "common",
) -> Picture:
    """Draw a thumbnail for each head: a row for each layer, a column for each head.

    Args:
        show: "matrix" for n x n cells with receivers as rows, as in `heat_map`; "atoms" for the molecule with a disc
            for each atom, as in `draw_atoms`, and a square in the corner for each virtual node.
        atom: with show="atoms", the index of the receiver, marked by a ring. None for the attention that each atom
            receives.
        scale: "common" if the darkest colour is the largest weight of all heads; "each" for that of each head.

    Raises:
        UsageError: unknown view, atom or scale, or show is "atoms" and the nodes of the map are tokens.
        InputError: show is "atoms", and the atoms of the map are not those of its SMILES.
    """
    if show not in ("matrix", "atoms") or scale not in ("common", "each"):
        raise UsageError(f"show is 'matrix' or 'atoms', scale 'common' or 'each', not {short_repr((show, scale))}")
    if show == "matrix" and atom is not None:
        raise UsageError("atom goes with show='atoms': a matrix shows all atoms")
    layers, heads, n = attention.weights.shape[:3]
    mol, ratio = (molecule_of(attention), 0.8) if show == "atoms" else (None, 1.0)
    values = attention.weights.astype(np.float64)
    if mol is not None and atom is not None:
        atom = resolve_index(atom, n, "atom")
        values = values[:, :, atom]
    elif mol is not None:
        values = values.mean(2)
    top = float(values.max()) or 1.0
    side = 1.1 if heads <= 8 else max(0.6, 8.8 / heads)
    left, right, above = 0.65, 1.0, 0.65
    width = left + heads * (side + _GAP) + right
    below = 0.22 + footer_height(attention.faithfulness, width)
    total = (width, above + layers * (ratio * side + _GAP) + below)
    with default_style():
        figure = new_figure(*total)
        for layer, head in np.ndindex(layers, heads):
            corner = (left + head * (side + _GAP), total[1] - above - (layer + 1) * (ratio * side + _GAP))
            axes = figure.add_axes(
                (corner[0] / total[0], corner[1] / total[1], side / total[0], ratio * side / total[1])
            )
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set(visible=True, color="#bbbbbb", linewidth=0.5)
            value = values[layer, head]
            norm = Normalize(0, top if scale == "common" else float(value.max()) or 1.0)
            if mol is None:
                _matrix(axes, value, norm, layers * heads * n * n <= _VECTOR_CELLS)
            else:
                _atoms(axes, mol, value, norm, atom, (side, ratio))
            if layer == 0:
                axes.set_title(f"head {head}", fontsize=8, pad=3)
            if head == 0:
                axes.set_ylabel(f"layer {layer}", fontsize=8)
        _scale(
            figure, total, (left + heads * (side + _GAP) + 0.1, above, below), top if scale == "common" else None, show
        )
        words = _words(attention, show, atom) + ("" if attention.rows_sum_to_one else "; rows do not sum to 1")
        size = min(10.0, 72 * (total[0] - 0.2) / (0.55 * len(words)))
        smiles = shorten(attention.smiles, int(10 * total[0]))
        figure.text(
            0.5, 1 - 0.08 / total[1], f"{smiles}\n{words}", ha="center", va="top", fontsize=size, parse_math=False
        )
        write_footer(figure, attention.faithfulness)
        return render(figure)


def _words(attention: AttentionMap, show: str, atom: int | None) -> str:
    if show == "matrix":
        return f"rows attend (receivers), columns are attended to (senders), {attention.position_type} in order"
    if atom is None:
        return "attention each atom receives, mean of all atoms"
    ringed = " (ringed)" if atom < attention.num_atoms else ""
    return f"what {shorten(attention.labels[atom], 14)}{ringed} attends to"


def _matrix(axes: Any, weights: np.ndarray, norm: Normalize, vector: bool) -> None:
    if vector:
        axes.pcolormesh(weights, cmap="Blues", norm=norm)
        axes.invert_yaxis()
    else:
        axes.imshow(weights, cmap="Blues", norm=norm, aspect="auto", interpolation_stage="data")


def _atoms(
    axes: Any, mol: Chem.Mol, values: np.ndarray, norm: Normalize, atom: int | None, shape: tuple[float, float]
) -> None:
    """Draw the molecule in a thumbnail; `shape` is its width in inches and its ratio of height to width."""
    positions, (side, ratio) = positions_2d(mol), shape
    low, high = positions.min(0) - 0.8, positions.max(0) + 0.8
    middle, wide = (low + high) / 2, max(high[0] - low[0], (high[1] - low[1]) / ratio, 6.0)
    axes.set_xlim(middle[0] - wide / 2, middle[0] + wide / 2)
    axes.set_ylim(middle[1] - ratio * wide / 2, middle[1] + ratio * wide / 2)
    disc = 72 * side * 2 * _RADIUS / wide  # points across
    bonds = [(positions[b.GetBeginAtomIdx()], positions[b.GetEndAtomIdx()]) for b in mol.GetBonds()]
    axes.add_collection(LineCollection(bonds, colors="#666666", linewidths=min(0.9, 0.1 * disc), zorder=1))
    style = {"s": disc**2, "marker": "o"}
    colours = _DISCS(norm(values[: len(positions)]))
    axes.scatter(*positions.T, c=colours, edgecolors="#666666", linewidths=min(0.3, 0.05 * disc), zorder=2, **style)
    if disc >= _LETTER:
        for (x, y), element in zip(positions, mol.GetAtoms(), strict=True):
            if element.GetAtomicNum() != 6:
                letters = {"fontsize": 0.6 * disc, "ha": "center", "va": "center_baseline"}
                axes.text(x, y, element.GetSymbol(), zorder=4, parse_math=False, **letters)
    if atom is not None and atom < len(positions):
        x, y = positions[atom]
        axes.scatter(x, y, facecolors="none", edgecolors=_RING, linewidths=min(1.2, 0.2 * disc), zorder=3, **style)
    for k, value in enumerate(values[len(positions) :]):
        colour = _RING if atom == len(positions) + k else "#999999"
        square = {"color": _DISCS(norm(value)), "markeredgecolor": colour, "markeredgewidth": 0.5}
        axes.plot(0.93 - 0.1 * k, 0.08, marker="s", markersize=5, transform=axes.transAxes, zorder=4, **square)


def _scale(
    figure: Any, total: tuple[float, float], room: tuple[float, float, float], top: float | None, show: str
) -> None:
    """Draw the colour bar: in weights up to `top`, or for None relative to the largest weight of each thumbnail."""
    left, above, below = room
    high = min(2.5, total[1] - above - below - _GAP)
    bar = figure.add_axes((left / total[0], (total[1] - above - high) / total[1], 0.12 / total[0], high / total[1]))
    drawn = ScalarMappable(Normalize(0, 1.0 if top is None else top), "Blues" if show == "matrix" else _DISCS)
    colorbar = figure.colorbar(
        drawn, cax=bar, label="attention weight" if top is not None else "share of the head's largest"
    )
    colorbar.ax.tick_params(labelsize=8)


# One hue, darker for shorter distances; grey for no distance.
_COLOURS: dict[str, str] = dict(
    zip(DISTANCES, ("#08306b", "#2171b5", "#6baed6", "#9ecae1", "#deebf7", "#bdbdbd", "#737373"), strict=True)
)
_GROUPS, _PAIRS = 16, 12  # largest numbers of columns
_MIN_RECEIVERS = 30  # fewer would give a noisy column
_FOLD = 3.0  # the colour scale of ratios ends at 2^-_FOLD and 2^_FOLD


def heads_plot(summary: HeadSummary) -> Picture:
    """Draw a summary of heads, with a row for each head.

    From the left: the shares of attention by distance, with those of uniform attention above; the mean entropy as a
    fraction of log n; the attention to functional groups from other atoms, and between elements, relative to uniform
    attention: blue for more, red for less, white for equal. Columns are the most common classes with at least 30
    receivers.
    """
    layers, heads = summary.shape or (0, 0)
    rows = layers * heads
    groups = _columns(summary, "group", _GROUPS)
    pairs = _columns(summary, "elements", _PAIRS)
    row = min(max(10.0 / rows, 0.05), 0.17) if rows > 6 else 1.0 / rows  # inches
    # In inches: bars, entropy, two heat maps and a colour bar, with column names above.
    left, bars, dots, cell, gap, scale, above, below = 0.75, 3.2, 0.9, 0.21, 0.3, 0.9, 1.75, 0.85
    fields = [(columns, cell * len(columns)) for columns in (groups, pairs) if columns]
    high = row * rows
    width = left + bars + gap + dots + sum(gap + wide for _, wide in fields) + scale
    below += footer_height(summary.faithfulness, width) - 0.1
    total = (width, above + high + below)
    with default_style():
        figure = new_figure(*total)

        def add_axes(x: float, wide: float) -> Any:
            axes = figure.add_axes((x / total[0], below / total[1], wide / total[0], high / total[1]))
            axes.set_ylim(rows, 0)
            axes.set_yticks([])
            return axes

        axes = add_axes(left, bars)
        _bars(axes, summary, rows, row)
        names = [f"{layer}.{head}" for layer, head in np.ndindex(layers, heads)]
        every = max(1, int(np.ceil(0.13 / row)))
        axes.set_yticks(np.arange(0, rows, every) + 0.5, names[::every], fontsize=7)
        axes.set_ylabel("layer.head", fontsize=8)
        x = left + bars + gap
        _dots(add_axes(x, dots), summary, layers, heads)
        x += dots
        norm, drawn = TwoSlopeNorm(0, -_FOLD, _FOLD), None
        titles = ("functional group,\nfrom the other atoms", "elements,\nreceiver to sender")
        for (columns, wide), title in zip(
            fields, [t for t, c in zip(titles, (groups, pairs), strict=True) if c], strict=True
        ):
            axes = add_axes(x + gap, wide)
            drawn = _field(axes, summary, columns, norm, layers)
            axes.set_xlabel(title, fontsize=8)
            x += gap + wide
        if drawn is not None:
            tall = min(high, 1.8)
            bar = figure.add_axes(
                ((x + 0.15) / total[0], (below + high - tall) / total[1], 0.12 / total[0], tall / total[1])
            )
            ticks = [float(t) for t in np.arange(-_FOLD, _FOLD + 1)]
            colorbar = figure.colorbar(drawn, cax=bar)
            colorbar.set_ticks(ticks, labels=[f"{2.0**t:g}" for t in ticks], fontsize=7)
            colorbar.set_label("times uniform attention", fontsize=8)
        text = f"What each head looks at: molecules {summary.molecules:,}, atoms {summary.atoms:,}"
        figure.text(0.1 / total[0], 1 - 0.1 / total[1], text, ha="left", va="top", fontsize=10)
        write_footer(figure, summary.faithfulness)
        return render(figure)


def _columns(summary: HeadSummary, by: str, most: int) -> list[Key]:
    """The most common keys with enough receivers; functional groups only with other atoms as receivers."""
    keys = [key for key in summary.keys(by) if by != "group" or key[1] == OTHERS]
    if by == "elements":
        keys = [key for key in keys if DISTANCES[-1] not in key]
    return [key for key in keys if summary.receivers(key) >= _MIN_RECEIVERS and summary.uniform(key) > 0][:most]


def _bars(axes: Any, summary: HeadSummary, rows: int, row: float) -> None:
    """Draw the shares by distance, and those of uniform attention as one more bar above."""
    base, above = np.zeros(rows), 0.0
    up = -0.25 / row  # of the bar of uniform attention, in rows
    for key in summary.keys("distance"):
        uniform = summary.uniform(key)
        if not uniform:
            continue
        share = summary.share(key).ravel()
        style = {"color": _COLOURS[key[2]], "edgecolor": "white", "linewidth": 0.3}
        axes.barh(np.arange(rows) + 0.5, share, left=base, height=0.9, label=key[2], **style)
        axes.barh(up, uniform, left=above, height=0.15 / row, clip_on=False, **style)
        base, above = base + share, above + uniform
    axes.set_xlim(0, 1)
    axes.set_ylim(rows, 0)
    axes.text(-0.01, up, "uniform", ha="right", va="center", fontsize=7)
    axes.set_xlabel("share of attention", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    legend = {"loc": "lower left", "bbox_to_anchor": (0.0, 1 + 0.38 / (row * rows)), "fontsize": 7, "frameon": False}
    axes.legend(
        ncols=4,
        borderpad=0,
        handlelength=1.0,
        columnspacing=0.9,
        title="distance to the receiver",
        title_fontsize=8,
        alignment="left",
        **legend,
    )
    axes.spines[["left", "bottom"]].set_visible(False)


def _dots(axes: Any, summary: HeadSummary, layers: int, heads: int) -> None:
    keys: Sequence[Key] = summary.keys("entropy")
    axes.set_xlim(0, 1.05)
    axes.set_xlabel("entropy,\nshare of log n", fontsize=8)
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=7)
    axes.spines["left"].set_visible(False)
    for layer in range(1, layers):
        axes.axhline(layer * heads, color="#cccccc", linewidth=0.6)
    if keys:
        values = summary.share(keys[0]).ravel()
        axes.hlines(np.arange(len(values)) + 0.5, 0, values, color="#9ecae1", linewidth=1.0)
        axes.plot(values, np.arange(len(values)) + 0.5, "o", color="#08306b", markersize=3)


def _field(axes: Any, summary: HeadSummary, keys: Sequence[Key], norm: TwoSlopeNorm, layers: int) -> Any:
    """Draw cells of log2(share / uniform), heads by classes."""
    with np.errstate(divide="ignore"):
        ratios = np.stack([np.log2(summary.share(key).ravel() / summary.uniform(key)) for key in keys], axis=1)
    drawn = axes.pcolormesh(np.clip(ratios, -_FOLD, _FOLD), cmap="RdBu", norm=norm, edgecolors="white", linewidth=0.3)
    names = [key[2] if key[0] == "group" else f"{key[1]} to {key[2]}" for key in keys]
    axes.set_xticks(np.arange(len(keys)) + 0.5, names, fontsize=7, rotation=90, parse_math=False)
    axes.tick_params(axis="x", length=0, labelbottom=False, labeltop=True)
    axes.spines[:].set_visible(False)
    for layer in range(1, layers):
        axes.axhline(layer * len(ratios) / layers, color="#666666", linewidth=0.6)
    return drawn
