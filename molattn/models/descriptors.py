"""Extra descriptors of molecules, provided or computed, which are joined to a stream of molecules for a model."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from molattn.chem import descriptors
from molattn.data.tables.columns import find_column, format_names, parse_required_numbers
from molattn.errors import SmilesError, UsageError
from molattn.models.base import Molecule
from molattn.models.scaler import DescriptorScaler

MoleculeRow = tuple[object, Molecule | SmilesError, np.ndarray | None]
"""A SMILES as in the input, its molecule or the error, and its standardised descriptors, (k,), if any."""


class DescriptorStream:
    """The descriptors of a stream of molecules.

    Args:
        scaler: of the descriptors that the model reads; None for a model without.
        provided: an iterable of n rows of numbers, one for each of `scaler.provided`, or a data frame with these
            columns; None for none.

    Raises:
        UsageError: descriptors are missing or unexpected, or a column is missing.
    """

    def __init__(self, scaler: DescriptorScaler | None, provided: Any):
        names = () if scaler is None else scaler.provided
        if names and provided is None:
            raise UsageError(
                f"the model reads {format_names(names)} for each molecule: give a table that has such columns, or "
                "descriptors in Python"
            )
        if not names and provided is not None:
            what = "no descriptors" if scaler is None else "only descriptors that it computes"
            raise UsageError(f"the model reads {what}: leave them out")
        self.scaler = scaler
        self._rows = _rows(provided, names) if names else None

    def reader(self, make: Callable[[object], Molecule]) -> Callable[[object], "Molecule | DescribedMolecule"]:
        """A function from a SMILES to its molecule, which `make` reads, with its computed descriptors if there are any.

        It can be pickled if `make` can.
        """
        names = () if self.scaler is None else self.scaler.computed
        return partial(_read_described, make, names) if names else make

    def join(
        self, texts: Sequence[object], outcomes: Sequence["Molecule | DescribedMolecule | SmilesError"]
    ) -> list[MoleculeRow]:
        """The next molecules with their descriptors; an error for each that cannot be used.

        Args:
            texts: SMILES as in the input.
            outcomes: the results of `reader`, or molecules, or errors.

        Raises:
            UsageError: there are too few rows, or a row does not have k numbers.
        """
        if self.scaler is None:
            molecules = [outcome for outcome in outcomes if not isinstance(outcome, DescribedMolecule)]
            return [(text, outcome, None) for text, outcome in zip(texts, molecules, strict=True)]
        rows = [()] * len(texts) if self._rows is None else list(islice(self._rows, len(texts)))
        if len(rows) < len(texts):
            raise UsageError("there are fewer rows of descriptors than SMILES: give one for each")
        described = [self._with_computed(outcome, self.scaler) for outcome in outcomes]
        return [self._join(*row, self.scaler) for row in zip(texts, described, rows, strict=True)]

    def check_end(self) -> None:
        """Raise UsageError if there are more rows than molecules."""
        if self._rows is not None and next(self._rows, None) is not None:
            raise UsageError("there are more rows of descriptors than SMILES: give one for each")

    @staticmethod
    def _with_computed(
        outcome: "Molecule | DescribedMolecule | SmilesError", scaler: DescriptorScaler
    ) -> "DescribedMolecule | SmilesError":
        if isinstance(outcome, DescribedMolecule | SmilesError):
            return outcome
        return DescribedMolecule(outcome, compute_descriptors(outcome, scaler.computed))

    @staticmethod
    def _join(
        text: object, outcome: "DescribedMolecule | SmilesError", cells: Sequence[object], scaler: DescriptorScaler
    ) -> MoleculeRow:
        if len(cells) != len(scaler.provided):
            raise UsageError(f"a row has {len(cells)} descriptors; the model reads {format_names(scaler.provided)}")
        if isinstance(outcome, SmilesError):
            return text, outcome, None
        numbers, reason = parse_required_numbers(cells, scaler.provided)
        row = [] if reason else [*numbers, *outcome.computed]
        if reason := reason or scaler.range_error(row):
            return text, SmilesError(text, reason), None
        return text, outcome.molecule, scaler.scale(np.array(row)[None])[0]


class DescribedMolecule(NamedTuple):
    """A molecule and its computed descriptors."""

    molecule: Molecule
    computed: list[float]


def _read_described(make: Callable[[object], Molecule], names: tuple[str, ...], text: object) -> DescribedMolecule:
    molecule = make(text)
    return DescribedMolecule(molecule, compute_descriptors(molecule, names))


def compute_descriptors(molecule: Molecule, names: tuple[str, ...]) -> list[float]:
    """The descriptors `names` of a molecule in the form that the model reads; NaN where RDKit has no finite number."""
    return descriptors(molecule.encoded_smiles, names, max_atoms=sys.maxsize).tolist() if names else []


def stack_descriptors(rows: Iterable[np.ndarray | None]) -> np.ndarray | None:
    """(n, k) from the descriptors of n molecules; None if there are none."""
    not_none = [row for row in rows if row is not None]
    return np.stack(not_none) if not_none else None


def _rows(provided: Any, names: Sequence[str]) -> Iterator[Sequence[object]]:
    if hasattr(provided, "__arrow_c_stream__"):
        from molattn.data.tables.arrow import frame_stream  # imported here because it imports pyarrow

        stream = frame_stream(provided)
        indices = [find_column(stream.columns, name, stream.source) for name in names]
        return (row for chunk in stream.chunks for row in zip(*map(chunk.column, indices), strict=True))
    return (list(row) if isinstance(row, list | tuple | np.ndarray) else [row] for row in provided)
