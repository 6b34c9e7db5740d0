"""Atom contributions to two descriptors that are sums over atoms: Crippen's log P and the polar surface area."""

from collections.abc import Callable

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from molattn.chem.generate import nci_molecules
from molattn.chem.parse import MAX_ATOMS, MAX_LENGTH, read_smiles
from molattn.errors import UsageError, unknown_choice


def crippen_log_p(mol: Chem.Mol) -> np.ndarray:
    """The atom contributions to Crippen's log P, (n,), which sum to the log P of the molecule.

    logP = sum_i a_i    over all atoms, hydrogens included; the term of an implicit hydrogen is added to its neighbor's

    Source: Wildman and Crippen, J. Chem. Inf. Comput. Sci. 1999, 39, 868 (https://doi.org/10.1021/ci990307l).
    """
    with_hs = Chem.AddHs(mol)
    terms = np.array([log_p for log_p, _ in rdMolDescriptors._CalcCrippenContribs(with_hs)], dtype=np.float64)
    n = mol.GetNumAtoms()
    contributions = terms[:n].copy()
    for hydrogen in list(with_hs.GetAtoms())[n:]:
        contributions[hydrogen.GetNeighbors()[0].GetIdx()] += terms[hydrogen.GetIdx()]
    return contributions


def polar_surface(mol: Chem.Mol) -> np.ndarray:
    """The atom contributions to the topological polar surface area, (n,), in square angstrom.

    Source: Ertl, Rohde and Selzer, J. Med. Chem. 2000, 43, 3714 (https://doi.org/10.1021/jm000942e); N and O only.
    """
    return np.array(rdMolDescriptors._CalcTPSAContribs(mol), dtype=np.float64)


CONTRIBUTIONS: dict[str, Callable[[Chem.Mol], np.ndarray]] = {
    "log_p": crippen_log_p,
    "tpsa": polar_surface,
}
"""The functions that compute the atom contributions to a property, by the name of the property."""


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
    _check_name(name)
    return CONTRIBUTIONS[name](read_smiles(smiles, add_hs=add_hs, max_atoms=max_atoms))


def _check_name(name: str) -> None:
    if name not in CONTRIBUTIONS:
        raise UsageError(unknown_choice("atom contribution", name, CONTRIBUTIONS))


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
    _check_name(name)
    rows = []
    for smiles in nci_molecules(MAX_LENGTH):
        terms = [round(float(term), 4) + 0.0 for term in atom_contributions(smiles, name)]
        rows.append([smiles, f"{sum(terms) + 0.0:.4f}", " ".join(f"{term:.4f}" for term in terms)])
    return ("smiles", name, f"atom_{name}"), rows
