"""What a user should know of the molecules that a run learns from, a sentence each."""

from collections.abc import Callable

import numpy as np

from molattn.chem import NO_GEOMETRY, NOT_OPTIMISED
from molattn.data import Rejected, Table, describe_leakage, leakage
from molattn.data.store.molecule_store import MoleculeStore
from molattn.errors import short_repr
from molattn.training.experiment import Experiment
from molattn.training.targets import lone_classes


def left_out(rejected: list[Rejected], where: str = "") -> list[str]:
    """How many rows cannot be used, and the first of them, in a sentence; none where there are none."""
    if not rejected:
        return []
    first = rejected[0]
    count = "1 row is" if len(rejected) == 1 else f"{len(rejected)} rows are"
    return [f"{count} left out{where}; the first, {first.place}: {first.reason}"]


def _of_3d(warning: str) -> bool:
    return warning.startswith((NO_GEOMETRY, NOT_OPTIMISED))


# What is uncertain about a molecule, and which of its warnings say so.
_UNCERTAIN: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("parts that the codes do not know", lambda w: not _of_3d(w)),
    ("no 3D geometry", lambda w: w.startswith(NO_GEOMETRY)),
    ("a 3D geometry that is not optimised", lambda w: w.startswith(NOT_OPTIMISED)),
)


def uncertain(molecules: MoleculeStore) -> list[str]:
    """How many molecules the model does not see whole, and the first of them: a sentence for each reason."""
    remarks = []
    warned = list(molecules.warnings)
    for what, kind in _UNCERTAIN:
        those = [(i, w) for i, found in warned if (w := next(filter(kind, found), None))]
        if those:
            count = "1 molecule has" if len(those) == 1 else f"{len(those)} molecules have"
            first, warning = those[0]
            remarks.append(f"{count} {what}; the first, {molecules[[first]].smiles[0]}: {warning}")
    return remarks


def leaks(rows: np.ndarray, keys: list[str], groups: list[str] | None, labels: np.ndarray, taken: str) -> list[str]:
    """What stands on two sides, in the rows of the table: molecules, and groups where a column names them."""
    remarks = []
    for what, names in (("molecule", keys), ("group", groups)):
        if names is not None:
            of_rows = np.full(len(labels), "", dtype=object)
            of_rows[rows] = names
            if found := leakage(of_rows.tolist(), labels.tolist()):
                remarks.append(f"{describe_leakage(found, what)}; {taken}")
    return remarks


def one_class(experiment: Experiment) -> list[str]:
    """The targets whose training labels are of one class, in a sentence; none where there are none."""
    data, task = experiment.data, experiment.task
    lone = lone_classes(experiment.labelled("train").targets, data.target_columns, task)
    if not lone:
        return []
    count = (
        f"{short_repr(lone[0])} has"
        if len(lone) == 1
        else f"{len(lone)} targets, the first {short_repr(lone[0])}, have"
    )
    return [f"{count} training labels of one class only: there is nothing to tell apart"]


def read_otherwise(experiment: Experiment, table: Table) -> list[str]:
    """How many molecules are read in another form, and the first of them, in a sentence; none where there are none."""
    changed = experiment.standardized
    if not changed:
        return []
    row, form = changed[0]
    verb = "molecule is" if len(changed) == 1 else "molecules are"
    return [
        f"{len(changed)} {verb} read in another form, see standardized.csv; the first, {table.place(row)}: "
        f"{short_repr(experiment.smiles[row])} as {short_repr(form)}"
    ]
