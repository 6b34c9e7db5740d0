"""Alignments of a translation: attention of output tokens to input tokens."""

from collections.abc import Sequence

import numpy as np

from molattn.errors import UsageError
from molattn.viewer.figures import default_style, new_figure, render, shorten
from molattn.viewer.picture import Picture

_CELL = 0.27  # inches
_VECTOR_CELLS = 1600  # cells up to which they are drawn one by one


def alignment(weights: np.ndarray, source: Sequence[str], target: Sequence[str], title: str = "") -> Picture:
    """Draw weights as n x m cells: row t shows the attention of output token t to the input tokens.

    Args:
        weights: (n, m), finite and not negative.
        source: m input tokens, the columns.
        target: n output tokens, the rows, the first one at the top.
        title: title of the figure.

    Raises:
        UsageError: no tokens, or weights of another shape, negative or not finite.
    """
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (len(target), len(source)):
        raise UsageError(
            f"weights are output by input tokens, ({len(target)}, {len(source)}), not {tuple(weights.shape)}"
        )
    if not weights.size:
        raise UsageError("an alignment needs at least one input and one output token")
    if not np.isfinite(weights).all() or weights.min() < 0:
        raise UsageError("attention weights are finite and not negative")
    n, m = weights.shape
    cell = min(_CELL, 9.0 / max(n, m))
    wide, high = max(cell * m, 1.6), max(cell * n, 1.6)
    size = min(9.0, 0.9 * 72 * cell)
    rows, columns = ([shorten(token, 8) for token in tokens] for tokens in (target, source))
    letters = 0.7 * size / 72
    left, bottom = 0.45 + letters * max(map(len, rows)), 0.45 + letters * max(map(len, columns))
    top = 0.4 if title else 0.15
    width, height = left + wide + 1.0, bottom + high + top
    with default_style():
        figure = new_figure(width, height)
        axes = figure.add_axes((left / width, bottom / height, wide / width, high / height))
        bar = figure.add_axes(((left + wide + 0.15) / width, bottom / height, 0.12 / width, high / height))
        drawn = n * m <= _VECTOR_CELLS
        largest = float(weights.max()) or 1.0
        lines = "white" if drawn else "none"
        mesh = axes.pcolormesh(weights, cmap="Blues", vmin=0, vmax=largest, edgecolors=lines, linewidth=0.4)
        # A large SVG is slow to display: many cells are drawn as one image.
        mesh.set_rasterized(not drawn)
        axes.invert_yaxis()
        rotation = 90 if max(map(len, columns)) > 2 else 0
        axes.set_xticks(np.arange(m) + 0.5, columns, fontsize=size, rotation=rotation, parse_math=False)
        axes.set_yticks(np.arange(n) + 0.5, rows, fontsize=size, parse_math=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_xlabel("input token looked at")
        axes.set_ylabel("output token")
        if title:
            text = shorten(title, int(14 * width))
            figure.text(0.5, 1 - 0.1 / height, text, ha="center", va="top", parse_math=False)
        figure.colorbar(mesh, cax=bar, label="attention weight")
        return render(figure)
