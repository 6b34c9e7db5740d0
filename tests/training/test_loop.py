"""The training loop: settings that it restores, early stopping, callbacks, devices and ranks."""

import gc
import math
import os
import subprocess
import sys
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from molattn.data.schema import ValidationError
from molattn.data.store.batches import BucketBatchSampler
from molattn.errors import InputError, UsageError
from molattn.models.graph_model import GraphModel
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Binary, Regression
from molattn.training import distributed, ensemble
from molattn.training import fit as fit_module
from molattn.training.callbacks import ReportEpochs
from molattn.training.checkpoint import CheckpointFolder
from molattn.training.checkpoint_file import load_checkpoint
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules, collate_step
from molattn.training.distributed import select_device
from molattn.training.early_stopping import EpochRecord, FitResult
from molattn.training.ensemble import FittedEnsemble, fit_ensemble
from molattn.training.fit import EarlyStopping, _eval_mode, _seed_epoch, _to_device, fit
from molattn.training.run_config import RunConfig
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

    def epoch(*_: Any) -> None:
        seen.append((torch.get_num_threads(), filling.fill_uninitialized_memory, gc.get_freeze_count() > 0))
        seen.append(torch.are_deterministic_algorithms_enabled())
        if fails:
            raise KeyError("from the callback")

    try:
        if fails:
            with pytest.raises(KeyError):
                fitted(replace(ONE, threads=2), seed=5, callbacks=[ReportEpochs(epoch)])
        else:
            fitted(replace(ONE, threads=2), seed=5, callbacks=[ReportEpochs(epoch)])
        assert seen == [(2, False, True), True]
        assert (torch.get_num_threads(), filling.fill_uninitialized_memory) == (1, True)
        assert gc.get_freeze_count() == 0
        assert not torch.are_deterministic_algorithms_enabled()
        assert torch.equal(before, torch.get_rng_state())
    finally:
        torch.set_num_threads(threads)


def test_objects_that_the_caller_has_frozen_stay_frozen() -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        fitted()
        assert gc.get_freeze_count() > 0.99 * count  # frozen objects can be deleted
    finally:
        gc.unfreeze()


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
    config = replace(CONFIG, learning_rate=0.0, epochs=6, patience=patience, tracking_metric=tracking_metric)
    recorded = fitted(config)
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
        fit(model_of(), TRAIN, unknown, SCALER, config, callbacks=[ReportEpochs(lambda r, _: recorded.append(r))])
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
    monitor, other = (EarlyStopping(3, {"w": torch.zeros(2)}) for _ in range(2))
    first = EpochRecord(1, 0.1, 1.0, 2.0, 3.0, True, "mae", best_value=2.0)
    monitor.history = [first, EpochRecord(2, 0.1, 1.0, 2.5, 3.0, False, "mae", best_value=2.0)]
    monitor.best, monitor.best_epoch, monitor.best_weights = 2.0, 1, {"w": torch.ones(2)}
    other.restore(monitor.to_dict(), monitor.best_weights)
    assert vars(other)["history"] == monitor.history
    assert (other.best, other.best_epoch, other.best_weights) == (2.0, 1, monitor.best_weights)


@pytest.mark.parametrize(
    "loss", [math.inf, -math.inf, 1, sys.float_info.max, -sys.float_info.max, int(sys.float_info.max)]
)
def test_a_loss_that_is_infinite_or_the_largest_number_can_be_restored(loss: float) -> None:
    monitor = EarlyStopping(3, {})
    monitor.restore({"history": [], "best": loss, "best_epoch": 0}, None)
    assert monitor.best == loss and type(monitor.best) is float


@pytest.mark.parametrize("loss", ["0.1", None, True, 10**400, -(10**400), int(sys.float_info.max) + 1, [1.0]])
def test_a_loss_that_is_not_a_number_of_64_bits_is_refused(loss: object) -> None:
    monitor = EarlyStopping(3, {})
    with pytest.raises(ValidationError, match=r"^early_stopping\.best is .* and must be a number$"):
        monitor.restore({"history": [], "best": loss, "best_epoch": 0}, None)


@pytest.mark.parametrize(
    ("epochs", "best_epoch", "state"),
    [
        ([1, 2], 3, {"w": torch.ones(2)}),
        ([2, 1], 1, {"w": torch.ones(2)}),
        ([1, 3], 1, {"w": torch.ones(2)}),
        ([0, 1], 1, {"w": torch.ones(2)}),
        ([1, 2], 0, {"w": torch.ones(2)}),
        ([1, 2], 1, None),
        ([1, 2], 1, {"w": torch.ones(3)}),
        ([1, 2], 1, {"v": torch.ones(2)}),
        ([1, 2], 1, {"w": torch.tensor([1.0, math.nan])}),
    ],
)
def test_a_state_of_early_stopping_that_no_training_has_is_refused(
    epochs: list[int], best_epoch: int, state: dict[str, torch.Tensor] | None
) -> None:
    history = [asdict(EpochRecord(epoch, 0.1, 1.0, 2.0, 3.0, False)) for epoch in epochs]
    monitor = EarlyStopping(3, {"w": torch.zeros(2)})
    with pytest.raises(ValidationError):
        monitor.restore({"history": history, "best": 2.0, "best_epoch": best_epoch}, state)
    assert (monitor.history, monitor.best_weights, monitor.best_epoch) == ([], None, 0)


@pytest.mark.parametrize(
    ("names", "where"),
    [
        ({"metric": "x"}, r"history\[1\]\.metric is 'x', and must be the name of a metric"),
        ({"tracking_metric": "mae"}, r"history\[1\]\.tracking_metric is 'mae', and must be 'val_loss'"),
    ],
)
def test_a_history_of_other_metrics_is_refused(names: dict[str, str], where: str) -> None:
    monitor = EarlyStopping(3, {})
    records = [EpochRecord(1, 0.1, 1.0, math.nan, 3.0, False), EpochRecord(2, 0.1, 1.0, math.nan, 3.0, False)]
    history = [asdict(records[0]), asdict(records[1]) | names]
    with pytest.raises(ValidationError, match=where):
        monitor.restore({"history": history, "best": math.nan, "best_epoch": 0}, None)


def test_a_fit_ends_with_the_averaged_weights_of_the_best_epoch_and_a_learning_rate_of_0() -> None:
    model = model_of()
    recorded = fit(model, TRAIN, VAL, SCALER, replace(CONFIG, epochs=4))
    assert not model.training
    with torch.no_grad():
        wrong = SCALER.unscale(model(model.collate(VAL.molecules)).numpy()) - VAL.targets
    best = recorded.history[recorded.best_epoch - 1]
    assert best.val_loss == min(r.val_loss for r in recorded.history)
    assert math.sqrt(np.mean(wrong**2)) == pytest.approx(best.val_metric, rel=1e-4)
    rates = [r.learning_rate for r in recorded.history]
    assert rates == sorted(rates, reverse=True) and rates[-2] > 1e-4 > 1e-9 > rates[-1] >= 0


@pytest.mark.parametrize(("epochs", "every"), [(3, 2), (1, 5), (2, 2)])
def test_the_last_epoch_is_saved_and_is_the_end(tmp_path: Path, epochs: int, every: int) -> None:
    recorded = fitted(replace(CONFIG, epochs=epochs), checkpoints=CheckpointFolder(tmp_path / "c", {}, every))
    saved = load_checkpoint(tmp_path / "c")
    assert saved is not None and len(recorded.history) == epochs
    assert (saved.state["epoch"], saved.state["finished"]) == (epochs - 1, True)


def test_an_interrupted_and_resumed_fit_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    config, dropping = replace(CONFIG, epochs=4), replace(SMALL, dropout=0.3)

    def stop(record: EpochRecord, _: int) -> None:
        if record.epoch == 3:
            raise InterruptedError

    def model(seed: int) -> GraphModel:
        torch.manual_seed(seed)
        return GraphModel(dropping)

    whole, resumed, checkpoints = model(0), model(1), tmp_path / "c"
    in_one_go = fit(whole, TRAIN, VAL, SCALER, config)
    saved = CheckpointFolder(checkpoints, {})
    with pytest.raises(InterruptedError):
        fit(model(0), TRAIN, VAL, SCALER, config, checkpoints=saved, callbacks=[ReportEpochs(stop)])
    epochs: list[int] = []
    report, saved = ReportEpochs(lambda record, _: epochs.append(record.epoch)), CheckpointFolder(checkpoints, {})
    found = fit(resumed, TRAIN, VAL, SCALER, config, checkpoints=saved, callbacks=[report])
    assert (found, epochs) == (in_one_go, [3, 4])
    assert all(torch.equal(x, resumed.state_dict()[name]) for name, x in whole.state_dict().items())


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


@pytest.mark.parametrize(("accelerator", "current"), [("auto", ["cuda:1"]), ("cpu", [])])
def test_the_gpu_of_the_training_is_the_current_one(
    monkeypatch: pytest.MonkeyPatch, accelerator: str, current: list[str]
) -> None:
    used: list[str] = []

    def stop(_: torch.device) -> None:
        raise InterruptedError

    gpus(monkeypatch, 2)
    monkeypatch.setattr(torch.cuda, "device", lambda device: used.append(str(device)))
    monkeypatch.setattr(fit_module, "DataLoader", lambda *_, **__: None)
    monkeypatch.setattr(fit_module, "preserve_random_states", stop)
    with pytest.raises(InterruptedError):
        fitted(replace(ONE, accelerator=accelerator, devices="1,"))
    assert used == current


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
        _seed_epoch(sampler, epoch, torch.device("cpu"))
        assert sampler.epoch == epoch
        return torch.rand(1).item()

    torch.manual_seed(1)
    untouched = torch.rand(1).item()
    assert [drawn(0, epoch) for epoch in range(3)] == [untouched] * 3
    others = [drawn(rank, epoch, seed) for rank in (1, 2) for epoch in range(3) for seed in (3, 4)]
    assert len({untouched, *others}) == 13
    assert others == [drawn(rank, epoch, seed) for rank in (1, 2) for epoch in range(3) for seed in (3, 4)]


def ensemble_of(
    training: TrainingConfig, task: Task | None = None, train: LabelledMolecules = TRAIN, **more: Any
) -> FittedEnsemble:
    explicit = frozenset(more.pop("explicit", ()))
    config = RunConfig(model=more.pop("model", SMALL), training=replace(training, base="none"), explicit_keys=explicit)
    scaler, val = more.pop("scaler", SCALER), more.pop("val", VAL)
    return fit_ensemble(config, task or Regression(), scaler, train, val, "", **more)


@pytest.mark.parametrize(
    ("accelerator", "count", "warned"),
    [("cpu", 0, True), ("cpu", 1, True), ("auto", 0, True), ("auto", 1, False), ("gpu", 1, False), ("gpu", 0, False)],
)
def test_a_slow_model_on_the_cpu_is_reported_once_before_the_first_member(
    monkeypatch: pytest.MonkeyPatch, accelerator: str, count: int, warned: bool
) -> None:
    gpus(monkeypatch, count)
    monkeypatch.setattr(GraphModel, "slow_reason", lambda _: "there is no compiler")
    monkeypatch.setattr(ensemble, "initialize_model", lambda *_: model_of())
    monkeypatch.setattr(ensemble, "fit", lambda *_, **__: FitResult([], 0))
    events: list[Any] = []
    ensemble_of(
        replace(ONE, accelerator=accelerator, ensemble_size=3),
        on_member=lambda i, _: events.append(i),
        warn=events.append,
    )
    message = "training runs 2 to 4 times slower than it could: there is no compiler; see molattn doctor"
    assert events == [message] * warned + [0, 1, 2]


@pytest.mark.parametrize("explicit", [True, False])
def test_missing_auxiliary_targets_are_reported_if_they_were_requested(explicit: bool) -> None:
    same, messages = replace(TRAIN, molecules=[GRAPHS[0]] * 18), []
    keys = ["training.auxiliary"] if explicit else ["training.epochs"]
    ensemble_of(replace(ONE, auxiliary=0.3), train=same, warn=messages.append, explicit=keys)
    assert len(messages) == explicit and all("there are none to learn" in message for message in messages)


@pytest.mark.parametrize("labels", [0.0, 1.0])
def test_an_undefined_tracking_metric_is_reported_and_the_loss_chooses_the_epoch(labels: float) -> None:
    train = replace(TRAIN, targets=(TRAIN.targets > np.median(TRAIN.targets)).astype(float))
    val, messages = replace(VAL, targets=np.full((6, 1), labels)), []
    config = replace(CONFIG, tracking_metric="auroc")
    (found,) = ensemble_of(config, Binary(), train, val=val, scaler=TargetScaler.identity(1), warn=messages.append).fits
    assert messages == [
        "the AUROC of the validation molecules is undefined (one class only): their loss chooses the epoch instead"
    ]
    assert found.best_epoch == 1 + int(np.argmin([record.val_loss for record in found.history]))
    assert {record.tracking_metric for record in found.history} == {"val_loss"}


@pytest.mark.parametrize(("readout", "task"), [("sum", Regression()), ("mean", Regression()), ("sum", Binary())])
def test_the_sum_over_no_atoms_is_a_target_of_0_initially(readout: str, task: Task) -> None:
    """For a regression whose output is a sum over the atoms; otherwise the bias is drawn."""
    train, val = (replace(data, targets=np.eye(2)[np.arange(len(data)) % 2]) for data in (TRAIN, VAL))
    (model,) = ensemble_of(
        replace(ONE, learning_rate=0.0),
        task,
        train,
        val=val,
        model=replace(SMALL, readout=readout),
        scaler=TargetScaler((3.0, -1.0), (2.0, 4.0)),
    ).models
    without_atoms = model.head.bias.detach().numpy() * (2.0, 4.0) + (3.0, -1.0)
    assert np.allclose(without_atoms, 0.0, atol=1e-6) == (readout == "sum" and isinstance(task, Regression))


def test_a_member_is_the_single_model_of_the_seed_of_the_run_plus_its_index() -> None:
    dropping = replace(SMALL, dropout=0.3)
    both = ensemble_of(replace(ONE, seed=4, ensemble_size=2), model=dropping)
    single = ensemble_of(replace(ONE, seed=5), model=dropping)
    assert len(both.models) == len(both.fits) == 2 and both.fits[1] == single.fits[0] != both.fits[0]
    weights = [model.state_dict() for model in (*both.models, *single.models)]
    assert all(torch.equal(x, weights[2][name]) for name, x in weights[1].items())
    assert not torch.equal(weights[0]["head.weight"], weights[1]["head.weight"])
    assert not any(model.training for model in both.models)
