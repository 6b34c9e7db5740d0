"""Fitting a model: the loop over epochs and batches, what it keeps, and when it stops."""

import gc
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from molattn.data.schema import MAX_FLOAT, Boolean, Integer, ListOf, Number, Record, String, ValidationError, mismatch
from molattn.data.store.batches import BucketBatchSampler, batches_by_size
from molattn.data.store.molecule_store import molecule_sizes
from molattn.errors import InputError
from molattn.models.base import MoleculeModel
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import REGRESSION, Task
from molattn.models.tensor_file import check_finite
from molattn.training import distributed
from molattn.training.checkpoint import Checkpoints, SaveEpochs, callers_random_states, exits_on_sigterm
from molattn.training.companions import Companion
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules, RowIndices, StepInputs, collate_step
from molattn.training.distributed import select_device
from molattn.training.learner import Learner
from molattn.training.resumed import check_tensors


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
    train: LabelledMolecules,
    val: LabelledMolecules,
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

    Within `distributed.process_group` each rank computes a share of every training batch and of the validation
    molecules: the steps are those of one process, up to rounding and dropout, and all ranks end with the same weights.

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
    device = select_device(config)
    rank, size = distributed.rank(), distributed.world_size()
    sampler = BucketBatchSampler(molecule_sizes(train.molecules), config.batch_size, config.seed, rank=rank, ranks=size)
    steps = config.epochs * len(sampler)
    learner = Learner(model, train, scaler, config, task, metric or task.metrics[0], companion, steps)
    best = BestEpoch(config.patience, on_epoch, model.state_dict())
    saver = None if checkpoints is None else SaveEpochs(checkpoints, best)
    rows_of_val = [rows[rank::size] for rows in batches_by_size(molecule_sizes(val.molecules), 4 * config.batch_size)]
    pin = device.type == "cuda"  # a GPU fetches the next batch while it works on this one
    loader = DataLoader(
        RowIndices(train), batch_sampler=sampler, collate_fn=partial(collate_step, model, train), pin_memory=pin
    )
    val_loader = DataLoader(
        RowIndices(val),
        batch_sampler=[r.tolist() for r in rows_of_val if len(r)],
        collate_fn=partial(collate_step, model, val),
        pin_memory=pin,
    )
    # The current GPU is the one that NCCL talks from.
    current = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with callers_random_states(), exits_on_sigterm(), _reproducible(config.threads), current, torch.enable_grad():
        torch.manual_seed(config.seed)
        learner.prepare(device)
        start = 0 if saver is None else saver.restore(learner, config.epochs)
        for epoch in range(start, config.epochs):
            _seed_epoch(sampler, epoch)
            for step in loader:
                learner.training_step(_to(device, step))
            with _evaluating(learner), torch.inference_mode():
                for step in val_loader:
                    learner.validation_step(_to(device, step))
            over = best.after(epoch, learner) or epoch + 1 == config.epochs
            if saver is not None:
                saver.after(epoch, learner, over)
            if over:
                break
    if best.state is None:
        raise InputError(
            "training brought no finite validation loss, so no model is kept: look for extreme targets, or lower "
            "--set training.learning_rate"
        )
    learner.release()
    model.load_state_dict(best.state)
    model.eval()
    return Fitted(best.history, best.best_epoch)


def _to(device: torch.device, step: StepInputs) -> StepInputs:
    """A step on the device; on a CPU it is there."""
    if device.type == "cpu":
        return step
    batch, *others, asked = step
    rows, beside = (None if x is None else x.to(device, non_blocking=True) for x in others)
    return batch.to(device), rows, beside, asked


def _seed_epoch(sampler: BucketBatchSampler, epoch: int) -> None:
    """Tell the sampler which epoch it is, and give each rank but the first random numbers of its own.

    Those follow from the epoch, so that a training that goes on needs those of the first rank alone.
    """
    sampler.set_epoch(epoch)
    if sampler.rank:
        torch.manual_seed(int(np.random.SeedSequence([sampler.seed, epoch, sampler.rank]).generate_state(1)[0]))


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """All of a module in the mode for evaluation, and each part in its own mode again behind it."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


@contextmanager
def _reproducible(threads: int) -> Iterator[None]:
    """Deterministic algorithms and so many threads; the settings of the process are as they were behind it."""
    deterministic, threads_before = torch.get_deterministic_debug_mode(), torch.get_num_threads()
    filling: Any = torch.utils.deterministic
    filled = filling.fill_uninitialized_memory
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it deterministic matmuls on CUDA raise
    # `use_deterministic_algorithms` would import torch's compiler, to set it, too.
    torch.set_deterministic_debug_mode("error")
    torch.set_num_threads(threads)
    # Deterministic algorithms fill each new tensor with NaN, in case somebody reads what nobody has written. It takes
    # a tenth of an epoch, and nobody does.
    filling.fill_uninitialized_memory = False
    # What is here stays: to look through all of it for cycles, again and again, takes a thirtieth of an epoch.
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        torch.set_deterministic_debug_mode(deterministic)
        filling.fill_uninitialized_memory = filled
        torch.set_num_threads(threads_before)


class _Measured:
    """A number as JSON of Python has it: NaN and infinities are there where a loss was none."""

    def validate(self, value: Any, path: str) -> float:
        if type(value) not in (int, float) or (abs(value) > MAX_FLOAT and not math.isinf(value)):
            raise mismatch(path, value, "a number")
        return float(value)


_RECORD = Record(
    {
        "epoch": Integer(0, 10**9),
        "learning_rate": Number(0.0),
        "train_loss": _Measured(),
        "val_loss": _Measured(),
        "val_metric": _Measured(),
        "best": Boolean(),
        "metric": String(100),
    }
)
_TOLD = Record({"history": ListOf(_RECORD, 10**6), "best": _Measured(), "best_epoch": Integer(-1, 10**9)})


class BestEpoch:
    """Keeps the weights of the best epoch and the history, and says when to stop.

    Args:
        patience: epochs without a better one after which training stops.
        on_epoch: called with the record of each epoch.
        like: the state of the model, with names, types and shapes of what is kept.
    """

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
            ValidationError: they are not those of a training of this model.
        """
        told = _TOLD.validate(told, "watch")
        history = [EpochRecord(**r) for r in told["history"]]
        if [r.epoch for r in history] != list(range(len(history))) or told["best_epoch"] >= len(history):
            raise ValidationError("watch.history has not its epochs one after the other, the best among them")
        if (state is None) != (told["best_epoch"] < 0):
            raise ValidationError("there are no weights of the best epoch, or there are and no epoch is the best")
        if state is not None:
            check_tensors(state, self.like)
            check_finite(state)
        self.history, self.best, self.best_epoch, self.state = history, told["best"], told["best_epoch"], state

    def after(self, epoch: int, learner: Learner) -> bool:
        """Take down how an epoch went; whether it is time to stop."""
        train_loss, val_loss = learner.train_losses.take(), learner.val_losses.take()
        better = val_loss < self.best
        if better:
            self.best, self.best_epoch = val_loss, epoch
            self.state = {k: v.detach().cpu().clone() for k, v in learner.average.module.state_dict().items()}
        rate = learner.optimizer.param_groups[0]["lr"]
        record = EpochRecord(epoch, rate, train_loss, val_loss, learner.take_metric(), better, learner.metric)
        self.history.append(record)
        self.on_epoch(record)
        return epoch - self.best_epoch >= self.patience
