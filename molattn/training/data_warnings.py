"""Warnings about the molecules and labels of a run, one sentence each."""

from collections.abc import Callable

import numpy as np

from molattn.chem import NO_GEOMETRY, NOT_OPTIMISED
from molattn.data import RejectedRow, Table, describe_leakage, find_leakage
from molattn.data.store.molecule_store import MoleculeStore
from molattn.errors import short_repr
from molattn.training.dataset import PreparedDataset
from molattn.training.targets import single_class_targets


def rejected_rows(rejected: list[RejectedRow], where: str = "") -> list[str]:
    """How many rows were rejected, and the first of them; empty if none were."""
    if not rejected:
        return []
    first = rejected[0]
    count = "1 row is" if len(rejected) == 1 else f"{len(rejected)} rows are"
    return [f"{count} left out{where}; the first, {first.location}: {first.reason}"]


def _is_about_3d(warning: str) -> bool:
    return warning.startswith((NO_GEOMETRY, NOT_OPTIMISED))


# Problems of molecules, and which of their warnings report them.
_PROBLEMS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("parts that the codes cannot represent", lambda w: not _is_about_3d(w)),
    ("no 3D geometry", lambda w: w.startswith(NO_GEOMETRY)),
    ("a 3D geometry that is not optimised", lambda w: w.startswith(NOT_OPTIMISED)),
)


def unreliable_molecules(molecules: MoleculeStore) -> list[str]:
    """How many molecules the model's input does not represent fully, and the first of them, for each problem."""
    messages = []
    warned = list(molecules.warnings)
    for problem, reports in _PROBLEMS:
        affected = [(i, w) for i, found in warned if (w := next(filter(reports, found), None))]
        if affected:
            count = "1 molecule has" if len(affected) == 1 else f"{len(affected)} molecules have"
            first, warning = affected[0]
            messages.append(f"{count} {problem}; the first, {molecules[[first]].smiles[0]}: {warning}")
    return messages


def split_leakage(
    rows: np.ndarray, keys: list[str], groups: list[str] | None, split_labels: np.ndarray, origin: str
) -> list[str]:
    """The molecules, and the groups if there are any, that are in more than one split, by the rows of the table."""
    messages = []
    for what, names in (("molecule", keys), ("group", groups)):
        if names is not None:
            of_rows = np.full(len(split_labels), "", dtype=object)
            of_rows[rows] = names
            if found := find_leakage(of_rows.tolist(), split_labels.tolist()):
                messages.append(f"{describe_leakage(found, what)}; {origin}")
    return messages


def single_class_labels(dataset: PreparedDataset) -> list[str]:
    """The targets whose training labels are all of one class; empty if there are none."""
    names = single_class_targets(dataset.subset("train").targets, dataset.config.target_columns, dataset.task)
    if not names:
        return []
    count = (
        f"{short_repr(names[0])} has"
        if len(names) == 1
        else f"{len(names)} targets, the first {short_repr(names[0])}, have"
    )
    return [f"{count} training labels of one class only: there is nothing to tell apart"]


def standardized_molecules(dataset: PreparedDataset, table: Table) -> list[str]:
    """How many molecules standardisation changed, and the first of them; empty if it changed none."""
    changed = dataset.standardized
    if not changed:
        return []
    row, form = changed[0]
    verb = "molecule is" if len(changed) == 1 else "molecules are"
    return [
        f"{len(changed)} {verb} read in another form, see standardized.csv; the first, {table.location(row)}: "
        f"{short_repr(dataset.smiles[row])} as {short_repr(form)}"
    ]
