"""X as a table: a column of SMILES, and columns of numbers that stand beside the molecules."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from molattn.data import guess_smiles_column
from molattn.data.tables.columns import listed
from molattn.errors import UsageError
from molattn.sklearn.columns import is_missing, smiles_of


@dataclass(frozen=True)
class Molecules:
    """What stands in X.

    Attributes:
        smiles: n of them.
        descriptors: n rows of k cells, None where one is missing; None for a model without descriptors.
        names: of the k columns.
        columns: how many X has.
        feature_names: theirs, where columns were asked for and they are all texts.
    """

    smiles: list[object]
    descriptors: list[list[object]] | None = None
    names: tuple[str, ...] = ()
    columns: int = 1
    feature_names: np.ndarray | None = None


def molecules_of(X: Any, smiles_column: str | int | None, descriptor_columns: Sequence[str | int] | None) -> Molecules:
    """The SMILES of X, and the descriptors beside them.

    Columns are named as those of a data frame (pandas, polars, pyarrow) are, or counted from 0, which is what an array
    has. A frame's column of SMILES is found by its name where it is not given; an array's is then its first.

    Raises:
        ValueError: a column that is not there, or is asked for twice, or no SMILES.
        TypeError: a sparse matrix.
    """
    if smiles_column is None and not descriptor_columns:
        return Molecules(smiles_of(X))
    # Arrow's tables have `columns`, too, which are not names.
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None:
        table = np.asarray(X, dtype=object)
        if table.ndim != 2:
            raise ValueError(f"X has the shape {table.shape}: give a table, (n, columns), since columns are asked for")
        named, cells = [f"x{j}" for j in range(table.shape[1])], list(table.T)
    else:
        named = list(names)
        cells = _Columns(X, named)
    first = _guessed(None if names is None else named) if smiles_column is None else _place(smiles_column, named)
    places = [_place(column, named) for column in descriptor_columns or ()]
    if len({first, *places}) <= len(places):
        raise ValueError(f"a column is asked for twice among {listed(str(named[j]) for j in (first, *places))}")
    smiles = smiles_of(cells[first])
    descriptors: list[list[object]] | None = None
    if places:
        rows = zip(*(cells[j].tolist() for j in places), strict=True)
        descriptors = [[None if is_missing(cell) else cell for cell in row] for row in rows]
    texts = np.array(named, dtype=object) if names is not None and all(isinstance(n, str) for n in named) else None
    return Molecules(smiles, descriptors, tuple(str(named[j]) for j in places), len(named), texts)


class _Columns:
    """The columns of a data frame by their places, as arrays of objects."""

    def __init__(self, frame: Any, named: list[Any]):
        self.frame, self.named = frame, named

    def __getitem__(self, place: int) -> np.ndarray:
        return np.asarray(self.frame[self.named[place]], dtype=object)


def _guessed(named: list[Any] | None) -> int:
    """Where the SMILES stand: the column that is named so; the first where there are no names."""
    if named is None:
        return 0
    try:
        return list(map(str, named)).index(guess_smiles_column(list(map(str, named))))
    except UsageError as error:
        raise ValueError(str(error).replace("--smiles-column", "smiles_column")) from error


def _place(column: str | int, named: list[Any]) -> int:
    """Where a column stands, by its name or its number."""
    if named.count(column) > 1:
        raise ValueError(f"X has {named.count(column)} columns {column!r}: rename all but one")
    if column in named:
        return named.index(column)
    if isinstance(column, int | np.integer) and -len(named) <= column < len(named):
        return int(column) % len(named)
    raise ValueError(f"X has no column {column!r}; it has {listed(map(str, named))}")
