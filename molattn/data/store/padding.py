"""Padded arrays of molecules, and batches by size, without torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from molattn.chem import MoleculeGraph, SmilesTokens

MAX_PAIRS = 2**16
"""Maximum pairs of atoms or tokens in a batch for prediction, padding included. With 16 channels per pair they take
4 MB, which fit into the cache of a CPU. In measurements, 2**15 and 2**17 were as fast. Batches of always 128 molecules
were 1.5 times slower, because each molecule is padded to the size of the largest one."""


def pad_graphs(molecules: Sequence[MoleculeGraph]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a `MoleculeBatch` by name, padded with zeros to the largest molecule.

    Raises:
        ValueError: some of the molecules have distances and others have none.
    """
    b, n = len(molecules), max(molecule.num_atoms for molecule in molecules)
    arrays: dict[str, npt.NDArray[Any]] = {
        "atom_codes": np.zeros((b, n, molecules[0].atom_codes.shape[1]), np.uint8),
        "bond_codes": np.zeros((b, n, n), np.uint8),
        "path_lengths": np.zeros((b, n, n), np.uint8),
        "mask": np.zeros((b, n), bool),
    }
    if count := sum(molecule.distances is not None for molecule in molecules):
        if count < b:
            raise ValueError(
                f"{count} of {b} molecules have distances: featurize all of a batch with conformers, or none"
            )
        arrays["distances"] = np.zeros((b, n, n), np.float32)
    matrices = arrays.keys() - {"atom_codes", "mask"}
    for i, molecule in enumerate(molecules):
        k = molecule.num_atoms
        arrays["atom_codes"][i, :k] = molecule.atom_codes
        arrays["mask"][i, :k] = True
        for name in matrices:
            arrays[name][i, :k, :k] = getattr(molecule, name)
    return arrays


def pad_tokens(molecules: Sequence[SmilesTokens]) -> dict[str, npt.NDArray[Any]]:
    """The array of a `TokenBatch`, by name, padded with zeros to the longest molecule."""
    codes = np.zeros((len(molecules), max(molecule.size for molecule in molecules)), np.uint8)
    for i, molecule in enumerate(molecules):
        codes[i, : molecule.size] = molecule.codes
    return {"codes": codes}


def batches_by_size(sizes: Sequence[int] | np.ndarray, batch_size: int, max_pairs: int = MAX_PAIRS) -> list[np.ndarray]:
    """Batches for prediction: the indices of molecules, sorted by size and cut into batches.

    Args:
        sizes: (n,) number of atoms or tokens of each molecule.
        batch_size: maximum number of molecules in a batch.
        max_pairs: maximum pairs of atoms or tokens in a batch, padding included; a molecule with more is a batch by
            itself.

    >>> [batch.tolist() for batch in batches_by_size([3, 100, 2, 4, 3], batch_size=3, max_pairs=40)]
    [[2, 0, 4], [3], [1]]
    """
    order = np.argsort(np.asarray(sizes), kind="stable")
    batches, start = [], 0
    for end, size in enumerate(np.asarray(sizes)[order].tolist()):
        if end > start and (end == start + batch_size or (end + 1 - start) * size**2 > max_pairs):
            batches.append(order[start:end])
            start = end
    return [*batches, order[start:]] if len(order) else []
