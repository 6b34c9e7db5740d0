"""Fitting a model: Lightning runs the loop; here stand the loop itself, its processes and what is kept."""

import gc
import logging
import math
import signal
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor
from torch.utils.data import DataLoader

from molattn.data.batches import SizeBuckets, batches_by_size
from molattn.data.plain import LARGEST, Each, Fields, Flag, Misfit, Real, Text, Whole, misfit
from molattn.data.store import sizes_of
from molattn.errors import InputError, UsageError
from molattn.models.base import MoleculeModel
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import REGRESSION, Task
from molattn.models.tensor_file import check_finite
from molattn.training import ranks
from molattn.training.checkpoint import Checkpoints, SaveEpochs, callers_random_states, interruptible
from molattn.training.companions import Companion
from molattn.training.config import TrainingConfig
from molattn.training.labelled import Labelled, Rows, step_of
from molattn.training.learner import Learner
from molattn.training.resumed import check_tensors

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)


@dataclass(frozen=True)
class EpochRecord:
    """One line of the history.

    Attributes:
        epoch: from 0.
        learning_rate: after the epoch.
        train_loss, val_loss: means over labels; of regression's own loss, mean squares of standardised targets. The
            least val_loss is the best epoch.
        val_metric: of the validation molecules, in the target's unit if it has one; the mean over targets where there
            are several, NaN where it is undefined.
        best: whether this epoch is the best so far.
        metric: the name of `val_metric`.
    """

    epoch: int
    learning_rate: float
    train_loss: float
    val_loss: float
    val_metric: float
    best: bool
    metric: str = "rmse"


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
    task: Task = REGRESSION,
    metric: str = "",
    companion: Companion | None = None,
) -> Fitted:
    """Fit `model` in place to `train`; it is left with the weights of the epoch with the least loss on `val`.

    loss = mean over known labels of ((y - mean) / std - model)^2, or what `TaskLoss` has for another task

    Labels of atoms count alike, whichever molecule of the batch they are in: with m_i = 1 where atom i has one and 0
    where it has none, sum_i m_i l(o_i, z_i) / sum_i m_i over all atoms i of the batch; mean and std are those of the
    labelled atoms of `train`.

    AdamW, a linear warm-up and a cosine; the weights that are validated and kept are their running average. The
    same seed gives the same weights; the random state of the caller is left as it was.

    Within `ranks.together` each rank takes its share of every batch of training and of the validation molecules: the
    steps are those of one process, but for rounding and dropout, and all ranks are left with the same weights.

    Args:
        train, val: molecules with targets in their units; a molecule without a known label brings no gradient.
        on_epoch: called after every epoch.
        checkpoints: where the training is saved, and goes on if it was begun; None for neither.
        task: what the targets are.
        metric: what is measured on `val` after every epoch; the task's first by default.
        companion: what the model learns beside its targets, from `train` alone; None for nothing.

    Raises:
        InputError: no epoch had a finite validation loss.
        UsageError: a device that is not there; several devices, and one process alone.
    """
    rank, size = ranks.rank(), ranks.size()
    sampler = SizeBuckets(sizes_of(train.molecules), config.batch_size, config.seed, rank=rank, ranks=size)
    steps = config.epochs * len(sampler)
    module = Learner(model, train, scaler, config, task, metric or task.metrics[0], companion, steps)
    watch = _KeepBest(config.patience, on_epoch, model.state_dict())
    rows_of_val = [rows[rank::size] for rows in batches_by_size(sizes_of(val.molecules), 4 * config.batch_size)]
    # A GPU fetches the next batch while it works on this one.
    pin = torch.cuda.is_available() and config.accelerator in ("auto", "gpu", "cuda")
    loader = DataLoader(Rows(train), batch_sampler=sampler, collate_fn=partial(step_of, model, train), pin_memory=pin)
    val_loader = DataLoader(
        Rows(val),
        batch_sampler=[r.tolist() for r in rows_of_val if len(r)],
        collate_fn=partial(step_of, model, val),
        pin_memory=pin,
    )
    deterministic, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    filling: Any = torch.utils.deterministic
    filled = filling.fill_uninitialized_memory
    saver = None if checkpoints is None else SaveEpochs(checkpoints, watch)
    with warnings.catch_warnings(), callers_random_states(), interruptible():
        warnings.filterwarnings("ignore", ".*does not have many workers.*")
        warnings.filterwarnings("ignore", ".*isinstance.treespec, LeafSpec.*")
        torch.manual_seed(config.seed)
        torch.set_num_threads(config.threads)
        # Deterministic algorithms fill each new tensor with NaN, in case somebody reads what nobody has written. It
        # takes a tenth of an epoch, and nobody does.
        filling.fill_uninitialized_memory = False
        # What is here stays: to look through all of it for cycles, again and again, takes a thirtieth of an epoch.
        gc.collect()
        gc.freeze()
        try:
            trainer = _trainer(config, [watch, *([] if saver is None else [saver]), _Epoch(sampler)])
            if saver is None or saver.goes_on(trainer):
                trainer.fit(module, loader, val_loader)
        finally:
            gc.unfreeze()
            torch.use_deterministic_algorithms(deterministic)
            filling.fill_uninitialized_memory = filled
            torch.set_num_threads(threads)
    if watch.state is None:
        raise InputError(
            "training brought no finite validation loss, so no model is kept: look for extreme targets, or lower "
            "--set training.learning_rate"
        )
    if module.side_by_side is not None:
        module.side_by_side.part()
    model.load_state_dict(watch.state)
    model.eval()
    return Fitted(watch.history, watch.best_epoch)


def _trainer(config: TrainingConfig, callbacks: list[Callback]) -> pl.Trainer:
    """Lightning's loop, silent: what is told and kept is in the callbacks."""
    several: dict[str, Any] = {}
    devices = ranks.devices_of(config.devices)
    if ranks.size() > 1:
        environment = TorchElasticEnvironment()
        devices = devices or ranks.local_size()
        several = {"strategy": _SideBySide(cluster_environment=environment), "num_nodes": ranks.size() // devices}
        callbacks = [*callbacks, _EndAtOnce()]
    elif ranks.wanted(config) > 1:
        raise UsageError("several devices train within `molattn train` and `molattn.train` alone: give one")
    try:
        return pl.Trainer(
            max_epochs=config.epochs,
            accelerator=config.accelerator,
            devices=config.devices if "," in config.devices else max(1, devices),
            gradient_clip_val=config.grad_clip or None,
            deterministic=True,
            callbacks=callbacks,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,  # it would fill the last batch up with molecules that were there already
            **several,
        )
    except (ValueError, MisconfigurationException) as error:
        raise UsageError(f"training.accelerator or training.devices: {error}") from None


class _SideBySide(DDPStrategy):
    """Lightning's DDP without torch's wrapper around the model, which averages gradients weight by weight.

    Here they lie side by side already, and `Learner` adds them up, all at once.
    """

    def configure_ddp(self) -> None:
        pass


class _EndAtOnce(Callback):
    """SIGTERM ends a rank here and now; Lightning has it tell the others first, who may not answer any more."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        signal.signal(signal.SIGTERM, _terminated)


def _terminated(number: int, _: object) -> None:
    raise SystemExit(128 + number)


class _Epoch(Callback):
    """Tells the sampler which epoch it is, and gives each rank but the first random numbers of its own.

    Those follow from the epoch, so that a training that goes on needs those of the first rank alone. It stands behind
    whoever restores them.
    """

    def __init__(self, sampler: SizeBuckets):
        self.sampler = sampler

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        epoch, rank = trainer.current_epoch, self.sampler.rank
        self.sampler.set_epoch(epoch)
        if rank:
            torch.manual_seed(int(np.random.SeedSequence([self.sampler.seed, epoch, rank]).generate_state(1)[0]))


class _Measured:
    """A number as JSON of Python has it: NaN and infinities are there where a loss was none."""

    def read(self, value: Any, place: str) -> float:
        if type(value) not in (int, float) or (abs(value) > LARGEST and not math.isinf(value)):
            raise misfit(place, value, "a number")
        return float(value)


_RECORD = Fields(
    {
        "epoch": Whole(0, 10**9),
        "learning_rate": Real(0.0),
        "train_loss": _Measured(),
        "val_loss": _Measured(),
        "val_metric": _Measured(),
        "best": Flag(),
        "metric": Text(100),
    }
)
_TOLD = Fields({"history": Each(_RECORD, 10**6), "best": _Measured(), "best_epoch": Whole(-1, 10**9)})


class _KeepBest(Callback):
    """Keeps the weights of the best epoch, and stops when none has been better for `patience` epochs."""

    def __init__(self, patience: int, on_epoch: Callable[[EpochRecord], None], like: Mapping[str, Tensor]):
        self.patience, self.on_epoch, self.like = patience, on_epoch, like
        self.history: list[EpochRecord] = []
        self.state: dict[str, Tensor] | None = None
        self.best, self.best_epoch = math.inf, -1

    def to_dict(self) -> dict[str, Any]:
        """What it knows but for the weights, in plain values."""
        return {"history": [asdict(r) for r in self.history], "best": self.best, "best_epoch": self.best_epoch}

    def restore(self, told: dict[str, Any], state: dict[str, Tensor] | None) -> None:
        """Know again what `to_dict` told, and the weights.

        Raises:
            Misfit: they are not those of a training of this model.
        """
        told = _TOLD.read(told, "watch")
        history = [EpochRecord(**r) for r in told["history"]]
        if [r.epoch for r in history] != list(range(len(history))) or told["best_epoch"] >= len(history):
            raise Misfit("watch.history has not its epochs one after the other, the best among them")
        if (state is None) != (told["best_epoch"] < 0):
            raise Misfit("there are no weights of the best epoch, or there are and no epoch is the best")
        if state is not None:
            check_tensors(state, self.like)
            check_finite(state)
        self.history, self.best, self.best_epoch, self.state = history, told["best"], told["best_epoch"], state

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Learner)
        epoch = trainer.current_epoch
        train_loss, val_loss = pl_module.train_losses.take(), pl_module.val_losses.take()
        better = val_loss < self.best
        if better:
            self.best, self.best_epoch = val_loss, epoch
            self.state = {k: v.detach().cpu().clone() for k, v in pl_module.average.module.state_dict().items()}
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        record = EpochRecord(epoch, rate, train_loss, val_loss, pl_module.take_metric(), better, pl_module.metric)
        self.history.append(record)
        self.on_epoch(record)
        if epoch - self.best_epoch >= self.patience:
            trainer.should_stop = True
