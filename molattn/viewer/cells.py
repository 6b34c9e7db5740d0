"""Pictures of matrices: attention weights by query and key, and alignments of translations."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from molattn.errors import UsageError, short_repr
from molattn.viewer.figures import DPI, default_style, new_figure, render, shorten
from molattn.viewer.picture import Picture

_SQUARES = (1600, 60)  # numbers of cells, and of cells per side, up to which cells are drawn one by one
_NAMES = 24  # names per side if there are more cells than that; the others are omitted
_FONT = 9.0  # points
_PER_LETTER = 0.66 * _FONT / 72  # upper bound of the width of a letter in inches


def matrix(
    values: Any,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    title: str = "",
    row_axis: str = "",
    column_axis: str = "",
    label: str = "attention weight",
    vmax: int | float | None = None,
    numbers: bool = False,
) -> Picture:
    """Draw a matrix as cells, darker for larger values; with negative values, blue above 0 and red below.

    Args:
        values: (n, m), an array, a tensor on any device, or lists.
        rows, columns: names of the rows and columns; by default their indices from 0.
        title: title of the figure.
        row_axis, column_axis: labels of the axes.
        label: label of the colour bar.
        vmax: the value of the darkest cell, above 0; by default the largest absolute value.
        numbers: whether to write each value into its cell, with two decimals.

    Raises:
        UsageError: not a matrix of finite numbers with at least one cell, another number of names than of rows or
            columns, or a `vmax` that is not above 0.
    """
    axes_words = {"row_axis": row_axis, "column_axis": column_axis, "label": label}
    return matrices({"": values}, rows, columns, title=title, **axes_words, vmax=vmax, numbers=numbers)


def matrices(
    panels: Mapping[str, Any],
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    *,
    title: str = "",
    row_axis: str = "",
    column_axis: str = "",
    label: str = "attention weight",
    vmax: int | float | None = None,
    numbers: bool = False,
) -> Picture:
    """Draw matrices of one size side by side on a common scale, each like `matrix`, with its name as the title.

    Args:
        panels: matrices by name.
        title: title of the figure.

        The other arguments are those of `matrix`.

    Raises:
        UsageError: as for `matrix`; no panel, or panels of different sizes.
    """
    arrays = {name: _array(values) for name, values in panels.items()}
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) != 1:
        raise UsageError(f"panels are one or more matrices of one size, not of {sorted(shapes) or 'none'}")
    n, m = shapes.pop()
    for names, count, what in [(rows, n, "rows"), (columns, m, "columns")]:
        if names is not None and len(names) != count:
            raise UsageError(f"{len(names)} names do not fit {count} {what}")
    row_axis, column_axis, label = (shorten(words, 60) for words in (row_axis, column_axis, label))
    row_names, column_names = ([shorten(name, 16) for name in names or ()] for names in (rows, columns))
    least = min(array.min() for array in arrays.values())
    largest = max(array.max() for array in arrays.values())
    if vmax is None:
        vmax = float(max(largest, -least)) or 1.0
    if not vmax > 0:
        raise UsageError(f"the darkest cell stands for a value above 0, not for {short_repr(vmax)}")
    style = {"cmap": "RdBu" if least < 0 else "Blues", "vmin": -vmax if least < 0 else 0.0, "vmax": vmax}

    # Positions in inches: a layout engine crops the labels of axes with a fixed aspect ratio.
    width, height, upright = _size(n, m, column_names, numbers, len(arrays))
    left = 0.15 + 0.2 * bool(row_axis) + max([len(name) for name in row_names], default=4) * _PER_LETTER
    under = max(map(len, column_names)) * _PER_LETTER if upright else 0.15
    bottom = 0.15 + under + 0.2 * bool(column_axis)
    above = 0.15 + 0.22 * any(arrays) + 0.25 * bool(title)
    left, bottom, above = (round(size * DPI) / DPI for size in (left, bottom, above))
    gap = 0.25
    # A label wider than a panel would overlap with that of the next.
    once = len(arrays) > 1 and len(column_axis) * _PER_LETTER > width
    total = (left + len(arrays) * (width + gap) + 0.6 + 0.25 * bool(label), bottom + height + above)
    with default_style():
        figure = new_figure(*total)

        def add_axes(x: float, wide: float) -> Axes:
            return figure.add_axes((x / total[0], bottom / total[1], wide / total[0], height / total[1]))

        drawn = []
        for p, (name, array) in enumerate(arrays.items()):
            axes = add_axes(left + p * (width + gap), width)
            drawn.append(_cells(axes, array, style))
            if numbers:
                _numbers(axes, array, vmax)
            step = -(-max(n, m) // _NAMES) if _many(n, m) else 1
            _ticks(axes.xaxis, column_names, m, step)
            _ticks(axes.yaxis, row_names, n, step)
            if upright:
                axes.tick_params(axis="x", labelrotation=90)
            if p > 0:
                axes.set_yticks([])
            axes.set_title(shorten(name, int(8 + 14 * width)), parse_math=False)
            if not once:
                axes.set_xlabel(column_axis, parse_math=False)
        if once:
            middle = left + (len(arrays) * (width + gap) - gap) / 2
            figure.text(middle / total[0], 0.06 / total[1], column_axis, ha="center", va="bottom", parse_math=False)
        figure.axes[0].set_ylabel(row_axis, parse_math=False)
        if title:
            words = shorten(title, int(14 * total[0]))
            figure.text(0.5, 1 - 0.1 / total[1], words, ha="center", va="top", parse_math=False)
        bar = add_axes(left + len(arrays) * (width + gap) - gap + 0.15, 0.13)
        words = shorten(label, max(10, int(total[1] / _PER_LETTER)))
        figure.colorbar(drawn[0], cax=bar).set_label(words, parse_math=False)
        return render(figure)


def _array(values: Any) -> np.ndarray:
    if isinstance(values, Tensor):
        values = values.detach().cpu().double().numpy()
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError("a picture of a matrix needs numbers") from error
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        raise UsageError(f"a picture of a matrix needs (rows, columns) of finite numbers, not shape {array.shape}")
    return array


def _size(n: int, m: int, columns: Sequence[str], numbers: bool, panels: int) -> tuple[float, float, bool]:
    """Width and height of a panel in inches, and whether its column names are rotated."""
    if _many(n, m):  # too many to distinguish: a panel of a fixed width, cells need not be square
        return (6.0 if panels == 1 else 4.4), _whole(n, 3.6), bool(columns)
    cell = max(0.44 if numbers else 0.27, 1.2 / max(n, m))
    longest = max(map(len, columns), default=0) * _PER_LETTER + 0.06
    # A few short names are horizontal, under cells that are wide enough for them.
    wide = max(cell, longest) if longest < 0.75 and m <= 8 else cell
    return m * wide, max(n * cell, 0.9), longest > wide  # the colour bar of a single row needs some height


def _many(n: int, m: int) -> bool:
    return n * m > _SQUARES[0] or max(n, m) > _SQUARES[1]


def _whole(n: int, inches: float) -> float:
    """About that many inches, such that each of n rows has a whole number of pixels if there are not too many.

    Otherwise resampling would add a pattern where neighbouring rows differ much.
    """
    pixels = round(inches * DPI)
    return n * (pixels // n) / DPI if n <= pixels else inches


def _cells(axes: Axes, array: np.ndarray, style: Mapping[str, Any]) -> Any:
    n, m = array.shape
    if _many(n, m):
        # One image, smoothed when it is shrunk: otherwise thin lines could vanish.
        return axes.imshow(array, aspect="auto", extent=(0, m, n, 0), interpolation_stage="data", **style)
    drawn = axes.pcolormesh(array, edgecolors="white", linewidth=0.4, **style)
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    return drawn


def _numbers(axes: Axes, array: np.ndarray, vmax: int | float) -> None:
    for (i, j), value in np.ndenumerate(array):
        dark = abs(value) > 0.6 * vmax
        words = f"{value:.2f}".replace("-0.00", "0.00")
        axes.text(j + 0.5, i + 0.5, words, ha="center", va="center", fontsize=8, color="white" if dark else "black")


def _ticks(axis: Axis, names: Sequence[str], count: int, step: int) -> None:
    """Every `step`-th name of rows or columns; without names, some of the indices from 0."""
    axis.set_tick_params(labelsize=_FONT, length=0 if names and step == 1 else 2)
    indices = (
        np.arange(0, count, step) if names else np.asarray(MaxNLocator(6, integer=True).tick_values(0, count), int)
    )
    indices = indices[indices < count]
    axis.set_ticks(indices + 0.5, list(names[::step]) or [str(position) for position in indices], parse_math=False)


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
