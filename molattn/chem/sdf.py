"""Records of an SDF: a structure as a MOL block, and properties as text below it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from molattn.chem.molblock import BlockAtoms, read_molblock, smiles_of_molblock
from molattn.errors import InputError, SmilesError

MAX_RECORD = 2**24
"""Characters in a record: a file without `$$$$` must not fill the memory."""

MAX_PROPERTIES = 10_000
"""Names of properties in a file: each is a column of every row, and a name for each record is no column."""


@dataclass(frozen=True)
class SdfRecord:
    """One record."""

    smiles: str | SmilesError
    """The canonical SMILES of the structure, or why there is none."""
    name: str
    """The first line."""
    properties: dict[str, str]
    """By name; the lines of a value are joined by LF."""
    atoms: BlockAtoms | None = None
    """Which atoms of the record those of the SMILES are, where that was asked for and there is one."""


def records(lines: Iterable[str]) -> Iterator[list[str]]:
    """The lines of every record, without their ends and without `$$$$`; blank lines behind the last are none.

    Errors: InputError for a record over `MAX_RECORD`.
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
        size += len(text) + 8  # a line takes up memory though it is empty
        if size > MAX_RECORD:
            raise InputError(f"record {number} of the SDF has over {MAX_RECORD:,} characters: is a line $$$$ missing?")
    if any(line.strip() for line in record):
        yield record


@dataclass(frozen=True)
class SdfContents:
    """What occurs in a file."""

    records: int
    """How many."""
    titles: bool
    """Whether a record has one."""
    properties: tuple[str, ...]
    """The names of all properties, in the order of their first appearance."""


def contents(lines: Iterable[str]) -> SdfContents:
    """What occurs in a file, without a look at the structures.

    Errors: InputError for a record over `MAX_RECORD`, and for more than `MAX_PROPERTIES` names of properties.
    """
    number, titles, size = 0, False, 0
    names: dict[str, None] = {}
    for record in records(lines):
        number += 1
        titles = titles or bool(_title(record))
        for name in _properties(record):
            if name not in names:
                names[name] = None
                size += len(name)
        if len(names) > MAX_PROPERTIES or size > MAX_RECORD:
            raise InputError(
                f"up to record {number} the SDF has {len(names):,} properties of different names, and over "
                f"{MAX_PROPERTIES:,}, or so long names, are no columns of a table: remove those that are not needed"
            )
    return SdfContents(number, titles, tuple(names))


def read_record(record: list[str], places: bool = False) -> SdfRecord:
    """What a record holds; a structure that cannot be read is an error in its place.

    `places` asks for the places of its atoms, which takes as long again.
    """
    end = _end(record)
    atoms = None
    try:
        if not end:
            raise SmilesError(_title(record), "the record has no structure: a line 'M  END' is missing")
        block = "\n".join(record[:end])
        smiles, atoms = read_molblock(block) if places else (smiles_of_molblock(block), None)
    except SmilesError as error:
        smiles = error
    except InputError as error:
        smiles = SmilesError(_title(record), str(error))
    return SdfRecord(smiles, _title(record), _properties(record), atoms)


def _title(record: list[str]) -> str:
    return record[0].strip() if record else ""


def _end(record: list[str]) -> int:
    """How many lines the structure has; 0 where it has no end."""
    return next((i for i, line in enumerate(record, start=1) if line.startswith("M  END")), 0)


def _properties(record: list[str]) -> dict[str, str]:
    """The data fields behind a structure: a line `> <NAME>`, lines of text, an empty line."""
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
    """NAME of a line `> <NAME>`, which may have more around it; empty for any other."""
    start, end = line.find("<", 1), line.rfind(">")
    return line[start + 1 : end].strip() if line.startswith(">") and 0 < start < end else ""
