"""Losses against their equations, and the weights of classes."""

import numpy as np
import pytest
import torch

from molattn.errors import UsageError
from molattn.models.losses import LOSSES, losses_of
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.training.objectives import TaskLoss, class_weights, mean_loss

NAN = float("nan")
CLASSES = Multiclass(classes=(("a", "b"), ("x", "y", "z")))
EVIDENCE = [Binary("dirichlet"), Multiclass("dirichlet", CLASSES.classes)]
ALL = [*map(Regression, losses_of("regression")), Binary(), CLASSES, *EVIDENCE]


def _data(task: Task, n: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    outputs = torch.randn(n, len(task.target_of_output(2)), dtype=torch.float64)
    targets = torch.randint(2, (n, 2)).double() if task.kind != "regression" else torch.randn(n, 2).double()
    return outputs, targets


def test_every_loss_belongs_to_a_task() -> None:
    assert set(LOSSES) == {task.loss for task in ALL}


def test_losses_match_their_equations() -> None:
    scaler = TargetScaler((1.0, -1.0), (2.0, 0.5))
    for task in ALL[:4]:
        o, y = _data(task)
        z = (y - torch.tensor([1.0, -1.0])) / torch.tensor([2.0, 0.5])
        far = (o[:, :2] - z).abs()
        variance = torch.log1p(o[:, 2:].exp()) + 1e-6
        wanted = {
            "mse": lambda far=far: far**2,
            "mae": lambda far=far: far,
            "huber": lambda far=far: torch.where(far < 1, far**2 / 2, far - 0.5),
            "mve": lambda far=far, variance=variance: (variance.log() + far**2 / variance) / 2,
        }[task.loss]()
        torch.testing.assert_close(TaskLoss(task, scaler)(o, y)[0], wanted)
    o, y = _data(Binary())
    p = o.sigmoid()
    losses, _ = TaskLoss(Binary(), TargetScaler.identity(2), (3.0, 0.5))(o, y)
    torch.testing.assert_close(losses, -(torch.tensor([3.0, 0.5]) * y * p.log() + (1 - y) * (1 - p).log()))
    o, y = _data(CLASSES)
    losses, _ = TaskLoss(CLASSES, TargetScaler.identity(2), (1.0, 2.0, 1.0, 4.0, 1.0))(o, y)
    p = o[:, 2:].softmax(1)
    chosen = p[torch.arange(6), y[:, 1].long()]
    torch.testing.assert_close(losses[:, 1], -torch.tensor([1.0, 4.0, 1.0]).double()[y[:, 1].long()] * chosen.log())


def test_targets_far_from_zero_are_standardized_as_predictions_are_decoded() -> None:
    # In float32 these means would be off by standard deviations.
    targets, task = np.array([[1000000.02, -3e7], [1000000.04, -3e7 + 1]]), Regression("mae")
    scaler = TargetScaler.fit(targets)
    losses, _ = TaskLoss(task, scaler)(torch.from_numpy(scaler.scale(targets)), torch.from_numpy(targets))
    assert losses.max().item() < 1e-6


@pytest.mark.parametrize("task", ALL, ids=lambda t: f"{t.kind}-{t.loss}")
def test_a_missing_label_has_no_loss_and_no_gradient_even_if_the_output_is_nan(task: Task) -> None:
    outputs, targets = _data(task)
    targets[2, 0] = targets[4] = NAN
    owners = torch.tensor(task.target_of_output(2))
    gone = torch.isnan(targets)[:, owners]
    outputs[gone] = NAN
    outputs.requires_grad_()
    losses, known = TaskLoss(task, TargetScaler.identity(2))(outputs, targets)
    assert (known == torch.isfinite(targets)).all()
    assert not losses[~known].any()
    mean_loss(losses, known).backward()
    assert outputs.grad is not None
    assert not outputs.grad[gone].any()
    assert torch.isfinite(outputs.grad).all()
    assert outputs.grad[~gone].any()


def test_the_mean_is_over_labels_and_weighted_by_rows() -> None:
    losses = torch.tensor([[1.0, 0.0], [3.0, 5.0]])
    known = torch.tensor([[True, False], [True, True]])
    assert mean_loss(losses, known).item() == 3.0
    assert mean_loss(losses, known, torch.tensor([2.0, 1.0])).item() == pytest.approx((2 + 3 + 5) / 4)
    assert mean_loss(losses * 0, known & False).item() == 0.0
    assert mean_loss(losses, known, torch.zeros(2)).item() == 0.0


def test_balanced_class_weights() -> None:
    train = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, NAN], [1.0, 2.0], [NAN, 0.0]])
    assert class_weights(Binary(), train[:, :1], True, ()) == (3.0,)
    assert class_weights(CLASSES, train, True, ()) == pytest.approx((4 / 6, 4 / 2, 4 / 6, 4 / 3, 4 / 3))
    # One class only: there is nothing to balance.
    assert class_weights(Binary(), np.zeros((3, 1)), True, ()) == (1.0,)
    assert class_weights(Binary(), train, False, (2.0,)) == (2.0, 2.0)
    assert class_weights(Binary(), train, False, ()) == ()


@pytest.mark.parametrize(
    ("task", "balanced", "positive", "message"),
    [
        (Regression(), True, (), "class_balance applies only to classification, not to numbers"),
        (Regression(), False, (2.0,), "positive_weights applies only to binary targets, and these are regression"),
        (Binary(), True, (2.0,), "leave one out"),
        (Binary(), False, (2.0, 2.0, 2.0), "holds 3 numbers for 2 targets"),
        (Binary(), False, (0.0,), "positive_weights are above 0"),
    ],
)
def test_invalid_weights_are_refused(task: Task, balanced: bool, positive: tuple[float, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        class_weights(task, np.zeros((3, 2)), balanced, positive)
