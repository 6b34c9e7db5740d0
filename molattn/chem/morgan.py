"""Counted Morgan fingerprints of a molecule that has been read: features of trees, and descriptors of networks."""

from functools import cache, lru_cache
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

MORGAN_RADIUS, MORGAN_COLUMNS = 2, 1024

MORGAN_COUNT = "morgan_count"
"""The name of the fingerprint, as features and as descriptors."""

MORGAN_COUNTS: tuple[str, ...] = tuple(f"{MORGAN_COUNT}_{column}" for column in range(MORGAN_COLUMNS))
"""The names of the columns of the fingerprint as descriptors, log(1 + count) each."""

_COLUMNS = {name: column for column, name in enumerate(MORGAN_COUNTS)}


@cache
def morgan_generator() -> Any:
    """RDKit's generator of Morgan fingerprints of radius 2 with 1,024 columns."""
    return rdFingerprintGenerator.GetMorganGenerator(radius=MORGAN_RADIUS, fpSize=MORGAN_COLUMNS)


def morgan_count(mol: Chem.Mol) -> np.ndarray:
    """How often each substructure of radius 0 to 2 occurs, folded to 1,024 columns, (1024,)."""
    return morgan_generator().GetCountFingerprintAsNumPy(mol)


def log_counts(mol: Chem.Mol) -> np.ndarray:
    """The descriptors `MORGAN_COUNTS`, log(1 + count), (1024,)."""
    return np.log1p(morgan_count(mol))


@lru_cache(maxsize=16)
def morgan_columns(names: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, tuple[tuple[int, str], ...]]:
    """Which of the `names` are in `MORGAN_COUNTS`.

    Returns:
        The indices of those that are, the columns of the fingerprint that they name, and the others with their indices.
    """
    indices = [i for i, name in enumerate(names) if name in _COLUMNS]
    others = tuple((i, name) for i, name in enumerate(names) if name not in _COLUMNS)
    return np.array(indices, dtype=np.intp), np.array([_COLUMNS[names[i]] for i in indices], dtype=np.intp), others
