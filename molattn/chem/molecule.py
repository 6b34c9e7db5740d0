"""Molecules as complete graphs of atoms, and featurization of many SMILES."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
from rdkit import Chem

from molattn.chem.atoms import ATOM_FEATURES, symbols_from_codes
from molattn.chem.binary import codes_without_stereo_perception, molecule_codes
from molattn.chem.codes import Codes
from molattn.chem.conformers import ConformerOptions, distances
from molattn.chem.parse import (
    MAX_ATOMS,
    add_hydrogens,
    has_stereo,
    read_for_codes,
    read_smiles,
    read_without_stereo_perception,
)
from molattn.chem.standardize import standardized_smiles
from molattn.chem.workers import map_chunks
from molattn.errors import ConformerError, SmilesError, as_list

# Rows per task of a worker: many, so that sending them costs little, but few enough to balance the workers.
CHUNK_SIZE = 256
# Fewer, since a geometry takes about ten times as long as everything else.
CHUNK_SIZE_3D = 16

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Callback with the number of finished rows and the number of rows."""


@dataclass(frozen=True, eq=False)
class MoleculeGraph:
    """One molecule: n atoms and all n * n ordered pairs of them, including each atom with itself.

    Methane, without explicit hydrogens, is one atom and one pair. Atoms are in the order of the SMILES.

    Attributes:
        smiles: the input SMILES.
        atom_codes: (n, F) uint8: the features of every atom, columns as in `ATOM_FEATURES`.
        bond_codes: (n, n) uint8: `[i, j]` is the bond between receiver i and sender j, packed into a byte: see
            `unpack_bond`.
        path_lengths: (n, n) uint8: number of bonds on the shortest path; 0 on the diagonal, 255 between fragments.
        symbols: n element symbols.
        warnings: one sentence for each thing that the codes do not represent: unknown elements, charges, bonds or
            stereochemistry, and isotopes; and, with conformers, for distances that are not those of an optimized
            geometry.
        distances: (n, n) float32 in angstrom: 0 on the diagonal, symmetric, inf between fragments, whose relative
            positions are unknown; None without conformers.

    Raises:
        ValueError: the shapes or types of the arrays are inconsistent.

    >>> from molattn.chem import molecule_graph
    >>> graph = molecule_graph("CC(=O)O")
    >>> graph.symbols, graph.num_atoms
    (('C', 'C', 'O', 'O'), 4)
    >>> graph.path_lengths.tolist()
    [[0, 1, 2, 2], [1, 0, 1, 1], [2, 1, 0, 2], [2, 1, 2, 0]]
    """

    smiles: str
    atom_codes: npt.NDArray[np.uint8]
    bond_codes: npt.NDArray[np.uint8]
    path_lengths: npt.NDArray[np.uint8]
    symbols: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    distances: npt.NDArray[np.float32] | None = None

    def __post_init__(self):
        n = len(self.symbols)
        shapes = {"atom_codes": (n, len(ATOM_FEATURES)), "bond_codes": (n, n), "path_lengths": (n, n)}
        for name, shape in shapes.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype != np.uint8:
                raise ValueError(f"{name} must be uint8 of shape {shape}, not {array.dtype} of {array.shape}")
        d = self.distances
        if d is not None and (d.shape != (n, n) or d.dtype != np.float32):
            raise ValueError(f"distances must be float32 of shape {(n, n)}, not {d.dtype} of {d.shape}")

    @classmethod
    def from_codes(cls, smiles: str, codes: Codes) -> "MoleculeGraph":
        """The graph of codes, whose shapes are not validated; it has no distances.

        Args:
            smiles: the SMILES.
            codes: atom codes, bond codes, path lengths, symbols (None to derive them from the atom codes) and warnings.
        """
        graph = cls.__new__(cls)
        # Bypasses the checks and `__setattr__` of the frozen dataclass, which take as long as computing the codes.
        values = graph.__dict__
        values["smiles"], values["distances"] = smiles, None
        values["atom_codes"], values["bond_codes"], values["path_lengths"], symbols, values["warnings"] = codes
        if symbols is not None:
            values["symbols"] = symbols
        return graph

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Compute `symbols` from the codes at first use."""
            if name != "symbols" or "atom_codes" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return self.__dict__.setdefault("symbols", symbols_from_codes(self.atom_codes))

    @property
    def num_atoms(self) -> int:
        """n, the number of atoms."""
        return len(self.atom_codes)

    @property
    def size(self) -> int:
        """n, the same as `num_atoms`, under the name that `SmilesTokens` has, too."""
        return len(self.atom_codes)

    @property
    def encoded_smiles(self) -> str:
        """The SMILES that has the atom order of the codes."""
        return self.smiles

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its nodes: the element symbols."""
        return self.symbols

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MoleculeGraph):
            return NotImplemented
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def permute(self, order: Sequence[int]) -> "MoleculeGraph":
        """The molecule with renumbered atoms: atom k of the result is atom `order[k]` of this one.

        `smiles` and `warnings` are unchanged: they have the old atom order and numbers.

        Args:
            order: n indices, each of 0 to n - 1 once.

        Raises:
            ValueError: `order` is no permutation of the atoms.

        >>> from molattn.chem import molecule_graph
        >>> molecule_graph("CCO").permute([2, 1, 0]).symbols
        ('O', 'C', 'C')
        """
        index = np.asarray(order)
        # True and 1.0 equal 1, but select other rows, or none.
        if index.dtype.kind not in "iu" or not np.array_equal(np.sort(index), np.arange(self.num_atoms)):
            raise ValueError(f"order must hold each of 0 to {self.num_atoms - 1} once, as integers")
        return replace(
            self,
            atom_codes=self.atom_codes[index],
            bond_codes=self.bond_codes[np.ix_(index, index)],
            path_lengths=self.path_lengths[np.ix_(index, index)],
            symbols=tuple(self.symbols[i] for i in index),
            distances=None if self.distances is None else self.distances[np.ix_(index, index)],
        )


@dataclass(frozen=True)
class ReadOptions:
    """How a model reads SMILES: the arguments of `molecule_graph` and `smiles_tokens`.

    Attributes:
        add_hs: whether hydrogens are atoms of the graph; they then follow the others.
        max_atoms: largest number of atoms.
        conformers: how to compute distances; None for no distances.
        standardize: a key of `STANDARDIZE`; empty for none.

    >>> from molattn.chem import ReadOptions
    >>> ReadOptions(standardize="parent")
    ReadOptions(add_hs=False, max_atoms=1000, conformers=None, standardize='parent')
    """

    add_hs: bool = False
    max_atoms: int = MAX_ATOMS
    conformers: ConformerOptions | None = None
    standardize: str = ""


DEFAULT_READ_OPTIONS = ReadOptions()
"""Implicit hydrogens, up to `MAX_ATOMS` atoms, no distances, no standardization."""


def molecule_graph(
    smiles: object,
    *,
    add_hs: bool = False,
    max_atoms: int = MAX_ATOMS,
    conformers: ConformerOptions | None = None,
    standardize: str = "",
    on_molecule: Callable[[Chem.Mol], None] | None = None,
) -> MoleculeGraph:
    """The graph of one SMILES.

    Args:
        smiles: SMILES, as `read_smiles` takes it.
        add_hs: whether hydrogens are atoms of the graph; they then follow the others.
        max_atoms: largest number of atoms.
        conformers: how to compute distances; None for no distances.
        standardize: a key of `STANDARDIZE`: the graph is that of the standard form, and `smiles` is its SMILES.
        on_molecule: called with the parsed molecule, before hydrogens are added, so that the caller does not have to
            parse it again.

    Raises:
        SmilesError: text that is not a molecule within the limits, or a molecule that RDKit fails to standardize.
        ConformerError: a molecule without a geometry, unless the policy is "paths". It is a subclass of SmilesError.
        InputError: RDKit fails to write the standard form as SMILES.
        UsageError: there is no such `standardize`.

    >>> from molattn.chem import ATOM_FEATURES, molecule_graph
    >>> graph = molecule_graph("CCO")
    >>> graph.atom_codes.shape == (3, len(ATOM_FEATURES)), graph.bond_codes.shape
    (True, (3, 3))
    >>> molecule_graph("CCO", add_hs=True).num_atoms
    9
    >>> molecule_graph("CC(=O)[O-].[Na+]", standardize="parent").smiles
    'CC(=O)O'
    """
    if standardize:
        smiles = standardized_smiles(smiles, standardize, max_atoms)
    codes_only = on_molecule is None and conformers is None
    if codes_only and not add_hs and has_stereo(smiles):
        # RDKit's stereo perception takes a fifth of the parsing time, and the compiled reader rarely needs it.
        mol = read_without_stereo_perception(smiles, max_atoms=max_atoms)
        codes = None if mol is None else codes_without_stereo_perception(mol)
        if codes is not None:
            return MoleculeGraph.from_codes(str(smiles), codes)
    mol = (read_for_codes if codes_only else read_smiles)(smiles, max_atoms=max_atoms)
    if on_molecule is not None:
        on_molecule(mol)
    if add_hs:
        mol = add_hydrogens(mol, smiles, max_atoms)
    graph = MoleculeGraph.from_codes(str(smiles), molecule_codes(mol))
    if conformers is None:
        return graph
    d, warnings_3d = distances(mol, smiles, graph.path_lengths, conformers)
    return replace(graph, distances=d, warnings=graph.warnings + warnings_3d)


def featurize(
    smiles: Iterable[object],
    *,
    add_hs: bool = False,
    max_atoms: int = MAX_ATOMS,
    num_workers: int = 0,
    conformers: ConformerOptions | None = None,
    progress: Progress | None = None,
    standardize: str = "",
) -> list[MoleculeGraph | SmilesError]:
    """The graphs of many SMILES, in order; for a row that is not a molecule, its error.

    Args:
        smiles: any number of rows, of any type.
        add_hs: as for `molecule_graph`.
        max_atoms: as for `molecule_graph`.
        num_workers: number of worker processes; 0 for none. They are spawned, so a script that uses them needs
            `if __name__ == "__main__":`.
        conformers: as for `molecule_graph`.
        progress: called after each chunk of rows with the number of finished rows and the number of rows.
        standardize: as for `molecule_graph`.

    Returns:
        A `MoleculeGraph` or a `SmilesError`, which is not raised, for each row.

    Raises:
        ConformerError: the first molecule without a geometry if the policy is "stop"; it has the `row`.
        UsageError: there is no such `standardize`; or worker processes die as they start.
        TypeError: `smiles` is a single string.

    >>> from molattn.chem import featurize
    >>> ethanol, error = featurize(["CCO", "c1cccc1"])
    >>> ethanol.num_atoms
    3
    >>> error.reason
    'no alternating double bonds fit the aromatic atoms 0, 1, 2, 3, 4'
    """
    function = partial(
        molecule_graph, add_hs=add_hs, max_atoms=max_atoms, conformers=conformers, standardize=standardize
    )
    if conformers is None:
        return map_rows(smiles, function, num_workers, progress=progress)
    check = _raise_conformer_error if conformers.on_failure == "stop" else None
    return map_rows(smiles, function, num_workers, progress=progress, check=check, chunk_size=CHUNK_SIZE_3D)


def map_rows(
    smiles: Iterable[object],
    function: Callable[[object], T],
    num_workers: int = 0,
    *,
    progress: Progress | None = None,
    check: Callable[[int, T | SmilesError], None] | None = None,
    chunk_size: int = CHUNK_SIZE,
) -> list[T | SmilesError]:
    """The result of a function for each of many rows, in order, or the SmilesError that it raises.

    Args:
        smiles: any number of rows, of any type.
        function: applied to each row; with workers it is pickled.
        num_workers: number of worker processes; 0 for none.
        progress: called after each chunk of rows.
        check: called with the index and the result of each row, in order; its exceptions end the call.
        chunk_size: number of rows that a worker gets at once.
    """
    rows = as_list(smiles)
    results: list[T | SmilesError] = []
    size = max(1, min(chunk_size, -(-len(rows) // max(1, num_workers))))
    with closing(map_chunks(rows, function, min(num_workers, -(-len(rows) // size)), size)) as chunks:
        for _, chunk in chunks:
            for result in chunk:
                if check is not None:
                    check(len(results), result)
                results.append(result)
            if progress is not None:
                progress(len(results), len(rows))
    return results


def _raise_conformer_error(row: int, result: MoleculeGraph | SmilesError) -> None:
    """Raise the error of a molecule without a geometry, with its row."""
    if isinstance(result, ConformerError):
        result.row = row
        raise result
