"""Targets that nobody has to measure: descriptors of molecules, computed, chosen and standardised."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from molattn.chem import MAX_ATOMS, Progress, descriptors
from molattn.chem.molecule import map_rows
from molattn.errors import SmilesError
from molattn.models.scaler import TargetScaler

CLIP = 5.0
"""Standard deviations from the mean at which a target ends: a few molecules have numbers like no other."""

MOST_MISSING = 0.1
"""Share of the training molecules for which RDKit may have no finite number of a target."""


@dataclass(frozen=True)
class Computed:
    """A computed targets of n molecules.

    Attributes:
        names: A descriptors.
        scaler: from standardised to RDKit's own numbers, by the training molecules.
        z: (n, A) standardised, from -CLIP to CLIP, NaN where RDKit has no finite number.
        dropped: the descriptors that were left out, and why.
    """

    names: tuple[str, ...]
    scaler: TargetScaler
    z: np.ndarray
    dropped: dict[str, str]


def compute(
    smiles: Sequence[str],
    names: tuple[str, ...],
    num_workers: int = 0,
    progress: Progress | None = None,
    max_atoms: int = MAX_ATOMS,
) -> np.ndarray:
    """The descriptors `names` of n molecules, (n, A), as RDKit gives them; NaN where it has no finite number.

    Raises:
        SmilesError: the first of `smiles` that is no molecule.
    """
    rows: list[np.ndarray] = []
    for row in map_rows(smiles, partial(descriptors, names=names, max_atoms=max_atoms), num_workers, progress=progress):
        if isinstance(row, SmilesError):
            raise row
        rows.append(row)
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(names))


def standardised(names: Sequence[str], values: np.ndarray, train: np.ndarray, least: int = 1) -> Computed:
    """What a model can learn of `values`, (n, A): z = clip((y - mean) / std), by the molecules `train` alone.

    Left out are targets that are missing for more than `MOST_MISSING` of them, and those that are constant: that fewer
    than `least` of them have other than in the middle.

    Args:
        names: of the A targets.
        values: as `compute` gives them.
        train: indices of the training molecules.
        least: how many training molecules must differ.
    """
    kept: list[int] = []
    dropped: dict[str, str] = {}
    for t, name in enumerate(names):
        known = values[train, t][np.isfinite(values[train, t])]
        if len(known) < (1 - MOST_MISSING) * len(train):
            dropped[name] = "not finite"
        elif int((known != np.median(known)).sum()) < least:
            dropped[name] = "constant"
        else:
            kept.append(t)
    scaler = TargetScaler.fit(values[train][:, kept])
    z = np.clip(scaler.scale(values[:, kept]), -CLIP, CLIP)
    return Computed(tuple(names[t] for t in kept), scaler, z, dropped)
