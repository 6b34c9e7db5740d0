import numpy as np
import pytest

from molattn.errors import UsageError
from molattn.viewer import curves
from tests.viewer.svg import SVG, assert_sound, root

X = [4, 16, 64]


def test_curves_are_valid_and_reproducible():
    series = {"rises": X, "stays": [1, np.nan, 1]}
    picture = curves(X, series, title="t", x_label="x", y_label="y", log="xy", x_ticks=True)
    assert_sound(picture)
    assert picture == curves(X, series, title="t", x_label="x", y_label="y", log="xy", x_ticks=True)


def test_ticks_are_exactly_at_x():
    picture = curves(X, {"a": X}, log="x", x_ticks=True)
    ticks = [e for e in root(picture).iter(f"{SVG}g") if e.get("id", "").startswith("xtick")]
    assert len(ticks) == 3
    assert "<!-- 64 -->" in picture.svg


def test_names_are_only_text():
    hostile = "<script>&$x^$--></svg>\x00"
    assert_sound(curves(X, {hostile: X, "_hidden": X, "$": X}, title=hostile, x_label=hostile, y_label=hostile))
    assert "<!-- hidden -->" in curves(X, {"_hidden": X}).svg


@pytest.mark.parametrize("log", ["z", "xz", "X", ["xy"], "x,y"])
def test_other_logarithmic_axes_are_rejected(log):
    with pytest.raises(UsageError, match="log names the axes x and y, .* not"):
        curves(X, {"a": X}, log=log)


def test_invalid_series_are_rejected():
    with pytest.raises(UsageError, match="1 to 6 curves, not 0"):
        curves(X, {})
    with pytest.raises(UsageError, match="not 7"):
        curves(X, {str(i): X for i in range(7)})
    with pytest.raises(UsageError, match="one number for each x"):
        curves(X, {"a": [1, 2]})


def test_names_may_be_numbers():
    assert curves([1, 2], {64: [1, 2], 2.5: [2, 1]}) == curves([1, 2], {"64": [1, 2], "2.5": [2, 1]})
