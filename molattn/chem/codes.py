"""The codes of a molecule from RDKit's getters, atom by atom and bond by bond; and the path lengths between atoms."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rdkit import Chem

from molattn.chem.atoms import atom_codes
from molattn.chem.bonds import bond_codes
from molattn.chem.features import get_atoms
from molattn.chem.stereo import stereo_labels

MAX_PATH = 254
"""Longer path lengths are clipped to this."""

DISCONNECTED = 255
"""The code of a pair of atoms in different fragments."""

# RDKit's algorithm takes cubic time: it is faster for small molecules, but takes 1.4 s for 1,000 atoms, scipy's 0.04 s.
_MAX_RDKIT_ATOMS = 200


def path_lengths(mol: Chem.Mol) -> npt.NDArray[np.uint8]:
    """Lengths of the shortest paths between all pairs of atoms, in bonds.

    Args:
        mol: a molecule of n atoms.

    Returns:
        (n, n) uint8, symmetric: 0 on the diagonal, `MAX_PATH` for paths of that length and longer,
        `DISCONNECTED` between fragments.

    >>> from molattn.chem import path_lengths, read_smiles
    >>> path_lengths(read_smiles("CCO.[Na+]")).tolist()
    [[0, 1, 2, 255], [1, 0, 1, 255], [2, 1, 0, 255], [255, 255, 255, 0]]
    """
    lengths = _by_rdkit(mol) if mol.GetNumAtoms() <= _MAX_RDKIT_ATOMS else _by_scipy(mol)
    n = len(lengths)
    # Without a path RDKit returns 1e8 and scipy inf; no path in n atoms is longer than n - 1.
    return np.where(lengths >= n, DISCONNECTED, np.minimum(lengths, MAX_PATH)).astype(np.uint8)


def _by_rdkit(mol: Chem.Mol) -> npt.NDArray[np.float64]:
    return np.asarray(Chem.GetDistanceMatrix(mol), dtype=np.float64)


def _by_scipy(mol: Chem.Mol) -> npt.NDArray[np.float64]:
    # Imported here, because predictions start a tenth faster without it.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    n = mol.GetNumAtoms()
    # int32: scipy before 1.15 supports no other index dtype.
    ends = np.array([(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in mol.GetBonds()], np.int32).reshape(-1, 2)
    adjacency = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n, n))
    return np.asarray(shortest_path(adjacency, directed=False, unweighted=True))


class Codes(NamedTuple):
    """The codes of a molecule of n atoms; for the fields see `MoleculeGraph`."""

    atom_codes: npt.NDArray[np.uint8]
    bond_codes: npt.NDArray[np.uint8]
    path_lengths: npt.NDArray[np.uint8]
    symbols: tuple[str, ...] | None
    """None if they follow from the atom codes."""
    warnings: tuple[str, ...]


def reference_codes(mol: Chem.Mol) -> Codes:
    """The codes of any sanitized molecule, by RDKit's getters: the reference for `binary.c`."""
    stereo = stereo_labels(mol)
    atoms, atom_warnings = atom_codes(mol, stereo)
    bonds, bond_warnings = bond_codes(mol, stereo)
    return Codes(
        atom_codes=atoms,
        bond_codes=bonds,
        path_lengths=path_lengths(mol),
        symbols=tuple(atom.GetSymbol() for atom in get_atoms(mol)),
        warnings=atom_warnings + bond_warnings + stereo.warnings,
    )
