"""Fitting a model: Lightning runs the loop; here stand the loss, the schedule and what is kept."""

import logging
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, Dataset

from molattn.data.batches import Batch, SizeBuckets, batches_by_size
from molattn.errors import InputError, UsageError
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.scaler import TargetScaler
from molattn.training.checkpoint import Checkpoints, SaveEpochs, callers_random_states, interruptible
from molattn.training.config import TrainingConfig

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


@dataclass(frozen=True)
class Labelled:
    """Molecules as a model reads them, and their targets, (n, T) in units, NaN where a label is missing."""

    molecules: Sequence[Molecule]
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.molecules)


@dataclass(frozen=True)
class EpochRecord:
    """One line of the history.

    Attributes:
        epoch: from 0.
        learning_rate: after the epoch.
        train_loss, val_loss: mean squares of standardised targets; the least val_loss is the best epoch.
        val_rmse: in the target's unit; the mean over targets where there are several.
        best: whether this epoch is the best so far.
    """

    epoch: int
    learning_rate: float
    train_loss: float
    val_loss: float
    val_rmse: float
    best: bool


@dataclass(frozen=True)
class Fitted:
    """How a fit went, epoch by epoch, and which epoch's weights were kept."""

    history: list[EpochRecord]
    best_epoch: int


def fit(
    model: MoleculeModel,
    train: Labelled,
    val: Labelled,
    scaler: TargetScaler,
    config: TrainingConfig,
    on_epoch: Callable[[EpochRecord], None] = lambda _: None,
    checkpoints: Checkpoints | None = None,
) -> Fitted:
    """Fit `model` in place to `train`; it is left with the weights of the epoch with the least loss on `val`.

    loss = mean over known labels of ((y - mean) / std - model)^2

    AdamW, a linear warm-up and a cosine; the weights that are validated and kept are their running average. The
    same seed gives the same weights; the random state of the caller is left as it was.

    Args:
        train, val: molecules with targets in their units; a molecule without a known label brings no gradient.
        on_epoch: called after every epoch.
        checkpoints: where the training is saved, and goes on if it was begun; None for neither.

    Raises:
        InputError: no epoch had a finite validation loss.
    """
    task = _Task(model, len(train), scaler, config)
    watch = _KeepBest(config.patience, on_epoch)
    sampler = SizeBuckets([m.size for m in train.molecules], config.batch_size, config.seed)
    rows_of_val = batches_by_size([m.size for m in val.molecules], 4 * config.batch_size)
    loader = DataLoader(_Rows(train), batch_sampler=sampler, collate_fn=partial(batch_of, model, train))
    val_loader = DataLoader(
        _Rows(val), batch_sampler=[r.tolist() for r in rows_of_val], collate_fn=partial(batch_of, model, val)
    )
    deterministic, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    saver = None if checkpoints is None else SaveEpochs(checkpoints, watch)
    with warnings.catch_warnings(), callers_random_states(), interruptible():
        warnings.filterwarnings("ignore", ".*does not have many workers.*")
        warnings.filterwarnings("ignore", ".*isinstance.treespec, LeafSpec.*")
        torch.manual_seed(config.seed)
        torch.set_num_threads(config.threads)
        try:
            trainer = _trainer(config, [watch, _Epoch(sampler), *([] if saver is None else [saver])])
            if saver is None or saver.goes_on(trainer):
                trainer.fit(task, loader, val_loader)
        finally:
            torch.use_deterministic_algorithms(deterministic)
            torch.set_num_threads(threads)
    if watch.state is None:
        raise InputError(
            "training brought no finite validation loss, so no model is kept: look for extreme targets, or lower "
            "--set training.learning_rate"
        )
    model.load_state_dict(watch.state)
    model.eval()
    return Fitted(watch.history, watch.best_epoch)


def batch_of(model: MoleculeModel, data: Labelled, rows: Sequence[int]) -> Batch:
    """The molecules `rows`, in that order, in one batch."""
    return model.collate([data.molecules[i] for i in rows], data.targets[list(rows)])


def _trainer(config: TrainingConfig, callbacks: list[Callback]) -> pl.Trainer:
    """Lightning's loop, silent: what is told and kept is in the callbacks."""
    try:
        return pl.Trainer(
            max_epochs=config.epochs,
            accelerator=config.accelerator,
            devices=int(config.devices) if config.devices.isdigit() else config.devices,
            gradient_clip_val=config.grad_clip or None,
            deterministic=True,
            callbacks=callbacks,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
        )
    except (ValueError, MisconfigurationException) as error:
        raise UsageError(f"training.accelerator or training.devices: {error}") from None


class _Rows(Dataset[int]):
    """A dataset that hands its collate function the row numbers themselves."""

    def __init__(self, data: Labelled):
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, row: int) -> int:
        return row


class _Task(pl.LightningModule):
    """The model as Lightning trains it: loss, optimizer, schedule, and the running average of the weights."""

    mean: Tensor
    std: Tensor

    def __init__(self, model: MoleculeModel, num_train: int, scaler: TargetScaler, config: TrainingConfig):
        super().__init__()
        self.model, self.config = model, config
        self.average = AveragedModel(model, avg_fn=_running_average(config.ema))
        self.steps = max(1, config.epochs * -(-num_train // config.batch_size))
        self.register_buffer("mean", torch.tensor(scaler.mean))
        self.register_buffer("std", torch.tensor(scaler.std))
        self.train_squares, self.val_squares = _Squares(), _Squares()

    def _errors(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Standardised errors, (b, T), zero where the label is missing, and where it is known."""
        assert batch.targets is not None
        known = torch.isfinite(batch.targets)
        errors = model(batch) - (batch.targets - self.mean) / self.std
        return errors.masked_fill(~known, 0.0), known

    def training_step(self, batch: Batch, _: int) -> Tensor:
        errors, known = self._errors(self.model, batch)
        self.train_squares.add(errors, known)
        return errors.square().sum() / known.sum().clamp_min(1)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        self.average.update_parameters(self.model)

    def validation_step(self, batch: Batch, _: int) -> None:
        self.val_squares.add(*self._errors(self.average.module, batch))

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=self.config.learning_rate, weight_decay=self.config.weight_decay
        )
        warmup = max(1, round(self.config.warmup * self.steps))

        def share(step: int) -> float:
            if step < warmup:
                return (step + 1) / warmup
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, self.steps - warmup))))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def _running_average(decay: float) -> Callable[[Tensor, Tensor, Tensor | int], Tensor]:
    """average <- d average + (1 - d) weights, with d = min(decay, t / (t + 9)) after t steps.

    With the full decay from the first step on, a short training would mostly average its random start.
    """

    def average(averaged: Tensor, weights: Tensor, steps: Tensor | int) -> Tensor:
        return averaged.lerp(weights, 1 - min(decay, int(steps) / (int(steps) + 9)))

    return average


class _Squares:
    """Mean squares over batches, target by target."""

    def __init__(self) -> None:
        self.total: np.ndarray | float = 0.0
        self.count: np.ndarray | float = 0.0

    def add(self, errors: Tensor, known: Tensor) -> None:
        self.total = self.total + errors.detach().double().square().sum(0).cpu().numpy()
        self.count = self.count + known.double().sum(0).cpu().numpy()

    def take(self, std: Tensor) -> tuple[float, float]:
        """The mean square over all labels, and the mean over targets of their RMSE in units; and start again."""
        total, count = np.atleast_1d(self.total), np.atleast_1d(self.count)
        self.__init__()
        seen = count > 0
        if not seen.any():
            return math.nan, math.nan
        rmse = np.sqrt(total[seen] / count[seen]) * std.cpu().double().numpy()[seen]
        return float(total.sum() / count.sum()), float(rmse.mean())


class _Epoch(Callback):
    """Tells the sampler which epoch it is."""

    def __init__(self, sampler: SizeBuckets):
        self.sampler = sampler

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        self.sampler.set_epoch(trainer.current_epoch)


class _KeepBest(Callback):
    """Keeps the weights of the best epoch, and stops when none has been better for `patience` epochs."""

    def __init__(self, patience: int, on_epoch: Callable[[EpochRecord], None]):
        self.patience, self.on_epoch = patience, on_epoch
        self.history: list[EpochRecord] = []
        self.state: dict[str, Tensor] | None = None
        self.best, self.best_epoch = math.inf, -1

    def to_dict(self) -> dict[str, Any]:
        """What it knows but for the weights, in plain values."""
        return {"history": [asdict(r) for r in self.history], "best": self.best, "best_epoch": self.best_epoch}

    def restore(self, told: dict[str, Any], state: dict[str, Tensor] | None) -> None:
        """Know again what `to_dict` told, and the weights."""
        self.history = [EpochRecord(**r) for r in told["history"]]
        self.best, self.best_epoch, self.state = told["best"], told["best_epoch"], state

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, _Task)
        epoch = trainer.current_epoch
        train_loss, _ = pl_module.train_squares.take(pl_module.std)
        val_loss, val_rmse = pl_module.val_squares.take(pl_module.std)
        better = val_loss < self.best
        if better:
            self.best, self.best_epoch = val_loss, epoch
            self.state = {k: v.detach().cpu().clone() for k, v in pl_module.average.module.state_dict().items()}
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        record = EpochRecord(epoch, rate, train_loss, val_loss, val_rmse, better)
        self.history.append(record)
        self.on_epoch(record)
        if epoch - self.best_epoch >= self.patience:
            trainer.should_stop = True
