"""The applicability domain: how far a molecule is from the training set, by its embedding and by its fingerprint."""

from dataclasses import dataclass

import numpy as np

NUM_NEIGHBOURS = 5
FINGERPRINT_BYTES = 256
"""The size of the packed Morgan fingerprint of a molecule."""
COVERAGE = 0.95
"""The share of the training molecules that are within each limit."""
ROWS, PAIRS = 512, 2**20
"""The maximum numbers of rows, and of pairs of rows, that are compared at a time, to bound the memory."""
OUT_OF_DOMAIN = ("no", "embedding", "fingerprint", "both")
"""Whether a molecule is out of the domain, and by which measure."""


@dataclass(frozen=True)
class ApplicabilityDomain:
    """Embeddings and fingerprints of training molecules, and the limits of the domain.

    Attributes:
        embeddings: (m, d) float32, the input of the model's head for each molecule.
        bits: (m, 256) uint8, the packed 2,048 bits of the Morgan fingerprint of each molecule, radius 2.
        max_distance: the 95% quantile of the mean distance of each molecule to the 5 nearest others.
        min_similarity: the 5% quantile of the largest Tanimoto similarity of each molecule to another one.
    """

    embeddings: np.ndarray
    bits: np.ndarray
    max_distance: float
    min_similarity: float

    @classmethod
    def fit(cls, embeddings: np.ndarray, bits: np.ndarray) -> "ApplicabilityDomain":
        """Fit to the embeddings and bits of m >= 2 training molecules; each is compared with the others."""
        embeddings = embeddings.astype(np.float32)
        distances = mean_nearest_distance(embeddings, embeddings, exclude_self=True)
        similarities = max_tanimoto(bits, bits, exclude_self=True)
        max_distance, min_similarity = np.quantile(distances, COVERAGE), np.quantile(similarities, 1 - COVERAGE)
        return cls(embeddings, bits, float(max_distance), float(min_similarity))

    def distances(self, embeddings: np.ndarray) -> np.ndarray:
        """(n,) the mean distance of each embedding to the 5 nearest of the training molecules."""
        return mean_nearest_distance(embeddings, self.embeddings)

    def similarities(self, bits: np.ndarray) -> np.ndarray:
        """(n,) the largest Tanimoto similarity of each fingerprint to one of the training molecules."""
        return max_tanimoto(bits, self.bits)

    def flags(self, distances: np.ndarray, similarities: np.ndarray) -> list[str]:
        """By which measure each of n molecules is out of the domain: one of `OUT_OF_DOMAIN`."""
        flags = (distances > self.max_distance).astype(int) + 2 * (similarities < self.min_similarity)
        return [OUT_OF_DOMAIN[flag] for flag in flags.tolist()]


def mean_nearest_distance(x: np.ndarray, others: np.ndarray, exclude_self: bool = False) -> np.ndarray:
    """(n,) the mean Euclidean distance to the 5 nearest of `others`, or to all of them if there are fewer.

    Args:
        x: (n, d).
        others: (m, d).
        exclude_self: whether row i of `others` is x_i itself, which is then left out.
    """
    x, others = x.astype(np.float64), others.astype(np.float64)
    result = np.empty(len(x))
    rows = min(ROWS, max(1, PAIRS // len(others)))
    for start in range(0, len(x), rows):
        part = x[start : start + rows]
        # |a - b|^2 = |a|^2 + |b|^2 - 2 a.b, which rounding can make slightly negative.
        squares = (part**2).sum(1)[:, None] + (others**2).sum(1) - 2 * part @ others.T
        distances = np.sqrt(np.maximum(squares, 0.0))
        if exclude_self:
            distances[np.arange(len(part)), start + np.arange(len(part))] = np.inf
        k = min(NUM_NEIGHBOURS, len(others) - exclude_self)
        result[start : start + rows] = np.partition(distances, k - 1, axis=1)[:, :k].mean(1)
    return result


def max_tanimoto(bits: np.ndarray, others: np.ndarray, exclude_self: bool = False) -> np.ndarray:
    """(n,) the largest |a and b| / |a or b| with any of `others`; 1 for two rows without bits.

    Args:
        bits: (n, bytes), packed.
        others: (m, bytes), packed.
        exclude_self: whether row i of `others` is row i of `bits` itself, which is then left out.
    """
    result = np.full(len(bits), -1.0)
    for other in range(0, len(others), ROWS):
        b = np.unpackbits(others[other : other + ROWS], axis=1).astype(np.float32)
        for start in range(0, len(bits), ROWS):
            a = np.unpackbits(bits[start : start + ROWS], axis=1).astype(np.float32)
            both = a @ b.T
            either = a.sum(1)[:, None] + b.sum(1) - both
            similarities = np.where(either > 0, both / np.maximum(either, 1.0), 1.0)
            if exclude_self and start == other:
                np.fill_diagonal(similarities, -1.0)
            part = result[start : start + ROWS]
            np.maximum(part, similarities.max(1), out=part)
    return result
