"""Plots of uncertainty: coverage of prediction intervals or sets at each level, and errors by standard deviation."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from molattn.errors import UsageError
from molattn.models.artifact import Artifact
from molattn.models.calibration import (
    ISOTONIC,
    NONE,
    ZSCALING,
    Calibration,
    apply_calibration,
    prediction_intervals,
    prediction_sets,
)
from molattn.models.predictions import Predictions
from molattn.models.tasks import Regression
from molattn.training.uncertainty_metrics import binned_errors
from molattn.viewer.figures import REFERENCE_LINE, new_figure, render, safe_file_names, shorten
from molattn.viewer.picture import Picture

_LEVELS = tuple(np.linspace(0.05, 0.95, 19).round(2).tolist())
_UNCALIBRATED = {"color": "#0072b2", "marker": "^", "markersize": 4, "linewidth": 1.4}
_CALIBRATED = {"color": "#d55e00", "marker": "o", "markersize": 4, "linewidth": 1.6}


def uncertainty_plots(
    artifact: Artifact, true: np.ndarray, uncalibrated: Predictions, units: Sequence[str]
) -> dict[str, Picture]:
    """The `uncertainty_plot` of each target that has a label, by the stem of its file name.

    Args:
        artifact: the model, with its calibration.
        true: (n, T) labels of test molecules, or atoms; NaN where missing.
        uncalibrated: the predictions of the model for them, before calibration.
        units: units of the T targets; empty if unknown.

    Returns:
        Pictures by `uncertainty`, or by `uncertainty-TARGET` for several targets; empty if the model has neither
        standard deviations nor a calibration.
    """
    if uncalibrated.std is None and artifact.calibration is None:
        return {}
    names = ["uncertainty"]
    if len(artifact.targets) > 1:
        names = [f"uncertainty-{name}" for name in safe_file_names(artifact.targets)]
    return {
        stem: uncertainty_plot(artifact, true, uncalibrated, t, units[t])
        for t, stem in enumerate(names)
        if np.isfinite(true[:, t]).any()
    }


def uncertainty_plot(
    artifact: Artifact, true: np.ndarray, uncalibrated: Predictions, t: int, unit: str = ""
) -> Picture:
    """Plot the coverage of the intervals, or sets, of target t at each level, and their widths or errors.

    On the diagonal of the left panel, coverage is equal to the level. For predictions with a standard deviation, the
    right panel shows the root mean square error by standard deviation, in ten bins of at least five molecules, or fewer
    bins; on the diagonal they are equal. For others it shows the mean width of the intervals, or the mean size of the
    sets, at each level. Widths and errors of a target with a transform are those of the transformed target.

    Args:
        artifact, true, uncalibrated: as for `uncertainty_plots`.
        t: index of the target.
        unit: unit of the target; empty if unknown.
    """
    target = shorten(artifact.targets[t], 40)
    known = np.isfinite(true[:, t])
    y, predictions = artifact.scaler.transform(true)[known, t], uncalibrated[known]
    transform = artifact.scaler.transform_of(t)
    unit = unit if transform is None else transform.transformed_unit(unit)
    counted = "atoms" if artifact.task.atom_level else "molecules"
    with new_figure(9.4, 4.6, "constrained") as figure:
        left, right = figure.subplots(1, 2)
        curves = []
        if uncalibrated.std is not None or not isinstance(artifact.task, Regression):
            curves.append(("uncalibrated", None, NONE, _UNCALIBRATED))
        if artifact.calibration is not None:
            method = artifact.calibration.method
            curves.append((method, artifact.calibration, method, _CALIBRATED))
        sizes = []
        for label, calibration, method, style in curves:
            levels, coverage, size = _coverage_curve(artifact, y, predictions, t, calibration, method)
            left.plot(levels, coverage, label=label, **style)
            sizes.append((label, levels, size, style))
        left.plot([0, 1], [0, 1], **REFERENCE_LINE, label="coverage = level")
        left.set_xlim(0, 1)
        left.set_ylim(0, 1)
        left.set_aspect("equal")
        region = "intervals" if isinstance(artifact.task, Regression) else "sets"
        left.set_xlabel(f"level of the {region}")
        left.set_ylabel(f"coverage of {len(y):,} test {counted}")
        left.set_title(f"{target}: coverage", parse_math=False)
        left.legend(frameon=False, fontsize=8, loc="upper left")
        in_unit = f" ({shorten(unit, 30)})" if unit else ""
        if isinstance(artifact.task, Regression) and uncalibrated.std is not None:
            _plot_errors(right, artifact, y, predictions, t, in_unit)
        else:
            for label, levels, size, style in sizes:
                right.plot(levels, size, label=label, **style)
            right.set_xlim(0, 1)
            right.set_ylim(bottom=0)
            right.set_xlabel(f"level of the {region}")
            right.set_ylabel(
                f"mean width{in_unit}" if region == "intervals" else "mean number of classes", parse_math=False
            )
            right.set_title("Width" if region == "intervals" else "Size")
            right.legend(frameon=False, fontsize=8, loc="upper left")
        return render(figure)


def _coverage_curve(
    artifact: Artifact, y: np.ndarray, predictions: Predictions, t: int, calibration: Calibration | None, method: str
) -> tuple[list[float], list[float], list[float]]:
    """Levels, coverages, and mean widths or sizes, up to the highest level that the calibration molecules allow."""
    task, levels, coverage, widths = artifact.task, [], [], []
    calibrated = predictions if calibration is None else apply_calibration(predictions, task, calibration, method)
    for level in _LEVELS:
        try:
            if isinstance(task, Regression):
                intervals = prediction_intervals(predictions, task, level, calibration, method)
                lower, upper = (end[:, t] for end in intervals)
                covered, width = (lower <= y) & (y <= upper), upper - lower
            else:
                sets = prediction_sets(calibrated, task, level, calibration, method)[t]
                covered, width = sets[np.arange(len(y)), y.astype(int)], sets.sum(1)
        except UsageError:  # higher levels need more calibration molecules than there are
            break
        levels.append(level)
        coverage.append(float(covered.mean()))
        widths.append(float(width.mean()))
    return levels, coverage, widths


def _plot_errors(axes: Axes, artifact: Artifact, y: np.ndarray, predictions: Predictions, t: int, in_unit: str) -> None:
    """Draw root mean square errors against predicted standard deviations, a point for each of `binned_errors`."""
    assert predictions.std is not None
    curves = [("uncalibrated", predictions, _UNCALIBRATED)]
    if artifact.calibration is not None and artifact.calibration.method in (ZSCALING, ISOTONIC):
        calibrated = apply_calibration(predictions, artifact.task, artifact.calibration, artifact.calibration.method)
        curves.append((artifact.calibration_method, calibrated, _CALIBRATED))
    limit = 0.0
    for label, p, style in curves:
        assert p.std is not None
        points = np.array(binned_errors(y, p.values[:, t], p.std[:, t]))
        axes.plot(points[:, 0], points[:, 1], label=label, **style)
        limit = max(limit, 1.05 * float(points.max()))
    axes.plot([0, limit], [0, limit], **REFERENCE_LINE, label="error = standard deviation")
    axes.set_xlim(0, limit)
    axes.set_ylim(0, limit)
    axes.set_aspect("equal")
    axes.set_xlabel(f"standard deviation{in_unit}", parse_math=False)
    axes.set_ylabel(f"root mean square error{in_unit}", parse_math=False)
    axes.set_title("Errors against standard deviations")
    axes.legend(frameon=False, fontsize=8, loc="best")
