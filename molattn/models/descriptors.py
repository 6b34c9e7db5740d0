"""Descriptors that stand beside molecules, given or computed, joined to them row by row on the way to a model."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from molattn.chem import descriptors
from molattn.data.tables.columns import index_of, listed
from molattn.data.tables.numbers import all_numbers_in
from molattn.errors import SmilesError, UsageError
from molattn.models.base import Molecule
from molattn.models.scaler import DescriptorScaler

Read = tuple[object, Molecule | SmilesError, np.ndarray | None]
"""A SMILES as it was given, its molecule or why there is none, and its standardised descriptors, (k,), if any."""


class DescriptorRows:
    """The descriptors of many molecules, taken as the molecules come.

    Args:
        scaler: what the model reads; None for nothing.
        given: n rows of numbers, one for each of `scaler.given`, any iterable; or a data frame that has the columns;
            None for nothing.

    Raises:
        UsageError: there are none where the model reads some, or some where it reads none, or columns are missing.
    """

    def __init__(self, scaler: DescriptorScaler | None, given: Any):
        wanted = () if scaler is None else scaler.given
        if wanted and given is None:
            raise UsageError(
                f"the model reads {listed(wanted)} beside each molecule: give a table that has such columns, or "
                "descriptors in Python"
            )
        if not wanted and given is not None:
            own = "no descriptors" if scaler is None else "descriptors that it computes, and no others"
            raise UsageError(f"the model reads {own}: leave them out")
        self.scaler = scaler
        self._rows = _rows(given, wanted) if wanted else None

    def reader(self, make: Callable[[object], Molecule]) -> Callable[[object], "Molecule | Described"]:
        """From a SMILES to its molecule, as `make` reads it, and what is computed of it, if anything is.

        Pickle can carry it to other processes, as it can `make`.
        """
        names = () if self.scaler is None else self.scaler.computed
        return partial(_described, make, names) if names else make

    def join(self, texts: Sequence[object], outcomes: Sequence["Molecule | Described | SmilesError"]) -> list[Read]:
        """The next molecules with their descriptors; an error where they cannot be used.

        Args:
            texts: SMILES as they were given.
            outcomes: their molecules, or what `reader` made of them.

        Raises:
            UsageError: there are too few rows, or a row has not k numbers.
        """
        if self.scaler is None:
            plain = [outcome for outcome in outcomes if not isinstance(outcome, Described)]
            return [(text, outcome, None) for text, outcome in zip(texts, plain, strict=True)]
        rows = [()] * len(texts) if self._rows is None else list(islice(self._rows, len(texts)))
        if len(rows) < len(texts):
            raise UsageError("there are fewer rows of descriptors than SMILES: give one for each")
        described = [self._described(outcome, self.scaler) for outcome in outcomes]
        return [self._joined(*row, self.scaler) for row in zip(texts, described, rows, strict=True)]

    def check_end(self) -> None:
        """UsageError where there are more rows than were taken."""
        if self._rows is not None and next(self._rows, None) is not None:
            raise UsageError("there are more rows of descriptors than SMILES: give one for each")

    @staticmethod
    def _described(
        outcome: "Molecule | Described | SmilesError", scaler: DescriptorScaler
    ) -> "Described | SmilesError":
        if isinstance(outcome, Described | SmilesError):
            return outcome
        return Described(outcome, computed_of(outcome, scaler.computed))

    @staticmethod
    def _joined(
        text: object, outcome: "Described | SmilesError", cells: Sequence[object], scaler: DescriptorScaler
    ) -> Read:
        if len(cells) != len(scaler.given):
            raise UsageError(f"a row has {len(cells)} descriptors; the model reads {listed(scaler.given)}")
        if isinstance(outcome, SmilesError):
            return text, outcome, None
        numbers, reason = all_numbers_in(cells, scaler.given)
        row = [] if reason else [*numbers, *outcome.computed]
        if reason := reason or scaler.too_far(row):
            return text, SmilesError(text, reason), None
        return text, outcome.molecule, scaler.scale(np.array(row)[None])[0]


class Described(NamedTuple):
    """A molecule, and the numbers that RDKit computed of it."""

    molecule: Molecule
    computed: list[float]


def _described(make: Callable[[object], Molecule], names: tuple[str, ...], text: object) -> Described:
    molecule = make(text)
    return Described(molecule, computed_of(molecule, names))


def computed_of(molecule: Molecule, names: tuple[str, ...]) -> list[float]:
    """What RDKit computes of a molecule, as the model reads it; NaN where it has no finite number."""
    return descriptors(molecule.encoded_smiles, names, max_atoms=sys.maxsize).tolist() if names else []


def stacked(rows: Iterable[np.ndarray | None]) -> np.ndarray | None:
    """(n, k) from those of n molecules; None where there are none."""
    found = [row for row in rows if row is not None]
    return np.stack(found) if found else None


def _rows(given: Any, names: Sequence[str]) -> Iterator[Sequence[object]]:
    if hasattr(given, "__arrow_c_stream__"):
        from molattn.data.tables.arrow import frame_stream  # here, because it brings pyarrow

        stream = frame_stream(given)
        places = [index_of(stream.columns, name, stream.source) for name in names]
        return (row for chunk in stream.chunks for row in zip(*map(chunk.column, places), strict=True))
    return (list(row) if isinstance(row, list | tuple | np.ndarray) else [row] for row in given)
