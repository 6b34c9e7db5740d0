"""A sequence of featurized molecules in memory-mapped files, of which only those in use are in memory."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from molattn.chem import canonical_smiles
from molattn.chem.parse import NO_ATOM_LIMIT
from molattn.data.store.packing import Packing
from molattn.data.store.ragged import RaggedColumns, encode_row
from molattn.errors import ConformerError, SmilesError

TEXT_COLUMNS = {name: np.dtype("u1") for name in ("smiles", "canonical_smiles", "metadata")}
"""The columns of every store; `metadata` is a JSON object with data that only few rows have, such as warnings."""

Index = Sequence[int] | npt.NDArray[Any]
"""Integer indices of molecules."""


class MoleculeStore(Sequence[Any]):
    """n molecules in memory-mapped ragged columns.

    `store[i]` is a molecule, equal to the one that was featurized, or the SmilesError of an invalid one. `store[rows]`,
    with a slice, indices or a boolean mask, is a store of those rows that shares the columns; `collate` batches it
    without unpacking single molecules.

    Args:
        columns: the columns, which a `RaggedWriter` wrote from rows of `pack_row` and `pack_error`.
        packing: how the molecules are packed into the columns.
        rows: (n,) indices of the rows in the columns; None for all.
        folder: an object that the store holds a reference to, such as a `tempfile.TemporaryDirectory`.
    """

    def __init__(
        self, columns: RaggedColumns, packing: Packing, rows: npt.NDArray[np.int64] | None = None, folder: object = None
    ):
        self.columns, self.packing, self._folder = columns, packing, folder
        self.rows = np.arange(columns.num_rows) if rows is None else rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice | Index) -> "MoleculeStore": ...
    def __getitem__(self, index: int | slice | Index) -> Any:
        if not isinstance(index, int | np.integer):
            indices = index if isinstance(index, slice) else np.asarray(index)
            if (
                isinstance(indices, np.ndarray) and indices.dtype != bool
            ):  # a boolean mask is not an array of indices 0 and 1
                indices = indices.astype(np.int64)
            return MoleculeStore(self.columns, self.packing, self.rows[indices], self._folder)
        row = int(self.rows[index])
        metadata = self._metadata(row)
        (smiles,) = self.columns.texts("smiles", self.rows[[index]])
        if "error" in metadata:
            return (ConformerError if metadata["no_conformer"] else SmilesError)(smiles, metadata["error"])
        return self.packing.unpack(self.columns, row, smiles, metadata)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(n,) the number of atoms or tokens of each molecule; 0 for an invalid one."""
        return self.packing.sizes(self.columns, self.rows)

    @property
    def smiles(self) -> list[str]:
        """n SMILES that the molecules were featurized from."""
        return self.columns.texts("smiles", self.rows)

    @property
    def canonical_smiles(self) -> list[str]:
        """n canonical SMILES, the same for every SMILES of a molecule; empty for an invalid one."""
        return self.columns.texts("canonical_smiles", self.rows)

    @property
    def warnings(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The index and the warnings of each molecule that has any."""
        for index in np.flatnonzero(self.columns.lengths("metadata", self.rows)).tolist():
            if found := self._metadata(int(self.rows[index])).get("warnings"):
                yield index, tuple(found)

    def padded(self) -> dict[str, npt.NDArray[Any]]:
        """All molecules as padded arrays: see `Packing.padded`."""
        return self.packing.padded(self.columns, self.rows)

    def _metadata(self, row: int) -> dict[str, Any]:
        data = self.columns.row("metadata", row)
        return json.loads(data.tobytes()) if len(data) else {}


def pack_row(smiles: object, featurize: Callable[..., Any], packing: Packing) -> dict[str, bytes]:
    """Featurize a SMILES and pack it into a row of a store.

    Args:
        smiles: the SMILES.
        featurize, packing: as in `molattn.data.store.cache.Featurization`.

    Returns:
        The bytes of each column.

    Raises:
        SmilesError: by `featurize`, for an invalid SMILES.
    """
    mols: list[Any] = []
    molecule = featurize(smiles, on_molecule=mols.append)
    columns, metadata = packing.pack(molecule)
    if molecule.warnings:
        metadata["warnings"] = list(molecule.warnings)
    # The limit on atoms was already checked.
    columns["canonical_smiles"] = canonical_smiles(mols[0], max_atoms=NO_ATOM_LIMIT)
    return encode_row({**columns, "smiles": molecule.smiles, "metadata": json.dumps(metadata) if metadata else ""})


def pack_error(error: SmilesError) -> dict[str, bytes]:
    """The row of a store for an invalid SMILES: the bytes of each column that is not empty."""
    metadata = {"error": error.reason, "no_conformer": isinstance(error, ConformerError)}
    return encode_row({"smiles": str(error.smiles), "metadata": json.dumps(metadata)})


def store_dtypes(packing: Packing) -> Mapping[str, np.dtype[Any]]:
    """The dtype of each column of a store."""
    return TEXT_COLUMNS | dict(packing.dtypes)


def molecule_sizes(molecules: Sequence[Any]) -> npt.NDArray[np.int64]:
    """(n,) the number of atoms or tokens of each molecule."""
    if isinstance(molecules, MoleculeStore):
        return molecules.sizes
    return np.array([m.size for m in molecules], dtype=np.int64)


def select_molecules(molecules: Sequence[Any], rows: Index) -> Sequence[Any]:
    """The molecules with the indices `rows`, in that order."""
    return molecules[rows] if isinstance(molecules, MoleculeStore) else [molecules[i] for i in rows]
