"""The training loop: settings that it restores, early stopping, callbacks, devices and ranks."""

import gc
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from molattn.data.store.batches import BucketBatchSampler
from molattn.errors import InputError, UsageError
from molattn.models.graph_model import GraphModel
from molattn.models.tasks import Regression
from molattn.training import distributed
from molattn.training import fit as fit_module
from molattn.training.dataset import LabelledMolecules, collate_step
from molattn.training.distributed import select_device
from molattn.training.fit import EarlyStopping, EpochRecord, FitResult, _eval_mode, _seed_epoch, _to_device, fit
from tests.training.test_learner import CONFIG, GRAPHS, SCALER, SMALL, TARGETS, TRAIN, VAL, model_of

ONE = replace(CONFIG, epochs=1)


@pytest.fixture(autouse=True)
def _no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Garbage collection over all objects of pytest takes longer than the trainings here."""
    monkeypatch.setattr("gc.collect", lambda: 0)


def fitted(config: Any = ONE, seed: int | None = None, **more: Any) -> FitResult:
    model = model_of()
    if seed is not None:
        torch.manual_seed(seed)
    return fit(model, TRAIN, VAL, SCALER, config, **more)


@pytest.mark.parametrize("fails", [False, True])
def test_global_settings_are_restored_after_training(fails: bool) -> None:
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
            raise KeyError("from the callback")

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


def test_regression_does_not_import_slow_packages(tmp_path: Path) -> None:
    """Torch's compiler, which torch's optimizers import, and scikit-learn with pandas."""
    code = (
        "import sys, molattn; molattn.train('esol', output_dir=sys.argv[1], epochs=2, accelerator='cpu', quiet=True); "
        "print({'torch._dynamo', 'sklearn', 'pandas', 'torch_geometric'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "run"], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_fit_prints_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        fitted()
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")
    assert not [str(w.message) for w in recorded]


@pytest.mark.parametrize("tracking_metric", ["val_loss", "mae", "spearman"])
@pytest.mark.parametrize("patience", [1, 3])
def test_a_constant_value_stops_the_training(patience: int, tracking_metric: str) -> None:
    # With a learning rate of 0 every epoch has the same loss and metrics.
    config = replace(CONFIG, learning_rate=0.0, epochs=6, patience=patience)
    recorded = fitted(config, tracking_metric=tracking_metric)
    assert [r.best for r in recorded.history] == [True] + [False] * patience
    assert recorded.best_epoch == 1
    assert {r.tracking_metric for r in recorded.history} == {tracking_metric}


def test_the_default_metric_is_the_first_of_the_task() -> None:
    assert fitted().history[0].metric == Regression.metrics[0]
    recorded = fitted(metric="mae").history[0]
    model = model_of()
    fit(model, TRAIN, VAL, SCALER, ONE)
    with torch.no_grad():
        wrong = SCALER.unscale(model(model.collate(VAL.molecules)).numpy()) - VAL.targets
    assert (recorded.metric, recorded.val_metric) == ("mae", pytest.approx(np.abs(wrong).mean(), rel=1e-4))


def test_validation_without_labels_is_an_error() -> None:
    with pytest.raises(InputError, match="no finite validation loss"):
        fit(model_of(), TRAIN, replace(VAL, targets=np.full((6, 1), np.nan)), SCALER, ONE)


def test_a_training_without_a_finite_loss_stops_after_the_patience() -> None:
    recorded: list[EpochRecord] = []
    unknown, config = replace(VAL, targets=np.full((6, 1), np.nan)), replace(CONFIG, epochs=9, patience=3)
    with pytest.raises(InputError, match="no finite validation loss"):
        fit(model_of(), TRAIN, unknown, SCALER, config, recorded.append)
    assert len(recorded) == 3


def test_randomness_depends_on_the_seed_only_and_the_weights_are_separate_afterwards() -> None:
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


def test_the_state_of_early_stopping_can_be_restored() -> None:
    monitor, other = (EarlyStopping(3, lambda _: None, {"w": torch.zeros(2)}) for _ in range(2))
    first = EpochRecord(1, 0.1, 1.0, 2.0, 3.0, True, "mae", best_value=2.0)
    monitor.history = [first, EpochRecord(2, 0.1, 1.0, 2.5, 3.0, False, "mae", best_value=2.0)]
    monitor.best, monitor.best_epoch, monitor.state = 2.0, 1, {"w": torch.ones(2)}
    other.restore(monitor.to_dict(), monitor.state)
    assert vars(other)["history"] == monitor.history
    assert (other.best, other.best_epoch, other.state) == (2.0, 1, monitor.state)


def test_modes_of_submodules_are_restored_after_evaluation() -> None:
    model = model_of()
    model.head.eval()
    with _eval_mode(model):
        assert not any(part.training for part in model.modules())
    assert [part for part in model.modules() if not part.training] == [model.head]


def gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


@pytest.mark.parametrize(("accelerator", "count", "pinned"), [("auto", 1, True), ("cpu", 1, False), ("auto", 0, False)])
def test_memory_is_pinned_for_a_gpu(
    monkeypatch: pytest.MonkeyPatch, accelerator: str, count: int, pinned: bool
) -> None:
    requested: list[bool] = []

    def loader(*_: Any, pin_memory: bool, **__: Any) -> Any:
        requested.append(pin_memory)
        if len(requested) == 2:
            raise InterruptedError
        return None

    gpus(monkeypatch, count)
    monkeypatch.setattr(fit_module, "DataLoader", loader)
    with pytest.raises(InterruptedError):
        fitted(replace(ONE, accelerator=accelerator))
    assert requested == [pinned, pinned]


def test_a_step_is_moved_to_the_device() -> None:
    data = replace(TRAIN, weights=np.ones(18), auxiliary_targets=np.ones((18, 2)), bounds=np.ones((18, 1, 2)))
    step = collate_step(model_of(), data, range(3))
    assert _to_device(torch.device("cpu"), step) is step
    batch, rows, auxiliary_targets, num_molecules, bounds = _to_device(torch.device("meta"), step)
    assert rows is not None and auxiliary_targets is not None and batch.targets is not None and bounds is not None
    assert num_molecules == 3 and {x.device.type for x in (rows, auxiliary_targets, batch.targets, bounds)} == {"meta"}
    assert _to_device(torch.device("meta"), collate_step(model_of(), TRAIN, range(3)))[1:] == (None, None, 3, None)


def test_deterministic_cublas_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    fitted()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"  # one of the two that torch's documentation names
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    fitted()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"


def test_validation_molecules_are_divided_among_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[list[int]] = []

    def loader(*_: Any, batch_sampler: Any, **__: Any) -> Any:
        if isinstance(batch_sampler, list):
            shares.append([i for rows in batch_sampler for i in rows])
            assert all(batch_sampler), "an empty batch"
            raise InterruptedError
        assert (batch_sampler.rank, batch_sampler.world_size) == (distributed.rank(), 4)

    monkeypatch.setattr(fit_module, "DataLoader", loader)
    monkeypatch.setattr(distributed, "world_size", lambda: 4)
    few = LabelledMolecules(GRAPHS[18:21], TARGETS[18:21])
    for rank in range(4):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        with pytest.raises(InterruptedError):
            fit(model_of(), TRAIN, few, SCALER, ONE)
    assert sorted(i for share in shares for i in share) == [0, 1, 2]
    assert max(map(len, shares)) == 1


@pytest.mark.parametrize(
    ("accelerator", "count", "devices", "wanted"),
    [
        ("auto", 0, "auto", "cpu"),
        ("auto", 2, "auto", "cuda:0"),
        ("cpu", 2, "auto", "cpu"),
        ("gpu", 2, "1", "cuda:0"),
        ("cuda", 2, "1,", "cuda:1"),
    ],
)
def test_the_device_of_one_process(
    monkeypatch: pytest.MonkeyPatch, accelerator: str, count: int, devices: str, wanted: str
) -> None:
    gpus(monkeypatch, count)
    assert select_device(replace(CONFIG, accelerator=accelerator, devices=devices)) == torch.device(wanted)


@pytest.mark.parametrize(("devices", "wanted"), [("auto", 1), ("2", 1), ("3,2", 2)])
def test_each_rank_uses_the_gpu_of_its_local_rank(monkeypatch: pytest.MonkeyPatch, devices: str, wanted: int) -> None:
    gpus(monkeypatch, 4)
    monkeypatch.setattr(distributed, "world_size", lambda: 4)
    monkeypatch.setenv("LOCAL_RANK", "1")
    config = replace(CONFIG, accelerator="auto", devices=devices)
    assert select_device(config) == torch.device("cuda", wanted)
    assert select_device(replace(config, accelerator="cpu")) == torch.device("cpu")


@pytest.mark.parametrize(
    ("count", "changes", "message"),
    [
        (0, {"accelerator": "abacus"}, "training.accelerator is one of auto, cpu, gpu, cuda, not 'abacus'"),
        (0, {"accelerator": "gpu"}, "training.accelerator=gpu, and torch finds no GPU here"),
        (2, {"accelerator": "cuda", "devices": "2,"}, "there is no GPU 2 here, only 2"),
        (2, {"devices": "2"}, "can train on several devices"),
        (2, {"num_nodes": 2}, "can train on several devices"),
        (2, {"devices": "0,1"}, "can train on several devices"),
    ],
)
def test_a_missing_device_is_an_error(
    monkeypatch: pytest.MonkeyPatch, count: int, changes: dict[str, Any], message: str
) -> None:
    gpus(monkeypatch, count)
    with pytest.raises(UsageError, match=message):
        fitted(replace(CONFIG, **changes))


def test_each_epoch_seeds_the_random_numbers_of_all_ranks_except_rank_0() -> None:
    def drawn(rank: int, epoch: int, seed: int = 3) -> float:
        torch.manual_seed(1)
        sampler = BucketBatchSampler([3, 4, 5, 6], 2, seed, rank=rank, world_size=3)
        _seed_epoch(sampler, epoch)
        assert sampler.epoch == epoch
        return torch.rand(1).item()

    torch.manual_seed(1)
    untouched = torch.rand(1).item()
    assert [drawn(0, epoch) for epoch in range(3)] == [untouched] * 3
    others = [drawn(rank, epoch, seed) for rank in (1, 2) for epoch in range(3) for seed in (3, 4)]
    assert len({untouched, *others}) == 13
    assert others == [drawn(rank, epoch, seed) for rank in (1, 2) for epoch in range(3) for seed in (3, 4)]
