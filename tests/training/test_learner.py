"""Training steps against torch's own optimizer, schedule, clipping and averaging; and on two ranks."""

import copy
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss, mean_squared_error, roc_auc_score
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.optim.swa_utils import AveragedModel

from molattn.chem import molecule_graph
from molattn.data.store.batches import BucketBatchSampler
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Binary, Regression
from molattn.training import distributed
from molattn.training.callbacks import ReportEpochs
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules, collate_step
from molattn.training.early_stopping import EpochRecord
from molattn.training.fit import fit
from molattn.training.learner import Learner
from molattn.training.objectives import AuxiliaryObjective, AuxiliaryRegression
from tests.molecules import esol
from tests.predictions import predict_molecules

SMILES, VALUES = esol(24)
GRAPHS = [molecule_graph(s) for s in SMILES]
TARGETS = np.array(VALUES)[:, None]
SMALL = GraphModelConfig(hidden_dim=8, num_layers=1, num_heads=2, edge_dim=4, dropout=0.0)
TRAIN, VAL = LabelledMolecules(GRAPHS[:18], TARGETS[:18]), LabelledMolecules(GRAPHS[18:], TARGETS[18:])
SCALER = TargetScaler.fit(TRAIN.targets)
CONFIG = TrainingConfig(
    epochs=2, batch_size=6, learning_rate=0.02, weight_decay=0.5, warmup=0.25, ema=0.6, grad_clip=0.3, accelerator="cpu"
)


@pytest.fixture(autouse=True)
def _no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage collection over all objects of pytest takes longer than the trainings here."""
    monkeypatch.setattr("gc.collect", lambda: 0)


def model_of(outputs: int = 1, seed: int = 0) -> GraphModel:
    torch.manual_seed(seed)
    return GraphModel(SMALL, outputs)


def learner_of(config: TrainingConfig = CONFIG, model: GraphModel | None = None, **settings: Any) -> Learner:
    given = {"train": TRAIN, "scaler": SCALER, **settings}
    return Learner(model_of() if model is None else model, config=config, **given)


def validate(learner: Learner, data: LabelledMolecules, rows: Sequence[int]) -> None:
    with torch.no_grad():
        learner.validation_step(collate_step(learner.model, data, rows))


def z_of(data: LabelledMolecules, rows: Sequence[int]) -> Tensor:
    return torch.from_numpy((data.targets_of(rows) - SCALER.mean[0]) / SCALER.std[0]).float()


def torchs_schedule(optimizer: torch.optim.Optimizer, steps: int, warmup: int) -> SequentialLR:
    """A linear rise and torch's cosine down to zero."""
    rise = LinearLR(optimizer, 1 / warmup, 1.0, max(1, warmup - 1))
    return SequentialLR(optimizer, [rise, CosineAnnealingLR(optimizer, steps - warmup)], [warmup])


def by_hand(
    model: GraphModel, config: TrainingConfig, warmup: int, groups: list[dict[str, Any]] | None = None
) -> tuple[list[EpochRecord], nn.Module]:
    """The same training in a plain loop with torch: its history, and the averaged model of the best epoch.

    groups: the parameter groups of torch's optimizer; by default one of all parameters.
    """
    sampler = BucketBatchSampler([g.num_atoms for g in TRAIN.molecules], config.batch_size, config.seed)
    average = AveragedModel(model, avg_fn=lambda a, w, t: torch.lerp(w, a, min(config.ema, int(t) / (int(t) + 9))))
    rate, decay = config.learning_rate, config.weight_decay
    optimizer = torch.optim.AdamW(groups or model.parameters(), lr=rate, weight_decay=decay)
    schedule = torchs_schedule(optimizer, config.epochs * len(sampler), warmup)
    history: list[EpochRecord] = []
    kept: nn.Module = model
    for epoch in range(config.epochs):
        sampler.set_epoch(epoch)
        losses: list[float] = []
        for rows in sampler:
            optimizer.zero_grad()
            outputs = model(model.collate([GRAPHS[i] for i in rows]))
            each = nn.functional.mse_loss(outputs, z_of(TRAIN, rows).to(outputs.dtype), reduction="none")
            each.mean().backward()
            losses += each.flatten().tolist()
            if config.grad_clip:
                nn.utils.clip_grad_norm_(model.parameters(), config.grad_clip)
            optimizer.step()
            schedule.step()
            average.update_parameters(model)
        with torch.no_grad():
            found = average.module.eval()(model.collate(VAL.molecules))
        val = mean_squared_error(z_of(VAL, range(6)), found)
        rmse = math.sqrt(val) * SCALER.std[0]
        best = val < min((r.val_loss for r in history), default=math.inf)
        kept = copy.deepcopy(average.module) if best else kept
        rate, mean = schedule.get_last_lr()[0], float(np.mean(losses))
        history.append(EpochRecord(epoch + 1, rate, mean, val, rmse, best))
    return history, kept


def fitted(config: TrainingConfig) -> tuple[list[EpochRecord], GraphModel]:
    model, history = model_of(), []
    report = ReportEpochs(lambda record, _: history.append(record))
    assert fit(model, TRAIN, VAL, SCALER, config, callbacks=[report]).history == history
    assert not model.training
    return history, model


def same(history: list[EpochRecord], wanted: list[EpochRecord], rel: float = 1e-4) -> None:
    for a, b in zip(history, wanted, strict=True):
        assert (a.epoch, a.best, a.metric) == (b.epoch, b.best, b.metric)
        assert astuple(a)[1:5] == pytest.approx(astuple(b)[1:5], rel=rel, abs=1e-9), a.epoch


def test_training_matches_a_plain_loop_with_torch() -> None:
    # Steep enough for the best epoch not to be the last one.
    config = replace(CONFIG, epochs=5, learning_rate=0.3, ema=0.2)
    history, model = fitted(config)
    wanted, kept = by_hand(model_of(), config, warmup=4)
    assert not wanted[-1].best
    same(history, wanted, 1e-3)
    found = predict_molecules(model, SCALER, VAL.molecules)
    with torch.no_grad():
        wanted_of_best = kept(model.collate(VAL.molecules)).numpy()
    np.testing.assert_allclose(SCALER.scale(found), wanted_of_best, rtol=1e-3, atol=1e-4)


CHANGES: list[dict[str, Any]] = [
    {},
    {"weight_decay": 0.0},
    {"grad_clip": 0.0},
    {"warmup": 0.0},
    {"ema": 0.0},
    {"seed": 1},
    {"learning_rate": 0.01},
]


def test_each_setting_of_the_optimizer_matches_torch() -> None:
    losses = []
    for change in CHANGES:
        config = replace(CONFIG, **change)
        history, _ = fitted(config)
        same(history, by_hand(model_of(), config, warmup=1 if "warmup" in change else 2)[0])
        losses.append(history[-1].val_loss)
    assert len({f"{loss:.3g}" for loss in losses}) == len(CHANGES), "a setting without effect"


def rates(steps: int, warmup: float, count: int) -> list[float]:
    """The learning rates of the first `count` steps as shares of the largest."""
    learner = learner_of(replace(CONFIG, warmup=warmup, learning_rate=1.0), steps=steps)
    learner.prepare()
    optimizer = learner.optimizer
    found = []
    for _ in range(count):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        learner.scheduler.step()
    return found


@pytest.mark.parametrize(("steps", "share", "warmup"), [(20, 0.25, 5), (20, 0.0, 1), (7, 0.5, 4), (100, 0.05, 5)])
def test_the_learning_rate_matches_torchs_linear_warmup_and_cosine(steps: int, share: float, warmup: int) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=1.0)
    schedule, wanted = torchs_schedule(optimizer, steps, warmup), []
    for _ in range(steps + 1):
        wanted.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert rates(steps, share, steps + 1) == pytest.approx(wanted, abs=1e-7)
    assert max(wanted) == 1.0 and wanted[-1] == pytest.approx(0.0, abs=1e-9)
    # Beyond the end the learning rate stays zero.
    assert rates(steps, share, steps + 4)[steps:] == pytest.approx([0.0] * 4, abs=1e-12)


def test_the_shortest_trainings_have_a_positive_learning_rate() -> None:
    for steps in (0, 1):
        for warmup in (0.0, 1.0):
            assert rates(steps, warmup, 1) == [1.0]
    # Warm-up only.
    assert rates(4, 1.0, 6) == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 0.0], abs=1e-12)


@pytest.mark.parametrize(("kind", "fused"), [("cpu", True), ("meta", None)])
def test_the_optimizer_is_fused_if_the_device_supports_it(kind: str, fused: object) -> None:
    learner = learner_of()
    learner.prepare(kind)
    assert learner.optimizer.param_groups[0]["fused"] is fused
    assert {x.device.type for x in learner.state_dict().values()} == {kind}


def test_a_training_on_a_gpu_is_fused_and_ends_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: the devices are recorded, and nothing is moved."""
    learner, devices = learner_of(), []
    monkeypatch.setattr(learner, "to", devices.append)
    learner.prepare("cuda")
    assert learner.optimizer.param_groups[0]["fused"] is True
    learner.release()
    assert devices == ["cuda", "cpu"]


def test_a_released_model_has_separate_weights() -> None:
    model = model_of()
    learner = learner_of(model=model)
    learner.release()  # without prepare
    learner.prepare()
    learner.training_step(collate_step(model, TRAIN, range(4)))
    trained = copy.deepcopy(model.state_dict())
    learner.release()
    weights = list(model.parameters())
    assert len({w.untyped_storage().data_ptr() for w in weights}) == len(weights)
    assert all(w.grad is None and w.is_cpu for w in weights)
    assert all(torch.equal(x, trained[name]) for name, x in model.state_dict().items())


def build_auxiliary_objective(model: GraphModel) -> AuxiliaryRegression:
    torch.manual_seed(7)
    return AuxiliaryRegression(model, 2, weight=0.5)


AUXILIARY = np.random.default_rng(0).normal(size=(18, 2))
WITH_AUXILIARY = replace(TRAIN, auxiliary_targets=AUXILIARY)


def test_an_auxiliary_objective_adds_its_loss_and_its_weights_are_trained() -> None:
    model = model_of()
    objective = build_auxiliary_objective(model)
    learner = learner_of(replace(CONFIG, warmup=0.0), model, auxiliary_objective=objective, train=WITH_AUXILIARY)
    learner.prepare()
    step = collate_step(model, WITH_AUXILIARY, range(5))
    auxiliary_loss = objective(model, step[0], step[2])[1].item()
    plain = nn.functional.mse_loss(model(step[0]), z_of(TRAIN, range(5))).item()
    before = [w.detach().clone() for w in (model.head.weight, objective.head.weight)]
    for _ in range(2):
        # Gradients of the previous step do not accumulate.
        loss = learner.backward(step)
        assert loss.item() == pytest.approx(plain + auxiliary_loss, rel=1e-5)
        gradients = torch.autograd.grad(learner.compute_loss(step), [model.head.weight, objective.head.weight])
        for w, gradient in zip((model.head.weight, objective.head.weight), gradients, strict=True):
            torch.testing.assert_close(w.grad, gradient, rtol=1e-4, atol=1e-6)
    learner.optimizer.step()
    for w, old in zip((model.head.weight, objective.head.weight), before, strict=True):
        assert not torch.equal(w, old)


def test_validation_uses_the_averaged_model_and_changes_no_weight() -> None:
    model = model_of()
    learner = learner_of(replace(CONFIG, ema=0.9), model)
    learner.prepare()
    step = collate_step(model, VAL, range(6))
    first = model(step[0]).detach()
    with torch.no_grad():
        model.head.bias.add_(5.0)
    validate(learner, VAL, range(6))
    z = z_of(VAL, range(6))
    assert learner.val_losses.pop() == pytest.approx(mean_squared_error(z, first), rel=1e-5)
    assert learner.pop_metric() == pytest.approx(math.sqrt(mean_squared_error(z, first)) * SCALER.std[0], rel=1e-5)
    # After a step of training the average follows, at first the whole way.
    learner.average.update()
    validate(learner, VAL, range(6))
    assert learner.val_losses.pop() == pytest.approx(mean_squared_error(z, first + 5.0), rel=1e-5)
    assert len(learner.validation_outputs) == 1


def test_reported_losses_are_weighted_means_over_labels() -> None:
    targets = np.column_stack([TARGETS[:6], TARGETS[6:12]])
    targets[1, 0] = targets[4] = np.nan
    weights = np.array([2.0, 1.0, 0.0, 0.5, 3.0, 1.0])
    data = LabelledMolecules(GRAPHS[:6], targets, weights)
    scaler = TargetScaler.fit(targets)
    model = model_of(2)
    learner = learner_of(CONFIG, model, train=data, scaler=scaler)
    learner.prepare()
    known = np.isfinite(targets)
    with torch.no_grad():
        outputs = model(model.collate(GRAPHS[:6])).numpy()
    squares = (outputs - scaler.scale(targets)) ** 2
    for rows, by_weight in ((weights, data), (np.ones(6), replace(data, weights=None))):
        each = np.broadcast_to(rows[:, None], (6, 2))[known]
        wanted = np.average(squares[known], weights=each)
        for part in (range(4), range(4, 6)):
            learner.compute_loss(collate_step(model, by_weight, part))
            validate(learner, by_weight, part)
        assert learner.train_losses.pop() == pytest.approx(wanted, rel=1e-5)
        assert learner.val_losses.pop() == pytest.approx(wanted, rel=1e-5)
        # Reset after it was read.
        assert math.isnan(learner.train_losses.pop())
    # The metric ignores weights: the mean over targets of scikit-learn's over the labels.
    predicted = outputs * np.array(scaler.std) + np.array(scaler.mean)
    rmse = [math.sqrt(mean_squared_error(targets[known[:, t], t], predicted[known[:, t], t])) for t in range(2)]
    assert learner.pop_metric() == pytest.approx(np.mean(rmse), rel=1e-5)


@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_the_loss_of_a_single_label_is_reported_whatever_its_weight(weight: float) -> None:
    data = replace(TRAIN, weights=np.full(18, weight))
    learner = learner_of(CONFIG, train=data)
    learner.prepare()
    loss = learner.compute_loss(collate_step(learner.model, data, [4])).item()
    assert learner.train_losses.pop() == pytest.approx(loss, rel=1e-5)


def test_losses_and_metrics_of_a_binary_task_and_class_weights() -> None:
    labels = np.array([0.0, 0.0, 0.0, 1.0, 0.0, 1.0] * 3)[:, None]
    data = LabelledMolecules(TRAIN.molecules, labels)
    model = model_of()
    settings: dict[str, Any] = {"train": data, "scaler": TargetScaler.identity(1), "task": Binary(), "metric": "auroc"}
    for config, weight in (
        (CONFIG, 1.0),
        (replace(CONFIG, class_balance=True), 2.0),
        (replace(CONFIG, positive_weights=(3.0,)), 3.0),
    ):
        learner = learner_of(config, model, **settings)
        learner.prepare()
        validate(learner, data, range(18))
        with torch.no_grad():
            p = model(model.collate(GRAPHS[:18])).sigmoid().double().numpy()[:, 0]
        weights = np.where(labels[:, 0] == 1, weight, 1.0)
        loss = log_loss(labels[:, 0], p, sample_weight=weights) * weights.sum() / 18
        assert learner.val_losses.pop() == pytest.approx(loss, rel=1e-5)
        assert learner.pop_metric() == pytest.approx(roc_auc_score(labels[:, 0], p))
    learner = learner_of(CONFIG, model, **{**settings, "train": replace(data, targets=np.zeros((18, 1)))})
    learner.prepare()
    validate(learner, LabelledMolecules(GRAPHS[:2], np.zeros((2, 1))), range(2))
    assert math.isnan(learner.pop_metric())


def test_the_evidential_regularization_is_passed_to_the_loss() -> None:
    task = Regression("evidential")
    model = model_of(4)
    losses = []
    for cost in (0.0, 1.0, 2.0):
        learner = learner_of(replace(CONFIG, evidential_regularization=cost), model, task=task)
        losses.append(learner.compute_loss(collate_step(model, TRAIN, range(6))).item())
    assert losses[1] > losses[0]
    assert losses[2] - losses[1] == pytest.approx(losses[1] - losses[0], rel=1e-4)


class TwoRanks:
    """Two ranks that exchange values, the first in this thread and the second in another."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.barrier, self.shared = threading.Barrier(2, timeout=60), {}
        monkeypatch.setattr(distributed, "world_size", lambda: 2)
        monkeypatch.setattr(distributed, "all_reduce", self.all_reduce)
        monkeypatch.setattr(distributed, "broadcast", self.broadcast)
        monkeypatch.setattr(distributed, "all_gather", self.all_gather)
        self.local = threading.local()

    def all_gather(self, value: Any) -> list[Any]:
        self.shared[self.local.rank] = value
        self.barrier.wait()
        both = [self.shared[0], self.shared[1]]
        self.barrier.wait()
        return both

    def all_reduce(self, tensors: Iterable[Tensor]) -> None:
        mine = list(tensors)
        for x, a, b in zip(mine, *self.all_gather([x.clone() for x in mine]), strict=True):
            x.copy_(a + b)

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        mine = list(tensors)
        for x, a in zip(mine, self.all_gather([x.clone() for x in mine])[0], strict=True):
            x.copy_(a)

    def run(self, of_rank: Callable[[int], Any]) -> list[Any]:
        found: list[Any] = [None, None]

        def one(rank: int) -> None:
            self.local.rank = rank
            try:
                found[rank] = of_rank(rank)
            except BaseException:
                self.barrier.abort()
                raise

        other = threading.Thread(target=one, args=(1,))
        other.start()
        one(0)
        other.join()
        return found


@pytest.mark.parametrize("with_auxiliary", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradients_of_two_ranks_sum_to_that_of_the_whole_batch(
    monkeypatch: pytest.MonkeyPatch, with_auxiliary: bool, weighted: bool
) -> None:
    # Small weights: only their ratios matter.
    data = replace(WITH_AUXILIARY, weights=np.linspace(0.02, 0.2, 18) if weighted else None)
    data = replace(data, targets=np.where(np.arange(18)[:, None] == 2, np.nan, data.targets))

    def gradients(learner: Learner, rows: Sequence[int]) -> list[Tensor]:
        model = learner.model
        learner.prepare()
        learner.backward(collate_step(model, data, rows))
        learner.average.update()
        validate(learner, data, rows)
        auxiliary = (
            [] if learner.auxiliary_objective is None else [p.grad for p in learner.auxiliary_objective.parameters()]
        )
        values = [learner.train_losses.pop(), learner.val_losses.pop(), learner.pop_metric()]
        return [*(p.grad for p in model.parameters()), *auxiliary, torch.tensor(values)]

    def of(seed: int) -> Learner:
        model = model_of(seed=seed)
        auxiliary_objective = build_auxiliary_objective(model) if with_auxiliary else None
        if auxiliary_objective is not None and seed:
            auxiliary_objective.head.weight.data.zero_()
        return learner_of(CONFIG, model, auxiliary_objective=auxiliary_objective, train=data)

    wanted = gradients(of(0), range(7))
    two = TwoRanks(monkeypatch)
    # The second starts with other weights and gets those of the first; it has fewer rows, and one without a label.
    learners = [of(0), of(1)]
    for found in two.run(lambda rank: gradients(learners[rank], [range(3, 7), range(3)][rank])):
        for a, b in zip(found, wanted, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_bounds_are_labels_on_each_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    targets, bounds = TRAIN.targets.copy(), np.full((18, 1, 2), np.nan)
    bounds[[0, 2, 5], 0, 0], bounds[[3, 6], 0, 1] = targets[[0, 2, 5], 0] + 9, targets[[3, 6], 0] + 9
    targets[[0, 2, 3, 5, 6]] = np.nan
    data = replace(TRAIN, targets=targets, bounds=bounds)

    def losses(learner: Learner, rows: Sequence[int]) -> tuple[float, float]:
        learner.prepare()
        validate(learner, data, rows)
        return learner.compute_loss(collate_step(learner.model, data, rows)).item(), learner.val_losses.pop()

    def of() -> Learner:
        return learner_of(CONFIG, model_of().eval(), task=Regression("bounded-mse"), train=data)

    whole, validated = losses(of(), range(7))
    assert whole == pytest.approx(validated, rel=1e-5)
    learners = [of(), of()]
    two = TwoRanks(monkeypatch).run(lambda rank: losses(learners[rank], [range(3, 7), range(3)][rank]))
    assert sum(part for part, _ in two) == pytest.approx(whole, rel=1e-5)
    assert [part for _, part in two] == pytest.approx([validated] * 2, rel=1e-5)


def test_two_ranks_without_labels_have_zero_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    data = replace(TRAIN, targets=np.full((18, 1), np.nan))

    def one(rank: int) -> float:
        learner = learner_of(CONFIG, train=TRAIN)
        learner.prepare()
        loss = learner.backward(collate_step(learner.model, data, range(rank, rank + 2)))
        assert math.isnan(learner.train_losses.pop())
        return loss.item()

    assert TwoRanks(monkeypatch).run(one) == [0.0, 0.0]


def test_auxiliary_losses_are_averaged_by_molecules_and_not_by_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks weight an auxiliary loss by their share of molecules, however many labels those have."""

    class Mean(AuxiliaryObjective):
        def forward(self, model: Any, batch: Any, auxiliary_targets: Tensor | None) -> tuple[Tensor, Tensor]:  # noqa: ARG002
            return model(batch), batch.targets.new_tensor(float(len(batch)))

    data = replace(TRAIN, targets=np.full((18, 1), np.nan))

    def one(rank: int) -> float:
        model = model_of()
        learner = learner_of(CONFIG, model, auxiliary_objective=Mean(), train=TRAIN)
        learner.prepare()
        rows = [range(1), range(1, 4)][rank]
        return learner.compute_loss(collate_step(model, data, rows)).item()

    assert TwoRanks(monkeypatch).run(one) == pytest.approx([1 * 1 / 4, 3 * 3 / 4])
