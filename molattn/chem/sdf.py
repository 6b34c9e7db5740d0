"""Records of an SDF: a structure as a mol block, followed by properties as text."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rdkit import Chem, rdBase
from rdkit.Chem import rdDepictor

from molattn.chem.brackets import MAX_CHARGE, MAX_ISOTOPE
from molattn.chem.features import output_order
from molattn.chem.parse import MAX_ATOMS, canonical_smiles, convert_rdkit_errors, read_smiles
from molattn.errors import InputError, SmilesError

_V3000_COUNTS = re.compile(r"^M  V30 COUNTS +(\d+)", re.MULTILINE)
# Numbers that overflow in RDKit: those of V3000, and the charge lines of V2000, in columns of four characters.
_V3000_NUMBERS = re.compile(r"\b(CHG|MASS)=([+-]?\d+)", re.IGNORECASE)
_V2000_CHARGES = re.compile(r"^M  CHG...(.*)", re.MULTILINE)
_INDEX = "_molblock_index"


@dataclass(frozen=True)
class MolblockAtomMap:
    """A map from the atoms of a SMILES to those of the mol block that it was read from; indices from 0."""

    size: int
    """Number of atoms in the mol block, explicit hydrogens included."""
    order: npt.NDArray[np.int32]
    """(n,) the index in the mol block of each atom of the SMILES."""
    hydrogens: npt.NDArray[np.int32]
    """(m,) the index in the mol block of each hydrogen that `add_hs` appends; -1 if it is implicit there."""


def smiles_from_molblock(block: str, max_atoms: int = MAX_ATOMS) -> str:
    """The canonical SMILES of a mol block, with stereochemistry from wedges or 3D coordinates.

    Hydrogens become implicit as in `read_smiles`.

    Args:
        block: V2000 or V3000, from the title to `M  END`.
        max_atoms: largest number of atoms, including hydrogens that become implicit.

    Raises:
        SmilesError: a block that is not a molecule within the limits; the error has the title of the block in place
            of a SMILES.
        InputError: RDKit fails to write the molecule as SMILES.

    >>> from rdkit import Chem
    >>> from molattn.chem import smiles_from_molblock
    >>> block = Chem.MolToMolBlock(Chem.MolFromSmiles("OCC"))
    >>> smiles_from_molblock(block)
    'CCO'
    """
    _check_numbers(block, max_atoms)
    return canonical_smiles(_parse_molblock(block, remove_hs=True), max_atoms=max_atoms)


def read_molblock(block: str, max_atoms: int = MAX_ATOMS) -> tuple[str, MolblockAtomMap]:
    """The SMILES as from `smiles_from_molblock`, and the map to the atoms of the mol block; takes twice the time."""
    _check_numbers(block, max_atoms)
    full = _parse_molblock(block, remove_hs=False)
    for atom in full.GetAtoms():
        atom.SetIntProp(_INDEX, atom.GetIdx())
    with convert_rdkit_errors(_block_title(block), "make its hydrogens implicit"):
        mol = Chem.RemoveHs(full, updateExplicitCount=True)  # like the parser
    smiles = canonical_smiles(mol, max_atoms=max_atoms)
    block_index = [atom.GetIntProp(_INDEX) for atom in mol.GetAtoms()]
    written = output_order(mol)
    removed = set(range(full.GetNumAtoms())).difference(block_index)
    hydrogens: list[int] = []
    for i in written:
        neighbors = full.GetAtomWithIdx(block_index[i]).GetNeighbors()
        own = sorted(a.GetIdx() for a in neighbors if a.GetIdx() in removed)
        hydrogens += own + [-1] * (mol.GetAtomWithIdx(i).GetTotalNumHs() - len(own))
    order = np.array([block_index[i] for i in written], dtype=np.int32)
    return smiles, MolblockAtomMap(full.GetNumAtoms(), order, np.array(hydrogens, dtype=np.int32))


def _check_numbers(block: str, max_atoms: int) -> None:
    """Validate the number of atoms, and their charges and isotopes, before parsing."""
    title = _block_title(block)
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


def _parse_molblock(block: str, remove_hs: bool) -> Chem.Mol:
    title = _block_title(block)
    with convert_rdkit_errors(title, "read it"), rdBase.BlockLogs():
        mol = Chem.MolFromMolBlock(block, sanitize=True, removeHs=remove_hs, strictParsing=True)
    if mol is None:
        raise SmilesError(title, "RDKit cannot make a molecule of its structure (a valence or an atom line is wrong)")
    if mol.GetNumAtoms() == 0:
        raise SmilesError(title, "it has no atoms")
    return mol


def _block_title(block: str) -> str:
    return block.partition("\n")[0].strip()


MAX_RECORD = 2**24
"""Largest number of characters of a record, so that a file without `$$$$` does not fill the memory."""

MAX_PROPERTIES = 10_000
"""Largest number of property names in a file: each becomes a column, so names must not differ from record to record."""


@dataclass(frozen=True)
class SdfRecord:
    """One record."""

    smiles: str | SmilesError
    """The canonical SMILES of the structure, or the error."""
    name: str
    """The title: the first line."""
    properties: dict[str, str]
    """Values by name; the lines of a value are joined by LF."""
    atom_map: MolblockAtomMap | None = None
    """The map to the atoms of the record; None if not requested or the structure is invalid."""


def split_records(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines of each record, without line ends and `$$$$`; blank lines after the last record are ignored.

    Raises InputError for a record over `MAX_RECORD`.
    """
    record: list[str] = []
    size, number = 0, 1
    for line in lines:
        text = line.rstrip("\r\n")
        if text.startswith("$$$$"):
            yield record
            record, size, number = [], 0, number + 1
            continue
        record.append(text)
        size += len(text) + 8  # 8, since an empty line takes memory, too
        if size > MAX_RECORD:
            raise InputError(f"record {number} of the SDF has over {MAX_RECORD:,} characters: is a line $$$$ missing?")
    if any(line.strip() for line in record):
        yield record


@dataclass(frozen=True)
class SdfSummary:
    """The number of records of a file, whether they have titles, and the names of their properties."""

    records: int
    """Number of records."""
    has_titles: bool
    """Whether any record has a title."""
    properties: tuple[str, ...]
    """The names of all properties, in the order of their first occurrence."""


def scan_sdf(lines: Iterable[str]) -> SdfSummary:
    """Count the records of a file and collect its property names, without parsing structures.

    Raises InputError for a record over `MAX_RECORD`, and for more than `MAX_PROPERTIES` names of properties.
    """
    number, has_titles, size = 0, False, 0
    names: dict[str, None] = {}
    for record in split_records(lines):
        number += 1
        has_titles = has_titles or bool(_title(record))
        for name in _properties(record):
            if name not in names:
                names[name] = None
                size += len(name)
        if len(names) > MAX_PROPERTIES or size > MAX_RECORD:
            raise InputError(
                f"up to record {number} the SDF has properties of {len(names):,} different names; over "
                f"{MAX_PROPERTIES:,} of them, or names this long, cannot be columns of a table: remove some"
            )
    return SdfSummary(number, has_titles, tuple(names))


def read_record(
    record: list[str], with_atoms: bool = False, *, structure: bool = True, max_atoms: int = MAX_ATOMS
) -> SdfRecord:
    """Parse a record; if its structure cannot be read, `smiles` is the error.

    Args:
        record: its lines, as from `split_records`.
        with_atoms: whether to map the atoms of the SMILES to those of the record, which doubles the time.
        structure: whether to parse the structure; `smiles` is empty otherwise.
        max_atoms: as for `smiles_from_molblock`.
    """
    if not structure:
        return SdfRecord("", _title(record), _properties(record))
    end = _num_structure_lines(record)
    atom_map = None
    try:
        if not end:
            raise SmilesError(_title(record), "the record has no structure: a line 'M  END' is missing")
        block = "\n".join(record[:end])
        if with_atoms:
            smiles, atom_map = read_molblock(block, max_atoms)
        else:
            smiles = smiles_from_molblock(block, max_atoms)
    except SmilesError as error:
        smiles = error
    except InputError as error:
        smiles = SmilesError(_title(record), str(error))
    return SdfRecord(smiles, _title(record), _properties(record), atom_map)


def record_molblock(record: list[str]) -> str:
    """The lines of the structure of a record, from its title to `M  END`; empty without `M  END`."""
    return "".join(f"{line}\n" for line in record[: _num_structure_lines(record)])


def _title(record: list[str]) -> str:
    return record[0].strip() if record else ""


def _num_structure_lines(record: list[str]) -> int:
    """Number of lines of the structure; 0 without `M  END`."""
    return next((i for i, line in enumerate(record, start=1) if line.startswith("M  END")), 0)


def _properties(record: list[str]) -> dict[str, str]:
    """The data fields after a structure: a line `> <NAME>`, lines of text, an empty line."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in record[_num_structure_lines(record) :]:
        name = _property_name(line) if current is None else ""
        if name:
            current = found[name] = []
        elif not line.strip():
            current = None
        elif current is not None:
            current.append(line)
    return {name: "\n".join(text) for name, text in found.items()}


def _property_name(line: str) -> str:
    """NAME of a line `> <NAME>`, which may hold more text; empty for any other line."""
    start, end = line.find("<", 1), line.rfind(">")
    return line[start + 1 : end].strip() if line.startswith(">") and 0 < start < end else ""


EMPTY_MOLBLOCK = "     molattn\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n"
"""A mol block without atoms, from its second line on."""


def molblock_from_smiles(smiles: object, title: str = "", max_atoms: int = MAX_ATOMS) -> str:
    """The mol block of a SMILES, its atoms in the order of the text, with 2D coordinates.

    It is V2000, or V3000 for over 999 atoms.

    Raises SmilesError as `read_smiles` does, and for a molecule that RDKit cannot write.
    """
    mol = read_smiles(smiles, max_atoms=max_atoms)
    with convert_rdkit_errors(smiles, "write its structure"), rdBase.BlockLogs():
        rdDepictor.Compute2DCoords(mol)
        block = Chem.MolToMolBlock(mol)
    return f"{title}\n{block.partition(chr(10))[2]}"
