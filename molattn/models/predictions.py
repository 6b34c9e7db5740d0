"""The predictions of a model, whatever the task, and predictive distributions from its raw outputs."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np


@dataclass(frozen=True)
class Predictions:
    """The predictions of T targets for n molecules, or for n atoms.

    Attributes:
        values: (n, T): the number in its unit, the probability of the positive class, or the index of the most
            probable class.
        distribution: (n, M): the probabilities of every class, or the quantiles; M is 0 if there are neither.
        std: (n, T), the standard deviation of the number, of the probability of the positive class, or of the
            probability of the predicted class; None if the model has none.
        epistemic_share: (n, T), the share of std^2 that is epistemic (the model's own uncertainty), the rest being
            aleatoric (noise of the measurements); None where it is unknown.
    """

    values: np.ndarray
    distribution: np.ndarray
    std: np.ndarray | None = None
    epistemic_share: np.ndarray | None = None

    @property
    def extra_values(self) -> np.ndarray:
        """(n, M) or (n, M + T): `distribution`, followed by `std` if there is one."""
        return self.distribution if self.std is None else np.concatenate([self.distribution, self.std], 1)

    def __getitem__(self, rows: np.ndarray | slice) -> "Predictions":
        """The predictions for some of the molecules or atoms."""
        std = None if self.std is None else self.std[rows]
        share = None if self.epistemic_share is None else self.epistemic_share[rows]
        return Predictions(self.values[rows], self.distribution[rows], std, share)


def no_columns(values: np.ndarray) -> np.ndarray:
    """An empty `Predictions.distribution`, (n, 0), for `values`, (n, T)."""
    return np.empty((len(values), 0))


MIN_VARIANCE = 1e-6
"""Added to every variance that a model predicts, in squared units of the standardised target."""


def mve_std(spread: np.ndarray) -> np.ndarray:
    """The standard deviation of mean-variance estimation: std^2 = softplus(o) + 1e-6, o being `spread`.

    Source: Nix and Weigend, Proc. IEEE ICNN 1994, 55 (https://doi.org/10.1109/ICNN.1994.374138).
    """
    return np.sqrt(softplus(spread) + MIN_VARIANCE)


def evidential_variances(nu: np.ndarray, alpha: np.ndarray, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The aleatoric and the epistemic variance of deep evidential regression.

    mean ~ N(gamma, variance / nu),   variance ~ InverseGamma(alpha, beta)
    aleatoric = E[variance] = beta / (alpha - 1);   epistemic = Var[mean] = beta / (nu (alpha - 1))
    nu = softplus(o_nu) + 1e-6,   alpha = 1 + softplus(o_alpha) + 1e-6,   beta = softplus(o_beta) + 1e-6

    The arguments are the raw outputs o_nu, o_alpha and o_beta.

    Source: Amini et al. (2020), NeurIPS 33, 14927; for molecules Soleimany et al., ACS Cent. Sci. 2021, 7, 1356
    (https://doi.org/10.1021/acscentsci.1c00546).
    """
    nu, alpha_minus_one, beta = (softplus(o) + MIN_VARIANCE for o in (nu, alpha, beta))
    aleatoric = beta / alpha_minus_one
    return aleatoric, aleatoric / nu


def quantile_half_widths(below: np.ndarray, above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distances of the two quantiles from the median: softplus of the outputs, so that the quantiles never cross.

    Source: Koenker and Bassett, Econometrica 1978, 46, 33 (https://doi.org/10.2307/1913643).
    """
    return softplus(below), softplus(above)


def dirichlet_moments(evidence: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The probability of every class and its standard deviation, (..., C), for a model that predicts evidence.

    a_c = 1 + softplus(o_c),   S = sum_c a_c,   p_c = a_c / S,   std_c = sqrt(p_c (1 - p_c) / (S + 1))

    `evidence` is the raw outputs o_c, (..., C); the evidence itself is softplus(o_c).

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
