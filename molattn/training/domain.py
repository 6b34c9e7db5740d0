"""The training molecules that a model keeps, to tell what is unlike them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from molattn.chem import morgan_bits
from molattn.data.splits.groups import NO_SIZE_LIMIT
from molattn.data.store.molecule_store import select_molecules
from molattn.models.applicability_domain import ApplicabilityDomain
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.predict import embed_molecules


def domain_of(
    model: MoleculeModel,
    molecules: Sequence[Molecule],
    keys: Sequence[str],
    size: int,
    seed: int,
    descriptors: np.ndarray | None = None,
) -> ApplicabilityDomain | None:
    """The domain of a model from its n training molecules; None for a model of atoms, or fewer than two molecules.

    Each molecule counts once, whatever its rows. Of more than `size` that many are taken by chance, so that what is
    kept is bounded: 512 bytes each at the default width.

    Args:
        keys: n canonical SMILES.
        size: at least 2; 0 for no domain.
        descriptors: (n, k), standardised; None for a model without.
    """
    rows = np.sort(np.unique(np.array(keys, dtype=object), return_index=True)[1])
    if model.of_atoms or size < 2 or len(rows) < 2:
        return None
    if len(rows) > size:
        rows = np.sort(np.random.default_rng(seed).choice(rows, size, replace=False))
    some: Any = select_molecules(molecules, rows)
    beside = None if descriptors is None else descriptors[rows]
    bits = morgan_bits([molecule.smiles for molecule in some], max_atoms=NO_SIZE_LIMIT)
    return ApplicabilityDomain.fit(embed_molecules(model, some, descriptors=beside), bits)
