"""Fit the applicability domain of a trained model."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from molattn.chem import morgan_bits
from molattn.data.splits.groups import NO_SIZE_LIMIT
from molattn.data.store.molecule_store import select_molecules
from molattn.models.applicability_domain import ApplicabilityDomain
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.predict import embed_molecules


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
        descriptors: (n, k), standardised; None for a model without.
    """
    rows = np.sort(np.unique(np.array(keys, dtype=object), return_index=True)[1])
    if model.of_atoms or size < 2 or len(rows) < 2:
        return None
    if len(rows) > size:
        rows = np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))
    sample: Any = select_molecules(molecules, rows)
    of_sample = None if descriptors is None else descriptors[rows]
    bits = morgan_bits([molecule.smiles for molecule in sample], max_atoms=NO_SIZE_LIMIT)
    return ApplicabilityDomain.fit(embed_molecules(model, sample, descriptors=of_sample), bits)
