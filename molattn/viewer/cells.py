"""Pictures of matrices: attention weights by query and key, and alignments of translations."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import MaxNLocator

from molattn.errors import UsageError, short_repr
from molattn.viewer.figures import (
    DPI,
    SIGNED,
    WEIGHTS,
    add_axes,
    footer_height,
    new_figure,
    render,
    shorten,
    write_footer,
)
from molattn.viewer.picture import Picture

_MAX_CELLS = 60  # cells per side: larger matrices are drawn as images
_MAX_NAMES = 24  # names per side of an image; the others are omitted
_FONT_SIZE = 9.0  # points
_LETTER_WIDTH = 0.66 * _FONT_SIZE / 72  # upper bound in inches


def matrix(
    values: Any,
    rows: Iterable[object] | None = None,
    columns: Iterable[object] | None = None,
    *,
    title: str = "",
    row_axis: str = "",
    column_axis: str = "",
    label: str = "attention weight",
    vmax: int | float | None = None,
    numbers: bool = False,
) -> Picture:
    """Draw a matrix as cells, darker for larger values; if any is negative, orange above 0 and blue below.

    Args:
        values: (n, m), an array, a tensor on any device, or lists.
        rows, columns: names of the rows and columns, texts or numbers; by default their indices from 0.
        title: title of the figure.
        row_axis, column_axis: labels of the axes.
        label: label of the color bar.
        vmax: the value of the darkest cell, above 0; by default the largest absolute value.
        numbers: whether to write each value into its cell, with two decimals.

    Raises:
        UsageError: not a matrix of finite numbers with at least one cell, another number of names than of rows or
            columns, or a `vmax` that is no number above 0.

    >>> from molattn.viewer import matrix
    >>> picture = matrix([[0.9, 0.1], [0.4, 0.6]], ["C0", "O1"], ["C0", "O1"], row_axis="receiver", numbers=True)
    >>> picture.svg.count("</svg>")  # a notebook shows it, picture.save("weights.png") writes a file
    1
    """
    labels = {"row_axis": row_axis, "column_axis": column_axis, "label": label}
    return matrices({"": values}, rows, columns, title=title, **labels, vmax=vmax, numbers=numbers)


def matrices(
    panels: Mapping[Any, Any],
    rows: Iterable[object] | None = None,
    columns: Iterable[object] | None = None,
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
        panels: matrices, (n, m) each, by name.
        rows, columns, row_axis, column_axis, label, vmax, numbers: as for `matrix`; they apply to all panels.
        title: title of the figure.

    Raises:
        UsageError: as for `matrix`; no panel, or panels of different sizes.

    >>> from molattn.viewer import matrices
    >>> heads = {"head 0": [[0.9, 0.1], [0.4, 0.6]], "head 1": [[0.5, 0.5], [0.0, 1.0]]}
    >>> picture = matrices(heads, ["C0", "O1"], ["C0", "O1"], title="CO, layer 0")
    >>> picture.svg.count("</svg>")
    1
    """
    # Names may be numbers; an array of them, or an index of pandas, has no truth value, and a generator no length.
    rows, columns = (None if names is None else [*names] for names in (rows, columns))
    arrays = {name: _finite_matrix(values) for name, values in panels.items()}
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) != 1:
        raise UsageError(f"panels are one or more matrices of one size, not of {sorted(shapes) or 'none'}")
    for names, count, what in zip((rows, columns), shapes.pop(), ("rows", "columns"), strict=True):
        if names is not None and len(names) != count:
            raise UsageError(f"{len(names)} names for {count} {what}: give one name for each")
    # Adding 0.0 turns -0.0 into 0.0.
    rounded = [np.round(array, 2) + 0.0 for array in arrays.values()] if numbers else []
    texts = [[[f"{x:.2f}" for x in row] for row in array] for array in rounded] or None
    labels = {"row_axis": row_axis, "column_axis": column_axis, "label": label}
    return draw_cells(arrays, rows or (), columns or (), title=[title], **labels, vmax=vmax, texts=texts)


def alignment(weights: np.ndarray, source: Sequence[str], target: Sequence[str], title: str = "") -> Picture:
    """Draw an alignment as n x m cells: row t is the attention of output token t to the input tokens.

    Args:
        weights: (n, m) attention weights, finite and not negative.
        source: m input tokens, the columns.
        target: n output tokens, the rows, the first one at the top.
        title: title of the figure.

    Raises:
        UsageError: no tokens, or weights of another shape, negative or not finite.

    >>> import numpy as np
    >>> from molattn.viewer import alignment
    >>> weights = np.array([[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]])  # of 2 output tokens to 3 input tokens
    >>> picture = alignment(weights, source=["the", "black", "cat"], target=["le", "chat"])
    >>> picture.svg.count("</svg>")
    1
    """
    weights = _finite_matrix(weights)
    if (weights < 0).any():
        raise UsageError("attention weights must not be negative")
    return matrix(weights, target, source, title=title, row_axis="output token", column_axis="input token")


def draw_cells(
    arrays: Mapping[Any, np.ndarray],
    rows: Iterable[object],
    columns: Iterable[object],
    *,
    title: Sequence[str],
    row_axis: str,
    column_axis: str,
    label: str,
    vmax: Any = None,
    texts: Sequence[Sequence[Sequence[str]]] | None = None,
    faithfulness: str = "",
) -> Picture:
    """Draw panels of cells, see `matrices`.

    Args:
        arrays: one or more matrices, (n, m) each, by the titles of their panels.
        rows, columns: names; indices from 0 if empty.
        title: lines of the title of the figure.
        row_axis, column_axis, label, vmax: as for `matrix`.
        texts: the text of each cell by panel, row and column; None for no texts.
        faithfulness: for the footer, see `footer_text`; no footer if empty.

    Raises:
        UsageError: `vmax` is no number above 0.
    """
    n, m = next(iter(arrays.values())).shape
    row_axis, column_axis, label = (shorten(text, 60) for text in (row_axis, column_axis, label))
    row_names, column_names = ([shorten(name, 16) for name in names] for names in (rows, columns))
    values = np.stack([*arrays.values()])
    signed, vmax = bool((values < 0).any()), resolve_vmax(values, vmax)
    style = {"cmap": SIGNED if signed else WEIGHTS, "vmin": -vmax if signed else 0.0, "vmax": vmax}

    # Sizes in inches.
    width, height, rotated = _panel_size(n, m, column_names, texts is not None, len(arrays))
    gap, left = 0.25, 0.15 + 0.2 * bool(row_axis) + max([len(name) for name in row_names], default=4) * _LETTER_WIDTH
    left = round(left * DPI) / DPI
    right = left + len(arrays) * (width + gap) - gap
    total_width = right + gap + 0.6 + 0.25 * bool(label)
    limit = int(14 * total_width)
    lines = [line for text in title for line in textwrap.wrap(shorten(text, 2 * limit), limit)]
    column_height = max(map(len, column_names)) * _LETTER_WIDTH if rotated else 0.15
    bottom = 0.15 + column_height + 0.2 * bool(column_axis)
    footer = footer_height(faithfulness, total_width) if faithfulness else 0.0
    top = 0.15 + 0.22 * any(arrays) + 0.2 * len(lines) + 0.05 * bool(lines)
    bottom, top = (round(size * DPI) / DPI for size in (bottom + footer, top))
    # A label that is wider than a panel would overlap with that of the next panel.
    shared_label = len(arrays) > 1 and len(column_axis) * _LETTER_WIDTH > width
    with new_figure(total_width, bottom + height + top) as figure:
        total_height = bottom + height + top
        meshes = []
        for p, (name, array) in enumerate(arrays.items()):
            axes = add_axes(figure, left + p * (width + gap), bottom, width, height)
            meshes.append(_draw_panel(axes, array, style))
            if texts is not None:
                _write_texts(axes, array, texts[p], vmax)
            step = -(-max(n, m) // _MAX_NAMES) if max(n, m) > _MAX_CELLS else 1
            _set_ticks(axes.xaxis, column_names, m, step)
            _set_ticks(axes.yaxis, row_names, n, step)
            if rotated:
                axes.tick_params(axis="x", labelrotation=90)
            if p > 0:
                axes.set_yticks([])
            axes.set_title(shorten(name, int(8 + 14 * width)), parse_math=False)
            if not shared_label:
                axes.set_xlabel(column_axis, parse_math=False)
        centered: dict[str, Any] = {"ha": "center", "parse_math": False}
        if shared_label:
            middle, y = (left + right) / 2 / total_width, (footer + 0.06) / total_height
            figure.text(middle, y, column_axis, va="bottom", **centered)
        figure.axes[0].set_ylabel(row_axis, parse_math=False)
        figure.text(0.5, 1 - 0.1 / total_height, "\n".join(lines), va="top", **centered)
        if faithfulness:
            write_footer(figure, faithfulness)
        text = shorten(label, max(10, int(total_height / _LETTER_WIDTH)))
        bar = add_axes(figure, right + 0.15, bottom, 0.13, height)
        figure.colorbar(meshes[0], cax=bar).set_label(text, parse_math=False)
        return render(figure)


def resolve_vmax(values: np.ndarray, vmax: Any) -> float:
    """The value of the darkest color: `vmax`, or if it is None the largest absolute value, or 1 if all values are 0.

    Values that are not finite do not count.

    Raises:
        UsageError: `vmax` is no number above 0.
    """
    if vmax is None:
        return float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) or 1.0
    if not isinstance(vmax, int | float | np.number) or not vmax > 0:
        raise UsageError(f"vmax, the value of the darkest color, must be a number above 0, not {short_repr(vmax)}")
    return float(vmax)


def _finite_matrix(values: Any) -> np.ndarray:
    """Values as (n, m) float64; UsageError if they are not finite numbers of that shape, or empty."""
    if hasattr(values, "detach"):  # a torch.Tensor
        values = values.detach().cpu().double().numpy()
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError("a picture of a matrix needs numbers") from error
    if array.ndim != 2 or not array.size:
        raise UsageError(f"a picture of a matrix needs numbers of shape (rows, columns), not {array.shape}")
    if not np.isfinite(array).all():
        raise UsageError("a picture of a matrix needs finite numbers, and some are NaN or infinite")
    return array


def _panel_size(n: int, m: int, columns: Sequence[str], texts: bool, panels: int) -> tuple[float, float, bool]:
    """Width and height of a panel in inches, and whether its column names are rotated."""
    if max(n, m) > _MAX_CELLS:  # a panel of a fixed width; cells need not be square
        width = 6.0 if panels == 1 else 4.4
        return width, _whole_pixels(n, width if n == m else 3.6), bool(columns)
    cell = max(0.44 if texts else min(0.27, 9.0 / max(n, m)), (2.2 if panels == 1 else 1.2) / max(n, m))
    longest = max(map(len, columns), default=0) * _LETTER_WIDTH + 0.06
    # A few short names are horizontal, under cells that are wide enough for them.
    cell_width = max(cell, longest) if longest < 0.75 and m <= 8 else cell
    return m * cell_width, max(n * cell, 0.9), longest > cell_width  # the color bar of a single row needs some height


def _whole_pixels(n: int, inches: float) -> float:
    """A height near `inches` at which each of n rows has a whole number of pixels; `inches` if rows are below a pixel.

    Otherwise resampling would add a pattern where neighboring rows differ much.
    """
    pixels = round(inches * DPI)
    return n * (pixels // n) / DPI if n <= pixels else inches


def _draw_panel(axes: Axes, array: np.ndarray, style: Mapping[str, Any]) -> Any:
    n, m = array.shape
    if max(n, m) > _MAX_CELLS:
        # An image, since an SVG of many cells is slow to display; smoothed when shrunk, since thin lines could vanish.
        return axes.imshow(array, aspect="auto", extent=(0, m, n, 0), interpolation_stage="data", **style)
    mesh = axes.pcolormesh(array, edgecolors="white", linewidth=0.4, **style)
    axes.invert_yaxis()
    axes.spines[:].set_visible(False)
    return mesh


def _write_texts(axes: Axes, array: np.ndarray, texts: Sequence[Sequence[str]], vmax: float) -> None:
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            color = "white" if abs(array[i, j]) > 0.6 * vmax else "black"
            axes.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=8, color=color)


def _set_ticks(axis: Axis, names: Sequence[str], count: int, step: int) -> None:
    """Label every `step`-th row or column with its name; without names, label some with their indices."""
    axis.set_tick_params(labelsize=_FONT_SIZE, length=0 if names and step == 1 else 2)
    indices = (
        np.arange(0, count, step) if names else np.asarray(MaxNLocator(6, integer=True).tick_values(0, count), int)
    )
    indices = indices[indices < count]
    axis.set_ticks(indices + 0.5, list(names[::step]) or [str(index) for index in indices], parse_math=False)
