"""Molecular descriptors, computed by RDKit from the structure alone: extra inputs of models and pretraining targets."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase

from molattn.chem.brackets import RDKIT_ERRORS
from molattn.chem.parse import MAX_ATOMS, read_smiles
from molattn.errors import UsageError

# Ipc grows without bounds, up to 1e100; AvgIpc is its normalised form.
_EXCLUDED = ("Ipc",)

FEW_DESCRIPTORS: tuple[str, ...] = (
    "MolLogP",
    "MolMR",
    "TPSA",
    "LabuteASA",
    "NumHDonors",
    "NumHAcceptors",
    "NumRotatableBonds",
    "RingCount",
    "NumAromaticRings",
    "FractionCSP3",
    "HeavyAtomCount",
    "NumHeteroatoms",
)
"""Twelve descriptors, quick to compute, that are informative about solubility, binding and permeability."""

MOLECULE_FEATURIZERS: tuple[str, ...] = ("rdkit_few", "rdkit_2d")
"""Sets of descriptors that can be extra inputs of a model: `FEW_DESCRIPTORS`, or all `DESCRIPTORS`."""


def featurizer_descriptors(featurizers: Sequence[str]) -> tuple[str, ...]:
    """The descriptors of some `MOLECULE_FEATURIZERS`, each once, in order.

    >>> len(featurizer_descriptors(["rdkit_few"]))
    12

    Raises UsageError for an unknown featurizer.
    """
    if unknown := [name for name in featurizers if name not in MOLECULE_FEATURIZERS]:
        raise UsageError(
            f"there is no molecule featurizer {unknown[0]!r}: choose among {', '.join(MOLECULE_FEATURIZERS)}"
        )
    names = [name for f in featurizers for name in (FEW_DESCRIPTORS if f == "rdkit_few" else _functions())]
    return tuple(dict.fromkeys(names))


def unknown_descriptors(names: Sequence[str]) -> list[str]:
    """The names that are not in `DESCRIPTORS`."""
    return [name for name in names if name not in _functions()]


def __getattr__(name: str) -> tuple[str, ...]:
    """DESCRIPTORS: the names of RDKit's descriptors and fragment counts (`fr_...`)."""
    if name == "DESCRIPTORS":
        return tuple(_functions())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _functions() -> dict[str, Callable[[Chem.Mol], float]]:
    from rdkit.Chem import Descriptors  # here, because it imports most of RDKit

    return {name: function for name, function in Descriptors.descList if name not in _EXCLUDED}


def descriptors(
    smiles: object, names: tuple[str, ...] | None = None, max_atoms: int = MAX_ATOMS
) -> npt.NDArray[np.float64]:
    """The descriptors `names` of one molecule, (k,); NaN where RDKit returns no finite number, as for some metals.

    >>> descriptors("CCO", ("NumHDonors", "TPSA")).round(2).tolist()
    [1.0, 20.23]

    Args:
        smiles, max_atoms: as for `read_smiles`.
        names: elements of `DESCRIPTORS`; None for all.

    Raises SmilesError for text that is not a molecule within the limits.
    """
    mol = read_smiles(smiles, max_atoms=max_atoms)
    with rdBase.BlockLogs():
        numbers = np.array([_number(name, mol) for name in names or _functions()], dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _number(name: str, mol: Chem.Mol) -> float:
    try:
        return float(_functions()[name](mol))
    except RDKIT_ERRORS:
        return np.nan
