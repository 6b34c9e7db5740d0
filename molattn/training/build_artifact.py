"""The artifact of trained models: their uncertainty method and applicability domain."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from molattn.chem import ReadOptions, morgan_bits
from molattn.chem.parse import NO_ATOM_LIMIT
from molattn.data.store.molecule_store import select_molecules
from molattn.models.applicability_domain import ApplicabilityDomain
from molattn.models.artifact import Artifact
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.predict import compute_embeddings
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.task import Task
from molattn.models.uncertainty import resolve_uncertainty_method
from molattn.training.dataset import LabelledMolecules
from molattn.training.run_config import RunConfig


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
        uncertainty_method=resolve_uncertainty_method(
            settings.uncertainty_method, task, settings.ensemble_size, config.model.dropout
        ),
        dropout_passes=settings.dropout_sampling_size,
        domain=fit_domain(models[0], train.molecules, keys, settings.domain_size, settings.seed, train.descriptors),
        class_priors=task.class_priors(train.targets),
    )


def fit_domain(
    model: MoleculeModel,
    molecules: Sequence[Molecule],
    keys: Sequence[str],
    size: int,
    seed: int,
    descriptors: np.ndarray | None = None,
) -> ApplicabilityDomain | None:
    """The applicability domain of a model; None for an atom-level model, or with fewer than two molecules.

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
    bits = morgan_bits([molecule.smiles for molecule in sample], max_atoms=NO_ATOM_LIMIT)
    return ApplicabilityDomain.fit(compute_embeddings(model, sample, descriptors=descriptors), bits)
