"""Parsing of mol blocks, the structures of SDF files."""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase

from molattn.chem.brackets import MAX_CHARGE, MAX_ISOTOPE
from molattn.chem.parse import MAX_ATOMS, canonical_smiles, convert_rdkit_errors
from molattn.errors import SmilesError

_V3000_COUNTS = re.compile(r"^M  V30 COUNTS +(\d+)", re.MULTILINE)
# Numbers that wrap in RDKit: those of V3000, and the charge lines of V2000, in columns of four characters.
_V3000_NUMBERS = re.compile(r"\b(CHG|MASS)=([+-]?\d+)", re.IGNORECASE)
_V2000_CHARGES = re.compile(r"^M  CHG...(.*)", re.MULTILINE)
_INDEX = "_molblock_index"


@dataclass(frozen=True)
class MolblockAtomMap:
    """From the atoms of a SMILES to those of the mol block that it was read from; indices from 0."""

    size: int
    """Number of atoms in the block, explicit hydrogens included."""
    order: npt.NDArray[np.int32]
    """(n,) index in the block for each atom of the SMILES."""
    hydrogens: npt.NDArray[np.int32]
    """(m,) index in the block for each hydrogen that `add_hs` appends; -1 if it is implicit in the block."""


def smiles_from_molblock(block: str, max_atoms: int = MAX_ATOMS) -> str:
    """The canonical SMILES of a mol block, with stereochemistry from wedges or 3D coordinates.

    Hydrogens become implicit as in `read_smiles`.

    Args:
        block: V2000 or V3000, from the title to `M  END`.
        max_atoms: Largest number of atoms, including hydrogens that become implicit.

    Raises SmilesError, with the title of the block, for what is not a molecule within the limits.
    """
    _check_numbers(block, max_atoms)
    return canonical_smiles(_parsed(block, remove_hs=True), max_atoms=max_atoms)


def read_molblock(block: str, max_atoms: int = MAX_ATOMS) -> tuple[str, MolblockAtomMap]:
    """The result of `smiles_from_molblock`, and the indices in the block of its atoms; takes twice the time."""
    _check_numbers(block, max_atoms)
    full = _parsed(block, remove_hs=False)
    for atom in full.GetAtoms():
        atom.SetIntProp(_INDEX, atom.GetIdx())
    with convert_rdkit_errors(_title(block), "make its hydrogens implicit"):
        mol = Chem.RemoveHs(full, updateExplicitCount=True)  # like the parser
    smiles = canonical_smiles(mol, max_atoms=max_atoms)
    block_index = [atom.GetIntProp(_INDEX) for atom in mol.GetAtoms()]
    output_order = [int(i) for i in re.findall(r"\d+", mol.GetProp("_smilesAtomOutputOrder"))]
    removed = set(range(full.GetNumAtoms())).difference(block_index)
    hydrogens: list[int] = []
    for i in output_order:
        neighbors = full.GetAtomWithIdx(block_index[i]).GetNeighbors()
        own = sorted(a.GetIdx() for a in neighbors if a.GetIdx() in removed)
        hydrogens += own + [-1] * (mol.GetAtomWithIdx(i).GetTotalNumHs() - len(own))
    order = np.array([block_index[i] for i in output_order], dtype=np.int32)
    return smiles, MolblockAtomMap(full.GetNumAtoms(), order, np.array(hydrogens, dtype=np.int32))


def _check_numbers(block: str, max_atoms: int) -> None:
    """Validate the number of atoms, and their charges and isotopes, before parsing."""
    title = _title(block)
    lines = block.split("\n", 4)
    counts = lines[3] if len(lines) > 3 else ""
    found = _V3000_COUNTS.search(block) if "V3000" in counts else None
    atoms = found[1] if found is not None else counts[:3].strip()
    if not atoms.isdecimal():
        raise SmilesError(title, "its counts line (line 4) does not hold a number of atoms")
    if (count := _to_int(atoms)) > max_atoms:
        raise SmilesError(title, f"it has {count:,} atoms, over the limit of {max_atoms:,}")
    numbers = [("CHG", line[i + 4 : i + 8]) for line in _V2000_CHARGES.findall(block) for i in range(0, len(line), 8)]
    if "V3000" in counts:
        # A hyphen at the end of a line continues it on the next.
        numbers = _V3000_NUMBERS.findall(block.replace("-\nM  V30 ", ""))
    for name, number in numbers:
        limit = MAX_CHARGE if name.upper() == "CHG" else MAX_ISOTOPE
        if re.fullmatch(r" *[+-]?\d+ *", number) and abs(value := _to_int(number)) > limit:
            raise SmilesError(title, f"an atom has {name.upper()} {value:,}, over the limit of {limit:,}")


def _to_int(digits: str) -> int:
    """The number, or its first digits if it is too long for `int`."""
    return int(digits.strip()[:18])


def _parsed(block: str, remove_hs: bool) -> Chem.Mol:
    title = _title(block)
    with convert_rdkit_errors(title, "read it"), rdBase.BlockLogs():
        mol = Chem.MolFromMolBlock(block, sanitize=True, removeHs=remove_hs, strictParsing=True)
    if mol is None:
        raise SmilesError(title, "RDKit cannot make a molecule of its structure (a valence or an atom line is wrong)")
    if mol.GetNumAtoms() == 0:
        raise SmilesError(title, "it has no atoms")
    return mol


def _title(block: str) -> str:
    return block.partition("\n")[0].strip()
