"""Habits of target cells: missing values, words, bounds and numbers as chemists write them."""

from collections.abc import Sequence

from tests.habits.habit import SMILES, VALUES, Habit, csv_bytes


def _table(cells: Sequence[object], header: str = "y", delimiter: str = ",") -> bytes:
    """`SMILES` with a target column of these cells."""
    return csv_bytes([("smiles", header), *zip(SMILES, cells, strict=True)], delimiter)


def _without(missing: Sequence[int]) -> dict[str, object]:
    """What comes of `VALUES` if the rows `missing` have no label: they are left out, and said so line by line."""
    return {
        "smiles": [smiles for i, smiles in enumerate(SMILES) if i not in missing],
        "targets": [(value,) for i, value in enumerate(VALUES) if i not in missing],
        "rejected": {i + 2: "no value in column 'y'" for i in missing},
    }


def _with(cells: dict[int, object]) -> list[object]:
    """`VALUES`, with other cells in some rows."""
    return [cells.get(i, value) for i, value in enumerate(VALUES)]


_MISSING = {1: "NA", 4: "n.a.", 7: "#N/A", 9: "NaN", 12: "null", 15: "?", 18: "-"}

HABITS = [
    Habit(
        "words for a missing value",
        _table(_with(dict(_MISSING))),
        says=("7 cells of column 'y' are read as missing: 'NA' (1), 'n.a.' (1)", "and 1 other words"),
        **_without(list(_MISSING)),  # pyright: ignore[reportArgumentType]
    ),
    Habit(
        "a missing value beside a known one",
        csv_bytes(
            [("smiles", "a", "b"), *zip(SMILES, _with(dict.fromkeys((1, 6, 11, 16), "NA")), VALUES, strict=True)]
        ),
        options={"target_columns": ("a", "b")},
        targets=[(None if i % 5 == 1 else v, v) for i, v in enumerate(VALUES)],
        says=("4 cells of column 'a' are read as missing: 'NA' (4)",),
    ),
]
