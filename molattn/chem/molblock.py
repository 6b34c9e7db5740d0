"""Structures in mol blocks, as SDF files hold them."""

import re

from rdkit import Chem, rdBase

from molattn.chem.parse import MAX_ATOMS, canonical_smiles
from molattn.errors import SmilesError

_V3000_COUNTS = re.compile(r"^M  V30 COUNTS +(\d+)", re.MULTILINE)


def smiles_of_molblock(block: str, max_atoms: int = MAX_ATOMS) -> str:
    """The canonical SMILES of a structure, its stereochemistry taken from the wedges or the 3D coordinates.

    Hydrogens become implicit as in `read_smiles`.

    Args:
        block: V2000 or V3000, from the title to `M  END`.
        max_atoms: The most atoms it may have, those that become implicit included.

    Errors: SmilesError, named by the block's title, for whatever is not a molecule within the limits.
    """
    lines = block.split("\n")
    title = lines[0].strip()
    counts = lines[3] if len(lines) > 3 else ""
    found = _V3000_COUNTS.search(block) if "V3000" in counts else None
    atoms = found[1] if found is not None else counts[:3].strip()
    if not atoms.isdecimal():
        raise SmilesError(title, "its line of counts (line 4) does not say how many atoms it has")
    if int(atoms) > max_atoms:
        raise SmilesError(title, f"it has {int(atoms):,} atoms, over the limit of {max_atoms:,}")
    try:
        with rdBase.BlockLogs():
            mol = Chem.MolFromMolBlock(block, sanitize=True, removeHs=True, strictParsing=True)
    except (RuntimeError, ValueError) as error:
        raise SmilesError(title, "RDKit fails on it") from error
    if mol is None:
        raise SmilesError(title, "RDKit cannot make a molecule of its structure (a valence or an atom line is wrong)")
    if mol.GetNumAtoms() == 0:
        raise SmilesError(title, "it has no atoms")
    return canonical_smiles(mol, max_atoms=max_atoms)
