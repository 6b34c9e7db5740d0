"""The true and predicted values of one target, read from predictions.csv, and their errors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Optional

import numpy as np

from molattn.data.tables.cells import format_bound, parse_bound
from molattn.data.tables.table import Table, column
from molattn.data.tables.units import name_has_unit, split_unit
from molattn.errors import InputError, short_ascii, short_repr
from molattn.models.names import RANK
from molattn.models.target_transform import TargetTransform


@dataclass(frozen=True)
class TargetValues:
    """The values of one target for n molecules.

    Attributes:
        name, unit: name and unit of the target; the unit is empty if unknown.
        kind: "regression", "binary" or "multiclass".
        classes: names of the classes; empty for regression.
        true: (n,) labels: numbers in the unit, or indices of classes; NaN where there is none.
        predicted: (n,) predictions: numbers in the unit, the probability of the second of two classes, or the index of
            the most probable class.
        probability: (n,) probability of the true class; NaN without a label, and for regression.
        std: (n,) standard deviations; None if the model has none.
        bounds: n texts, such as ">10.0" for a censored label and "" for others; empty if the table has none.
        transform: what all of these numbers, and the unit, are transformed by; None for nothing.
        original: the values before that; None for these.
    """

    name: str
    unit: str
    kind: str
    classes: tuple[str, ...]
    true: np.ndarray
    predicted: np.ndarray
    probability: np.ndarray
    std: np.ndarray | None = None
    bounds: tuple[str, ...] = ()
    transform: TargetTransform | None = None
    original: Optional["TargetValues"] = None

    @property
    def title(self) -> str:
        """The name, without a unit in it that is that of the values before their transform."""
        has_other_unit = self.original is not None and name_has_unit(self.name, self.original.unit)
        return split_unit(self.name)[0] if has_other_unit else self.name

    @property
    def in_unit(self) -> str:
        """ ", in " and the unit of transformed values; empty for others, which have the unit of the table."""
        return "" if self.original is None else f", in {self.unit}"

    @property
    def error(self) -> np.ndarray:
        """(n,) predicted - true; for classes 1 - the probability of the true class. NaN without a label."""
        return self.predicted - self.true if self.kind == "regression" else 1 - self.probability

    def select(self, indices: Sequence[int]) -> "TargetValues":
        """The values of some of the molecules."""
        rows = list(indices)
        return replace(
            self,
            true=self.true[rows],
            predicted=self.predicted[rows],
            probability=self.probability[rows],
            std=None if self.std is None else self.std[rows],
            bounds=tuple(self.bounds[i] for i in rows) if self.bounds else (),
            original=None if self.original is None else self.original.select(rows),
        )

    def transformed(self, transform: TargetTransform | None) -> "TargetValues":
        """The values by that transform of the original ones, which are returned for None and for ranks.

        Values without a transform, such as a negative number without a logarithm, are NaN.
        """
        y = self.original or self
        if transform is None or transform.name == RANK:
            return y
        with np.errstate(over="ignore"):
            predicted = _finite(transform.forward(y.predicted))
            std = None if y.std is None else y.std / transform.slope(predicted)
        return replace(
            y,
            unit=transform.transformed_unit(y.unit),
            true=_finite(transform.forward(y.true)),
            predicted=predicted,
            std=std,
            bounds=tuple(_transformed_bound(transform, bound) for bound in y.bounds),
            transform=transform,
            original=y,
        )

    def transformed_ends(self, ends: np.ndarray) -> np.ndarray:
        """(n, 2) the ends of intervals in the original unit, transformed as the values are."""
        f = self.transform
        if f is None:
            return ends
        found = _finite(f.forward(ends))
        return found if f.increasing else found[:, ::-1]

    @classmethod
    def read(cls, table: Table, name: str, unit: str, kind: str, classes: tuple[str, ...]) -> "TargetValues":
        """Read a target from predictions.csv.

        Args:
            table: the file.
            name, unit, kind, classes: see the attributes. Empty `classes` are replaced: by "0" and "1" for a binary
                target, by the sorted labels and predictions of the table for a multiclass one.

        Raises:
            InputError: a cell that is not a number, or not one of the classes.
        """
        labels, predictions = column(table, name), column(table, f"{name}_pred")
        unknown = np.full(len(labels), np.nan)
        std = _numbers(table, f"{name}_std") if f"{name}_std" in table.columns else None
        bounds = tuple(column(table, f"{name}_bound")) if f"{name}_bound" in table.columns else ()
        if kind == "regression":
            true, predicted = _numbers(table, name), _numbers(table, f"{name}_pred")
            return cls(name, unit, kind, (), true, predicted, unknown, std, bounds)
        if kind == "binary":
            true, predicted = _numbers(table, name), _numbers(table, f"{name}_pred")
            probability = np.where(true == 1, predicted, 1 - predicted)
            probability[np.isnan(true)] = np.nan
            return cls(name, unit, kind, classes or ("0", "1"), true, predicted, probability, std)
        classes = classes or tuple(sorted({*labels, *predictions} - {""}))
        true, predicted = (_indices(table, cells, classes) for cells in (labels, predictions))
        columns = [f"{name}_prob_{c}" for c in classes]
        probability = unknown
        if all(c in table.columns for c in columns):
            p = np.stack([_numbers(table, c) for c in columns], 1)
            known = np.isfinite(true)
            probability = np.where(known, p[np.arange(len(p)), np.where(known, true, 0).astype(int)], np.nan)
        return cls(name, unit, kind, classes, true, predicted, probability, std)


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, np.nan)


def _transformed_bound(transform: TargetTransform, bound: str) -> str:
    """A bound such as ">10.0", transformed; one that has no transform stays as it is."""
    ends = parse_bound(bound)
    if ends is None:
        return bound
    found = [float(f"{t:.6g}") for t in transform.forward(np.array(ends)).tolist()]
    lower, upper = found if transform.increasing else found[::-1]
    return format_bound(lower, upper) or bound


def _numbers(table: Table, name: str) -> np.ndarray:
    values = np.full(len(table.rows), np.nan)
    for i, cell in enumerate(column(table, name)):
        try:
            values[i] = float(cell) if cell else np.nan
        except ValueError:
            raise InputError(
                f"{table.source}, {table.location(i)}: {short_ascii(cell)} in column {short_repr(name)} is not a number"
            ) from None
    return values


def _indices(table: Table, cells: Sequence[str], classes: Sequence[str]) -> np.ndarray:
    index = {name: float(k) for k, name in enumerate(classes)}
    for i, cell in enumerate(cells):
        if cell and cell not in index:
            raise InputError(
                f"{table.source}, {table.location(i)}: {short_repr(cell)} is none of the classes {', '.join(classes)}"
            )
    return np.array([index.get(cell, np.nan) for cell in cells], dtype=float)
