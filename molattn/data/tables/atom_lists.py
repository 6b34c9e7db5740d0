"""Lists of one value for each atom: in the cells of a table, and as properties of an SDF.

RDKit writes them as properties with the names `atom.dprop.NAME` (numbers), `atom.iprop.NAME` (whole numbers),
`atom.bprop.NAME` (0 and 1) and `atom.prop.NAME` (strings): values separated by whitespace
(`Chem.CreateAtomDoublePropertyList` and similar functions). A missing value is `n/a`, or another marker in
brackets before the first value: `[?] 0.1 ? 0.3`. A property with any other name has a list as in other tables, such as
`[0.1, null, 0.3]`.
"""

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from molattn.data.tables.columns import find_column
from molattn.data.tables.table import Table
from molattn.errors import short_ascii, short_repr

_MISSING = frozenset(("", "null", "none", "nan"))
# The syntax of JSON.
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_EXAMPLE = "write a list such as [0.1, -0.2, null]"


def parse_list(text: str) -> list[str]:
    """The values of a list in a cell, as text; empty for a missing value.

    The list may be JSON (`[0.1, -0.2, null]`), printed by Python (`[0.1, None]`) or NumPy (`[0.1 nan]`), or numbers
    separated by whitespace. null, None and NaN are missing; true is 1 and false 0.

    Args:
        text: the cell.

    Raises:
        ValueError: the cell is not such a list; the message gives the reason.

    >>> from molattn.data import parse_list
    >>> parse_list("[0.1, -2e-3, null]")
    ['0.1', '-2e-3', '']
    """
    stripped = text.strip()
    if stripped.startswith("[") != stripped.endswith("]"):
        raise ValueError(f"its brackets do not match: {_EXAMPLE}")
    inner = stripped[1:-1].strip() if stripped.startswith("[") else stripped
    if not inner:
        raise ValueError(f"it is an empty list: leave the field empty, or {_EXAMPLE}")
    if "[" in inner or "{" in inner:
        raise ValueError(f"it holds a list within a list: {_EXAMPLE}")
    if '"' in inner or "'" in inner:
        return list(map(_normalize, _parse_quoted(stripped)))
    items = [item.strip() for item in inner.split(",")] if "," in inner else inner.split()
    if "" in items:
        raise ValueError(f"a value is missing between two commas: write null for a missing value, {_EXAMPLE}")
    return list(map(_normalize, items))


def format_list(items: Sequence[str]) -> str:
    """Format a list as JSON, for a cell: numbers are unchanged, other strings are quoted, an empty string is null.

    Args:
        items: the values, as text, as from `parse_list`.

    >>> from molattn.data import format_list
    >>> format_list(["0.5", "", "sp2"])
    '[0.5, null, "sp2"]'
    """
    return f"[{', '.join(map(_format_item, items))}]"


def to_record_order(values: Sequence[Any], atom_map: Any) -> list[Any]:
    """The values of the atoms of a SMILES, in the order of the atoms of the SDF record; None for atoms without a value.

    Args:
        values: of the atoms of the SMILES, followed by those of the hydrogens that `add_hs` appends, if any.
        atom_map: the `MolblockAtomMap` of the record.
    """
    ordered: list[Any] = [None] * atom_map.size
    # Without `add_hs` the values end before the hydrogens; an index of -1 is a hydrogen that is implicit in the record.
    for value, i in zip(values, [*atom_map.order.tolist(), *atom_map.hydrogens.tolist()], strict=False):
        if i >= 0:
            ordered[i] = value
    return ordered


def format_rdkit_list(items: Sequence[str]) -> str:
    """A list as RDKit writes it in a property of an SDF, for items without spaces; an empty string is `n/a`."""
    return " ".join(item or "n/a" for item in items)


def rdkit_list_name(name: str, kind: str) -> str:
    """The name of a property with a list of another type: `atom.iprop.q_pred` becomes `atom.dprop.q_pred` for numbers.

    Args:
        name: of the column; unchanged unless it is that of a property list of RDKit.
        kind: the type of the values, as in `NewColumn`.
    """
    prefix = {"list<float64>": "atom.dprop.", "list<string>": "atom.prop."}.get(kind)
    return name if prefix is None else re.sub(r"^atom\.[dib]?prop\.", prefix, name)


def offsets_from_counts(counts: Sequence[int] | np.ndarray) -> npt.NDArray[np.int64]:
    """The offsets of the rows of n consecutive molecules, (n + 1,): those of molecule i are offsets[i]:offsets[i + 1].

    Args:
        counts: (n,) the number of rows of each molecule, such as its number of atoms.

    >>> from molattn.data import offsets_from_counts
    >>> offsets_from_counts([2, 1, 3]).tolist()
    [0, 2, 3, 6]
    """
    return np.concatenate([[0], np.cumsum(np.asarray(counts, dtype=np.int64))])


def label_rows(offsets: npt.NDArray[np.int64], molecules: Sequence[int] | np.ndarray) -> npt.NDArray[np.int64]:
    """The indices of the label rows of some molecules, concatenated in the order of `molecules`.

    Args:
        offsets: (n + 1,), see `offsets_from_counts`: a molecule has one row of labels, or one for each atom.
        molecules: (m,) indices of molecules, from 0, in any order.

    >>> from molattn.data import label_rows, offsets_from_counts
    >>> label_rows(offsets_from_counts([2, 1, 3]), [2, 0]).tolist()
    [3, 4, 5, 0, 1]
    """
    chosen = np.asarray(molecules, dtype=np.int64)
    starts, sizes = offsets[chosen], offsets[chosen + 1] - offsets[chosen]
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())


def _parse_quoted(text: str) -> list[Any]:
    """Parse a list with quoted strings, in the syntax of JSON or Python."""
    for read in (json.loads, ast.literal_eval):
        try:
            items = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(items, list):
            return items
    raise ValueError(f'it is not a list: write ["a", "b", null] or {_EXAMPLE}')


def _format_item(item: str) -> str:
    if not item:
        return "null"
    return item if _NUMBER.fullmatch(item) else json.dumps(item)


def _normalize(item: Any) -> str:
    if item is True or item is False:
        return str(int(item))
    text = "" if item is None else str(item).strip()
    lower = text.casefold()
    return "" if lower in _MISSING else {"true": "1", "false": "0"}.get(lower, text)


_ATOM_LIST = re.compile(r"atom\.[dib]?prop\..+")


@dataclass(frozen=True)
class ReorderedTable:
    """A table whose atom lists are in the order of the atoms of its SMILES.

    Attributes:
        table: the table with reordered lists; unchanged if it is not from an SDF.
        reasons: for each row (from 0) whose lists do not match its atoms, the reason; these lists are empty in `table`.
        left_out: the rows (from 0) with values of hydrogens that are not atoms of the graph; these values are dropped.
    """

    table: Table
    reasons: dict[int, str] = field(default_factory=dict)
    left_out: list[int] = field(default_factory=list)


def is_rdkit_atom_list(table: Table, name: str) -> bool:
    """Whether a column is, by its name, an atom property list of RDKit in an SDF."""
    return bool(table.atom_maps) and is_rdkit_list_name(name)


def is_rdkit_list_name(name: str) -> bool:
    """Whether a name is that of an atom property list of RDKit, such as `atom.dprop.q`."""
    return _ATOM_LIST.fullmatch(name.strip()) is not None


def reorder_atom_lists(table: Table, columns: Sequence[str], add_hs: bool) -> ReorderedTable:
    """Reorder the lists in `columns` from the atoms of the SDF records to those of the SMILES.

    With `add_hs`, the values of hydrogens follow; a hydrogen that is implicit in the record has a missing value. The
    value of a hydrogen that is an atom of the record but not of the graph is dropped.
    """
    if not table.atom_maps:
        return ReorderedTable(table)
    rows = list(table.rows)
    reasons: dict[int, str] = {}
    left_out: list[int] = []
    indices = [(name, find_column(table.columns, name, table.source)) for name in columns]
    for row, atom_map in table.atom_maps.items():
        rows[row] = cells = list(rows[row])
        try:
            lists = {k: _values(table, name, cells[k], atom_map) for name, k in indices if cells[k].strip()}
        except ValueError as error:
            reasons[row] = str(error)
            lists = {}
        order = [*atom_map.order.tolist(), *(atom_map.hydrogens.tolist() if add_hs else ())]
        for _, k in indices:
            cells[k] = format_list([lists[k][i] if i >= 0 else "" for i in order]) if k in lists else ""
        unused = set(range(atom_map.size)).difference(order)
        if any(values[i] for values in lists.values() for i in unused):
            left_out.append(row)
    return ReorderedTable(replace(table, rows=rows, atom_maps={}), reasons, left_out)


def _values(table: Table, name: str, text: str, atom_map: Any) -> list[str]:
    """The values of a list, as text, in the order of the atoms of the record; empty for a missing value.

    Raises:
        ValueError: it is not a list, or its length is not the number of atoms.
    """
    try:
        values = _parse_rdkit_list(text) if is_rdkit_atom_list(table, name) else parse_list(text)
    except ValueError as error:
        raise ValueError(f"column {short_repr(name)}: {short_ascii(text)}: {error}") from error
    if len(values) != atom_map.size:
        counted = "1 value" if len(values) == 1 else f"{len(values)} values"
        count = "1 atom" if atom_map.size == 1 else f"{atom_map.size} atoms"
        hydrogens = ", explicit hydrogens among them" if atom_map.size > len(atom_map.order) else ""
        raise ValueError(f"column {short_repr(name)}: {counted} for the {count} of the record{hydrogens}")
    return values


def _parse_rdkit_list(text: str) -> list[str]:
    """The values of an atom property list of RDKit."""
    values, missing = text.split(), "n/a"
    if values[0].startswith("["):
        if not values[0].endswith("]"):
            raise ValueError(
                "the marker of missing values, without spaces, must be in brackets before the first value: [?] 1 ?"
            )
        missing = values.pop(0)[1:-1]
    return ["" if value == missing else value for value in values]
