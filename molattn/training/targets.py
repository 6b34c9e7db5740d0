"""Encodes the target columns of a table as numbers: class names as indices; cells without a label are reported."""

from collections.abc import Sequence
from dataclasses import replace

from molattn.data.tables.atom_lists import (
    ReorderedTable,
    format_list,
    is_rdkit_atom_list,
    parse_list,
    reorder_atom_lists,
)
from molattn.data.tables.cells import NUMBER, is_na_value, parse_bound, parse_numbers
from molattn.data.tables.missing_values import replace_na_values
from molattn.data.tables.number_columns import normalize_numbers
from molattn.data.tables.number_formats import has_grouped_digits
from molattn.data.tables.options import DEFAULT_TABLE_OPTIONS, TableOptions
from molattn.data.tables.records import parse_lists
from molattn.data.tables.table import Table, column, column_index
from molattn.errors import UsageError, short_ascii, short_repr
from molattn.models.losses import bounds_unsupported_reason
from molattn.models.names import ATOM_PREFIX
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.training.class_names import (
    MAX_SPELLINGS,
    ZERO_ONE,
    abbreviate,
    class_codes,
    clean_label,
    count_labels,
    describe_spellings,
    find_classes,
    fold_label,
)
from molattn.training.encoded_table import EncodedTable, UnreadableCell


def has_atom_targets(table: Table, columns: Sequence[str], task_type: str) -> bool:
    """Whether the targets are atom-level: by the task type, or if that is empty, whether most cells hold lists.

    Raises:
        UsageError: some columns hold lists and others do not, or the task type is not of atoms and columns hold lists.
    """
    if task_type.startswith(ATOM_PREFIX):
        return True
    lists = [name for name in columns if is_rdkit_atom_list(table, name) or _holds_lists(column(table, name))]
    if not lists:
        return False
    if task_type:
        raise UsageError(
            f"column {short_repr(lists[0])} holds a list for each molecule, one value for each atom: "
            f"--task-type {ATOM_PREFIX}{task_type} learns that"
        )
    if other := next((name for name in columns if name not in lists), ""):
        raise UsageError(
            f"column {short_repr(lists[0])} holds a list with a value for each atom and column {short_repr(other)} one "
            "value for each molecule: a model learns the one or the other, so train one for each"
        )
    return True


def _holds_lists(cells: Sequence[str]) -> bool:
    filled = [text for text in cells if text.strip()]
    return bool(filled) and 2 * sum(map(_is_list, filled)) > len(filled)


def _is_list(text: str) -> bool:
    """Whether a cell certainly holds a list: in brackets, or several numbers separated by spaces, but not 1 234."""
    if text.strip().startswith("["):
        return True
    items = text.split()
    return len(items) > 1 and all(map(NUMBER.fullmatch, items)) and not has_grouped_digits(text.strip())


def encode_targets(
    table: Table,
    columns: Sequence[str],
    task_type: str,
    classes: tuple[tuple[str, ...], ...] = (),
    atom_level: bool = False,
    add_hs: bool = False,
    positive_class: str = "",
    loss: str = "",
    options: TableOptions = DEFAULT_TABLE_OPTIONS,
) -> EncodedTable:
    """Encode class names as indices, empty cells of missing values, and reorder lists of atoms as in the SMILES.

    Targets are classes by the task type, or if that is empty and the columns hold a few repeated words and no number:
    two words are a binary target, see `molattn.training.class_names`. Letter case is ignored.

    Args:
        table, columns: the table and its target columns.
        task_type: empty to infer it.
        classes: the class names of a model that is evaluated; found in the table when empty.
        atom_level: whether a cell holds a list, with a value for each atom. The lists of an SDF are reordered as the
            atoms in the SMILES.
        add_hs: whether hydrogens are atoms, after the others.
        positive_class: the positive one of two classes; empty to find it.
        loss: the loss for regression, which determines whether bounds can be used; empty to choose it by the targets.
        options: the decimal mark and the thousands separator: see `normalize_numbers`.

    Raises:
        InputError: a column of classes holds fewer than two, too many, or fractions.
        UsageError: `positive_class` is not one of two classes.
    """
    reasons: dict[int, str] = {}
    warnings: tuple[str, ...] = ()
    kind = task_type.removeprefix(ATOM_PREFIX)
    if atom_level:
        ordered = reorder_atom_lists(table, columns, add_hs)
        table, reasons, warnings = ordered.table, ordered.reasons, _left_out(ordered)
    else:
        table, warnings = replace_na_values(table, columns, classes)
        if kind != Multiclass.kind and not classes:
            table, messages = normalize_numbers(table, columns, options)
            warnings += messages
    positions = [column_index(table, name) for name in columns]
    no_bounds = f"a {kind} target has none" if kind == Binary.kind else bounds_unsupported_reason(loss)
    # A column with too many different texts holds no classes, so its labels need not be counted.
    too_many_texts = not (kind or classes or atom_level) and any(
        len({row[position] for row in table.rows}) > MAX_SPELLINGS for position in positions
    )
    if (kind == Regression.kind or too_many_texts) and not positive_class:
        return _encode_numbers(table, columns, atom_level, no_bounds, reasons, warnings)
    cells = [[_labels(row[position], atom_level) for row in table.rows] for position in positions]
    counts = [
        count_labels([text for labels in column_cells for text in labels or () if _is_label(text, atom_level)])
        for column_cells in cells
    ]
    found = classes or find_classes(columns, counts, kind, positive_class)
    if not found:
        return _encode_numbers(table, columns, atom_level, no_bounds, reasons, warnings)
    codes = []
    for name, names, column_counts in zip(columns, found, counts, strict=True):
        code = {text: str(i) for text, i in class_codes(names).items()} | {"": ""}
        holds_zero_one = set(column_counts) <= set(ZERO_ONE) and not set(column_counts) & set(code)
        if classes and kind == Binary.kind and holds_zero_one:
            code |= {"0": "0", "1": "1"}
            negative, positive = names
            warnings += (f"column {short_repr(name)} holds 0 and 1: 1 is read as {positive} and 0 as {negative}",)
        warnings += tuple(filter(None, (describe_spellings(name, column_counts, names),)))
        codes.append(code)
    return _encode_classes(table, columns, found, cells, codes, atom_level, reasons, warnings)


def _is_label(text: str, atom_level: bool) -> bool:
    """Whether a text is a class name; in a list, texts for a missing value such as "nan" are not."""
    return bool(text) and not (atom_level and is_na_value(text))


def _encode_classes(
    table: Table,
    columns: Sequence[str],
    classes: tuple[tuple[str, ...], ...],
    cells: Sequence[Sequence[list[str] | None]],
    codes: Sequence[dict[str, str]],
    atom_level: bool,
    reasons: dict[int, str],
    warnings: tuple[str, ...],
) -> EncodedTable:
    """The table of classes, with the index of the class in place of its name.

    Args:
        table, columns: the table and its target columns.
        classes: the names of the classes of each target.
        cells: for each target the labels in each cell, None where it should hold a list and does not.
        codes: for each target the index of each name.
        atom_level: whether a cell holds a list, with a value for each atom.
        reasons, warnings: further ones, see `EncodedTable`.
    """
    positions = [column_index(table, name) for name in columns]
    unreadable: list[UnreadableCell] = []
    rows = [list(row) for row in table.rows]
    for t, (name, position) in enumerate(zip(columns, positions, strict=True)):
        for row, labels in enumerate(cells[t]):
            if labels is None:
                unreadable.append(UnreadableCell(row, f"column {short_repr(name)}: it holds no list"))
                continue
            encoded = [codes[t].get(text, codes[t].get(fold_label(text))) for text in labels]
            if None in encoded:
                atom = encoded.index(None)
                where = f"column {short_repr(name)}{f', atom {atom} (from 0)' if atom_level else ''}"
                reasons[row] = f"{where}: {_unknown_class(labels[atom], classes[t], atom_level)}"
                unreadable.append(UnreadableCell(row, reasons[row]))
            else:
                indices = list(map(str, encoded))
                rows[row][position] = format_list(indices) if atom_level else indices[0]
    for row in reasons:
        for position in positions:
            rows[row][position] = ""
    num_cells = sum(any(labels) if labels else labels is None for column_cells in cells for labels in column_cells)
    return EncodedTable(replace(table, rows=rows), classes, reasons, warnings, tuple(unreadable), num_cells)


def _left_out(ordered: ReorderedTable) -> tuple[str, ...]:
    """A warning about values of hydrogens that are not used; empty if there are none."""
    if not ordered.left_out:
        return ()
    count, first = len(ordered.left_out), ordered.table.location(ordered.left_out[0])
    rows = "1 record has" if count == 1 else f"{count} records have"
    return (f"{rows} values of hydrogens, which are left out; the first, {first}; --add-hs learns them, too",)


def _labels(text: str, atom_level: bool) -> list[str] | None:
    """The labels in a cell; None if it should hold a list and does not."""
    if not atom_level:
        return [clean_label(text)]
    try:
        return [clean_label(item) for item in parse_list(text)]
    except ValueError:
        return None


def _unknown_class(text: str, classes: Sequence[str], atom_level: bool) -> str:
    if is_na_value(text):
        return f"{short_ascii(text)}: {'write null' if atom_level else 'leave the field empty'} for a missing value"
    return f"{short_repr(text)} is none of the classes {abbreviate(classes)}"


def _encode_numbers(
    table: Table,
    columns: Sequence[str],
    atom_level: bool,
    no_bounds: str,
    reasons: dict[int, str],
    warnings: tuple[str, ...],
) -> EncodedTable:
    """The table of regression targets, with empty cells in place of bounds that cannot be used.

    Args:
        table, columns: the table and its target columns.
        atom_level: whether a cell holds a list, with a value for each atom.
        no_bounds: why bounds cannot be used; empty if they can.
        reasons, warnings: further ones, see `EncodedTable`.
    """
    positions = [column_index(table, name) for name in columns]
    unreadable: list[UnreadableCell] = []
    rows, only_bounds, num_cells, num_bounds, example = list(table.rows), {}, 0, 0, ""
    words: dict[str, str] = {}
    numbers = ""
    for name, position in zip(columns, positions, strict=True):
        readable_before, word = num_cells - len(unreadable), ""
        for row, cells in enumerate(table.rows):
            if not (cell := cells[position]).strip():
                continue
            num_cells += 1
            reason = parse_lists([cell], [name])[1] if atom_level else parse_numbers([cell], [name])[1]
            is_bound = reason is not None and not atom_level and parse_bound(cell) is not None
            if reason is None or (is_bound and not no_bounds):
                continue
            if is_bound:
                reason = f"column {short_repr(name)}: {short_ascii(cell)} is a bound, and {no_bounds}"
                num_bounds, example = num_bounds + 1, example or cell
                rows[row] = [*rows[row][:position], "", *rows[row][position + 1 :]]
                if not any(rows[row][k].strip() for k in positions):
                    only_bounds[row] = reason
            unreadable.append(UnreadableCell(row, reason))
            word = word or ("" if is_bound or is_na_value(cell) else cell)
        if num_cells - len(unreadable) > readable_before:
            numbers = numbers or name
        elif word:
            words[name] = word
    advice = ""
    if words and numbers:
        name, word = next(iter(words.items()))
        advice = (
            f"column {short_repr(name)} holds no numbers but {short_ascii(word)} and the like, and "
            f"{short_repr(numbers)} holds numbers: choose --target-columns of one kind, since classes and numbers are "
            "trained in separate runs"
        )
    if num_bounds:
        count = "1 label is a bound" if num_bounds == 1 else f"{num_bounds:,} labels are bounds"
        treated = "it counts" if num_bounds == 1 else "they count"
        warnings += (f"{count}, such as {short_repr(example)}; {treated} as missing, because {no_bounds}",)
        table = replace(table, rows=rows)
    return EncodedTable(table, (), only_bounds | reasons, warnings, tuple(unreadable), num_cells, advice)
