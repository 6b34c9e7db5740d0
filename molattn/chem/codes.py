"""The codes of a molecule by RDKit's getters, atom by atom and bond by bond."""

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
    """The codes of a molecule of n atoms; for the fields see `MoleculeGraph`."""

    atom_codes: npt.NDArray[np.uint8]
    bond_codes: npt.NDArray[np.uint8]
    path_lengths: npt.NDArray[np.uint8]
    symbols: tuple[str, ...] | None
    """None if they follow from the atom codes."""
    warnings: tuple[str, ...]


def codes_by_getters(mol: Chem.Mol) -> Codes:
    """The codes of any sanitised molecule."""
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
