"""What the outputs of a model say of how far off it may be: numbers, (n, ...) float64, in standardised units."""

from statistics import NormalDist

import numpy as np

SMALLEST_VARIANCE = 1e-6
"""What is added to the variance that a model answers, in squares of the standardised target."""


def normal(spread: np.ndarray) -> np.ndarray:
    """The standard deviation of mean-variance estimation: s^2 = softplus(o_spread) + 1e-6.

    Source: Nix and Weigend, Proc. IEEE ICNN 1994, 55 (https://doi.org/10.1109/ICNN.1994.374138).
    """
    return np.sqrt(softplus(spread) + SMALLEST_VARIANCE)


def evidential(nu: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two variances of deep evidential regression: noise of the data, and ignorance of the model.

    mean ~ N(gamma, variance / nu),   variance ~ InverseGamma(alpha, beta)
    noise = E[variance] = beta / (alpha - 1);   ignorance = Var[mean] = beta / (nu (alpha - 1))
    nu = softplus(o_nu) + 1e-6,   alpha = 1 + softplus(o_alpha) + 1e-6,   beta = softplus(o_beta) + 1e-6

    Source: Amini et al. (2020), NeurIPS 33, 14927; for molecules Soleimany et al., ACS Cent. Sci. 2021, 7, 1356
    (https://doi.org/10.1021/acscentsci.1c00546).
    """
    nu, above_one, beta = (softplus(o) + SMALLEST_VARIANCE for o in (nu, alpha, beta))
    noise = beta / above_one
    return noise, noise / nu


def half_widths(below: np.ndarray, above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far the two quantiles lie below and above the median, softplus of the outputs: they never cross.

    Source: Koenker and Bassett, Econometrica 1978, 46, 33 (https://doi.org/10.2307/1913643).
    """
    return softplus(below), softplus(above)


def dirichlet(evidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The probability of every class and its standard deviation, (..., C), where a model answers evidence.

    a_c = 1 + softplus(o_c),   S = sum_c a_c,   p_c = a_c / S,   std_c = sqrt(p_c (1 - p_c) / (S + 1))

    Source: Sensoy et al. (2018), NeurIPS 31, 3179.
    """
    a = 1 + softplus(evidence)
    total = a.sum(-1, keepdims=True)
    p = a / total
    return p, np.sqrt(p * (1 - p) / (total + 1))


def softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + e^x)"""
    return np.logaddexp(0.0, x)


def normal_quantile(p: float) -> float:
    """The p-quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(p)
