"""A run: train and evaluate a model, and write its run folder."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from molattn.errors import MolattnError, ProcessLost, UsageError
from molattn.models.predictions import NONE
from molattn.models.uncertainty import resolve_uncertainty_method
from molattn.training import distributed, run_folder
from molattn.training.baseline import check_baseline
from molattn.training.calibrate import check_calibration
from molattn.training.callbacks import Callback
from molattn.training.config import DataConfig
from molattn.training.data_messages import describe_unread_geometries
from molattn.training.dataset import PreparedDataset
from molattn.training.distillation import resolve_for_dataset
from molattn.training.initialization import initialize_model, resolve_initialization
from molattn.training.loggers import Logger, named_loggers
from molattn.training.loggers.run_log import RunLog
from molattn.training.metrics import check_tracking_metric, resolve_metrics
from molattn.training.objectives import class_weights
from molattn.training.prepare import prepare_run
from molattn.training.reporter import Reporter, SilentReporter
from molattn.training.run_config import RunConfig, check_config
from molattn.training.run_metrics import test_metrics_to_log
from molattn.training.run_status import (
    CHECKPOINT_FOLDER,
    CONFIG_FILE,
    METRICS_FILE,
    MODEL_FOLDER,
    check_resumable,
    check_resume,
    resume_hint,
)
from molattn.training.task_weights import task_weights
from molattn.training.train_and_evaluate import RunResult, train_and_evaluate
from molattn.training.transforms import describe_recognized, describe_transforms
from molattn.training.trees import check_trees

_log = logging.getLogger(__name__)


def run(
    config: RunConfig,
    folder: str | Path | None,
    reporter: Reporter,
    force: bool = False,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    loggers: Sequence[Any] = (),
    finish: Callable[[RunResult], None] = lambda _: None,
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
        loggers: objects, used in addition to those that `config` names.
        finish: called on rank 0 with the result, to add files to the folder before they are logged.

    Raises:
        UsageError: invalid settings, an object that is no logger, a folder that exists, nothing to resume, or a run to
            resume that has other settings, callbacks or data.
        InputError: the data cannot be used.
        MissingExtra: the package of a logger is not installed.
    """
    check_config(config)
    check_resume(resume, folder)
    named = named_loggers(config.training.logger, loggers)
    with distributed.process_group(config.training):
        reporter = reporter if distributed.is_main_process() else SilentReporter()
        return _run(config, folder, reporter, force, resume, callbacks, named, finish)


def _run(
    config: RunConfig,
    folder: str | Path | None,
    reporter: Reporter,
    force: bool,
    resume: bool,
    callbacks: Sequence[Callback],
    loggers: Mapping[str, Logger],
    finish: Callable[[RunResult], None],
) -> RunResult:
    resolve_initialization(config)  # raises errors before anything is read
    if resume and folder is not None:
        check_resumable(Path(folder))
    geometries = " and computing their 3D geometries" if config.data.conformers else ""
    reporter.stage(f"reading molecules{geometries}")
    dataset = prepare_run(config, reporter.molecules)
    if not config.data.conformers and config.data.on_3d_failure != DataConfig.on_3d_failure:
        reporter.warning("on_3d_failure has no effect without 3D geometries: add --set data.conformers=true for these")
    if message := describe_unread_geometries(config):
        reporter.warning(message)
    if dataset.cache_folder is not None and distributed.is_main_process():
        _log.debug("loaded the molecules from the cache in %s", dataset.cache_folder)
    if dataset.task_message:
        reporter.stage(dataset.task_message)
    for message in describe_recognized(dataset.transform_reasons):
        reporter.stage(message)
    if message := describe_transforms(dataset.transforms, dataset.config.target_columns, dataset.units):
        reporter.stage(message)
    for warning in dataset.warnings:
        reporter.warning(warning)
    task, settings = dataset.task, config.training
    if settings.baseline:
        check_baseline(task)
    if settings.with_trees:
        check_trees(task)
    metric_names = resolve_metrics(task.kind, task.metrics, settings.metrics)
    # Called here so that invalid settings are an error before the folder is created.
    check_tracking_metric(task.kind, metric_names, settings.tracking_metric)
    class_weights(task, dataset.subset("train").targets, settings.class_balance, settings.positive_weights)
    task_weights(settings.task_weights, dataset.config.target_columns)
    config, message = resolve_for_dataset(config, dataset)
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
        # Only rank 0 logs. The name of one of multiple runs includes their common folder.
        loggers = loggers if distributed.is_main_process() else {}
        name = "/".join(path.parts[-2:]) if (path.parent / CONFIG_FILE).is_file() else path.name
        log = RunLog(loggers, path, name, config.to_dict(), reporter.warning)
        result = _train_in_folder(config, dataset, metric_names, path, reporter, resume, callbacks, log, folder is None)
        if distributed.is_main_process():
            _finish(result, log, finish)
        return result


def _finish(result: RunResult, log: RunLog, finish: Callable[[RunResult], None]) -> None:
    """Complete the files of a run, and log its results."""
    with log.closed_after_errors():
        finish(result)
        folder, best = result.folder, result.metrics["best_epoch"]
        files = [folder / name for name in (CONFIG_FILE, METRICS_FILE, "env.json")]
        files += [*sorted(folder.glob("plots/*.png")), folder / MODEL_FOLDER]
        log.log_results(test_metrics_to_log(result.metrics), max(best) if isinstance(best, list) else best, files)
    log.close("finished")


def _train_in_folder(
    config: RunConfig,
    dataset: PreparedDataset,
    metric_names: tuple[str, ...],
    path: Path,
    reporter: Reporter,
    resume: bool,
    callbacks: Sequence[Callback],
    log: RunLog,
    is_default_folder: bool,
) -> RunResult:
    """Train in a folder; after a failure remove it unless it can be resumed.

    is_default_folder: whether it is in runs/, which is also removed if it is empty.
    """
    try:
        with log.closed_after_errors():
            return train_and_evaluate(config, dataset, metric_names, path, reporter, callbacks, log)
    except BaseException as error:
        stopped = isinstance(error, ProcessLost) or not isinstance(error, MolattnError)
        if resume or ((path / CHECKPOINT_FOLDER).is_dir() and stopped) or not distributed.is_main_process():
            if stopped:
                reporter.stage(resume_hint(path))
            raise
        run_folder.remove(path, is_default_folder)
        raise
