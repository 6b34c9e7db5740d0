"""A run from its settings to its folder."""

import hashlib
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from molattn.chem import ON_FAILURE
from molattn.errors import MolattnError, UsageError
from molattn.models.artifact import Artifact, save_artifact
from molattn.models.base import MoleculeModel
from molattn.models.predict import outputs_of
from molattn.models.registry import MODELS, build
from molattn.models.tasks import Answers, Regression
from molattn.training import run_folder
from molattn.training.auxiliary import with_auxiliary
from molattn.training.checkpoint import Checkpoints
from molattn.training.config import DataConfig, RunConfig
from molattn.training.experiment import Experiment
from molattn.training.fit import EpochRecord, fit
from molattn.training.folders import CHECKPOINT, METRICS, MODEL, check_resumable, continues
from molattn.training.losses import balance
from molattn.training.metrics import metrics_for
from molattn.training.prepare import conformers_of, prepare
from molattn.training.starting import settle_start, start_from


@runtime_checkable
class Reporter(Protocol):
    """Who is told how a run goes."""

    def stage(self, text: str) -> None:
        """A new part of the work begins."""

    def warning(self, text: str) -> None:
        """Something a user should know."""

    def molecules(self, done: int, total: int) -> None:
        """So many of all molecules have been read."""

    def epoch(self, record: EpochRecord, epochs: int) -> None:
        """One of at most `epochs` epochs is over."""


@dataclass(frozen=True)
class RunResult:
    """What a run brought.

    Attributes:
        folder: where it lies.
        metrics: what `metrics.json` holds.
        experiment: what it learned from.
        predicted: (N, T), row by row what `experiment.targets` holds the truth of: `Answers.values`.
        history: epoch by epoch.
        more: (N, M), what stands beside the predictions: `Answers.more`; None where nobody kept it.
    """

    folder: Path
    metrics: dict[str, Any]
    experiment: Experiment
    predicted: np.ndarray
    history: list[EpochRecord]
    more: np.ndarray | None = None

    @property
    def answers(self) -> Answers:
        """The predictions and what stands beside them."""
        return Answers(self.predicted, np.empty((len(self.predicted), 0)) if self.more is None else self.more)


def run(
    config: RunConfig, folder: str | Path | None, reporter: Reporter, force: bool = False, resume: bool = False
) -> RunResult:
    """Train and evaluate as `config` says, and write everything into a new run folder.

    A run that is interrupted after an epoch leaves its folder, and with `resume` goes on in it; one that fails, or is
    interrupted before, leaves none.

    Raises:
        UsageError: the settings make no sense, or the folder is taken; or there is nothing to resume, or it is of
            other settings or data.
        InputError: the data cannot be used.
    """
    check(config)
    settle_start(config)  # once here, before anything is read, for what cannot be
    if resume and folder is not None:
        check_resumable(Path(folder))
    if config.data.conformers:
        reporter.stage("reading molecules and finding their 3D geometries")
    else:
        reporter.stage("reading molecules")
    experiment = prepare(
        config.data,
        MODELS[config.model.kind],
        config.training.seed,
        config.training.num_workers,
        reporter.molecules,
        config.training.loss,
    )
    if not config.data.conformers and config.data.on_3d_failure != DataConfig.on_3d_failure:
        reporter.warning("on_3d_failure changes nothing: this run has no 3D, which --set data.conformers=true turns on")
    if experiment.stored_in is not None:
        reporter.stage(f"they were read before, and are in {experiment.stored_in}")
    if experiment.taken:
        reporter.stage(experiment.taken)
    for warning in experiment.warnings:
        reporter.warning(warning)
    task, settings = experiment.task, config.training
    names = metrics_for(task.kind, task.metrics, settings.metrics)
    # Once here, where it costs nothing, so that weights that make no sense leave no folder.
    balance(task, experiment.labelled("train").targets, settings.class_balance, settings.positive_weights)
    config, said = settle_start(replace(config, data=experiment.data), task.of_atoms)
    if said:
        reporter.stage(said)
    model = untrained(config, len(task.owners(len(experiment.data.target_columns))), task.of_atoms)
    if resume and folder is not None:
        path = run_folder.reopen(folder)
    else:
        path = run_folder.claim(folder, experiment.name, force)
    try:
        return _trained(config, experiment, model, names, path, reporter)
    except BaseException as error:
        if resume or ((path / CHECKPOINT).is_dir() and not isinstance(error, MolattnError)):
            if not isinstance(error, MolattnError):
                reporter.stage(continues(path))
            raise
        shutil.rmtree(path, ignore_errors=True)
        if folder is None:
            with suppress(OSError):
                path.parent.rmdir()  # runs/, if this run was to be the first in it
        raise


def _trained(
    config: RunConfig,
    experiment: Experiment,
    model: MoleculeModel,
    names: tuple[str, ...],
    path: Path,
    reporter: Reporter,
) -> RunResult:
    checkpoints = Checkpoints(path / CHECKPOINT, _identity(config, experiment), config.training.checkpoint_every)
    run_folder.write_config(path, config)
    run_folder.write_splits(path, experiment)
    run_folder.write_rejected(path, experiment)
    run_folder.write_standardized(path, experiment)
    task = experiment.task
    train, val = experiment.labelled("train"), experiment.labelled("val")
    scaler = task.scaler(train.targets)
    if isinstance(task, Regression):
        model.start_from(scaler.scale(np.zeros((1, len(scaler.mean))))[0])
    last = checkpoints.last
    reporter.stage("training" if last is None else f"training goes on after epoch {last.state['epoch'] + 1}")
    start = time.perf_counter()

    def told(record: EpochRecord) -> None:
        reporter.epoch(record, config.training.epochs)

    train, companion = with_auxiliary(model, train, config.training, reporter.warning)
    fitted = fit(model, train, val, scaler, config.training, told, checkpoints, task, names[0], companion)
    seconds = checkpoints.seconds + time.perf_counter() - start
    reporter.stage(f"evaluating epoch {fitted.best_epoch + 1}, the best of {len(fitted.history)} on validation")
    data = experiment.data
    artifact = Artifact(
        model, scaler, data.target_columns, experiment.units, data.add_hs, data.max_atoms, conformers_of(data), task
    )
    artifact = replace(artifact, standardize=data.standardize, descriptors=experiment.descriptor_scaler)
    save_artifact(path / MODEL, artifact)
    outputs = outputs_of(model.cpu(), experiment.molecules, descriptors=experiment.descriptors)
    answers = task.answers(outputs, scaler)
    baseline = task.guess(train.targets, len(experiment.targets))
    metrics = {
        **run_folder.summary(experiment, answers, names),
        "baseline": {"what": task.baseline} | run_folder.summary(experiment, baseline, names),
        "units": dict(zip(data.target_columns, experiment.units, strict=True)),
        "best_epoch": fitted.best_epoch,
        "epochs": len(fitted.history),
        "parameters": sum(p.numel() for p in model.parameters()),
    }
    run_folder.write_history(path, fitted.history)
    run_folder.write_predictions(path, experiment, answers)
    env = run_folder.environment(config.training.seed, experiment.sha256, seconds)
    run_folder.write_json(path / "env.json", env)
    # Last: a run is finished once its metrics are there.
    run_folder.write_json(path / METRICS, metrics)
    checkpoints.remove()
    return RunResult(path, metrics, experiment, answers.values, fitted.history, answers.more)


def _identity(config: RunConfig, experiment: Experiment) -> dict[str, Any]:
    """What must not change while a run is unfinished. More or fewer workers read the same molecules."""
    settings = config.to_dict()
    del settings["training"]["num_workers"]
    labels = "\n".join(map(str, experiment.labels))
    return {
        "config": settings,
        "sha256 of the table": experiment.sha256,
        "sha256 of the split": hashlib.sha256(labels.encode()).hexdigest(),
    }


def untrained(config: RunConfig, outputs: int, of_atoms: bool) -> MoleculeModel:
    """The model before training, with the weights of its base if it has one.

    The same seed gives the same one, and the caller's random state is left as it was.
    """
    with torch.random.fork_rng():
        torch.manual_seed(config.training.seed)
        try:
            model = build(config.model, outputs, of_atoms, len(config.data.descriptor_columns))
        except ValueError as error:
            raise UsageError(f"[model]: {error}") from None
    start_from(model, config.training.base)
    return model


_SIZES = ("hidden_dim", "num_layers", "num_heads", "edge_dim", "feed_forward", "max_path")


def check(config: RunConfig) -> None:
    """Numbers that would fail deep inside, refused where they were said."""
    wrong = [
        (config.training.epochs < 1, "epochs is 1 or more"),
        (config.training.batch_size < 1, "batch_size is 1 or more"),
        (config.training.learning_rate <= 0, "learning_rate is above 0"),
        (config.training.patience < 1, "patience is 1 or more"),
        (not 0 <= config.training.ema < 1, "ema is at least 0 and below 1"),
        (not config.training.auxiliary >= 0, "auxiliary is 0 or more"),
        (config.training.checkpoint_every < 1, "checkpoint_every is 1 or more"),
        (config.training.num_workers < 0, "num_workers is 0 or more"),
        (config.training.threads < 1, "threads is 1 or more"),
        (config.training.seed < 0, "seed is 0 or more"),
        (config.training.num_replicates < 1, "num_replicates is 1 or more"),
        (config.data.num_folds < 1, "num_folds is 1 or more"),
        (not -1 <= config.data.fold < config.data.num_folds, "fold is from 0 to num_folds - 1, or -1 for all"),
        (config.data.max_atoms < 1, "max_atoms is 1 or more"),
        (not 0 <= config.data.conformer_seed < 2**31 - 1, "conformer_seed is at least 0 and below 2^31 - 1"),
        (config.data.conformer_timeout < 1, "conformer_timeout is 1 second or more"),
        (not 0 <= config.model.dropout < 1, "dropout is at least 0 and below 1"),
        *((getattr(config.model, size, 1) < 1, f"{size} is 1 or more") for size in _SIZES),
    ]
    for is_wrong, rule in wrong:
        if is_wrong:
            raise UsageError(f"a setting is out of range: {rule}")
    if config.data.on_3d_failure not in ON_FAILURE:
        raise UsageError(f"unknown on_3d_failure {config.data.on_3d_failure!r}: choose one of {', '.join(ON_FAILURE)}")
