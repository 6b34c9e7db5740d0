"""Figure of a `HeadSummary`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import TwoSlopeNorm

from molattn.explain import HeadSummary
from molattn.explain.head_summary import DISTANCES, OTHERS, Key
from molattn.viewer.figures import default_style, new_figure, render
from molattn.viewer.picture import Picture
from molattn.viewer.pictures import footer_height, write_footer

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
