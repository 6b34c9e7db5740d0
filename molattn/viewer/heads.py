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
from molattn.explain.attention_map import resolve_index
from molattn.explain.head_summary import DISTANCES, OTHER_ATOMS, Key
from molattn.viewer.discs import BLUE, molecule_of, positions_2d
from molattn.viewer.figures import add_axes, footer_height, new_figure, render, shorten, write_footer
from molattn.viewer.picture import Picture
from molattn.viewer.pictures import describe_receiver

_DISCS = LinearSegmentedColormap.from_list("discs", ["white", BLUE])
_RING = "#d55e00"
_MAX_CELLS = 2000  # number of cells of all thumbnails up to which they are drawn one by one
_GAP = 0.08  # inches between thumbnails
_RADIUS = 0.55  # of a disc; a bond is 1.5 long
_MIN_LABELED = 6.0  # diameter in points from which a disc shows the symbol of an element other than carbon


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
        scale: "common" if the darkest color is the largest weight of all heads; "each" for that of each head.

    Raises:
        UsageError: unknown view, atom or scale, or show is "atoms" and the nodes of the map are tokens.
        InputError: show is "atoms", and the atoms of the map are not those of its SMILES.
    """
    if show not in ("matrix", "atoms") or scale not in ("common", "each"):
        raise UsageError(f"show is 'matrix' or 'atoms', scale 'common' or 'each', not {short_repr((show, scale))}")
    if show == "matrix" and atom is not None:
        raise UsageError("atom applies only to show='atoms'")
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
    with new_figure(*total) as figure:
        for layer, head in np.ndindex(layers, heads):
            y = total[1] - above - (layer + 1) * (ratio * side + _GAP)
            axes = add_axes(figure, left + head * (side + _GAP), y, side, ratio * side)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set(visible=True, color="#bbbbbb", linewidth=0.5)
            value = values[layer, head]
            norm = Normalize(0, top if scale == "common" else float(value.max()) or 1.0)
            if mol is None:
                _matrix(axes, value, norm, layers * heads * n * n <= _MAX_CELLS)
            else:
                _atoms(axes, mol, value, norm, atom, (side, ratio))
            if layer == 0:
                axes.set_title(f"head {head}", fontsize=8, pad=3)
            if head == 0:
                axes.set_ylabel(f"layer {layer}", fontsize=8)
        height = min(2.5, total[1] - above - below - _GAP)
        bar = add_axes(figure, left + heads * (side + _GAP) + 0.1, total[1] - above - height, 0.12, height)
        norm = Normalize(0, top if scale == "common" else 1.0)
        label = "attention weight" if scale == "common" else "relative to the head's largest"
        mappable = ScalarMappable(norm, "Blues" if show == "matrix" else _DISCS)
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
    middle, width = (low + high) / 2, max(high[0] - low[0], (high[1] - low[1]) / ratio, 6.0)
    axes.set_xlim(middle[0] - width / 2, middle[0] + width / 2)
    axes.set_ylim(middle[1] - ratio * width / 2, middle[1] + ratio * width / 2)
    disc = 72 * side * 2 * _RADIUS / width  # diameter in points
    bonds = [(positions[b.GetBeginAtomIdx()], positions[b.GetEndAtomIdx()]) for b in mol.GetBonds()]
    axes.add_collection(LineCollection(bonds, colors="#666666", linewidths=min(0.9, 0.1 * disc), zorder=1))
    style = {"s": disc**2, "marker": "o"}
    colors = _DISCS(norm(values[: len(positions)]))
    axes.scatter(*positions.T, c=colors, edgecolors="#666666", linewidths=min(0.3, 0.05 * disc), zorder=2, **style)
    if disc >= _MIN_LABELED:
        for (x, y), element in zip(positions, mol.GetAtoms(), strict=True):
            if element.GetAtomicNum() != 6:
                style_of_symbol = {"fontsize": 0.6 * disc, "ha": "center", "va": "center_baseline"}
                axes.text(x, y, element.GetSymbol(), zorder=4, parse_math=False, **style_of_symbol)
    if atom is not None and atom < len(positions):
        x, y = positions[atom]
        axes.scatter(x, y, facecolors="none", edgecolors=_RING, linewidths=min(1.2, 0.2 * disc), zorder=3, **style)
    for k, value in enumerate(values[len(positions) :]):
        edge = _RING if atom == len(positions) + k else "#999999"
        square = {"color": _DISCS(norm(value)), "markeredgecolor": edge, "markeredgewidth": 0.5}
        axes.plot(0.93 - 0.1 * k, 0.08, marker="s", markersize=5, transform=axes.transAxes, zorder=4, **square)


# One hue, darker for shorter distances; gray for no distance.
_COLORS: dict[str, str] = dict(
    zip(DISTANCES, ("#08306b", "#2171b5", "#6baed6", "#9ecae1", "#deebf7", "#bdbdbd", "#737373"), strict=True)
)
_MAX_GROUPS, _MAX_PAIRS = 16, 12  # numbers of columns
_MIN_RECEIVERS = 30  # fewer would give a noisy column
_MAX_LOG2 = 3.0  # the color scale of ratios ends at 2^-3 and 2^3


def heads_plot(summary: HeadSummary) -> Picture:
    """Draw a summary of heads, with a row for each head.

    From the left: the shares of attention by distance, with those of uniform attention above; the mean entropy as a
    fraction of log n; the attention to functional groups from other atoms, and between elements, relative to uniform
    attention: red for more, blue for less, white for equal. Columns are the most common classes with at least 30
    receivers.

    Raises:
        TypeError: `summary` is not a HeadSummary, such as one attention map.
    """
    if not isinstance(summary, HeadSummary):
        raise TypeError(
            f"heads_plot draws a HeadSummary, not {type(summary).__name__}: summarize_heads([...]) makes one of "
            "attention maps, and head_grid draws the heads of a single map"
        )
    layers, heads = summary.shape or (0, 0)
    rows = layers * heads
    groups = _columns(summary, "group", _MAX_GROUPS)
    pairs = _columns(summary, "element", _MAX_PAIRS)
    row = min(max(10.0 / rows, 0.05), 0.17) if rows > 6 else 1.0 / rows  # inches
    # In inches: bars, entropy, two heat maps and a color bar, with column names above.
    left, bars, dots, cell, gap, right, above, below = 0.75, 3.2, 0.9, 0.21, 0.3, 0.9, 1.75, 0.85
    titles = ("functional group,\nfrom the other atoms", "elements,\nreceiver to sender")
    heat_maps = [(columns, title) for columns, title in zip((groups, pairs), titles, strict=True) if columns]
    height = row * rows
    width = left + bars + gap + dots + sum(gap + cell * len(columns) for columns, _ in heat_maps) + right
    below += footer_height(summary.faithfulness, width) - 0.1
    total = (width, above + height + below)
    with new_figure(*total) as figure:

        def add_panel(x: float, panel_width: float) -> Any:
            axes = add_axes(figure, x, below, panel_width, height)
            axes.set_ylim(rows, 0)
            axes.set_yticks([])
            return axes

        axes = add_panel(left, bars)
        _bars(axes, summary, rows, row)
        names = [f"{layer}.{head}" for layer, head in np.ndindex(layers, heads)]
        every = max(1, int(np.ceil(0.13 / row)))
        axes.set_yticks(np.arange(0, rows, every) + 0.5, names[::every], fontsize=7)
        axes.set_ylabel("layer.head", fontsize=8)
        x = left + bars + gap
        _dots(add_panel(x, dots), summary, layers, heads)
        x += dots
        norm, mesh = TwoSlopeNorm(0, -_MAX_LOG2, _MAX_LOG2), None
        for columns, title in heat_maps:
            axes = add_panel(x + gap, cell * len(columns))
            mesh = _heat_map(axes, summary, columns, norm, layers)
            axes.set_xlabel(title, fontsize=8)
            x += gap + cell * len(columns)
        if mesh is not None:
            bar_height = min(height, 1.8)
            ticks = [float(t) for t in np.arange(-_MAX_LOG2, _MAX_LOG2 + 1)]
            bar = add_axes(figure, x + 0.15, below + height - bar_height, 0.12, bar_height)
            colorbar = figure.colorbar(mesh, cax=bar)
            colorbar.set_ticks(ticks, labels=[f"{2.0**t:g}" for t in ticks], fontsize=7)
            colorbar.set_label("times uniform attention", fontsize=8)
        text = f"What each head attends to: {summary.num_molecules:,} molecules, {summary.num_atoms:,} atoms"
        figure.text(0.1 / total[0], 1 - 0.1 / total[1], text, ha="left", va="top", fontsize=10)
        write_footer(figure, summary.faithfulness)
        return render(figure)


def _columns(summary: HeadSummary, by: str, max_columns: int) -> list[Key]:
    """The most common keys with enough receivers; functional groups only with other atoms as receivers."""
    keys = [key for key in summary.keys(by) if by != "group" or key.receiver == OTHER_ATOMS]
    if by == "element":
        keys = [key for key in keys if DISTANCES[-1] not in key]
    return [key for key in keys if summary.receivers(key) >= _MIN_RECEIVERS and summary.uniform(key) > 0][:max_columns]


def _bars(axes: Any, summary: HeadSummary, rows: int, row: float) -> None:
    """Draw the shares by distance, and those of uniform attention as one more bar above."""
    left, left_of_uniform = np.zeros(rows), 0.0
    y = -0.25 / row  # of the bar of uniform attention, in rows
    for key in summary.keys("distance"):
        uniform = summary.uniform(key)
        if not uniform:
            continue
        share = summary.share(key).ravel()
        style = {"color": _COLORS[key.sender], "edgecolor": "white", "linewidth": 0.3}
        axes.barh(np.arange(rows) + 0.5, share, left=left, height=0.9, label=key.sender, **style)
        axes.barh(y, uniform, left=left_of_uniform, height=0.15 / row, clip_on=False, **style)
        left, left_of_uniform = left + share, left_of_uniform + uniform
    axes.set_xlim(0, 1)
    axes.set_ylim(rows, 0)
    axes.text(-0.01, y, "uniform", ha="right", va="center", fontsize=7)
    axes.set_xlabel("share of attention", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1 + 0.38 / (row * rows)),
        fontsize=7,
        frameon=False,
        ncols=4,
        borderpad=0,
        handlelength=1.0,
        columnspacing=0.9,
        title="distance to the receiver",
        title_fontsize=8,
        alignment="left",
    )
    axes.spines[["left", "bottom"]].set_visible(False)


def _dots(axes: Any, summary: HeadSummary, layers: int, heads: int) -> None:
    axes.set_xlim(0, 1.05)
    axes.set_xlabel("entropy,\nshare of log n", fontsize=8)
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=7)
    axes.spines["left"].set_visible(False)
    for layer in range(1, layers):
        axes.axhline(layer * heads, color="#cccccc", linewidth=0.6)
    if (entropy := summary.relative_entropy()) is not None:
        values = entropy.ravel()
        axes.hlines(np.arange(len(values)) + 0.5, 0, values, color="#9ecae1", linewidth=1.0)
        axes.plot(values, np.arange(len(values)) + 0.5, "o", color="#08306b", markersize=3)


def _heat_map(axes: Any, summary: HeadSummary, keys: Sequence[Key], norm: TwoSlopeNorm, layers: int) -> Any:
    """Draw cells of log2(share / uniform), heads by classes."""
    with np.errstate(divide="ignore"):
        ratios = np.stack([np.log2(summary.share(key).ravel() / summary.uniform(key)) for key in keys], axis=1)
    ratios = np.clip(ratios, -_MAX_LOG2, _MAX_LOG2)
    mesh = axes.pcolormesh(ratios, cmap="RdBu_r", norm=norm, edgecolors="white", linewidth=0.3)
    names = [key.sender if key.by == "group" else f"{key.receiver} to {key.sender}" for key in keys]
    axes.set_xticks(np.arange(len(keys)) + 0.5, names, fontsize=7, rotation=90, parse_math=False)
    axes.tick_params(axis="x", length=0, labelbottom=False, labeltop=True)
    axes.spines[:].set_visible(False)
    for layer in range(1, layers):
        axes.axhline(layer * len(ratios) / layers, color="#666666", linewidth=0.6)
    return mesh
