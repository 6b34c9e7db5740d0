"""Statistics of benchmarks: scores with bootstrap intervals, and their ranks among published ones."""

from collections.abc import Sequence

import numpy as np

from molattn.training.metrics import METRICS, compute_metrics

NUM_SAMPLES = 1000
"""Bootstrap samples of the test molecules."""


def metric_value(metric: str, y: np.ndarray, predictions: np.ndarray) -> float:
    """The value of a metric; NaN if it is undefined, such as AUROC of a single class.

    Args:
        metric: a name in `molattn.training.metrics.METRICS`.
        y: (n,) labels.
        predictions: (n,) numbers, or probabilities of the class 1.
    """
    value = compute_metrics(y, predictions, (metric,))[metric]
    return float("nan") if value is None else float(value)


def bootstrap_interval(
    metric: str, y: np.ndarray, predictions: np.ndarray, num_samples: int = NUM_SAMPLES
) -> tuple[float, float, float]:
    """A score, and the ends of its 95% percentile bootstrap interval over the test molecules.

    The samples depend only on the number of molecules, so they are the same for all models. Samples with a
    single class, for which the metric is undefined, are ignored.

    Args:
        metric: a name in `molattn.training.metrics.METRICS`.
        y: (n,) labels.
        predictions: (n,) numbers, or probabilities of the class 1.
        num_samples: number of bootstrap samples.

    Returns:
        The score, and the lower and the upper end of its interval.

    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 13.

    >>> import numpy as np
    >>> from molattn.benchmark import bootstrap_interval
    >>> y = np.arange(50.0)
    >>> value, lower, upper = bootstrap_interval("mae", y, y + np.sin(y))
    >>> bool(lower < value < upper), round(value, 2)
    (True, 0.63)
    """
    samples = np.random.default_rng(0).integers(len(y), size=(num_samples, len(y)))
    scores = [metric_value(metric, y[rows], predictions[rows]) for rows in samples]
    low, high = np.nanpercentile(scores, (2.5, 97.5))
    return metric_value(metric, y, predictions), float(low), float(high)


def rank(value: float, published: Sequence[float], metric: str) -> int:
    """The rank of a score among published ones: 1 plus the number of better ones.

    Args:
        value: the score.
        published: the others, in any order.
        metric: a name in `molattn.training.metrics.METRICS`, which defines whether larger is better.

    >>> from molattn.benchmark import rank
    >>> rank(0.3, [0.2, 0.3, 0.4], "mae"), rank(0.3, [0.2, 0.3, 0.4], "auroc")
    (2, 2)
    """
    sign = 1 if METRICS[metric].larger_is_better else -1
    return 1 + sum(sign * other > sign * value for other in published)


def rank_range(lower: float, upper: float, published: Sequence[float], metric: str) -> tuple[int, int]:
    """The best and the worst rank of the scores in an interval.

    Args:
        lower, upper: the ends of the interval.
        published, metric: as for `rank`.

    >>> from molattn.benchmark import rank_range
    >>> rank_range(0.25, 0.5, [0.2, 0.3, 0.4], "mae")
    (2, 4)
    """
    ends = rank(lower, published, metric), rank(upper, published, metric)
    return min(ends), max(ends)
