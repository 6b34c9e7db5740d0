"""Diverse molecules: RDKit's MaxMin selection on packed fingerprints."""

import numpy as np
from rdkit import DataStructs
from rdkit.SimDivFilters.rdSimDivPickers import MaxMinPicker


def select_diverse(bits: np.ndarray, known: np.ndarray, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The MaxMin selection of RDKit: repeatedly, the molecule that is farthest from all known and selected ones.

    Args:
        bits: (n, 256) packed fingerprints of the pool.
        known: (m, 256) packed fingerprints of known molecules; if there are none, the first selection is random.
        size: number of molecules to select.
        seed: random seed of that first selection.

    Returns:
        The k = min(n, size) rows of `bits` in the order of their selection, (k,), and the Tanimoto distance of each to
        the nearest known or previously selected molecule, (k,); 1 for the first one if there are no known molecules.

    Source: Ashton et al., Quant. Struct.-Act. Relat. 2002, 21, 598.
    """
    fingerprints = [_bit_vector(row) for row in np.concatenate([known, bits])]
    count, known_rows = min(size, len(bits)), list(range(len(known)))
    picked = MaxMinPicker().LazyBitVectorPick(fingerprints, len(fingerprints), len(known) + count, known_rows, seed)
    rows = list(picked)[len(known) :]
    distances = []
    for k, row in enumerate(rows):
        others = [*fingerprints[: len(known)], *(fingerprints[other] for other in rows[:k])]
        distances.append(1.0 - max(DataStructs.BulkTanimotoSimilarity(fingerprints[row], others), default=0.0))
    return np.array(rows, dtype=np.int64) - len(known), np.array(distances)


def _bit_vector(packed: np.ndarray) -> DataStructs.ExplicitBitVect:
    return DataStructs.CreateFromBitString("".join(map(str, np.unpackbits(packed).tolist())))
