"""Fitting a model: Lightning runs the loop; here stand the loss, the schedule and what is kept."""

import gc
import logging
import math
import signal
import warnings
from collections.abc import Callable, Sequence
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
from torch.utils.data import DataLoader, Dataset

from molattn.data.atom_lists import label_rows
from molattn.data.batches import Batch, SizeBuckets, batches_by_size
from molattn.data.store import chosen, sizes_of
from molattn.errors import InputError, UsageError
from molattn.models.answers import Answers
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import REGRESSION, Task
from molattn.training import ranks
from molattn.training.checkpoint import Checkpoints, SaveEpochs, callers_random_states, interruptible
from molattn.training.companions import Companion
from molattn.training.config import TrainingConfig
from molattn.training.losses import TaskLoss, balance, mean_loss
from molattn.training.metrics import mean_over_targets, measure
from molattn.training.weights import RunningAverage, SideBySide

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)

# A batch; what its rows of targets count, (b,) or (N,), None for all alike; what a companion learns, (b, A) or None;
# how many molecules are asked for.
_Step = tuple[Batch, Tensor | None, Tensor | None, int]


@dataclass(frozen=True)
class Labelled:
    """Molecules as a model reads them, and their targets, (n, T) in units, NaN where a label is missing.

    `weights`, (n,), say how much each molecule counts in the loss; None for all alike. No metric reads them.
    `offsets`, (n + 1,), say where the rows of targets of each molecule begin, and where the last end, where they are of
    atoms: then targets are (N, T), and each atom counts as its molecule does. None for one row each.
    `descriptors`, (n, k), stand beside each molecule, standardised; None where there are none.
    `beside`, (n, A), is what a companion of the model learns of each molecule, standardised, NaN where missing.
    """

    molecules: Sequence[Molecule]
    targets: np.ndarray
    weights: np.ndarray | None = None
    offsets: np.ndarray | None = None
    descriptors: np.ndarray | None = None
    beside: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.molecules)

    def targets_of(self, molecules: Sequence[int]) -> np.ndarray:
        """The targets of some molecules, in that order, (b, T) or (N, T)."""
        return self.targets[list(molecules) if self.offsets is None else label_rows(self.offsets, molecules)]

    def weights_of(self, molecules: Sequence[int]) -> np.ndarray | None:
        """How much each row of `targets_of` counts; None for all alike."""
        if self.weights is None:
            return None
        weights = np.asarray(self.weights, np.float64)[list(molecules)]
        return weights if self.offsets is None else np.repeat(weights, np.diff(self.offsets)[list(molecules)])


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
    module = _Training(model, train, scaler, config, task, metric or task.metrics[0], companion, steps)
    watch = _KeepBest(config.patience, on_epoch)
    rows_of_val = [rows[rank::size] for rows in batches_by_size(sizes_of(val.molecules), 4 * config.batch_size)]
    # A GPU fetches the next batch while it works on this one.
    pin = torch.cuda.is_available() and config.accelerator in ("auto", "gpu", "cuda")
    loader = DataLoader(_Rows(train), batch_sampler=sampler, collate_fn=partial(_step_of, model, train), pin_memory=pin)
    val_loader = DataLoader(
        _Rows(val),
        batch_sampler=[r.tolist() for r in rows_of_val if len(r)],
        collate_fn=partial(_step_of, model, val),
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


def batch_of(model: MoleculeModel, data: Labelled, rows: Sequence[int]) -> Batch:
    """The molecules `rows`, in that order, in one batch."""
    descriptors = None if data.descriptors is None else data.descriptors[list(rows)]
    return model.collate(chosen(data.molecules, rows), data.targets_of(rows), descriptors)


def _step_of(model: MoleculeModel, data: Labelled, rows: Sequence[int]) -> _Step:
    """A batch, the weights of its rows of targets, and what stands beside its molecules.

    A model cannot read no molecule at all: in the place of none stands the first, which counts nothing.
    """
    asked = len(rows)
    rows = rows if asked else [0]
    weights = data.weights_of(rows) if asked else np.zeros(len(data.targets_of(rows)))
    beside = None if data.beside is None else torch.from_numpy(data.beside[list(rows)].astype(np.float32))
    return batch_of(model, data, rows), None if weights is None else torch.from_numpy(weights), beside, asked


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

    Here they lie side by side already, and `_Training` adds them up, all at once.
    """

    def configure_ddp(self) -> None:
        pass


class _EndAtOnce(Callback):
    """SIGTERM ends a rank here and now; Lightning has it tell the others first, who may not answer any more."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: ARG002
        signal.signal(signal.SIGTERM, _terminated)


def _terminated(number: int, _: object) -> None:
    raise SystemExit(128 + number)


class _Rows(Dataset[int]):
    """A dataset that hands its collate function the row numbers themselves."""

    def __init__(self, data: Labelled):
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, row: int) -> int:
        return row


class _Training(pl.LightningModule):
    """The model as Lightning trains it: loss, optimizer, schedule, and the running average of the weights."""

    allow_zero_length_dataloader_with_multiple_devices = True  # a rank may get none of a few validation molecules

    def __init__(
        self,
        model: MoleculeModel,
        train: Labelled,
        scaler: TargetScaler,
        config: TrainingConfig,
        task: Task = REGRESSION,
        metric: str = "rmse",
        companion: Companion | None = None,
        steps: int = 1,
    ):
        super().__init__()
        self.companion = companion
        self.model, self.config, self.task, self.scaler, self.metric = model, config, task, scaler, metric
        self.average = RunningAverage(model, config.ema)
        self.side_by_side: SideBySide | None = None
        self.steps = max(1, steps)
        weights = balance(task, train.targets, config.class_balance, config.positive_weights)
        self.loss = TaskLoss(task, scaler, weights, config.evidential_regularization)
        self.train_losses, self.val_losses = _Losses(), _Losses()
        self.validated: list[tuple[np.ndarray, np.ndarray]] = []

    def training_step(self, step: _Step, _: int) -> Tensor:
        batch, rows, beside, asked = step
        assert batch.targets is not None
        if self.companion is None:
            outputs, more = self.model(batch), None
        else:
            outputs, more = self.companion(self.model, batch, beside)
        losses, known = self.loss(outputs, batch.targets)
        self.train_losses.add(losses, known, rows)
        loss = mean_loss(losses, known, rows)
        if ranks.size() > 1:
            labels = known.sum() if rows is None else (known * rows.unsqueeze(1)).sum()
            counts = torch.stack([labels.double(), labels.new_tensor(asked, dtype=torch.float64)])
            of_label, of_molecule = self._shares(counts)
            loss, more = loss * of_label, None if more is None else more * of_molecule
        return loss if more is None else loss + more

    def _shares(self, counts: Tensor) -> Tensor:
        """This rank's part of what all ranks count in a batch: with it the gradients of all add up to the batch's."""
        total = counts.clone()
        ranks.add_up([total])
        return (counts / torch.where(total > 0, total, torch.ones_like(total))).float()

    def on_after_backward(self) -> None:
        if ranks.size() > 1:
            assert self.side_by_side is not None
            beside = [] if self.companion is None else [p.grad for p in self.companion.parameters()]
            ranks.add_up([*self.side_by_side.gradients, *(grad for grad in beside if grad is not None)])

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        self.average.update()

    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: torch.optim.Optimizer) -> None:  # noqa: ARG002
        optimizer.zero_grad()
        assert self.side_by_side is not None
        self.side_by_side.zero_grad()

    def validation_step(self, step: _Step, _: int) -> None:
        batch, rows = step[:2]
        assert batch.targets is not None
        outputs = self.average.module(batch)
        losses, known = self.loss(outputs, batch.targets)
        self.val_losses.add(losses, known, rows)
        self.validated.append((outputs.cpu().numpy(), batch.targets.cpu().numpy()))

    def take_metric(self) -> float:
        """The metric over all validation molecules since the last time, the mean over targets; NaN if undefined."""
        validated = [batch for of_rank in ranks.gathered(self.validated) for batch in of_rank]
        outputs, targets = (np.concatenate(parts) for parts in zip(*validated, strict=True))
        self.validated = []
        answers = self.task.answers(outputs, self.scaler)
        measured = {str(t): self._measured(answers, targets[:, t], t) for t in range(targets.shape[1])}
        mean = mean_over_targets(measured, (self.metric,))[self.metric]
        return math.nan if mean is None else mean

    def _measured(self, answers: Answers, true: np.ndarray, t: int) -> dict[str, Any]:
        return measure(true, self.task.scores(answers, t), (self.metric,))

    def configure_optimizers(self) -> Any:
        self.side_by_side = SideBySide(self.model)
        beside = [] if self.companion is None else self.companion.parameters()
        ranks.as_first(x.data for x in (*self.side_by_side.flat, *beside, *self.model.buffers()))
        self.average.follow(self.model, self.side_by_side.flat)
        optimizer = torch.optim.AdamW(
            [*self.side_by_side.flat, *([] if self.companion is None else self.companion.parameters())],
            lr=self.config.learning_rate,
            weight_decay=self.config.weight_decay,
            # In one call; where there is none, torch's own choice.
            fused=True if self.device.type in ("cpu", "cuda") else None,
        )
        warmup = max(1, round(self.config.warmup * self.steps))

        def share(step: int) -> float:
            if step < warmup:
                return (step + 1) / warmup
            return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, self.steps - warmup))))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, share)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class _Losses:
    """The mean loss over batches."""

    def __init__(self) -> None:
        self.total: np.ndarray | float = 0.0
        self.count: np.ndarray | float = 0.0

    def add(self, losses: Tensor, known: Tensor, rows: Tensor | None = None) -> None:
        weights = known.double() if rows is None else known.double() * rows.double().unsqueeze(1)
        total = losses.detach().double() if rows is None else losses.detach().double() * rows.double().unsqueeze(1)
        self.total = self.total + total.sum(0).cpu().numpy()
        self.count = self.count + weights.sum(0).cpu().numpy()

    def take(self) -> float:
        """The mean over all labels of all ranks, NaN without one; and start again."""
        parts = ranks.gathered((float(np.sum(self.total)), float(np.sum(self.count))))
        total, count = (sum(part) for part in zip(*parts, strict=True))
        self.__init__()
        return total / count if count > 0 else math.nan


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
        assert isinstance(pl_module, _Training)
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
