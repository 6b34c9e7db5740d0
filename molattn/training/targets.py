"""What a table's targets are: the task taken from them, and the names of classes as numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from molattn.data.numbers import NUMBER
from molattn.data.tables import Table, column_index
from molattn.errors import InputError, UsageError, shown
from molattn.models.tasks import TASKS, Binary, Multiclass, Regression, Task

MOST_CLASSES = 100
"""Classes that a target may have when it is said to have classes."""
MOST_GUESSED = 20
"""Names up to which a column of words is taken for classes without being told."""

# Ways of writing that there is no value; records.py tells people to leave the cell empty instead.
_MISSING = frozenset(("nan", "na", "n/a", "n/d", "nd", "null", "none", "-", "?"))
_ALIASES = {"classification": "binary"}


@dataclass(frozen=True)
class Coded:
    """A table whose target columns hold numbers.

    Attributes:
        table: with the place of its class in each cell, where there are classes; otherwise as it was.
        classes: the names of the classes of each target; empty where there are none.
        reasons: why a row holds no class, by row; the targets of such a row are empty in `table`.
    """

    table: Table
    classes: tuple[tuple[str, ...], ...] = ()
    reasons: dict[int, str] = field(default_factory=dict)


def task_kind(text: str) -> str:
    """The kind of task that a person wrote; empty stays empty, "classification" is binary.

    Raises:
        UsageError: there is no such kind.
    """
    kind = _ALIASES.get(text, text)
    if kind and kind not in TASKS:
        raise UsageError(f"there is no task type {text!r}: choose one of {', '.join(TASKS)}")
    return kind


def code_targets(table: Table, columns: Sequence[str], kind: str, classes: tuple[tuple[str, ...], ...] = ()) -> Coded:
    """The table with classes as their places, where its targets are classes.

    They are if `kind` says so, or if it is empty and the columns hold a few repeated words and no number. Classes are
    whole numbers in their order, or else words in alphabetical order.

    Args:
        table, columns: the table and its target columns.
        kind: of the task; empty where nobody said.
        classes: the names, where a model knows them already; found in the table when empty.

    Raises:
        InputError: a column that is to hold classes holds fewer than two, too many, or fractions.
    """
    places = [column_index(table, name) for name in columns]
    cells = [[_bare(row[place]) for row in table.rows] for place in places]
    if kind != "multiclass" and (kind or not all(map(_is_words, cells))):
        return Coded(table)
    classes = classes or tuple(_classes(name, texts) for name, texts in zip(columns, cells, strict=True))
    rows = [list(row) for row in table.rows]
    reasons: dict[int, str] = {}
    for t, (name, place) in enumerate(zip(columns, places, strict=True)):
        code = {label: str(i) for i, label in enumerate(classes[t])}
        for row, text in enumerate(cells[t]):
            if not text:
                continue
            if text in code:
                rows[row][place] = code[text]
            elif text.casefold() in _MISSING:
                reasons[row] = f"column {shown(name)}: {shown(text)}: leave the field empty for a missing value"
            else:
                reasons[row] = f"column {shown(name)}: {shown(text)} is none of the classes {_listed(classes[t])}"
    for row in reasons:
        for place in places:
            rows[row][place] = ""
    return Coded(replace(table, rows=rows), classes, reasons)


def choose_task(
    kind: str, loss: str, targets: np.ndarray, names: Sequence[str], classes: tuple[tuple[str, ...], ...]
) -> tuple[Task, str]:
    """The task of a run, and in one sentence what was taken and how to say otherwise; empty where it was said.

    Zeros and ones are a binary target, where every value known is one of them and some target has both; other numbers
    are numbers, few as they may be.

    Args:
        kind: what a person or a data set's card says; empty where nobody did.
        loss: the loss asked for, or empty.
        targets: (n, T), NaN where missing.
        names: of the targets.
        classes: names of the classes of each target; empty for numbers.

    Raises:
        InputError: the targets are not what was said.
        UsageError: the loss is another task's.
    """
    guessed = kind or _guess(targets, classes)
    chosen = _made(guessed, loss, classes)
    chosen.check(targets, names)
    if kind:
        return chosen, ""
    what = names[0] if len(names) == 1 else f"{len(names)} targets"
    other = "--task-type says otherwise"
    if guessed == "multiclass":
        return chosen, f"task: multiclass, {what} holds words: {_listed(classes[0])}; {other}"
    if guessed == "binary":
        return chosen, f"task: binary, {what} {_holds(names)} only 0 and 1; {other}"
    known = targets[np.isfinite(targets)]
    few = np.unique(known)
    if 2 <= len(few) <= 10 and not (few % 1).any() and len(known) >= 10 * len(few):
        listed = ", ".join(f"{v:g}" for v in few)
        held = f"{what} {_holds(names)} the numbers {listed}"
        return chosen, f"task: regression, {held}; if they are classes, add --task-type multiclass"
    return chosen, f"task: regression, {what} {_holds(names)} numbers; {other}"


def lone_classes(targets: np.ndarray, names: Sequence[str], task: Task) -> list[str]:
    """The targets, (n, T), of which all training labels are of one class; the model can only learn to say that."""
    if isinstance(task, Regression):
        return []
    known = [column[np.isfinite(column)] for column in targets.T]
    return [name for name, y in zip(names, known, strict=True) if len(y) and not (y != y[0]).any()]


def _guess(targets: np.ndarray, classes: tuple[tuple[str, ...], ...]) -> str:
    if classes:
        return "multiclass"
    known = [set(np.unique(column[np.isfinite(column)]).tolist()) for column in targets.T]
    binary = all(values <= {0.0, 1.0} for values in known) and any(len(values) == 2 for values in known)
    return "binary" if binary else "regression"


def _made(kind: str, loss: str, classes: tuple[tuple[str, ...], ...]) -> Task:
    losses = TASKS[kind].losses
    loss = loss or losses[0]
    if loss not in losses:
        owner = next((k for k, task in TASKS.items() if loss in task.losses), "")
        if not owner:
            known = ", ".join(name for task in TASKS.values() for name in task.losses)
            raise UsageError(f"there is no loss {loss!r}: choose among {known}")
        raise UsageError(
            f"the loss {loss!r} is of {owner} targets, and these are {kind}: choose {' or '.join(losses)}, or add "
            f"--task-type {owner}"
        )
    if kind == Multiclass.kind:
        return Multiclass(loss, classes)
    return Binary(loss) if kind == Binary.kind else Regression(loss)


def _bare(text: str) -> str:
    """A label as it is compared: without white space around it, a whole number without its point."""
    text = text.strip()
    if NUMBER.fullmatch(text) and math.isfinite(float(text)) and float(text) == int(float(text)):
        return str(int(float(text)))
    return text


def _is_words(texts: Sequence[str]) -> bool:
    """Whether a column holds a few words that repeat, and no number."""
    known = [text for text in texts if text and text.casefold() not in _MISSING]
    found = set(known)
    return 2 <= len(found) <= MOST_GUESSED and len(known) >= 2 * len(found) and not any(map(_starts_a_number, found))


def _starts_a_number(text: str) -> bool:
    """Whether a text is, or was meant to be, a number: 1.5, 0,5, >10, -inf."""
    return text.lstrip("<>=~+-. ")[:1].isdigit() or text.casefold().lstrip("+-") in ("inf", "infinity")


def _classes(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """The names of the classes in a column, in order."""
    found = {text for text in texts if text and text.casefold() not in _MISSING}
    if not 2 <= len(found) <= MOST_CLASSES:
        raise InputError(
            f"column {name!r} holds {len(found)} different labels, and a target of several classes has 2 to "
            f"{MOST_CLASSES}: choose another --task-type or column"
        )
    numbers = [text for text in found if NUMBER.fullmatch(text)]
    if fraction := next((text for text in sorted(numbers) if "." in text or "e" in text.lower()), None):
        raise InputError(f"column {name!r} holds {fraction}, which is no class: choose --task-type regression")
    return tuple(sorted(found, key=int) if len(numbers) == len(found) else sorted(found))


def _holds(names: Sequence[str]) -> str:
    return "holds" if len(names) == 1 else "hold"


def _listed(names: Sequence[str]) -> str:
    shorter = ", ".join(names[:6])
    return shorter if len(names) <= 6 else f"{shorter}, ... ({len(names)})"
