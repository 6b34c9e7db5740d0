"""Where an interrupted training goes on: everything that the next epoch depends on, saved after an epoch.

`checkpoint/` in the run folder holds `epoch-K.safetensors` and `state.json`, which names it; no pickle. A new one is
written beside the old, and `state.json` is replaced last and at once, so that there is always one that is whole.
"""

import hashlib
import json
import random
import shutil
import signal
import threading
import time
from array import array
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from molattn.data.files import write_bytes, write_text
from molattn.data.schema import Boolean, InstanceOf, Integer, Number, PartialRecord, String, ValidationError, mismatch
from molattn.errors import InputError, UsageError, short_repr
from molattn.models.tensor_file import read_tensor_specs, read_tensors
from molattn.training import distributed
from molattn.training.resumed import check_alike, check_tensors, optimizer_state

STATE = "state.json"
SCHEMA = 1


@dataclass(frozen=True)
class Checkpoint:
    """A training after one of its epochs: tensors by name, and plain values as JSON has them."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `name.`, without it, each in memory of its own."""
        return {k.removeprefix(f"{name}."): v.clone() for k, v in self.tensors.items() if k.startswith(f"{name}.")}


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write it; whatever happens on the way, the one before stays whole until this one is."""
    folder.mkdir(parents=True, exist_ok=True)
    data = save({name: x.detach().cpu().contiguous() for name, x in checkpoint.tensors.items()})
    name = _file(checkpoint.state["epoch"])
    content = {"schema": SCHEMA, "file": name, "sha256": hashlib.sha256(data).hexdigest(), **checkpoint.state}
    write_bytes(folder / name, data)
    # JSON as Python writes it: NaN and Infinity are read back, and every digit is.
    text = json.dumps(content)
    write_text(folder / STATE, json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "content": text}))
    for old in folder.glob("epoch-*.safetensors"):
        if old.name != name:
            old.unlink(missing_ok=True)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The last one that was saved; None when there is none.

    Raises:
        InputError: it is damaged, or of another molattn.
    """
    if not (folder / STATE).is_file():
        return None
    try:
        outer = json.loads((folder / STATE).read_text(encoding="utf-8"))
        text = outer["content"]
        content = json.loads(text)
        if type(content["schema"]) is int and content["schema"] != SCHEMA:
            raise InputError(f"{folder} was written by another molattn: resume with that one, or --force starts over")
        _KEPT.validate(content, "")
        if content["file"] != _file(content["epoch"]):
            raise mismatch("file", content["file"], f"{_file(content['epoch'])}, the one of its epoch")
        read_tensor_specs(folder / content["file"])  # before it is read: it may be of any length
        tensors, checksum = read_tensors(folder / content["file"])
        if [hashlib.sha256(text.encode()).hexdigest(), checksum] != [outer["sha256"], content["sha256"]]:
            raise ValidationError("a checksum differs")
    except _DAMAGE as error:
        raise damaged(folder, error) from error
    return Checkpoint(tensors, content)


_KEPT = PartialRecord(
    {
        "schema": Integer(SCHEMA, SCHEMA),
        "file": String(100),
        "sha256": String(64),
        "epoch": Integer(0, 10**9),
        "identity": InstanceOf(dict, "an object with fields"),
    },
    {"over": Boolean(), "seconds": Number(0.0)},
)
# What values of other types and sizes make the code raise that takes them for what they should be.
_DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, OSError)


def _file(epoch: int) -> str:
    return f"epoch-{epoch}.safetensors"


def damaged(folder: Path, error: BaseException) -> InputError:
    """What is said of a checkpoint that cannot be read, or says what cannot be."""
    why = str(error) if isinstance(error, ValidationError) else type(error).__name__
    return InputError(f"{folder} is damaged, its training cannot be resumed ({why}): --force starts over")


class Checkpoints:
    """The checkpoints of one training.

    Args:
        folder: where they lie.
        identity: what must be the same when the training goes on: settings and checksums, in plain values.
        every: epochs between two of them.
        run: the folder of the run, for its errors; the one that `folder` is in by default.

    Attributes:
        last: where the training goes on; None for one that starts.

    Raises:
        UsageError: the last one is of another training; it says what differs.
        InputError: it is damaged.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], every: int = 1, run: Path | None = None):
        self.folder, self.identity, self.every = folder, identity, every
        # Whoever trains together goes on from the same one.
        self.last = distributed.broadcast_object(partial(load_checkpoint, folder))
        if self.last is not None:
            if missing := next((key for key in ("over", "seconds") if key not in self.last.state), None):
                raise damaged(folder, ValidationError(f"it has no field {missing!r}"))
            changed = differences(self.last.state["identity"], json.loads(json.dumps(identity)))
            if changed:
                more = f"; and {len(changed) - 10} more" if len(changed) > 10 else ""
                raise UsageError(
                    f"{run or folder.parent} cannot be resumed, since {'; '.join(changed[:10])}{more}: put back what "
                    "was, or start over with --force"
                )

    @property
    def seconds(self) -> float:
        """How long the training has taken until the last one."""
        return 0.0 if self.last is None else self.last.state["seconds"]

    def remove(self) -> None:
        """No more is needed of them."""
        shutil.rmtree(self.folder, ignore_errors=True)


def differences(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> list[str]:
    """What differs between two nested sets of plain values, a phrase each."""
    found = []
    for key in dict.fromkeys((*before, *now)):
        # Of what somebody else wrote any text may be a key.
        name = f"{prefix}{key if key.isprintable() and len(key) <= 100 else short_repr(key)}"
        a, b = before.get(key), now.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{name}." if name not in ("config",) else "")
        elif a != b:
            found.append(f"{name} was {_short(a)} and is {_short(b)} now")
    return found


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


@runtime_checkable
class Trained(Protocol):
    """What is trained: a module, with its optimizer and schedule."""

    optimizer: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler

    def state_dict(self) -> dict[str, Any]:
        """As that of `torch.nn.Module`."""
        ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """As that of `torch.nn.Module`."""
        ...


@runtime_checkable
class Watch(Protocol):
    """Who keeps the best weights and the history of a training."""

    state: dict[str, Tensor] | None

    def to_dict(self) -> dict[str, Any]:
        """All else that it knows, in plain values."""
        ...

    def restore(self, told: dict[str, Any], state: dict[str, Tensor] | None) -> None:
        """Know again what it knew."""
        ...


class SaveEpochs:
    """Saves a training after its epochs, and lets it go on from its last checkpoint, to the bit.

    Saved are weights, their running average, optimizer, schedule, the best epoch's weights, the history, and the states
    of the random generators of torch, numpy and Python. The batches of an epoch follow from its number.
    """

    def __init__(self, checkpoints: Checkpoints, watch: Watch):
        self.checkpoints, self.watch, self.start = checkpoints, watch, time.perf_counter()
        if checkpoints.last is not None:
            try:
                best = checkpoints.last.part("best")
                watch.restore(checkpoints.last.state["watch"], best or None)
            except _DAMAGE as error:
                raise damaged(checkpoints.folder, error) from error

    def restore(self, learner: Trained, epochs: int) -> int:
        """Set a training of so many epochs to where the last checkpoint was; the epoch to go on with, from 0.

        Raises:
            InputError: the checkpoint is damaged.
        """
        last = self.checkpoints.last
        if last is None:
            return 0
        if last.state["epoch"] >= epochs:
            wrong = mismatch("epoch", last.state["epoch"], f"below {epochs}, the number of epochs")
            raise damaged(self.checkpoints.folder, wrong)
        if last.state["over"]:
            return epochs
        try:
            _restore(last, learner)
        except _DAMAGE as error:
            raise damaged(self.checkpoints.folder, error) from error
        return last.state["epoch"] + 1

    def after(self, epoch: int, learner: Trained, over: bool) -> None:
        """Save what the training is after an epoch, where it is one of those to save, or the last one.

        Args:
            epoch: from 0.
            learner: what is trained.
            over: no other epoch comes.
        """
        if distributed.rank() == 0 and (over or (epoch + 1) % self.checkpoints.every == 0):
            optimizer, tensors = _optimizer_state(learner.optimizer)
            tensors |= {f"task.{k}": v for k, v in learner.state_dict().items()}
            tensors |= {f"best.{k}": v for k, v in (self.watch.state or {}).items()}
            tensors |= {f"random.{k}": v for k, v in _torch_random().items()}
            state = {
                "epoch": epoch,
                "over": over,
                "seconds": self.checkpoints.seconds + time.perf_counter() - self.start,
                "watch": self.watch.to_dict(),
                "optimizer": optimizer,
                "schedules": [learner.schedule.state_dict()],
                "random": _plain_random(),
                "identity": self.checkpoints.identity,
            }
            save_checkpoint(self.checkpoints.folder, Checkpoint(_apart(tensors), state))


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies: safetensors takes no two tensors of one memory, such as the weights a task has under two names."""
    return {name: x.detach().cpu().clone() for name, x in tensors.items()}


def _restore(checkpoint: Checkpoint, learner: Trained) -> None:
    weights = checkpoint.part("task")
    check_tensors(weights, learner.state_dict())
    moments = optimizer_state(checkpoint.state["optimizer"], checkpoint.part("optimizer"), learner.optimizer)
    check_alike(checkpoint.state["schedules"], [learner.schedule.state_dict()], "schedules")
    learner.load_state_dict(weights)
    learner.optimizer.load_state_dict(moments)
    learner.schedule.load_state_dict(dict(checkpoint.state["schedules"][0]))
    random_states = checkpoint.part("random")
    cpu = random_states.pop("cpu")
    check_tensors({"random.cpu": cpu}, {"random.cpu": torch.get_rng_state()})
    torch.set_rng_state(cpu)
    for device, value in random_states.items():
        if torch.cuda.is_available() and int(device) < torch.cuda.device_count():
            torch.cuda.set_rng_state(value, int(device))
    plain = checkpoint.state["random"]
    version, numbers, gauss = plain["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, words, *rest = plain["numpy"]
    # An array of Python's refuses what is no such number; numpy 1's takes it modulo 2^32.
    np.random.set_state((name, np.array(array("I", words), dtype=np.uint32), *rest))  # noqa: NPY002


def _optimizer_state(optimizer: torch.optim.Optimizer) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """The settings of its groups as plain values, and what it knows of each weight as tensors."""
    full = optimizer.state_dict()
    tensors = {
        f"optimizer.{index}.{key}": torch.as_tensor(value)
        for index, of_one in full["state"].items()
        for key, value in of_one.items()
    }
    return full["param_groups"], tensors


def _torch_random() -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states |= {str(i): state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return states


def _plain_random() -> dict[str, Any]:
    name, numbers, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    return {"numpy": [name, np.asarray(numbers).tolist(), *rest], "python": random.getstate()}


@contextmanager
def callers_random_states() -> Iterator[None]:
    """Leaves the random states of torch, numpy and Python as they were."""
    plain, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(legacy)  # noqa: NPY002


@contextmanager
def exits_on_sigterm() -> Iterator[None]:
    """SIGTERM ends the block as SystemExit with code 143, as a shell tells it, so that what was begun is cleaned up.

    A handler of the caller's own stays, and so does everything in other threads than the main one.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def terminated(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
