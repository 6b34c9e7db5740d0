"""A run: train and evaluate a model, and write its run folder."""

import hashlib
import logging
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from molattn.data import CALIBRATION
from molattn.errors import MolattnError, ProcessLost, UsageError
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import save_artifact
from molattn.models.predictions import NONE, Predictions
from molattn.models.uncertainty import resolve_uncertainty_method
from molattn.training import distributed, run_folder
from molattn.training.baseline import check_baseline, forest_metrics
from molattn.training.build_artifact import build_artifact
from molattn.training.calibrate import calibrate, check_calibration
from molattn.training.callbacks import Callback, ReportEpochs
from molattn.training.checkpoint import CheckpointFolder
from molattn.training.config import DataConfig, TrainingConfig
from molattn.training.data_report import check_data
from molattn.training.dataset import PreparedDataset
from molattn.training.early_stopping import PATIENCE, EpochRecord, FitResult
from molattn.training.ensemble import fit_ensemble
from molattn.training.initialization import initialize_model, resolve_initialization
from molattn.training.metrics import check_tracking_metric, label_of, resolve_metrics
from molattn.training.objectives import class_weights
from molattn.training.prepare import prepare_run, read_options
from molattn.training.reporter import Reporter, SilentReporter
from molattn.training.run_config import RunConfig, check_config
from molattn.training.run_metrics import (
    intervals_on_test_split,
    metrics_by_split,
    transformed_metrics_by_split,
    uncertainty_by_split,
)
from molattn.training.run_status import (
    CHECKPOINT_FOLDER,
    METRICS_FILE,
    MODEL_FOLDER,
    check_resumable,
    check_resume,
    resume_hint,
)
from molattn.training.transforms import describe_transforms
from molattn.training.trees import check_trees, describe_trees, fit_trees_of

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunResult:
    """The result of a run; the same on every rank.

    Attributes:
        folder: the run folder.
        metrics: the content of `metrics.json`.
        dataset: the prepared data set.
        history: of the epochs; for an ensemble that of its first member.
        artifact: the model.
        predictions: of `dataset.targets`, row by row, after calibration, with their uncertainties.
        uncalibrated_predictions: the same before calibration, of the transformed targets.
    """

    folder: Path
    metrics: dict[str, Any]
    dataset: PreparedDataset
    history: list[EpochRecord]
    artifact: Artifact
    predictions: Predictions
    uncalibrated_predictions: Predictions


def run(
    config: RunConfig,
    folder: str | Path | None,
    reporter: Reporter,
    force: bool = False,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
) -> RunResult:
    """Train and evaluate a model, and write everything into a new run folder.

    If a run is interrupted after its first checkpoint, its folder is kept, and the run can be resumed. If it fails, or
    is interrupted before, the folder is removed.

    Args:
        config: the settings.
        folder: of the run; runs/NAME when None.
        reporter: of the progress.
        force: replace a run in `folder`.
        resume: resume the unfinished run in `folder`.
        callbacks: called in the training after those that `config` names.

    Raises:
        UsageError: invalid settings, a folder that exists, nothing to resume, or a run to resume that has other
            settings, callbacks or data.
        InputError: the data cannot be used.
    """
    check_config(config)
    check_resume(resume, folder)
    with distributed.process_group(config.training):
        reporter = reporter if distributed.is_main_process() else SilentReporter()
        return _run(config, folder, reporter, force, resume, callbacks)


def _run(
    config: RunConfig,
    folder: str | Path | None,
    reporter: Reporter,
    force: bool,
    resume: bool,
    callbacks: Sequence[Callback],
) -> RunResult:
    resolve_initialization(config)  # raises errors before anything is read
    if resume and folder is not None:
        check_resumable(Path(folder))
    finding = " and finding their 3D geometries" if config.data.conformers else ""
    reporter.stage(f"reading molecules{finding}")
    dataset = prepare_run(config, reporter.molecules)
    if not config.data.conformers and config.data.on_3d_failure != DataConfig.on_3d_failure:
        reporter.warning("on_3d_failure has no effect: this run has no 3D, which --set data.conformers=true turns on")
    if dataset.cache_folder is not None and distributed.is_main_process():
        _log.debug("loaded the molecules from the cache in %s", dataset.cache_folder)
    if dataset.task_message:
        reporter.stage(dataset.task_message)
    if message := describe_transforms(dataset.transforms, dataset.config.target_columns, dataset.units):
        reporter.stage(message)
    for warning in dataset.warnings:
        reporter.warning(warning)
    task, settings = dataset.task, config.training
    if settings.baseline:
        check_baseline(task)
    if settings.with_trees:
        check_trees(task)
    names = resolve_metrics(task.kind, task.metrics, settings.metrics)
    # Called here so that invalid settings are an error before the folder is created.
    check_tracking_metric(task.kind, names, settings.tracking_metric)
    class_weights(task, dataset.subset("train").targets, settings.class_balance, settings.positive_weights)
    config, message = resolve_initialization(
        replace(config, data=dataset.config), task.atom_level, len(dataset.indices("train"))
    )
    if message:
        reporter.stage(message)
    initialize_model(config, task.num_outputs(len(dataset.config.target_columns)), task.atom_level)
    resolve_uncertainty_method(settings.uncertainty_method, task, settings.ensemble_size, config.model.dropout)
    if dataset.has_calibration:
        check_calibration(task, settings.calibration_method)
    elif settings.calibration_method not in ("", NONE):
        raise UsageError("a calibration method needs calibration molecules: add --calibration-size 0.1")

    def open_folder() -> Path:
        if resume and folder is not None:
            return run_folder.reopen(locks, folder)
        return run_folder.create(locks, folder, dataset.name, force)

    with ExitStack() as locks:
        path = distributed.broadcast_object(open_folder)
        return _train_in_folder(config, dataset, names, path, reporter, resume, callbacks, folder is None)


def _train_in_folder(
    config: RunConfig,
    dataset: PreparedDataset,
    names: tuple[str, ...],
    path: Path,
    reporter: Reporter,
    resume: bool,
    callbacks: Sequence[Callback],
    is_default_folder: bool,
) -> RunResult:
    """Train in a folder; after a failure remove it unless it can be resumed.

    is_default_folder: whether it is in runs/, which is also removed if it is empty.
    """
    try:
        return _train_and_evaluate(config, dataset, names, path, reporter, callbacks)
    except BaseException as error:
        stopped = isinstance(error, ProcessLost) or not isinstance(error, MolattnError)
        if resume or ((path / CHECKPOINT_FOLDER).is_dir() and stopped) or not distributed.is_main_process():
            if stopped:
                reporter.stage(resume_hint(path))
            raise
        run_folder.remove(path, is_default_folder)
        raise


def _train_and_evaluate(
    config: RunConfig,
    dataset: PreparedDataset,
    names: tuple[str, ...],
    path: Path,
    reporter: Reporter,
    callbacks: Sequence[Callback],
) -> RunResult:
    identity, settings, data = _identity(config, dataset, callbacks), config.training, dataset.config
    several = settings.ensemble_size > 1

    def checkpoints(member: int) -> CheckpointFolder:
        folder = path / CHECKPOINT_FOLDER / f"member_{member}" if several else path / CHECKPOINT_FOLDER
        return CheckpointFolder(folder, identity, settings.checkpoint_every, path)

    checkpoints(0)  # raises if the settings differ, before config.toml is overwritten
    if distributed.is_main_process():
        run_folder.write_config(path, config)
        run_folder.write_splits(path, dataset)
        run_folder.write_rejected(path / "rejected.csv", dataset.rejected)
        run_folder.write_standardized(path, dataset)
        run_folder.write_duplicates(path, dataset)
        report = check_data(dataset)
        run_folder.write_json(path / "data_report.json", report.to_dict())
        for message in report.summary():
            reporter.stage(message)
    task = dataset.task
    train, val = dataset.subset("train"), dataset.subset("val")
    scaler = task.fit_scaler(train.targets, dataset.transforms)
    start = time.perf_counter()
    before = 0.0

    def on_member(member: int, saved: CheckpointFolder | None) -> None:
        nonlocal before
        last = None if saved is None else saved.last
        before += 0.0 if saved is None else saved.seconds
        which = f", model {member + 1} of {settings.ensemble_size}" if several else ""
        if last is None:
            reporter.stage(f"training{which}")
        elif not several or not last.state["finished"]:
            reporter.stage(f"training{which} continues after epoch {last.state['epoch'] + 1}")

    callbacks = [ReportEpochs(reporter.epoch, settings.epochs), *callbacks]
    fitted = fit_ensemble(
        config, task, scaler, train, val, names[0], callbacks, on_member, checkpoints, reporter.warning
    )
    seconds = before + time.perf_counter() - start
    first = fitted.fits[0]
    tracked = first.history[0].tracking_metric
    lengths = [len(f.history) for f in fitted.fits]
    if message := _describe_end(fitted.fits, settings):
        reporter.stage(message)
    if several:
        which = f"the ensemble of {settings.ensemble_size}, each at its best epoch"
    else:
        which = f"epoch {first.best_epoch}, the best of {len(first.history)}"
    reporter.stage(f"evaluating {which} by validation {label_of(tracked)}")
    keys = dataset.molecules[dataset.indices("train")].canonical_smiles
    artifact = build_artifact(
        config,
        fitted.models,
        task,
        scaler,
        data.target_columns,
        train,
        keys,
        units=dataset.units,
        read_options=read_options(data),
        descriptors=dataset.descriptor_scaler,
    )
    if settings.with_trees:
        reporter.stage("growing trees")
        artifact = replace(artifact, trees=fit_trees_of(artifact, train, val, settings))
        reporter.stage(describe_trees(artifact))
    uncalibrated = artifact.predict(dataset.molecules, dataset.descriptors)
    if dataset.has_calibration and settings.calibration_method != NONE:
        rows, val_rows = dataset.indices(CALIBRATION), dataset.indices("val")
        true, method = scaler.transform(dataset.targets[rows]), settings.calibration_method
        calibration = calibrate(
            uncalibrated[rows], true, task, artifact.uncertainty, method, artifact.targets, uncalibrated[val_rows]
        )
        artifact = replace(artifact, calibration=calibration)
    predictions = artifact.apply_calibration(uncalibrated)
    # For a target with a transform, the mean of the transformed target: for a logarithm, the geometric mean.
    baseline = scaler.inverse_transform(task.baseline_predictions(train.targets, len(dataset.targets)))
    metrics = {
        **metrics_by_split(dataset, predictions, names),
        "test_intervals": intervals_on_test_split(dataset, predictions, names, settings.seed),
        "baseline": {"what": task.baseline} | metrics_by_split(dataset, baseline, names),
        **({"baseline_forest": _forest(dataset, names, settings, reporter)} if settings.baseline else {}),
        **transformed_metrics_by_split(dataset, uncalibrated, names),
        **uncertainty_by_split(dataset, artifact, uncalibrated),
        "units": dict(zip(data.target_columns, dataset.units, strict=True)),
        "best_epoch": [f.best_epoch for f in fitted.fits] if several else first.best_epoch,
        "tracking_metric": tracked,
        "epochs": lengths if several else lengths[0],
        "parameters": sum(p.numel() for model in fitted.models for p in model.parameters()),
    }
    if distributed.is_main_process():
        save_artifact(path / MODEL_FOLDER, artifact)
        run_folder.write_history(path, [f.history for f in fitted.fits])
        run_folder.write_predictions(path, dataset, predictions, artifact.extra_columns())
        env = run_folder.environment(config.training.seed, dataset.sha256, seconds)
        run_folder.write_json(path / "env.json", env)
        # Written last: a run is finished if its metrics exist.
        run_folder.write_json(path / METRICS_FILE, metrics)
        shutil.rmtree(path / CHECKPOINT_FOLDER, ignore_errors=True)
    return RunResult(path, metrics, dataset, first.history, artifact, predictions, uncalibrated)


def _describe_end(fits: Sequence[FitResult], settings: TrainingConfig) -> str:
    """Why trainings ended before their last epoch; empty if none did."""
    lengths = [len(f.history) for f in fits]
    if min(lengths) == settings.epochs:
        return ""
    after = f"epoch{'s' * (len(fits) > 1)} {', '.join(map(str, lengths))} of {settings.epochs}"
    tracked, epochs = fits[0].history[0].tracking_metric, f"{settings.patience} epoch{'s' * (settings.patience > 1)}"
    reasons = [
        f"{epochs} without a better validation {label_of(tracked)}, see training.patience"
        if reason == PATIENCE
        else f"ended by the callback {reason}"
        for reason in dict.fromkeys(f.stopped_by for f in fits if len(f.history) < settings.epochs)
    ]
    return f"training stopped after {after}: {'; '.join(reasons)}"


def _forest(
    dataset: PreparedDataset, names: tuple[str, ...], settings: TrainingConfig, reporter: Reporter
) -> dict[str, Any]:
    """The "baseline_forest" entry of `metrics.json`, measured by rank 0."""
    reporter.stage("training the baseline, a random forest")
    measure = partial(forest_metrics, dataset, names, settings.seed, settings.num_workers, settings.threads)
    return distributed.broadcast_object(measure)


def _identity(config: RunConfig, dataset: PreparedDataset, callbacks: Sequence[Callback]) -> dict[str, Any]:
    """What must be equal when a run is resumed; the number of workers may differ."""
    settings = config.to_dict()
    del settings["training"]["num_workers"]
    labels = "\n".join(map(str, dataset.split_labels))
    return {
        "config": settings,
        "sha256 of the table": dataset.sha256,
        "sha256 of the split": hashlib.sha256(labels.encode()).hexdigest(),
        **({"callbacks": [type(callback).__name__ for callback in callbacks]} if callbacks else {}),
        **({"the number of processes": distributed.world_size()} if distributed.world_size() > 1 else {}),
    }
