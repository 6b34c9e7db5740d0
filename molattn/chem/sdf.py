"""Records of an SDF: a structure as a mol block, followed by properties as text."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from molattn.chem.molblock import MolblockAtomMap, read_molblock, smiles_from_molblock
from molattn.errors import InputError, SmilesError

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
    atoms: MolblockAtomMap | None = None
    """From the atoms of the SMILES to those of the record; None if not requested or the structure is invalid."""


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
        size += len(text) + 8  # an empty line takes memory, too
        if size > MAX_RECORD:
            raise InputError(f"record {number} of the SDF has over {MAX_RECORD:,} characters: is a line $$$$ missing?")
    if any(line.strip() for line in record):
        yield record


@dataclass(frozen=True)
class SdfSummary:
    """The number of records of a file, and its properties."""

    records: int
    """Number of records."""
    titles: bool
    """Whether any record has a title."""
    properties: tuple[str, ...]
    """The names of all properties, in the order of their first occurrence."""


def scan_sdf(lines: Iterable[str]) -> SdfSummary:
    """Count the records of a file and collect its property names, without parsing structures.

    Raises InputError for a record over `MAX_RECORD`, and for more than `MAX_PROPERTIES` names of properties.
    """
    number, titles, size = 0, False, 0
    names: dict[str, None] = {}
    for record in split_records(lines):
        number += 1
        titles = titles or bool(_title(record))
        for name in _properties(record):
            if name not in names:
                names[name] = None
                size += len(name)
        if len(names) > MAX_PROPERTIES or size > MAX_RECORD:
            raise InputError(
                f"up to record {number} the SDF has properties of {len(names):,} different names; over "
                f"{MAX_PROPERTIES:,} of them, or names this long, cannot be columns of a table: remove some"
            )
    return SdfSummary(number, titles, tuple(names))


def read_record(record: list[str], with_atoms: bool = False) -> SdfRecord:
    """Parse a record; for a structure that cannot be read `smiles` is its error.

    `with_atoms` also maps the atoms of the SMILES to those of the record, which doubles the time.
    """
    end = _end(record)
    atoms = None
    try:
        if not end:
            raise SmilesError(_title(record), "the record has no structure: a line 'M  END' is missing")
        block = "\n".join(record[:end])
        smiles, atoms = read_molblock(block) if with_atoms else (smiles_from_molblock(block), None)
    except SmilesError as error:
        smiles = error
    except InputError as error:
        smiles = SmilesError(_title(record), str(error))
    return SdfRecord(smiles, _title(record), _properties(record), atoms)


def _title(record: list[str]) -> str:
    return record[0].strip() if record else ""


def _end(record: list[str]) -> int:
    """Number of lines of the structure; 0 without `M  END`."""
    return next((i for i, line in enumerate(record, start=1) if line.startswith("M  END")), 0)


def _properties(record: list[str]) -> dict[str, str]:
    """The data fields after a structure: a line `> <NAME>`, lines of text, an empty line."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in record[_end(record) :]:
        name = _name_in(line) if current is None else ""
        if name:
            current = found[name] = []
        elif not line.strip():
            current = None
        elif current is not None:
            current.append(line)
    return {name: "\n".join(text) for name, text in found.items()}


def _name_in(line: str) -> str:
    """NAME of a line `> <NAME>`, which may hold more text; empty for any other line."""
    start, end = line.find("<", 1), line.rfind(">")
    return line[start + 1 : end].strip() if line.startswith(">") and 0 < start < end else ""
