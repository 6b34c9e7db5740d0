"""Descriptors of molecules: extra inputs, from columns of a table or from RDKit, and auxiliary targets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from molattn.chem import MAX_ATOMS, Progress, descriptors, featurizer_descriptors
from molattn.chem.molecule import map_rows
from molattn.chem.parse import NO_ATOM_LIMIT
from molattn.data.tables.columns import format_names
from molattn.errors import InputError, SmilesError, UsageError, molecule_level_only
from molattn.models.base import Molecule
from molattn.models.scaler import ROUNDING, DescriptorScaler, TargetScaler
from molattn.training.config import DataConfig
from molattn.training.run_config import RunConfig

CLIP = 5.0
"""Targets are clipped at this many standard deviations from the mean: a few molecules have extreme values."""

MAX_MISSING = 0.1
"""The largest fraction of training molecules for which RDKit may have no finite value of a target."""


@dataclass(frozen=True)
class DescriptorTargets:
    """The A standardized descriptors of n molecules.

    Attributes:
        names: of the A descriptors.
        scaler: fitted to the training molecules; its inverse gives RDKit's values.
        z: (n, A) standardized, from -CLIP to CLIP, NaN where RDKit has no finite value.
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
    """Standardize and clip descriptors: z = clip((y - mean) / std), with the mean and std of the training molecules.

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
        finite = values[train, t][np.isfinite(values[train, t])]
        if len(finite) < (1 - MAX_MISSING) * len(train):
            dropped[name] = "not finite"
        elif int((finite != np.median(finite)).sum()) < min_differing:
            dropped[name] = "constant"
        else:
            used.append(t)
    scaler = TargetScaler.fit(values[train][:, used], ROUNDING)
    z = np.clip(scaler.scale(values[:, used]), -CLIP, CLIP)
    return DescriptorTargets(tuple(names[t] for t in used), scaler, z, dropped)


def computed_descriptor_names(data: DataConfig) -> tuple[str, ...]:
    """The names of the descriptors that RDKit computes for each molecule.

    Raises:
        UsageError: there is no such featurizer, or a column of the same name is configured as well.
    """
    names = featurizer_descriptors(data.molecule_featurizers)
    if repeated := [name for name in names if name in data.descriptor_columns]:
        raise UsageError(
            f"{format_names(repeated)} would be a descriptor twice, as a column and computed: leave one of them out"
        )
    return names


def check_featurizers(config: RunConfig, atom_level: bool) -> None:
    """Raise UsageError if descriptors of molecules are configured with atom-level targets."""
    if atom_level and config.data.molecule_featurizers:
        raise UsageError(molecule_level_only("--molecule-featurizers"))


def num_extra_descriptors(data: DataConfig) -> int:
    """The number of extra descriptors of each molecule, k."""
    return len(data.descriptor_columns) + len(computed_descriptor_names(data))


def append_computed_descriptors(
    names: tuple[str, ...],
    columns: np.ndarray | None,
    outcomes: Sequence[Molecule | SmilesError],
    num_workers: int = 0,
    progress: Progress | None = None,
) -> np.ndarray | None:
    """The extra descriptors of n molecules in their units: `columns`, then those that RDKit computes.

    They are computed for the molecules as the model reads them, after standardization.

    Args:
        names: of the descriptors to compute.
        columns: (n, columns) from the table; None for none.
        outcomes: the molecules, or the errors of reading them.
        num_workers, progress: as for `molattn.chem.featurize`.

    Returns:
        (n, k), NaN where RDKit has no finite number or there is no molecule; None without descriptors.
    """
    if not names:
        return columns
    found = np.full((len(outcomes), len(names)), np.nan)
    rows = [i for i, outcome in enumerate(outcomes) if not isinstance(outcome, SmilesError)]
    encoded = [outcome.encoded_smiles for outcome in outcomes if not isinstance(outcome, SmilesError)]
    found[rows] = compute_descriptors(encoded, names, num_workers, progress, max_atoms=NO_ATOM_LIMIT)
    return found if columns is None else np.hstack([columns, found])


def standardize_descriptors(
    data: DataConfig,
    values: np.ndarray,
    train: np.ndarray,
    rows: np.ndarray,
    location: Callable[[int], str],
    scaler: DescriptorScaler | None = None,
) -> tuple[DescriptorScaler, np.ndarray, list[str]]:
    """Standardize the extra descriptors; returns their scaler, z of shape (n, k), and warnings about constant ones.

    Args:
        data: the settings.
        values: (n, k) in their units.
        train: indices of the training molecules, to which the scaler is fitted.
        rows: indices of the molecules that are used.
        location: returns the location of a molecule, for errors.
        scaler: one that was fitted before; None to fit it.

    Raises:
        InputError: a value of a molecule in `rows` that is too far from those of the training molecules.
    """
    scaler = scaler or DescriptorScaler.fit(data.descriptor_columns, values[train], computed_descriptor_names(data))
    z = scaler.scale(values)
    if out_of_range := [int(i) for i in rows if not np.isfinite(z[i]).all()]:
        i = out_of_range[0]
        raise InputError(f"{location(i)}: {scaler.range_error(values[i].tolist())}; correct it, or leave out the row")
    constant = [name for name in scaler.constant if name in scaler.provided]
    if not constant:
        return scaler, z, []
    have = "has" if len(constant) == 1 else "have"
    return scaler, z, [f"{format_names(constant)} {have} one value in training: the model does not use it"]
