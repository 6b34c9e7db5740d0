"""The artifact of trained models: their uncertainty method, calibration and applicability domain."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from molattn.chem import ReadOptions, morgan_bits
from molattn.data.splits.groups import NO_SIZE_LIMIT
from molattn.data.store.molecule_store import select_molecules
from molattn.errors import InputError, UsageError, short_repr
from molattn.models.applicability_domain import ApplicabilityDomain
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.calibration import Calibration, Scores, cumulative_probabilities, resolve_calibration_method
from molattn.models.predict import compute_embeddings
from molattn.models.predictions import Predictions
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.tasks import Regression, Task
from molattn.models.uncertainty import resolve_uncertainty_method
from molattn.training.dataset import LabelledMolecules
from molattn.training.run_config import RunConfig

MIN_STD = 1e-12
MAX_SCORES = 10_000
"""The maximum number of calibration molecules of a target whose scores are stored: more do not improve intervals."""


def build_artifact(
    config: RunConfig,
    models: Sequence[MoleculeModel],
    task: Task,
    scaler: TargetScaler,
    targets: Sequence[str],
    train: LabelledMolecules,
    keys: Sequence[str],
    *,
    units: tuple[str, ...],
    read_options: ReadOptions,
    descriptors: DescriptorScaler | None,
) -> Artifact:
    """The artifact of trained models, with its applicability domain and without a calibration.

    Args:
        config: the settings.
        models: a model, or the members of an ensemble.
        task, scaler, targets, units: of the models.
        train: the training molecules.
        keys: their canonical SMILES.
        read_options: how molecules are read.
        descriptors: the scaler of the extra descriptors; None if the models read none.
    """
    settings = config.training
    return Artifact(
        model=models[0],
        scaler=scaler,
        targets=tuple(targets),
        units=units,
        read_options=read_options,
        task=task,
        descriptors=descriptors,
        other_models=tuple(models[1:]),
        uncertainty=resolve_uncertainty_method(
            settings.uncertainty_method, task, settings.ensemble_size, config.model.dropout
        ),
        samples=settings.dropout_sampling_size,
        domain=fit_domain(models[0], train.molecules, keys, settings.domain_size, settings.seed, train.descriptors),
        class_priors=task.class_priors(train.targets),
    )


def calibrate(
    predictions: Predictions,
    true: np.ndarray,
    task: Task,
    uncertainty: str,
    method: str,
    targets: tuple[str, ...],
    others: Predictions,
) -> Calibration:
    """Fit the calibration of a model to molecules that were held out from its training.

    For each target the molecules with a label are used; if there are more than 10,000, a random sample of that size.

    Args:
        predictions: the predictions for the n calibration molecules.
        true: (n, T) their targets, NaN where missing.
        task: of the targets.
        uncertainty: the method of the standard deviations in `predictions`.
        method: one of `molattn.models.calibration.CALIBRATION_METHODS`, or empty.
        targets: T names.
        others: the predictions for the validation molecules, for the median of their standard deviations.

    Raises:
        UsageError: a method that does not apply to the task, or atom-level targets.
        InputError: a target without a label.
    """
    check_calibration(task, method)
    scores = []
    for t, name in enumerate(targets):
        known = np.flatnonzero(np.isfinite(true[:, t]))
        if len(known) < 2:
            raise InputError(
                f"{len(known)} calibration molecules have a label of {short_repr(name)}: give more rows or a larger "
                "--calibration-size"
            )
        if len(known) > MAX_SCORES:
            known = np.sort(np.random.default_rng(0).choice(known, MAX_SCORES, replace=False))
        part = predictions[known]
        if isinstance(task, Regression):
            scores.append(_regression_scores(part, true[known, t], task, t, others))
        else:
            scores.append(_class_scores(task.probabilities(part, t), true[known, t].astype(int)))
    return Calibration(resolve_calibration_method(method, task), uncertainty, tuple(scores))


def check_calibration(task: Task, method: str) -> None:
    """Raise UsageError if a task cannot be calibrated, or not with this method."""
    if task.atom_level:
        raise UsageError(
            "calibration requires molecules that are independent of each other, and the atoms of a molecule are not: "
            "leave --calibration-size out"
        )
    resolve_calibration_method(method, task)


def _regression_scores(
    predictions: Predictions, y: np.ndarray, task: Regression, t: int, others: Predictions
) -> Scores:
    error = y - predictions.values[:, t]
    std, beta = np.ones(len(y)), 0.0
    if predictions.std is not None and others.std is not None:
        # The standard deviation of identical predictions is zero.
        std, beta = np.maximum(predictions.std[:, t], MIN_STD), float(np.median(others.std[:, t]))
    normalized = np.sort(np.abs(error) / (std + beta))
    scores = {"z": np.sort(error / std), "normalized_residuals": normalized, "beta": np.array([beta])}
    if task.loss_function.has_quantiles:
        lower, upper = (q[:, t] for q in np.split(predictions.distribution, 2, 1))
        scores["quantile_residuals"] = np.sort(np.maximum(lower - y, y - upper))
    return scores


def _class_scores(p: np.ndarray, y: np.ndarray) -> Scores:
    rows = np.arange(len(y))
    cumulative = np.sort(cumulative_probabilities(p)[rows, y])
    scores = {"one_minus_p": np.sort(1 - p[rows, y]), "cumulative_p": cumulative}
    from sklearn.isotonic import IsotonicRegression  # here, because its import takes 1.5 s and regression needs none

    for c in range(p.shape[1]):
        rising = IsotonicRegression().fit(p[:, c], y == c)
        scores[f"x{c}"], scores[f"y{c}"] = (np.asarray(v, float) for v in (rising.X_thresholds_, rising.y_thresholds_))
    return scores


def fit_domain(
    model: MoleculeModel,
    molecules: Sequence[Molecule],
    keys: Sequence[str],
    size: int,
    seed: int,
    descriptors: np.ndarray | None = None,
) -> ApplicabilityDomain | None:
    """The applicability domain of a model; None for a model of atoms, or with fewer than two molecules.

    Repeated molecules are used once. If there are more than `size`, a random sample of that size is used, so that the
    stored data is bounded: 512 bytes for each molecule at the default width.

    Args:
        model: after training.
        molecules: n training molecules.
        keys: n canonical SMILES.
        size: the maximum number of molecules, at least 2; 0 for no domain.
        seed: of the sample.
        descriptors: (n, k), standardized; None if the model reads none.
    """
    rows = np.sort(np.unique(np.array(keys, dtype=object), return_index=True)[1])
    if model.atom_level or size < 2 or len(rows) < 2:
        return None
    if len(rows) > size:
        rows = np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))
    sample: Any = select_molecules(molecules, rows)
    descriptors = None if descriptors is None else descriptors[rows]
    bits = morgan_bits([molecule.smiles for molecule in sample], max_atoms=NO_SIZE_LIMIT)
    return ApplicabilityDomain.fit(compute_embeddings(model, sample, descriptors=descriptors), bits)
