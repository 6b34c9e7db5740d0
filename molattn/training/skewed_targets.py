"""`--target-transform auto`: which targets are learned as logarithms, by their training labels."""

import numpy as np

from molattn.models.magnitude import power_of_two
from molattn.models.names import LOG10
from molattn.models.target_transform import TargetTransform

MIN_SKEWNESS = 1.0
"""The skewness from which "auto" takes a target to be skewed."""

MIN_LOG_LIKELIHOOD = 1.92
"""How much better the logarithm must fit, in log-likelihood: half the 95% quantile of chi^2 with one degree of
freedom."""


def recognize_transform(train: np.ndarray, labels: np.ndarray) -> tuple[TargetTransform | None, str]:
    """log10 if the targets are positive and skewed, and closer to a normal distribution on a logarithmic scale.

    The rule:    y > 0 for all labels,   g > 1,   l(0) - l(1) > 1.92
    g = mean ((y - mean y) / std y)^3 is the skewness, and l(lambda) the log-likelihood of a normal distribution of the
    Box-Cox transform of y, log y for lambda = 0 and y - 1 for lambda = 1, at the maximum over mean and variance:
    l(0) - l(1) = -n/2 log(var(log y) / var(y)) - sum log y,   over the n training labels

    Bulmer calls a distribution with a skewness above 1 highly skewed. If the log-likelihood of lambda = 1 is lower than
    that of lambda = 0 by 1.92, half the 95% quantile of chi^2 with one degree of freedom, lambda = 1 is outside the 95%
    confidence interval of lambda.

    Args:
        train: (n,) the training labels, NaN where missing, from which g and l are computed.
        labels: all labels of the table, and bounds, NaN where missing: log10 must be defined for each of them.

    Returns:
        The transform, None for none, and the reason, a phrase.

    Sources: Box and Cox, J. R. Stat. Soc. B 1964, 26, 211 (https://doi.org/10.1111/j.2517-6161.1964.tb00553.x); Bulmer,
    Principles of Statistics, 2nd ed., 1967, Oliver and Boyd.

    >>> import numpy as np
    >>> from molattn.training.skewed_targets import recognize_transform
    >>> y = np.exp(np.random.default_rng(0).normal(size=200))
    >>> recognize_transform(y, y)[0].name
    'log10'
    >>> recognize_transform(np.log(y), np.log(y))
    (None, 'not all labels are above 0')
    """
    labels, y = labels[np.isfinite(labels)], train[np.isfinite(train)]
    if len(labels) and labels.min() <= 0:
        return None, "not all labels are above 0"
    # Divided by the largest label, which changes neither g nor l(0) - l(1): squares of large labels would overflow.
    largest = y.max() if len(y) else 1.0
    log, y = np.log(y) - np.log(largest), y / largest
    skew = skewness(y)
    if not skew > MIN_SKEWNESS:
        return None, f"the skewness of the training labels is {skew:.1f}, not above {MIN_SKEWNESS:g}"
    described = f"the training labels are above 0, their skewness is {skew:.1f} and that of their logarithms"
    described = f"{described} {skewness(log):.1f}"
    with np.errstate(divide="ignore"):
        gain = -len(y) / 2 * (np.log(log.var()) - np.log(y.var())) - log.sum()
    if gain <= MIN_LOG_LIKELIHOOD:
        return None, f"{described}, which fit a normal distribution no better (log-likelihood {gain:+.1f})"
    return TargetTransform(LOG10), f"{described}, which fit a normal distribution better (log-likelihood {gain:+.0f})"


def skewness(x: np.ndarray) -> float:
    """mean ((x - mean x) / std x)^3; 0 for equal numbers, and for none."""
    x = x / power_of_two(x)
    std = float(x.std()) if len(x) else 0.0
    return float(np.mean(((x - x.mean()) / std) ** 3)) if std > 0 else 0.0
