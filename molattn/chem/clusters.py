"""Clusters of molecules that are alike, by which data sets are split."""

from collections.abc import Sequence

import numpy as np

from molattn.chem.fingerprints import Fingerprints
from molattn.chem.parse import MAX_ATOMS

SIMILARITY = 0.4


def butina_clusters(
    smiles: Sequence[str], similarity: float = SIMILARITY, *, max_atoms: int = MAX_ATOMS
) -> list[np.ndarray]:
    """Butina's clusters over Morgan fingerprints: who is at least so alike to a centre belongs to it.

    The molecule with the most neighbours is the first centre; its neighbours join it and are gone. So on with
    the next that is left, by the neighbours it had at first; equals go by their place. Comparing n molecules is
    n^2 work, in C++: a few seconds for 5,000 of them.

    Args:
        smiles: n SMILES, each molecule once.
        similarity: least Tanimoto similarity of neighbours, from 0 to 1.
        max_atoms: the most atoms that one may have.

    Returns: arrays of rows, one per cluster, the centre first; every row is in one of them.

    Errors: SmilesError for SMILES that cannot be read.

    Source: Butina, J. Chem. Inf. Comput. Sci. 1999, 39, 747 (https://doi.org/10.1021/ci9803381).
    """
    fingerprints = Fingerprints(smiles, max_atoms=max_atoms)
    n = len(fingerprints)
    neighbours = [np.flatnonzero(fingerprints.alike(row) >= similarity) for row in range(n)]
    order = np.argsort([-len(near) for near in neighbours], kind="stable")
    left = np.ones(n, dtype=bool)
    clusters = []
    for centre in order:
        if left[centre]:
            near = neighbours[centre]
            near = near[left[near] & (near != centre)]
            clusters.append(np.array([centre, *near]))
            left[clusters[-1]] = False
    return clusters
