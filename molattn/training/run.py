"""A run: train and evaluate a model, and write its run folder."""

import hashlib
import logging
import shutil
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from molattn.chem import ON_FAILURE
from molattn.data import CALIBRATION
from molattn.data.schema import ValidationError
from molattn.errors import MolattnError, ProcessLost, UsageError
from molattn.models.artifact import Artifact, save_artifact
from molattn.models.base import MODELS
from molattn.models.calibration import METHODS as CALIBRATION_METHODS
from molattn.models.calibration import NONE
from molattn.models.config_file import DOMAIN_SIZE, MAX_ATOMS, MODEL_FIELDS, NUM_MEMBERS, SAMPLES, TIMEOUT
from molattn.models.predictions import Predictions
from molattn.models.uncertainty import methods as uncertainty_methods
from molattn.models.uncertainty import resolve_uncertainty_method
from molattn.training import distributed, run_folder
from molattn.training.baseline import check_baseline, forest_metrics
from molattn.training.calibrate import calibrate, check_calibration, fit_domain
from molattn.training.checkpoint import Checkpoints
from molattn.training.config import DataConfig, RunConfig, TrainingConfig
from molattn.training.curation import curate
from molattn.training.dataset import PreparedDataset
from molattn.training.descriptors import check_featurizers
from molattn.training.fit import EpochRecord, fit_ensemble, initialize_model
from molattn.training.initialization import resolve_initialization
from molattn.training.metrics import LEVEL, check_tracking_metric, label_of, resolve_metrics, uncertainty_metrics
from molattn.training.objectives import class_weights
from molattn.training.prepare import prepare, read_options
from molattn.training.run_metrics import intervals_of_test, transformed_by_split
from molattn.training.run_status import CHECKPOINT, METRICS, MODEL, check_resumable, resume_hint
from molattn.training.transforms import check_transforms, describe_transforms

_log = logging.getLogger(__name__)


@runtime_checkable
class Reporter(Protocol):
    """Reports the progress of a run."""

    def stage(self, text: str) -> None:
        """Report the start of a stage of the run."""

    def warning(self, text: str) -> None:
        """Report a warning."""

    def molecules(self, done: int, total: int) -> None:
        """Report the number of molecules that have been read."""

    def epoch(self, record: EpochRecord, epochs: int) -> None:
        """Report the end of one of at most `epochs` epochs."""


class SilentReporter:
    """A `Reporter` without output, for every rank except rank 0."""

    def stage(self, text: str) -> None:
        """See `Reporter`."""

    def warning(self, text: str) -> None:
        """See `Reporter`."""

    def molecules(self, done: int, total: int) -> None:
        """See `Reporter`."""

    def epoch(self, record: EpochRecord, epochs: int) -> None:
        """See `Reporter`."""


@dataclass(frozen=True)
class RunResult:
    """The result of a run; the same on every rank.

    Attributes:
        folder: the run folder.
        metrics: the content of `metrics.json`.
        dataset: the prepared data set.
        predicted: (N, T), the predictions of `dataset.targets`, row by row: `Predictions.values`.
        history: of the epochs; for an ensemble that of its first member.
        extra_values: (N, M), `Predictions.extra_values`; None if they were not stored.
        artifact: the model; None if it was not stored.
        calibrated_predictions: the predictions with their uncertainties, after calibration; None if they were not
            stored.
        raw_predictions: the same before calibration.
    """

    folder: Path
    metrics: dict[str, Any]
    dataset: PreparedDataset
    predicted: np.ndarray
    history: list[EpochRecord]
    extra_values: np.ndarray | None = None
    artifact: Artifact | None = None
    calibrated_predictions: Predictions | None = None
    raw_predictions: Predictions | None = None

    @property
    def predictions(self) -> Predictions:
        """The predictions with their uncertainties and extra values."""
        if self.calibrated_predictions is not None:
            return self.calibrated_predictions
        extra = np.empty((len(self.predicted), 0)) if self.extra_values is None else self.extra_values
        return Predictions(self.predicted, extra)


def run(
    config: RunConfig, folder: str | Path | None, reporter: Reporter, force: bool = False, resume: bool = False
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

    Raises:
        UsageError: invalid settings, a folder that exists, nothing to resume, or a run to resume that has other
            settings or data.
        InputError: the data cannot be used.
    """
    check_config(config)
    with distributed.process_group(config.training):
        return _run(config, folder, reporter if distributed.is_main_process() else SilentReporter(), force, resume)


def _run(config: RunConfig, folder: str | Path | None, reporter: Reporter, force: bool, resume: bool) -> RunResult:
    # Resolved before anything is read, to raise errors early, and because `prepare` computes descriptors.
    resolved, _ = resolve_initialization(config)
    if resume and folder is not None:
        check_resumable(Path(folder))
    if config.data.conformers:
        reporter.stage("reading molecules and finding their 3D geometries")
    else:
        reporter.stage("reading molecules")
    dataset = prepare(
        resolved.data,
        MODELS[config.model.kind],
        config.training.seed,
        config.training.num_workers,
        reporter.molecules,
        config.training.loss,
        config.training.alpha,
    )
    if not config.data.conformers and config.data.on_3d_failure != DataConfig.on_3d_failure:
        reporter.warning("on_3d_failure has no effect: this run has no 3D, which --set data.conformers=true turns on")
    if dataset.stored_in is not None and distributed.is_main_process():
        _log.debug("loaded the molecules from the cache in %s", dataset.stored_in)
    if dataset.task_message:
        reporter.stage(dataset.task_message)
    if message := describe_transforms(dataset.transforms, dataset.config.target_columns, dataset.units):
        reporter.stage(message)
    for warning in dataset.warnings:
        reporter.warning(warning)
    task, settings = dataset.task, config.training
    check_featurizers(config, task.of_atoms)
    if settings.baseline:
        check_baseline(task)
    names = resolve_metrics(task.kind, task.metrics, settings.metrics)
    # Called here so that invalid settings are an error before the folder is created.
    check_tracking_metric(task.kind, names, settings.tracking_metric)
    class_weights(task, dataset.subset("train").targets, settings.class_balance, settings.positive_weights)
    config, message = resolve_initialization(
        replace(config, data=dataset.config), task.of_atoms, len(dataset.indices("train"))
    )
    if message:
        reporter.stage(message)
    initialize_model(config, len(task.target_of_output(len(dataset.config.target_columns))), task.of_atoms)
    resolve_uncertainty_method(settings.uncertainty_method, task, settings.ensemble_size, config.model.dropout)
    if dataset.has_calibration:
        check_calibration(task, settings.calibration_method)
    elif settings.calibration_method not in ("", NONE):
        raise UsageError("a calibration method needs calibration molecules: add --calibration-size 0.1")

    def open_folder() -> Path:
        if resume and folder:
            return run_folder.reopen(locks, folder)
        return run_folder.create(locks, folder, dataset.name, force)

    with ExitStack() as locks:
        path = distributed.broadcast_object(open_folder)
        return _train_in_folder(config, dataset, names, path, reporter, resume, folder is None)


def _train_in_folder(
    config: RunConfig,
    dataset: PreparedDataset,
    names: tuple[str, ...],
    path: Path,
    reporter: Reporter,
    resume: bool,
    in_runs: bool,
) -> RunResult:
    """Train in a folder; after a failure remove it unless it can be resumed, and runs/ if it is empty and `in_runs`."""
    try:
        return _train_and_evaluate(config, dataset, names, path, reporter)
    except BaseException as error:
        stopped = isinstance(error, ProcessLost) or not isinstance(error, MolattnError)
        if resume or ((path / CHECKPOINT).is_dir() and stopped) or not distributed.is_main_process():
            if stopped:
                reporter.stage(resume_hint(path))
            raise
        shutil.rmtree(path, ignore_errors=True)
        if in_runs:
            with suppress(OSError):
                path.parent.rmdir()  # runs/, if it has no other run
        raise


def _train_and_evaluate(
    config: RunConfig,
    dataset: PreparedDataset,
    names: tuple[str, ...],
    path: Path,
    reporter: Reporter,
) -> RunResult:
    identity, settings, data = _identity(config, dataset), config.training, dataset.config
    several = settings.ensemble_size > 1

    def checkpoints(member: int) -> Checkpoints:
        folder = path / CHECKPOINT / f"member_{member}" if several else path / CHECKPOINT
        return Checkpoints(folder, identity, settings.checkpoint_every, path)

    checkpoints(0)  # raises if the settings differ, before config.toml is overwritten
    if distributed.is_main_process():
        run_folder.write_config(path, config)
        run_folder.write_splits(path, dataset)
        run_folder.write_rejected(path, dataset)
        run_folder.write_standardized(path, dataset)
        run_folder.write_replicates(path, dataset)
        curation = curate(dataset)
        run_folder.write_curation(path, curation)
        for message in curation.summary():
            reporter.stage(message)
    task = dataset.task
    train, val = dataset.subset("train"), dataset.subset("val")
    scaler = replace(task.fit_scaler(train.targets), transforms=dataset.transforms)
    start = time.perf_counter()
    before = 0.0

    def on_member(member: int, saved: Checkpoints | None) -> None:
        nonlocal before
        last = None if saved is None else saved.last
        before += 0.0 if saved is None else saved.seconds
        which = f", model {member + 1} of {settings.ensemble_size}" if several else ""
        if last is None:
            reporter.stage(f"training{which}")
        elif not several or not last.state["over"]:
            reporter.stage(f"training{which} continues after epoch {last.state['epoch'] + 1}")

    def on_epoch(record: EpochRecord) -> None:
        reporter.epoch(record, settings.epochs)

    fitted = fit_ensemble(
        config, task, scaler, train, val, names[0], on_epoch, on_member, checkpoints, reporter.warning
    )
    seconds = before + time.perf_counter() - start
    first = fitted.fits[0]
    tracked = first.history[0].tracking_metric
    lengths = [len(f.history) for f in fitted.fits]
    if min(lengths) < settings.epochs:
        after = f"epoch{'s' * several} {', '.join(map(str, lengths))} of {settings.epochs}"
        without = (
            f"{settings.patience} epoch{'s' * (settings.patience > 1)} without a better validation {label_of(tracked)}"
        )
        reporter.stage(f"training stopped after {after}: {without}, see training.patience")
    if several:
        which = f"the ensemble of {settings.ensemble_size}, each at its best epoch"
    else:
        which = f"epoch {first.best_epoch}, the best of {len(first.history)}"
    reporter.stage(f"evaluating {which} by validation {label_of(tracked)}")
    artifact = Artifact(
        fitted.models[0],
        scaler,
        data.target_columns,
        dataset.units,
        read_options(data),
        task,
        dataset.descriptor_scaler,
        fitted.models[1:],
        resolve_uncertainty_method(settings.uncertainty_method, task, settings.ensemble_size, config.model.dropout),
        settings.dropout_sampling_size,
        class_shares=task.class_shares(train.targets),
    )
    answers = artifact.predict(dataset.molecules, dataset.descriptors)
    if dataset.has_calibration and settings.calibration_method != NONE:
        rows = dataset.indices(CALIBRATION)
        calibration = calibrate(
            answers[rows],
            scaler.transform(dataset.targets[rows]),
            task,
            artifact.uncertainty,
            settings.calibration_method,
            data.target_columns,
            answers[dataset.indices("val")],
        )
        artifact = replace(artifact, calibration=calibration)
    if settings.domain_size:
        keys = dataset.molecules[dataset.indices("train")].keys
        size, seed = settings.domain_size, settings.seed
        artifact = replace(
            artifact, domain=fit_domain(artifact.model, train.molecules, keys, size, seed, train.descriptors)
        )
    raw, answers = answers, artifact.apply_calibration(answers)
    # For a target with a transform, the mean of the transformed target: for a logarithm, the geometric mean.
    baseline = scaler.in_units(task.baseline_predictions(train.targets, len(dataset.targets)))
    metrics = {
        **run_folder.metrics_by_split(dataset, answers, names),
        "test_intervals": intervals_of_test(dataset, answers, names, settings.seed),
        "baseline": {"what": task.baseline} | run_folder.metrics_by_split(dataset, baseline, names),
        **({"baseline_forest": _forest(dataset, names, settings, reporter)} if settings.baseline else {}),
        **transformed_by_split(dataset, raw, names),
        **_uncertainty(dataset, artifact, raw),
        "units": dict(zip(data.target_columns, dataset.units, strict=True)),
        "best_epoch": [f.best_epoch for f in fitted.fits] if several else first.best_epoch,
        "tracking_metric": tracked,
        "epochs": lengths if several else lengths[0],
        "parameters": sum(p.numel() for model in fitted.models for p in model.parameters()),
    }
    if distributed.is_main_process():
        save_artifact(path / MODEL, artifact)
        run_folder.write_history(path, [f.history for f in fitted.fits])
        run_folder.write_predictions(path, dataset, answers, artifact.extra_columns())
        env = run_folder.environment(config.training.seed, dataset.sha256, seconds)
        run_folder.write_json(path / "env.json", env)
        # Written last: a run is finished if its metrics exist.
        run_folder.write_json(path / METRICS, metrics)
        shutil.rmtree(path / CHECKPOINT, ignore_errors=True)
    return RunResult(
        path, metrics, dataset, answers.values, first.history, answers.extra_values, artifact, answers, raw
    )


def _forest(
    dataset: PreparedDataset, names: tuple[str, ...], settings: TrainingConfig, reporter: Reporter
) -> dict[str, Any]:
    """The "baseline_forest" entry of `metrics.json`, measured by rank 0."""
    reporter.stage("training the baseline, a random forest")
    measure = partial(forest_metrics, dataset, names, settings.seed, settings.num_workers, settings.threads)
    return distributed.broadcast_object(measure)


def _uncertainty(dataset: PreparedDataset, artifact: Artifact, answers: Predictions) -> dict[str, Any]:
    """The "uncertainty" entry of `metrics.json`, from predictions before calibration; empty without uncertainties."""
    if artifact.uncertainty == NONE and artifact.calibration is None:
        return {}
    calibration, method = artifact.calibration, artifact.calibration_method
    result: dict[str, Any] = {"method": artifact.uncertainty, "calibration": method, "level": LEVEL}
    for split in ("val", "test"):
        rows = dataset.targets_of(dataset.indices(split))
        result[split] = uncertainty_metrics(
            artifact.scaler.transform(dataset.targets[rows]),
            answers[rows],
            artifact.task,
            artifact.targets,
            calibration,
            method,
            scaler=artifact.scaler,
        )
    return {"uncertainty": result}


def _identity(config: RunConfig, dataset: PreparedDataset) -> dict[str, Any]:
    """What must be equal when a run is resumed; the number of workers may differ."""
    settings = config.to_dict()
    del settings["training"]["num_workers"]
    labels = "\n".join(map(str, dataset.split_labels))
    return {
        "config": settings,
        "sha256 of the table": dataset.sha256,
        "sha256 of the split": hashlib.sha256(labels.encode()).hexdigest(),
        **({"the number of processes": distributed.world_size()} if distributed.world_size() > 1 else {}),
    }


_SIZES = ("hidden_dim", "num_layers", "num_heads", "edge_dim", "feed_forward", "max_path")


def check_config(config: RunConfig) -> None:
    """Raise UsageError for settings that are out of range or unknown."""
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
        (config.training.num_nodes < 1, "num_nodes is 1 or more"),
        (config.training.num_replicates < 1, "num_replicates is 1 or more"),
        (config.training.ensemble_size < 1, "ensemble_size is 1 or more"),
        (not 0 < config.training.alpha < 1, "alpha is above 0 and below 1"),
        (config.training.evidential_regularization < 0, "evidential_regularization is 0 or more"),
        (config.training.dropout_sampling_size < 2, "dropout_sampling_size is 2 or more"),
        (config.training.domain_size < 0, "domain_size is 0 or more"),
        (not 0 <= config.data.calibration_size < 1, "calibration_size is at least 0 and below 1"),
        (not 0 <= config.data.max_unreadable <= 1, "max_unreadable is from 0 to 1"),
        (config.data.num_folds < 1, "num_folds is 1 or more"),
        (not -1 <= config.data.fold < config.data.num_folds, "fold is from 0 to num_folds - 1, or -1 for all"),
        (config.data.max_atoms < 1, "max_atoms is 1 or more"),
        (not 0 <= config.data.conformer_seed < 2**31 - 1, "conformer_seed is at least 0 and below 2^31 - 1"),
        (config.data.conformer_timeout < 1, "conformer_timeout is 1 second or more"),
        (not 0 <= config.model.dropout < 1, "dropout is at least 0 and below 1"),
        *((getattr(config.model, size, 1) < 1, f"{size} is 1 or more") for size in _SIZES),
        # Limits of the model file.
        (config.data.max_atoms > MAX_ATOMS.maximum, f"max_atoms is {MAX_ATOMS.maximum:,} at the most"),
        (
            config.data.conformer_timeout > TIMEOUT.maximum,
            f"conformer_timeout is {TIMEOUT.maximum:,} seconds at the most",
        ),
        (config.training.ensemble_size > NUM_MEMBERS.maximum, f"ensemble_size is {NUM_MEMBERS.maximum:,} at the most"),
        (
            config.training.dropout_sampling_size > SAMPLES.maximum,
            f"dropout_sampling_size is at most {SAMPLES.maximum:,}",
        ),
        (config.training.domain_size > DOMAIN_SIZE.maximum, f"domain_size is {DOMAIN_SIZE.maximum:,} at the most"),
    ]
    for is_wrong, rule in wrong:
        if is_wrong:
            raise UsageError(f"a setting is out of range: {rule}")
    try:
        MODEL_FIELDS[config.model.kind].validate(asdict(config.model), "model")
    except ValidationError as error:
        raise UsageError(f"a setting is out of range: {error}") from None
    check_transforms(config.data.target_transform)
    distributed.check_world_size(config.training)
    for name, value, known in (
        ("uncertainty_method", config.training.uncertainty_method, uncertainty_methods()),
        ("calibration_method", config.training.calibration_method, CALIBRATION_METHODS),
    ):
        if value and value not in known:
            raise UsageError(f"there is no {name} {value!r}: choose among {', '.join(known)}")
    if config.data.on_3d_failure not in ON_FAILURE:
        raise UsageError(f"unknown on_3d_failure {config.data.on_3d_failure!r}: choose one of {', '.join(ON_FAILURE)}")
