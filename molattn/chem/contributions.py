"""The contributions of atoms to two descriptors that are sums over them: Crippen's log P and the polar surface area."""

from collections.abc import Callable

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from molattn.chem.generate import nci_molecules
from molattn.chem.parse import MAX_ATOMS, MAX_LENGTH, read_smiles
from molattn.errors import UsageError, unknown_choice


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
    """The atom contributions to the property `name`, a key of `CONTRIBUTIONS`, (n,), in the order of the SMILES.

    With `add_hs` hydrogens are atoms as well and follow the others, as in the graph.

    Raises:
        SmilesError: text that is not a molecule.
        UsageError: an unknown property.
    """
    if name not in CONTRIBUTIONS:
        raise UsageError(unknown_choice("atom contribution", name, CONTRIBUTIONS))
    return CONTRIBUTIONS[name](read_smiles(smiles, add_hs=add_hs, max_atoms=max_atoms))


def contributions_table(name: str) -> tuple[tuple[str, ...], list[list[str]]]:
    """The NCI molecules of RDKit, a property of each and its atom contributions: column names, and rows of text.

    The atom contributions are in one cell, in the order of the SMILES, separated by spaces. They have four decimals,
    like the tables of Crippen and Ertl.
    """
    rows = []
    for smiles in nci_molecules(MAX_LENGTH):
        terms = [round(float(term), 4) + 0.0 for term in atom_contributions(smiles, name)]
        rows.append([smiles, f"{sum(terms) + 0.0:.4f}", " ".join(f"{term:.4f}" for term in terms)])
    return ("smiles", name, f"atom_{name}"), rows
