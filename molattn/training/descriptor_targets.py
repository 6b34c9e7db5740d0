"""RDKit's descriptors of molecules as targets: computed, filtered and standardised."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from molattn.chem import MAX_ATOMS, Progress, descriptors
from molattn.chem.molecule import map_rows
from molattn.errors import SmilesError
from molattn.models.scaler import TargetScaler

CLIP = 5.0
"""Targets are clipped at this many standard deviations from the mean: a few molecules have extreme values."""

MAX_MISSING = 0.1
"""The largest fraction of training molecules for which RDKit may have no finite value of a target."""


@dataclass(frozen=True)
class DescriptorTargets:
    """The A standardised descriptors of n molecules.

    Attributes:
        names: of the A descriptors.
        scaler: fitted to the training molecules; its inverse gives RDKit's values.
        z: (n, A) standardised, from -CLIP to CLIP, NaN where RDKit has no finite value.
        dropped: the descriptors that were left out, and why.
    """

    names: tuple[str, ...]
    scaler: TargetScaler
    z: np.ndarray
    dropped: dict[str, str]


def compute_descriptors(
    smiles: Sequence[str],
    names: tuple[str, ...],
    num_workers: int = 0,
    progress: Progress | None = None,
    max_atoms: int = MAX_ATOMS,
) -> np.ndarray:
    """The descriptors `names` of n molecules, (n, A), as RDKit computes them; NaN where it has no finite value.

    Raises:
        SmilesError: a SMILES cannot be read; raised for the first of them.
    """
    rows: list[np.ndarray] = []
    for row in map_rows(smiles, partial(descriptors, names=names, max_atoms=max_atoms), num_workers, progress=progress):
        if isinstance(row, SmilesError):
            raise row
        rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(names))


def standardize_targets(
    names: Sequence[str], values: np.ndarray, train: np.ndarray, min_differing: int = 1
) -> DescriptorTargets:
    """Standardise and clip descriptors: z = clip((y - mean) / std), with the mean and std of the training molecules.

    Targets are dropped if they are missing for more than `MAX_MISSING` of the training molecules, or constant, that
    is, if fewer than `min_differing` of the training molecules differ from the median.

    Args:
        names: of the A targets.
        values: (n, A), as `compute_descriptors` returns them.
        train: indices of the training molecules.
        min_differing: the number of training molecules that must differ from the median.
    """
    used: list[int] = []
    dropped: dict[str, str] = {}
    for t, name in enumerate(names):
        known = values[train, t][np.isfinite(values[train, t])]
        if len(known) < (1 - MAX_MISSING) * len(train):
            dropped[name] = "not finite"
        elif int((known != np.median(known)).sum()) < min_differing:
            dropped[name] = "constant"
        else:
            used.append(t)
    scaler = TargetScaler.fit(values[train][:, used])
    z = np.clip(scaler.scale(values[:, used]), -CLIP, CLIP)
    return DescriptorTargets(tuple(names[t] for t in used), scaler, z, dropped)
