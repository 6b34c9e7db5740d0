"""Early stopping: keep the weights of the best epoch, and stop a training that no longer improves."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor

from molattn.data.schema import MAX_FLOAT, Boolean, Integer, ListOf, Number, Record, String, ValidationError, mismatch
from molattn.models.tensor_file import check_finite
from molattn.training.checkpoint_validation import check_tensors
from molattn.training.learner import Learner
from molattn.training.metrics import LOSSES, METRICS, TRAIN_LOSS, VAL_LOSS, label_of, tracked_label


@dataclass(frozen=True)
class EpochRecord:
    """One line of the history.

    Attributes:
        epoch: from 1.
        learning_rate: after the epoch.
        train_loss, val_loss: means over labels; for regression with the default loss, mean squared errors of
            standardized targets.
        val_metric: of the validation molecules, in the target's unit if it has one; the mean over several targets, NaN
            if it is undefined.
        best: whether this epoch is the best so far.
        metric: the name of `val_metric`.
        tracking_metric: the quantity whose best value selects the epoch: "val_loss", "train_loss" or `metric`.
        best_value: the best value of the tracking metric so far.
    """

    epoch: int
    learning_rate: float
    train_loss: float
    val_loss: float
    val_metric: float
    best: bool
    metric: str = "rmse"
    tracking_metric: str = VAL_LOSS
    best_value: float = math.nan

    @property
    def tracked_value(self) -> float:
        """The value of the tracking metric."""
        return {VAL_LOSS: self.val_loss, TRAIN_LOSS: self.train_loss}.get(self.tracking_metric, self.val_metric)

    def describe(self) -> str:
        """The tracking metric, its value and the best so far; then `val_metric`, if that is another quantity.

        >>> EpochRecord(1, 1e-3, 0.5, 0.4, 0.81, True, "auroc", "auroc", 0.81).describe()
        'validation AUROC 0.810, best 0.810'
        >>> EpochRecord(1, 1e-3, 0.5, 0.4, 0.81, True, "rmse", "val_loss", 0.4).describe()
        'validation loss 0.400, best 0.400, RMSE 0.810'
        """
        value, best, metric = map(_format, (self.tracked_value, self.best_value, self.val_metric))
        text = f"{tracked_label(self.tracking_metric)} {value}, best {best}"
        which = "validation " if self.tracking_metric == TRAIN_LOSS else ""
        return f"{text}, {which}{label_of(self.metric)} {metric}" if self.tracking_metric in LOSSES else text


def _format(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "undefined"


class _FloatSchema:
    """The schema of a loss or metric: a number as Python's JSON writes it, NaN and infinities included."""

    def validate(self, value: Any, path: str) -> float:
        too_large = type(value) is int and abs(value) > MAX_FLOAT
        if type(value) not in (int, float) or too_large:
            raise mismatch(path, value, "a number")
        return float(value)


_EPOCH_SCHEMA = Record(
    {
        "epoch": Integer(1, 10**9),
        "learning_rate": Number(0.0),
        "train_loss": _FloatSchema(),
        "val_loss": _FloatSchema(),
        "val_metric": _FloatSchema(),
        "best": Boolean(),
        "metric": String(100),
        "tracking_metric": String(100),
        "best_value": _FloatSchema(),
    }
)
_STATE_SCHEMA = Record(
    {"history": ListOf(_EPOCH_SCHEMA, 10**6), "best": _FloatSchema(), "best_epoch": Integer(0, 10**9)}
)


@dataclass(frozen=True)
class FitResult:
    """The result of a fit, whose model has the weights of the best epoch.

    Attributes:
        history: of the epochs.
        best_epoch: from 1.
        stopped_by: what ended the training: `PATIENCE`, or the name of the class of a callback; empty if it had all of
            its epochs.
    """

    history: list[EpochRecord]
    best_epoch: int
    stopped_by: str = ""


PATIENCE = "patience"


class EarlyStopping:
    """Stores the history and the weights of the best epoch, and decides when to stop.

    Args:
        patience: epochs without improvement after which training stops.
        reference: the state of the model, with the names, dtypes and shapes of the weights.
        tracking_metric: the quantity that selects the epoch: "val_loss", "train_loss" or the metric of the learner.

    Attributes:
        history: the records of all epochs.
        best_weights: the weights of the best epoch; None before there is one.
        best, best_epoch: the best value of the tracking metric, NaN before there is one; its epoch, from 1, 0 for none.
    """

    def __init__(
        self,
        patience: int,
        reference: Mapping[str, Tensor],
        tracking_metric: str = VAL_LOSS,
    ):
        self.patience, self.reference = patience, reference
        self.tracking_metric = tracking_metric
        self.history: list[EpochRecord] = []
        self.best_weights: dict[str, Tensor] | None = None
        self.best, self.best_epoch = math.nan, 0

    def to_dict(self) -> dict[str, Any]:
        """Its state, except the weights, in plain values."""
        return {"history": [asdict(r) for r in self.history], "best": self.best, "best_epoch": self.best_epoch}

    def restore(self, saved: dict[str, Any], best_weights: dict[str, Tensor] | None) -> None:
        """Restore the values of `to_dict`, and the weights.

        Raises:
            ValidationError: they do not match a training of this model.
        """
        saved = _STATE_SCHEMA.validate(saved, "early_stopping")
        history = [EpochRecord(**r) for r in saved["history"]]
        if [r.epoch for r in history] != list(range(1, len(history) + 1)) or saved["best_epoch"] > len(history):
            raise ValidationError("early_stopping.history does not have consecutive epochs, the best among them")
        for i, record in enumerate(history):
            if record.metric not in METRICS:
                raise mismatch(f"early_stopping.history[{i}].metric", record.metric, "the name of a metric")
            if record.tracking_metric != self.tracking_metric:
                raise mismatch(
                    f"early_stopping.history[{i}].tracking_metric", record.tracking_metric, repr(self.tracking_metric)
                )
        if (best_weights is None) != (saved["best_epoch"] < 1):
            raise ValidationError("it has weights of the best epoch without a best epoch, or the reverse")
        if best_weights is not None:
            check_tensors(best_weights, self.reference)
            check_finite(best_weights)
        self.history, self.best, self.best_epoch = history, saved["best"], saved["best_epoch"]
        self.best_weights = best_weights

    def update(self, epoch: int, learner: Learner) -> bool:
        """Record an epoch, from 0, with the losses and the metric that the learner has collected, which it clears.

        Returns whether to stop.
        """
        train_loss, val_loss, metric = learner.train_losses.pop(), learner.val_losses.pop(), learner.pop_metric()
        value = {VAL_LOSS: val_loss, TRAIN_LOSS: train_loss}.get(self.tracking_metric, metric)
        better = math.isfinite(val_loss) and self._is_better(value)
        if better:
            self.best, self.best_epoch = value, epoch + 1
            self.best_weights = {k: v.detach().cpu().clone() for k, v in learner.average.module.state_dict().items()}
        rate, names = learner.optimizer.param_groups[0]["lr"], (learner.metric, self.tracking_metric)
        record = EpochRecord(epoch + 1, rate, train_loss, val_loss, metric, better, *names, self.best)
        self.history.append(record)
        return epoch + 1 - self.best_epoch >= self.patience

    def _is_better(self, value: float) -> bool:
        """Whether a value is better than the best so far; the first always is, and a number is better than NaN."""
        if not self.best_epoch:
            return True
        if math.isnan(self.best) or math.isnan(value):
            return not math.isnan(value)
        larger = self.tracking_metric not in LOSSES and METRICS[self.tracking_metric].larger_is_better
        return value > self.best if larger else value < self.best
