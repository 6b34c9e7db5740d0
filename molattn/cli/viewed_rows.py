"""The rows of a table that `molattn view` shows."""

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from molattn.cli.terminal import warn
from molattn.errors import InputError

if TYPE_CHECKING:
    from molattn.inference import Predictor
    from molattn.inference.table_job import InputTable
    from molattn.viewer.web.outcomes import MeasuredValues


@dataclass(frozen=True)
class ViewedRows:
    """The first n molecules of a table.

    Attributes:
        smiles: their SMILES.
        locations: their locations, for messages.
        measured: their measured values, by the name of the target.
        names: their names; empty for a table without a column of names.
        note: that the table has more rows; empty if it does not.
    """

    smiles: list[object]
    locations: list[str]
    measured: list["MeasuredValues | None"]
    names: list[str] = field(default_factory=list)
    note: str = ""


def first_rows(
    predictor: "Predictor", table: "InputTable", max_rows: int, names_column: str | None = None
) -> ViewedRows:
    """The first molecules of a table, with their measured values and names.

    Args:
        predictor: the model, whose targets are the columns of measured values.
        table: the table.
        max_rows: how many rows are read.
        names_column: the column of names; guessed by its name if None.

    Raises:
        InputError: the table has no rows; and as `InputTable.open`.
        UsageError: an unknown column.
    """
    from molattn.data.tables.columns import find_column
    from molattn.data.tables.number_columns import NumberColumns
    from molattn.viewer.report.names import guess_names_column

    with table.open(predictor.read_options.max_atoms, warn) as (stream, smiles_column):
        index = find_column(stream.columns, smiles_column, stream.source)
        columns = [name.strip() for name in stream.columns]
        targets = {t: columns.index(t) for t in predictor.targets if t in columns}
        chosen = names_column or guess_names_column(columns)
        name_index = find_column(stream.columns, chosen, stream.source) if chosen else None
        has_numbers = predictor.task.kind == "regression" and not predictor.task.atom_level
        numbers = NumberColumns(stream, [*targets] if has_numbers else [], table.options, warn)
        texts: list[object] = []
        locations: list[str] = []
        measured: list[MeasuredValues | None] = []
        names: list[str] = []
        for chunk in stream.chunks:
            rows_of_chunk = chunk.rows()
            for values, k in zip(numbers.read(chunk), targets.values(), strict=False):  # without numbers, of no target
                for row, value in zip(rows_of_chunk, values, strict=True):
                    row[k] = value if isinstance(value, str) else row[k]
            rows = zip(stream.molecule_column(chunk, index), chunk.lines, rows_of_chunk, strict=True)
            for text, line, cells in islice(rows, max_rows + 1 - len(texts)):
                texts.append(text)
                locations.append(f"{stream.line_kind} {line}")
                measured.append({t: _value(cells[k]) for t, k in targets.items()})
                if name_index is not None:
                    names.append(cells[name_index].strip())
            if len(texts) > max_rows:
                break
    if not texts:
        raise InputError(f"{table.path} has no rows")
    note = f", the first of {table.path}; --max-rows shows more" if len(texts) > max_rows else ""
    return ViewedRows(texts[:max_rows], locations[:max_rows], measured[:max_rows], names[:max_rows], note)


def _value(text: str) -> float | str | None:
    """A number, or the name of a class; None for an empty cell."""
    from molattn.data.tables.cells import NUMBER

    text = text.strip()
    return float(text) if NUMBER.fullmatch(text) else text or None
