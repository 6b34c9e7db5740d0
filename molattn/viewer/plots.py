"""Plots of a run: predictions against true values, learning curves, and uncertainty estimates."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from molattn.data.tables.columns import has_unit
from molattn.errors import UsageError
from molattn.models.artifact import Artifact
from molattn.models.calibration import (
    ISOTONIC,
    ZSCALING,
    Calibration,
    apply_calibration,
    prediction_intervals,
    prediction_sets,
)
from molattn.models.losses import LOSSES
from molattn.models.predictions import NONE, Predictions
from molattn.models.task import Task
from molattn.models.tasks import Regression
from molattn.training.early_stopping import EpochRecord
from molattn.training.evaluation import Evaluation
from molattn.training.metrics import VAL_LOSS, label_of
from molattn.training.train_and_evaluate import RunResult
from molattn.training.uncertainty_metrics import binned_errors
from molattn.viewer.figures import new_figure, render, shorten
from molattn.viewer.picture import Picture

_LEVELS = tuple(np.linspace(0.05, 0.95, 19).round(2).tolist())
_UNCALIBRATED = {"color": "#0072b2", "marker": "^", "markersize": 4, "linewidth": 1.4}
_CALIBRATED = {"color": "#d55e00", "marker": "o", "markersize": 4, "linewidth": 1.6}
_REFERENCE = {"color": "#555555", "linewidth": 0.8, "zorder": 0}


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

    The diagonal on the left is exact coverage. For predictions with a standard deviation, the right panel shows the
    errors against it, a point for each tenth of the molecules; the diagonal is exact agreement. For others it shows the
    mean width of the intervals, or the mean size of the sets, at each level. Widths and errors of a target with a
    transform are those of the transformed target.
    """
    target = shorten(artifact.targets[t], 40)
    known = np.isfinite(true[:, t])
    y, predictions = artifact.scaler.transform(true)[known, t], raw[known]
    f = artifact.scaler.transforms[t] if artifact.scaler.transforms else None
    unit = unit if f is None else f.transformed_unit(unit)
    with new_figure(9.4, 4.6, "constrained") as figure:
        left, right = figure.subplots(1, 2)
        curves = []
        if raw.std is not None or not isinstance(artifact.task, Regression):
            curves.append(("uncalibrated", None, NONE, _UNCALIBRATED))
        if artifact.calibration is not None:
            method = artifact.calibration.method
            curves.append((method, artifact.calibration, method, _CALIBRATED))
        sizes = []
        for label, calibration, method, style in curves:
            levels, coverage, size = _coverage_curve(artifact, y, predictions, t, calibration, method)
            left.plot(levels, coverage, label=label, **style)
            sizes.append((label, levels, size, style))
        left.plot([0, 1], [0, 1], **_REFERENCE, label="coverage = level")
        left.set_xlim(0, 1)
        left.set_ylim(0, 1)
        left.set_aspect("equal")
        what = "intervals" if isinstance(artifact.task, Regression) else "sets"
        left.set_xlabel(f"level of the {what}")
        left.set_ylabel(f"coverage of {len(y):,} test molecules")
        left.set_title(f"{target}: coverage", parse_math=False)
        left.legend(frameon=False, fontsize=8, loc="upper left")
        in_unit = f" ({shorten(unit, 30)})" if unit else ""
        if isinstance(artifact.task, Regression) and raw.std is not None:
            _plot_errors(right, artifact, y, predictions, t, in_unit)
        else:
            for label, levels, size, style in sizes:
                right.plot(levels, size, label=label, **style)
            right.set_xlim(0, 1)
            right.set_ylim(bottom=0)
            right.set_xlabel(f"level of the {what}")
            right.set_ylabel(
                f"mean width{in_unit}" if what == "intervals" else "mean number of classes", parse_math=False
            )
            right.set_title("Width" if what == "intervals" else "Size")
            right.legend(frameon=False, fontsize=8, loc="upper left")
        return render(figure)


def _coverage_curve(
    artifact: Artifact, y: np.ndarray, predictions: Predictions, t: int, calibration: Calibration | None, method: str
) -> tuple[list[float], list[float], list[float]]:
    """Levels, coverages, and mean widths or sizes, up to the level that the calibration molecules allow."""
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
    """Draw root mean square errors against predicted standard deviations, by bins."""
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
    axes.plot([0, limit], [0, limit], **_REFERENCE, label="error = standard deviation")
    axes.set_xlim(0, limit)
    axes.set_ylim(0, limit)
    axes.set_aspect("equal")
    axes.set_xlabel(f"standard deviation{in_unit}", parse_math=False)
    axes.set_ylabel(f"root mean square error{in_unit}", parse_math=False)
    axes.set_title("Errors against standard deviations")
    axes.legend(frameon=False, fontsize=8, loc="best")


# Blue, orange and gray are distinguishable with any color vision; the markers differ as well.
_SPLIT_STYLES = {
    "train": {"color": "#bbbbbb", "marker": ".", "s": 8, "zorder": 1},
    "val": {"color": "#56b4e9", "marker": "^", "s": 14, "zorder": 2},
    "test": {"color": "#d55e00", "marker": "o", "s": 12, "zorder": 3},
}
_MAX_VECTOR_POINTS = 3000  # points up to which they are vector graphics


def parity_plot(
    true: np.ndarray,
    predicted: np.ndarray,
    splits: Mapping[str, np.ndarray],
    *,
    name: str,
    unit: str = "",
    test_rmse: float | None = None,
) -> Picture:
    """Parity plot of one target: predicted against true values, with the diagonal.

    Args:
        true: (n,), NaN where a label is missing.
        predicted: (n,), in the same unit.
        splits: indices of the molecules of "train", "val" and "test"; any may be absent.
        name: name of the target.
        unit: unit of the target; empty if unknown.
        test_rmse: for the title, in the unit; None if unknown.
    """
    known = np.isfinite(true) & np.isfinite(predicted)
    target = shorten(name, 40)
    quantity = f"{target} ({shorten(unit, 30)})" if unit and not has_unit(name, unit) else target
    in_unit = f" {shorten(unit, 30)}" if unit else ""
    with new_figure(5.0, 5.0, "constrained") as figure:
        axes = figure.add_subplot()
        shown = np.zeros(len(true), dtype=bool)
        for split, style in ((s, style) for s, style in _SPLIT_STYLES.items() if s in splits):
            rows = np.asarray(splits[split], dtype=int)
            rows = rows[known[rows]]
            shown[rows] = True
            axes.scatter(
                true[rows],
                predicted[rows],
                label=f"{split} ({len(rows):,})",
                linewidths=0,
                rasterized=len(rows) > _MAX_VECTOR_POINTS,
                **style,
            )
        low, high = _range(np.concatenate([true[shown], predicted[shown]]))
        axes.plot([low, high], [low, high], color="#555555", linewidth=0.8, zorder=0, label="predicted = true")
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        axes.set_aspect("equal")
        axes.set_xlabel(f"{quantity}, true", parse_math=False)
        axes.set_ylabel(f"{quantity}, predicted", parse_math=False)
        title = target if test_rmse is None else f"{target}: test RMSE {test_rmse:.3g}{in_unit}"
        axes.set_title(title, parse_math=False)
        axes.legend(frameon=False, fontsize=8)
        return render(figure)


def learning_curve(history: Sequence[EpochRecord], loss: str = "mse") -> Picture:
    """Draw the training and validation loss of each epoch.

    The loss "mse" is drawn as its root, in standard deviations of the training targets. The training loss is that of
    the batches during the epoch, with dropout; the validation loss is that of the averaged weights, so it may be lower.
    """
    root = LOSSES[loss].plot_root
    epochs = np.array([r.epoch for r in history], dtype=int)
    train, val = (np.array([getattr(r, name) for r in history]) for name in ("train_loss", "val_loss"))
    if root:
        train, val = np.sqrt(train), np.sqrt(val)
    best = next((r for r in reversed(history) if r.best), None)
    marker = "." if len(history) < 40 else None
    with new_figure(6.0, 3.8, "constrained") as figure:
        axes = figure.add_subplot()
        axes.plot(epochs, train, color="#999999", marker=marker, label="train")
        axes.plot(epochs, val, color="#0072b2", marker=marker, label="validation")
        if best is not None:
            by = "" if best.tracking_metric == VAL_LOSS else f", by {label_of(best.tracking_metric)}"
            label = f"best: epoch {best.epoch}{by}"
            loss_of_best = best.val_loss**0.5 if root else best.val_loss
            axes.plot(best.epoch, loss_of_best, "o", color="#d55e00", markersize=7, label=label)
        finite = np.concatenate([train, val])
        finite = finite[np.isfinite(finite)]
        if len(finite) and finite.min() > 0 and finite.max() > 8 * finite.min():
            axes.set_yscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("epoch")
        axes.set_ylabel(LOSSES[loss].label)
        axes.legend(frameon=False, fontsize=8)
        return render(figure)


def write_plots(result: RunResult) -> None:
    """Write `plots/` in the folder of a run: `learning_curve.png`, and the `target_plots` of each target."""
    dataset = result.dataset
    folder = result.folder / "plots"
    folder.mkdir(exist_ok=True)
    splits = {split: dataset.target_rows(dataset.indices(split)) for split in _SPLIT_STYLES}
    targets = dataset.config.target_columns
    rmse = [result.metrics["test"][t].get("rmse") for t in targets]
    pictures = target_plots(
        dataset.task, targets, dataset.units, dataset.targets, result.predictions.values, splits, rmse
    )
    for stem, picture in pictures.items():
        picture.save(folder / f"{stem}.png")
    rows = splits["test"]
    raw = result.uncalibrated_predictions[rows]
    for stem, picture in uncertainty_plots(result.artifact, dataset.targets[rows], raw, dataset.units).items():
        picture.save(folder / f"{stem}.png")
    learning_curve(result.history, dataset.task.loss).save(folder / "learning_curve.png")


def evaluation_plots(
    result: Evaluation, task: Task, targets: Sequence[str], units: Sequence[str]
) -> dict[str, Picture]:
    """The `target_plots` of a model on another table; all molecules are shown as test molecules."""
    splits = {"test": np.arange(len(result.targets))}
    rmse = [result.metrics[t].get("rmse") for t in targets]
    return target_plots(task, targets, units, result.targets, result.predictions.values, splits, rmse)


def target_plots(
    task: Task,
    targets: Sequence[str],
    units: Sequence[str],
    true: np.ndarray,
    predicted: np.ndarray,
    splits: Mapping[str, np.ndarray],
    test_rmse: Sequence[float | None],
) -> dict[str, Picture]:
    """A picture for each target, by the stem of its file name: `parity`, or `parity-TARGET` for several targets.

    Regression targets have a parity plot, binary targets `classification`, and targets of several classes `confusion`,
    of the test molecules only.

    Args:
        task, targets, units: the task, and the names and units of the targets.
        true, predicted: (n, T), see `Predictions.values`.
        splits: indices of the molecules, or atoms, of "train", "val" and "test"; any may be absent.
        test_rmse: RMSE of each target, for the title of its parity plot.
    """
    kind = {"regression": "parity", "binary": "classification", "multiclass": "confusion"}[task.kind]
    stems = [kind] if len(targets) == 1 else [f"{kind}-{name}" for name in safe_file_names(targets)]
    pictures, counted = {}, "atoms" if task.atom_level else "molecules"
    for t, (target, stem) in enumerate(zip(targets, stems, strict=True)):
        y, p = true[:, t], predicted[:, t]
        if task.kind == "regression":
            pictures[stem] = parity_plot(y, p, splits, name=target, unit=units[t], test_rmse=test_rmse[t])
            continue
        # Imported here, since regression does not need scikit-learn, which takes 1.5 s to import.
        from molattn.viewer.class_plots import class_plot, confusion_plot

        if task.kind == "binary":
            name = f"{target} ({task.classes[t][1]})" if task.classes else target
            pictures[stem] = class_plot(y, p, splits, name=name, counted=counted)
        else:
            rows = np.asarray(splits.get("test", ()), dtype=int)
            pictures[stem] = confusion_plot(y[rows], p[rows], task.classes[t], name=target, counted=counted)
    return pictures


def safe_file_names(names: Sequence[str]) -> list[str]:
    """`names` as parts of file names: letters, digits, dot, dash, underscore; distinct regardless of case."""
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


def _range(values: np.ndarray) -> tuple[float, float]:
    """The limits of an axis for `values`."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin
