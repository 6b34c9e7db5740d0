"""Predictions against true values, and the learning curve of a training."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from molattn.data.tables.units import name_has_unit
from molattn.errors import UsageError, unknown_choice
from molattn.models.losses import LOSSES
from molattn.training.metrics import TRAIN_LOSS, VAL_LOSS, label_of
from molattn.viewer.figures import REFERENCE_LINE, new_figure, render, shorten
from molattn.viewer.palette import MARK
from molattn.viewer.picture import Picture

if TYPE_CHECKING:
    from molattn.training.early_stopping import EpochRecord

# Blue, orange and gray are distinguishable with any color vision; the markers differ as well.
SPLIT_STYLES = {
    "train": {"color": "#bbbbbb", "marker": ".", "s": 8, "zorder": 1},
    "val": {"color": "#56b4e9", "marker": "^", "s": 14, "zorder": 2},
    "test": {"color": "#d55e00", "marker": "o", "s": 12, "zorder": 3},
}
_STANDARDIZED = "standardized "  # the labels of losses in standard deviations begin like this
_MAX_VECTOR_POINTS = 3000  # more points are drawn as an image in the SVG


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
        predicted: (n,), in the same unit; NaN where there is no prediction.
        splits: indices of the molecules of "train", "val" and "test"; any may be absent.
        name: name of the target.
        unit: unit of the target; empty if unknown.
        test_rmse: RMSE of the test molecules in that unit, for the title; None if unknown.

    >>> import numpy as np
    >>> from molattn.viewer import parity_plot
    >>> true, predicted = np.array([65.0, 78.0, 97.0, np.nan]), np.array([60.0, 80.0, 99.0, 118.0])
    >>> splits = {"train": np.array([0, 1]), "test": np.array([2, 3])}
    >>> picture = parity_plot(true, predicted, splits, name="boiling point", unit="°C", test_rmse=2.0)
    >>> picture.svg.count("</svg>")
    1
    """
    known = np.isfinite(true) & np.isfinite(predicted)
    target = shorten(name, 40)
    quantity = f"{target} ({shorten(unit, 30)})" if unit and not name_has_unit(name, unit) else target
    in_unit = f" {shorten(unit, 30)}" if unit else ""
    with new_figure(5.0, 5.0, "constrained") as figure:
        axes = figure.add_subplot()
        shown = np.zeros(len(true), dtype=bool)
        for split, style in ((s, style) for s, style in SPLIT_STYLES.items() if s in splits):
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
        axes.plot([low, high], [low, high], **REFERENCE_LINE, label="predicted = true")
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        axes.set_aspect("equal")
        axes.set_xlabel(f"{quantity}, true", parse_math=False)
        axes.set_ylabel(f"{quantity}, predicted", parse_math=False)
        title = target if test_rmse is None else f"{target}: test RMSE {test_rmse:.3g}{in_unit}"
        axes.set_title(title, parse_math=False)
        axes.legend(frameon=False, fontsize=8)
        return render(figure)


def learning_curve(
    history: Sequence["EpochRecord"], loss: str = "mse", *, scale: float | None = None, unit: str = ""
) -> Picture:
    """Draw the training and validation loss of each epoch.

    The square roots of the losses "mse" and "bounded-mse" are drawn: root mean squared errors. With `scale`, these and
    mean absolute errors are in the unit of the target, otherwise in standard deviations of the training targets. The
    training loss is the mean over the batches of the epoch, with dropout; the validation loss is that of the averaged
    weights, so it may be lower. The best epoch is marked.

    Args:
        history: the record of each epoch: `history` of the result of `molattn.train`.
        loss: the name of the loss, a key of `molattn.models.losses.LOSSES`.
        scale: standard deviation of the training targets, in the target's unit; None for several targets.
        unit: unit of the target; empty if unknown.

    Raises:
        UsageError: unknown loss.

    >>> from molattn.training.early_stopping import EpochRecord
    >>> from molattn.viewer import learning_curve
    >>> losses = [(1, 0.9, 0.8), (2, 0.5, 0.6), (3, 0.3, 0.7)]  # epoch, training loss, validation loss
    >>> history = [EpochRecord(i, 1e-3, train, val, val**0.5, best=i < 3) for i, train, val in losses]
    >>> picture = learning_curve(history)  # epoch 2 is the best
    >>> picture.svg.count("</svg>")
    1
    """
    if loss not in LOSSES:
        raise UsageError(unknown_choice("loss", loss, LOSSES))
    root = LOSSES[loss].plot_root
    epochs = np.array([r.epoch for r in history], dtype=int)
    train, val = (np.array([getattr(r, name) for r in history]) for name in ("train_loss", "val_loss"))
    if root:
        train, val = np.sqrt(train), np.sqrt(val)
    label, factor = LOSSES[loss].label, 1.0
    if scale is not None and label.startswith(_STANDARDIZED):
        label, factor = label.removeprefix(_STANDARDIZED) + (f" in {shorten(unit, 40)}" if unit else ""), scale
    train, val = factor * train, factor * val
    best = next((r for r in reversed(history) if r.best), None)
    marker = "." if len(history) < 40 else None
    with new_figure(6.0, 3.8, "constrained") as figure:
        axes = figure.add_subplot()
        axes.plot(epochs, train, color="#999999", marker=marker, label="train")
        axes.plot(epochs, val, color="#0072b2", marker=marker, label="validation")
        if best is not None:
            by = {VAL_LOSS: "", TRAIN_LOSS: ", by training loss"}.get(best.tracking_metric)
            by = f", by {label_of(best.tracking_metric)}" if by is None else by
            text = f"best: epoch {best.epoch}{by}"
            loss_of_best = factor * (best.val_loss**0.5 if root else best.val_loss)
            axes.plot(best.epoch, loss_of_best, "o", color=MARK, markersize=7, label=text)
        finite = np.concatenate([train, val])
        finite = finite[np.isfinite(finite)]
        if len(finite) and finite.min() > 0 and finite.max() > 8 * finite.min():
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("epoch")
        axes.set_ylabel(label, parse_math=False)
        axes.legend(frameon=False, fontsize=8)
        return render(figure)


def _range(values: np.ndarray) -> tuple[float, float]:
    """The limits of an axis for `values`, with a margin; (-0.5, 1.5) if there are none."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin
