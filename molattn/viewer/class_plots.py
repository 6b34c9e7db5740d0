"""Plots for classifiers: ROC curves, precision-recall curves, calibration and confusion matrices."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score, confusion_matrix, precision_recall_curve, roc_auc_score, roc_curve

from molattn.viewer.cells import draw_cells
from molattn.viewer.figures import REFERENCE_LINE, new_figure, render, shorten
from molattn.viewer.picture import Picture

# Colors as in the parity plot; the line styles differ as well.
_SPLIT_STYLES = {
    "train": {"color": "#999999", "linestyle": ":", "linewidth": 1.2},
    "val": {"color": "#56b4e9", "linestyle": "--", "linewidth": 1.4},
    "test": {"color": "#d55e00", "linestyle": "-", "linewidth": 1.8},
}
_MAX_BINS = 10  # of the calibration plot
_MAX_COUNTS = 12  # the cells of a confusion matrix of more classes have no room for their counts


def class_plot(
    true: np.ndarray,
    probability: np.ndarray,
    splits: Mapping[str, np.ndarray],
    *,
    name: str,
    counted: str = "molecules",
) -> Picture:
    """The ROC curve, the precision-recall curve and the calibration curve of one binary target.

    A split without labels, or with labels of only one class, has no curves; the legend says so. Each point of the
    calibration curve is the mean probability and the fraction of positives of a bin. There are ten bins with equal
    numbers of molecules, or fewer, but at least two, so that each has at least five molecules.

    Args:
        true: (n,) 0 or 1, NaN where a label is missing.
        probability: (n,), probability of class 1; NaN where there is no prediction.
        splits: indices of the molecules of "train", "val" and "test"; any may be absent.
        name: name of the target.
        counted: "molecules" or "atoms", for the title of the calibration plot.

    >>> import numpy as np
    >>> from molattn.viewer import class_plot
    >>> true = np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    >>> probability = np.array([0.1, 0.4, 0.35, 0.8, 0.2, 0.9])
    >>> picture = class_plot(true, probability, {"test": np.arange(6)}, name="toxic")
    >>> picture.svg.count("</svg>")
    1
    """
    known = np.isfinite(true) & np.isfinite(probability)
    target = shorten(name, 40)
    with new_figure(12.0, 4.3, "constrained") as figure:
        roc, precision, calibration = figure.subplots(1, 3)
        for split, style in ((s, style) for s, style in _SPLIT_STYLES.items() if s in splits):
            rows = np.asarray(splits[split], dtype=int)
            rows = rows[known[rows]]
            y, p = true[rows], probability[rows]
            if not len(y) or not (y != y[0]).any():
                reason = "one class only" if len(y) else "no labels"
                for axes in (roc, precision, calibration):
                    axes.plot([], [], label=f"{split}: {reason}", **style)
                continue
            false_positive_rate, true_positive_rate, _ = roc_curve(y, p)
            roc.plot(false_positive_rate, true_positive_rate, label=f"{split}: {roc_auc_score(y, p):.3f}", **style)
            precisions, recalls, _ = precision_recall_curve(y, p)
            label = f"{split}: {average_precision_score(y, p):.3f}"
            precision.step(recalls, precisions, where="post", label=label, **style)
            if split == "test":
                precision.axhline(y.mean(), **REFERENCE_LINE, label=f"fraction of positives: {y.mean():.3f}")
            bins = max(2, min(_MAX_BINS, len(y) // 5))  # at least five molecules in each
            fraction, mean = calibration_curve(y, p, n_bins=bins, strategy="quantile")
            calibration.plot(mean, fraction, marker=".", label=f"{split} ({len(y):,})", **style)
        roc.plot([0, 1], [0, 1], **REFERENCE_LINE, label="chance: 0.500")
        calibration.plot([0, 1], [0, 1], **REFERENCE_LINE, label="perfectly calibrated")
        _format_axes(roc, "false positive rate", "true positive rate", f"{target}: ROC curve, AUROC")
        _format_axes(precision, "recall", "precision", "Precision-recall curve, average precision")
        _format_axes(calibration, "predicted probability", "fraction of positives", f"Calibration, {counted}")
        roc.legend(frameon=False, fontsize=8, loc="lower right")
        precision.legend(frameon=False, fontsize=8, loc="lower left")
        calibration.legend(frameon=False, fontsize=8, loc="upper left")
        return render(figure)


def confusion_plot(
    true: np.ndarray,
    predicted: np.ndarray,
    classes: Sequence[str],
    *,
    name: str,
    split: str = "test",
    counted: str = "molecules",
) -> Picture:
    """Confusion matrix with true classes as rows: darker for a larger fraction of the molecules of that class.

    With at most twelve classes, the cells show the numbers of molecules.

    Args:
        true: (n,) class indices, NaN where a label is missing.
        predicted: (n,) indices of the most probable classes.
        classes: names of the classes, by index.
        name: name of the target.
        split: split label of the molecules, for the title.
        counted: "molecules" or "atoms", for the title.

    >>> import numpy as np
    >>> from molattn.viewer import confusion_plot
    >>> true, predicted = np.array([0.0, 0.0, 1.0, np.nan]), np.array([0, 1, 1, 1])
    >>> picture = confusion_plot(true, predicted, ["alcohol", "alkane"], name="class")
    >>> picture.svg.count("</svg>")
    1
    """
    known = np.isfinite(true)
    k = len(classes)
    counts = np.zeros((k, k), dtype=int)
    if known.any():
        counts = confusion_matrix(true[known].astype(int), predicted[known].astype(int), labels=np.arange(k))
    return draw_cells(
        {"": counts / np.maximum(counts.sum(1, keepdims=True), 1)},
        classes,
        classes,
        title=[f"{shorten(name, 30)}: {int(known.sum()):,} {split} {counted}"],
        row_axis="true",
        column_axis="predicted",
        label="fraction of the true class",
        vmax=1.0,
        texts=[[[f"{count:,}" for count in row] for row in counts.tolist()]] if k <= _MAX_COUNTS else None,
    )


def _format_axes(axes: Axes, x: str, y: str, title: str) -> None:
    """Set the labels and the title of axes from 0 to 1."""
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_aspect("equal")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, parse_math=False)
