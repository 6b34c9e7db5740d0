"""How unlike the training set a molecule is: in the model's own eyes, and by its structure."""

from dataclasses import dataclass

import numpy as np

NEIGHBOURS = 5
BYTES = 256
"""Of the packed bits of a molecule."""
SHARE = 0.95
"""Of the training molecules themselves, so many are within each limit."""
LABELS = ("no", "embedding", "fingerprint", "both")
"""Whether a molecule is unlike the training set, and in what."""


@dataclass(frozen=True)
class Domain:
    """Some training molecules, as the model sees them and as bits.

    Attributes:
        embeddings: (m, d) float32, what the model's last, linear map reads of each.
        bits: (m, 256) uint8, the 2,048 bits of its Morgan fingerprint, radius 2.
        farthest: 95% of them are nearer to their like, by the mean distance to the 5 nearest others.
        least: 95% of them have another one that is at least so alike.
    """

    embeddings: np.ndarray
    bits: np.ndarray
    farthest: float
    least: float

    @classmethod
    def of(cls, embeddings: np.ndarray, bits: np.ndarray) -> "Domain":
        """From the embeddings and bits of m training molecules, two or more; each is measured against the others."""
        embeddings = embeddings.astype(np.float32)
        apart = nearest(embeddings, embeddings, alone=True)
        alike = tanimoto(bits, bits, alone=True)
        farthest, least = np.quantile(apart, SHARE), np.quantile(alike, 1 - SHARE)
        return cls(embeddings, bits, float(farthest), float(least))

    def measure(self, embeddings: np.ndarray, bits: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Mean distance to the 5 nearest, largest Tanimoto similarity, both (n,), and one of `LABELS` for each."""
        apart, alike = nearest(embeddings, self.embeddings), tanimoto(bits, self.bits)
        flags = (apart > self.farthest).astype(int) + 2 * (alike < self.least)
        return apart, alike, [LABELS[flag] for flag in flags.tolist()]


def nearest(x: np.ndarray, others: np.ndarray, alone: bool = False) -> np.ndarray:
    """(n,) the mean Euclidean distance to the 5 nearest of `others`, (m, d), or to all where they are fewer.

    alone: row i of `others` is x_i itself, and does not count.
    """
    x, others = x.astype(np.float64), others.astype(np.float64)
    found = np.empty(len(x))
    for start in range(0, len(x), _ROWS):
        part = x[start : start + _ROWS]
        # |a - b|^2 = |a|^2 + |b|^2 - 2 a.b, a little below 0 by rounding.
        squares = (part**2).sum(1)[:, None] + (others**2).sum(1) - 2 * part @ others.T
        distances = np.sqrt(np.maximum(squares, 0.0))
        if alone:
            distances[np.arange(len(part)), start + np.arange(len(part))] = np.inf
        k = min(NEIGHBOURS, len(others) - alone)
        found[start : start + _ROWS] = np.partition(distances, k - 1, axis=1)[:, :k].mean(1)
    return found


def tanimoto(bits: np.ndarray, others: np.ndarray, alone: bool = False) -> np.ndarray:
    """(n,) the largest |a and b| / |a or b| with any of `others`, rows of packed bits; two without bits are alike.

    alone: row i of `others` is row i of `bits` itself, and does not count.
    """
    a, b = (np.unpackbits(rows, axis=1).astype(np.float32) for rows in (bits, others))
    found = np.empty(len(bits))
    for start in range(0, len(a), _ROWS):
        part = a[start : start + _ROWS]
        both = part @ b.T
        either = part.sum(1)[:, None] + b.sum(1) - both
        alike = np.where(either > 0, both / np.maximum(either, 1.0), 1.0)
        if alone:
            alike[np.arange(len(part)), start + np.arange(len(part))] = -1.0
        found[start : start + _ROWS] = alike.max(1)
    return found


_ROWS = 512  # compared at a time, so that memory stays small
