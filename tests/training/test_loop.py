"""The loop around the steps: what it leaves as it was, when it stops, who is told what, and which rank does what."""

import gc
import signal
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning.pytorch as pl
import numpy as np
import pytest
import torch

from molattn.data.batches import SizeBuckets
from molattn.errors import InputError, UsageError
from molattn.models.graph_model import GraphModel
from molattn.models.tasks import Regression
from molattn.training import fit as room
from molattn.training import ranks
from molattn.training.fit import EpochRecord, Fitted, _EndAtOnce, _Epoch, _KeepBest, _SideBySide, _trainer, fit
from molattn.training.labelled import Labelled
from tests.training.test_learner import CONFIG, GRAPHS, SCALER, SMALL, TARGETS, TRAIN, VAL, model_of

ONE = replace(CONFIG, epochs=1)


@pytest.fixture(autouse=True)
def _no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for garbage in all that pytest holds takes longer than the trainings here."""
    monkeypatch.setattr("gc.collect", lambda: 0)


TRAINER, MODULE = Mock(spec=pl.Trainer), Mock(spec=pl.LightningModule)


def fitted(config: Any = ONE, seed: int | None = None, **more: Any) -> Fitted:
    model = model_of()
    if seed is not None:
        torch.manual_seed(seed)
    return fit(model, TRAIN, VAL, SCALER, config, **more)


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_set_for_a_training_is_as_it_was_behind_it(fails: bool) -> None:
    filling: Any = torch.utils.deterministic
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    seen: list[Any] = []

    def epoch(_: EpochRecord) -> None:
        seen.append((torch.get_num_threads(), filling.fill_uninitialized_memory, gc.get_freeze_count() > 0))
        seen.append(torch.are_deterministic_algorithms_enabled())
        if fails:
            raise KeyError("somebody else's")

    try:
        if fails:
            with pytest.raises(KeyError):
                fitted(replace(ONE, threads=2), seed=5, on_epoch=epoch)
        else:
            fitted(replace(ONE, threads=2), seed=5, on_epoch=epoch)
        assert seen == [(2, False, True), True]
        assert (torch.get_num_threads(), filling.fill_uninitialized_memory) == (1, True)
        assert gc.get_freeze_count() == 0
        assert not torch.are_deterministic_algorithms_enabled()
        assert torch.equal(before, torch.get_rng_state())
    finally:
        torch.set_num_threads(threads)


def test_nothing_is_said_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # Of many cores Lightning would have some for workers.
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fitted()
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")
    assert not [str(w.message) for w in told]


@pytest.mark.parametrize("patience", [1, 3])
def test_a_loss_that_stays_is_no_better_and_ends_the_training(patience: int) -> None:
    # Nothing is learned: every epoch is as good as the first.
    told = fitted(replace(CONFIG, learning_rate=0.0, epochs=6, patience=patience))
    assert [r.best for r in told.history] == [True] + [False] * patience
    assert told.best_epoch == 0


def test_the_metric_is_the_tasks_first_where_none_is_asked_for() -> None:
    assert fitted().history[0].metric == Regression.metrics[0]
    told = fitted(metric="mae").history[0]
    model = model_of()
    fit(model, TRAIN, VAL, SCALER, ONE)
    with torch.no_grad():
        wrong = SCALER.unscale(model(model.collate(VAL.molecules)).numpy()) - VAL.targets
    assert (told.metric, told.val_metric) == ("mae", pytest.approx(np.abs(wrong).mean(), rel=1e-4))


def test_without_a_label_to_validate_on_there_is_no_model() -> None:
    with pytest.raises(InputError, match="no finite validation loss"):
        fit(model_of(), TRAIN, replace(VAL, targets=np.full((6, 1), np.nan)), SCALER, ONE)


def test_a_training_without_a_finite_loss_is_given_up_after_the_patience() -> None:
    told: list[EpochRecord] = []
    unknown, config = replace(VAL, targets=np.full((6, 1), np.nan)), replace(CONFIG, epochs=9, patience=3)
    with pytest.raises(InputError, match="no finite validation loss"):
        fit(model_of(), TRAIN, unknown, SCALER, config, told.append)
    assert len(told) == 3


def test_chance_comes_from_the_seed_alone_and_the_weights_are_free_behind_it() -> None:
    dropping = replace(SMALL, dropout=0.5)
    histories = []
    for outside, seed in ((1, 0), (2, 0), (2, 1)):
        torch.manual_seed(0)
        model = GraphModel(dropping)
        torch.manual_seed(outside)
        histories.append(fit(model, TRAIN, VAL, SCALER, replace(CONFIG, seed=seed)).history)
        weights = list(model.parameters())
        assert len({w.untyped_storage().data_ptr() for w in weights}) == len(weights)
        assert all(w.grad is None for w in weights)
    assert histories[0] == histories[1] != histories[2]


def test_what_is_kept_of_the_best_epoch_can_be_told_and_known_again() -> None:
    watch, other = (_KeepBest(3, lambda _: None, {"w": torch.zeros(2)}) for _ in range(2))
    watch.history = [EpochRecord(0, 0.1, 1.0, 2.0, 3.0, True, "mae"), EpochRecord(1, 0.1, 1.0, 2.5, 3.0, False)]
    watch.best, watch.best_epoch, watch.state = 2.0, 0, {"w": torch.ones(2)}
    other.restore(watch.to_dict(), watch.state)
    assert vars(other)["history"] == watch.history
    assert (other.best, other.best_epoch, other.state) == (2.0, 0, watch.state)


@pytest.mark.parametrize(
    ("accelerator", "there", "pinned"),
    [("auto", True, True), ("gpu", True, True), ("cuda", True, True), ("cpu", True, False), ("auto", False, False)],
)
def test_memory_is_pinned_where_a_gpu_reads_it(
    monkeypatch: pytest.MonkeyPatch, accelerator: str, there: bool, pinned: bool
) -> None:
    asked: list[bool] = []

    def loader(*_: Any, pin_memory: bool, **__: Any) -> Any:
        asked.append(pin_memory)
        if len(asked) == 2:
            raise InterruptedError
        return None

    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(room, "DataLoader", loader)
    with pytest.raises(InterruptedError):
        fitted(replace(ONE, accelerator=accelerator))
    assert asked == [pinned, pinned]


def test_each_rank_validates_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[list[int]] = []

    def loader(*_: Any, batch_sampler: Any, **__: Any) -> Any:
        if isinstance(batch_sampler, list):
            shares.append([i for rows in batch_sampler for i in rows])
            assert all(batch_sampler), "an empty batch"
            raise InterruptedError
        assert (batch_sampler.rank, batch_sampler.ranks) == (ranks.rank(), 4)

    monkeypatch.setattr(room, "DataLoader", loader)
    monkeypatch.setattr(ranks, "size", lambda: 4)
    few = Labelled(GRAPHS[18:21], TARGETS[18:21])
    for rank in range(4):
        monkeypatch.setattr(ranks, "rank", lambda rank=rank: rank)
        with pytest.raises(InterruptedError):
            fit(model_of(), TRAIN, few, SCALER, ONE)
    assert sorted(i for share in shares for i in share) == [0, 1, 2]
    assert max(map(len, shares)) == 1


@pytest.mark.parametrize(("devices", "nodes"), [("auto", 2), ("2", 2), ("4", 1)])
def test_several_ranks_are_lightnings_ddp_over_machines_and_their_devices(
    monkeypatch: pytest.MonkeyPatch, devices: str, nodes: int
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(pl, "Trainer", lambda **settings: given.update(settings) or TRAINER)
    monkeypatch.setattr(ranks, "size", lambda: 4)
    monkeypatch.setattr(ranks, "local_size", lambda: 2)
    _trainer(replace(CONFIG, devices=devices), [])
    assert (given["devices"], given["num_nodes"]) == (4 // nodes, nodes)
    assert isinstance(given["strategy"], _SideBySide)
    assert [type(callback) for callback in given["callbacks"]] == [_EndAtOnce]
    assert given["strategy"].configure_ddp() is None


def test_devices_by_place_are_lightnings_own_and_more_than_one_needs_more_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(pl, "Trainer", lambda **settings: given.update(settings) or TRAINER)
    for said, devices in (("auto", 1), ("1", 1), ("3,", "3,")):
        _trainer(replace(CONFIG, devices=said), [])
        assert given["devices"] == devices and "strategy" not in given
    for config in (replace(CONFIG, devices="2"), replace(CONFIG, num_nodes=2), replace(CONFIG, devices="0,1")):
        with pytest.raises(UsageError, match="several devices train within"):
            _trainer(config, [])


def test_a_device_that_is_not_there_is_said() -> None:
    with pytest.raises(UsageError, match="training.accelerator or training.devices: "):
        fitted(replace(CONFIG, accelerator="abacus"))


def test_the_first_rank_goes_on_with_its_random_numbers_and_each_other_has_its_own() -> None:
    def drawn(rank: int, epoch: int, seed: int = 3) -> float:
        torch.manual_seed(1)
        sampler = SizeBuckets([3, 4, 5, 6], 2, seed, rank=rank, ranks=3)
        callback = _Epoch(sampler)
        callback.on_train_epoch_start(Mock(spec=pl.Trainer, current_epoch=epoch), MODULE)
        assert sampler.epoch == epoch
        return torch.rand(1).item()

    torch.manual_seed(1)
    untouched = torch.rand(1).item()
    assert [drawn(0, epoch) for epoch in range(3)] == [untouched] * 3
    others = [drawn(rank, epoch, seed) for rank in (1, 2) for epoch in range(3) for seed in (3, 4)]
    assert len({untouched, *others}) == 13
    assert others == [drawn(rank, epoch, seed) for rank in (1, 2) for epoch in range(3) for seed in (3, 4)]


def test_a_rank_that_is_asked_to_end_ends_at_once() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        _EndAtOnce().on_train_start(TRAINER, MODULE)
        with pytest.raises(SystemExit) as ended:
            signal.raise_signal(signal.SIGTERM)
        assert ended.value.code == 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)
