"""Records of an SDF: a structure as a MOL block, and properties as text below it."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rdkit import Chem, rdBase

from molattn.chem.parse import MAX_ATOMS, canonical_smiles
from molattn.errors import InputError, SmilesError

MAX_RECORD = 2**24
"""Characters in a record: a file without `$$$$` must not fill the memory."""

_TAG = re.compile(r">.*?<(.*)>")


@dataclass(frozen=True)
class SdfRecord:
    """One record."""

    smiles: str | SmilesError
    """The canonical SMILES of the structure, or why there is none."""
    name: str
    """The first line."""
    properties: dict[str, str]
    """By name; the lines of a value are joined by LF."""


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
        size += len(text)
        if size > MAX_RECORD:
            raise InputError(f"record {number} of the SDF has over {MAX_RECORD:,} characters: is a line $$$$ missing?")
    if any(line.strip() for line in record):
        yield record


def property_names(lines: Iterable[str]) -> tuple[str, ...]:
    """The names of all properties in a file, in the order of their first appearance."""
    names: dict[str, None] = {}
    for record in records(lines):
        for name in _properties(record):
            names[name] = None
    return tuple(names)


def read_record(record: list[str]) -> SdfRecord:
    """What a record holds; a structure that cannot be read is an error in its place."""
    name = record[0].strip() if record else ""
    end = next((i for i, line in enumerate(record) if line.startswith("M  END")), None)
    if end is None:
        smiles: str | SmilesError = SmilesError(name, "the record has no structure: a line 'M  END' is missing")
    else:
        smiles = _smiles(name, "\n".join(record[: end + 1]) + "\n")
    return SdfRecord(smiles, name, _properties(record))


def _smiles(name: str, block: str) -> str | SmilesError:
    if block.count("\n") > 3 * MAX_ATOMS + 1000:
        return SmilesError(name, f"the structure has too many lines for {MAX_ATOMS:,} atoms, the limit")
    try:
        with rdBase.BlockLogs():
            mol = Chem.MolFromMolBlock(block)
        if mol is None:
            return SmilesError(name, "RDKit cannot make a molecule of the structure")
        return canonical_smiles(mol)
    except InputError as error:
        return SmilesError(name, str(error))
    except (RuntimeError, ValueError):
        return SmilesError(name, "RDKit fails on the structure")


def _properties(record: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    values: list[str] | None = None
    name = ""
    for line in record:
        tag = _TAG.match(line) if line.startswith(">") and values is None else None
        if tag:
            name, values = tag[1].strip(), []
        elif values is not None and line.strip():
            values.append(line)
        elif values is not None:
            found, values = {**found, name: "\n".join(values)}, None
    if values is not None:
        found[name] = "\n".join(values)
    return {name: value for name, value in found.items() if name}
