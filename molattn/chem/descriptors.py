"""Molecular descriptors, computed by RDKit from the structure alone."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import rdkit
from rdkit import Chem, rdBase

from molattn.chem.brackets import RDKIT_ERRORS
from molattn.chem.morgan import MORGAN_DESCRIPTORS, MORGAN_FEATURIZER, log_counts, morgan_columns
from molattn.chem.parse import MAX_ATOMS, read_smiles
from molattn.errors import UsageError, as_list, unknown_choice

# Ipc grows without bounds, up to 1e100; AvgIpc is its normalized form.
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

FAST_DESCRIPTORS: tuple[str, ...] = (
    *FEW_DESCRIPTORS,
    *(f"PEOE_VSA{i}" for i in range(1, 15)),
    *(f"SMR_VSA{i}" for i in range(1, 11)),
    *(f"SlogP_VSA{i}" for i in range(1, 13)),
    *("MolWt", "HallKierAlpha", "Kappa1", "Kappa2", "Kappa3", "NHOHCount", "NOCount"),
    *("MaxPartialCharge", "MinPartialCharge", "MaxAbsPartialCharge", "MinAbsPartialCharge"),
    *("NumAliphaticCarbocycles", "NumAliphaticHeterocycles", "NumAliphaticRings"),
    *("NumAromaticCarbocycles", "NumAromaticHeterocycles"),
    *("NumSaturatedCarbocycles", "NumSaturatedHeterocycles", "NumSaturatedRings"),
)
"""`FEW_DESCRIPTORS`, and surface areas by charge, refractivity and log P, shape indices, partial charges and counts of
rings: together they take a tenth of the time of all descriptors."""

MOLECULE_FEATURIZERS: tuple[str, ...] = ("rdkit_few", "rdkit_2d", MORGAN_FEATURIZER)
"""Sets of descriptors that can be extra inputs of a model: `FEW_DESCRIPTORS`, all `DESCRIPTORS`, or the Morgan count
fingerprint, log(1 + count) of each of its 1,024 columns."""


def featurizer_descriptors(featurizers: Sequence[str]) -> tuple[str, ...]:
    """The names of the descriptors of some `MOLECULE_FEATURIZERS`, without duplicates, in order.

    Args:
        featurizers: names of `MOLECULE_FEATURIZERS`.

    Raises:
        UsageError: there is no such featurizer.
        TypeError: `featurizers` is a single string.

    >>> from molattn.chem import featurizer_descriptors
    >>> featurizer_descriptors(["rdkit_few"])[:3]
    ('MolLogP', 'MolMR', 'TPSA')
    """
    if unknown := [
        name for name in as_list(featurizers, "featurizers", "rdkit_2d") if name not in MOLECULE_FEATURIZERS
    ]:
        raise UsageError(unknown_choice("molecule featurizer", unknown[0], MOLECULE_FEATURIZERS))
    sets = {"rdkit_few": FEW_DESCRIPTORS, MORGAN_FEATURIZER: MORGAN_DESCRIPTORS}
    return tuple(dict.fromkeys(name for f in featurizers for name in sets.get(f) or _functions()))


def unknown_descriptors(names: Sequence[str]) -> list[str]:
    """The names that are neither in `DESCRIPTORS` nor columns of the Morgan fingerprint.

    Args:
        names: any names.

    Raises:
        TypeError: `names` is a single string.

    >>> from molattn.chem import unknown_descriptors
    >>> unknown_descriptors(["TPSA", "LogP"])
    ['LogP']
    """
    known = {*_functions(), *MORGAN_DESCRIPTORS}
    return [name for name in as_list(names, "descriptors", "TPSA") if name not in known]


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

    "morgan_count_0" to "morgan_count_1023" are descriptors too: log(1 + c), where c is the number of substructures of
    radius 0 to 2 in that column of the Morgan fingerprint.

    Args:
        smiles, max_atoms: as for `read_smiles`.
        names: elements of `DESCRIPTORS`, or columns of the fingerprint; None for all `DESCRIPTORS`.

    Raises:
        SmilesError: text that is not a molecule within the limits.
        UsageError: there is no such descriptor.
        TypeError: `names` is a single string.

    Source: Rogers and Hahn, J. Chem. Inf. Model. 2010, 50, 742 (https://doi.org/10.1021/ci100050t).

    >>> from molattn.chem import descriptors
    >>> descriptors("CCO", ("NumHDonors", "TPSA")).round(2).tolist()
    [1.0, 20.23]
    """
    return descriptor_values(read_smiles(smiles, max_atoms=max_atoms), names)


def descriptor_values(mol: Chem.Mol, names: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
    """`descriptors` of an RDKit molecule."""
    # Before the block that catches errors of RDKit, which include KeyError.
    functions = _functions()
    names = tuple(functions if names is None else as_list(names, "descriptors", "TPSA"))
    indices, columns, others = morgan_columns(names)
    if unknown := [name for _, name in others if name not in functions]:
        raise UsageError(unknown_choice("descriptor", unknown[0], functions))
    numbers = np.empty(len(names))
    with rdBase.BlockLogs():
        if len(columns):
            try:
                numbers[indices] = log_counts(mol)[columns]
            except RDKIT_ERRORS:
                numbers[indices] = np.nan
        for i, name in others:
            numbers[i] = _number(functions[name], mol)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _number(function: Callable[[Chem.Mol], float], mol: Chem.Mol) -> float:
    try:
        return float(function(mol))
    except RDKIT_ERRORS:
        return np.nan


def rdkit_version() -> str:
    """The version of the installed RDKit.

    >>> from molattn.chem import rdkit_version
    >>> rdkit_version() >= "2025.09"
    True
    """
    return rdkit.__version__
