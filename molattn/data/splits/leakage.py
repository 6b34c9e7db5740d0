"""Leakage: what stands on more than one side of a split."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from molattn.data.splits.labels import ALL_SPLIT_LABELS, Labels, pluralize
from molattn.errors import short_repr


class Leak(NamedTuple):
    """A molecule, or a group, on more than one side of a split."""

    key: str
    sides: tuple[str, ...]
    """Its sides, in the order train, val, test, cal."""
    rows: tuple[int, ...]
    """Its rows, from 0, but for those left out."""


def find_leakage(keys: Sequence[str], labels: Sequence[str] | Labels) -> list[Leak]:
    """The molecules, or groups, on more than one side, by their first row; rows with the label `""` do not count.

    keys: n canonical SMILES, or names of groups. labels: n labels.
    """
    rows_by_key: dict[str, list[int]] = defaultdict(list)
    for row, (key, label) in enumerate(zip(keys, labels, strict=True)):
        if label:
            rows_by_key[key].append(row)
    leaks = []
    for key, rows in rows_by_key.items():
        there = {str(labels[row]) for row in rows}
        if len(there) > 1:
            leaks.append(Leak(key, tuple(side for side in ALL_SPLIT_LABELS if side in there), tuple(rows)))
    return leaks


def describe_leakage(leaks: Sequence[Leak], what: str = "molecule") -> str:
    """What `find_leakage` found, as one sentence with counts and up to three examples; the keys are called `what`."""
    if not leaks:
        return f"no {what} stands on more than one side of the split"
    examples = "; ".join(
        f"{short_repr(leak.key)} in {' and '.join(leak.sides)}, rows {_first(leak.rows)}" for leak in leaks[:3]
    )
    more = "; ..." if len(leaks) > 3 else ""
    stand = f"{what} stands" if len(leaks) == 1 else f"{what}s stand"
    rows = pluralize(sum(len(leak.rows) for leak in leaks), "row")
    return f"{len(leaks)} {stand} on more than one side of the split, {rows} in all ({examples}{more})"


def _first(rows: Sequence[int], most: int = 6) -> str:
    return ", ".join([*map(str, rows[:most]), *(["..."] if len(rows) > most else [])])
