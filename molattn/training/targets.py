"""The targets of a table: the task that is inferred from them, and class names encoded as indices."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from molattn.data.tables.atom_lists import (
    ReorderedTable,
    format_list,
    is_rdkit_atom_list,
    parse_list,
    reorder_atom_lists,
)
from molattn.data.tables.columns import NUMBER
from molattn.data.tables.missing import describe_missing_words, is_missing_word, missing_words
from molattn.data.tables.table import Table, column, column_index
from molattn.errors import InputError, UsageError, short_repr
from molattn.models.losses import DEFAULT_ALPHA, LOSSES, losses_of
from molattn.models.tasks import ATOM_PREFIX, Binary, Multiclass, Regression, Task

MAX_CLASSES = 100
"""The largest number of classes of a multiclass target."""
MAX_INFERRED_CLASSES = 20
"""The largest number of different words from which a multiclass target is inferred."""


@dataclass(frozen=True)
class EncodedTable:
    """A table whose target columns hold numbers.

    Attributes:
        table: with empty cells in place of words for a missing value, and for multiclass targets with the class index
            in each cell, or in each item of its list.
        classes: the names of the classes of each target; empty if there are none.
        reasons: why a row holds no class, or no list of its atoms, by row; the targets of such a row are empty in
            `table`.
        warnings: messages for the user.
    """

    table: Table
    classes: tuple[tuple[str, ...], ...] = ()
    reasons: dict[int, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def has_atom_targets(table: Table, columns: Sequence[str], kind: str) -> bool:
    """Whether the targets are of atoms: `kind`, the task type, says so, or is empty and most cells hold lists.

    Raises:
        UsageError: some columns hold lists and others do not, or `kind` is one of molecules and columns hold lists.
    """
    if kind.startswith(ATOM_PREFIX):
        return True
    lists = [name for name in columns if is_rdkit_atom_list(table, name) or _holds_lists(column(table, name))]
    if not lists:
        return False
    if kind:
        raise UsageError(
            f"column {short_repr(lists[0])} holds a list for each molecule, one value for each atom: "
            f"--task-type {ATOM_PREFIX}{kind} learns that"
        )
    if other := next((name for name in columns if name not in lists), ""):
        raise UsageError(
            f"column {short_repr(lists[0])} holds a list with a value for each atom and column {short_repr(other)} one "
            "value for each molecule: a model learns the one or the other, so train one for each"
        )
    return True


def _holds_lists(cells: Sequence[str]) -> bool:
    known = [text for text in cells if text.strip()]
    return bool(known) and 2 * sum(map(_is_list, known)) > len(known)


def _is_list(text: str) -> bool:
    """Whether a cell certainly holds a list: in brackets, or several numbers separated by spaces."""
    if text.strip().startswith("["):
        return True
    items = text.split()
    return len(items) > 1 and all(map(NUMBER.fullmatch, items))


def encode_targets(
    table: Table,
    columns: Sequence[str],
    kind: str,
    classes: tuple[tuple[str, ...], ...] = (),
    of_atoms: bool = False,
    add_hs: bool = False,
) -> EncodedTable:
    """Encode class names as indices, empty cells of missing values, bring lists of atoms into the order of the SMILES.

    Targets are multiclass if `kind` is, or if it is empty and the columns hold a few repeated words and no number.
    Classes are sorted: as numbers if all are whole numbers, otherwise alphabetically.

    Args:
        table, columns: the table and its target columns.
        kind: the task type; empty to infer it.
        classes: the names, if a model has them already; found in the table when empty.
        of_atoms: whether a cell holds a list, with a value for each atom. Those of an SDF are brought into the order of
            the SMILES.
        add_hs: whether hydrogens are atoms, after the others.

    Raises:
        InputError: a multiclass column holds fewer than two classes, too many, or fractions.
    """
    reasons: dict[int, str] = {}
    warnings: tuple[str, ...] = ()
    if of_atoms:
        ordered = reorder_atom_lists(table, columns, add_hs)
        table, reasons, warnings = ordered.table, ordered.reasons, _left_out(ordered)
    else:
        table, warnings = _without_missing_words(table, columns)
    positions = [column_index(table, name) for name in columns]
    cells = [[_labels(row[position], of_atoms) for row in table.rows] for position in positions]
    texts = [[text for labels in of_column for text in labels or ()] for of_column in cells]
    if kind.removeprefix(ATOM_PREFIX) != "multiclass" and (kind or not all(map(_is_words, texts))):
        return EncodedTable(table, (), reasons, warnings)
    classes = classes or tuple(_classes(name, of_column) for name, of_column in zip(columns, texts, strict=True))
    rows = [list(row) for row in table.rows]
    for t, (name, position) in enumerate(zip(columns, positions, strict=True)):
        code = {label: str(i) for i, label in enumerate(classes[t])} | {"": ""}
        for row, labels in enumerate(cells[t]):
            if labels is None:
                continue
            if unknown := next(((atom, text) for atom, text in enumerate(labels) if text not in code), None):
                where = f"column {short_repr(name)}{f', atom {unknown[0]} (from 0)' if of_atoms else ''}"
                reasons[row] = f"{where}: {_unknown_class(unknown[1], classes[t], of_atoms)}"
            else:
                codes = [code[text] for text in labels]
                rows[row][position] = format_list(codes) if of_atoms else codes[0]
    for row in reasons:
        for position in positions:
            rows[row][position] = ""
    return EncodedTable(replace(table, rows=rows), classes, reasons, warnings)


def _without_missing_words(table: Table, columns: Sequence[str]) -> tuple[Table, tuple[str, ...]]:
    """The table with empty cells in place of words for a missing value, and a message about them, if there are any."""
    positions = [column_index(table, name) for name in columns]
    missing = {k: words for k in positions if (words := missing_words([row[k] for row in table.rows]))}
    if not missing:
        return table, ()
    rows = list(table.rows)
    for i, row in enumerate(table.rows):
        if any(row[k].strip() in words for k, words in missing.items()):
            rows[i] = ["" if k in missing and cell.strip() in missing[k] else cell for k, cell in enumerate(row)]
    names = [name for name, k in zip(columns, positions, strict=True) if k in missing]
    return replace(table, rows=rows), (describe_missing_words(sum(missing.values(), Counter()), names),)


def _left_out(ordered: ReorderedTable) -> tuple[str, ...]:
    """A warning about values of hydrogens that are not used; empty if there are none."""
    if not ordered.left_out:
        return ()
    count, first = len(ordered.left_out), ordered.table.location(ordered.left_out[0])
    rows = "1 record has" if count == 1 else f"{count} records have"
    return (f"{rows} values of hydrogens, which are left out; the first, {first}; --add-hs learns them, too",)


def _labels(text: str, of_atoms: bool) -> list[str] | None:
    """The labels in a cell; None if it should hold a list and does not."""
    if not of_atoms:
        return [_normalized(text)]
    try:
        return [_normalized(item) for item in parse_list(text)]
    except ValueError:
        return None


def _unknown_class(text: str, classes: Sequence[str], of_atoms: bool) -> str:
    if is_missing_word(text):
        return f"{short_repr(text)}: {'write null' if of_atoms else 'leave the field empty'} for a missing value"
    return f"{short_repr(text)} is none of the classes {_abbreviated(classes)}"


def resolve_task(
    kind: str,
    loss: str,
    targets: np.ndarray,
    names: Sequence[str],
    classes: tuple[tuple[str, ...], ...],
    of_atoms: bool = False,
    alpha: float = Regression.alpha,
) -> tuple[Task, str]:
    """The task of a run, and a sentence on which one was inferred and how to override it; empty if it was configured.

    Targets are binary if all known values are 0 or 1 and some target has both; other numbers are regression targets,
    however few different ones there are.

    Args:
        kind: the task type from the user or the data set's card; empty to infer it.
        loss: the configured loss; the task's default when empty.
        targets: (n, T), NaN where missing.
        names: of the targets.
        classes: names of the classes of each target; empty for numbers.
        of_atoms: whether the targets are of atoms.
        alpha: of the loss "quantile".

    Raises:
        InputError: the targets do not go with the task type.
        UsageError: the loss belongs to another task.
    """
    inferred = kind.removeprefix(ATOM_PREFIX) or _infer_kind(targets, classes)
    task = _create_task(inferred, loss, classes, of_atoms, alpha)
    task.check(targets, names)
    if kind:
        return task, ""
    what = names[0] if len(names) == 1 else f"{len(names)} targets"
    holds = f"{what} {_holds(names)}{' lists of' if of_atoms else ''}"
    other = "--task-type overrides it"
    if inferred == "multiclass":
        return task, f"task: {task.name}, {holds} words: {_abbreviated(classes[0])}; {other}"
    if inferred == "binary":
        return task, f"task: {task.name}, {holds} only 0 and 1; {other}"
    known = targets[np.isfinite(targets)]
    few = np.unique(known)
    if 2 <= len(few) <= 10 and not (few % 1).any() and len(known) >= 10 * len(few):
        listed = ", ".join(f"{v:g}" for v in few)
        instead = f"if they are classes, add --task-type {ATOM_PREFIX if of_atoms else ''}multiclass"
        return task, f"task: {task.name}, {holds} the numbers {listed}; {instead}"
    return task, f"task: {task.name}, {holds} numbers; {other}"


def single_class_targets(targets: np.ndarray, names: Sequence[str], task: Task) -> list[str]:
    """The names of the targets, (n, T), whose training labels are all of one class: nothing else can be learned."""
    if isinstance(task, Regression):
        return []
    known = [column[np.isfinite(column)] for column in targets.T]
    return [name for name, y in zip(names, known, strict=True) if len(y) and not (y != y[0]).any()]


def _infer_kind(targets: np.ndarray, classes: tuple[tuple[str, ...], ...]) -> str:
    if classes:
        return "multiclass"
    known = [set(np.unique(column[np.isfinite(column)]).tolist()) for column in targets.T]
    binary = all(values <= {0.0, 1.0} for values in known) and any(len(values) == 2 for values in known)
    return "binary" if binary else "regression"


def _create_task(kind: str, loss: str, classes: tuple[tuple[str, ...], ...], of_atoms: bool, alpha: float) -> Task:
    losses = losses_of(kind)
    loss = loss or losses[0]
    if loss not in losses:
        if loss not in LOSSES:
            raise UsageError(f"there is no loss {loss!r}: choose among {', '.join(LOSSES)}")
        owner = LOSSES[loss].kinds[0]
        raise UsageError(
            f"the loss {loss!r} is of {owner} targets, and these are {kind}: choose {' or '.join(losses)}, or add "
            f"--task-type {ATOM_PREFIX if of_atoms else ''}{owner}"
        )
    if kind == Multiclass.kind:
        return Multiclass(loss, classes, of_atoms)
    if kind == Binary.kind:
        return Binary(loss, of_atoms)
    return Regression(loss, of_atoms, alpha if LOSSES[loss].has_quantiles else DEFAULT_ALPHA)


def _normalized(text: str) -> str:
    """A label for comparison: without surrounding white space, and a whole number without a decimal point."""
    text = text.strip()
    if NUMBER.fullmatch(text) and math.isfinite(float(text)) and float(text) == int(float(text)):
        return str(int(float(text)))
    return text


def _is_words(texts: Sequence[str]) -> bool:
    """Whether a column holds a few words that repeat, and no number."""
    known = [text for text in texts if text and not is_missing_word(text)]
    found = set(known)
    return (
        2 <= len(found) <= MAX_INFERRED_CLASSES
        and len(known) >= 2 * len(found)
        and not any(map(_starts_a_number, found))
    )


def _starts_a_number(text: str) -> bool:
    """Whether a text is, or was meant as, a number: 1.5, 0,5, >10, -inf."""
    return text.lstrip("<>=~+-. ")[:1].isdigit() or text.casefold().lstrip("+-") in ("inf", "infinity")


def _classes(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """The names of the classes in a column, in order."""
    found = {text for text in texts if text and not is_missing_word(text)}
    if not 2 <= len(found) <= MAX_CLASSES:
        raise InputError(
            f"column {name!r} holds {len(found)} different labels, and a target of several classes has 2 to "
            f"{MAX_CLASSES}: choose another --task-type or column"
        )
    numbers = [text for text in found if NUMBER.fullmatch(text)]
    if fraction := next((text for text in sorted(numbers) if "." in text or "e" in text.lower()), None):
        raise InputError(f"column {name!r} holds {fraction}, which is not a class: choose --task-type regression")
    return tuple(sorted(found, key=int) if len(numbers) == len(found) else sorted(found))


def _holds(names: Sequence[str]) -> str:
    return "holds" if len(names) == 1 else "hold"


def _abbreviated(names: Sequence[str]) -> str:
    shorter = ", ".join(names[:6])
    return shorter if len(names) <= 6 else f"{shorter}, ... ({len(names)})"
