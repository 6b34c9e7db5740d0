"""Descriptors that stand beside molecules, joined to them row by row on the way to a model."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from molattn.data.columns import index_of, listed
from molattn.data.numbers import all_numbers_in
from molattn.errors import SmilesError, UsageError
from molattn.models.base import Molecule
from molattn.models.scaler import DescriptorScaler

Read = tuple[object, Molecule | SmilesError, np.ndarray | None]
"""A SMILES as it was given, its molecule or why there is none, and its standardised descriptors, (k,), if any."""


class DescriptorRows:
    """The descriptors of many molecules, taken as the molecules come.

    Args:
        scaler: what the model reads; None for nothing.
        given: n rows of k numbers, any iterable; or a data frame that has the columns; None for nothing.

    Raises:
        UsageError: there are none where the model reads some, or some where it reads none, or columns are missing.
    """

    def __init__(self, scaler: DescriptorScaler | None, given: Any):
        if scaler is not None and given is None:
            raise UsageError(
                f"the model reads {listed(scaler.names)} beside each molecule: give a table that has such columns, or "
                "descriptors in Python"
            )
        if scaler is None and given is not None:
            raise UsageError("the model reads no descriptors: leave them out")
        self.scaler = scaler
        self._rows = iter(()) if scaler is None else _rows(given, scaler.names)

    def join(self, texts: Sequence[object], outcomes: Sequence[Molecule | SmilesError]) -> list[Read]:
        """The next molecules with their descriptors; an error where they cannot be used.

        Raises:
            UsageError: there are too few rows, or a row has not k numbers.
        """
        if self.scaler is None:
            return [(text, outcome, None) for text, outcome in zip(texts, outcomes, strict=True)]
        rows = list(islice(self._rows, len(texts)))
        if len(rows) < len(texts):
            raise UsageError("there are fewer rows of descriptors than SMILES: give one for each")
        return [self._joined(*row, self.scaler) for row in zip(texts, outcomes, rows, strict=True)]

    def check_end(self) -> None:
        """UsageError where there are more rows than were taken."""
        if next(self._rows, None) is not None:
            raise UsageError("there are more rows of descriptors than SMILES: give one for each")

    @staticmethod
    def _joined(
        text: object, outcome: Molecule | SmilesError, cells: Sequence[object], scaler: DescriptorScaler
    ) -> Read:
        if len(cells) != len(scaler.names):
            raise UsageError(f"a row has {len(cells)} descriptors; the model reads {listed(scaler.names)}")
        numbers, reason = all_numbers_in(cells, scaler.names)
        reason = reason or scaler.too_far(numbers)
        if reason:
            return text, outcome if isinstance(outcome, SmilesError) else SmilesError(text, reason), None
        return text, outcome, scaler.scale(np.array(numbers)[None])[0]


def stacked(rows: Iterable[np.ndarray | None]) -> np.ndarray | None:
    """(n, k) from those of n molecules; None where there are none."""
    found = [row for row in rows if row is not None]
    return np.stack(found) if found else None


def _rows(given: Any, names: Sequence[str]) -> Iterator[Sequence[object]]:
    if hasattr(given, "__arrow_c_stream__"):
        from molattn.data.frames import frame_stream  # here, because it brings pyarrow

        stream = frame_stream(given)
        places = [index_of(stream.columns, name, stream.source) for name in names]
        return (row for chunk in stream.chunks for row in zip(*map(chunk.column, places), strict=True))
    return (list(row) if isinstance(row, list | tuple | np.ndarray) else [row] for row in given)
