"""Fit the models of a run: one, or the members of an ensemble, which differ only in their seeds."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from molattn.models.base import MoleculeModel
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Regression, Task
from molattn.training.checkpoint import Checkpoints
from molattn.training.config import RunConfig
from molattn.training.dataset import LabelledMolecules
from molattn.training.fit import EpochRecord, FitResult, fit
from molattn.training.initialization import initialize_model
from molattn.training.objectives import add_auxiliary_targets, build_auxiliary_objective


@dataclass(frozen=True)
class FittedEnsemble:
    """Trained models, and the result of each fit."""

    models: tuple[MoleculeModel, ...]
    fits: tuple[FitResult, ...]


def fit_ensemble(
    config: RunConfig,
    task: Task,
    scaler: TargetScaler,
    train: LabelledMolecules,
    val: LabelledMolecules,
    metric: str,
    on_epoch: Callable[[EpochRecord], None] = lambda _: None,
    on_member: Callable[[int, Checkpoints | None], None] = lambda _, __: None,
    checkpoints: Callable[[int], Checkpoints | None] = lambda _: None,
    warn: Callable[[str], None] = lambda _: None,
) -> FittedEnsemble:
    """Fit `config.training.ensemble_size` models to the same molecules, one after the other.

    Member i uses the seed of the run plus i for its weights, batches and dropout. All members choose their best epoch
    with the same validation molecules.

    Args:
        metric: the validation metric of every epoch.
        on_epoch: called after every epoch of every member.
        on_member: called as a member begins, with its index, from 0, and its checkpoints.
        checkpoints: returns those of a member; a member whose training is finished is not trained again.
        warn: called with messages for the user.
    """
    models, fits = [], []
    explicit = "training.auxiliary" in config.explicit_keys
    train = add_auxiliary_targets(train, config.training, warn if explicit else lambda _: None)
    for i in range(config.training.ensemble_size):
        training = replace(config.training, seed=config.training.seed + i)
        model = initialize_model(
            replace(config, training=training), len(task.target_of_output(len(scaler.mean))), task.of_atoms
        )
        if isinstance(task, Regression):
            model.initialize_bias(scaler.scale(np.zeros((1, len(scaler.mean))))[0])
        on_cpu = training.accelerator == "cpu" or (training.accelerator == "auto" and not torch.cuda.is_available())
        if i == 0 and on_cpu and (why := model.slow_reason()):
            warn(f"training runs 2 to 4 times slower than it could: {why}; see molattn doctor")
        saved = checkpoints(i)
        on_member(i, saved)
        auxiliary_objective = build_auxiliary_objective(model, train, training)
        fits.append(fit(model, train, val, scaler, training, on_epoch, saved, task, metric, auxiliary_objective))
        models.append(model.cpu().eval())
    return FittedEnsemble(tuple(models), tuple(fits))
