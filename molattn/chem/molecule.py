"""A molecule as the complete graph that attention runs over, and many molecules at once."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
from rdkit import Chem

from molattn.chem.atoms import ATOM_FEATURES, symbols_of
from molattn.chem.binary import codes_of
from molattn.chem.codes import Codes
from molattn.chem.conformers import Conformers, distances
from molattn.chem.parse import MAX_ATOMS, read_for_codes, read_smiles, with_all_hydrogens
from molattn.chem.standardize import standardized_smiles
from molattn.chem.workers import stream_outcomes
from molattn.errors import ConformerError, SmilesError

# Large enough that sending rows to a worker costs little, small enough to keep all workers busy to the end.
CHUNK = 256
# A geometry takes about ten times as long as all the rest.
CHUNK_3D = 16

T = TypeVar("T")

Progress = Callable[[int, int], None]
"""Told how many of how many rows are done."""


@dataclass(frozen=True, eq=False)
class MoleculeGraph:
    """One molecule: n atoms, and every ordered pair of them, each atom with itself included.

    Methane is one atom attending to itself. Atoms keep the order of the SMILES.

    Errors: ValueError when the shapes or types of the fields do not go together.
    """

    smiles: str
    """As it was given."""

    atom_codes: npt.NDArray[np.uint8]
    """(n, F): the features of every atom, columns as in `ATOM_FEATURES`."""

    bond_codes: npt.NDArray[np.uint8]
    """(n, n): `[i, j]` is what joins the receiver i to the sender j, in one byte: see `unpack_bond`."""

    path_lengths: npt.NDArray[np.uint8]
    """(n, n): bonds on the shortest path; 0 on the diagonal, 255 between fragments."""

    symbols: tuple[str, ...]
    """n element symbols, for people to read."""

    warnings: tuple[str, ...] = ()
    """What the codes leave out, a sentence each: unknown elements, charges, bonds, geometries; isotopes; and
    where 3D was asked for, what stands in for a geometry."""

    distances: npt.NDArray[np.float32] | None = None
    """(n, n) in angstrom: 0 on the diagonal, symmetric, inf between fragments, whose places relative to each other are
    unknown; None where 3D was not asked for."""

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
    def of_codes(cls, smiles: str, codes: Codes) -> "MoleculeGraph":
        """The graph with these codes, whose shapes go together."""
        graph = cls.__new__(cls)
        # Past the checks and the lock of a frozen dataclass, which take as long as it takes to read the codes.
        known = graph.__dict__
        known["smiles"], known["distances"] = smiles, None
        known["atom_codes"], known["bond_codes"], known["path_lengths"], symbols, known["warnings"] = codes
        if symbols is not None:
            known["symbols"] = symbols
        return graph

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """The symbols, when somebody first asks for those that follow from the codes."""
            if name != "symbols" or "atom_codes" not in self.__dict__:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            return self.__dict__.setdefault("symbols", symbols_of(self.atom_codes))

    @property
    def num_atoms(self) -> int:
        """n, the number of atoms."""
        return len(self.atom_codes)

    @property
    def size(self) -> int:
        """n: how much attention over it costs is a matter of its square."""
        return len(self.atom_codes)

    @property
    def written(self) -> str:
        """The SMILES whose atoms these are, in order."""
        return self.smiles

    @property
    def labels(self) -> tuple[str, ...]:
        """What its places are called: the element symbols."""
        return self.symbols

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MoleculeGraph):
            return NotImplemented
        return all(np.array_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def permute(self, order: Sequence[int]) -> "MoleculeGraph":
        """The same molecule with its atoms renumbered: atom k of the result is atom `order[k]` of this one.

        `smiles` and `warnings` stay as they are, and so keep the old numbers.
        """
        index = np.asarray(order)
        if not np.array_equal(np.sort(index), np.arange(self.num_atoms)):
            raise ValueError(f"order must hold each of 0 to {self.num_atoms - 1} once")
        return replace(
            self,
            atom_codes=self.atom_codes[index],
            bond_codes=self.bond_codes[np.ix_(index, index)],
            path_lengths=self.path_lengths[np.ix_(index, index)],
            symbols=tuple(self.symbols[i] for i in index),
            distances=None if self.distances is None else self.distances[np.ix_(index, index)],
        )


def molecule_graph(
    smiles: object,
    *,
    add_hs: bool = False,
    max_atoms: int = MAX_ATOMS,
    conformers: Conformers | None = None,
    standardize: str = "",
    seen: Callable[[Chem.Mol], None] | None = None,
) -> MoleculeGraph:
    """The graph of one SMILES.

    Args:
        smiles: SMILES, as `read_smiles` takes it.
        add_hs: Whether hydrogens are atoms of the graph; they then follow the others.
        max_atoms: The most atoms there may be.
        conformers: How to make the distances of a geometry; None makes none.
        standardize: A key of `STANDARDIZE`: the graph is that of the standard form, and `smiles` is its SMILES.
        seen: Called with the molecule as it was read, before hydrogens are added: for those who want more of it and
            would have to read it again.

    Errors: SmilesError, for whatever is not a molecule within the limits; ConformerError, one of them, for a molecule
    without a geometry, unless the policy is "paths".
    """
    if standardize:
        smiles = standardized_smiles(smiles, standardize, max_atoms)
    whole = seen is not None or conformers is not None
    mol = (read_smiles if whole else read_for_codes)(smiles, max_atoms=max_atoms)
    if seen is not None:
        seen(mol)
    if add_hs:
        mol = with_all_hydrogens(mol, smiles, max_atoms)
    graph = MoleculeGraph.of_codes(str(smiles), codes_of(mol))
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
    conformers: Conformers | None = None,
    progress: Progress | None = None,
    standardize: str = "",
) -> list[MoleculeGraph | SmilesError]:
    """The graphs of many SMILES, in order; a row that is not a molecule gives its error, and stops nothing.

    Args:
        smiles: Any number of rows, of any type.
        add_hs: As for `molecule_graph`.
        max_atoms: As for `molecule_graph`.
        num_workers: Processes to share the work; 0 does it in this one. They are started afresh, so a script
            that asks for them needs `if __name__ == "__main__":`.
        conformers: As for `molecule_graph`.
        progress: Called now and then.
        standardize: As for `molecule_graph`.

    Errors: ConformerError, with its `row`, for the first molecule without a geometry where the policy is "stop".
    """
    make = partial(molecule_graph, add_hs=add_hs, max_atoms=max_atoms, conformers=conformers, standardize=standardize)
    if conformers is None:
        return outcomes(smiles, make, num_workers, progress=progress)
    check = _refuse if conformers.on_failure == "stop" else None
    return outcomes(smiles, make, num_workers, progress=progress, check=check, chunk=CHUNK_3D)


def outcomes(
    smiles: Iterable[object],
    make: Callable[[object], T],
    num_workers: int = 0,
    *,
    progress: Progress | None = None,
    check: Callable[[int, T | SmilesError], None] | None = None,
    chunk: int = CHUNK,
) -> list[T | SmilesError]:
    """What `make` makes of every row, in order, or the SmilesError that it raised there.

    Args:
        smiles: Any number of rows, of any type.
        make: From a row to what is wanted; with workers, something that pickle can carry to them.
        num_workers: Processes to share the work; 0 does it in this one.
        progress: Called now and then.
        check: Called with every row's number and outcome, in order; what it raises ends the work.
        chunk: Rows that go to a worker at once.
    """
    rows = list(smiles)
    made: list[T | SmilesError] = []
    size = max(1, min(chunk, -(-len(rows) // max(1, num_workers))))
    with closing(stream_outcomes(rows, make, min(num_workers, -(-len(rows) // size)), size)) as parts:
        for _, part in parts:
            for outcome in part:
                if check is not None:
                    check(len(made), outcome)
                made.append(outcome)
            if progress is not None:
                progress(len(made), len(rows))
    return made


def _refuse(row: int, outcome: MoleculeGraph | SmilesError) -> None:
    """Raise the error of a molecule without a geometry, with its row."""
    if isinstance(outcome, ConformerError):
        outcome.row = row
        raise outcome
