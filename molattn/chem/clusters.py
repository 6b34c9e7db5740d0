"""Clusters of similar molecules, for splitting data sets."""

from collections.abc import Sequence

import numpy as np

from molattn.chem.fingerprints import Fingerprints
from molattn.chem.parse import MAX_ATOMS

SIMILARITY = 0.4


def butina_clusters(
    smiles: Sequence[str], similarity: float = SIMILARITY, *, max_atoms: int = MAX_ATOMS
) -> list[np.ndarray]:
    """Butina clustering by Tanimoto similarity of Morgan fingerprints.

    Molecules are visited by decreasing number of neighbours, ties in order. Each that is in no cluster yet becomes the
    centre of a new one, with those of its neighbours that are in none. All n^2 pairs are compared, in C++: a few
    seconds for n = 5,000.

    Args:
        smiles: n SMILES, each molecule once.
        similarity: smallest Tanimoto similarity of neighbours, from 0 to 1.
        max_atoms: largest number of atoms of a molecule.

    Returns: arrays of row indices, one per cluster, the centre first; each row is in exactly one of them.

    Raises SmilesError for SMILES that cannot be read.

    Source: Butina, J. Chem. Inf. Comput. Sci. 1999, 39, 747 (https://doi.org/10.1021/ci9803381).
    """
    fingerprints = Fingerprints(smiles, max_atoms=max_atoms)
    n = len(fingerprints)
    neighbours = [np.flatnonzero(fingerprints.similarities(row) >= similarity) for row in range(n)]
    order = np.argsort([-len(near) for near in neighbours], kind="stable")
    unassigned = np.ones(n, dtype=bool)
    clusters = []
    for centre in order:
        if unassigned[centre]:
            near = neighbours[centre]
            near = near[unassigned[near] & (near != centre)]
            clusters.append(np.array([centre, *near]))
            unassigned[clusters[-1]] = False
    return clusters
