"""How well a classifier tells classes apart: ROC, precision and recall, calibration; and who is taken for whom."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from sklearn.calibration import calibration_curve
from sklearn.metrics import average_precision_score, confusion_matrix, precision_recall_curve, roc_auc_score, roc_curve

from molattn.viewer.figures import new_figure, rendered, short, styled
from molattn.viewer.picture import Picture

# As in the parity plot; here the lines differ as well.
_SIDES = {
    "train": {"color": "#999999", "linestyle": ":", "linewidth": 1.2},
    "val": {"color": "#56b4e9", "linestyle": "--", "linewidth": 1.4},
    "test": {"color": "#d55e00", "linestyle": "-", "linewidth": 1.8},
}
_REST = {"color": "#555555", "linewidth": 0.8, "zorder": 0}
_BINS = 10  # of equal numbers of molecules, in the calibration
_MOST_NAMED = 12  # classes up to which the cells of a confusion matrix hold their numbers


def class_plot(
    true: np.ndarray, probability: np.ndarray, sides: Mapping[str, np.ndarray], *, name: str, of: str = "molecules"
) -> Picture:
    """ROC, precision against recall, and calibration of one binary target, side by side.

    A side with labels of one class only has no curves; the legend says so. In the calibration each point is a tenth
    of the molecules, or less: its mean probability, and the share of them that is positive.

    Args:
        true: (n,) 0 or 1, NaN where a label is missing.
        probability: (n,), of 1.
        sides: indices of the molecules of "train", "val" and "test"; a side may be absent.
        name: of the target.
        of: what is counted.
    """
    known = np.isfinite(true) & np.isfinite(probability)
    target = short(name, 40)
    with styled():
        figure = new_figure(12.0, 4.3)
        figure.set_layout_engine("constrained")
        roc, precision, calibration = figure.subplots(1, 3)
        for side, look in ((s, look) for s, look in _SIDES.items() if s in sides):
            rows = np.asarray(sides[side], dtype=int)
            rows = rows[known[rows]]
            y, p = true[rows], probability[rows]
            if not len(y) or not (y != y[0]).any():
                why = "one class only" if len(y) else "no labels"
                for axes in (roc, precision, calibration):
                    axes.plot([], [], label=f"{side}: {why}", **look)
                continue
            x, up, _ = roc_curve(y, p)
            roc.plot(x, up, label=f"{side}: {roc_auc_score(y, p):.3f}", **look)
            up, x, _ = precision_recall_curve(y, p)
            precision.step(x, up, where="post", label=f"{side}: {average_precision_score(y, p):.3f}", **look)
            if side == "test":
                precision.axhline(y.mean(), **_REST, label=f"share of positives: {y.mean():.3f}")
            share, mean = calibration_curve(y, p, n_bins=_bins(len(y)), strategy="quantile")
            calibration.plot(mean, share, marker=".", label=f"{side} ({len(y):,})", **look)
        roc.plot([0, 1], [0, 1], **_REST, label="chance: 0.500")
        calibration.plot([0, 1], [0, 1], **_REST, label="share = probability")
        _label(roc, "false positive rate", "true positive rate", f"{target}: ROC, area under it")
        _label(precision, "recall", "precision", "Precision and recall, average precision")
        _label(calibration, "predicted probability", "share of positives", f"Calibration, {of}")
        roc.legend(frameon=False, fontsize=8, loc="lower right")
        precision.legend(frameon=False, fontsize=8, loc="lower left")
        calibration.legend(frameon=False, fontsize=8, loc="upper left")
        return rendered(figure)


def confusion_plot(
    true: np.ndarray,
    predicted: np.ndarray,
    classes: Sequence[str],
    *,
    name: str,
    side: str = "test",
    of: str = "molecules",
) -> Picture:
    """How many molecules of each class were taken for each class, darker for a larger share of the true class.

    Args:
        true: (n,) places among the classes, NaN where a label is missing.
        predicted: (n,) places of the most probable classes.
        classes: their names.
        name: of the target.
        side: whose molecules these are, for the title.
        of: what is counted.
    """
    known = np.isfinite(true)
    k = len(classes)
    counts = np.zeros((k, k), dtype=int)
    if known.any():
        counts = confusion_matrix(true[known].astype(int), predicted[known].astype(int), labels=np.arange(k))
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    names = [short(c, 16) for c in classes]
    with styled():
        size = min(9.0, 2.6 + 0.55 * k)
        figure = new_figure(size + 0.8, size)
        figure.set_layout_engine("constrained")
        axes = figure.add_subplot()
        image = axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        figure.colorbar(image, ax=axes, shrink=0.8, label="share of the true class")
        step = max(1, k // 30)
        axes.set_xticks(range(0, k, step), names[::step], rotation=90 if max(map(len, names)) > 3 else 0)
        axes.set_yticks(range(0, k, step), names[::step])
        for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            text.set_parse_math(False)
        if k <= _MOST_NAMED:
            for i, j in np.ndindex(k, k):
                color = "white" if shares[i, j] > 0.6 else "black"
                axes.text(j, i, f"{counts[i, j]:,}", ha="center", va="center", color=color, fontsize=9)
        axes.set_xlabel("predicted")
        axes.set_ylabel("true")
        axes.set_title(f"{short(name, 30)}: {int(known.sum()):,} {side} {of}", parse_math=False)
        return rendered(figure)


def _bins(n: int) -> int:
    """Tenths, or fewer where they would hold less than five molecules."""
    return max(2, min(_BINS, n // 5))


def _label(axes: Axes, x: str, y: str, title: str) -> None:
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_aspect("equal")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, parse_math=False)
