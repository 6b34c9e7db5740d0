"""Numbers that RDKit computes from a molecule alone: what a model can learn before anybody has measured anything."""

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase
from rdkit.Chem import Descriptors

from molattn.chem.parse import MAX_ATOMS, read_smiles

# The information content of a graph grows without bounds, up to 1e100; AvgIpc says the same on a scale.
_LEFT_OUT = ("Ipc",)

_FUNCTIONS = {name: function for name, function in Descriptors.descList if name not in _LEFT_OUT}

DESCRIPTORS: tuple[str, ...] = tuple(_FUNCTIONS)
"""The names of all of them: RDKit's list of descriptors and of counted fragments (`fr_...`)."""

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
    "BertzCT",
)
"""A dozen of them that say much about how a molecule dissolves, binds and passes membranes."""


def descriptors(
    smiles: object, names: tuple[str, ...] = DESCRIPTORS, max_atoms: int = MAX_ATOMS
) -> npt.NDArray[np.float64]:
    """The descriptors `names` of one molecule, (k,); NaN where RDKit has no finite number, as of metals.

    >>> descriptors("CCO", ("NumHDonors", "TPSA")).round(2).tolist()
    [1.0, 20.23]

    Args:
        smiles, max_atoms: as for `read_smiles`.
        names: among `DESCRIPTORS`.

    Errors: SmilesError, for whatever is not a molecule within the limits.
    """
    mol = read_smiles(smiles, max_atoms=max_atoms)
    with rdBase.BlockLogs():
        numbers = np.array([_number(name, mol) for name in names], dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _number(name: str, mol: Chem.Mol) -> float:
    try:
        return float(_FUNCTIONS[name](mol))
    except (ArithmeticError, RuntimeError, ValueError):
        return np.nan
