"""Plots of uncertainty estimates: coverage and width of intervals, and errors against standard deviations."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from molattn.errors import UsageError
from molattn.models.artifact import Artifact
from molattn.models.calibration import NONE, Calibration, apply_calibration, prediction_intervals, prediction_sets
from molattn.models.predictions import Predictions
from molattn.models.tasks import Regression
from molattn.training.uncertainty_metrics import binned_errors
from molattn.viewer.figures import default_style, new_figure, render, shorten
from molattn.viewer.picture import Picture

_LEVELS = tuple(np.linspace(0.05, 0.95, 19).round(2).tolist())
_OWN = {"color": "#0072b2", "marker": "^", "markersize": 4, "linewidth": 1.4}
_CALIBRATED = {"color": "#d55e00", "marker": "o", "markersize": 4, "linewidth": 1.6}
_REST = {"color": "#555555", "linewidth": 0.8, "zorder": 0}


def uncertainty_plots(
    artifact: Artifact, true: np.ndarray, raw: Predictions, units: Sequence[str]
) -> dict[str, Picture]:
    """Pictures by file stem: `uncertainty`, or `uncertainty-TARGET` for several targets; empty without uncertainty.

    Args:
        artifact: the model.
        true: (n, T), NaN where missing.
        raw: its predictions for these molecules, before calibration.
        units: units of the targets.
    """
    if raw.std is None and artifact.calibration is None:
        return {}
    # Here, since plots.py imports this module.
    from molattn.viewer.plots import safe_file_names

    names = ["uncertainty"]
    if len(artifact.targets) > 1:
        names = [f"uncertainty-{name}" for name in safe_file_names(artifact.targets)]
    return {
        stem: uncertainty_plot(artifact, true, raw, t, units[t])
        for t, stem in enumerate(names)
        if np.isfinite(true[:, t]).any()
    }


def uncertainty_plot(artifact: Artifact, true: np.ndarray, raw: Predictions, t: int, unit: str = "") -> Picture:
    """Plot the coverage of the intervals, or sets, of target t at each level, and their widths or errors.

    The diagonal on the left is exact coverage. The right panel shows, for predictions with a standard deviation, the
    errors against it, a point for each tenth of the molecules, with the diagonal for exact agreement; for others the
    mean width of the intervals, or the mean size of the sets, at each level.
    """
    target = shorten(artifact.targets[t], 40)
    known = np.isfinite(true[:, t])
    y, answers = true[known, t], raw[known]
    with default_style():
        figure = new_figure(9.4, 4.6)
        figure.set_layout_engine("constrained")
        left, right = figure.subplots(1, 2)
        curves = []
        if raw.std is not None or not isinstance(artifact.task, Regression):
            curves.append(("the model's own", None, NONE, _OWN))
        if artifact.calibration is not None:
            method = artifact.calibration.method
            curves.append((method, artifact.calibration, method, _CALIBRATED))
        sizes = []
        for label, calibration, method, style in curves:
            levels, shares, size = _curve(artifact, y, answers, t, calibration, method)
            left.plot(levels, shares, label=label, **style)
            sizes.append((label, levels, size, style))
        left.plot([0, 1], [0, 1], **_REST, label="share = level")
        left.set_xlim(0, 1)
        left.set_ylim(0, 1)
        left.set_aspect("equal")
        what = "intervals" if isinstance(artifact.task, Regression) else "sets"
        left.set_xlabel(f"level of the {what}")
        left.set_ylabel(f"share of {len(y):,} test molecules in them")
        left.set_title(f"{target}: coverage", parse_math=False)
        left.legend(frameon=False, fontsize=8, loc="upper left")
        words = f" ({shorten(unit, 30)})" if unit else ""
        if isinstance(artifact.task, Regression) and raw.std is not None:
            _errors(right, artifact, y, answers, t, words)
        else:
            for label, levels, size, style in sizes:
                right.plot(levels, size, label=label, **style)
            right.set_xlim(0, 1)
            right.set_ylim(bottom=0)
            right.set_xlabel(f"level of the {what}")
            right.set_ylabel(
                f"mean width{words}" if what == "intervals" else "mean number of classes", parse_math=False
            )
            right.set_title("Width" if what == "intervals" else "Size")
            right.legend(frameon=False, fontsize=8, loc="upper left")
        return render(figure)


def _curve(
    artifact: Artifact, y: np.ndarray, answers: Predictions, t: int, calibration: Calibration | None, method: str
) -> tuple[list[float], list[float], list[float]]:
    """Levels, coverages, and mean widths or sizes, up to the level that the calibration molecules allow."""
    task, levels, shares, widths = artifact.task, [], [], []
    scaled = answers if calibration is None else apply_calibration(answers, task, calibration, method)
    for level in _LEVELS:
        try:
            if isinstance(task, Regression):
                lower, upper = (end[:, t] for end in prediction_intervals(answers, task, level, calibration, method))
                held, width = (lower <= y) & (y <= upper), upper - lower
            else:
                within = prediction_sets(scaled, task, level, calibration, method)[t]
                held, width = within[np.arange(len(y)), y.astype(int)], within.sum(1)
        except UsageError:  # higher levels need more calibration molecules than there are
            break
        levels.append(level)
        shares.append(float(held.mean()))
        widths.append(float(width.mean()))
    return levels, shares, widths


def _errors(axes: Axes, artifact: Artifact, y: np.ndarray, answers: Predictions, t: int, words: str) -> None:
    """Draw root mean square errors against predicted standard deviations, by bins."""
    assert answers.std is not None
    curves = [("the model's own", answers, _OWN)]
    scaled = artifact.apply_calibration(answers)
    if scaled is not answers:
        curves.append((artifact.calibration_method, scaled, _CALIBRATED))
    top = 0.0
    for label, found, style in curves:
        assert found.std is not None
        points = np.array(binned_errors(y, found.values[:, t], found.std[:, t]))
        axes.plot(points[:, 0], points[:, 1], label=label, **style)
        top = max(top, float(points.max()))
    axes.plot([0, 1.05 * top], [0, 1.05 * top], **_REST, label="error = standard deviation")
    axes.set_xlim(0, 1.05 * top)
    axes.set_ylim(0, 1.05 * top)
    axes.set_aspect("equal")
    axes.set_xlabel(f"standard deviation{words}", parse_math=False)
    axes.set_ylabel(f"root mean square error{words}", parse_math=False)
    axes.set_title("Errors against standard deviations")
    axes.legend(frameon=False, fontsize=8, loc="best")
