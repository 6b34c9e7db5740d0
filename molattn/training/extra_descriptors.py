"""Extra descriptors of the molecules of a run: columns of its table, and descriptors that RDKit computes."""

import math
import sys
from collections.abc import Sequence

import numpy as np

from molattn.chem import Progress, featurizer_descriptors
from molattn.data.tables.columns import format_names
from molattn.errors import InputError, SmilesError, UsageError
from molattn.models.base import Molecule
from molattn.models.scaler import DescriptorScaler
from molattn.training.config import DataConfig, RunConfig
from molattn.training.descriptor_targets import compute_descriptors


def computed_descriptor_names(data: DataConfig) -> tuple[str, ...]:
    """The names of the descriptors that RDKit computes for each molecule.

    Raises:
        UsageError: there is no such featurizer, or a column of the same name is configured as well.
    """
    names = featurizer_descriptors(data.molecule_featurizers)
    if both := [name for name in names if name in data.descriptor_columns]:
        raise UsageError(
            f"{format_names(both)} would be a descriptor twice, as a column and computed: leave one of them out"
        )
    return names


def check_featurizers(config: RunConfig, of_atoms: bool) -> None:
    """Raise UsageError if descriptors of molecules are configured with targets of atoms."""
    if of_atoms and config.data.molecule_featurizers:
        raise UsageError("descriptors describe molecules, and the targets are of atoms: leave featurizers out")


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

    They are computed for the molecules as the model reads them, after standardisation.

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
    # The limit on atoms was applied when the molecules were read.
    found[rows] = compute_descriptors(encoded, names, num_workers, progress, max_atoms=sys.maxsize)
    return found if columns is None else np.hstack([columns, found])


def fit_descriptor_scaler(data: DataConfig, train: np.ndarray) -> tuple[DescriptorScaler, list[str]]:
    """Fit the scaler of the extra descriptors, and list warnings about constant ones.

    Args:
        data: the settings.
        train: (n, k) extra descriptors of the training molecules, in their units.

    Raises:
        InputError: a descriptor whose mean or standard deviation is not finite.
    """
    scaler = DescriptorScaler.fit(data.descriptor_columns, train, computed_descriptor_names(data))
    for name, mean, std in zip(scaler.names, scaler.mean, scaler.std, strict=True):
        if not (math.isfinite(mean) and math.isfinite(std)):
            raise InputError(
                f"the numbers of column {name!r} are too large to be standardised: give it in another unit, or leave "
                "it out of --descriptor-columns"
            )
    constant = [name for name in scaler.constant if name in scaler.provided]
    if not constant:
        return scaler, []
    have = "has" if len(constant) == 1 else "have"
    return scaler, [f"{format_names(constant)} {have} one value in training: the model does not use it"]
