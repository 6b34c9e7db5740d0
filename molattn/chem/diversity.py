"""Diverse molecules: RDKit's MaxMin selection on packed fingerprints."""

import numpy as np
from rdkit import DataStructs
from rdkit.SimDivFilters.rdSimDivPickers import MaxMinPicker


def select_diverse(bits: np.ndarray, known: np.ndarray, size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The MaxMin selection of RDKit: the molecule farthest from all known and selected ones, again and again.

    Args:
        bits: (n, 256) packed fingerprints of the pool.
        known: (m, 256) those of known molecules; may be empty, then the first molecule is random.
        size: how many are selected.
        seed: of the first molecule.

    Returns:
        The k = min(n, size) rows in the order of their selection, and the (k,) Tanimoto distances to the nearest known
        or selected one at that time; 1 for the first if nothing is known.

    Source: Ashton et al., Quant. Struct.-Act. Relat. 2002, 21, 598.
    """
    fingerprints = [_bit_vector(row) for row in np.concatenate([known, bits])]
    count, first = min(size, len(bits)), list(range(len(known)))
    picked = MaxMinPicker().LazyBitVectorPick(fingerprints, len(fingerprints), len(known) + count, first, seed)
    rows = list(picked)[len(known) :]
    distances = []
    for place, row in enumerate(rows):
        near = [*fingerprints[: len(known)], *(fingerprints[other] for other in rows[:place])]
        distances.append(1.0 - max(DataStructs.BulkTanimotoSimilarity(fingerprints[row], near), default=0.0))
    return np.array(rows, dtype=np.int64) - len(known), np.array(distances)


def _bit_vector(packed: np.ndarray) -> DataStructs.ExplicitBitVect:
    return DataStructs.CreateFromBitString("".join(map(str, np.unpackbits(packed).tolist())))
