"""Train a model on lists of SMILES and labels, without a table, a run folder or a test split."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from molattn.chem.molecule import map_rows
from molattn.data import CALIBRATION, hold_out_calibration, split_labels
from molattn.errors import InputError, SmilesError, describe_bad_smiles, short_repr
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule, model_class
from molattn.models.predictions import NONE
from molattn.models.target_transform import transform_targets
from molattn.models.task import Task
from molattn.models.uncertainty import resolve_uncertainty_method
from molattn.training.build_artifact import build_artifact
from molattn.training.calibrate import calibrate, check_calibration
from molattn.training.callbacks import Callback, ReportEpochs
from molattn.training.data_messages import describe_constant, describe_unread_geometries
from molattn.training.dataset import LabelledMolecules
from molattn.training.descriptors import (
    append_computed_descriptors,
    computed_descriptor_names,
    standardize_descriptors,
)
from molattn.training.distillation import resolve_for_molecules
from molattn.training.early_stopping import EpochRecord
from molattn.training.ensemble import fit_ensemble
from molattn.training.initialization import check_continues, resolve_initialization
from molattn.training.labels import molecule_key
from molattn.training.loggers import named_loggers
from molattn.training.loggers.run_log import RunLog, new_log_folder
from molattn.training.metrics import check_tracking_metric, resolve_metrics
from molattn.training.prepare import read_options
from molattn.training.reporter import Reporter
from molattn.training.run_config import RunConfig, check_config
from molattn.training.task_weights import task_weights
from molattn.training.transforms import (
    Transforms,
    describe_recognized,
    fit_transforms,
    resolve_transforms,
    undefined_target,
)
from molattn.training.trees import check_trees, fit_trees_of


@dataclass(frozen=True)
class TrainedArrays:
    """The result of `train_arrays`.

    Attributes:
        artifact: the model, on the CPU and in evaluation mode, with all that is needed to use it.
        history: of the epochs; for an ensemble that of its first member.
        best_epoch: the epoch whose weights the model has, from 1; for an ensemble that of its first member.
    """

    artifact: Artifact
    history: list[EpochRecord]
    best_epoch: int


def train_arrays(
    config: RunConfig,
    smiles: Sequence[object],
    targets: np.ndarray,
    task: Task,
    names: Sequence[str],
    reporter: Reporter,
    weights: np.ndarray | None = None,
    descriptors: np.ndarray | None = None,
    callbacks: Sequence[Callback] = (),
    loggers: Sequence[Any] = (),
    num_validation: int = 0,
    previous: Artifact | None = None,
) -> TrainedArrays:
    """Fit a model to n molecules; no file is written, except by loggers, into a new folder in `LOGS`.

    The split of `config.data` assigns some molecules to validation, which selects the best epoch, and to calibration if
    it is configured; its fraction of test molecules is 0. Equal molecules get the same split label. Molecules without a
    label, or with a weight of 0, are not used.

    Training continues from the weights of `previous`, if it is given, with its scaling of targets and descriptors, so
    that its first predictions are those of the earlier model.

    Args:
        config: the settings; its data set and columns are ignored.
        smiles: n SMILES.
        targets: (n, T), NaN where missing; class indices for multiclass targets.
        task: of the targets.
        names: of the targets.
        reporter: of the epochs, and of warnings about molecules.
        weights: the weight of each molecule in the loss, (n,), 0 or more; None for equal weights.
        descriptors: (n, k) extra descriptors, of the columns that `config` names, or None.
        callbacks: called in the training after those that `config` names.
        loggers: objects, used in addition to those that `config` names; they log no files.
        num_validation: the number of the last molecules that are for validation, and all others for training; 0 for a
            split.
        previous: the model that training continues from; None for a new one.

    Raises:
        UsageError: invalid settings, or a model of other settings than `previous`.
        MissingExtra: the package of a logger is not installed.
        InputError: SMILES that cannot be read, descriptors too far from those of training, or too few molecules or
            labels to learn from.
    """
    check_config(config)
    named = named_loggers(config.training.logger, loggers)
    weights_of_targets = task_weights(config.training.task_weights, names)
    data, settings = resolve_initialization(config, task.atom_level)[0].data, config.training
    if settings.with_trees:
        check_trees(task)
    read = model_class(config.model.kind).read(
        smiles, read_options(data), settings.num_workers, reporter.molecules if data.conformers else None
    )
    num_training = len(smiles) - num_validation
    for first, end, where in ((0, num_training, ""), (num_training, len(smiles), "among the validation molecules, ")):
        rows = enumerate(read[first:end])
        if bad := [(i, smiles[first + i], m.reason) for i, m in rows if isinstance(m, SmilesError)]:
            raise InputError(f"{where}{describe_bad_smiles(bad, end - first)}; leave them out")
    molecules = [m for m in read if not isinstance(m, SmilesError)]
    if affected := [(i, m.warnings[0]) for i, m in enumerate(molecules) if m.warnings]:
        row, warning = affected[0]
        count = f"{len(affected)} of {len(molecules)} molecules are not represented fully"
        reporter.warning(f"{count}; the first, row {row}, {short_repr(smiles[row])}: {warning}")

    usable = np.isfinite(targets).any(1)
    if weights is not None:
        usable &= weights > 0
    used = np.flatnonzero(usable)
    if not len(used):
        what = "a label" if weights is None else "a label and a weight above 0"
        raise InputError(f"none of the {len(molecules)} molecules has {what}: there is nothing to learn")
    keys = []
    for key in map_rows([molecules[i].smiles for i in used], molecule_key, settings.num_workers):
        if isinstance(key, SmilesError):
            raise key
        keys.append(key)
    if num_validation:
        labels = np.where(used < num_training, "train", "val")
    else:
        try:
            labels = split_labels(data.split, keys, targets[used], data.split_sizes, settings.seed)
        except InputError as error:
            # Missing labels may be the cause.
            unused = len(molecules) - len(used)
            why = f"; {unused} of {len(molecules)} molecules have no label, or a weight of 0" if unused else ""
            raise InputError(f"{error}{why}") from error
    if data.calibration_size:
        check_calibration(task, settings.calibration_method)
        labels = hold_out_calibration(labels, data.split, keys, targets[used], data.calibration_size, settings.seed)
    descriptor_scaler, z = None, None
    descriptors = append_computed_descriptors(
        computed_descriptor_names(data), descriptors, molecules, settings.num_workers
    )
    if descriptors is not None:
        descriptor_scaler, z, warnings = standardize_descriptors(
            data,
            descriptors,
            used[labels == "train"],
            used,
            lambda i: _location(i, num_training),
            previous and previous.descriptors,
        )
        for warning in warnings:
            reporter.warning(warning)
    for name, values in zip(names, targets[used[labels == "train"]].T, strict=True):
        if not np.isfinite(values).any():
            raise InputError(f"the training molecules have no label of {short_repr(name)}: there is nothing to learn")
    splits = ("train", "val", CALIBRATION)
    if previous is None:
        transforms = _transforms(data.target_transform, targets, names, task, used, labels, num_training, reporter)
    else:
        transforms = previous.scaler.transforms
    transformed = transform_targets(transforms, targets)
    train, val, cal = (_subset(molecules, transformed, weights, z, used[labels == split]) for split in splits)

    scaler = task.fit_scaler(train.targets, transforms) if previous is None else previous.scaler
    if previous is None:
        config, _ = resolve_for_molecules(config, task, train, val)
    else:
        config, _ = resolve_initialization(config, task.atom_level, len(train.molecules))
    if previous is not None:
        check_continues(previous, config, task, len(names))
    settings = config.training
    resolve_uncertainty_method(settings.uncertainty_method, task, settings.ensemble_size, config.model.dropout)
    metrics = resolve_metrics(task.kind, task.metrics, settings.metrics)
    check_tracking_metric(task.kind, metrics, settings.tracking_metric)

    for message in (*describe_constant(train, names, task), describe_unread_geometries(config)):
        if message:
            reporter.warning(message)

    folder = new_log_folder(named)
    log = RunLog(named, folder, folder.name, config.to_dict(), reporter.warning)

    def report(record: EpochRecord, epochs: int) -> None:
        reporter.epoch(record, epochs)
        log.log_epoch(record)

    with log.closed_after_errors():
        fitted = fit_ensemble(
            config,
            task,
            scaler,
            train,
            val,
            metrics[0],
            [ReportEpochs(report), *callbacks],
            lambda member, _: log.open(f"member_{member}" if settings.ensemble_size > 1 else ""),
            warn=reporter.warning,
            initial=() if previous is None else previous.models,
            task_weights=weights_of_targets,
            report_teacher=reporter.epoch,
            say=reporter.stage,
        )
    log.close("finished")
    for model in fitted.models:
        model.requires_grad_(False)
    train_keys = [key for key, label in zip(keys, labels, strict=True) if label == "train"]
    artifact = build_artifact(
        config,
        fitted.models,
        task,
        scaler,
        names,
        train,
        train_keys,
        units=("",) * len(names),
        read_options=read_options(data),
        descriptors=descriptor_scaler,
    )
    if settings.with_trees:
        artifact = replace(artifact, trees=fit_trees_of(artifact, train, val, settings).trees)
    if len(cal) and settings.calibration_method != NONE:
        cal_predictions, val_predictions = (
            artifact.predict_for_intervals(part.molecules, part.descriptors) for part in (cal, val)
        )
        method = settings.calibration_method
        calibration = calibrate(
            cal_predictions, cal.targets, task, artifact.uncertainty_method, method, artifact.targets, val_predictions
        )
        artifact = replace(artifact, calibration=calibration)
    return TrainedArrays(artifact, fitted.fits[0].history, fitted.fits[0].best_epoch)


def _location(i: int, num_training: int) -> str:
    """The location of a molecule, for messages: its row, counted from the first validation molecule if it is one."""
    return f"row {i} (from 0)" if i < num_training else f"row {i - num_training} (from 0) of the validation molecules"


def _transforms(
    settings: Sequence[str],
    targets: np.ndarray,
    names: Sequence[str],
    task: Task,
    used: np.ndarray,
    labels: np.ndarray,
    num_training: int,
    reporter: Reporter,
) -> Transforms:
    """The transforms of the targets, (n, T), fitted to the training labels; InputError where one is undefined.

    Reports why "auto" selects a transform.
    """
    transforms = resolve_transforms(settings, names, ("",) * len(names), task)
    for i in used.tolist() if any(transforms) else ():
        if reason := undefined_target(transforms, targets[i].tolist(), names):
            raise InputError(f"{_location(i, num_training)}: {reason}; leave it out")
    fitted = fit_transforms(transforms, settings, names, task, targets[used], labels == "train")
    for message in describe_recognized(fitted.reasons):
        reporter.stage(message)
    return fitted.transforms


def _subset(
    molecules: Sequence[Molecule],
    targets: np.ndarray,
    weights: np.ndarray | None,
    descriptors: np.ndarray | None,
    rows: np.ndarray,
) -> LabelledMolecules:
    weights, descriptors = (None if x is None else x[rows] for x in (weights, descriptors))
    return LabelledMolecules([molecules[i] for i in rows], targets[rows], weights=weights, descriptors=descriptors)
