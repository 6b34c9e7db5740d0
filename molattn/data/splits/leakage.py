"""Leakage: molecules or groups in more than one subset of a split."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from molattn.data.splits.labels import ALL_SPLIT_LABELS, Labels, pluralize
from molattn.errors import short_repr


class Leak(NamedTuple):
    """A molecule, or a group, in more than one subset of a split."""

    key: str
    labels: tuple[str, ...]
    """Its split labels, in the order train, val, test, cal."""
    rows: tuple[int, ...]
    """Its rows, from 0, except those left out of the split."""


def find_leakage(keys: Sequence[str], labels: Sequence[str] | Labels) -> list[Leak]:
    """The molecules, or groups, in more than one subset, by their first row; rows with the label `""` are ignored.

    keys: n canonical SMILES, or names of groups. labels: n labels.
    """
    rows_by_key: dict[str, list[int]] = defaultdict(list)
    for row, (key, label) in enumerate(zip(keys, labels, strict=True)):
        if label:
            rows_by_key[key].append(row)
    leaks = []
    for key, rows in rows_by_key.items():
        found = {str(labels[row]) for row in rows}
        if len(found) > 1:
            leaks.append(Leak(key, tuple(label for label in ALL_SPLIT_LABELS if label in found), tuple(rows)))
    return leaks


def describe_leakage(leaks: Sequence[Leak], what: str = "molecule") -> str:
    """The result of `find_leakage` as a sentence with counts and up to three examples; the keys are called `what`."""
    if not leaks:
        return f"no {what} is in more than one subset of the split"
    examples = "; ".join(
        f"{short_repr(leak.key)} in {' and '.join(leak.labels)}, rows {_first(leak.rows)}" for leak in leaks[:3]
    )
    more = "; ..." if len(leaks) > 3 else ""
    subject = f"{what} is" if len(leaks) == 1 else f"{what}s are"
    rows = pluralize(sum(len(leak.rows) for leak in leaks), "row")
    return f"{len(leaks)} {subject} in more than one subset of the split, {rows} in all ({examples}{more})"


def _first(rows: Sequence[int], max_rows: int = 6) -> str:
    return ", ".join([*map(str, rows[:max_rows]), *(["..."] if len(rows) > max_rows else [])])
