"""matplotlib figures, independent of the user's rcParams and the same to the byte each time, and line plots."""

import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from molattn.errors import UsageError, short_repr
from molattn.viewer.palette import ATTENTION_STEPS, SIGNED_STEPS
from molattn.viewer.picture import Picture
from molattn.viewer.svg_text import compact

_RC_PARAMS = {
    "svg.hashsalt": "molattn",  # ids of SVG elements are random otherwise
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
REFERENCE_LINE = {"color": "#555555", "linewidth": 0.8, "zorder": 0}
"""The style of a reference line, such as the diagonal of a parity plot."""

WEIGHTS = LinearSegmentedColormap.from_list("weights", ATTENTION_STEPS)
"""The colormap of attention weights, which begins at 0."""

SIGNED = LinearSegmentedColormap.from_list("signed", SIGNED_STEPS)
"""The colormap of signed values, and of ratios to uniform attention: blue below, orange above."""

DPI = 150
"""Pixels per inch of the PNG, and of images in the SVG."""

_UNPRINTABLE = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@contextmanager
def default_style() -> Iterator[None]:
    """A context with matplotlib's defaults and the rcParams of this module instead of the user's."""
    with matplotlib.style.context(["default", _RC_PARAMS]):
        yield


@contextmanager
def new_figure(width: float, height: float, layout: Literal["constrained"] | None = None) -> Iterator[Figure]:
    """A context with the `default_style` and an empty figure that pyplot does not know.

    Args:
        width, height: size of the figure in inches.
        layout: the layout engine of matplotlib; None for none.
    """
    with default_style():
        figure = Figure(figsize=(width, height), layout=layout)
        FigureCanvasAgg(figure)
        yield figure


def add_axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Add axes at a position in inches: a layout engine would crop the labels of axes with a fixed aspect ratio."""
    total_width, total_height = figure.get_size_inches()
    return figure.add_axes((left / total_width, bottom / total_height, width / total_width, height / total_height))


def render(figure: Figure) -> Picture:
    """The figure as a picture, without a date. Each format is drawn at its first use: often only one is needed."""
    if figure.get_layout_engine() is not None:
        # The layout changes slightly with each drawing. It is computed once, so that both formats have the same.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")

    def draw(kind: str, metadata: dict[str, None]) -> bytes:
        with default_style():
            file = io.BytesIO()
            figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)
        return file.getvalue()

    return Picture(
        lambda: compact(draw("svg", {"Date": None, "Creator": None}).decode("utf-8")),
        lambda: draw("png", {"Software": None}),
    )


def shorten(value: object, limit: int) -> str:
    """The value as text on one line, without characters that XML forbids, cut to `limit` characters."""
    text = _UNPRINTABLE.sub(" ", str(value)).strip()
    return text if len(text) <= limit else text[: limit - 3] + "..."


_FOOTER_SIZE = 7.5  # font size in points
_GRAY = (0.35, 0.35, 0.35)


def footer_text(faithfulness: str) -> str:
    """The footer of pictures of attention.

    Args:
        faithfulness: how faithful attention is as an explanation, see `AttentionMap.faithfulness`.
    """
    return f"as an explanation of the prediction: {shorten(faithfulness, 200)}"


def footer_height(faithfulness: str, width: float) -> float:
    """The height of the `footer_text` in a figure of that width, both in inches."""
    return 1.25 * _FOOTER_SIZE / 72 * len(textwrap.wrap(footer_text(faithfulness), _characters_per_line(width)))


def write_footer(figure: Any, faithfulness: str) -> None:
    """Write the `footer_text` at the bottom of a figure, in as many lines as it needs."""
    width, height = figure.get_size_inches()
    text = "\n".join(textwrap.wrap(footer_text(faithfulness), _characters_per_line(width)))
    style = {"ha": "center", "va": "bottom", "fontsize": _FOOTER_SIZE, "color": _GRAY, "parse_math": False}
    figure.text(0.5, 0.06 / height, text, **style)


def _characters_per_line(width: float) -> int:
    """How many characters of the footer fit into a figure of that width in inches."""
    return int((width - 0.2) * 72 / (0.57 * _FOOTER_SIZE))


# The colors of Okabe and Ito, distinguishable with any color vision; the markers differ as well.
_SERIES_STYLES = [
    ("#0072b2", "o"),
    ("#d55e00", "s"),
    ("#009e73", "^"),
    ("#cc79a7", "D"),
    ("#e69f00", "v"),
    ("#56b4e9", "P"),
]
_MAX_MARKERS = 40  # longer series have no markers


def curves(
    x: Any,
    series: Mapping[Any, Any],
    *,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    log: Sequence[str] = (),
    x_ticks: bool = False,
) -> Picture:
    """Draw one line for each series over the same x.

    Args:
        x: (n,) numbers.
        series: one to six series of (n,) numbers, by name; NaN leaves a gap.
        title: title of the figure.
        x_label, y_label: labels of the axes.
        log: which axes are logarithmic: "x", "y", "xy" or none.
        x_ticks: whether the ticks of the horizontal axis are exactly at x.

    Raises:
        UsageError: no series, more than six, one with another shape than x, an x that is not (n,), or another axis in
            `log` than x and y.

    >>> from molattn.viewer import curves
    >>> seconds = {"edge list": [0.4, 1.7, 7.0], "dense": [0.2, 0.3, 0.6]}
    >>> picture = curves([10, 20, 40], seconds, x_label="atoms", y_label="s", log="xy", x_ticks=True)
    >>> picture.svg.count("</svg>")
    1
    """
    x = np.asarray(x, dtype=np.float64)
    lines = {name: np.asarray(values, dtype=np.float64) for name, values in series.items()}
    if not 0 < len(lines) <= len(_SERIES_STYLES):
        raise UsageError(f"a figure has 1 to {len(_SERIES_STYLES)} curves, not {len(lines)}")
    for name, values in lines.items():
        if values.shape != x.shape or x.ndim != 1:
            raise UsageError(f"{shorten(name, 40)} has shape {values.shape}, x has {x.shape}: one number for each x")
    if not set(log) <= {"x", "y"}:
        raise UsageError(f"log names the axes x and y, as 'x', 'y' or 'xy', not {short_repr(log)}")
    with new_figure(6.0, 3.8, "constrained") as figure:
        axes = figure.add_subplot()
        for (name, values), (color, marker) in zip(lines.items(), _SERIES_STYLES, strict=False):
            axes.plot(x, values, color=color, marker=marker if len(x) <= _MAX_MARKERS else "", markersize=5)
            axes.lines[-1].set_label(shorten(name, 40).lstrip("_"))
        if "x" in log:
            axes.set_xscale("log")
        if "y" in log:
            axes.set_yscale("log")
        if x_ticks:
            axes.set_xticks(x, [f"{value:g}" for value in x])
            axes.set_xticks([], minor=True)
        axes.set_title(shorten(title, 80), parse_math=False)
        axes.set_xlabel(shorten(x_label, 60), parse_math=False)
        axes.set_ylabel(shorten(y_label, 60), parse_math=False)
        for text in axes.legend(frameon=False, fontsize=9).get_texts():
            text.set_parse_math(False)
        return render(figure)


def safe_file_names(names: Sequence[str]) -> list[str]:
    """Replace what file names should not contain, for names as parts of file names.

    Args:
        names: any texts.

    Returns:
        For each name at most 60 ASCII letters, digits, dots, dashes and underscores, and a number if another name would
        be the same regardless of case.
    """
    used: set[str] = set()
    safe = []
    for name in names:
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:60] or "target"
        candidate, number = stem, 1
        while candidate.lower() in used:
            number += 1
            candidate = f"{stem}-{number}"
        used.add(candidate.lower())
        safe.append(candidate)
    return safe
