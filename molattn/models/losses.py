"""The loss functions by name: their equations, how the outputs of their models are decoded, how they are plotted.

To add your own, `register_loss(Loss(...))` in a module that `MOLATTN_PLUGINS` names or in a package with an entry point
in the group `molattn.plugins`; `--loss-function` then accepts its name.

In the equations, o are the outputs of a model and z the targets, w is 1 without weights, and l is
`training.evidential_regularization`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from molattn.models.predictions import normal_quantile

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


@dataclass(frozen=True)
class Loss:
    """A loss function and the meaning of the outputs of a model that minimizes it.

    Attributes:
        name: its name in `--loss-function`.
        kinds: the kinds of tasks that it applies to: "regression", "binary", "multiclass".
        label: the label of the axis of a learning curve.
        function: the losses of all labels, (b, T), from the outputs, (b, outputs), the targets, (b, T), standardized
            for regression and indices of classes otherwise, without missing values, and `LossArguments`.
        outputs: the number of outputs J for each target; 0 for one per class. Column j T + t of the outputs is output j
            of target t; for multiclass tasks the columns are class by class, target by target.
        spread: None for a loss with one output. Otherwise, for regression, a function f(others, scale, alpha) that
            returns the `Spread`: others, the outputs after the first, (n, T) each; scale, the std of the scaler, (T,).
            The first output is the standardized value.
        probabilities: for classes, a function from the outputs of a target, (..., outputs), to the probabilities and
            their standard deviations, (..., C) each; None in place of the latter if there are none.
        uncertainty_methods: the methods of `--uncertainty-method` that this loss provides, the default first: for each
            the part of the variance that it returns, "total", "epistemic" or "aleatoric".
        has_quantiles: whether the spread has quantiles; the setting `training.alpha` applies to such losses.
        plot_root: whether a learning curve plots the square root of the loss.
        reads_bounds: whether targets may be bounds.
        is_explainable: whether the first outputs are standardized values, log-odds or scores, which attributions can
            explain.
    """

    name: str
    kinds: tuple[str, ...]
    label: str
    function: Callable[[Tensor, Tensor, LossArguments], Tensor]
    outputs: int = 1
    spread: Callable[[Sequence[np.ndarray], np.ndarray, float], Spread] | None = None
    probabilities: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray | None]] | None = None
    uncertainty_methods: Mapping[str, str] = field(default_factory=dict)
    has_quantiles: bool = False
    plot_root: bool = False
    reads_bounds: bool = False
    is_explainable: bool = True


LOSSES: dict[str, Loss] = {}
"""The losses by name; the first one of a kind of task is its default."""


def register_loss(loss: Loss) -> None:
    """Add a loss to `LOSSES`.

    Raises:
        ValueError: there is another one of that name, or one for classes has no `probabilities`.
    """
    if loss.name in LOSSES:
        raise ValueError(f"there is already a loss {loss.name!r}")
    if loss.probabilities is None and loss.kinds != ("regression",):
        raise ValueError(f"the loss {loss.name!r} applies to classes and has no `probabilities`")
    LOSSES[loss.name] = loss


def losses_of(kind: str) -> tuple[str, ...]:
    """The names of the losses for a kind of task, the default first."""
    return tuple(name for name, loss in LOSSES.items() if kind in loss.kinds)


BOUNDED_LOSSES = ("bounded-mse", "bounded-mae")
"""Losses that read bounds, the default of targets with bounds first."""


def why_no_bounds(loss: str) -> str:
    """Why this loss cannot learn from bounds; empty if it can, or if it is not a loss of regression."""
    if loss not in LOSSES or LOSSES[loss].reads_bounds or "regression" not in LOSSES[loss].kinds:
        return ""
    return f"the loss {loss} does not learn from bounds: --loss-function {' or '.join(BOUNDED_LOSSES)} does"


def methods_of_losses() -> dict[str, tuple[str, str]]:
    """The uncertainty methods that losses provide: for each the name of the loss, and the part of the variance."""
    return {method: (loss.name, part) for loss in LOSSES.values() for method, part in loss.uncertainty_methods.items()}


def _mse(outputs: Tensor, z: Tensor, _: LossArguments) -> Tensor:
    """(o - z)^2"""
    return (outputs - z).square()


def _mae(outputs: Tensor, z: Tensor, _: LossArguments) -> Tensor:
    """|o - z|"""
    return (outputs - z).abs()


def _huber(outputs: Tensor, z: Tensor, _: LossArguments) -> Tensor:
    """(o - z)^2 / 2 up to 1, |o - z| - 1/2 beyond"""
    return F.huber_loss(outputs, z.to(outputs.dtype), reduction="none")


def _within_bounds(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """o, but z where z is a bound that o satisfies: o above a lower bound, or below an upper one"""
    if arguments.is_lower is None or arguments.is_upper is None:
        return outputs
    within = (arguments.is_lower & (outputs > z)) | (arguments.is_upper & (outputs < z))
    return torch.where(within, z.to(outputs.dtype), outputs)


def _bounded_mse(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """(o - z)^2, but 0 where z is a bound that o satisfies"""
    return (_within_bounds(outputs, z, arguments) - z).square()


def _bounded_mae(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """|o - z|, but 0 where z is a bound that o satisfies"""
    return (_within_bounds(outputs, z, arguments) - z).abs()


def _mve(outputs: Tensor, z: Tensor, _: LossArguments) -> Tensor:
    """(log s^2 + (o_mean - z)^2 / s^2) / 2,   s^2 = softplus(o_spread) + 1e-6

    Source: mean-variance estimation, Nix and Weigend, Proc. IEEE ICNN 1994, 55
    (https://doi.org/10.1109/ICNN.1994.374138).
    """
    mean, spread = outputs.chunk(2, dim=1)
    variance = F.softplus(spread) + MIN_VARIANCE
    return 0.5 * (variance.log() + (mean - z).square() / variance)


def _mve_spread(others: Sequence[np.ndarray], unit: np.ndarray, _: float) -> Spread:
    return Spread(unit * np.sqrt(_softplus(others[0]) + MIN_VARIANCE))


def _evidential(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
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


def _evidential_spread(others: Sequence[np.ndarray], unit: np.ndarray, _: float) -> Spread:
    """The aleatoric and the epistemic variance of deep evidential regression.

    mean ~ N(gamma, variance / nu),   variance ~ InverseGamma(alpha, beta)
    aleatoric = E[variance] = beta / (alpha - 1);   epistemic = Var[mean] = beta / (nu (alpha - 1))
    """
    nu, alpha_minus_one, beta = (_softplus(o) + MIN_VARIANCE for o in others)
    aleatoric = beta / alpha_minus_one
    epistemic = aleatoric / nu
    total = aleatoric + epistemic
    return Spread(unit * np.sqrt(total), epistemic / total)


def _quantile(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """sum over p in (1/2, a/2, 1 - a/2) of max(p (z - q_p), (p - 1) (z - q_p)),   a = `training.alpha`

    The distances of the two quantiles from the median are softplus of the outputs, so that the quantiles never cross.

    Source: Koenker and Bassett, Econometrica 1978, 46, 33 (https://doi.org/10.2307/1913643).
    """
    median, below, above = outputs.chunk(3, dim=1)
    alpha = arguments.alpha
    quantiles = ((0.5, median), (alpha / 2, median - F.softplus(below)), (1 - alpha / 2, median + F.softplus(above)))
    return sum((torch.maximum(p * (z - q), (p - 1) * (z - q)) for p, q in quantiles), torch.zeros_like(median))


def _quantile_spread(others: Sequence[np.ndarray], unit: np.ndarray, alpha: float) -> Spread:
    below, above = (unit * _softplus(o) for o in others)
    return Spread((below + above) / (2 * normal_quantile(1 - alpha / 2)), half_widths=(below, above))


def _bce(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """-w z log p - (1 - z) log(1 - p),   p = logistic(o)"""
    targets, weights = z.to(outputs.dtype), arguments.weights
    return F.binary_cross_entropy_with_logits(outputs, targets, pos_weight=weights, reduction="none")


def _logistic(outputs: np.ndarray) -> tuple[np.ndarray, None]:
    p = np.exp(-_softplus(-outputs))  # without overflow for large |o|
    return np.concatenate([1 - p, p], -1), None


def _cross_entropy(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """-w_z log p_z,   p = softmax(o)"""

    def of_target(t: int) -> Tensor:
        columns = arguments.target_of_output == t
        weight = None if arguments.weights is None else arguments.weights[columns]
        return F.cross_entropy(outputs[:, columns], z[:, t].long(), weight=weight, reduction="none")

    return torch.stack([of_target(t) for t in range(z.shape[1])], dim=1)


def _softmax(outputs: np.ndarray) -> tuple[np.ndarray, None]:
    powers = np.exp(outputs - outputs.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True), None


def _dirichlet(outputs: Tensor, z: Tensor, arguments: LossArguments) -> Tensor:
    """The expected squared error of the probabilities, and a penalty for evidence for a wrong class.

    w_z (sum_c [((c is z) - p_c)^2 + p_c (1 - p_c) / (S + 1)] + l KL(Dir(a'), Dir(1))),   a'_c = a_c but 1 for z
    a_c = 1 + softplus(o_c),   S = sum_c a_c,   p_c = a_c / S

    Source: Sensoy et al. (2018), NeurIPS 31, 3179.
    """
    target_of_output, weights = arguments.target_of_output, arguments.weights

    def of_target(t: int) -> Tensor:
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

    return torch.stack([of_target(t) for t in range(z.shape[1])], dim=1)


def _dirichlet_probabilities(outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


_REGRESSION, _CLASSES = ("regression",), ("binary", "multiclass")
_EVIDENTIAL = {"evidential-total": "total", "evidential-epistemic": "epistemic", "evidential-aleatoric": "aleatoric"}

for _loss in (
    Loss("mse", _REGRESSION, "standardized RMSE", _mse, plot_root=True),
    Loss("mae", _REGRESSION, "standardized MAE", _mae),
    Loss("huber", _REGRESSION, "Huber loss, standardized", _huber),
    Loss(
        "mve",
        _REGRESSION,
        "negative log-likelihood, standardized",
        _mve,
        outputs=2,
        spread=_mve_spread,
        uncertainty_methods={"mve": "total"},
    ),
    Loss(
        "evidential",
        _REGRESSION,
        "evidential loss, standardized",
        _evidential,
        outputs=4,
        spread=_evidential_spread,
        uncertainty_methods=_EVIDENTIAL,
    ),
    Loss(
        "quantile",
        _REGRESSION,
        "pinball loss, standardized",
        _quantile,
        outputs=3,
        spread=_quantile_spread,
        uncertainty_methods={"quantile-regression": "total"},
        has_quantiles=True,
    ),
    Loss("bounded-mse", _REGRESSION, "standardized RMSE, with bounds", _bounded_mse, plot_root=True, reads_bounds=True),
    Loss("bounded-mae", _REGRESSION, "standardized MAE, with bounds", _bounded_mae, reads_bounds=True),
    Loss("bce", ("binary",), "cross-entropy", _bce, probabilities=_logistic),
    Loss("cross-entropy", ("multiclass",), "cross-entropy", _cross_entropy, outputs=0, probabilities=_softmax),
    Loss(
        "dirichlet",
        _CLASSES,
        "evidential loss",
        _dirichlet,
        outputs=0,
        probabilities=_dirichlet_probabilities,
        uncertainty_methods={"dirichlet": "total"},
        is_explainable=False,
    ),
):
    register_loss(_loss)
