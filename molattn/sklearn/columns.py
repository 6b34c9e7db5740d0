"""X and y as people give them, as lists of SMILES and arrays of labels."""

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_array, column_or_1d


def smiles_of(X: Any) -> list[object]:
    """The n SMILES of a list, an array, a Series or one column of a table.

    Raises:
        ValueError: there are none, or more than one column.
        TypeError: a sparse matrix.
    """
    if issparse(X):
        raise TypeError("X is sparse: give a list of SMILES")
    if isinstance(X, str):
        raise ValueError(f"X is one text: give a list of SMILES, such as [{X[:20]!r}]")
    cells = np.asarray(X, dtype=object)
    if cells.ndim == 2 and cells.shape[1] == 1:
        cells = cells[:, 0]
    if cells.ndim != 1:
        raise ValueError(f"X has the shape {cells.shape}: give a list of n SMILES, or one column of them, (n, 1)")
    if not len(cells):
        raise ValueError(f"X has 0 samples (shape={cells.shape}) while a minimum of 1 is required: give SMILES")
    return cells.tolist()


def values_of(y: Any) -> np.ndarray:
    """(n,) or (n, T) numbers, NaN where missing."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    values = check_array(
        y,
        ensure_2d=False,
        dtype=np.float64,  # pyright: ignore
        ensure_all_finite="allow-nan",  # pyright: ignore
        input_name="y",
    )
    return values if values.ndim == 2 else column_or_1d(values)


def labels_of(y: Any) -> np.ndarray:
    """(n,) or (n, T) labels; a single column is (n,), with scikit-learn's warning."""
    if y is None:
        raise ValueError("fit requires y to be passed, but the target y is None")
    if issparse(y):
        y = y.toarray()
    # Of a list, or NaN would turn into a word among words.
    labels = np.asarray(y) if hasattr(y, "__array__") else np.array(y, dtype=object)
    if labels.ndim == 2 and labels.shape[1] > 1:
        return labels
    return column_or_1d(labels, warn=True)


def known_of(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which of the labels of one target, (n,), are not missing, and those."""
    known = np.array([not is_missing(label) for label in labels], dtype=bool)
    values = labels[known]
    return known, np.array(values.tolist()) if values.dtype == object else values


def is_missing(label: object) -> bool:
    """Whether a label is None, NaN or pandas' NA."""
    if isinstance(label, float | np.floating):
        return bool(np.isnan(label))
    return label is None or type(label).__name__ == "NAType"


def names_of(y: Any, count: int) -> list[str]:
    """What the targets are called: as the columns of a table are, else y, or y0, y1 and so on."""
    columns = getattr(y, "columns", None)
    if columns is not None and len(columns) == count:
        return list(map(str, columns))
    return [str(getattr(y, "name", None) or "y")] if count == 1 else [f"y{t}" for t in range(count)]
