"""Curves: numbers against a number, one line for each of a few series."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from molattn.errors import UsageError
from molattn.viewer.figures import new_figure, rendered, short, styled
from molattn.viewer.picture import Picture

# Told apart by every kind of colour vision (Okabe & Ito); the markers differ as well.
_LOOKS = [("#0072b2", "o"), ("#d55e00", "s"), ("#009e73", "^"), ("#cc79a7", "D"), ("#e69f00", "v"), ("#56b4e9", "P")]
_MARKED = 40  # points up to which each has its marker


def curves(
    x: Any,
    series: Mapping[str, Any],
    *,
    title: str = "",
    x_label: str = "",
    y_label: str = "",
    log: Sequence[str] = (),
    x_ticks: bool = False,
) -> Picture:
    """One line for each series over the same x.

    Args:
        x: (n,) numbers.
        series: (n,) numbers by name, up to six; NaN leaves a gap.
        title: above.
        x_label, y_label: what the axes are.
        log: which axes are logarithmic: "x", "y", "xy" or none.
        x_ticks: whether there is a tick at each x and nowhere else.

    Raises:
        UsageError: no series, more than six, or one that is not as long as x.
    """
    places = np.asarray(x, dtype=np.float64)
    lines = {name: np.asarray(values, dtype=np.float64) for name, values in series.items()}
    if not 0 < len(lines) <= len(_LOOKS):
        raise UsageError(f"a picture has one to {len(_LOOKS)} curves, not {len(lines)}")
    for name, values in lines.items():
        if values.shape != places.shape or places.ndim != 1:
            raise UsageError(f"{short(name, 40)} has shape {values.shape}, x has {places.shape}: one number for each x")
    with styled():
        figure = new_figure(6.0, 3.8)
        figure.set_layout_engine("constrained")
        axes = figure.add_subplot()
        for (name, values), (colour, marker) in zip(lines.items(), _LOOKS, strict=False):
            axes.plot(places, values, color=colour, marker=marker if len(places) <= _MARKED else "", markersize=5)
            axes.lines[-1].set_label(short(name, 40).lstrip("_"))
        if "x" in log:
            axes.set_xscale("log")
        if "y" in log:
            axes.set_yscale("log")
        if x_ticks:
            axes.set_xticks(places, [f"{place:g}" for place in places])
            axes.set_xticks([], minor=True)
        axes.set_title(short(title, 80), parse_math=False)
        axes.set_xlabel(short(x_label, 60), parse_math=False)
        axes.set_ylabel(short(y_label, 60), parse_math=False)
        for text in axes.legend(frameon=False, fontsize=9).get_texts():
            text.set_parse_math(False)
        return rendered(figure)
