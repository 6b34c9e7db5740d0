"""Checkpoints of a training: everything that the next epoch depends on, saved after an epoch.

They are in `checkpoint/` in the run folder, see `checkpoint_file`.
"""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from molattn.data.schema import ValidationError, mismatch
from molattn.errors import UsageError, short_repr
from molattn.training import distributed
from molattn.training.callbacks import Callback
from molattn.training.checkpoint_file import READ_ERRORS, Checkpoint, damage_error, load_checkpoint, save_checkpoint
from molattn.training.checkpoint_validation import check_structure, check_tensors, validated_optimizer_state
from molattn.training.generator_states import (
    plain_random_states,
    preserve_random_states,
    restore_random_states,
    torch_random_states,
)
from molattn.training.setting_differences import differences


class CheckpointFolder:
    """The folder of the checkpoints of one training, of which the last one is kept.

    Args:
        folder: of the checkpoints.
        identity: what must be equal when the training is resumed: settings and checksums, in plain values.
        every: epochs between two checkpoints.
        run: the folder of the run, for error messages; the parent of `folder` by default.
        clock: returns the seconds of the whole training so far, of which this one may be a part; by default they count
            from the `Checkpointer` on, after those of the last checkpoint.

    Attributes:
        last: the last checkpoint, from which the training is resumed; None for a new training.

    Raises:
        UsageError: the last one is of another training; the message names the differences.
        InputError: it is damaged.
    """

    def __init__(
        self,
        folder: Path,
        identity: dict[str, Any],
        every: int = 1,
        run: Path | None = None,
        clock: Callable[[], float] | None = None,
    ):
        self.folder, self.identity, self.every, self.clock = folder, identity, every, clock
        # All ranks resume from the same checkpoint.
        self.last = distributed.broadcast_object(partial(load_checkpoint, folder))
        if self.last is not None:
            if missing := next((key for key in ("finished", "seconds") if key not in self.last.state), None):
                raise damage_error(folder, ValidationError(f"it has no field {missing!r}"))
            changed = differences(_flat(self.last.state["identity"]), _flat(json.loads(json.dumps(identity))))
            if changed:
                more = f"; and {len(changed) - 10} more" if len(changed) > 10 else ""
                raise UsageError(
                    f"{run or folder.parent} cannot be resumed, since {'; '.join(changed[:10])}{more}: undo the "
                    "change, or start over with --force"
                )

    @property
    def seconds(self) -> float:
        """The duration of the training up to the last checkpoint."""
        return 0.0 if self.last is None else self.last.state["seconds"]

    def remove(self) -> None:
        """Delete all checkpoints of the training."""
        shutil.rmtree(self.folder, ignore_errors=True)


def _flat(identity: dict[str, Any]) -> dict[str, Any]:
    """The settings in `identity["config"]` at the top level, so that messages name them without that key."""
    config = identity.get("config")
    rest = {key: value for key, value in identity.items() if key != "config"}
    return {**config, **rest} if isinstance(config, dict) else identity


@runtime_checkable
class Trainable(Protocol):
    """A module in training, with its optimizer and learning-rate scheduler."""

    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler

    def state_dict(self) -> dict[str, Any]:
        """See `torch.nn.Module.state_dict`."""
        ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """See `torch.nn.Module.load_state_dict`."""
        ...


@runtime_checkable
class TrainingMonitor(Protocol):
    """An object, such as `EarlyStopping`, that stores the best weights and the history of a training."""

    best_weights: dict[str, Tensor] | None

    def to_dict(self) -> dict[str, Any]:
        """Its state except the weights, in plain values."""
        ...

    def restore(self, saved: dict[str, Any], best_weights: dict[str, Tensor] | None) -> None:
        """Restore the values of `to_dict`, and the best weights."""
        ...


class Checkpointer:
    """Saves a training after its epochs, and resumes it from its last checkpoint with bitwise equal results.

    A checkpoint has the weights, their moving average, optimizer, scheduler, the best epoch's weights, the history, and
    the states of the callbacks and of the random generators of torch, numpy and Python. The batches of an epoch depend
    only on its number.
    """

    def __init__(self, checkpoints: CheckpointFolder, monitor: TrainingMonitor, callbacks: Sequence[Callback] = ()):
        self.checkpoints, self.monitor, self.callbacks = checkpoints, monitor, callbacks
        self.start = time.perf_counter()
        if checkpoints.last is not None:
            try:
                best = checkpoints.last.with_prefix("best")
                monitor.restore(checkpoints.last.state["early_stopping"], best or None)
            except READ_ERRORS as error:
                raise damage_error(checkpoints.folder, error) from error

    def restore(self, learner: Trainable, epochs: int) -> int:
        """Restore a training from the last checkpoint; returns the epoch to continue with, from 0.

        Args:
            learner: to restore.
            epochs: of the whole training.

        Raises:
            InputError: the checkpoint is damaged.
        """
        last = self.checkpoints.last
        if last is None:
            return 0
        if last.state["epoch"] >= epochs:
            wrong = mismatch("epoch", last.state["epoch"], f"below {epochs}, the number of epochs")
            raise damage_error(self.checkpoints.folder, wrong)
        states = last.state.get("callbacks", [])
        if len(states) != len(self.callbacks):
            wrong = ValidationError(f"it has the states of {len(states)} callbacks, not of {len(self.callbacks)}")
            raise damage_error(self.checkpoints.folder, wrong)
        if not last.state["finished"]:
            try:
                _restore(last, learner)
            except READ_ERRORS as error:
                raise damage_error(self.checkpoints.folder, error) from error
        with preserve_random_states():
            for callback, state in zip(self.callbacks, states, strict=True):
                callback.load_state_dict(state)
        return epochs if last.state["finished"] else last.state["epoch"] + 1

    @property
    def stopped_by(self) -> str:
        """What ended a finished training before its last epoch, as in `FitResult`; otherwise empty."""
        return "" if self.checkpoints.last is None else self.checkpoints.last.state.get("stopped_by", "")

    def save_epoch(self, epoch: int, learner: Trainable, finished: bool, stopped_by: str = "") -> None:
        """Save the training after an epoch, if a checkpoint is due or the training is finished.

        Args:
            epoch: from 0.
            learner: to save.
            finished: whether this was the last epoch.
            stopped_by: why it was the last one, see `FitResult`.

        Raises:
            UsageError: the state of a callback is not of values of JSON.
        """
        if distributed.rank() == 0 and (finished or (epoch + 1) % self.checkpoints.every == 0):
            clock = self.checkpoints.clock
            seconds = self.checkpoints.seconds + time.perf_counter() - self.start if clock is None else clock()
            optimizer, tensors = _optimizer_state(learner.optimizer)
            tensors |= {f"learner.{k}": v for k, v in learner.state_dict().items()}
            tensors |= {f"best.{k}": v for k, v in (self.monitor.best_weights or {}).items()}
            tensors |= {f"rng_state.{k}": v for k, v in torch_random_states().items()}
            state = {
                "epoch": epoch,
                "finished": finished,
                "stopped_by": stopped_by,
                "callbacks": [_callback_state(callback) for callback in self.callbacks],
                "seconds": seconds,
                "early_stopping": self.monitor.to_dict(),
                "optimizer": optimizer,
                "scheduler": learner.scheduler.state_dict(),
                "rng_state": plain_random_states(),
                "identity": self.checkpoints.identity,
            }
            save_checkpoint(self.checkpoints.folder, Checkpoint(tensors, state))


def _callback_state(callback: Callback) -> dict[str, Any]:
    state = callback.state_dict()
    try:
        copy = json.loads(json.dumps(state))
    except (TypeError, ValueError) as error:
        copy, why = None, f": {error}"
    else:
        why = f", but {short_repr(state)}"
    if not isinstance(copy, dict):
        raise UsageError(f"{type(callback).__name__}.state_dict returns no dictionary of JSON values{why}")
    return copy


def _restore(checkpoint: Checkpoint, learner: Trainable) -> None:
    weights = checkpoint.with_prefix("learner")
    check_tensors(weights, learner.state_dict())
    moments = validated_optimizer_state(
        checkpoint.state["optimizer"], checkpoint.with_prefix("optimizer"), learner.optimizer
    )
    check_structure(checkpoint.state["scheduler"], learner.scheduler.state_dict(), "scheduler")
    learner.load_state_dict(weights)
    learner.optimizer.load_state_dict(moments)
    learner.scheduler.load_state_dict(dict(checkpoint.state["scheduler"]))
    restore_random_states(checkpoint.state["rng_state"], checkpoint.with_prefix("rng_state"))


def _optimizer_state(optimizer: torch.optim.Optimizer) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """The settings of the parameter groups as plain values, and the state of each parameter as tensors."""
    full = optimizer.state_dict()
    tensors = {
        f"optimizer.{index}.{key}": torch.as_tensor(value)
        for index, moments in full["state"].items()
        for key, value in moments.items()
    }
    return full["param_groups"], tensors
