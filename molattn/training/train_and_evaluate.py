"""Train the models of a run, calibrate and evaluate them, and write the results into its folder."""

import hashlib
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from molattn.data import CALIBRATION
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import save_artifact
from molattn.models.baseline import describe_baseline
from molattn.models.predictions import NONE, Predictions
from molattn.training import distributed, run_folder
from molattn.training.baseline import forest_metrics
from molattn.training.build_artifact import build_artifact
from molattn.training.calibrate import calibrate
from molattn.training.callbacks import Callback, ReportEpochs
from molattn.training.checkpoint import CheckpointFolder
from molattn.training.config import TrainingConfig
from molattn.training.data_report import check_data
from molattn.training.dataset import PreparedDataset
from molattn.training.early_stopping import PATIENCE, EpochRecord, FitResult
from molattn.training.ensemble import fit_ensemble
from molattn.training.loggers.run_log import RunLog
from molattn.training.metrics import tracked_label
from molattn.training.prepare import read_options
from molattn.training.reporter import Reporter
from molattn.training.run_config import RunConfig
from molattn.training.run_metrics import (
    intervals_on_test_split,
    metrics_by_split,
    transformed_metrics_by_split,
    uncertainty_by_split,
)
from molattn.training.run_status import CHECKPOINT_FOLDER, METRICS_FILE, MODEL_FOLDER
from molattn.training.task_weights import task_weights
from molattn.training.trees import describe_trees, fit_trees_of


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


def train_and_evaluate(
    config: RunConfig,
    dataset: PreparedDataset,
    metric_names: tuple[str, ...],
    path: Path,
    reporter: Reporter,
    callbacks: Sequence[Callback],
    log: RunLog,
) -> RunResult:
    """Train the models of a run, calibrate and evaluate them, and write everything into its folder.

    Args:
        config: the settings, resolved.
        dataset: of the run.
        metric_names: the metrics to report; the first after each epoch.
        path: the run folder, which may hold checkpoints to resume from.
        reporter: of the progress.
        callbacks: called in the training after those that `config` names.
        log: of the run; it is open when this returns.
    """
    identity, settings, data = _identity(config, dataset, callbacks), config.training, dataset.config
    several = settings.ensemble_size > 1

    def checkpoints(member: int, *, teacher: bool = False) -> CheckpointFolder:
        folder = path / CHECKPOINT_FOLDER / f"member_{member}" if several else path / CHECKPOINT_FOLDER
        folder = folder / "teacher" if teacher else folder
        return CheckpointFolder(folder, identity, settings.checkpoint_every, path, seconds_so_far)

    earlier_seconds = 0.0  # of the training before it was resumed

    def seconds_so_far() -> float:
        return earlier_seconds + time.perf_counter() - start

    # Raises if the settings differ, before config.toml is overwritten. Each checkpoint has the seconds of the training
    # until then, with those of the models before it and of the preparation.
    for member in range(settings.ensemble_size):
        for teacher in (True, False):
            earlier_seconds = max(earlier_seconds, checkpoints(member, teacher=teacher).seconds)
    if distributed.is_main_process():
        _write_inputs(config, dataset, path, reporter)
    task = dataset.task
    train, val = dataset.subset("train"), dataset.subset("val")
    scaler = task.fit_scaler(train.targets, dataset.transforms)
    start = time.perf_counter()

    def announce(member: int, saved: CheckpointFolder | None, what: str = "training") -> bool:
        """Whether a training, which is announced, has epochs left."""
        last = None if saved is None else saved.last
        which = f", model {member + 1} of {settings.ensemble_size}" if several else ""
        if last is None:
            reporter.stage(f"{what}{which}")
        elif not several or not last.state["finished"]:
            reporter.stage(f"{what}{which} continues after epoch {last.state['epoch'] + 1}")
        return last is None or not last.state["finished"]

    def on_member(member: int, saved: CheckpointFolder | None) -> None:
        if announce(member, saved) or not several:
            log.open(f"member_{member}" if several else "")

    def on_teacher(member: int, saved: CheckpointFolder | None) -> None:
        announce(member, saved, "training the teacher")

    def report(record: EpochRecord, epochs: int) -> None:
        reporter.epoch(record, epochs)
        log.log_epoch(record)

    callbacks = [ReportEpochs(report), *callbacks]
    weights = task_weights(settings.task_weights, data.target_columns)
    fitted = fit_ensemble(
        config,
        task,
        scaler,
        train,
        val,
        metric_names[0],
        callbacks,
        on_member,
        checkpoints,
        reporter.warning,
        task_weights=weights,
        on_teacher=on_teacher,
        teacher_checkpoints=partial(checkpoints, teacher=True),
        report_teacher=reporter.epoch,
        say=reporter.stage,
    )
    if several:
        log.open()
    seconds = seconds_so_far()
    first = fitted.fits[0]
    tracked = first.history[0].tracking_metric
    lengths = [len(f.history) for f in fitted.fits]
    if message := _describe_end(fitted.fits, fitted.settings):
        reporter.stage(message)
    if several:
        which = f"the ensemble of {settings.ensemble_size}, each at its best epoch"
    else:
        which = f"epoch {first.best_epoch}, the best of {len(first.history)}"
    reporter.stage(f"evaluating {which} by {tracked_label(tracked)}")
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
    val_predictions = None
    if settings.with_trees:
        reporter.stage("training boosted trees")
        trees, val_predictions = fit_trees_of(artifact, train, val, settings)
        artifact = replace(artifact, trees=trees)
        reporter.stage(describe_trees(artifact))
    is_calibrated = dataset.has_calibration and settings.calibration_method != NONE
    predict = artifact.predict_for_intervals if is_calibrated else artifact.predict
    uncalibrated = predict(dataset.molecules, dataset.descriptors)
    if val_predictions is not None:
        # The trees have seen the validation molecules: what is reported of these is not their own prediction.
        uncalibrated = uncalibrated.with_rows(dataset.indices("val"), val_predictions)
    if is_calibrated:
        rows, val_rows = dataset.indices(CALIBRATION), dataset.indices("val")
        true, method = scaler.transform(dataset.targets[rows]), settings.calibration_method
        calibration = calibrate(
            uncalibrated[rows],
            true,
            task,
            artifact.uncertainty_method,
            method,
            artifact.targets,
            uncalibrated[val_rows],
        )
        artifact = replace(artifact, calibration=calibration)
    predictions = artifact.apply_calibration(uncalibrated)
    # For a target with a transform, the mean of the transformed target: for a logarithm, the geometric mean.
    baseline = scaler.inverse_transform(task.baseline_predictions(train.targets, len(dataset.targets)))
    what = describe_baseline(task, data.target_columns, dataset.transforms)
    metrics = {
        **metrics_by_split(dataset, predictions, metric_names),
        "test_intervals": intervals_on_test_split(dataset, predictions, metric_names, settings.seed),
        "baseline": {"what": what} | metrics_by_split(dataset, baseline, metric_names),
        **({"baseline_forest": _forest(dataset, metric_names, settings, reporter)} if settings.baseline else {}),
        **transformed_metrics_by_split(dataset, uncalibrated, metric_names),
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


def _write_inputs(config: RunConfig, dataset: PreparedDataset, path: Path, reporter: Reporter) -> None:
    """Write the files that do not depend on the training: settings, split, rejected rows and the data report."""
    run_folder.write_config(path, config)
    run_folder.write_splits(path, dataset)
    run_folder.write_rejected(path / "rejected.csv", dataset.rejected)
    run_folder.write_standardized(path, dataset)
    run_folder.write_duplicates(path, dataset)
    report = check_data(dataset)
    run_folder.write_json(path / "data_report.json", report.to_dict())
    for message in report.summary():
        reporter.stage(message)


def _describe_end(fits: Sequence[FitResult], settings: TrainingConfig) -> str:
    """Why trainings ended before their last epoch; empty if none did."""
    lengths = [len(f.history) for f in fits]
    if min(lengths) == settings.epochs:
        return ""
    after = f"epoch{'s' * (len(fits) > 1)} {', '.join(map(str, lengths))} of {settings.epochs}"
    tracked, epochs = fits[0].history[0].tracking_metric, f"{settings.patience} epoch{'s' * (settings.patience > 1)}"
    reasons = [
        f"{epochs} without a better {tracked_label(tracked)}, see training.patience"
        if reason == PATIENCE
        else f"ended by the callback {reason}"
        for reason in dict.fromkeys(f.stopped_by for f in fits if len(f.history) < settings.epochs)
    ]
    return f"training stopped after {after}: {'; '.join(reasons)}"


def _forest(
    dataset: PreparedDataset, metric_names: tuple[str, ...], settings: TrainingConfig, reporter: Reporter
) -> dict[str, Any]:
    """The "baseline_forest" entry of `metrics.json`, measured by rank 0."""
    reporter.stage("training the baseline, a random forest")
    measure = partial(forest_metrics, dataset, metric_names, settings.seed, settings.num_workers, settings.threads)
    return distributed.broadcast_object(measure)


def _identity(config: RunConfig, dataset: PreparedDataset, callbacks: Sequence[Callback]) -> dict[str, Any]:
    """What must be equal when a run is resumed; the number of workers and the loggers may differ."""
    settings = config.to_dict()
    del settings["training"]["num_workers"], settings["training"]["logger"]
    labels = "\n".join(map(str, dataset.split_labels))
    return {
        "config": settings,
        "sha256 of the table": dataset.sha256,
        "sha256 of the split": hashlib.sha256(labels.encode()).hexdigest(),
        **({"callbacks": [type(callback).__name__ for callback in callbacks]} if callbacks else {}),
        **({"the number of processes": distributed.world_size()} if distributed.world_size() > 1 else {}),
    }
