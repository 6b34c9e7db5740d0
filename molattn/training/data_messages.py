"""Messages on the data of a run: findings of its checks, and warnings from reading it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from molattn.chem import NO_GEOMETRY, NOT_OPTIMIZED
from molattn.data import RejectedRow, Table, describe_leakage, find_leakage
from molattn.data.store.molecule_store import MoleculeStore
from molattn.errors import InputError, short_repr
from molattn.models.task import Task
from molattn.models.tasks import Regression
from molattn.training.dataset import LabelledMolecules, PreparedDataset
from molattn.training.run_config import RunConfig
from molattn.training.task_inference import constant_targets

MAX_EXAMPLES = 10
"""The maximum number of examples in the details of a finding."""


@dataclass(frozen=True)
class Finding:
    """The result of a check of the data.

    Attributes:
        check: the name of the check: "duplicates", "fragments", "standardize", "size", "range", "labels", "classes",
            "splits" or "reading".
        message: one sentence.
        needs_attention: whether it can make the model or its metrics worse; otherwise it is for information.
        details: numbers and examples, plain values.
    """

    check: str
    message: str
    needs_attention: bool = True
    details: dict[str, Any] = field(default_factory=dict)


def count_noun(count: int, singular: str, plural: str) -> str:
    """`1 row is`, `2 rows are`."""
    return f"{count:,} {singular if count == 1 else plural}"


def join_words(values: Sequence[object], limit: int = 5) -> str:
    """The first values as text: `1, 2 and 3`, or `1, 2, ...` beyond the limit."""
    shown = [str(value) for value in values[:limit]]
    if len(values) > limit:
        return f"{', '.join(shown)}, ..."
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def describe_rejected(rejected: list[RejectedRow], where: str = "") -> list[str]:
    """How many rows were rejected, and the first of them; empty if none were."""
    if not rejected:
        return []
    first, count = rejected[0], count_noun(len(rejected), "row is", "rows are")
    return [f"{count} left out{where}; the first, {first.location}: {first.reason}"]


def no_row_error(source: object, rejected: list[RejectedRow], use: str = "used") -> InputError:
    """The error for a table of which no row can be used, with the reason of the first rejected row."""
    first = f"the first, {rejected[0].location}: {rejected[0].reason}" if rejected else "it has none"
    return InputError(f"{source}: no row can be {use}; {first}")


def _is_about_3d(warning: str) -> bool:
    return warning.startswith((NO_GEOMETRY, NOT_OPTIMIZED))


# Problems of molecules, and a test of which warnings report each.
_PROBLEMS: tuple[tuple[str, Callable[[str], bool]], ...] = (
    ("features that the model's atom and bond codes lack", lambda w: not _is_about_3d(w)),
    ("no 3D geometry", lambda w: w.startswith(NO_GEOMETRY)),
    ("a 3D geometry that is not optimized", lambda w: w.startswith(NOT_OPTIMIZED)),
)


def describe_unreliable(molecules: MoleculeStore) -> list[str]:
    """For each problem, how many molecules the model's input does not represent fully, and the first of them."""
    messages = []
    warned = list(molecules.warnings)
    for problem, reports in _PROBLEMS:
        affected = [(i, w) for i, found in warned if (w := next(filter(reports, found), None))]
        if affected:
            count = count_noun(len(affected), "molecule has", "molecules have")
            first, warning = affected[0]
            messages.append(f"{count} {problem}; the first, {molecules[[first]].smiles[0]}: {warning}")
    return messages


def describe_split_leakage(
    rows: np.ndarray, keys: list[str], groups: list[str] | None, split_labels: np.ndarray, origin: str
) -> list[str]:
    """Messages about molecules, and groups if there are any, that are in more than one split."""
    messages = []
    for what, names in (("molecule", keys), ("group", groups)):
        if names is not None:
            name_of_row = np.full(len(split_labels), "", dtype=object)
            name_of_row[rows] = names
            if found := find_leakage(name_of_row.tolist(), split_labels.tolist()):
                messages.append(f"{describe_leakage(found, what)}; {origin}")
    return messages


def describe_constant_targets(dataset: PreparedDataset) -> list[str]:
    """The targets whose training labels are all equal; empty if there are none."""
    train = dataset.subset("train")
    return describe_constant(train, dataset.config.target_columns, dataset.task)


def describe_constant(train: LabelledMolecules, targets: Sequence[str], task: Task) -> list[str]:
    """The targets whose training labels are all equal, as one message; empty if there are none."""
    names = constant_targets(train.targets, targets, train.bounds)
    if not names:
        return []
    first = short_repr(names[0])
    have = f"{first} has" if len(names) == 1 else f"{len(names)} targets, the first {first}, have"
    what = "value" if isinstance(task, Regression) else "class"
    return [f"{have} training labels of one {what} only: there is nothing to learn"]


def describe_unread_geometries(config: RunConfig) -> str:
    """That the model does not read the 3D geometries of its molecules; empty if it does, or if there are none."""
    if not config.data.conformers or config.model.needs_3d:
        return ""
    return (
        "data.conformers has no effect on this model, which reads no distances: add --set "
        'model.edges=["bond","path","distance"], or leave data.conformers out'
    )


def describe_standardized(dataset: PreparedDataset, table: Table) -> list[str]:
    """How many molecules standardization changed, and the first of them; empty if it changed none."""
    changed = dataset.standardized
    if not changed:
        return []
    row, form = changed[0]
    count = count_noun(len(changed), "molecule is", "molecules are")
    return [
        f"{count} read in another form, see standardized.csv; the first, {table.location(row)}: "
        f"{short_repr(dataset.smiles[row])} as {short_repr(form)}"
    ]
