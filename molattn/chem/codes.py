"""A molecule as three matrices of small integers, by RDKit's getters: an atom and a bond at a time."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rdkit import Chem

from molattn.chem.atoms import atom_codes
from molattn.chem.bonds import bond_codes
from molattn.chem.parts import atoms_of
from molattn.chem.paths import path_lengths
from molattn.chem.stereo import stereo_labels


class Codes(NamedTuple):
    """The codes of n atoms; for the fields see `MoleculeGraph`."""

    atom_codes: npt.NDArray[np.uint8]
    bond_codes: npt.NDArray[np.uint8]
    path_lengths: npt.NDArray[np.uint8]
    symbols: tuple[str, ...] | None
    """None where they follow from the codes of the elements."""
    warnings: tuple[str, ...]


def codes_by_getters(mol: Chem.Mol) -> Codes:
    """The codes of a sanitised molecule, whatever is in it."""
    stereo = stereo_labels(mol)
    atoms, atom_warnings = atom_codes(mol, stereo)
    bonds, bond_warnings = bond_codes(mol, stereo)
    return Codes(
        atom_codes=atoms,
        bond_codes=bonds,
        path_lengths=path_lengths(mol),
        symbols=tuple(atom.GetSymbol() for atom in atoms_of(mol)),
        warnings=atom_warnings + bond_warnings + stereo.warnings,
    )
