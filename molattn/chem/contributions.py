"""What every atom adds to a property that RDKit computes as a sum over atoms: ground truth for attributions."""

from collections.abc import Callable

import numpy as np
import rdkit
from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from molattn.chem.parse import MAX_ATOMS, MAX_LENGTH, read_smiles
from molattn.chem.spellings import nci_molecules


def crippen_log_p(mol: Chem.Mol) -> np.ndarray:
    """The terms of Crippen's log P, (n,): their sum is the molecule's.

    logP = sum_i a_i   over all atoms, hydrogens too; here a hydrogen that the graph has not counts for its neighbour.

    Reference: Wildman & Crippen (1999), J. Chem. Inf. Comput. Sci. 39, 868, doi:10.1021/ci990307l.
    """
    whole = Chem.AddHs(mol)
    terms = np.array([log_p for log_p, _ in rdMolDescriptors._CalcCrippenContribs(whole)], dtype=np.float64)
    n = mol.GetNumAtoms()
    folded = terms[:n].copy()
    for atom in list(whole.GetAtoms())[n:]:
        folded[atom.GetNeighbors()[0].GetIdx()] += terms[atom.GetIdx()]
    return folded


def polar_surface(mol: Chem.Mol) -> np.ndarray:
    """The terms of the topological polar surface area, (n,), in square angstrom: their sum is the molecule's.

    Reference: Ertl, Rohde & Selzer (2000), J. Med. Chem. 43, 3714, doi:10.1021/jm000942e; N and O alone.
    """
    return np.array(rdMolDescriptors._CalcTPSAContribs(mol), dtype=np.float64)


CONTRIBUTIONS: dict[str, Callable[[Chem.Mol], np.ndarray]] = {
    "log_p": crippen_log_p,
    "tpsa": polar_surface,
}
"""By the name of the property."""


def atom_contributions(smiles: str, what: str, max_atoms: int = MAX_ATOMS, add_hs: bool = False) -> np.ndarray:
    """The terms of a property, (n,), in the order of the SMILES' atoms: `what` is a key of `CONTRIBUTIONS`.

    With `add_hs` hydrogens are atoms too and follow the others, as in a graph with them.

    Errors: SmilesError for what is not a molecule; KeyError for an unknown property.
    """
    return CONTRIBUTIONS[what](read_smiles(smiles, add_hs=add_hs, max_atoms=max_atoms))


def contributions_table(what: str) -> tuple[tuple[str, ...], list[list[str]]]:
    """The molecules that come with RDKit, one property of each, and what its atoms add: columns and rows of text.

    The atoms' terms stand in one cell, in the order of the SMILES, with blanks between them. Four decimals, which is
    how Crippen's and Ertl's tables give theirs.
    """
    rows = []
    for smiles in nci_molecules(MAX_LENGTH):
        terms = [round(float(term), 4) + 0.0 for term in atom_contributions(smiles, what)]
        rows.append([smiles, f"{sum(terms) + 0.0:.4f}", " ".join(f"{term:.4f}" for term in terms)])
    return ("smiles", what, f"atom_{what}"), rows


def rdkit_version() -> str:
    """That of the RDKit in use."""
    return rdkit.__version__
