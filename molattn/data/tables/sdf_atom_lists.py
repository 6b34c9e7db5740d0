"""Lists in an SDF: a value for each atom of its record, brought into the order of the atoms of its SMILES.

RDKit writes them as properties by the names `atom.dprop.NAME` (numbers), `atom.iprop.NAME` (whole numbers),
`atom.bprop.NAME` (0 and 1) and `atom.prop.NAME` (words): values with blanks or line ends between them, `n/a` where one
is missing, or what stands in brackets before the first, `[?] 0.1 ? 0.3` (`Chem.CreateAtomDoublePropertyList` and its
likes). A list under another name is one as in any table, such as `[0.1, null, 0.3]`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from molattn.data.tables.atom_lists import format_list, parse_list
from molattn.data.tables.columns import find_column
from molattn.data.tables.table import Table
from molattn.errors import short_repr

_ATOM_LIST = re.compile(r"atom\.[dib]?prop\..+")


@dataclass(frozen=True)
class ReorderedTable:
    """A table whose lists follow the atoms of its SMILES.

    Attributes:
        table: with the lists as in any table; as it was where it is of no SDF.
        reasons: why a row's list is not that of its atoms, by row; its lists are empty in `table`.
        left_out: the rows with values of hydrogens that are no atoms of the graph, which are left out.
    """

    table: Table
    reasons: dict[int, str] = field(default_factory=dict)
    left_out: list[int] = field(default_factory=list)


def is_rdkit_atom_list(table: Table, name: str) -> bool:
    """Whether a column is, by its name, a list of RDKit's in an SDF."""
    return bool(table.atoms) and _ATOM_LIST.fullmatch(name.strip()) is not None


def reorder_atom_lists(table: Table, columns: Sequence[str], add_hs: bool) -> ReorderedTable:
    """The table with the lists in `columns` in the order of its SMILES, hydrogens behind them where `add_hs` has some.

    A hydrogen that the record leaves implicit has no value. One that is an atom of the record and none of the graph
    leaves its value out.
    """
    if not table.atoms:
        return ReorderedTable(table)
    rows = list(table.rows)
    reasons: dict[int, str] = {}
    left_out: list[int] = []
    places = [(name, find_column(table.columns, name, table.source)) for name in columns]
    for row, atoms in table.atoms.items():
        rows[row] = cells = list(rows[row])
        try:
            lists = {place: _values(table, name, cells[place], atoms) for name, place in places if cells[place].strip()}
        except ValueError as error:
            reasons[row] = str(error)
            lists = {}
        order = [*atoms.order.tolist(), *(atoms.hydrogens.tolist() if add_hs else ())]
        for _, place in places:
            cells[place] = format_list([lists[place][i] if i >= 0 else "" for i in order]) if place in lists else ""
        gone = set(range(atoms.size)).difference(order)
        if any(values[i] for values in lists.values() for i in gone):
            left_out.append(row)
    return ReorderedTable(replace(table, rows=rows, atoms={}), reasons, left_out)


def _values(table: Table, name: str, text: str, atoms: Any) -> list[str]:
    """The values of a list, as text, in the order of the atoms of the record; empty where one is missing.

    Raises:
        ValueError: there are more or fewer than atoms, or it is no list.
    """
    try:
        values = _split(text) if is_rdkit_atom_list(table, name) else parse_list(text)
    except ValueError as error:
        raise ValueError(f"column {short_repr(name)}: {short_repr(text)}: {error}") from error
    if len(values) != atoms.size:
        held = "1 value" if len(values) == 1 else f"{len(values)} values"
        count = "1 atom" if atoms.size == 1 else f"{atoms.size} atoms"
        hydrogens = ", explicit hydrogens among them" if atoms.size > len(atoms.order) else ""
        raise ValueError(f"column {short_repr(name)}: {held} for the {count} of the record{hydrogens}")
    return values


def _split(text: str) -> list[str]:
    """The values of a list as RDKit writes it."""
    values, missing = text.split(), "n/a"
    if values[0].startswith("["):
        if not values[0].endswith("]"):
            raise ValueError("what is missing stands in brackets without a blank before the first value, as in [?] 1 ?")
        missing = values.pop(0)[1:-1]
    return ["" if value == missing else value for value in values]
