"""Missing-value markers of a table, such as NA and n.d., replaced by empty cells."""

from collections import Counter
from collections.abc import Sequence

from molattn.data.tables.cells import count_na_values, describe_na_values
from molattn.data.tables.table import Table, column_index


def replace_na_values(
    table: Table, columns: Sequence[str], classes: tuple[tuple[str, ...], ...] = ()
) -> tuple[Table, tuple[str, ...]]:
    """Replace missing-value markers by empty cells.

    Args:
        table: the table.
        columns: the names of the columns.
        classes: the class labels of each column, which are not markers there; empty for none.

    Returns:
        The table, and a warning about the replaced markers, if there are any.

    Raises:
        UsageError: the table does not have a column.
    """
    replaced, names = {}, []
    total: Counter[str] = Counter()
    for t, name in enumerate(columns):
        index = column_index(table, name)
        cells = [row[index] for row in table.rows]
        counts = count_na_values(cells)
        for label in classes[t] if classes else ():
            del counts[label]
        if counts:
            replaced[index] = ["" if cell.strip() in counts else cell for cell in cells]
            names.append(name)
            total += counts
    return table.replace_columns(replaced), (describe_na_values(total, names),) if names else ()
