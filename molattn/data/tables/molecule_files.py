"""SMI and SDF: files of molecules, a row for each."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from molattn.data.tables.columns import validate_column_names
from molattn.data.tables.csv_text import csv_stream
from molattn.data.tables.row_stream import CHUNK_SIZE, Chunk, MemoryLimit, RowStream
from molattn.errors import InputError, SmilesError


@dataclass(frozen=True)
class _Row:
    place: int
    cells: list[str]
    refused: SmilesError | None = None
    """Why the file holds no molecule there, if so."""
    atoms: Any = None
    """Which atoms of the record those of its SMILES are, for an SDF."""


def smi_stream(lines: Iterable[str], source: str) -> RowStream:
    """One molecule a line: a SMILES, and after a blank or a tab what it is called, as `smiles` and `name`.

    A first line that begins with the word SMILES is a header; tabs in it name further columns.

    Raises InputError for a file without a line.
    """
    lines = iter(lines)
    blank, first = 0, ""
    for first in lines:
        if first.strip():
            break
        blank += 1
    else:
        raise InputError(f"{source}: the file is empty")
    lines = itertools.chain(itertools.repeat("\n", blank), [first], lines)
    if re.match(r"smiles\s*\t", first.strip(), re.IGNORECASE):
        return csv_stream(lines, source, "\t")
    return RowStream(source, ("smiles", "name"), _chunks(_smi_rows(lines), source, "line"), smiles_column="smiles")


def _smi_rows(lines: Iterable[str]) -> Iterator[_Row]:
    first = True
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        words = re.split(r"[ \t]+", line.strip(" \t\r\n"), maxsplit=1)
        # `m` and `e` are no atoms: this can be no molecule.
        if not (first and words[0].casefold() == "smiles"):
            yield _Row(number, [words[0], words[1] if len(words) > 1 else ""])
        first = False


def sdf_stream(lines: Callable[[], Iterable[str]], source: str, places: bool = False) -> RowStream:
    """A row for each record: the SMILES of its structure, its title and all properties that occur in the file.

    The columns are `smiles`, `name` where a record has a title, and those of the properties; where a property is
    called so, `structure_smiles` and `structure_name`. A record that RDKit cannot read has an empty SMILES and its
    reason in `Chunk.refused`. The lines of a value are joined by LF.

    Args:
        lines: read the file from its start; it is read twice, for the names of the properties first.
        source: what errors begin with.
        places: whether `Chunk.atoms` tells where in its record each atom of a SMILES stands.

    Raises InputError for a file without a record.
    """
    from molattn.chem.sdf import read_record, scan_sdf, split_records  # here, because it brings RDKit

    found = scan_sdf(lines())
    if not found.records:
        raise InputError(f"{source}: the file has no records")
    smiles, name = _free("smiles", found.properties), _free("name", found.properties)
    columns = validate_column_names(source, [smiles, *([name] if found.titles else []), *found.properties])

    def rows() -> Iterator[_Row]:
        for number, record in enumerate(split_records(lines()), start=1):
            made = read_record(record, places)
            text, refused = ("", made.smiles) if isinstance(made.smiles, SmilesError) else (made.smiles, None)
            title = [made.name] if found.titles else []
            cells = [text, *title, *(made.properties.get(n, "") for n in found.properties)]
            yield _Row(number, cells, refused, made.atoms)

    return RowStream(source, columns, _chunks(rows(), source, "record"), "record", smiles)


def _free(name: str, taken: Sequence[str]) -> str:
    folded = {other.strip().casefold() for other in taken}
    while name in folded:
        name = f"structure_{name}"
    return name


def _chunks(rows: Iterator[_Row], source: str, place: str) -> Iterator[Chunk]:
    for start in itertools.count(0, CHUNK_SIZE):
        some: list[_Row] = []
        weight = MemoryLimit(source)
        for row in itertools.islice(rows, CHUNK_SIZE):
            weight.add(row.cells, f"{place} {row.place}")
            some.append(row)
        if not some:
            return
        refused = {i: row.refused for i, row in enumerate(some) if row.refused is not None}
        atoms = {i: row.atoms for i, row in enumerate(some) if row.atoms is not None}
        yield Chunk(start, [row.place for row in some], [row.cells for row in some], refused=refused, atoms=atoms)
