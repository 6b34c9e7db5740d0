"""Fit an ensemble: models that differ in their seeds, one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from molattn.models.base import MoleculeModel
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Regression
from molattn.training.callbacks import Callback, ReportEpochs, build_callbacks
from molattn.training.checkpoint import CheckpointFolder
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules
from molattn.training.distillation import (
    describe_teacher,
    generate_variants,
    second_training,
    with_labels_of_teacher,
)
from molattn.training.early_stopping import EpochRecord, FitResult
from molattn.training.fit import fit
from molattn.training.initialization import initialize_model
from molattn.training.metrics import LOSSES, VAL_LOSS, label_of, why_undefined
from molattn.training.objectives import add_auxiliary_targets, build_auxiliary_objective
from molattn.training.run_config import RunConfig


@dataclass(frozen=True)
class FittedEnsemble:
    """Trained models, the result of each fit, and the settings of the fits, except for the seeds."""

    models: tuple[MoleculeModel, ...]
    fits: tuple[FitResult, ...]
    settings: TrainingConfig


def fit_ensemble(
    config: RunConfig,
    task: Task,
    scaler: TargetScaler,
    train: LabelledMolecules,
    val: LabelledMolecules,
    metric: str,
    callbacks: Sequence[Callback] = (),
    on_member: Callable[[int, CheckpointFolder | None], None] = lambda _, __: None,
    checkpoints: Callable[[int], CheckpointFolder | None] = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
    initial: Sequence[MoleculeModel] = (),
    task_weights: Sequence[float] = (),
    *,
    on_teacher: Callable[[int, CheckpointFolder | None], None] = lambda _, __: None,
    teacher_checkpoints: Callable[[int], CheckpointFolder | None] = lambda _: None,
    report_teacher: Callable[[EpochRecord, int], None] = lambda _, __: None,
    say: Callable[[str], None] = lambda _: None,
) -> FittedEnsemble:
    """Fit `config.training.ensemble_size` models to the same molecules, one after the other.

    Member i uses the seed of the run plus i for its weights, batches and dropout. The best epoch of every member is
    selected with the same validation molecules: by the validation loss, if the tracking metric is undefined for them.
    With `config.training.distillation` each member has a teacher, a network that is fitted first: see
    `molattn.training.distillation`.

    Args:
        metric: the validation metric of every epoch, see `fit`.
        callbacks: called in the training of every member, but not of its teacher, after those that `config` names.
        on_member: called before each member is trained, with its index, from 0, and its checkpoints.
        checkpoints: returns those of a member; a member whose training is finished is not trained again.
        warn: called with warnings for the user.
        initial: trained models of the same shapes, whose weights the members start from, without a teacher; empty for
            new weights.
        task_weights: a factor on the loss of each target, see `molattn.training.task_weights`.
        on_teacher, teacher_checkpoints: as `on_member` and `checkpoints`, for the teacher of a member.
        report_teacher: called after each epoch of a teacher, with the maximum number of epochs.
        say: called with other messages for the user.
    """
    tracked = config.training.tracking_metric
    if tracked not in LOSSES and (reason := why_undefined(tracked, task.kind, val.targets)):
        label = label_of(tracked)
        warn(f"the {label} of the validation molecules is undefined ({reason}): their loss chooses the epoch instead")
        config = replace(config, training=replace(config.training, tracking_metric=VAL_LOSS))
    variants = None if initial else generate_variants(train, val, task, config, warn)
    settings = config.training if variants is None else second_training(config.training)
    explicit = "training.auxiliary" in config.explicit_keys
    train = add_auxiliary_targets(train, config.training, warn if explicit else lambda _: None)
    callbacks = [*build_callbacks(config), *callbacks]

    def fit_member(
        i: int,
        training: TrainingConfig,
        data: LabelledMolecules,
        saved: CheckpointFolder | None,
        on_start: Callable[[int, CheckpointFolder | None], None],
        callbacks: Sequence[Callback],
    ) -> tuple[MoleculeModel, FitResult]:
        training = replace(training, seed=training.seed + i)
        outputs = task.num_outputs(len(scaler.mean))
        model = initialize_model(replace(config, training=training), outputs, task.atom_level)
        if initial:
            model.load_state_dict(initial[i].state_dict())
        elif isinstance(task, Regression):
            model.initialize_bias(scaler.scale(np.zeros((1, len(scaler.mean))))[0])
        on_cpu = training.accelerator == "cpu" or (training.accelerator == "auto" and not torch.cuda.is_available())
        if i == 0 and data is train and on_cpu and (why := model.slow_reason()):
            warn(f"training runs 2 to 4 times slower than it could: {why}; see molattn doctor")
        on_start(i, saved)
        result = fit(
            model,
            data,
            val,
            scaler,
            training,
            task=task,
            metric=metric,
            auxiliary_objective=build_auxiliary_objective(model, data, training),
            checkpoints=saved,
            callbacks=callbacks,
            member=i,
            task_weights=task_weights,
        )
        return model.cpu().eval(), result

    members = []
    for i in range(config.training.ensemble_size):
        data = train
        if variants is not None:
            reports = [ReportEpochs(report_teacher)]
            teacher, _ = fit_member(i, config.training, train, teacher_checkpoints(i), on_teacher, reports)
            data, shares = with_labels_of_teacher(train, val, variants, teacher, task, scaler)
            data = add_auxiliary_targets(data, settings)
            say(describe_teacher(shares, variants))
        members.append(fit_member(i, settings, data, checkpoints(i), on_member, callbacks))
    models, fits = zip(*members, strict=True)
    return FittedEnsemble(models, fits, settings)
