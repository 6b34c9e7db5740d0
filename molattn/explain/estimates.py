"""Estimates with their bootstrap intervals."""

from dataclasses import dataclass

import numpy as np

MIN_COUNT = 10
"""Fewer edits, pairs or molecules than this give no estimate."""
LEVEL = 0.95
_SAMPLES = 1000


@dataclass(frozen=True)
class Estimate:
    """A measured number with its 95% interval.

    Attributes:
        value: the number; None if it was not measured.
        low, high: the bounds of the percentile bootstrap interval; None without a value.
        count: the number of edits, pairs or molecules that it is from.
        why: why there is no value; empty if there is one.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    count: int = 0
    why: str = ""

    @property
    def text(self) -> str:
        """The value with its interval, with two decimals; without a value the reason."""
        return self.why if self.value is None else f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def too_few(count: int, what: str) -> Estimate:
    """No estimate, because there are too few of `what`."""
    return Estimate(None, count=count, why=f"{count} {what}, under {MIN_COUNT}")


def bootstrap_weights(units: np.ndarray, seed: int = 0) -> np.ndarray:
    """How often each row is in each bootstrap sample, (samples, n).

    A sample draws units, such as molecules, with replacement, since the pairs of one molecule are not independent; a
    row counts as often as the product of the numbers of times that its units were drawn.

    Args:
        units: (n, k) the index of each of the k units of a row: one molecule for an edit, two for a matched pair.
        seed: of the samples.

    Source: the bootstrap of exchangeable arrays, Owen (2007), Ann. Appl. Stat. 1, 386, doi:10.1214/07-AOAS122.
    """
    names, index = np.unique(units, return_inverse=True)
    index = index.reshape(units.shape)
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=_SAMPLES)
    return drawn[:, index].prod(-1).astype(np.float64)


def estimate_mean(x: np.ndarray, units: np.ndarray, what: str, seed: int = 0) -> Estimate:
    """The mean of n numbers with its interval.

    Args:
        x: (n,).
        units: (n, k), see `bootstrap_weights`.
        what: noun for the rows in messages, in the plural.
        seed: of the bootstrap.
    """
    if len(x) < MIN_COUNT:
        return too_few(len(x), what)
    w = bootstrap_weights(units, seed)
    total = w.sum(1)
    means = (w @ x)[total > 0] / total[total > 0]
    return _estimate(float(x.mean()), means, len(x))


def estimate_correlation(x: np.ndarray, y: np.ndarray, units: np.ndarray, what: str, seed: int = 0) -> Estimate:
    """Pearson's r of n pairs of numbers with its interval; 0 if one of the two does not vary.

    Args:
        x, y: (n,).
        units, what, seed: as for `estimate_mean`.
    """
    if len(x) < MIN_COUNT:
        return too_few(len(x), what)
    w = np.vstack([np.ones(len(x)), bootstrap_weights(units, seed)])
    w = w[w.sum(1) > 0]
    w /= w.sum(1, keepdims=True)
    dx, dy = x - (w @ x)[:, None], y - (w @ y)[:, None]
    spread = np.sqrt((w * dx**2).sum(1) * (w * dy**2).sum(1))
    tiny = 1e-12 * float(np.abs(x).max() * np.abs(y).max())
    r = np.where(spread > tiny, (w * dx * dy).sum(1) / np.maximum(spread, 1e-300), 0.0)
    return _estimate(float(r[0]), r[1:], len(x))


def squared(r: Estimate) -> Estimate:
    """max(r, 0)^2: the share of the variance that predictions of the right direction explain."""
    if r.value is None or r.low is None or r.high is None:
        return r
    value, low, high = (max(x, 0.0) ** 2 for x in (r.value, r.low, r.high))
    return Estimate(value, low, high, r.count)


def _estimate(value: float, samples: np.ndarray, count: int) -> Estimate:
    low, high = np.quantile(samples, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return Estimate(value, low, high, count)
