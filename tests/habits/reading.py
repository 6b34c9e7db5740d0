"""Habits of tables: columns, delimiters, encodings, headers and formats."""

from tests.habits.habit import SMILES, VALUES, Habit, csv_bytes

_ROWS = list(zip(SMILES, VALUES, strict=True))

HABITS = [
    Habit("a plain table", csv_bytes([("smiles", "y"), *_ROWS])),
    Habit(
        "semicolons and decimal commas",
        csv_bytes([("smiles", "y"), *((s, str(v).replace(".", ",")) for s, v in _ROWS)], ";"),
        says=("decimal commas",),
    ),
    Habit(
        "two columns of one name", csv_bytes([("smiles", "y", "y"), *((s, v, v) for s, v in _ROWS)]), error="both named"
    ),
]
