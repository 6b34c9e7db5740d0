"""Extra descriptors of molecules, provided or computed, joined to a stream of molecules."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from molattn.chem import descriptors
from molattn.chem.parse import NO_ATOM_LIMIT
from molattn.data.tables.cells import parse_required_numbers
from molattn.data.tables.columns import format_names
from molattn.data.tables.number_columns import NumberColumns
from molattn.errors import SmilesError, UsageError
from molattn.models.molecule import Molecule
from molattn.models.scaler import DescriptorScaler


class InputRow(NamedTuple):
    """The input of a prediction: one SMILES, its molecule and its descriptors.

    Attributes:
        smiles: as in the input.
        molecule: as the model reads it, or the error if it cannot be used.
        descriptors: (k,), standardized; None if the model reads none.
    """

    smiles: object
    molecule: Molecule | SmilesError
    descriptors: np.ndarray | None = None


class DescriptorStream:
    """The descriptors of a stream of molecules.

    Args:
        scaler: of the descriptors that the model reads; None if it reads none.
        provided: an iterable of n rows of numbers, one for each of `scaler.provided`, or a data frame with these
            columns; None for none.

    Raises:
        UsageError: descriptors are missing or unexpected, or a column is missing.
        InputError: a column of text whose number format is ambiguous.
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

    def reader(self, read: Callable[[object], Molecule]) -> Callable[[object], "Molecule | DescribedMolecule"]:
        """A function that reads a SMILES with `read`, and adds the computed descriptors if the model has any.

        It can be pickled if `read` can.
        """
        names = () if self.scaler is None else self.scaler.computed
        return partial(_read_described, read, names) if names else read

    def join(
        self, smiles: Sequence[object], molecules: Sequence["Molecule | DescribedMolecule | SmilesError"]
    ) -> list[InputRow]:
        """The next molecules with their descriptors; an error for each that cannot be used.

        Args:
            smiles: as in the input.
            molecules: the results of `reader`, or molecules, or errors.

        Raises:
            UsageError: there are too few rows, or a row does not have k numbers.
        """
        if self.scaler is None:
            return [
                InputRow(text, found.molecule if isinstance(found, DescribedMolecule) else found)
                for text, found in zip(smiles, molecules, strict=True)
            ]
        provided = [()] * len(smiles) if self._rows is None else list(islice(self._rows, len(smiles)))
        if len(provided) < len(smiles):
            raise UsageError("there are fewer rows of descriptors than SMILES: give one for each")
        return [self._join(*row, self.scaler) for row in zip(smiles, molecules, provided, strict=True)]

    def check_end(self) -> None:
        """Raise UsageError if there are more rows than molecules."""
        if self._rows is not None and next(self._rows, None) is not None:
            raise UsageError("there are more rows of descriptors than SMILES: give one for each")

    @staticmethod
    def _join(
        smiles: object,
        molecule: "Molecule | DescribedMolecule | SmilesError",
        cells: Sequence[object],
        scaler: DescriptorScaler,
    ) -> InputRow:
        if len(cells) != len(scaler.provided):
            raise UsageError(f"a row has {len(cells)} descriptors; the model reads {format_names(scaler.provided)}")
        if isinstance(molecule, SmilesError):
            return InputRow(smiles, molecule)
        if not isinstance(molecule, DescribedMolecule):
            molecule = DescribedMolecule(molecule, molecule_descriptors(molecule, scaler.computed))
        numbers, reason = parse_required_numbers(cells, scaler.provided)
        values = [] if reason else [*numbers, *molecule.computed]
        if reason := reason or scaler.range_error(values):
            return InputRow(smiles, SmilesError(smiles, reason))
        return InputRow(smiles, molecule.molecule, scaler.scale(np.array(values)[None])[0])


class DescribedMolecule(NamedTuple):
    """A molecule and its computed descriptors."""

    molecule: Molecule
    computed: list[float]


def _read_described(read: Callable[[object], Molecule], names: tuple[str, ...], smiles: object) -> DescribedMolecule:
    molecule = read(smiles)
    return DescribedMolecule(molecule, molecule_descriptors(molecule, names))


def molecule_descriptors(molecule: Molecule, names: tuple[str, ...]) -> list[float]:
    """The descriptors `names` of a molecule in the form that the model reads; NaN where RDKit has no finite number."""
    return descriptors(molecule.encoded_smiles, names, max_atoms=NO_ATOM_LIMIT).tolist() if names else []


def usable_molecules(rows: Sequence[InputRow]) -> tuple[list[Molecule], np.ndarray | None]:
    """The n molecules of the rows that have one, and their descriptors, (n, k), or None."""
    molecules = [row.molecule for row in rows if not isinstance(row.molecule, SmilesError)]
    values = [row.descriptors for row in rows if row.descriptors is not None]
    return molecules, np.stack(values) if values else None


def _rows(provided: Any, names: Sequence[str]) -> Iterator[Sequence[object]]:
    if hasattr(provided, "__arrow_c_stream__") and hasattr(provided, "columns"):  # a Series has the first alone
        from molattn.data.tables.arrow import frame_stream, to_arrow_table  # imported here because it imports pyarrow

        table = to_arrow_table(provided)
        stream = frame_stream(table)
        columns = NumberColumns(stream, names)
        for chunk in stream.chunks:
            columns.scan(chunk)
        columns.choose()
        return (row for chunk in frame_stream(table).chunks for row in zip(*columns.read(chunk), strict=True))
    return (list(row) if isinstance(row, list | tuple | np.ndarray) else [row] for row in provided)
