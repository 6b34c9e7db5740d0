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
        "a molecule twice with labels that are close",
        csv_bytes([("smiles", "y"), *_ROWS, ("OCC", VALUES[0] + 0.01)]),
        smiles=(*SMILES, "OCC"),
        targets=(*_TARGETS, (VALUES[0] + 0.01,)),
        says=("1 molecule is in several rows, 2 in all; the labels of 1 differ, by at most 50%",),
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
        says=("ic50: the training labels are above 0", "so the model learns log10 of ic50"),
    ),
    Habit(
        "values over orders of magnitude, to be learned as they are",
        csv_bytes([("smiles", "ic50"), *((s, 10.0**i) for i, s in enumerate(SMILES))]),
        options={"target_transform": ("none",)},
        targets=tuple((10.0**i,) for i in range(len(SMILES))),
        says=("column 'ic50' spans", "--target-transform log10"),
    ),
    Habit(
        "a zero among values that are learned as logarithms",
        csv_bytes([("smiles", "ic50"), ("CCCCCC", 0), *((s, 10.0**i) for i, s in enumerate(SMILES))]),
        options={"target_transform": ("log10",)},
        targets=tuple((10.0**i,) for i in range(len(SMILES))),
        rejected={2: "column 'ic50': 0 has no logarithm"},
    ),
    Habit(
        "a concentration without a unit",
        csv_bytes([("smiles", "ic50"), *((s, 10.0**i) for i, s in enumerate(SMILES))]),
        options={"target_transform": ("neg-log10-molar",)},
        error="write neg-log10-molar:nM if it is in nM",
    ),
    Habit(
        "duplicates, spelled in two ways, averaged",
        csv_bytes([("smiles", "y"), *_ROWS, ("OCC", 9.5), ("NCC", 0.25)]),
        options={"duplicates": "mean"},
        targets=((4.0,), (-0.5,), *_TARGETS[2:]),
        says=("4 rows of 2 molecules are merged, by their mean; see duplicates.csv",),
    ),
    Habit(
        "duplicates whose labels are in conflict, left out",
        csv_bytes([("smiles", "y"), *_ROWS, ("OCC", 9.5)]),
        options={"duplicates": "drop"},
        smiles=SMILES[1:],
        targets=_TARGETS[1:],
        rejected={2: "-1.5 in line 2 and 9.5 in line 22", 22: "--duplicates drop"},
    ),
    Habit(
        "a class with one label",
        csv_bytes([("smiles", "active"), *((s, int(i == 7)) for i, s in enumerate(SMILES))]),
        options={"task_type": "binary"},
        targets=tuple((float(i == 7),) for i in range(len(SMILES))),
        says=("under 50 labels: 'active' has 20",),
    ),
]
