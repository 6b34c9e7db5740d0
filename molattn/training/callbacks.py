"""Callbacks: objects of the user whose methods a training calls at its start, after steps and epochs, and at its end.

To log the losses and metrics of epochs, see `molattn.training.loggers`. In Python callbacks are objects,
`molattn.train(..., callbacks=[MyCallback()])`. A plugin adds functions that make them to `CALLBACKS`; the setting
`training.callbacks` then accepts their names, also on the command line and with several devices.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from molattn.training.early_stopping import EpochRecord, FitResult
from molattn.training.learner import Learner
from molattn.training.run_config import RunConfig


class Callback:
    """The base class of callbacks. Every method does nothing unless a subclass overrides it.

    Each model of an ensemble has a training of its own; all of them call the same callbacks. In a distributed training
    every rank calls its own. Random numbers that a method draws do not change the training, except in `on_step_end`.
    Of the `Learner` that a method gets, `model` is the model in training, `average.module` the moving average of its
    weights, which is validated and saved, and `optimizer` and `scheduler` are torch's.
    """

    def on_fit_start(self, learner: Learner, member: int) -> None:
        """Called before the first step, and before a training that is resumed is restored.

        Args:
            learner: on its device, with its optimizer.
            member: the index of the model in its ensemble, from 0; 0 for a single model.
        """

    def on_step_end(self, learner: Learner, step: int, loss: Tensor) -> None:
        """Called after each step of the optimizer.

        Args:
            learner: see the class.
            step: the number of steps so far.
            loss: of the batch, a scalar on the device; with several ranks the share of this one. `loss.item()` waits
                until a GPU has computed it.
        """

    def on_epoch_end(self, learner: Learner, record: EpochRecord) -> bool | None:
        """Called after the validation of each epoch; True ends the training.

        With several ranks, only the value that rank 0 returns is used. The epoch is saved afterwards: if a callback
        raises an error, a training that is resumed repeats the epoch.
        """

    def on_fit_end(self, result: FitResult) -> None:
        """Called at the end, when the model has the weights of the best epoch; not after an error."""

    def state_dict(self) -> dict[str, Any]:
        """The state that the callback needs when the training is resumed, JSON values; called for each checkpoint."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned on rank 0, after `on_fit_start`."""


CALLBACKS: dict[str, Callable[[RunConfig], Callback]] = {}
"""Functions that make a callback from the settings of a run, by the names in `training.callbacks`; for plugins."""


def build_callbacks(config: RunConfig) -> list[Callback]:
    """The callbacks that the settings name."""
    return [CALLBACKS[name](config) for name in config.training.callbacks]


class ReportEpochs(Callback):
    """Calls `report` with the record of each epoch, and the maximum number of epochs."""

    def __init__(self, report: Callable[[EpochRecord, int], None]):
        self.report = report

    def on_epoch_end(self, learner: Learner, record: EpochRecord) -> None:
        self.report(record, learner.config.epochs)
