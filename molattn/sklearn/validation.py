"""Validation of X and y: lists of SMILES, tables with descriptors, arrays of values and of labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_array, column_or_1d

from molattn.chem.parse import is_missing
from molattn.data import guess_smiles_column
from molattn.data.tables.columns import format_names
from molattn.errors import UsageError
from molattn.inference.molecules import as_smiles


@dataclass(frozen=True)
class MoleculeInput:
    """A validated X.

    Attributes:
        smiles: n SMILES.
        descriptors: n rows of k cells, None where a cell is missing; None if no descriptors are used.
        descriptor_names: names of the k descriptor columns.
        num_columns: number of columns of X.
        feature_names: names of the columns of X, if columns are selected and all names are strings.
    """

    smiles: list[object]
    descriptors: list[list[object]] | None = None
    descriptor_names: tuple[str, ...] = ()
    num_columns: int = 1
    feature_names: np.ndarray | None = None


def validate_X(
    X: Any, smiles_column: str | int | None, descriptor_columns: Sequence[str | int] | None
) -> MoleculeInput:
    """The SMILES of X, and its descriptors.

    Columns are selected by name in a data frame (pandas, polars, pyarrow), or by index from 0 in any table. By
    default the SMILES column of a data frame is its only one or found by its name, and that of an array with
    descriptors is its first column.

    Raises:
        ValueError: a column that does not exist or is selected twice, or no SMILES.
        TypeError: a sparse matrix.
    """
    # pyarrow's tables also have `columns`, but these are not names.
    names = getattr(X, "column_names", getattr(X, "columns", None))
    descriptor_columns = [] if descriptor_columns is None else list(descriptor_columns)
    if smiles_column is None and not descriptor_columns and (names is None or len(names) < 2):
        return MoleculeInput(validate_smiles(X))
    if names is None:
        table = np.asarray(X, dtype=object)
        if table.ndim != 2:
            raise ValueError(f"X has the shape {table.shape}: give a table, (n, columns), since columns are selected")
        column_names, cells = [f"x{j}" for j in range(table.shape[1])], list(table.T)
    else:
        column_names = list(names)
        cells = _FrameColumns(X, column_names)
    smiles_index = 0
    if smiles_column is not None:
        smiles_index = _column_index(smiles_column, column_names)
    elif names is not None:
        smiles_index = _guess_smiles_index(list(map(str, column_names)))
    indices = [_column_index(column, column_names) for column in descriptor_columns]
    if len({smiles_index, *indices}) <= len(indices):
        selected = format_names(str(column_names[j]) for j in (smiles_index, *indices))
        raise ValueError(f"a column is selected twice among {selected}")
    smiles = validate_smiles(cells[smiles_index])
    descriptors: list[list[object]] | None = None
    if indices:
        rows = zip(*(cells[j].tolist() for j in indices), strict=True)
        descriptors = [[None if is_missing(cell) else cell for cell in row] for row in rows]
    all_text = names is not None and all(isinstance(name, str) for name in column_names)
    feature_names = np.array(column_names, dtype=object) if all_text else None
    selected_names = tuple(str(column_names[j]) for j in indices)
    return MoleculeInput(smiles, descriptors, selected_names, len(column_names), feature_names)


class _FrameColumns:
    """The columns of a data frame by index, as arrays of objects."""

    def __init__(self, frame: Any, names: list[Any]):
        self.frame, self.names = frame, names

    def __getitem__(self, index: int) -> np.ndarray:
        return np.asarray(self.frame[self.names[index]], dtype=object)


def _guess_smiles_index(names: list[str]) -> int:
    """The index of the SMILES column, by its name."""
    try:
        return names.index(guess_smiles_column(names))
    except UsageError as error:
        raise ValueError(f"{str(error).partition(': ')[0]}: select it with smiles_column") from error


def _column_index(column: str | int, names: list[Any]) -> int:
    """The index of a column, from its name or its index."""
    if names.count(column) > 1:
        raise ValueError(f"X has {names.count(column)} columns {column!r}: rename all but one")
    if column in names:
        return names.index(column)
    if isinstance(column, int | np.integer) and -len(names) <= column < len(names):
        return int(column) % len(names)
    raise ValueError(f"X has no column {column!r}; it has {format_names(map(str, names))}")


def validate_smiles(X: Any) -> list[object]:
    """The n SMILES of a list, an array, a Series or one column of a table, of SMILES or of RDKit molecules.

    Raises:
        ValueError: there are none, or more than one column.
        TypeError: a sparse matrix.
    """
    if issparse(X):
        raise TypeError("X is sparse: give a list of SMILES")
    if isinstance(X, str):
        raise ValueError(f"X is a single string: give a list of SMILES, such as [{X[:20]!r}]")
    cells = np.asarray(X, dtype=object)
    if cells.ndim == 2 and cells.shape[1] == 1:
        cells = cells[:, 0]
    if cells.ndim != 1:
        raise ValueError(f"X has the shape {cells.shape}: give a list of n SMILES, or one column of them, (n, 1)")
    if not len(cells):
        raise ValueError(f"X has 0 samples (shape={cells.shape}) while a minimum of 1 is required: give SMILES")
    return [*as_smiles(cells).smiles]


def validate_values(y: Any, targets: int = 0, where: str = "y") -> np.ndarray:
    """(n,) or (n, T) numbers, NaN where missing.

    Raises:
        ValueError: no such numbers, or another number of targets than `targets`, if that is above 0.
    """
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    values = check_array(
        y,
        ensure_2d=False,
        dtype=np.float64,  # pyright: ignore
        ensure_all_finite="allow-nan",  # pyright: ignore
        input_name="y",
    )
    values = values if values.ndim == 2 else column_or_1d(values)
    if targets:
        check_number_of_targets(values, targets, where)
    return values


def check_number_of_targets(y: np.ndarray, targets: int, where: str = "y") -> None:
    """Raise ValueError unless labels or values, (n,) or (n, T), are of this number of targets."""
    found = 1 if y.ndim == 1 else y.shape[1]
    if found != targets:
        raise ValueError(f"{where} has {found} target{'s' * (found != 1)}, not {targets}")


def validate_labels(y: Any) -> np.ndarray:
    """(n,) or (n, T) labels; a single column is (n,), with scikit-learn's warning."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    if issparse(y):
        y = y.toarray()
    # A list becomes an array of objects: np.array would turn a NaN among strings into a string.
    labels = np.asarray(y) if hasattr(y, "__array__") else np.array(y, dtype=object)
    if labels.ndim == 2 and labels.shape[1] > 1:
        return labels
    return column_or_1d(labels, warn=True)


def drop_missing(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) True where a label of one target is not missing, and the labels that are not missing.

    Raises:
        ValueError: some labels are text and others are not.
    """
    mask = np.array([not is_missing(label) for label in labels], dtype=bool)
    values = labels[mask]
    if values.dtype == object:
        # numpy would turn the others into text.
        text = np.array([isinstance(label, str) for label in values], dtype=bool)
        if text.any() and not text.all():
            some, other = values[text][0], values[~text][0]
            raise ValueError(f"labels are text, such as {some!r}, and others are not, such as {other!r}: give one type")
    return mask, np.array(values.tolist()) if values.dtype == object else values


def class_indices(labels: np.ndarray, classes: Sequence[np.ndarray]) -> np.ndarray:
    """(n, T) indices of labels, (n,) or (n, T), in the sorted classes of each target; NaN where a label is missing.

    Raises:
        ValueError: another number of targets, or a label that is none of the classes, by its row.
    """
    table = labels.reshape(len(labels), -1)
    if table.shape[1] != len(classes):
        raise ValueError(f"there are labels of {table.shape[1]} targets, not of {len(classes)}")
    result = np.full(table.shape, np.nan)
    for t, names in enumerate(classes):
        known, values = drop_missing(table[:, t])
        positions = np.searchsorted(names, values).clip(max=len(names) - 1) if len(values) else np.zeros(0, int)
        if (unknown := np.flatnonzero(names[positions] != values)).size:
            row = int(np.flatnonzero(known)[unknown[0]])
            raise ValueError(f"row {row} (from 0): the label {table[row, t]!r} is not among {names.tolist()}")
        result[known, t] = positions
    return result


def class_names(classes: Sequence[np.ndarray], binary: bool) -> tuple[tuple[str, ...], ...]:
    """The names of the classes of each target, as in a table of them; empty if all are 0 and 1, or booleans.

    Args:
        classes: the sorted classes of each target.
        binary: whether targets have two classes; a target that has one gets a second.
    """
    from molattn.training.class_names import ZERO_ONE, clean_label  # predictions do not need the training modules

    result = []
    for labels in classes:
        texts = [str(label) for label in labels.tolist()]
        names: tuple[str, ...] = tuple(clean_label(text) for text in texts)
        if len(set(names)) < len(names):  # text such as "1" and "1.0"
            names = tuple(texts)
        if binary and (labels.dtype.kind == "b" or names in (ZERO_ONE, ZERO_ONE[:1], ())):
            names = ZERO_ONE
        elif binary and len(names) == 1:
            names = (*names, f"not {names[0]}")
        result.append(names)
    return () if binary and set(result) == {ZERO_ONE} else tuple(result)


def eval_pair(eval_set: Any) -> tuple[Any, Any]:
    """X and y of an `eval_set`: a pair, or a list of one pair, as of LightGBM and XGBoost.

    Raises:
        ValueError: neither of these.
    """
    pair = eval_set
    if isinstance(pair, list) and len(pair) == 1:
        pair = pair[0]
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ValueError("eval_set is a pair (X, y) of validation molecules, or a list of one such pair")
    return pair


def target_names(y: Any, count: int) -> list[str]:
    """The names of the targets: of the columns of a table, or of a Series; else y, or y0, y1 and so on."""
    columns = getattr(y, "column_names", getattr(y, "columns", None))
    if columns is not None and len(columns) == count:
        return list(map(str, columns))
    return [str(getattr(y, "name", None) or "y")] if count == 1 else [f"y{t}" for t in range(count)]
