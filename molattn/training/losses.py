"""Loss functions by name, over the known labels."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molattn.errors import UsageError
from molattn.models.distributions import MIN_VARIANCE
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Regression, Task

DEFAULT_REGULARIZATION = 0.2
"""The penalty of evidence for a wrong prediction."""


class TaskLoss(nn.Module):
    """The loss of every label.

    With z the standardised targets and o the outputs of the model:

    mse: (o - z)^2;   mae: |o - z|;   huber: (o - z)^2 / 2 up to 1, |o - z| - 1/2 beyond
    mve: (log s^2 + (o_mean - z)^2 / s^2) / 2,   s^2 = softplus(o_spread)
    evidential: log(pi / nu) / 2 - alpha log W + (alpha + 1/2) log(nu (gamma - z)^2 + W)
        + log(Gamma(alpha) / Gamma(alpha + 1/2)) + l |gamma - z| (2 nu + alpha),   W = 2 beta (1 + nu)
    quantile: sum over p in (1/2, a/2, 1 - a/2) of max(p (z - q_p), (p - 1) (z - q_p)),   a = `training.alpha`
    bce: -w z log p - (1 - z) log(1 - p),   p = logistic(o)
    cross-entropy: -w_z log p_z,   p = softmax(o)
    dirichlet: w_z (sum_c [((c is z) - p_c)^2 + p_c (1 - p_c) / (S + 1)] + l KL(Dir(a'), Dir(1))),
        a'_c = a_c but 1 for z

    `molattn.models.distributions` defines gamma, nu, alpha, beta, q_p, a_c, S and p_c, with the sources; l is
    `training.evidential_regularization`, and w is 1 without weights.

    A missing label contributes neither loss nor gradient, whatever the output of the model.

    Args:
        task: determines the loss.
        scaler: of the targets.
        weights: w of the positive class of each target, (T,), or w of every class of every target, one after the other;
            empty for none.
        regularization: l, of the losses "evidential" and "dirichlet".
    """

    mean: Tensor
    std: Tensor
    owners: Tensor
    weights: Tensor | None

    def __init__(
        self,
        task: Task,
        scaler: TargetScaler,
        weights: Sequence[float] = (),
        regularization: float = DEFAULT_REGULARIZATION,
    ):
        super().__init__()
        self.register_buffer("mean", torch.tensor(scaler.mean))
        self.register_buffer("std", torch.tensor(scaler.std))
        self.register_buffer("owners", torch.tensor(task.target_of_output(len(scaler.mean))))
        self.register_buffer("weights", torch.tensor(tuple(weights)) if len(weights) else None)
        self.function = LOSSES[task.loss]
        # Some losses have settings of their own.
        if task.loss == "quantile":
            self.function = partial(_quantile, alpha=getattr(task, "alpha", Regression.alpha))
        elif task.loss in ("evidential", "dirichlet"):
            self.function = partial(
                _evidential if task.loss == "evidential" else _dirichlet, regularization=regularization
            )

    @property
    def target_of_output(self) -> Tensor:
        """The target of each output, (outputs,); checkpoints name it `owners`."""
        return self.owners

    def forward(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The losses, (b, T), zero where the label is missing, and the mask of known labels, (b, T).

        Shapes: outputs (b, outputs), targets (b, T) in units, NaN where missing; b counts molecules, or atoms.
        """
        known = torch.isfinite(targets)
        z = ((targets - self.mean) / self.std).masked_fill(~known, 0.0)
        outputs = outputs.masked_fill(~known[:, self.target_of_output], 0.0)
        weights = None if self.weights is None else self.weights.to(outputs.dtype)
        return self.function(outputs, z, self.target_of_output, weights).masked_fill(~known, 0.0), known


def mean_loss(losses: Tensor, known: Tensor, rows: Tensor | None = None) -> Tensor:
    """The mean over the known labels, weighted by `rows`, the weights of the rows, (b,); zero without a label."""
    count = known.to(losses.dtype)
    if rows is not None:
        rows = rows.to(losses.dtype).unsqueeze(1)
        losses, count = losses * rows, count * rows
    total = count.sum()
    return losses.sum() / torch.where(total > 0, total, torch.ones_like(total))


def class_weights(task: Task, train: np.ndarray, balanced: bool, positive: Sequence[float]) -> tuple[float, ...]:
    """The class weights of the loss; empty for none.

    balanced, binary:      w = negatives / positives
    balanced, multi-class: w_c = labels / (classes * labels of c)

    A class without a training label has weight 1.

    Args:
        train: the targets of the training molecules, (n, T).
        balanced: whether the classes of a target get equal total weight.
        positive: explicit weights of the positive class, one for all targets or one for each.

    Raises:
        UsageError: weights that do not go with the task, a wrong number of them, or an invalid value.
    """
    if not balanced and not positive:
        return ()
    if balanced and positive:
        raise UsageError("training.class_balance and training.positive_weights both set class weights: leave one out")
    if positive:
        if task.kind != "binary":
            raise UsageError(f"training.positive_weights goes with binary targets; these are {task.kind}: leave it out")
        if len(positive) not in (1, train.shape[1]):
            raise UsageError(
                f"training.positive_weights holds {len(positive)} numbers for {train.shape[1]} targets: give one, or "
                "one for each"
            )
        if not all(w > 0 and np.isfinite(w) for w in positive):
            raise UsageError("a setting is out of range: positive_weights are above 0")
        return tuple(positive) * (train.shape[1] if len(positive) == 1 else 1)
    weights: list[float] = []
    for t, column in enumerate(train.T):
        labels = column[np.isfinite(column)].astype(int)
        if task.kind == "binary":
            positives = int(labels.sum())
            weights.append((len(labels) - positives) / positives if 0 < positives < len(labels) else 1.0)
        elif task.classes:
            counts = np.bincount(labels, minlength=len(task.classes[t]))
            weights += [len(labels) / (len(counts) * c) if c else 1.0 for c in counts.tolist()]
        else:
            raise UsageError("training.class_balance goes with classes, and these targets are numbers: leave it out")
    return tuple(weights)


def _mse(outputs: Tensor, z: Tensor, _: Tensor, __: Tensor | None) -> Tensor:
    return (outputs - z).square()


def _mae(outputs: Tensor, z: Tensor, _: Tensor, __: Tensor | None) -> Tensor:
    return (outputs - z).abs()


def _huber(outputs: Tensor, z: Tensor, _: Tensor, __: Tensor | None) -> Tensor:
    return F.huber_loss(outputs, z.to(outputs.dtype), reduction="none")


def _mve(outputs: Tensor, z: Tensor, _: Tensor, __: Tensor | None) -> Tensor:
    mean, spread = outputs.chunk(2, dim=1)
    variance = F.softplus(spread) + MIN_VARIANCE
    return 0.5 * (variance.log() + (mean - z).square() / variance)


def _evidential(
    outputs: Tensor, z: Tensor, _: Tensor, __: Tensor | None, regularization: float = DEFAULT_REGULARIZATION
) -> Tensor:
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
    return likelihood + regularization * residual.abs() * (2 * nu + alpha)


def _quantile(outputs: Tensor, z: Tensor, _: Tensor, __: Tensor | None, alpha: float = Regression.alpha) -> Tensor:
    median, below, above = outputs.chunk(3, dim=1)
    quantiles = ((0.5, median), (alpha / 2, median - F.softplus(below)), (1 - alpha / 2, median + F.softplus(above)))
    return sum((torch.maximum(p * (z - q), (p - 1) * (z - q)) for p, q in quantiles), torch.zeros_like(median))


def _bce(outputs: Tensor, z: Tensor, _: Tensor, weights: Tensor | None) -> Tensor:
    return F.binary_cross_entropy_with_logits(outputs, z.to(outputs.dtype), pos_weight=weights, reduction="none")


def _cross_entropy(outputs: Tensor, z: Tensor, target_of_output: Tensor, weights: Tensor | None) -> Tensor:
    def of_target(t: int) -> Tensor:
        columns = target_of_output == t
        weight = None if weights is None else weights[columns]
        return F.cross_entropy(outputs[:, columns], z[:, t].long(), weight=weight, reduction="none")

    return torch.stack([of_target(t) for t in range(z.shape[1])], dim=1)


def _dirichlet(
    outputs: Tensor,
    z: Tensor,
    target_of_output: Tensor,
    weights: Tensor | None,
    regularization: float = DEFAULT_REGULARIZATION,
) -> Tensor:
    def of_target(t: int) -> Tensor:
        columns = target_of_output == t
        a, true = 1 + F.softplus(outputs[:, columns]), z[:, t].long()
        one_hot = F.one_hot(true, a.shape[1]).to(a.dtype)
        total = a.sum(1, keepdim=True)
        p = a / total
        loss = ((one_hot - p).square() + p * (1 - p) / (total + 1)).sum(1)
        loss = loss + regularization * _kl_to_uniform(1 + (a - 1) * (1 - one_hot))
        if weights is None:
            return loss
        # Binary targets have one weight each, that of the positive class.
        binary = len(weights) < len(target_of_output)
        return loss * (torch.where(true == 1, weights[t], 1.0) if binary else weights[columns][true])

    return torch.stack([of_target(t) for t in range(z.shape[1])], dim=1)


def _kl_to_uniform(a: Tensor) -> Tensor:
    """KL(Dir(a), Dir(1)), (b,) from (b, C)."""
    total = a.sum(1, keepdim=True)
    constant = torch.lgamma(total[:, 0]) - torch.lgamma(a).sum(1) - math.lgamma(a.shape[1])
    return constant + ((a - 1) * (torch.digamma(a) - torch.digamma(total))).sum(1)


LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]] = {
    "mse": _mse,
    "mae": _mae,
    "huber": _huber,
    "mve": _mve,
    "evidential": _evidential,
    "quantile": _quantile,
    "bce": _bce,
    "cross-entropy": _cross_entropy,
    "dirichlet": _dirichlet,
}
"""Functions of outputs, standardised targets, the target of each output, and weights, that return the loss of every
label."""
