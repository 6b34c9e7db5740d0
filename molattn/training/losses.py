"""The loss over the known labels, and class weights."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from molattn.errors import UsageError
from molattn.models.losses import DEFAULT_ALPHA, DEFAULT_REGULARIZATION, LossArguments
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Task


class TaskLoss(nn.Module):
    """The loss of every label, by the function of the task's loss in `molattn.models.losses.LOSSES`.

    A missing label contributes neither loss nor gradient, whatever the output of the model.

    Args:
        task: determines the loss.
        scaler: of the targets.
        weights: w of the positive class of each target, (T,), or w of every class of every target, one after the other;
            empty for none.
        regularization: see `LossArguments`.
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
        self.function = task.loss_function.function
        self.alpha = getattr(task, "alpha", DEFAULT_ALPHA)
        self.regularization = regularization

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
        arguments = LossArguments(self.target_of_output, weights, self.alpha, self.regularization)
        return self.function(outputs, z, arguments).masked_fill(~known, 0.0), known


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
