"""Checkpoints: the files, the comparison of settings, and bitwise equal resumption."""

import hashlib
import json
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save
from torch import Tensor, nn

from molattn.errors import InputError, UsageError
from molattn.training import distributed
from molattn.training.checkpoint import Checkpointer, CheckpointFolder
from molattn.training.checkpoint_file import SCHEMA, STATE_FILE, Checkpoint, load_checkpoint, save_checkpoint
from molattn.training.generator_states import preserve_random_states
from molattn.training.setting_differences import differences
from molattn.training.signals import exit_on_sigterm

X = {"a.x": torch.arange(3.0), "a.b.y": torch.tensor(2), "ab.z": torch.ones(1)}


def written(folder: Path, epoch: int = 2, **state: Any) -> Path:
    save_checkpoint(folder, Checkpoint(X, {"epoch": epoch, "identity": {}, **state}))
    return folder


def change(folder: Path, update_checksum: bool = True, **fields: Any) -> None:
    """Change fields of the state, with its checksum if `update_checksum`."""
    outer = json.loads((folder / STATE_FILE).read_text())
    text = json.dumps({**json.loads(outer["content"]), **fields})
    sha256 = hashlib.sha256(text.encode()).hexdigest() if update_checksum else outer["sha256"]
    (folder / STATE_FILE).write_text(json.dumps({"sha256": sha256, "content": text}))


def test_the_files_on_disk(tmp_path: Path) -> None:
    folder = written(tmp_path / "run" / "checkpoint", digits=0.1 + 0.2, infinite=float("-inf"))
    assert {path.name for path in folder.iterdir()} == {STATE_FILE, "epoch-2.safetensors"}
    data = (folder / "epoch-2.safetensors").read_bytes()
    outer = json.loads((folder / STATE_FILE).read_text())
    assert set(outer) == {"sha256", "content"}
    assert outer["sha256"] == hashlib.sha256(outer["content"].encode()).hexdigest()
    assert json.loads(outer["content"]) == {
        "schema": SCHEMA,
        "file": "epoch-2.safetensors",
        "sha256": hashlib.sha256(data).hexdigest(),
        "epoch": 2,
        "identity": {},
        "digits": 0.1 + 0.2,
        "infinite": float("-inf"),
    }


def test_the_last_one_is_loaded_and_the_others_are_deleted(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path / "c") is None
    for epoch in (2, 10, 3, 3):
        written(tmp_path / "c", epoch)
    assert {path.name for path in (tmp_path / "c").iterdir()} == {STATE_FILE, "epoch-3.safetensors"}
    found = load_checkpoint(tmp_path / "c")
    assert found is not None and found.state["epoch"] == 3
    assert found.tensors.keys() == X.keys()
    part = found.with_prefix("a")
    assert list(part) == ["b.y", "x"] or list(part) == ["x", "b.y"]
    assert torch.equal(part["x"], X["a.x"]) and part["b.y"] == 2
    part["x"].zero_()
    assert torch.equal(found.with_prefix("a")["x"], X["a.x"])
    assert found.with_prefix("b") == {}


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / STATE_FILE).write_text(""),
        lambda f: (f / STATE_FILE).write_text("[]"),
        lambda f: (f / STATE_FILE).write_text("{}"),
        lambda f: (f / STATE_FILE).write_bytes(b"\xff"),
        lambda f: (f / STATE_FILE).write_text('{"content": 3, "sha256": ""}'),
        lambda f: change(f, update_checksum=False, seconds=1.0),
        lambda f: change(f, sha256="0" * 64),
        lambda f: change(f, file="none.safetensors"),
        lambda f: change(f, file=None),
        lambda f: (f / "epoch-2.safetensors").write_bytes(save({"x": torch.zeros(1)})),
        lambda f: (f / "epoch-2.safetensors").unlink(),
    ],
)
def test_damage_is_reported_in_one_sentence(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    folder = written(tmp_path / "c")
    damage(folder)
    with pytest.raises(InputError, match=r"c is damaged, its training cannot be resumed \(.+\): --force starts over$"):
        load_checkpoint(folder)


def test_invalid_weights_are_damage_even_with_a_valid_checksum(tmp_path: Path) -> None:
    folder = written(tmp_path / "c")
    (folder / "epoch-2.safetensors").write_bytes(b"none")
    change(folder, sha256=hashlib.sha256(b"none").hexdigest())
    with pytest.raises(InputError, match=r"cannot be resumed \(it does not begin as a safetensors file"):
        load_checkpoint(folder)


@pytest.mark.parametrize("schema", [SCHEMA - 1, SCHEMA + 1])
def test_another_schema_is_of_another_molattn(tmp_path: Path, schema: int) -> None:
    folder = written(tmp_path / "c")
    change(folder, schema=schema)
    with pytest.raises(InputError, match="was written by another molattn: resume with that one, or --force starts"):
        load_checkpoint(folder)


def test_differences_are_named() -> None:
    before = {"training": {"epochs": 3, "lr": 0.1}, "x": 1, "sha256": {"table": "a"}, "old": None}
    assert differences(before, before) == []
    now = {"training": {"epochs": 4, "lr": 0.1}, "x": [1], "sha256": {"table": "b"}, "new": "c" * 60}
    assert differences(before, now) == [
        "training.epochs was 3 and is 4 now",
        "x was 1 and is [1] now",
        'sha256.table was "a" and is "b" now',
        f'new was null and is "{"c" * 36}... now',
    ]
    assert differences({"a": {"b": 1}}, {"a": 1}) == ['a was {"b": 1} and is 1 now']
    assert differences({}, {"a": "b" * 38}) == [f'a was null and is "{"b" * 38}" now']
    assert differences({}, {"a": "b" * 39}) == [f'a was null and is "{"b" * 36}... now']


def test_another_training_is_not_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoint"
    first = CheckpointFolder(folder, {"config": {"seed": 0}, "sizes": (1, 2)})
    assert (first.last, first.seconds, first.every) == (None, 0.0, 1)
    written(folder, identity={"config": {"seed": 0}, "sizes": [1, 2]}, seconds=12.5, finished=False)
    again = CheckpointFolder(folder, {"config": {"seed": 0}, "sizes": (1, 2)}, every=3)
    assert again.last is not None and (again.seconds, again.every) == (12.5, 3)
    message = "run cannot be resumed, since seed was 0 and is 1 now; more was null and is 2 now: undo the change, or"
    with pytest.raises(UsageError, match=message):
        CheckpointFolder(folder, {"config": {"seed": 1}, "sizes": (1, 2), "more": 2})
    with pytest.raises(UsageError, match="^elsewhere cannot be resumed"):
        CheckpointFolder(folder, {}, run=Path("elsewhere"))
    again.remove()
    assert not folder.exists()
    again.remove()


class Monitor:
    """The history, and the best weights."""

    def __init__(self) -> None:
        self.best_weights: dict[str, Tensor] | None = None
        self.values: dict[str, Any] = {}

    def to_dict(self) -> dict[str, Any]:
        return {**self.values, "best": 1}

    def restore(self, saved: dict[str, Any], best_weights: dict[str, Tensor] | None) -> None:
        self.values, self.best_weights = saved, best_weights


class Training(nn.Module):
    """A linear map, two groups of weights with settings of their own, a scheduler, and noise from all generators."""

    def __init__(self, seed: int):
        super().__init__()
        torch.manual_seed(seed)
        self.model = nn.Linear(3, 2)
        self.same = self.model  # under two names, as a task has it
        groups = [{"params": [self.model.weight], "betas": (0.8, 0.9)}, {"params": [self.model.bias], "lr": 0.5}]
        self.optimizer = torch.optim.AdamW(groups, lr=0.1)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)

    def epoch(self) -> None:
        noise = torch.randn(3) + random.random() + torch.tensor(np.random.random(3), dtype=torch.float32)  # noqa: NPY002
        self.optimizer.zero_grad()
        self.model(noise).square().sum().backward()
        self.optimizer.step()
        self.scheduler.step()


def state_of(training: Training) -> list[Tensor]:
    weights = list(training.model.parameters())
    moments = [x for w in weights for _, x in sorted(training.optimizer.state[w].items())]
    rates = [torch.tensor([g["lr"], *g["betas"]]) for g in training.optimizer.param_groups]
    return [*(w.detach().clone() for w in weights), *(x.clone() for x in moments), *rates]


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


@pytest.mark.parametrize("best", [None, {"w": torch.arange(2.0)}])
def test_a_resumed_training_is_bitwise_equal(tmp_path: Path, best: dict[str, Tensor] | None) -> None:
    with preserve_random_states():
        whole, monitor = Training(0), Monitor()
        seed_all(1)
        random.gauss(0, 1)  # which keeps a second one back
        saves = Checkpointer(CheckpointFolder(tmp_path / "c", {"seed": 1}), monitor)
        assert saves.restore(whole, 6) == 0
        for _ in range(3):
            whole.epoch()
        monitor.values, monitor.best_weights = {"losses": [3.0, float("nan")]}, best
        saves.save_epoch(2, whole, finished=False)
        draws = random.gauss(0, 1)
        for _ in range(2):
            whole.epoch()

        other, again = Training(5), Monitor()
        seed_all(7)
        goes = Checkpointer(CheckpointFolder(tmp_path / "c", {"seed": 1}), again)
        assert again.values["best"] == 1 and again.values["losses"][0] == 3.0
        if best is None:
            assert again.best_weights is None
        else:
            assert again.best_weights is not None and torch.equal(again.best_weights["w"], best["w"])
        assert goes.restore(other, 6) == 3
        assert random.gauss(0, 1) == draws
        assert isinstance(other.optimizer.param_groups[0]["betas"], tuple)
        for _ in range(2):
            other.epoch()
        for a, b in zip(state_of(whole), state_of(other), strict=True):
            assert torch.equal(a, b)


def test_which_epochs_are_saved_and_their_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training(0)
    training.epoch()
    folder = tmp_path / "c"
    saves = Checkpointer(CheckpointFolder(folder, {"seed": 1}, every=3), Monitor())

    def saved(epoch: int, finished: bool = False) -> dict[str, Any] | None:
        CheckpointFolder(folder, {"seed": 1}).remove()
        saves.save_epoch(epoch, training, finished)
        found = load_checkpoint(folder)
        return None if found is None else found.state

    assert [saved(epoch) for epoch in (0, 1, 3, 4)] == [None] * 4
    with monkeypatch.context() as patch:
        patch.setattr(distributed, "rank", lambda: 1)
        assert saved(2) is None
    for epoch, finished in ((2, False), (5, False), (5, True), (3, True)):
        state = saved(epoch, finished)
        assert state is not None
        assert (state["epoch"], state["finished"], state["identity"]) == (epoch, finished, {"seed": 1})
        assert 0 < state["seconds"] < 60
    # A finished training has no epoch to continue with.
    assert Checkpointer(CheckpointFolder(folder, {"seed": 1}), Monitor()).restore(training, 9) == 9
    before = CheckpointFolder(folder, {"seed": 1}).seconds
    later = Checkpointer(CheckpointFolder(folder, {"seed": 1}), Monitor())
    later.start -= 100
    later.save_epoch(5, training, finished=True)
    assert before + 100 < CheckpointFolder(folder, {"seed": 1}).seconds < before + 160


def test_a_checkpoint_of_another_model_or_of_more_epochs_is_reported_in_one_sentence(tmp_path: Path) -> None:
    training = Training(0)
    training.epoch()
    Checkpointer(CheckpointFolder(tmp_path / "c", {}), Monitor()).save_epoch(5, training, finished=False)
    goes = Checkpointer(CheckpointFolder(tmp_path / "c", {}), Monitor())
    with pytest.raises(InputError, match=r"is damaged, .*epoch.*below 5, the number of epochs"):
        goes.restore(training, 5)
    training.model = nn.Linear(4, 2)
    with pytest.raises(InputError, match=r"is damaged, .*the tensor '.*' is float32 \(2, 3\), and that of the model"):
        goes.restore(training, 6)


def test_random_states_of_the_caller_are_preserved() -> None:
    def draws() -> list[float]:
        return [random.random(), np.random.random(), torch.rand(()).item()]  # noqa: NPY002

    with preserve_random_states():
        seed_all(3)
        wanted = draws()
        seed_all(3)
        with suppress(KeyError), preserve_random_states():
            raise KeyError(draws())
        assert draws() == wanted


def test_sigterm_exits_with_the_code_of_a_shell() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with pytest.raises(SystemExit) as ended, exit_on_sigterm():
            signal.raise_signal(signal.SIGTERM)
        assert ended.value.code == 128 + signal.SIGTERM == 143
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        received: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
        with exit_on_sigterm():
            signal.raise_signal(signal.SIGTERM)
        assert received == [signal.SIGTERM], "a handler of the caller's own"
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_thread_does_not_change_signal_handlers() -> None:
    before, seen = signal.getsignal(signal.SIGTERM), []

    def train() -> None:
        with exit_on_sigterm():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert seen == [before]


def test_random_states_of_gpus_are_restored_for_the_available_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training, put_back = Training(0), {}
    training.epoch()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: [torch.tensor([i], dtype=torch.uint8) for i in (7, 8)])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, device: put_back.update({device: int(state)}))
    for initialized, devices, wanted in ((False, 2, {}), (True, 2, {0: 7, 1: 8}), (True, 1, {0: 7})):
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda initialized=initialized: initialized)
        monkeypatch.setattr(torch.cuda, "device_count", lambda devices=devices: devices)
        Checkpointer(CheckpointFolder(tmp_path / "c", {}), Monitor()).save_epoch(5, training, finished=False)
        put_back.clear()
        Checkpointer(CheckpointFolder(tmp_path / "c", {}), Monitor()).restore(training, 9)
        assert put_back == wanted
        if initialized:
            monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
            put_back.clear()
            Checkpointer(CheckpointFolder(tmp_path / "c", {}), Monitor()).restore(training, 9)
            assert put_back == {}
            monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
