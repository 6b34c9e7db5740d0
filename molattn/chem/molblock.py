"""Structures in mol blocks, as SDF files hold them."""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase

from molattn.chem.brackets import MAX_CHARGE, MAX_ISOTOPE
from molattn.chem.parse import MAX_ATOMS, canonical_smiles, convert_rdkit_errors
from molattn.errors import SmilesError

_V3000_COUNTS = re.compile(r"^M  V30 COUNTS +(\d+)", re.MULTILINE)
# The numbers of atoms that wrap in RDKit: of V3000, and the lines of V2000 that hold charges, in columns of four.
_V3000_NUMBERS = re.compile(r"\b(CHG|MASS)=([+-]?\d+)", re.IGNORECASE)
_V2000_CHARGES = re.compile(r"^M  CHG...(.*)", re.MULTILINE)
_PLACE = "_place_in_the_block"


@dataclass(frozen=True)
class BlockAtoms:
    """Which atoms of a mol block the atoms of its SMILES are, all counted from 0."""

    size: int
    """Atoms of the block, its explicit hydrogens included."""
    order: npt.NDArray[np.int32]
    """(n,) for each atom of the SMILES."""
    hydrogens: npt.NDArray[np.int32]
    """(m,) for each hydrogen that `add_hs` adds behind those; -1 for one that the block leaves implicit."""


def smiles_of_molblock(block: str, max_atoms: int = MAX_ATOMS) -> str:
    """The canonical SMILES of a structure, its stereochemistry taken from the wedges or the 3D coordinates.

    Hydrogens become implicit as in `read_smiles`.

    Args:
        block: V2000 or V3000, from the title to `M  END`.
        max_atoms: The most atoms it may have, those that become implicit included.

    Errors: SmilesError, named by the block's title, for whatever is not a molecule within the limits.
    """
    _check_numbers(block, max_atoms)
    return canonical_smiles(_parsed(block, remove_hs=True), max_atoms=max_atoms)


def read_molblock(block: str, max_atoms: int = MAX_ATOMS) -> tuple[str, BlockAtoms]:
    """What `smiles_of_molblock` says, and where the atoms of that SMILES stand in the block.

    It takes twice the time.
    """
    _check_numbers(block, max_atoms)
    whole = _parsed(block, remove_hs=False)
    for atom in whole.GetAtoms():
        atom.SetIntProp(_PLACE, atom.GetIdx())
    with convert_rdkit_errors(_title(block), "make its hydrogens implicit"):
        mol = Chem.RemoveHs(whole, updateExplicitCount=True)  # as the parser does it
    smiles = canonical_smiles(mol, max_atoms=max_atoms)
    kept = [atom.GetIntProp(_PLACE) for atom in mol.GetAtoms()]
    written = [int(i) for i in re.findall(r"\d+", mol.GetProp("_smilesAtomOutputOrder"))]
    gone = set(range(whole.GetNumAtoms())).difference(kept)
    hydrogens: list[int] = []
    for i in written:
        own = sorted(a.GetIdx() for a in whole.GetAtomWithIdx(kept[i]).GetNeighbors() if a.GetIdx() in gone)
        hydrogens += own + [-1] * (mol.GetAtomWithIdx(i).GetTotalNumHs() - len(own))
    order = np.array([kept[i] for i in written], dtype=np.int32)
    return smiles, BlockAtoms(whole.GetNumAtoms(), order, np.array(hydrogens, dtype=np.int32))


def _check_numbers(block: str, max_atoms: int) -> None:
    """Look at the number of atoms, and at their charges and isotopes, before anything is made of them."""
    title = _title(block)
    lines = block.split("\n", 4)
    counts = lines[3] if len(lines) > 3 else ""
    found = _V3000_COUNTS.search(block) if "V3000" in counts else None
    atoms = found[1] if found is not None else counts[:3].strip()
    if not atoms.isdecimal():
        raise SmilesError(title, "its line of counts (line 4) does not say how many atoms it has")
    if (count := _small(atoms)) > max_atoms:
        raise SmilesError(title, f"it has {count:,} atoms, over the limit of {max_atoms:,}")
    numbers = [("CHG", line[i + 4 : i + 8]) for line in _V2000_CHARGES.findall(block) for i in range(0, len(line), 8)]
    if "V3000" in counts:
        # A line that ends with a hyphen goes on in the next.
        numbers = _V3000_NUMBERS.findall(block.replace("-\nM  V30 ", ""))
    for name, number in numbers:
        limit = MAX_CHARGE if name.upper() == "CHG" else MAX_ISOTOPE
        if re.fullmatch(r" *[+-]?\d+ *", number) and abs(value := _small(number)) > limit:
            raise SmilesError(title, f"an atom has {name.upper()} {value:,}, over the limit of {limit:,}")


def _small(digits: str) -> int:
    """A number, or its first digits where they are very many, which Python does not read."""
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
