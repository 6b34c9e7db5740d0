"""The models of a run: one, or the members of an ensemble, which differ in their seeds alone."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from molattn.errors import UsageError
from molattn.models.base import MoleculeModel
from molattn.models.registry import build
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Regression, Task
from molattn.training.auxiliary import companion_of, with_auxiliary
from molattn.training.checkpoint import Checkpoints
from molattn.training.config import RunConfig
from molattn.training.dataset import LabelledMolecules
from molattn.training.extra_descriptors import num_extra_descriptors
from molattn.training.fit import EpochRecord, Fitted, fit
from molattn.training.starting import start_from


@dataclass(frozen=True)
class Members:
    """Trained models, and how each fit went."""

    models: tuple[MoleculeModel, ...]
    fits: tuple[Fitted, ...]


def fit_members(
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
) -> Members:
    """Fit `config.training.ensemble_size` models to the same molecules, one after the other.

    Member i has the seed of the run plus i, for its weights, batches and dropout. All of them choose their epoch by the
    same validation molecules.

    Args:
        metric: what is told epoch by epoch.
        on_epoch: called after every epoch of every member.
        on_member: called as a member begins, from 0, with its checkpoints.
        checkpoints: those of a member; one whose training is over is not trained again.
        warn: told what a user should know.
    """
    models, fits = [], []
    asked = "training.auxiliary" in config.said
    train = with_auxiliary(train, config.training, warn if asked else lambda _: None)
    for i in range(config.training.ensemble_size):
        training = replace(config.training, seed=config.training.seed + i)
        model = untrained(
            replace(config, training=training), len(task.target_of_output(len(scaler.mean))), task.of_atoms
        )
        if isinstance(task, Regression):
            model.initialize_bias(scaler.scale(np.zeros((1, len(scaler.mean))))[0])
        on_cpu = training.accelerator == "cpu" or (training.accelerator == "auto" and not torch.cuda.is_available())
        if i == 0 and on_cpu and (why := model.slow_reason()):
            warn(f"training runs 2 to 4 times slower than it could: {why}; see molattn doctor")
        kept = checkpoints(i)
        on_member(i, kept)
        companion = companion_of(model, train, training)
        fits.append(fit(model, train, val, scaler, training, on_epoch, kept, task, metric, companion))
        models.append(model.cpu().eval())
    return Members(tuple(models), tuple(fits))


def untrained(config: RunConfig, outputs: int, of_atoms: bool) -> MoleculeModel:
    """The model before training, with the weights of its base if it has one.

    The same seed gives the same one, and the caller's random state is left as it was.
    """
    with torch.random.fork_rng():
        torch.manual_seed(config.training.seed)
        try:
            model = build(config.model, outputs, of_atoms, num_extra_descriptors(config.data))
        except ValueError as error:
            raise UsageError(f"[model]: {error}") from None
    start_from(model, config.training.base)
    return model
