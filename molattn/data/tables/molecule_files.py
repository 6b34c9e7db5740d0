"""SMI and SDF files as tables with a row for each molecule."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from molattn.data.tables.columns import validate_column_names
from molattn.data.tables.csv_text import csv_stream
from molattn.data.tables.options import Warn, ignore_warning
from molattn.data.tables.row_stream import RowStream, SourceRow, chunk_rows
from molattn.errors import InputError, SmilesError


def smi_stream(lines: Iterable[str], source: str, warn: Warn = ignore_warning) -> RowStream:
    """The rows of an SMI: each line is a SMILES and, after a space or a tab, a name: the columns `smiles` and `name`.

    A first line that begins with the word SMILES is a header, which is skipped; if a tab follows the word, the file is
    read as TSV. `warn` is called with messages about its header.

    Raises InputError for an empty file.
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
        return csv_stream(lines, source, "\t", warn=warn)
    return RowStream(source, ("smiles", "name"), chunk_rows(_smi_rows(lines), source, "line"), smiles_column="smiles")


def _smi_rows(lines: Iterable[str]) -> Iterator[SourceRow]:
    first = True
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        words = re.split(r"[ \t]+", line.strip(" \t\r\n"), maxsplit=1)
        # The word is not a valid SMILES: `m` and `e` are not atoms.
        if not (first and words[0].casefold() == "smiles"):
            yield SourceRow(number, [words[0], words[1] if len(words) > 1 else ""])
        first = False


def sdf_stream(
    lines: Callable[[], Iterable[str]],
    source: str,
    *,
    atom_maps: bool = False,
    molblocks: bool = False,
    structures: bool = True,
    max_atoms: int = 0,
) -> RowStream:
    """The rows of an SDF: for each record the SMILES of its structure, its title and all properties of the file.

    The columns are `smiles`, `name` if a record has a title, and the properties; if a property has one of these names,
    the column is `structure_smiles` or `structure_name`. A record that RDKit cannot read has an empty SMILES and its
    error in `Chunk.errors`. The lines of a value are joined by LF.

    Args:
        lines: returns the lines of the file from its start; they are read twice, first for the names of properties.
        source: the name of the file, for errors.
        atom_maps: whether the chunks have `Chunk.atom_maps`.
        molblocks: whether the chunks have `Chunk.molblocks`.
        structures: whether structures are parsed; SMILES are empty otherwise.
        max_atoms: the largest number of atoms in a record, if it is above `molattn.chem.MAX_ATOMS`.

    Raises InputError for a file without records.
    """
    from molattn.chem import sdf  # imported here, because it imports RDKit

    found = sdf.scan_sdf(lines())
    if not found.records:
        raise InputError(f"{source}: the file has no records")
    smiles, name = _unused_name("smiles", found.properties), _unused_name("name", found.properties)
    columns = validate_column_names(source, [smiles, *([name] if found.has_titles else []), *found.properties])

    def rows() -> Iterator[SourceRow]:
        limit = max(max_atoms, sdf.MAX_ATOMS)
        for number, record in enumerate(sdf.split_records(lines()), start=1):
            parsed = sdf.read_record(record, atom_maps, structure=structures, max_atoms=limit)
            text, error = ("", parsed.smiles) if isinstance(parsed.smiles, SmilesError) else (parsed.smiles, None)
            title = [parsed.name] if found.has_titles else []
            cells = [text, *title, *(parsed.properties.get(n, "") for n in found.properties)]
            molblock = sdf.record_molblock(record) if molblocks else None
            yield SourceRow(number, cells, error=error, atom_map=parsed.atom_map, molblock=molblock)

    return RowStream(source, columns, chunk_rows(rows(), source, "record"), "record", smiles)


def _unused_name(name: str, taken: Sequence[str]) -> str:
    folded = {other.strip().casefold() for other in taken}
    while name in folded:
        name = f"structure_{name}"
    return name
