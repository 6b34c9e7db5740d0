"""What stands beside the molecules of a run: columns of its table, and descriptors that RDKit computes."""

import math
import sys
from collections.abc import Sequence

import numpy as np

from molattn.chem import Progress, featurizer_descriptors
from molattn.data.tables.columns import listed
from molattn.errors import InputError, SmilesError, UsageError
from molattn.models.base import Molecule
from molattn.models.scaler import DescriptorScaler
from molattn.training.computed import compute
from molattn.training.config import DataConfig, RunConfig


def computed_names(data: DataConfig) -> tuple[str, ...]:
    """The descriptors that are computed of each molecule.

    Raises:
        UsageError: there is no such featurizer, or a column of the same name is asked for as well.
    """
    names = featurizer_descriptors(data.molecule_featurizers)
    if both := [name for name in names if name in data.descriptor_columns]:
        raise UsageError(
            f"{listed(both)} would stand beside the molecules twice, as a column and computed: leave one of them out"
        )
    return names


def check_featurizers(config: RunConfig, of_atoms: bool) -> None:
    """UsageError where somebody asks for descriptors of molecules beside targets of atoms."""
    if of_atoms and config.data.molecule_featurizers:
        raise UsageError("descriptors stand beside molecules, and the targets are of atoms: leave featurizers out")


def width(data: DataConfig) -> int:
    """How many numbers stand beside each molecule."""
    return len(data.descriptor_columns) + len(computed_names(data))


def with_computed(
    names: tuple[str, ...],
    given: np.ndarray | None,
    outcomes: Sequence[Molecule | SmilesError],
    num_workers: int = 0,
    progress: Progress | None = None,
) -> np.ndarray | None:
    """(n, k) what stands beside n molecules, in units: `given`, of the columns, and behind it what RDKit computes.

    Of the molecules as the model reads them, standard forms and all; NaN where RDKit has no finite number, or there is
    no molecule.

    Args:
        names: what is to be computed.
        given: (n, columns); None for none.
        outcomes: the molecules.
        num_workers, progress: as for `molattn.chem.featurize`.

    Returns: None where nothing stands beside them.
    """
    if not names:
        return given
    found = np.full((len(outcomes), len(names)), np.nan)
    rows = [i for i, outcome in enumerate(outcomes) if not isinstance(outcome, SmilesError)]
    written = [outcome.encoded_smiles for outcome in outcomes if not isinstance(outcome, SmilesError)]
    # Whoever read the molecules had a limit of atoms, and they are within it.
    found[rows] = compute(written, names, num_workers, progress, max_atoms=sys.maxsize)
    return found if given is None else np.hstack([given, found])


def scaler_of(data: DataConfig, train: np.ndarray) -> tuple[DescriptorScaler, list[str]]:
    """How the numbers beside the molecules are standardised, by those of training, and what a user should know of it.

    Args:
        data: what is asked for.
        train: (n, k) of the training molecules, in units.

    Raises:
        InputError: numbers whose mean or standard deviation is not finite.
    """
    scaler = DescriptorScaler.fit(data.descriptor_columns, train, computed_names(data))
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
    return scaler, [f"{listed(constant)} {have} one value in training: the model does not look at it"]
