"""matplotlib figures for `molattn.viewer`: reproducible to the byte, and independent of the user's settings."""

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from molattn.viewer.picture import Picture

_STYLE = {
    "svg.hashsalt": "molattn",  # ids of SVG elements are random otherwise
    "font.size": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
DPI = 150
"""Pixels per inch of the PNG, and of images in the SVG."""

_UNPRINTABLE = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@contextmanager
def default_style() -> Iterator[None]:
    """A context with matplotlib's defaults and the settings of `_STYLE`, independent of the user's rcParams."""
    with matplotlib.style.context(["default", _STYLE]):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that is not registered with pyplot."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def render(figure: Figure) -> Picture:
    """Render a figure in both formats, without a date, each at its first use, since often only one is needed."""
    if figure.get_layout_engine() is not None:
        # Once: the layout changes slightly with each drawing, so that the second format would differ from the first.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")

    def drawn(kind: str, metadata: dict[str, None]) -> bytes:
        with default_style():
            file = io.BytesIO()
            figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)
        return file.getvalue()

    return Picture(
        lambda: drawn("svg", {"Date": None, "Creator": None}).decode("utf-8"),
        lambda: drawn("png", {"Software": None}),
    )


def shorten(text: str, limit: int) -> str:
    """`text` for a picture: on one line, without characters that XML forbids, cut after `limit` characters."""
    text = _UNPRINTABLE.sub(" ", text).strip()
    return text if len(text) <= limit else text[: limit - 3] + "..."
