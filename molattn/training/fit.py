"""Fit a model: the loop over epochs and batches, the best weights, and early stopping."""

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from molattn.data.store.batches import BucketBatchSampler, batches_by_size
from molattn.data.store.molecule_store import molecule_sizes
from molattn.errors import InputError
from molattn.models.base import MoleculeModel
from molattn.models.random_states import seed_generators
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import REGRESSION
from molattn.training import distributed
from molattn.training.callbacks import Callback
from molattn.training.checkpoint import Checkpointer, CheckpointFolder
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules, RowIndices, StepInputs, collate_step
from molattn.training.distributed import select_device
from molattn.training.early_stopping import PATIENCE, EarlyStopping, EpochRecord, FitResult
from molattn.training.generator_states import preserve_random_states
from molattn.training.learner import Learner
from molattn.training.metrics import LOSSES
from molattn.training.objectives import AuxiliaryObjective
from molattn.training.signals import exit_on_sigterm


def fit(
    model: MoleculeModel,
    train: LabelledMolecules,
    val: LabelledMolecules,
    scaler: TargetScaler,
    config: TrainingConfig,
    *,
    task: Task = REGRESSION,
    metric: str = "",
    auxiliary_objective: AuxiliaryObjective | None = None,
    checkpoints: CheckpointFolder | None = None,
    callbacks: Sequence[Callback] = (),
    member: int = 0,
    task_weights: Sequence[float] = (),
) -> FitResult:
    """Fit `model` in place to `train`; it ends with the weights of the best epoch.

    That is the first epoch with the lowest loss on `val`, or with the best value of another `config.tracking_metric`:
    of the loss on `train`, or of a metric on `val`.
    If this metric is undefined in every epoch, it is the first epoch.

    loss = mean over known labels of ((y - mean) / std - model)^2, or the loss of another task in `TaskLoss`

    Atom-level labels have equal weight, whichever molecule of the batch they are in: with m_i = 1 if atom i has a label
    and 0 otherwise, sum_i m_i l(o_i, z_i) / sum_i m_i over all atoms i of the batch; mean and std are those of the
    labelled atoms of `train`.

    The optimizer is AdamW with a linear warm-up and a cosine decay of the learning rate; an exponential
    moving average of the weights is validated and saved. The same seed gives the same weights; the random state of the
    caller is unchanged.

    Within `distributed.process_group` each rank computes a share of every training batch and of the validation
    molecules: the steps are those of one process, up to rounding and dropout, and all ranks end with the same weights.

    Args:
        train, val: molecules with targets before the scaler; a molecule without a known label contributes no gradient.
        scaler: of the targets.
        config: the settings; those of `config.callbacks` are in `callbacks`.
        task: of the model.
        metric: computed on `val` after every epoch, unless `config.tracking_metric` is another one; the task's first by
            default.
        auxiliary_objective: an additional loss on `train`, or None.
        checkpoints: to save the training, and to resume it if there is one already; None for neither.
        callbacks: called in this order.
        member: the index of the model in its ensemble, for the callbacks.
        task_weights: a factor on the loss of each target, (T,); empty for none.

    Raises:
        InputError: there is no training or validation molecule, the targets have no finite mean and standard deviation,
            or no epoch had a finite validation loss.
        UsageError: a device that does not exist, or several devices for a single process.
    """
    device = select_device(config)
    for name, data in (("training", train), ("validation", val)):
        if not len(data):
            raise InputError(f"there is no {name} molecule: give one or more")
        if data.weights is not None and not data.weights.any():
            raise InputError(
                f"the weights of the {len(data):,} {name} molecules are all 0: give some a weight above 0, or leave "
                "the weights out"
            )
    if not np.isfinite([*scaler.mean, *scaler.std]).all():
        raise InputError(
            "the targets are too large: their mean or standard deviation is not a finite number; look for extreme "
            "targets, or give them in another unit"
        )
    rank, world_size = distributed.rank(), distributed.world_size()
    sampler = BucketBatchSampler(
        molecule_sizes(train.molecules), config.batch_size, config.seed, rank=rank, world_size=world_size
    )
    steps = config.epochs * len(sampler)
    tracked = config.tracking_metric
    metric = metric or task.metrics[0] if tracked in LOSSES else tracked
    learner = Learner(model, train, scaler, config, task, metric, auxiliary_objective, steps, task_weights)
    early_stopping = EarlyStopping(config.patience, model.state_dict(), tracked)
    checkpointer = None if checkpoints is None else Checkpointer(checkpoints, early_stopping, callbacks)
    val_batches = [
        rows[rank::world_size] for rows in batches_by_size(molecule_sizes(val.molecules), 4 * config.batch_size)
    ]
    pin = device.type == "cuda"  # a GPU copies the next batch while it computes this one
    loader = DataLoader(
        RowIndices(train), batch_sampler=sampler, collate_fn=partial(collate_step, model, train), pin_memory=pin
    )
    val_loader = DataLoader(
        RowIndices(val),
        batch_sampler=[r.tolist() for r in val_batches if len(r)],
        collate_fn=partial(collate_step, model, val),
        pin_memory=pin,
    )
    # NCCL uses the current GPU.
    on_device = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
    with (
        preserve_random_states(device),
        exit_on_sigterm(),
        _deterministic(config.threads),
        on_device,
        torch.enable_grad(),
    ):
        seed_generators(config.seed, device)
        learner.prepare(device)
        with preserve_random_states(device):
            for callback in callbacks:
                callback.on_fit_start(learner, member)
        start, stopped_by = 0, ""
        if checkpointer is not None:
            start, stopped_by = checkpointer.restore(learner, config.epochs), checkpointer.stopped_by
        for epoch in range(start, config.epochs):
            _seed_epoch(sampler, epoch, device)
            learner.start_epoch(epoch)
            for step, inputs in enumerate(loader, start=epoch * len(sampler) + 1):
                loss = learner.training_step(_to_device(device, inputs))
                for callback in callbacks:
                    callback.on_step_end(learner, step, loss)
            with _eval_mode(learner), torch.inference_mode():
                for inputs in val_loader:
                    learner.validation_step(_to_device(device, inputs))
            if early_stopping.update(epoch, learner):
                stopped_by = PATIENCE
            stopped_by = _end_epoch(callbacks, learner, early_stopping.history[-1], device) or stopped_by
            finished = bool(stopped_by) or epoch + 1 == config.epochs
            if checkpointer is not None:
                checkpointer.save_epoch(epoch, learner, finished, stopped_by)
            if finished:
                break
    if early_stopping.best_weights is None:
        raise InputError(
            "training had no finite validation loss, so there is no model: look for extreme targets, or lower "
            "--set training.learning_rate"
        )
    learner.release()
    model.load_state_dict(early_stopping.best_weights)
    model.eval()
    result = FitResult(early_stopping.history, early_stopping.best_epoch, stopped_by)
    with preserve_random_states(device):
        for callback in callbacks:
            callback.on_fit_end(result)
    return result


def _end_epoch(callbacks: Sequence[Callback], learner: Learner, record: EpochRecord, device: torch.device) -> str:
    """Call the callbacks after an epoch; returns the name of the class of the first that ends the training, if any."""
    with preserve_random_states(device):
        ends = [callback.on_epoch_end(learner, record) for callback in callbacks]
    names = [type(callback).__name__ for callback, end in zip(callbacks, ends, strict=True) if end]
    # A rank that stopped alone would leave the others waiting.
    return distributed.broadcast_object(lambda: names[0] if names else "")


def _to_device(device: torch.device, step: StepInputs) -> StepInputs:
    """The inputs of a step on the device; unchanged for a CPU."""
    if device.type == "cpu":
        return step
    moved = {
        name: x.to(device, non_blocking=True)
        for name in ("weights", "auxiliary_targets", "bounds")
        if (x := getattr(step, name)) is not None
    }
    return step._replace(batch=step.batch.to(device), **moved)


def _seed_epoch(sampler: BucketBatchSampler, epoch: int, device: torch.device) -> None:
    """Set the epoch of the sampler, and seed the random numbers of each rank, with its device, except rank 0.

    The seed depends on the epoch, so that a checkpoint needs only the random state of rank 0.
    """
    sampler.set_epoch(epoch)
    if sampler.rank:
        sequence = np.random.SeedSequence([sampler.seed, epoch, sampler.rank])
        seed_generators(int(sequence.generate_state(1)[0]), device)


@contextmanager
def _eval_mode(module: nn.Module) -> Iterator[None]:
    """Set a module to evaluation mode for the block; afterwards restore the mode of each of its submodules."""
    modes = [(submodule, submodule.training) for submodule in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for submodule, training in modes:
            submodule.training = training


@contextmanager
def _deterministic(threads: int) -> Iterator[None]:
    """Use deterministic algorithms and `threads` threads in the block; afterwards restore the process's settings.

    The environment variable CUBLAS_WORKSPACE_CONFIG stays set.
    """
    deterministic, threads_before = torch.get_deterministic_debug_mode(), torch.get_num_threads()
    memory: Any = torch.utils.deterministic
    fill_before = memory.fill_uninitialized_memory
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it deterministic matmuls on CUDA raise
    # `use_deterministic_algorithms` would import torch's compiler to configure it.
    torch.set_deterministic_debug_mode("error")
    torch.set_num_threads(threads)
    # Deterministic algorithms fill uninitialized memory with NaN, which takes a tenth of an epoch. No code here reads
    # uninitialized memory.
    memory.fill_uninitialized_memory = False
    # Exempt the existing objects from garbage collection, which would take a thirtieth of an epoch; but not if the
    # caller has frozen objects, because `unfreeze` would return these too.
    freeze = not gc.get_freeze_count()
    if freeze:
        gc.collect()
        gc.freeze()
    try:
        yield
    finally:
        if freeze:
            gc.unfreeze()
        torch.set_deterministic_debug_mode(deterministic)
        memory.fill_uninitialized_memory = fill_before
        torch.set_num_threads(threads_before)
