"""What is minimised: the losses by name, over the labels that are there."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from molattn.errors import UsageError
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import SMALLEST_VARIANCE, Task


class TaskLoss(nn.Module):
    """The loss of every label.

    With z the standardised targets and o the outputs of the model:

    mse: (o - z)^2;   mae: |o - z|;   huber: (o - z)^2 / 2 up to 1, |o - z| - 1/2 beyond
    mve: (log s^2 + (o_mean - z)^2 / s^2) / 2,   s^2 = softplus(o_spread)
    bce: -w z log p - (1 - z) log(1 - p),   p = logistic(o)
    cross-entropy: -w_z log p_z,   p = softmax(o)

    A missing label brings neither loss nor gradient, whatever the model puts out there.

    Args:
        task: says which loss.
        scaler: of the targets.
        weights: w: of the positive class of each target, (T,); of every class of every target, one after the other.
    """

    mean: Tensor
    std: Tensor
    owners: Tensor
    weights: Tensor | None

    def __init__(self, task: Task, scaler: TargetScaler, weights: Sequence[float] = ()):
        super().__init__()
        self.register_buffer("mean", torch.tensor(scaler.mean))
        self.register_buffer("std", torch.tensor(scaler.std))
        self.register_buffer("owners", torch.tensor(task.owners(len(scaler.mean))))
        self.register_buffer("weights", torch.tensor(tuple(weights)) if len(weights) else None)
        self.of = LOSSES[task.loss]

    def forward(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The losses, (b, T), zero where the label is missing, and where it is known.

        Shapes: outputs (b, outputs), targets (b, T) in units, NaN where missing; b counts molecules, or atoms.
        """
        known = torch.isfinite(targets)
        z = ((targets - self.mean) / self.std).masked_fill(~known, 0.0)
        outputs = outputs.masked_fill(~known[:, self.owners], 0.0)
        weights = None if self.weights is None else self.weights.to(outputs.dtype)
        return self.of(outputs, z, self.owners, weights).masked_fill(~known, 0.0), known


def mean_loss(losses: Tensor, known: Tensor, rows: Tensor | None = None) -> Tensor:
    """The mean over the known labels, each row counted as often as `rows`, (b,), says; zero without a label."""
    count = known.to(losses.dtype)
    if rows is not None:
        rows = rows.to(losses.dtype).unsqueeze(1)
        losses, count = losses * rows, count * rows
    total = count.sum()
    return losses.sum() / torch.where(total > 0, total, torch.ones_like(total))


def balance(task: Task, train: np.ndarray, balanced: bool, positive: Sequence[float]) -> tuple[float, ...]:
    """The weights of the classes in the loss; empty for none.

    balanced, binary:      w = negatives / positives
    balanced, multi-class: w_c = labels / (classes * labels of c)

    A class without a training label has weight 1.

    Args:
        train: the targets of the training molecules, (n, T).
        balanced: the classes of a target count alike, however rare one is.
        positive: the weights of the positive class themselves, one for all targets or one for each.

    Raises:
        UsageError: weights that do not go with the task, or their number or a value makes no sense.
    """
    if not balanced and not positive:
        return ()
    if balanced and positive:
        raise UsageError("training.class_balance and training.positive_weights say the same thing: leave one out")
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
    variance = F.softplus(spread) + SMALLEST_VARIANCE
    return 0.5 * (variance.log() + (mean - z).square() / variance)


def _bce(outputs: Tensor, z: Tensor, _: Tensor, weights: Tensor | None) -> Tensor:
    return F.binary_cross_entropy_with_logits(outputs, z.to(outputs.dtype), pos_weight=weights, reduction="none")


def _cross_entropy(outputs: Tensor, z: Tensor, owners: Tensor, weights: Tensor | None) -> Tensor:
    def of(t: int) -> Tensor:
        mine = owners == t
        weight = None if weights is None else weights[mine]
        return F.cross_entropy(outputs[:, mine], z[:, t].long(), weight=weight, reduction="none")

    return torch.stack([of(t) for t in range(z.shape[1])], dim=1)


LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]] = {
    "mse": _mse,
    "mae": _mae,
    "huber": _huber,
    "mve": _mve,
    "bce": _bce,
    "cross-entropy": _cross_entropy,
}
"""From outputs, standardised targets, the target of each output, and weights, to the loss of every label."""
