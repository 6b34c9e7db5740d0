"""A model from lists of SMILES and labels: no table and no run folder, two sides of a split instead of three."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from molattn.chem import canonical_smiles, read_smiles
from molattn.data import CALIBRATION, hold_out_calibration, split_labels
from molattn.errors import InputError, SmilesError, describe_bad_smiles, short_repr
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule
from molattn.models.calibration import NONE
from molattn.models.registry import MODELS
from molattn.models.scaler import DescriptorScaler
from molattn.models.tasks import Task
from molattn.models.uncertainty import resolve_uncertainty_method
from molattn.training.calibrate import calibrate, check_calibration
from molattn.training.config import RunConfig
from molattn.training.dataset import LabelledMolecules
from molattn.training.domain import domain_of
from molattn.training.ensemble import fit_ensemble
from molattn.training.extra_descriptors import (
    append_computed_descriptors,
    computed_descriptor_names,
    fit_descriptor_scaler,
)
from molattn.training.fit import EpochRecord
from molattn.training.initialization import resolve_initialization
from molattn.training.metrics import resolve_metrics
from molattn.training.prepare import conformer_settings
from molattn.training.run import Reporter, check


@dataclass(frozen=True)
class Trained:
    """What `train_arrays` brings.

    Attributes:
        artifact: the model, on the CPU and in evaluation mode, with all that is needed to use it.
        history: epoch by epoch; of an ensemble that of its first member.
        best_epoch: whose weights the model has, from 0; likewise.
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
) -> Trained:
    """Fit the model that `config` describes to n molecules; nothing is written.

    The split of `config.data` gives some of them to validation, which chooses the epoch, and some to calibration if
    that is asked for; its share of test molecules is 0. Equal molecules are on one side. Molecules without a label, or
    with a weight of 0, say nothing and are on none.

    Args:
        config: of its data set and columns nothing is read.
        smiles: n SMILES.
        targets: (n, T), NaN where missing; of several classes places among them.
        task: what the targets are.
        names: of the targets.
        reporter: told of the epochs, and warned of what the model cannot see in the molecules.
        weights: how much each molecule counts in the loss, (n,), 0 or more; None for all alike.
        descriptors: (n, k) numbers that stand beside each molecule, of the columns that `config` names; None where it
            names none.

    Raises:
        UsageError: settings that make no sense.
        InputError: SMILES that cannot be read, descriptors too far from those of training, or too few molecules or
            labels to learn from.
    """
    check(config)
    data, settings = resolve_initialization(config, task.of_atoms)[0].data, config.training
    read = MODELS[config.model.kind].read(
        smiles,
        add_hs=data.add_hs,
        max_atoms=data.max_atoms,
        num_workers=settings.num_workers,
        conformers=conformer_settings(data),
        progress=reporter.molecules if data.conformers else None,
        standardize=data.standardize,
    )
    bad = [(i, smiles[i], m.reason) for i, m in enumerate(read) if isinstance(m, SmilesError)]
    if bad:
        raise InputError(f"{describe_bad_smiles(bad, len(smiles))}; leave them out")
    molecules = [m for m in read if not isinstance(m, SmilesError)]
    if unseen := [(i, m.warnings[0]) for i, m in enumerate(molecules) if m.warnings]:
        row, warning = unseen[0]
        count = f"{len(unseen)} of {len(molecules)} molecules are not seen as they are"
        reporter.warning(f"{count}; the first, row {row}, {short_repr(smiles[row])}: {warning}")

    counts = np.isfinite(targets).any(1)
    if weights is not None:
        counts &= weights > 0
    used = np.flatnonzero(counts)
    keys = [canonical_smiles(read_smiles(molecules[i].smiles, max_atoms=data.max_atoms)) for i in used]
    labels = split_labels(data.split, keys, targets[used], data.split_sizes, settings.seed)
    if data.calibration_size:
        check_calibration(task, settings.calibration_method)
        labels = hold_out_calibration(labels, data.split, keys, targets[used], data.calibration_size, settings.seed)
    beside, z = None, None
    descriptors = append_computed_descriptors(
        computed_descriptor_names(data), descriptors, molecules, settings.num_workers
    )
    if descriptors is not None:
        beside, said = fit_descriptor_scaler(data, descriptors[used[labels == "train"]])
        for warning in said:
            reporter.warning(warning)
        z = _scaled(beside, descriptors, used)
    sides = ("train", "val", CALIBRATION)
    train, val, cal = (_labelled(molecules, targets, weights, z, used[labels == side]) for side in sides)
    for name, values in zip(names, train.targets.T, strict=True):
        if not np.isfinite(values).any():
            raise InputError(f"the training molecules have no label of {short_repr(name)}: there is nothing to learn")

    scaler = task.fit_scaler(train.targets)
    config, _ = resolve_initialization(config, task.of_atoms, len(train.molecules))
    settings = config.training
    method = resolve_uncertainty_method(settings.uncertainty_method, task, settings.ensemble_size, config.model.dropout)
    metric = resolve_metrics(task.kind, task.metrics, settings.metrics)[0]

    def told(record: EpochRecord) -> None:
        reporter.epoch(record, settings.epochs)

    fitted = fit_ensemble(config, task, scaler, train, val, metric, told, warn=reporter.warning)
    for model in fitted.models:
        model.requires_grad_(False)
    artifact = Artifact(
        model=fitted.models[0],
        scaler=scaler,
        targets=tuple(names),
        units=("",) * len(names),
        add_hs=data.add_hs,
        max_atoms=data.max_atoms,
        conformers=conformer_settings(data),
        task=task,
        standardize=data.standardize,
        descriptors=beside,
        members=fitted.models[1:],
        uncertainty=method,
        samples=settings.dropout_sampling_size,
    )
    if len(cal) and settings.calibration_method != NONE:
        said, of_val = (artifact.predict(side.molecules, side.descriptors) for side in (cal, val))
        found = calibrate(said, cal.targets, task, method, settings.calibration_method, artifact.targets, of_val)
        artifact = replace(artifact, calibration=found)
    if settings.domain_size:
        of_train = [key for key, side in zip(keys, labels, strict=True) if side == "train"]
        size, seed = settings.domain_size, settings.seed
        domain = domain_of(artifact.model, train.molecules, of_train, size, seed, train.descriptors)
        artifact = replace(artifact, domain=domain)
    return Trained(artifact, fitted.fits[0].history, fitted.fits[0].best_epoch)


def _scaled(scaler: DescriptorScaler, descriptors: np.ndarray, used: np.ndarray) -> np.ndarray:
    """(n, k) standardised."""
    z = scaler.scale(descriptors)
    if far := [int(i) for i in used if not np.isfinite(z[i]).all()]:
        raise InputError(f"row {far[0]} (from 0): {scaler.range_error(descriptors[far[0]].tolist())}")
    return z


def _labelled(
    molecules: Sequence[Molecule],
    targets: np.ndarray,
    weights: np.ndarray | None,
    descriptors: np.ndarray | None,
    rows: np.ndarray,
) -> LabelledMolecules:
    chosen = [None if x is None else x[rows] for x in (weights, descriptors)]
    return LabelledMolecules([molecules[i] for i in rows], targets[rows], weights=chosen[0], descriptors=chosen[1])
