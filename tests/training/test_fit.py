"""Fitting: the best weights, reproducibility, and labels without a gradient."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from molattn.chem import molecule_graph
from molattn.data.store.batches import Batch, BucketBatchSampler, batches_by_size
from molattn.errors import InputError
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.losses import losses_of
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules, StepInputs, collate_rows, collate_step
from molattn.training.early_stopping import FitResult
from molattn.training.fit import fit
from molattn.training.initialization import initialize_model
from molattn.training.learner import Learner
from molattn.training.run_config import RunConfig
from tests.gpus import refuse_gpus
from tests.molecules import esol
from tests.predictions import predict_molecules

SMILES, VALUES = esol(60)
GRAPHS = [molecule_graph(s) for s in SMILES]
TARGETS = np.array(VALUES)[:, None]
SMALL = GraphModelConfig(hidden_dim=16, num_layers=2, num_heads=4, edge_dim=4)
THREE = Multiclass(classes=(("low", "middle", "high"),))
TRAIN, VAL = LabelledMolecules(GRAPHS[:40], TARGETS[:40]), LabelledMolecules(GRAPHS[40:], TARGETS[40:])
SCALER = TargetScaler.fit(TRAIN.targets)


def _fit(
    train: LabelledMolecules = TRAIN, val: LabelledMolecules = VAL, **settings: object
) -> tuple[GraphModel, FitResult]:
    config = TrainingConfig(**{"epochs": 4, "batch_size": 8, "accelerator": "cpu", **settings})
    torch.manual_seed(config.seed)
    model = GraphModel(SMALL, num_outputs=train.targets.shape[1])
    return model, fit(model, train, val, TargetScaler.fit(train.targets), config)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    (a, fit_a), (b, fit_b), (c, _) = _fit(seed=3), _fit(seed=3), _fit(seed=4)
    assert fit_a == fit_b
    assert all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))
    assert not all(torch.equal(x, y) for x, y in zip(a.state_dict().values(), c.state_dict().values(), strict=True))


def test_the_callers_random_state_is_preserved(monkeypatch: pytest.MonkeyPatch) -> None:
    model, scaler = GraphModel(SMALL), TargetScaler.fit(TRAIN.targets)
    torch.manual_seed(11)
    before = torch.get_rng_state()
    refuse_gpus(monkeypatch)
    initialize_model(RunConfig(model=SMALL, training=TrainingConfig(base="none")), 1, False)
    fit(model, TRAIN, VAL, scaler, TrainingConfig(epochs=1, accelerator="cpu"))
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_training_needs_a_molecule_of_each_kind() -> None:
    none = LabelledMolecules([], TARGETS[:0])
    for kind, train, val in (("training", none, VAL), ("validation", TRAIN, none)):
        with pytest.raises(InputError, match=f"there is no {kind} molecule: give one or more"):
            fit(GraphModel(SMALL), train, val, SCALER, TrainingConfig(accelerator="cpu"))
    for kind, train, val in (
        ("training", replace(TRAIN, weights=np.zeros(len(TRAIN))), VAL),
        ("validation", TRAIN, replace(VAL, weights=np.zeros(len(VAL)))),
    ):
        with pytest.raises(InputError, match=rf"the weights of the \d+ {kind} molecules are all 0: give some"):
            fit(GraphModel(SMALL), train, val, SCALER, TrainingConfig(accelerator="cpu"))


@pytest.mark.parametrize("wrong", [{"mean": (np.inf,)}, {"std": (np.inf,)}, {"mean": (np.nan,)}])
def test_targets_without_a_finite_mean_and_standard_deviation_are_an_error(wrong: dict[str, tuple[float]]) -> None:
    scaler = replace(SCALER, **wrong)
    with pytest.raises(InputError, match="the targets are too large: their mean or standard deviation"):
        fit(GraphModel(SMALL), TRAIN, VAL, scaler, TrainingConfig(epochs=1, accelerator="cpu"))


def test_the_final_weights_are_those_of_the_best_epoch() -> None:
    # A rate that is far too high makes the error go up and down.
    model, fitted = _fit(epochs=12, learning_rate=0.03, ema=0.0)
    losses = [r.val_loss for r in fitted.history]
    assert fitted.best_epoch == int(np.argmin(losses)) + 1 < len(losses)
    predicted = predict_molecules(model, TargetScaler.fit(TRAIN.targets), VAL.molecules)
    rmse = math.sqrt(np.mean((predicted - VAL.targets) ** 2))
    assert rmse == pytest.approx(fitted.history[fitted.best_epoch - 1].val_metric, rel=1e-5)


def test_training_stops_without_improvement() -> None:
    _, fitted = _fit(epochs=50, learning_rate=0.03, ema=0.0, patience=3)
    assert len(fitted.history) == fitted.best_epoch + 3 < 50
    # Up to there it equals a training that continues.
    _, longer = _fit(epochs=50, learning_rate=0.03, ema=0.0, patience=6)
    assert longer.history[: len(fitted.history)] == fitted.history != longer.history


def test_training_lowers_the_error() -> None:
    _, fitted = _fit(epochs=30, ema=0.5, learning_rate=3e-3)
    assert fitted.history[-1].train_loss < 0.3 * fitted.history[0].train_loss


def test_a_constant_target_is_learned() -> None:
    seven = np.full((40, 1), 7.0)
    model, _ = _fit(LabelledMolecules(GRAPHS[:40], seven), LabelledMolecules(GRAPHS[40:], seven[:20]), epochs=5)
    predicted = predict_molecules(model, TargetScaler.fit(seven), GRAPHS[40:])
    assert np.abs(predicted - 7).max() < 2


def test_one_molecule_is_enough() -> None:
    _fit(LabelledMolecules(GRAPHS[:1], TARGETS[:1]), LabelledMolecules(GRAPHS[1:2], TARGETS[1:2]), epochs=2)


def test_training_that_diverges_is_an_error() -> None:
    with pytest.raises(InputError, match="no finite validation loss"):
        _fit(learning_rate=1e30, grad_clip=0.0, warmup=0.0, epochs=2, ema=0.0)


@pytest.mark.parametrize(
    "task",
    [
        *map(Regression, losses_of("regression")),
        Binary(),
        Multiclass(classes=(("a", "b"), ("a", "b", "c"))),
    ],
    ids=lambda task: task.loss,
)
def test_missing_labels_have_exactly_zero_gradient(task: Task) -> None:
    targets = np.column_stack([(TARGETS[:8, 0] > -2).astype(float), np.full(8, np.nan)])
    targets[3] = np.nan
    data = LabelledMolecules(GRAPHS[:8], targets)
    owners = np.array(task.target_of_output(2))
    torch.manual_seed(0)
    model = GraphModel(SMALL, num_outputs=len(owners)).eval()
    training = Learner(model, data, TargetScaler((0.0, 0.0), (1.0, 1.0)), TrainingConfig(), task)
    training.compute_loss(StepInputs(collate_rows(model, data, range(8)), None, None, 8)).backward()
    gradient = model.head.weight.grad
    assert gradient is not None
    assert gradient[owners == 0].any()
    assert not gradient[owners == 1].any()
    with_all = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    # The row without a label has no effect.
    step = StepInputs(collate_rows(model, data, [0, 1, 2, 4, 5, 6, 7]), None, None, 7)
    training.compute_loss(step).backward()
    without = [p.grad for p in model.parameters() if p.grad is not None]
    for a, b in zip(with_all, without, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_a_row_of_weight_two_counts_as_if_it_were_there_twice() -> None:
    twice = [0, 0, 1, 2, 2, 3]
    one = LabelledMolecules([GRAPHS[i] for i in twice], TARGETS[twice])
    two = LabelledMolecules(GRAPHS[:4], TARGETS[:4], np.array([2.0, 1.0, 2.0, 1.0]))
    scaler, gradients = TargetScaler.fit(TARGETS[:8]), []
    torch.manual_seed(0)
    model = GraphModel(SMALL).eval()
    for data in (one, two):
        model.zero_grad()
        training = Learner(model, data, scaler, TrainingConfig())
        training.compute_loss(collate_step(model, data, range(len(data)))).backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_weights_of_one_change_nothing_and_weights_of_zero_are_allowed() -> None:
    ones = LabelledMolecules(TRAIN.molecules, TRAIN.targets, np.ones(40))
    (a, fit_a), (b, fit_b) = _fit(epochs=2), _fit(ones, epochs=2)
    assert [r.train_loss for r in fit_a.history] == pytest.approx([r.train_loss for r in fit_b.history])
    del a, b
    half = np.repeat([0.0, 1.0], 20)
    _fit(LabelledMolecules(TRAIN.molecules, TRAIN.targets, half), epochs=1, batch_size=4)


@pytest.mark.parametrize("val", [0.0, 1.0, np.nan])
def test_a_validation_split_of_one_class_still_chooses_an_epoch(val: float) -> None:
    labels = (np.median(TARGETS) < TARGETS).astype(float)
    one = np.full((20, 1), val)
    if np.isnan(val):
        one[0] = 1.0
    task = Binary()
    torch.manual_seed(0)
    model = GraphModel(SMALL)
    fitted = fit(
        model,
        LabelledMolecules(GRAPHS[:40], labels[:40]),
        LabelledMolecules(GRAPHS[40:], one),
        task.fit_scaler(labels[:40]),
        TrainingConfig(epochs=2, accelerator="cpu"),
        task=task,
    )
    assert all(math.isnan(r.val_metric) and r.metric == "auroc" for r in fitted.history)
    assert fitted.best_epoch == int(np.argmin([r.val_loss for r in fitted.history])) + 1


@pytest.mark.parametrize("task", [Regression("mae"), Regression("huber"), Regression("mve"), Binary(), THREE])
def test_training_lowers_every_loss(task: Task) -> None:
    ranks = np.argsort(np.argsort(TARGETS[:, 0]))[:, None]
    labels = {"binary": ranks // 30, "multiclass": ranks // 20}.get(task.kind, TARGETS).astype(float)
    torch.manual_seed(0)
    model = GraphModel(SMALL, num_outputs=len(task.target_of_output(1)))
    data = LabelledMolecules(GRAPHS, labels)
    config = TrainingConfig(epochs=25, batch_size=8, ema=0.5, learning_rate=3e-3, accelerator="cpu")
    fitted = fit(model, data, data, task.fit_scaler(labels), config, task=task)
    assert fitted.history[-1].val_loss < 0.8 * fitted.history[0].val_loss
    assert fitted.history[-1].metric == task.metrics[0]


def test_a_batch_without_labels_keeps_the_weights_finite() -> None:
    targets = TARGETS[:40].copy()
    targets[:20] = np.nan
    model, _ = _fit(LabelledMolecules(GRAPHS[:40], targets), epochs=2, batch_size=4)
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_validation_targets_do_not_change_the_training() -> None:
    # The scaler is an argument; other validation targets change neither it nor a single step.
    other = LabelledMolecules(VAL.molecules, VAL.targets + 100)
    (a, fit_a), (b, fit_b) = _fit(ema=0.0, epochs=2), _fit(val=other, ema=0.0, epochs=2)
    assert [r.train_loss for r in fit_a.history] == [r.train_loss for r in fit_b.history]
    del a, b


def test_one_and_two_threads_agree_after_one_step() -> None:
    states = []
    for threads in (1, 2):
        model, _ = _fit(epochs=1, batch_size=64, ema=0.0, threads=threads)
        states.append(torch.cat([p.flatten() for p in model.parameters()]))
    torch.testing.assert_close(*states, rtol=1e-6, atol=1e-6)


def test_every_epoch_has_every_molecule_once_in_batches_of_similar_size() -> None:
    sizes = [g.num_atoms for g in GRAPHS]
    sampler = BucketBatchSampler(sizes, batch_size=8, seed=0)
    epochs = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert sorted(i for b in batches for i in b) == list(range(60))
        assert len(batches) == len(sampler)
        assert {len(b) for b in batches} <= {8, 4}
        epochs.append(batches)
    assert epochs[0] != epochs[1] != epochs[2]
    sampler.set_epoch(0)
    assert list(sampler) == epochs[0]
    spread = [max(sizes[i] for i in b) - min(sizes[i] for i in b) for b in epochs[0]]
    assert np.mean(spread) < 0.5 * (max(sizes) - min(sizes))


def test_no_small_molecule_is_padded_to_the_size_of_a_huge_one() -> None:
    sizes = [20] * 30 + [1000, 300, 900, 310, 305]
    sampler = BucketBatchSampler(sizes, batch_size=8, seed=0, max_pairs=300_000)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert sorted(i for b in batches for i in b) == list(range(35))
        assert len(batches) == len(sampler) == 4 + 3
        assert sorted(b for b in batches if max(b) >= 30) == [[30], [31, 34, 33], [32]]
        assert all(len(b) in (8, 6) for b in batches if max(b) < 30)


def test_epochs_of_a_fit_are_shuffled_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []

    def spy(model: GraphModel, data: LabelledMolecules, rows: list[int]) -> Batch:
        if data is TRAIN:
            seen.append(tuple(rows))
        return collate_rows(model, data, rows)

    monkeypatch.setattr("molattn.training.dataset.collate_rows", spy)
    _fit(epochs=2)
    assert len(seen) == 10
    assert set(seen[:5]) != set(seen[5:])


def test_prediction_batches_hold_everything_once() -> None:
    batches = batches_by_size([3, 1, 2, 5, 4], 2)
    assert [b.tolist() for b in batches] == [[1, 2], [0, 4], [3]]
