"""Numbers that RDKit computes from a molecule alone: what a model can learn before anybody has measured anything."""

from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase

from molattn.chem.parse import MAX_ATOMS, read_smiles

# The information content of a graph grows without bounds, up to 1e100; AvgIpc says the same on a scale.
_LEFT_OUT = ("Ipc",)

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
"""A dozen of them that say much about how a molecule dissolves, binds and passes membranes, quick to compute."""


def __getattr__(name: str) -> tuple[str, ...]:
    """DESCRIPTORS, the names of all of them: RDKit's list of descriptors and of counted fragments (`fr_...`)."""
    if name == "DESCRIPTORS":
        return tuple(_functions())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _functions() -> dict[str, Callable[[Chem.Mol], float]]:
    from rdkit.Chem import Descriptors  # here, because it brings most of RDKit

    return {name: function for name, function in Descriptors.descList if name not in _LEFT_OUT}


def descriptors(
    smiles: object, names: tuple[str, ...] | None = None, max_atoms: int = MAX_ATOMS
) -> npt.NDArray[np.float64]:
    """The descriptors `names` of one molecule, (k,); NaN where RDKit has no finite number, as of metals.

    >>> descriptors("CCO", ("NumHDonors", "TPSA")).round(2).tolist()
    [1.0, 20.23]

    Args:
        smiles, max_atoms: as for `read_smiles`.
        names: among `DESCRIPTORS`; None for all.

    Errors: SmilesError, for whatever is not a molecule within the limits.
    """
    mol = read_smiles(smiles, max_atoms=max_atoms)
    with rdBase.BlockLogs():
        numbers = np.array([_number(name, mol) for name in names or _functions()], dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _number(name: str, mol: Chem.Mol) -> float:
    try:
        return float(_functions()[name](mol))
    except (ArithmeticError, RuntimeError, ValueError):
        return np.nan
