"""Packing of molecules into ragged columns, and unpacking of one molecule or a padded batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from molattn.chem import ATOM_FEATURES, BOND_FEATURES, TOKENS, MoleculeGraph, SmilesTokens, pack_bond
from molattn.chem.atoms import symbols_from_codes
from molattn.data.store.ragged import RaggedColumns

_UINT8, _UINT16, _FLOAT32 = np.dtype("u1"), np.dtype("<u2"), np.dtype("<f4")
_SELF_BOND = pack_bond([BOND_FEATURES[0].index["self"], 0, 0, 0])


@runtime_checkable
class Packing(Protocol):
    """Conversion of one type of molecules to and from ragged columns."""

    @property
    def dtypes(self) -> Mapping[str, np.dtype[Any]]:
        """The dtype of each column."""
        ...

    def pack(self, molecule: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """The values of each column for one molecule, and further data as a JSON object."""
        ...

    def unpack(self, columns: RaggedColumns, row: int, smiles: str, metadata: Mapping[str, Any]) -> Any:
        """The molecule in a row, equal to the one that was packed."""
        ...

    def sizes(self, columns: RaggedColumns, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """(n,) the number of atoms or tokens in each of `rows`; 0 if the row has no molecule."""
        ...

    def padded(self, columns: RaggedColumns, rows: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
        """The molecules of `rows`, in that order, padded with zeros: arrays by the names of the fields of a batch."""
        ...


@dataclass(frozen=True)
class GraphPacking:
    """Packs `MoleculeGraph` into columns.

    Path lengths and distances are symmetric and 0 on the diagonal: for n atoms, the n (n - 1) / 2 entries below the
    diagonal are stored, row by row. A bond of atoms i > j is stored as (i, j, code of [i, j], code of [j, i]).
    """

    distances: bool = False
    """Whether the molecules have distances."""

    @property
    def dtypes(self) -> Mapping[str, np.dtype[Any]]:
        """The dtype of each column."""
        columns = {"atoms": _UINT8, "bonds": _UINT16, "paths": _UINT8}
        return columns | {"distances": _FLOAT32} if self.distances else columns

    def pack(self, molecule: MoleculeGraph) -> tuple[dict[str, Any], dict[str, Any]]:
        """The values of each column for one molecule, and its symbols if they cannot be derived from its codes."""
        below = _below(molecule.num_atoms)
        bonds, reverse = molecule.bond_codes.take(below), molecule.bond_codes.T.take(below)
        (found,) = bonds.nonzero()
        packed_bonds = np.empty((len(found), 4), _UINT16)
        packed_bonds[:, 0], packed_bonds[:, 1] = np.divmod(below[found], molecule.num_atoms)
        packed_bonds[:, 2], packed_bonds[:, 3] = bonds[found], reverse[found]
        columns = {"atoms": molecule.atom_codes, "bonds": packed_bonds, "paths": molecule.path_lengths.take(below)}
        if molecule.distances is not None:
            columns["distances"] = molecule.distances.take(below)
        custom_symbols = molecule.symbols != symbols_from_codes(molecule.atom_codes)
        return columns, {"symbols": list(molecule.symbols)} if custom_symbols else {}

    def unpack(self, columns: RaggedColumns, row: int, smiles: str, metadata: Mapping[str, Any]) -> MoleculeGraph:
        """The molecule in a row, equal to the one that was packed."""
        padded = self.padded(columns, np.array([row]))
        return MoleculeGraph(
            smiles=smiles,
            atom_codes=padded["atom_codes"][0],
            bond_codes=padded["bond_codes"][0],
            path_lengths=padded["path_lengths"][0],
            symbols=tuple(metadata.get("symbols") or symbols_from_codes(padded["atom_codes"][0])),
            warnings=tuple(metadata.get("warnings", ())),
            distances=padded["distances"][0] if self.distances else None,
        )

    def sizes(self, columns: RaggedColumns, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """(n,) the number of atoms in each of `rows`."""
        return columns.lengths("atoms", rows) // len(ATOM_FEATURES)

    def padded(self, columns: RaggedColumns, rows: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
        """The molecules of `rows`, in that order, padded with zeros: the arrays of `MoleculeBatch`."""
        sizes = self.sizes(columns, rows)
        b, n = len(rows), int(sizes.max())
        mask = np.arange(n) < sizes[:, None]
        atoms = np.zeros((b, n, len(ATOM_FEATURES)), np.uint8)
        atoms[mask] = columns.take("atoms", rows).reshape(-1, len(ATOM_FEATURES))
        bonds = np.zeros((b, n, n), np.uint8)
        molecule = np.repeat(np.arange(b), columns.lengths("bonds", rows) // 4)
        i, j, code, reverse = columns.take("bonds", rows).reshape(-1, 4).T
        bonds[molecule, i, j], bonds[molecule, j, i] = code, reverse
        diagonal = np.arange(n)
        bonds[:, diagonal, diagonal] = mask * _SELF_BOND
        below = mask[:, :, None] & np.tri(n, k=-1, dtype=bool)
        paths = _symmetric(below, columns.take("paths", rows))
        arrays = {"atom_codes": atoms, "bond_codes": bonds, "path_lengths": paths, "mask": mask}
        return arrays | ({"distances": _symmetric(below, columns.take("distances", rows))} if self.distances else {})


@lru_cache(64)
def _below(n: int) -> npt.NDArray[np.int64]:
    """The flat indices of the entries below the diagonal of an (n, n) matrix, row by row."""
    return np.flatnonzero(np.tri(n, k=-1, dtype=bool))


def _symmetric(below: npt.NDArray[np.bool_], values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """(b, n, n) symmetric, with `values` where `below` is True; 0 elsewhere."""
    matrix = np.zeros(below.shape, values.dtype)
    matrix[below] = values
    return matrix + matrix.transpose(0, 2, 1)


@dataclass(frozen=True)
class TokenPacking:
    """Packs `SmilesTokens` into a column of token codes; the encoded SMILES is the concatenation of the tokens."""

    @property
    def dtypes(self) -> Mapping[str, np.dtype[Any]]:
        """The dtype of each column."""
        return {"tokens": _UINT8}

    def pack(self, molecule: SmilesTokens) -> tuple[dict[str, Any], dict[str, Any]]:
        """The token codes of one molecule; there is no further data."""
        return {"tokens": molecule.codes}, {}

    def unpack(self, columns: RaggedColumns, row: int, smiles: str, metadata: Mapping[str, Any]) -> SmilesTokens:
        """The molecule in a row, equal to the one that was packed."""
        codes = columns.row("tokens", row).copy()
        labels = tuple(TOKENS[code] for code in codes.tolist())
        return SmilesTokens(smiles, "".join(labels), labels, codes, tuple(metadata.get("warnings", ())))

    def sizes(self, columns: RaggedColumns, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """(n,) the number of tokens in each of `rows`."""
        return columns.lengths("tokens", rows)

    def padded(self, columns: RaggedColumns, rows: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
        """The molecules of `rows`, in that order, padded with zeros: the array of `TokenBatch`."""
        sizes = self.sizes(columns, rows)
        mask = np.arange(int(sizes.max())) < sizes[:, None]
        codes = np.zeros(mask.shape, np.uint8)
        codes[mask] = columns.take("tokens", rows)
        return {"codes": codes}
