"""Molecular descriptors, computed by RDKit from the structure alone, and the contributions of atoms to two of them."""

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import rdkit
from rdkit import Chem, rdBase
from rdkit.Chem import rdMolDescriptors

from molattn.chem.brackets import RDKIT_ERRORS
from molattn.chem.generate import nci_molecules
from molattn.chem.parse import MAX_ATOMS, MAX_LENGTH, read_smiles
from molattn.errors import UsageError, unknown_choice

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

MOLECULE_FEATURIZERS: tuple[str, ...] = ("rdkit_few", "rdkit_2d")
"""Sets of descriptors that can be extra inputs of a model: `FEW_DESCRIPTORS`, or all `DESCRIPTORS`."""


def featurizer_descriptors(featurizers: Sequence[str]) -> tuple[str, ...]:
    """The names of the descriptors of some `MOLECULE_FEATURIZERS`, without duplicates, in order.

    Args:
        featurizers: names of `MOLECULE_FEATURIZERS`.

    Raises:
        UsageError: there is no such featurizer.

    >>> from molattn.chem import featurizer_descriptors
    >>> featurizer_descriptors(["rdkit_few"])[:3]
    ('MolLogP', 'MolMR', 'TPSA')
    """
    if unknown := [name for name in featurizers if name not in MOLECULE_FEATURIZERS]:
        raise UsageError(unknown_choice("molecule featurizer", unknown[0], MOLECULE_FEATURIZERS))
    names = [name for f in featurizers for name in (FEW_DESCRIPTORS if f == "rdkit_few" else _functions())]
    return tuple(dict.fromkeys(names))


def unknown_descriptors(names: Sequence[str]) -> list[str]:
    """The names that are not in `DESCRIPTORS`.

    Args:
        names: any names.

    >>> from molattn.chem import unknown_descriptors
    >>> unknown_descriptors(["TPSA", "LogP"])
    ['LogP']
    """
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

    Args:
        smiles, max_atoms: as for `read_smiles`.
        names: elements of `DESCRIPTORS`; None for all.

    Raises:
        SmilesError: text that is not a molecule within the limits.
        UsageError: a name that is not in `DESCRIPTORS`.

    >>> from molattn.chem import descriptors
    >>> descriptors("CCO", ("NumHDonors", "TPSA")).round(2).tolist()
    [1.0, 20.23]
    """
    return descriptor_values(read_smiles(smiles, max_atoms=max_atoms), names)


def descriptor_values(mol: Chem.Mol, names: Sequence[str] | None = None) -> npt.NDArray[np.float64]:
    """`descriptors` of a molecule that has been read."""
    # Looked up before RDKit is called: a KeyError within the call would count as an error of RDKit.
    functions = _functions()
    names = tuple(functions) if names is None else names
    if unknown := [name for name in names if name not in functions]:
        raise UsageError(unknown_choice("descriptor", unknown[0], functions))
    with rdBase.BlockLogs():
        numbers = np.array([_number(functions[name], mol) for name in names], dtype=np.float64)
    return np.where(np.isfinite(numbers), numbers, np.nan)


def _number(function: Callable[[Chem.Mol], float], mol: Chem.Mol) -> float:
    try:
        return float(function(mol))
    except RDKIT_ERRORS:
        return np.nan


def crippen_log_p(mol: Chem.Mol) -> np.ndarray:
    """The atom contributions to Crippen's log P, (n,), which sum to the log P of the molecule.

    logP = sum_i a_i   over all atoms and hydrogens; the term of an implicit hydrogen is added to that of its neighbour.

    Reference: Wildman & Crippen (1999), J. Chem. Inf. Comput. Sci. 39, 868, doi:10.1021/ci990307l.
    """
    full = Chem.AddHs(mol)
    terms = np.array([log_p for log_p, _ in rdMolDescriptors._CalcCrippenContribs(full)], dtype=np.float64)
    n = mol.GetNumAtoms()
    heavy = terms[:n].copy()
    for atom in list(full.GetAtoms())[n:]:
        heavy[atom.GetNeighbors()[0].GetIdx()] += terms[atom.GetIdx()]
    return heavy


def polar_surface(mol: Chem.Mol) -> np.ndarray:
    """The atom contributions to the topological polar surface area, (n,), in square angstrom.

    Reference: Ertl, Rohde & Selzer (2000), J. Med. Chem. 43, 3714, doi:10.1021/jm000942e; N and O only.
    """
    return np.array(rdMolDescriptors._CalcTPSAContribs(mol), dtype=np.float64)


CONTRIBUTIONS: dict[str, Callable[[Chem.Mol], np.ndarray]] = {
    "log_p": crippen_log_p,
    "tpsa": polar_surface,
}
"""From the name of a property to the function that computes its atom contributions."""


def atom_contributions(smiles: str, name: str, max_atoms: int = MAX_ATOMS, add_hs: bool = False) -> np.ndarray:
    """The atom contributions to a property, (n,) float64, in the order of the SMILES; they sum to the property.

    Args:
        smiles: SMILES, as `read_smiles` takes it.
        name: a key of `CONTRIBUTIONS`: "log_p", without a unit, or "tpsa", in square angstrom.
        max_atoms: largest number of atoms.
        add_hs: whether hydrogens are atoms as well; they then follow the others, as in the graph. Otherwise "log_p"
            adds the term of a hydrogen to that of its neighbor.

    Raises:
        SmilesError: text that is not a molecule within the limits.
        UsageError: there is no such property.

    Sources: Wildman and Crippen, J. Chem. Inf. Comput. Sci. 1999, 39, 868 (https://doi.org/10.1021/ci990307l); Ertl,
    Rohde and Selzer, J. Med. Chem. 2000, 43, 3714 (https://doi.org/10.1021/jm000942e), N and O only.

    >>> from molattn.chem import atom_contributions, descriptors
    >>> atom_contributions("CCO", "tpsa").round(2).tolist()
    [0.0, 0.0, 20.23]
    >>> log_p = atom_contributions("CCO", "log_p")
    >>> abs(float(log_p.sum() - descriptors("CCO", ("MolLogP",))[0])) < 1e-9
    True
    """
    if name not in CONTRIBUTIONS:
        raise UsageError(unknown_choice("atom contribution", name, CONTRIBUTIONS))
    return CONTRIBUTIONS[name](read_smiles(smiles, add_hs=add_hs, max_atoms=max_atoms))


def contributions_table(name: str) -> tuple[tuple[str, ...], list[list[str]]]:
    """The NCI molecules of RDKit, a property of each and its atom contributions: column names, and rows of text.

    The atom contributions are in one cell, in the order of the SMILES, separated by spaces. They have four decimals,
    like the tables of Crippen and Ertl. The property is the sum of the rounded contributions.

    Args:
        name: a key of `CONTRIBUTIONS`.

    Raises:
        UsageError: there is no such property.
        FileNotFoundError: RDKit was installed without its data.

    >>> from molattn.chem import contributions_table
    >>> columns, rows = contributions_table("tpsa")
    >>> columns
    ('smiles', 'tpsa', 'atom_tpsa')
    >>> next(row for row in rows if row[0] == "CCN")
    ['CCN', '26.0200', '0.0000 0.0000 26.0200']
    """
    rows = []
    for smiles in nci_molecules(MAX_LENGTH):
        terms = [round(float(term), 4) + 0.0 for term in atom_contributions(smiles, name)]
        rows.append([smiles, f"{sum(terms) + 0.0:.4f}", " ".join(f"{term:.4f}" for term in terms)])
    return ("smiles", name, f"atom_{name}"), rows


def rdkit_version() -> str:
    """The version of the installed RDKit.

    >>> from molattn.chem import rdkit_version
    >>> rdkit_version() >= "2025.09"
    True
    """
    return rdkit.__version__
