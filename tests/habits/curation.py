"""Habits of labels: molecules that are measured several times, salts, values over orders of magnitude, rare classes."""

from tests.habits.habit import SMILES, VALUES, Habit, csv_bytes

_ROWS = list(zip(SMILES, VALUES, strict=True))
_TARGETS = tuple((value,) for value in VALUES)

HABITS = [
    Habit(
        "a molecule twice, spelled in two ways, with labels far apart",
        csv_bytes([("smiles", "y"), *_ROWS, ("OCC", 9.0)]),
        smiles=(*SMILES, "OCC"),
        targets=(*_TARGETS, (9.0,)),
        says=("1 molecule is in several rows, 2 in all; the labels of 1 differ", "lines 2 and 22: -1.5 and 9"),
    ),
    Habit(
        "a molecule twice with the same label",
        csv_bytes([("smiles", "y"), *_ROWS, ("OCC", VALUES[0])]),
        smiles=(*SMILES, "OCC"),
        targets=(*_TARGETS, _TARGETS[0]),
        says=("1 molecule is in several rows, 2 in all, with labels that agree",),
    ),
    Habit(
        "a salt among the molecules",
        csv_bytes([("smiles", "y"), *_ROWS, ("CC[NH3+].[Cl-]", 0.5)]),
        smiles=(*SMILES, "CC[NH3+].[Cl-]"),
        targets=(*_TARGETS, (0.5,)),
        says=("1 row is of several fragments", "whose parent is 'CCN'", "--standardize parent"),
    ),
    Habit(
        "values over orders of magnitude",
        csv_bytes([("smiles", "ic50"), *((s, 10.0**i) for i, s in enumerate(SMILES))]),
        targets=tuple((10.0**i,) for i in range(len(SMILES))),
        says=("column 'ic50' spans",),
    ),
    Habit(
        "a class with one label",
        csv_bytes([("smiles", "active"), *((s, int(i == 7)) for i, s in enumerate(SMILES))]),
        options={"task_type": "binary"},
        targets=tuple((float(i == 7),) for i in range(len(SMILES))),
        says=("under 50 labels: 'active' has 20",),
    ),
]
