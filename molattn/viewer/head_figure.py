"""The figure of a `HeadSummary`: what each head attends to, by distance, functional group and element."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import TwoSlopeNorm

from molattn.errors import UsageError
from molattn.explain import HeadSummary
from molattn.explain.head_summary import DISTANCES, OTHER_ATOMS, Key
from molattn.viewer.figures import SIGNED, add_axes, footer_height, new_figure, render, write_footer
from molattn.viewer.picture import Picture

# One hue, darker for shorter distances; gray for no distance.
_COLORS: dict[str, str] = dict(
    zip(DISTANCES, ("#08306b", "#2171b5", "#6baed6", "#9ecae1", "#deebf7", "#bdbdbd", "#737373"), strict=True)
)
_MAX_GROUPS, _MAX_PAIRS = 14, 10  # numbers of columns: the figure is at most 9.2 inches wide, as a notebook is
_MAX_LOG2 = 3.0  # the color scale of ratios ends at 2^-3 and 2^3
# The ratios of fewer receivers are noise. Fewer than the 100 of `HeadSummary.top_group` are enough here: that is the
# largest of many ratios, which is often that of a rare group, whereas the figure shows all of them.
_MIN_RECEIVERS = 30


def heads_plot(summary: HeadSummary) -> Picture:
    """Draw a summary of heads, with a row for each head.

    From the left: the shares of attention by distance, with those of uniform attention above; the mean entropy as a
    fraction of log n; the attention to functional groups from other atoms, and between elements, relative to uniform
    attention: orange for more, blue for less, white for equal. The columns are the most common groups and pairs of
    elements with at least 30 receivers.

    Args:
        summary: the result of `summarize_heads`.

    Raises:
        TypeError: `summary` is not a HeadSummary, for example an attention map.
        UsageError: the summary has no molecules.

    >>> import numpy as np
    >>> from molattn.explain import AttentionMap, summarize_heads
    >>> from molattn.viewer import heads_plot
    >>> attention = AttentionMap("CCO", ("C", "C", "O"), np.full((2, 4, 3, 3), 1 / 3), {}, {})
    >>> picture = heads_plot(summarize_heads([attention]))  # a row for each of the 2 x 4 heads
    >>> picture.svg.count("</svg>")
    1
    """
    if not isinstance(summary, HeadSummary):
        raise TypeError(
            f"heads_plot draws a HeadSummary, not {type(summary).__name__}: summarize_heads([...]) makes one of "
            "attention maps, and head_grid draws the heads of a single map"
        )
    if not summary.shape:
        raise UsageError("the summary has no molecules, so there are no heads to draw")
    layers, heads = summary.shape
    rows = layers * heads
    groups = _columns(summary, "group", _MAX_GROUPS)
    pairs = _columns(summary, "element", _MAX_PAIRS)
    row = min(max(10.0 / rows, 0.05), 0.17) if rows > 6 else 1.0 / rows  # inches
    # In inches: bars, entropy, two heat maps and a color bar, with column names above.
    left, bars, entropy, cell, gap, right, above, below = 0.65, 2.3, 0.65, 0.165, 0.25, 0.95, 1.85, 0.85
    titles = ("functional group,\nfrom the other atoms", "elements,\nreceiver to sender")
    heat_maps = [(columns, title) for columns, title in zip((groups, pairs), titles, strict=True) if columns]
    height = row * rows
    width = left + bars + gap + entropy + sum(gap + cell * len(columns) for columns, _ in heat_maps) + right
    below += footer_height(summary.faithfulness, width) - 0.1
    total = (width, above + height + below)
    with new_figure(*total) as figure:

        def add_panel(x: float, panel_width: float) -> Any:
            axes = add_axes(figure, x, below, panel_width, height)
            axes.set_ylim(rows, 0)
            axes.set_yticks([])
            return axes

        axes = add_panel(left, bars)
        _draw_shares(axes, summary, rows, row)
        names = [f"{layer}.{head}" for layer, head in np.ndindex(layers, heads)]
        every = max(1, int(np.ceil(0.13 / row)))
        axes.set_yticks(np.arange(0, rows, every) + 0.5, names[::every], fontsize=7)
        axes.set_ylabel("layer.head", fontsize=8)
        x = left + bars + gap
        _draw_entropy(add_panel(x, entropy), summary, layers, heads)
        x += entropy
        norm, mesh = TwoSlopeNorm(0, -_MAX_LOG2, _MAX_LOG2), None
        for columns, title in heat_maps:
            axes = add_panel(x + gap, cell * len(columns))
            mesh = _draw_ratios(axes, summary, columns, norm, layers)
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
    """The keys with the most uniform attention and enough receivers; of groups, those with other atoms as receivers."""
    keys = [key for key in summary.keys(by) if by != "group" or key.receiver == OTHER_ATOMS]
    if by == "element":
        keys = [key for key in keys if DISTANCES[-1] not in key]
    return [key for key in keys if summary.receivers(key) >= _MIN_RECEIVERS and summary.uniform(key) > 0][:max_columns]


def _draw_shares(axes: Any, summary: HeadSummary, rows: int, row: float) -> None:
    """Draw a bar of the shares by distance for each head, and one of uniform attention above them.

    Args:
        axes: of the panel.
        summary: the shares.
        rows: number of heads of all layers.
        row: height of a row in inches.
    """
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
        ncols=3,
        borderpad=0,
        handlelength=1.0,
        columnspacing=0.9,
        title="distance to the receiver",
        title_fontsize=8,
        alignment="left",
    )
    axes.spines[["left", "bottom"]].set_visible(False)


def _draw_entropy(axes: Any, summary: HeadSummary, layers: int, heads: int) -> None:
    """Draw a point for the mean relative entropy of each head."""
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


def _draw_ratios(axes: Any, summary: HeadSummary, keys: Sequence[Key], norm: TwoSlopeNorm, layers: int) -> Any:
    """Draw cells of log2(share / uniform), with heads as rows and keys as columns."""
    with np.errstate(divide="ignore"):
        ratios = np.stack([np.log2(summary.share(key).ravel() / summary.uniform(key)) for key in keys], axis=1)
    ratios = np.clip(ratios, -_MAX_LOG2, _MAX_LOG2)
    mesh = axes.pcolormesh(ratios, cmap=SIGNED, norm=norm, edgecolors="white", linewidth=0.3)
    names = [key.sender if key.by == "group" else f"{key.receiver} to {key.sender}" for key in keys]
    axes.set_xticks(np.arange(len(keys)) + 0.5, names, fontsize=7, rotation=90, parse_math=False)
    axes.tick_params(axis="x", length=0, labelbottom=False, labeltop=True)
    axes.spines[:].set_visible(False)
    for layer in range(1, layers):
        axes.axhline(layer * len(ratios) / layers, color="#666666", linewidth=0.6)
    return mesh
