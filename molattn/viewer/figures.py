"""matplotlib for the pictures of this room: the same bytes every time, and nobody's settings touched."""

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
"""Pixels per inch of the PNG, and of what is one image in the SVG."""

_UNPRINTABLE = re.compile(r"[^\S ]|[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@contextmanager
def styled() -> Iterator[None]:
    """matplotlib's defaults and ours for the length of the block, whatever the user has set."""
    with matplotlib.style.context(["default", _STYLE]):
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that many inches that pyplot does not know of."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def rendered(figure: Figure) -> Picture:
    """`figure` in both formats, without a date; each is drawn when it is asked for, as most want only one."""
    if figure.get_layout_engine() is not None:
        # Once: each drawing would move things a little, and what is drawn second would be another picture.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")

    def drawn(kind: str, metadata: dict[str, None]) -> bytes:
        with styled():
            file = io.BytesIO()
            figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)
        return file.getvalue()

    return Picture(
        lambda: drawn("svg", {"Date": None, "Creator": None}).decode("utf-8"),
        lambda: drawn("png", {"Software": None}),
    )


def short(text: str, limit: int) -> str:
    """`text` as it may stand in a picture: one line, nothing that XML forbids, cut after `limit` characters."""
    text = _UNPRINTABLE.sub(" ", text).strip()
    return text if len(text) <= limit else text[: limit - 3] + "..."
