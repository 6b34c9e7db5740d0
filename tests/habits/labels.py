"""Habits of target cells: missing values, words, bounds and numbers as chemists write them."""

from collections.abc import Sequence

from tests.habits.habit import SMILES, VALUES, Habit, csv_bytes


def _table(cells: Sequence[object], header: str = "y", delimiter: str = ",") -> bytes:
    """`SMILES` with a target column of these cells."""
    return csv_bytes([("smiles", header), *zip(SMILES, cells, strict=True)], delimiter)


def _without(missing: Sequence[int]) -> dict[str, object]:
    """The result for `VALUES` if the rows `missing` have no label: they are left out, and reported by line."""
    return {
        "smiles": [smiles for i, smiles in enumerate(SMILES) if i not in missing],
        "targets": [(value,) for i, value in enumerate(VALUES) if i not in missing],
        "rejected": {i + 2: "no value in column 'y'" for i in missing},
    }


def _with(cells: dict[int, object]) -> list[object]:
    """`VALUES`, with other cells in some rows."""
    return [cells.get(i, value) for i, value in enumerate(VALUES)]


_MISSING = {1: "NA", 4: "n.a.", 7: "#N/A", 9: "NaN", 12: "null", 15: "?", 18: "-"}


def _quoted(cells: Sequence[str]) -> bytes:
    """`SMILES` with a target column of these cells, which may contain commas."""
    return _table([f'"{cell}"' for cell in cells])


_COUNT = range(1, 21)
_BOUNDS = {1: ">3", 4: "<= -2", 8: ">= 0.5", 13: "< 4.5", 19: "\u22655"}
_ROWS = list(zip(SMILES, VALUES, strict=True))
_BINARY = [(int(i % 3 == 0),) for i in range(20)]

HABITS = [
    Habit(
        "words for a missing value",
        _table(_with(dict(_MISSING))),
        says=("7 cells of column 'y' are read as missing: 'NA' (1), 'n.a.' (1)", "and 1 other markers"),
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
    *(
        Habit(
            f"{negative} and {positive}",
            _table([(positive, negative)[i % 3 > 0] for i in range(20)]),
            targets=_BINARY,
            says=(f"task: binary, y holds the words {words}; the positive class is {positive}",),
        )
        for negative, positive, words in (
            ("inactive", "active", "active and inactive"),
            ("no", "yes", "no and yes"),
            ("False", "True", "False and True"),
            ("-", "+", "+ and -"),
            ("negative", "positive", "negative and positive"),
            ("nontoxic", "toxic", "nontoxic and toxic"),
            ("N", "Y", "N and Y"),
            ("f", "t", "f and t"),
            ("blue", "red", "blue and red"),
        )
    ),
    Habit("1 and 0", _table([int(i % 3 == 0) for i in range(20)]), targets=_BINARY, says=("y holds only 0 and 1",)),
    Habit(
        "a chosen positive class",
        _table([("red", "blue")[i % 3 > 0] for i in range(20)]),
        options={"positive_class": "Blue"},
        targets=[(1 - y,) for (y,) in _BINARY],
        says=("the positive class is blue; --positive-class overrides it",),
    ),
    Habit(
        "a positive class that the column does not hold",
        _table([("red", "blue")[i % 3 > 0] for i in range(20)]),
        options={"positive_class": "green"},
        error="no target is of the class 'green', which --positive-class names: y holds blue, red",
    ),
    Habit(
        "classes in several spellings",
        _table([("Active", "ACTIVE", "active", "inactive", "Inactive")[i % 5] for i in range(20)]),
        targets=[(int(i % 5 < 3),) for i in range(20)],
        says=(
            "letter case is ignored, 'ACTIVE' (4) and 'active' (4) as 'Active' (4), 'Inactive' (4) as 'inactive' (4)",
            "the positive class is Active",
        ),
    ),
    Habit(
        "three classes in several spellings",
        _table([("low", "LOW", "mid", "high")[i % 4] for i in range(20)]),
        targets=[((1, 1, 2, 0)[i % 4],) for i in range(20)],
        says=("task: multiclass, y holds words: high, low, mid", "'LOW' (5) as 'low' (5)"),
    ),
    Habit(
        "words in one column and zeros and ones in another",
        csv_bytes([("smiles", "a", "b"), *((s, ("yes", "no")[i % 3 > 0], i % 2) for i, s in enumerate(SMILES))]),
        options={"target_columns": ("a", "b")},
        targets=[(int(i % 3 == 0), i % 2) for i in range(20)],
        says=("task: binary, 2 targets hold two words each; the positive classes are yes (a), 1 (b)",),
    ),
    Habit(
        "three words as a binary target",
        _table([("red", "green", "blue")[i % 3] for i in range(20)]),
        options={"task_type": "binary"},
        error="column 'y' holds 3 different labels, red, green, blue, and a binary target has two",
    ),
    Habit(
        "a few words among numbers",
        _table(_with({3: "insoluble", 8: "see text"})),
        smiles=[s for i, s in enumerate(SMILES) if i not in (3, 8)],
        targets=[(v,) for i, v in enumerate(VALUES) if i not in (3, 8)],
        rejected={5: "'insoluble' is not a finite number", 10: "'see text' is not a finite number"},
    ),
    Habit(
        "many words among numbers",
        _table(_with({3: "insoluble", 8: "see text", 10: "inf", 11: "", 12: "NA"})),
        error=(
            "3 of 18 target values cannot be read (16.7%, and --max-unreadable allows 10%); line 5, column 'y': "
            "'insoluble' is not a finite number; line 10, column 'y': 'see text' is not a finite number; line 12, "
            "column 'y': 'inf' is not a finite number; correct or empty them"
        ),
    ),
    Habit(
        "many words among numbers, which may be left out",
        _table(_with(dict.fromkeys((1, 3, 5, 7), "insoluble"))),
        options={"max_unreadable": 0.2},
        smiles=[s for i, s in enumerate(SMILES) if i not in (1, 3, 5, 7)],
        targets=[(v,) for i, v in enumerate(VALUES) if i not in (1, 3, 5, 7)],
        rejected=dict.fromkeys((3, 5, 7, 9), "'insoluble' is not a finite number"),
        says=("4 rows are left out, see rejected.csv; the first, line 3",),
    ),
    Habit(
        "a third word in a binary target",
        _table([("active", "inactive")[i % 2] if i != 5 else "inconclusive" for i in range(20)]),
        options={"task_type": "binary"},
        smiles=[s for i, s in enumerate(SMILES) if i != 5],
        targets=[(1 - i % 2,) for i in range(20) if i != 5],
        rejected={7: "'inconclusive' is none of the classes inactive, active"},
        says=("y holds the words active and inactive; the positive class is active",),
    ),
    Habit(
        "a binary target with many other words",
        _table([("active", "inactive", "inconclusive")[i % 3] for i in range(20)]),
        options={"task_type": "binary"},
        error="6 of 20 target values cannot be read (30%, and --max-unreadable allows 10%); line 4, column 'y': 'inc",
    ),
    Habit(
        "SMILES that cannot be read",
        csv_bytes([("smiles", "y"), *((s if i % 3 else "C(", v) for i, (s, v) in enumerate(_ROWS))]),
        smiles=[s for i, s in enumerate(SMILES) if i % 3],
        targets=[(v,) for i, v in enumerate(VALUES) if i % 3],
        rejected={i + 2: "" for i in range(0, 20, 3)},
    ),
    Habit(
        "bounds among numbers",
        _table(_with(dict(_BOUNDS))),
        targets=[(None if i in _BOUNDS else v,) for i, v in enumerate(VALUES)],
        says=(
            "task: regression, y holds numbers, and 5 of 20 are bounds such as >3: the loss is bounded-mse; "
            "--loss-function overrides it",
        ),
    ),
    Habit(
        "bounds of one of two targets",
        csv_bytes([("smiles", "a", "b"), *zip(SMILES, _with(dict(_BOUNDS)), VALUES, strict=True)]),
        options={"target_columns": ("a", "b"), "task_type": "regression"},
        targets=[(None if i in _BOUNDS else v, v) for i, v in enumerate(VALUES)],
        says=("2 targets hold numbers, and 5 of 40 are bounds such as >3: the loss is bounded-mse",),
    ),
    Habit(
        "bounds that a binary target cannot be",
        _table([">1" if i in (3, 4, 5) else i % 2 for i in range(20)]),
        options={"task_type": "binary"},
        error="line 5, column 'y': '>1' is a bound, and a binary target has none; line 6",
    ),
    Habit(
        "approximate numbers",
        _table(_with({2: "~3", 9: "\u22485.5"})),
        smiles=[s for i, s in enumerate(SMILES) if i not in (2, 9)],
        targets=[(v,) for i, v in enumerate(VALUES) if i not in (2, 9)],
        rejected={4: "write 3 to use it as exact", 11: "write 5.5 to use it as exact"},
    ),
    *(
        Habit(
            f"thousands and fractions as {name}",
            _quoted([f"{i},234.5".replace(",", "T").replace(".", decimal).replace("T", thousands) for i in _COUNT]),
            targets=[(1000 * i + 234.5,) for i in _COUNT],
            says=(f"is read as {1234.5}",),
        )
        for name, thousands, decimal in (
            ("1,234.5", ",", "."),
            ("1.234,5", ".", ","),
            ("1 234.5", " ", "."),
            ("1 234,5", "\u202f", ","),
            ("1'234.5", "'", "."),
        )
    ),
    Habit(
        "thousands with a space",
        _quoted([f"{i} 000" for i in _COUNT]),
        targets=[(1000 * i,) for i in _COUNT],
        says=("column 'y' has thousands separators ' ': '1 000' is read as 1000",),
    ),
    Habit(
        "decimal commas between commas",
        _quoted([str(v).replace(".", ",") for v in VALUES]),
        says=("column 'y' has decimal commas: '-1,5' is read as -1.5",),
    ),
    Habit(
        "a comma that may be either",
        _quoted([f"{i},700" for i in _COUNT]),
        error="column 'y' is ambiguous: '1,700' is 1700 with --thousands ',' or 1.700 with --decimal ',';",
    ),
    Habit(
        "a comma that is said to separate thousands",
        _quoted([f"{i},700" for i in _COUNT]),
        options={"thousands": ","},
        targets=[(1000 * i + 700,) for i in _COUNT],
        says=("'1,700' is read as 1700",),
    ),
    Habit(
        "a comma that is said to be a decimal mark",
        _quoted([f"{i},700" for i in _COUNT]),
        options={"decimal": ","},
        targets=[(i + 0.7,) for i in _COUNT],
        says=("'1,700' is read as 1.700",),
    ),
    Habit(
        "bounds with decimal commas",
        _table([f"> {i},5" if i % 4 == 0 else f"{i},25" for i in _COUNT], delimiter=";"),
        targets=[(None if i % 4 == 0 else i + 0.25,) for i in _COUNT],
        says=("decimal commas", "5 of 20 are bounds such as >4.5"),
    ),
    Habit("a unit in the header", _table(VALUES, "IC50 [nM]")),
    Habit("a column named without its unit", _table(VALUES, "logS (mol/L)"), options={"target_columns": ("logS",)}),
    Habit(
        "a column named without its unit, which two have",
        csv_bytes([("smiles", "Ki [nM]", "Ki [uM]"), *zip(SMILES, VALUES, VALUES, strict=True)]),
        options={"target_columns": ("Ki",)},
        error="has no column 'Ki'; it has 'smiles', 'Ki [nM]', 'Ki [uM]'",
    ),
]
