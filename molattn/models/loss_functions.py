"""The equations of the losses, and how the outputs of their models are decoded.

In the equations, o are the outputs of a model and z the targets, w is 1 without weights, and l is
`training.evidential_regularization`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from molattn.lazy import LazyModule
from molattn.models.predictions import normal_quantile

if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F
    from torch import Tensor
else:
    # Outputs are decoded without torch.
    torch, F = LazyModule("torch"), LazyModule("torch.nn.functional")

DEFAULT_ALPHA = 0.1
"""The quantiles of the loss "quantile" are alpha / 2 and 1 - alpha / 2."""

DEFAULT_REGULARIZATION = 0.2
"""The weight of the penalty for evidence for a wrong prediction."""

MIN_VARIANCE = 1e-6
"""Added to every variance that a model predicts, in squared units of the standardized target."""


@dataclass(frozen=True)
class LossArguments:
    """What a loss function may read in addition to outputs and targets.

    Attributes:
        target_of_output: the target of each output, (outputs,).
        weights: w of the positive class of each target, (T,), or w of every class of every target, one after the other;
            None for none.
        alpha: see `DEFAULT_ALPHA`.
        regularization: `training.evidential_regularization`.
        is_lower, is_upper: (b, T) of booleans, True where the target is a lower, or an upper, bound of the true value
            (censored); None for exact targets. Only losses with `reads_bounds` get targets that are bounds.
    """

    target_of_output: Tensor
    weights: Tensor | None = None
    alpha: float = DEFAULT_ALPHA
    regularization: float = DEFAULT_REGULARIZATION
    is_lower: Tensor | None = None
    is_upper: Tensor | None = None


@dataclass(frozen=True)
class Spread:
    """The distribution that a model predicts around its values, (n, T) each, in the units of the targets.

    Attributes:
        std: the standard deviation.
        epistemic_share: the share of the epistemic variance in std^2; None if the loss does not separate it.
        half_widths: the distances of the quantiles alpha / 2 and 1 - alpha / 2; None for losses without quantiles.
    """

    std: np.ndarray
    epistemic_share: np.ndarray | None = None
    half_widths: tuple[np.ndarray, np.ndarray] | None = None


def mse(outputs: Tensor, z: Tensor, _: LossArguments) -> Tensor:
    """(o - z)^2"""
    return (outputs - z).square()


def mae(outputs: Tensor, z: Tensor, _: LossArguments) -> Tensor:
    """|o - z|"""
    return (outputs - z).abs()


def huber(outputs: Tensor, z: Tensor, _: LossArguments) -> Tensor:
    """(o - z)^2 / 2 up to 1, |o - z| - 1/2 beyond"""
    return F.huber_loss(outputs, z.to(outputs.dtype), reduction="none")


def _within_bounds(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """o, but z where z is a bound that o satisfies: o above a lower bound, or below an upper one"""
    if arguments.is_lower is None or arguments.is_upper is None:
        return outputs
    within = (arguments.is_lower & (outputs > z)) | (arguments.is_upper & (outputs < z))
    return torch.where(within, z.to(outputs.dtype), outputs)


def bounded_mse(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """(o - z)^2, but 0 where z is a bound that o satisfies"""
    return (_within_bounds(outputs, z, arguments) - z).square()


def bounded_mae(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """|o - z|, but 0 where z is a bound that o satisfies"""
    return (_within_bounds(outputs, z, arguments) - z).abs()


def mve(outputs: Tensor, z: Tensor, _: LossArguments) -> Tensor:
    """(log s^2 + (o_mean - z)^2 / s^2) / 2,   s^2 = softplus(o_spread) + 1e-6

    Source: mean-variance estimation, Nix and Weigend, Proc. IEEE ICNN 1994, 55
    (https://doi.org/10.1109/ICNN.1994.374138).
    """
    mean, spread = outputs.chunk(2, dim=1)
    variance = F.softplus(spread) + MIN_VARIANCE
    return 0.5 * (variance.log() + (mean - z).square() / variance)


def mve_spread(others: Sequence[np.ndarray], scale: np.ndarray, _: float) -> Spread:
    """std = s, see `mve`"""
    return Spread(scale * np.sqrt(_softplus(others[0]) + MIN_VARIANCE))


def evidential(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """The negative log-likelihood of Student's t, and a penalty for evidence for a wrong prediction.

    log(pi / nu) / 2 - alpha log W + (alpha + 1/2) log(nu (gamma - z)^2 + W)
        + log(Gamma(alpha) / Gamma(alpha + 1/2)) + l |gamma - z| (2 nu + alpha),   W = 2 beta (1 + nu)
    nu = softplus(o_nu) + 1e-6,   alpha = 1 + softplus(o_alpha) + 1e-6,   beta = softplus(o_beta) + 1e-6

    Source: Amini et al. (2020), NeurIPS 33, 14927; for molecules Soleimany et al., ACS Cent. Sci. 2021, 7, 1356
    (https://doi.org/10.1021/acscentsci.1c00546).
    """
    gamma, *others = outputs.chunk(4, dim=1)
    nu, above_one, beta = (F.softplus(o) + MIN_VARIANCE for o in others)
    alpha = 1 + above_one
    residual, omega = gamma - z, 2 * beta * (1 + nu)
    likelihood = (
        0.5 * (math.pi / nu).log()
        - alpha * omega.log()
        + (alpha + 0.5) * (nu * residual.square() + omega).log()
        + torch.lgamma(alpha)
        - torch.lgamma(alpha + 0.5)
    )
    return likelihood + arguments.regularization * residual.abs() * (2 * nu + alpha)


def evidential_spread(others: Sequence[np.ndarray], scale: np.ndarray, _: float) -> Spread:
    """The aleatoric and the epistemic variance of deep evidential regression.

    mean ~ N(gamma, variance / nu),   variance ~ InverseGamma(alpha, beta)
    aleatoric = E[variance] = beta / (alpha - 1);   epistemic = Var[mean] = beta / (nu (alpha - 1))
    """
    nu, alpha_minus_one, beta = (_softplus(o) + MIN_VARIANCE for o in others)
    aleatoric = beta / alpha_minus_one
    epistemic = aleatoric / nu
    total = aleatoric + epistemic
    return Spread(scale * np.sqrt(total), epistemic / total)


def quantile(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """sum over p in (1/2, a/2, 1 - a/2) of max(p (z - q_p), (p - 1) (z - q_p)),   a = `training.alpha`

    The distances of the two quantiles from the median are softplus of the outputs, so that the quantiles never cross.

    Source: Koenker and Bassett, Econometrica 1978, 46, 33 (https://doi.org/10.2307/1913643).
    """
    median, below, above = outputs.chunk(3, dim=1)
    alpha = arguments.alpha
    quantiles = ((0.5, median), (alpha / 2, median - F.softplus(below)), (1 - alpha / 2, median + F.softplus(above)))
    return sum((torch.maximum(p * (z - q), (p - 1) * (z - q)) for p, q in quantiles), torch.zeros_like(median))


def quantile_spread(others: Sequence[np.ndarray], scale: np.ndarray, alpha: float) -> Spread:
    """The distances of the quantiles, and the std of the normal distribution that has quantiles so far apart."""
    below, above = (scale * _softplus(o) for o in others)
    return Spread((below + above) / (2 * normal_quantile(1 - alpha / 2)), half_widths=(below, above))


def bce(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """-w z log p - (1 - z) log(1 - p),   p = logistic(o)"""
    targets, weights = z.to(outputs.dtype), arguments.weights
    return F.binary_cross_entropy_with_logits(outputs, targets, pos_weight=weights, reduction="none")


def logistic(outputs: np.ndarray) -> tuple[np.ndarray, None]:
    """1 - p and p,   p = logistic(o)"""
    p = np.exp(-_softplus(-outputs))  # without overflow for large |o|
    return np.concatenate([1 - p, p], -1), None


def cross_entropy(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """-w_z log p_z,   p = softmax(o)"""

    def target_loss(t: int) -> Tensor:
        columns = arguments.target_of_output == t
        weight = None if arguments.weights is None else arguments.weights[columns]
        return F.cross_entropy(outputs[:, columns], z[:, t].long(), weight=weight, reduction="none")

    return torch.stack([target_loss(t) for t in range(z.shape[1])], dim=1)


def softmax(outputs: np.ndarray) -> tuple[np.ndarray, None]:
    """p = softmax(o)"""
    powers = np.exp(outputs - outputs.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True), None


def dirichlet(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """The expected squared error of the probabilities, and a penalty for evidence for a wrong class.

    w_z (sum_c [((c is z) - p_c)^2 + p_c (1 - p_c) / (S + 1)] + l KL(Dir(a'), Dir(1))),   a'_c = a_c but 1 for z
    a_c = 1 + softplus(o_c),   S = sum_c a_c,   p_c = a_c / S

    Source: Sensoy et al. (2018), NeurIPS 31, 3179.
    """
    target_of_output, weights = arguments.target_of_output, arguments.weights

    def target_loss(t: int) -> Tensor:
        columns = target_of_output == t
        a, true = 1 + F.softplus(outputs[:, columns]), z[:, t].long()
        one_hot = F.one_hot(true, a.shape[1]).to(a.dtype)
        total = a.sum(1, keepdim=True)
        p = a / total
        loss = ((one_hot - p).square() + p * (1 - p) / (total + 1)).sum(1)
        loss = loss + arguments.regularization * _kl_to_uniform(1 + (a - 1) * (1 - one_hot))
        if weights is None:
            return loss
        # Binary targets have one weight each, that of the positive class.
        binary = len(weights) < len(target_of_output)
        return loss * (torch.where(true == 1, weights[t], 1.0) if binary else weights[columns][true])

    return torch.stack([target_loss(t) for t in range(z.shape[1])], dim=1)


def dirichlet_probabilities(outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p_c and its standard deviation, std_c = sqrt(p_c (1 - p_c) / (S + 1))"""
    a = 1 + _softplus(outputs)
    total = a.sum(-1, keepdims=True)
    p = a / total
    return p, np.sqrt(p * (1 - p) / (total + 1))


def _softplus(x: np.ndarray) -> np.ndarray:
    """log(1 + e^x)"""
    return np.logaddexp(0.0, x)


def _kl_to_uniform(a: Tensor) -> Tensor:
    """KL(Dir(a), Dir(1)), (b,) from (b, C)."""
    total = a.sum(1, keepdim=True)
    constant = torch.lgamma(total[:, 0]) - torch.lgamma(a).sum(1) - math.lgamma(a.shape[1])
    return constant + ((a - 1) * (torch.digamma(a) - torch.digamma(total))).sum(1)
