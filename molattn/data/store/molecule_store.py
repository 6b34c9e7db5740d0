"""Molecules that were read once, in flat files: a sequence of them that takes no memory but for those in use."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from molattn.chem import canonical_smiles
from molattn.data.splits.groups import NO_SIZE_LIMIT
from molattn.data.store.packing import Packing
from molattn.data.store.ragged import RaggedColumns, encode_row
from molattn.errors import ConformerError, SmilesError

TEXTS = {name: np.dtype("u1") for name in ("smiles", "key", "notes")}
"""The columns of every store: the SMILES, the canonical SMILES, and JSON with what few molecules have."""

Index = Sequence[int] | npt.NDArray[Any]  # of whole numbers


class MoleculeStore(Sequence[Any]):
    """n molecules in flat, memory-mapped columns; each is what reading its SMILES gave, equal in every field.

    `store[i]` is the molecule, or the SmilesError of a row that is none. `store[rows]`, of a slice or of indices, is a
    store of those rows that shares the columns; `collate` of a model makes a batch of it at once.

    Args:
        columns: what `pack_row` gives, row by row.
        packing: of the molecules.
        rows: (n,) which of the columns' rows these are; all of them when None.
        folder: what must live as long as the columns do.
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
            places = index if isinstance(index, slice) else np.asarray(index, dtype=np.int64)
            return MoleculeStore(self.columns, self.packing, self.rows[places], self._folder)
        row = int(self.rows[index])
        notes = self._notes(row)
        (smiles,) = self.columns.texts("smiles", self.rows[[index]])
        if "error" in notes:
            return (ConformerError if notes["geometry"] else SmilesError)(smiles, notes["error"])
        return self.packing.unpack(self.columns, row, smiles, notes)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(n,) how many places each molecule has; 0 for a row that is none."""
        return self.packing.sizes(self.columns, self.rows)

    @property
    def smiles(self) -> list[str]:
        """n SMILES: those that the molecules were read from."""
        return self.columns.texts("smiles", self.rows)

    @property
    def keys(self) -> list[str]:
        """n canonical SMILES, the same for every spelling of a molecule; empty for a row that is none."""
        return self.columns.texts("key", self.rows)

    @property
    def warnings(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """The molecules that have warnings: index and warnings."""
        for index in np.flatnonzero(self.columns.lengths("notes", self.rows)).tolist():
            if found := self._notes(int(self.rows[index])).get("warnings"):
                yield index, tuple(found)

    def padded(self) -> Any:
        """All these molecules in one batch, as `packing` pads them."""
        return self.packing.padded(self.columns, self.rows)

    def _notes(self, row: int) -> dict[str, Any]:
        data = self.columns.row("notes", row)
        return json.loads(data.tobytes()) if len(data) else {}


def pack_row(smiles: object, make: Callable[..., Any], packing: Packing) -> dict[str, bytes]:
    """The row of a store for what `make` makes of one SMILES; what `make` raises passes through.

    make: from one SMILES to its molecule; it takes `on_molecule`, as `molecule_graph` does.
    """
    read: list[Any] = []
    molecule = make(smiles, on_molecule=read.append)
    columns, notes = packing.pack(molecule)
    if molecule.warnings:
        notes["warnings"] = list(molecule.warnings)
    # It has passed the limit of its table already.
    columns["key"] = canonical_smiles(read[0], max_atoms=NO_SIZE_LIMIT)
    return encode_row({**columns, "smiles": molecule.smiles, "notes": json.dumps(notes) if notes else ""})


def pack_error(error: SmilesError) -> dict[str, bytes]:
    """The row of a store for a SMILES that is no molecule."""
    notes = {"error": error.reason, "geometry": isinstance(error, ConformerError)}
    return encode_row({"smiles": str(error.smiles), "notes": json.dumps(notes)})


def row_packer(make: Callable[..., Any], packing: Packing) -> Callable[[object], dict[str, bytes]]:
    """`pack_row` for one SMILES after another; pickle can carry it if it can carry `make`."""
    return partial(pack_row, make=make, packing=packing)


def store_dtypes(packing: Packing) -> Mapping[str, np.dtype[Any]]:
    """All columns of a store."""
    return TEXTS | dict(packing.dtypes)


def molecule_sizes(molecules: Sequence[Any]) -> npt.NDArray[np.int64]:
    """(n,) how many places each molecule has."""
    if isinstance(molecules, MoleculeStore):
        return molecules.sizes
    return np.array([m.size for m in molecules], dtype=np.int64)


def select_molecules(molecules: Sequence[Any], rows: Index) -> Sequence[Any]:
    """The molecules `rows`, in that order."""
    return molecules[rows] if isinstance(molecules, MoleculeStore) else [molecules[i] for i in rows]
