"""Morgan fingerprints, their Tanimoto similarities, and clusters of similar molecules."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

from molattn.chem.parse import MAX_ATOMS, convert_rdkit_errors, read_smiles
from molattn.errors import UsageError, as_list

RADIUS, FINGERPRINT_BITS = 2, 2048


class Fingerprints:
    """The Morgan fingerprints of n molecules: radius 2, 2,048 bits, like ECFP4.

    Args:
        smiles: n SMILES.
        max_atoms: largest number of atoms of a molecule.
        counts: whether to count how often each substructure occurs. Without counts, long chains are all alike.

    Raises:
        SmilesError: a SMILES that cannot be read; raised for the first of them.
        TypeError: `smiles` is a single string.

    Source: Rogers and Hahn, J. Chem. Inf. Model. 2010, 50, 742 (https://doi.org/10.1021/ci100050t).

    >>> from molattn.chem import Fingerprints
    >>> fingerprints = Fingerprints(["CCO", "CCCO", "c1ccccc1"])
    >>> len(fingerprints), fingerprints.similarities(0).round(2).tolist()
    (3, [1.0, 0.56, 0.0])
    """

    def __init__(self, smiles: Sequence[str], *, max_atoms: int = MAX_ATOMS, counts: bool = False):
        fingerprint = _generator().GetCountFingerprint if counts else _generator().GetFingerprint
        self._counts = counts
        self._fingerprints = [_compute(fingerprint, text, max_atoms) for text in as_list(smiles)]

    def __len__(self) -> int:
        return len(self._fingerprints)

    def similarities(self, row: int) -> np.ndarray:
        """Tanimoto similarities of one molecule to all molecules, (n,) float64 from 0 to 1.

        s_j = |bits_row and bits_j| / |bits_row or bits_j|; with counts, the sum of the smaller counts divided by that
        of the larger ones; 1 for two molecules without any bit.

        Args:
            row: index of the molecule among the `smiles`.

        Raises:
            IndexError: there is no such row.
        """
        if not self._size(self._fingerprints[row]):
            return np.array([1.0 - (self._size(other) > 0) for other in self._fingerprints])
        return np.array(DataStructs.BulkTanimotoSimilarity(self._fingerprints[row], self._fingerprints))

    def _size(self, fingerprint: Any) -> int:
        """The number of bits, or the sum of the counts."""
        return fingerprint.GetTotalVal() if self._counts else fingerprint.GetNumOnBits()


def morgan_bits(smiles: Sequence[str], *, max_atoms: int = MAX_ATOMS) -> np.ndarray:
    """The fingerprints of `Fingerprints` as bits, (n, 256) uint8, packed by `numpy.packbits`.

    Args:
        smiles: n SMILES.
        max_atoms: largest number of atoms of a molecule.

    Raises:
        SmilesError: a SMILES that cannot be read; raised for the first of them.
        TypeError: `smiles` is a single string.

    >>> import numpy as np
    >>> from molattn.chem import morgan_bits
    >>> bits = np.unpackbits(morgan_bits(["CCO", "c1ccccc1"]), axis=1)
    >>> bits.shape, bits.sum(1).tolist()
    ((2, 2048), [6, 3])
    """
    fingerprint = _generator().GetFingerprintAsNumPy
    rows = [np.packbits(_compute(fingerprint, text, max_atoms)) for text in as_list(smiles)]
    return np.array(rows, dtype=np.uint8).reshape(len(rows), FINGERPRINT_BITS // 8)


def morgan_counts(smiles: Sequence[str], *, max_atoms: int = MAX_ATOMS) -> np.ndarray:
    """Morgan count fingerprints, (n, 2048) uint16: radius 2, how often each substructure occurs, up to 65,535.

    Args:
        smiles: n SMILES.
        max_atoms: largest number of atoms of a molecule.

    Raises:
        SmilesError: a SMILES that cannot be read; raised for the first of them.
        TypeError: `smiles` is a single string.

    Source: Rogers and Hahn, J. Chem. Inf. Model. 2010, 50, 742 (https://doi.org/10.1021/ci100050t).

    >>> from molattn.chem import morgan_counts
    >>> counts = morgan_counts(["CCO", "c1ccccc1"])
    >>> counts.shape
    (2, 2048)
    >>> counts[1][counts[1] > 0].tolist()  # benzene: three substructures, six times each
    [6, 6, 6]
    """
    fingerprint = _generator().GetCountFingerprintAsNumPy
    rows = [np.minimum(_compute(fingerprint, text, max_atoms), 2**16 - 1).astype(np.uint16) for text in as_list(smiles)]
    return np.array(rows, dtype=np.uint16).reshape(len(rows), FINGERPRINT_BITS)


def _compute(fingerprint: Callable[[Chem.Mol], Any], text: str, max_atoms: int) -> Any:
    mol = read_smiles(text, max_atoms=max_atoms)
    with convert_rdkit_errors(text, "compute its fingerprint"):
        return fingerprint(mol)


DEFAULT_SIMILARITY = 0.4
"""The smallest Tanimoto similarity of neighbors in `butina_clusters`."""


def butina_clusters(
    smiles: Sequence[str], similarity: float = DEFAULT_SIMILARITY, *, max_atoms: int = MAX_ATOMS
) -> list[np.ndarray]:
    """Butina clustering by Tanimoto similarity of Morgan fingerprints.

    Molecules are visited by decreasing number of neighbors, ties in order. Each molecule without a cluster becomes the
    center of a new one, together with its neighbors without a cluster. All n^2 pairs are compared, in C++: a few
    seconds for n = 5,000.

    Args:
        smiles: n SMILES, each molecule once.
        similarity: smallest Tanimoto similarity of neighbors, from 0 to 1.
        max_atoms: largest number of atoms of a molecule.

    Returns:
        Arrays of row indices, one per cluster, the center first; each row is in exactly one of them.

    Raises:
        SmilesError: a SMILES that cannot be read; raised for the first of them.
        UsageError: a similarity that is not from 0 to 1.
        TypeError: `smiles` is a single string.

    Source: Butina, J. Chem. Inf. Comput. Sci. 1999, 39, 747 (https://doi.org/10.1021/ci9803381).

    >>> from molattn.chem import butina_clusters
    >>> clusters = butina_clusters(["CCO", "CCCO", "c1ccccc1"])
    >>> [cluster.tolist() for cluster in clusters]
    [[0, 1], [2]]
    """
    if not 0 <= similarity <= 1:
        raise UsageError(f"similarity must be from 0 to 1, got {similarity}")
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


def _generator() -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=FINGERPRINT_BITS)
