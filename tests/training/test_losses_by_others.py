"""Losses against those of torch and scikit-learn, and against torch's distributions."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import mean_pinball_loss
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor, nn
from torch.distributions import Dirichlet, Normal, StudentT, kl_divergence
from torch.nn.functional import one_hot, softplus

from molattn.errors import UsageError
from molattn.models.loss_functions import DEFAULT_REGULARIZATION
from molattn.models.losses import BOUNDED_LOSSES, losses_of
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.training.objectives import TaskLoss, class_weights, mean_loss

NAN = float("nan")
CLASSES = (("a", "b"), ("x", "y", "z"))
EVIDENCE = Multiclass("dirichlet", CLASSES)
LEAST = 1e-6


def outputs_of(task: Task, n: int = 7, seed: int = 0) -> Tensor:
    """Random outputs of a model, in float64, some of them far from zero."""
    torch.manual_seed(seed)
    return 3 * torch.randn(n, len(task.target_of_output(2)), dtype=torch.float64)


def numbers(n: int = 7) -> Tensor:
    torch.manual_seed(1)
    return 4 * torch.randn(n, 2, dtype=torch.float64)


def compute_loss(task: Task, outputs: Tensor, targets: Tensor, *weights: float, **settings: float) -> Tensor:
    return TaskLoss(task, TargetScaler.identity(targets.shape[1]), weights, **settings)(outputs, targets)[0]


@pytest.mark.parametrize(
    ("name", "torchs"), [("mse", nn.MSELoss), ("mae", nn.L1Loss), ("huber", nn.HuberLoss)], ids=["mse", "mae", "huber"]
)
def test_plain_losses_are_torchs_on_targets_of_mean_0_and_variance_1(name: str, torchs: type[nn.Module]) -> None:
    outputs, targets = outputs_of(Regression(name)), 10 + 5 * numbers()
    scaler = TargetScaler.fit(targets.numpy())
    standard = torch.from_numpy(((targets - targets.mean(0)) / targets.std(0, correction=0)).numpy())
    losses, _ = TaskLoss(Regression(name), scaler)(outputs, targets)
    torch.testing.assert_close(losses, torchs(reduction="none")(outputs, standard), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "plain"), [("bounded-mse", np.square), ("bounded-mae", np.abs)])
def test_losses_with_bounds_are_those_of_chemprop(name: str, plain: np.ufunc) -> None:
    """chemprop's BoundedMSE and BoundedMAE: a prediction that is within its bound is set to the bound first."""
    rng = np.random.default_rng(0)
    o, values, sign = rng.normal(size=(40, 2)), 10 + 5 * rng.normal(size=(40, 2)), rng.integers(-1, 2, size=(40, 2))
    scaler = TargetScaler((10.0, 9.0), (5.0, 0.5))
    z = scaler.scale(values)
    set_to_bound = np.where((sign < 0) & (o < z) | (sign > 0) & (o > z), z, o)
    exact = np.where(sign == 0, values, NAN)
    bounds = np.stack([np.where(sign > 0, values, NAN), np.where(sign < 0, values, NAN)], -1)
    exact[0], bounds[0] = NAN, NAN
    outputs = torch.tensor(o, requires_grad=True)
    losses, known = TaskLoss(Regression(name), scaler)(outputs, torch.tensor(exact), torch.tensor(bounds))
    wanted = plain(set_to_bound - z)
    wanted[0] = 0
    np.testing.assert_allclose(losses.detach(), wanted, atol=1e-6)
    assert not known[0].any() and known[1:].all()
    # A prediction within its bound does not change.
    losses.sum().backward()
    assert outputs.grad is not None
    within = (set_to_bound == z) & (sign != 0)
    assert within.any() and not outputs.grad.numpy()[within].any() and outputs.grad.numpy()[1:][~within[1:]].all()


def test_other_losses_do_not_read_bounds() -> None:
    targets, bounds = torch.tensor([[1.0], [NAN]]).double(), torch.tensor([[[NAN, NAN]], [[1.0, NAN]]]).double()
    for name in losses_of("regression"):
        outputs = outputs_of(Regression(name), 2)[:, ::2]
        losses, known = TaskLoss(Regression(name), TargetScaler.identity(1))(outputs, targets, bounds)
        assert known[:, 0].tolist() == [True, name in BOUNDED_LOSSES]
        alone, _ = TaskLoss(Regression(name), TargetScaler.identity(1))(outputs, targets)
        torch.testing.assert_close(losses[0], alone[0])
    plain, bounded = (compute_loss(Regression(name), numbers(), numbers() + 1) for name in ("mse", "bounded-mse"))
    torch.testing.assert_close(plain, bounded)


def test_mve_is_the_likelihood_of_a_normal_distribution() -> None:
    task, targets = Regression("mve"), numbers()
    outputs = outputs_of(task)
    outputs[0, 2:] = -40.0  # a variance that would be zero
    outputs[1, 2:] = -13.0
    mean, spread = outputs[:, :2], outputs[:, 2:]
    likelihood = Normal(mean, (softplus(spread) + LEAST).sqrt()).log_prob(targets)
    torch.testing.assert_close(compute_loss(task, outputs, targets), -likelihood - math.log(2 * math.pi) / 2)


@pytest.mark.parametrize("regularization", [0.0, 0.7])
def test_evidential_is_the_likelihood_of_students_t_plus_the_evidence_regularizer(regularization: float) -> None:
    task, targets = Regression("evidential"), numbers()
    outputs = outputs_of(task)
    outputs[0, 2:] = -12.0  # almost no evidence: the added constants matter
    gamma, *rest = outputs.split(2, 1)
    nu, alpha, beta = (softplus(o) + LEAST for o in rest)
    alpha = alpha + 1
    # Amini et al. 2020, equation 7: St(gamma, beta (1 + nu) / (nu alpha), 2 alpha); equation 9.
    students = StudentT(2 * alpha, gamma, (beta * (1 + nu) / (nu * alpha)).sqrt())
    wanted = -students.log_prob(targets) + regularization * (targets - gamma).abs() * (2 * nu + alpha)
    found = compute_loss(task, outputs, targets, regularization=regularization)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_quantile_is_scikit_learns_pinball_loss_of_three_quantiles(alpha: float) -> None:
    task, targets = Regression("quantile", alpha=alpha), numbers()
    outputs = outputs_of(task)
    median, below, above = outputs.split(2, 1)
    ends = {0.5: median, alpha / 2: median - softplus(below), 1 - alpha / 2: median + softplus(above)}
    found = compute_loss(task, outputs, targets)
    for i, t in np.ndindex(7, 2):
        one = slice(i, i + 1)
        wanted = sum(mean_pinball_loss(targets[one, t], q[one, t], alpha=p) for p, q in ends.items())
        assert found[i, t].item() == pytest.approx(wanted)


def test_bce_is_torchs_with_its_weight_of_a_one() -> None:
    outputs, targets = outputs_of(Binary()), (numbers() > 0).double()
    for weights in ((), (3.0, 0.25)):
        torchs = nn.BCEWithLogitsLoss(
            pos_weight=torch.tensor(weights, dtype=torch.float64) if weights else None, reduction="none"
        )
        torch.testing.assert_close(compute_loss(Binary(), outputs, targets, *weights), torchs(outputs, targets))


def test_cross_entropy_is_torchs_target_by_target() -> None:
    task = Multiclass(classes=CLASSES)
    outputs = outputs_of(task)
    targets = torch.tensor([[i % 2, i % 3] for i in range(7)], dtype=torch.float64)
    for weights in ((), (1.0, 2.0, 0.5, 4.0, 3.0)):
        found = compute_loss(task, outputs, targets, *weights)
        for t, columns in enumerate((slice(2), slice(2, 5))):
            w = torch.tensor(weights[columns], dtype=torch.float64) if weights else None
            torchs = nn.CrossEntropyLoss(weight=w, reduction="none")
            torch.testing.assert_close(found[:, t], torchs(outputs[:, columns], targets[:, t].long()))


@pytest.mark.parametrize(
    "task", [*map(Regression, losses_of("regression")), Binary(), Binary("dirichlet")], ids=lambda t: t.loss
)
def test_the_loss_of_seven_targets_is_that_of_each_alone(task: Task) -> None:
    torch.manual_seed(0)
    outputs = torch.randn(4, len(task.target_of_output(7)), dtype=torch.float64)
    targets = torch.randint(2, (4, 7)).double()
    owners = torch.tensor(task.target_of_output(7))
    each = [compute_loss(task, outputs[:, owners == t], targets[:, t : t + 1]) for t in range(7)]
    torch.testing.assert_close(compute_loss(task, outputs, targets), torch.cat(each, 1))


@pytest.mark.parametrize("regularization", [0.0, 0.4])
@pytest.mark.parametrize("task", [EVIDENCE, Binary("dirichlet")], ids=["classes", "binary"])
def test_dirichlet_is_the_expected_square_and_torchs_divergence(task: Task, regularization: float) -> None:
    outputs = outputs_of(task)
    targets = torch.tensor([[i % 2, i % (3 if task is EVIDENCE else 2)] for i in range(7)], dtype=torch.float64)
    found = compute_loss(task, outputs, targets, regularization=regularization)
    owners = torch.tensor(task.target_of_output(2))
    for t in range(2):
        a = 1 + softplus(outputs[:, owners == t])
        wanted = one_hot(targets[:, t].long(), a.shape[1]).double()
        belief = Dirichlet(a)
        # E |wanted - p|^2, and what is left when the evidence for the truth is taken away (Sensoy et al. 2018, eq. 5).
        square = ((wanted - belief.mean).square() + belief.variance).sum(1)
        misled = torch.where(wanted.bool(), torch.ones_like(a), a)
        cost = kl_divergence(Dirichlet(misled), Dirichlet(torch.ones_like(a)))
        torch.testing.assert_close(found[:, t], square + regularization * cost, rtol=1e-9, atol=1e-12)


def test_weights_of_classes_multiply_the_loss_of_evidence() -> None:
    targets = torch.tensor([[0, 2], [1, 1], [1, 0], [0, 1], [0, 0], [1, 2], [1, 1]], dtype=torch.float64)
    outputs = outputs_of(EVIDENCE)
    plain, weighed = (
        compute_loss(EVIDENCE, outputs, targets),
        compute_loss(EVIDENCE, outputs, targets, 1.0, 2.0, 3.0, 4.0, 5.0),
    )
    each = torch.tensor([[1.0, 2.0, 0.0], [3.0, 4.0, 5.0]], dtype=torch.float64)
    factors = torch.stack([each[t][targets[:, t].long()] for t in range(2)], 1)
    torch.testing.assert_close(weighed, plain * factors)
    binary, zero_one = Binary("dirichlet"), targets.clamp(max=1)
    outputs = outputs_of(binary)
    plain, weighed = compute_loss(binary, outputs, zero_one), compute_loss(binary, outputs, zero_one, 5.0, 0.5)
    ones = torch.tensor([5.0, 0.5], dtype=torch.float64)
    torch.testing.assert_close(weighed, plain * torch.where(zero_one == 1, ones, torch.ones_like(ones)))
    # For a single target the weight is that of class 1, not a weight for each of two classes.
    alone = TaskLoss(binary, TargetScaler.identity(1), (5.0,))(outputs[:, :2], zero_one[:, :1])[0]
    free = TaskLoss(binary, TargetScaler.identity(1))(outputs[:, :2], zero_one[:, :1])[0]
    torch.testing.assert_close(alone, free * torch.where(zero_one[:, :1] == 1, 5.0, 1.0))


@pytest.mark.parametrize("task", [Regression("evidential"), EVIDENCE], ids=["numbers", "classes"])
def test_the_evidence_regularization_has_the_default_of_the_settings(task: Task) -> None:
    outputs, targets = outputs_of(task), (numbers() > 0).double()
    explicit = compute_loss(task, outputs, targets, regularization=DEFAULT_REGULARIZATION)
    torch.testing.assert_close(compute_loss(task, outputs, targets), explicit)
    assert (compute_loss(task, outputs, targets, regularization=DEFAULT_REGULARIZATION + 1) > explicit).all()


def test_a_missing_label_has_no_loss_and_does_not_affect_the_others() -> None:
    targets = numbers()
    targets[3, 1] = NAN
    scaler = TargetScaler((5.0, -3.0), (2.0, 0.5))
    for name in losses_of("regression"):
        outputs = outputs_of(Regression(name)).requires_grad_()
        loss = TaskLoss(Regression(name), scaler)
        losses, known = loss(outputs, targets)
        assert known.sum() == 13
        whole, _ = loss(outputs, torch.nan_to_num(targets, nan=9.0))
        torch.testing.assert_close(losses[known], whole[known])
        assert losses[3, 1] == 0
        # The mean is over the labels that are there, as torch's is over as many molecules.
        assert mean_loss(losses, known).item() == pytest.approx(losses.sum().item() / 13)


def test_the_weighted_mean_does_not_depend_on_the_scale_of_the_weights() -> None:
    """Weights of rows are shares: all of them times any number change nothing."""
    losses, known = torch.tensor([[2.0], [4.0]]), torch.ones(2, 1, dtype=torch.bool)
    for scale in (1e-3, 0.25, 1.0, 1e3):
        rows = scale * torch.tensor([1.0, 3.0])
        assert mean_loss(losses, known, rows).item() == pytest.approx(np.average([2.0, 4.0], weights=[1, 3]))


def test_balanced_weights_are_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    labels = np.column_stack([rng.integers(0, 2, 40), rng.integers(0, 3, 40)]).astype(float)
    labels[3, 0] = labels[5, 1] = np.nan
    wanted: list[float] = []
    for column, names in zip(labels.T, CLASSES, strict=True):
        known = column[np.isfinite(column)]
        wanted += compute_class_weight("balanced", classes=np.arange(len(names)), y=known).tolist()
    assert class_weights(Multiclass(classes=CLASSES), labels, True, ()) == pytest.approx(wanted)
    zero, one = compute_class_weight("balanced", classes=np.arange(2), y=labels[np.isfinite(labels[:, 0]), 0])
    assert class_weights(Binary(), labels[:, :1], True, ()) == pytest.approx((one / zero,))


def test_a_class_without_a_label_and_a_target_without_two_of_them_weigh_1() -> None:
    labels = np.array([[0.0, 2.0], [0.0, 2.0], [0.0, 0.0]])
    # Each class that is there counts labels / (classes * its labels), and the one that is not there counts 1.
    assert class_weights(Multiclass(classes=CLASSES), labels, True, ()) == pytest.approx((0.5, 1.0, 1.0, 1.0, 0.5))
    for only in (0.0, 1.0):
        assert class_weights(Binary(), np.full((4, 1), only), True, ()) == (1.0,)
    assert class_weights(Binary(), np.array([[0.0], [1.0], [1.0], [1.0]]), True, ()) == pytest.approx((1 / 3,))


def test_one_weight_is_for_all_targets_and_several_are_for_one_each() -> None:
    train = np.zeros((3, 2))
    assert class_weights(Binary(), train, False, (0.5,)) == (0.5, 0.5)
    assert class_weights(Binary(), train, False, (0.5, 4.0)) == (0.5, 4.0)
    for bad in (math.inf, NAN, -1.0, 0.0):
        with pytest.raises(UsageError, match="positive_weights are above 0"):
            class_weights(Binary(), train, False, (1.0, bad))
