"""Morgan count fingerprints with 1,024 columns: features of boosted trees, and descriptors that a network can read."""

from functools import cache, lru_cache
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

MORGAN_RADIUS, MORGAN_COLUMNS = 2, 1024

MORGAN_FEATURIZER = "morgan_count"
"""The name of the fingerprint in `FEATURE_LENGTHS` and in `MOLECULE_FEATURIZERS`."""

MORGAN_DESCRIPTORS: tuple[str, ...] = tuple(f"{MORGAN_FEATURIZER}_{column}" for column in range(MORGAN_COLUMNS))
"""The names of the columns of the fingerprint as descriptors; the value of each is log(1 + count)."""

_COLUMNS = {name: column for column, name in enumerate(MORGAN_DESCRIPTORS)}


@cache
def morgan_generator() -> Any:
    """RDKit's generator of Morgan fingerprints of radius 2 with 1,024 columns."""
    return rdFingerprintGenerator.GetMorganGenerator(radius=MORGAN_RADIUS, fpSize=MORGAN_COLUMNS)


def count_fingerprint(mol: Chem.Mol) -> np.ndarray:
    """How often each substructure of radius 0 to 2 occurs in a molecule, (1024,), folded to 1,024 columns."""
    return morgan_generator().GetCountFingerprintAsNumPy(mol)


def log_counts(mol: Chem.Mol) -> np.ndarray:
    """The descriptors `MORGAN_DESCRIPTORS`, log(1 + count), (1024,)."""
    return np.log1p(count_fingerprint(mol))


@lru_cache(maxsize=16)
def morgan_columns(names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, tuple[tuple[int, str], ...]]:
    """Split names of descriptors into those in `MORGAN_DESCRIPTORS` and the others.

    Returns:
        The indices in `names` of those in `MORGAN_DESCRIPTORS`, their columns of the fingerprint, and the others, each
        with its index.
    """
    indices = [i for i, name in enumerate(names) if name in _COLUMNS]
    others = tuple((i, name) for i, name in enumerate(names) if name not in _COLUMNS)
    return np.array(indices, dtype=np.intp), np.array([_COLUMNS[names[i]] for i in indices], dtype=np.intp), others
