"""Writing of tables as SDF: a record for each row, with the columns as properties."""

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from molattn.chem.sdf import EMPTY_MOLBLOCK, MAX_ATOMS, molblock_from_smiles
from molattn.data.tables.atom_lists import (
    format_list,
    format_rdkit_list,
    is_rdkit_list_name,
    rdkit_list_name,
    to_record_order,
)
from molattn.data.tables.columns import find_column
from molattn.data.tables.row_stream import Chunk, RowStream
from molattn.data.tables.writers import Column, NewColumn, TableWriter, format_cell
from molattn.errors import SmilesError

_TITLE_COLUMNS = ("name", "title", "id")
"""Names of columns that are written as titles of the records; the first of them that the table has is used."""


class SdfFormat:
    """SDF, in UTF-8.

    The mol blocks of an SDF are written unchanged; those of another table are generated from its SMILES, with 2D
    coordinates. A row without a molecule has a mol block without atoms. All columns become properties, except, if the
    input is an SDF, its title and the properties that a record does not have. A text that a property cannot hold, such
    as one with an empty line, is written as a JSON string. A new list with a value for each atom follows the atoms of
    the record; it has the syntax of RDKit if the name is one of its property lists, such as `atom.dprop.q_pred`.

    Args:
        stream, added: the columns of the input, and the new ones.
        smiles_column: the SMILES column.
        max_atoms: the largest number of atoms of a molecule, if it is above `MAX_ATOMS`.
    """

    suffix = ".sdf"
    max_rows: int | None = None

    def __init__(self, stream: RowStream, added: Sequence[NewColumn], smiles_column: str, max_atoms: int = 0):
        self.max_atoms = max(max_atoms, MAX_ATOMS)
        self.smiles = find_column(stream.columns, smiles_column, stream.source)
        folded = [name.strip().casefold() for name in stream.columns]
        self.title = next((folded.index(name) for name in _TITLE_COLUMNS if name in folded), None)
        self.names = [_one_line(name).translate(_NO_BRACKETS) for name in stream.columns]
        self.added = [_one_line(rdkit_list_name(a.name, a.kind)).translate(_NO_BRACKETS) for a in added]
        self.from_sdf = stream.line_kind == "record"

    def writer(self, file: Any) -> TableWriter:
        """A writer of a whole table into an open, binary file."""
        return _SdfWriter(self, file)

    def join(self, parts: Sequence[Path], file: Any) -> None:
        """Write the records of several files, in order, into an open, binary file."""
        for part in parts:
            with open(part, "rb") as records:
                shutil.copyfileobj(records, file)

    def record(self, row: Sequence[str], block: str, new: Sequence[str]) -> str:
        """The text of a record: the mol block `block`, and the cells of `row` and of new columns as properties."""
        old = list(zip(self.names, row, strict=True))
        if self.from_sdf:
            # The second column is the title, if the file has titles.
            is_title = (
                len(old) > 1
                and _READ_TITLE_COLUMN.fullmatch(old[1][0])
                and old[1][1] == block.partition("\n")[0].strip()
            )
            old = [(name, text) for i, (name, text) in enumerate(old) if text and not (is_title and i == 1)]
        properties = [*old, *zip(self.added, new, strict=True)]
        return block + "".join(f">  <{name}>\n{_property_value(text)}\n\n" for name, text in properties) + "$$$$\n"

    def molblock(self, row: Sequence[str]) -> str:
        """The mol block of a row, generated from its SMILES."""
        title = "" if self.title is None else _one_line(row[self.title])
        try:
            return molblock_from_smiles(row[self.smiles], title, self.max_atoms)
        except SmilesError:
            return f"{title}\n{EMPTY_MOLBLOCK}"


class _SdfWriter:
    def __init__(self, output: SdfFormat, file: Any):
        self.output, self.file = output, file

    def write(self, chunk: Chunk, added: Sequence[Column]) -> None:
        texts = [
            [self._text(name, value, chunk.atom_maps.get(i)) for i, value in enumerate(column)]
            for name, column in zip(self.output.added, added, strict=True)
        ]
        for i, (row, new) in enumerate(zip(chunk.rows(), zip(*texts, strict=True), strict=True)):
            if not chunk.molblocks:
                block = self.output.molblock(row)
            elif i in chunk.errors:
                block = f"{chunk.molblocks[i].partition(chr(10))[0]}\n{EMPTY_MOLBLOCK}"
            else:
                block = chunk.molblocks[i]
            self.file.write(self.output.record(row, block, new).encode())

    @staticmethod
    def _text(name: str, value: Any, atom_map: Any) -> str:
        """The text of a new property; a list, with a value for each atom of a SMILES, is reordered to the record."""
        if value is None or isinstance(value, str | int | float):
            return format_cell(value)
        if atom_map is not None:
            value = to_record_order(value, atom_map)
        items = [format_cell(item) for item in value]
        spaces = any(any(map(str.isspace, item)) for item in items)
        return format_rdkit_list(items) if is_rdkit_list_name(name) and not spaces else format_list(items)

    def close(self) -> None:
        pass


# The name that `sdf_stream` gives to the column of titles.
_READ_TITLE_COLUMN = re.compile(r"(structure_)*name")
_NO_BRACKETS = str.maketrans("<>", "()")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _property_value(text: str) -> str:
    """The text of a property: its lines, or a JSON string if one of them would end the property or the record."""
    lines = text.splitlines()
    if len(lines) < 2 and not text.startswith("$$$$"):
        return " ".join(lines) if text.strip() else ""
    plain = all(line.strip() and not line.startswith(("$$$$", ">")) for line in lines)
    return "\n".join(lines) if plain else json.dumps(text, ensure_ascii=False)
