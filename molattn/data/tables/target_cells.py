"""Missing-value markers in target columns."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from molattn.data.tables.missing import describe_missing_words, missing_words
from molattn.data.tables.table import Table, column_index


def without_missing_words(
    table: Table, columns: Sequence[str], classes: tuple[tuple[str, ...], ...] = ()
) -> tuple[Table, tuple[str, ...]]:
    """The table with empty cells in place of missing-value markers, and a message about them, if there are any.

    A marker that is one of the classes of its column stays.
    """
    positions = [column_index(table, name) for name in columns]
    missing: dict[int, Counter[str]] = {}
    for t, k in enumerate(positions):
        words = missing_words([row[k] for row in table.rows])
        for name in classes[t] if classes else ():
            del words[name]
        if words:
            missing[k] = words
    if not missing:
        return table, ()
    rows = list(table.rows)
    for i, row in enumerate(table.rows):
        if any(row[k].strip() in words for k, words in missing.items()):
            rows[i] = ["" if k in missing and cell.strip() in missing[k] else cell for k, cell in enumerate(row)]
    names = [name for name, k in zip(columns, positions, strict=True) if k in missing]
    return replace(table, rows=rows), (describe_missing_words(sum(missing.values(), Counter()), names),)
