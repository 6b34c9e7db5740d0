"""From a table of text to SMILES and numbers, with a reason for every row that cannot be used."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from molattn.data.atom_lists import list_items
from molattn.data.tables import Table, column, column_index
from molattn.errors import UsageError, shown

# Stricter than float(), which also takes 1_000, full-width digits, nan and infinity.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?", re.ASCII)

STRUCTURE_NAMES = frozenset({"structure", "structures", "molecule", "molecules", "mol", "mols"})


@dataclass(frozen=True)
class Rejected:
    """A row that cannot be used."""

    row: int
    """Its place among the data rows, from 0."""
    line: int
    """The line in the file that it starts on; the row, from 0, in a source without lines."""
    smiles: str
    reason: str


@dataclass(frozen=True)
class Records:
    """The rows of a table that can be used: n of them, with t targets."""

    rows: npt.NDArray[np.int64]
    """(n,) where each stands among the data rows, from 0, ascending."""
    smiles: list[str]
    """n SMILES, as written in the table; whether they are molecules is not looked at here."""
    targets: npt.NDArray[np.float64]
    """(n, t), NaN where the table has no value."""
    rejected: list[Rejected]
    """The other rows, in the order of the table."""
    weights: npt.NDArray[np.float64] | None = None
    """(n,) how much each row counts, 0 or more; None where no column says so."""
    groups: list[str] | None = None
    """n names of what each row belongs to, as written; None where no column says so."""
    lists: list[list[npt.NDArray[np.float64]]] | None = None
    """n times t lists of numbers, NaN where missing, none in an empty cell; None where targets are of molecules.
    `targets` is then (n, 0). Whether a list fits its molecule is not looked at here."""


def read_records(
    table: Table,
    smiles_column: str | None,
    target_columns: Sequence[str],
    weight_column: str = "",
    group_column: str = "",
    of_atoms: bool = False,
) -> Records:
    """The SMILES and targets of a table; `smiles_column` None guesses, `of_atoms` reads a list from every target cell.

    An empty target is a missing value. A row is rejected when a target is not a finite number, or when it has
    targets and all of them are missing; when its weight is not a number of 0 or more, or its group is empty; and
    when its source holds the molecule in a form that cannot be read. With no target columns every other row is kept.

    Raises UsageError for a column that is not there or is named twice.
    """
    if smiles_column is None:
        smiles_column = guess_smiles_column(table.columns)
    others = [name for name in (weight_column, group_column) if name]
    places = [column_index(table, name) for name in (smiles_column, *target_columns, *others)]
    if len(set(places)) < len(places):
        names = ", ".join(shown(name) for name in (smiles_column, *target_columns, *others))
        raise UsageError(f"a column is asked for twice among the SMILES, target, weight and group columns {names}")
    t = 1 + len(target_columns)

    kept: list[int] = []
    values: list[list[float]] = []
    lists: list[list[npt.NDArray[np.float64]]] = []
    weights: list[float] = []
    groups: list[str] = []
    rejected: list[Rejected] = []
    all_smiles = column(table, smiles_column)
    for row, (cells, line) in enumerate(zip(table.rows, table.lines, strict=True)):
        texts, numbers, found = [cells[place] for place in places[1:t]], [], []
        if of_atoms:
            found, reason = _lists(texts, target_columns)
        else:
            numbers, reason = _targets(texts, target_columns)
        weight = _weight(cells[places[t]], weight_column) if weight_column else 1.0
        group = cells[places[-1]] if group_column else ""
        if row in table.unreadable and not all_smiles[row]:
            reason = table.unreadable[row]
        elif reason is None and isinstance(weight, str):
            reason = weight
        elif reason is None and group_column and not group.strip():
            reason = f"no value in column {shown(group_column)}"
        if reason is None:
            kept.append(row)
            values.append(numbers)
            lists.append(found)
            weights.append(float(weight))
            groups.append(group)
        else:
            rejected.append(Rejected(row=row, line=line, smiles=all_smiles[row], reason=reason))
    return Records(
        rows=np.array(kept, dtype=np.int64),
        smiles=[all_smiles[row] for row in kept],
        targets=np.array(values, dtype=np.float64).reshape(len(kept), 0 if of_atoms else len(target_columns)),
        rejected=rejected,
        weights=np.array(weights, dtype=np.float64) if weight_column else None,
        groups=groups if group_column else None,
        lists=lists if of_atoms else None,
    )


def guess_smiles_column(columns: Sequence[str]) -> str:
    """The one column that holds the molecules, by its name, upper or lower case.

    `smiles` comes first, then a name with `smiles` in it (`canonical_smiles`), then `structure`, `molecule`,
    `mol`.

    Raises UsageError when no name fits, or several fit equally well.
    """
    plain = {name: name.strip().casefold() for name in columns}
    tiers = (
        [name for name, text in plain.items() if text == "smiles"],
        [name for name, text in plain.items() if "smiles" in text],
        [name for name, text in plain.items() if text in STRUCTURE_NAMES],
    )
    best = next((tier for tier in tiers if tier), [])
    if len(best) == 1:
        return best[0]
    found = (
        f"any of {_listed(best)} could hold the SMILES" if best else f"no column of {_listed(columns)} is named smiles"
    )
    raise UsageError(f"{found}: say which with --smiles-column")


def _targets(texts: Sequence[str], names: Sequence[str]) -> tuple[list[float], str | None]:
    """The numbers of one row, NaN for an empty text, or the reason why they cannot be used."""
    numbers = []
    for text, name in zip(texts, names, strict=True):
        bare = text.strip()
        if not bare:
            numbers.append(math.nan)
            continue
        if not _is_finite(bare):
            return [], f"column {shown(name)}: {shown(text)} is not a finite number{_hint(bare)}"
        numbers.append(float(bare))
    if names and all(math.isnan(number) for number in numbers):
        return [], _no_value(names)
    return numbers, None


def _lists(texts: Sequence[str], names: Sequence[str]) -> tuple[list[npt.NDArray[np.float64]], str | None]:
    """The lists of one row, none in an empty cell, or the reason why they cannot be used."""
    lists: list[npt.NDArray[np.float64]] = []
    for text, name in zip(texts, names, strict=True):
        try:
            items = list_items(text) if text.strip() else []
        except ValueError as error:
            return [], f"column {shown(name)}: {shown(text)}: {error}"
        for atom, item in enumerate(items):
            if item and not _is_finite(item):
                return [], f"column {shown(name)}, atom {atom} (from 0): {shown(item)} is not a finite number"
        lists.append(np.array([float(item) if item else math.nan for item in items], dtype=np.float64))
    if not any(np.isfinite(numbers).any() for numbers in lists):
        return [], _no_value(names)
    return lists, None


def _is_finite(text: str) -> bool:
    return NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


def _no_value(names: Sequence[str]) -> str:
    return f"no value in column{'s' if len(names) > 1 else ''} {_listed(names)}"


def _weight(text: str, name: str) -> float | str:
    """The weight in a cell, or the reason why there is none."""
    if not text.strip():
        return f"no value in column {shown(name)}"
    numbers, reason = _targets([text], [name])
    if reason is not None:
        return reason
    return numbers[0] if numbers[0] >= 0 else f"column {shown(name)}: {shown(text)} is below 0"


def _hint(text: str) -> str:
    if DECIMAL_COMMA.fullmatch(text):
        return f": write a decimal point, {text.replace(',', '.')}"
    if text.casefold() in ("nan", "na", "n/a", "n/d", "nd", "null", "none", "-", "?"):
        return ": leave the field empty for a missing value"
    if NUMBER.fullmatch(text.replace("\u2212", "-")) and "\u2212" in text:
        return ": write the minus sign as -"
    return ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(shown(name) for name in names)
