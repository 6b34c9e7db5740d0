"""Checkpoints of a training: everything that the next epoch depends on, saved after an epoch.

`checkpoint/` in the run folder holds `epoch-K.safetensors` and `state.json`, which names it; no pickle. A new file is
written next to the old one, and `state.json` is replaced last and atomically, so that there is always a complete
checkpoint.
"""

import hashlib
import json
import random
import shutil
import signal
import threading
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
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
from molattn.data.schema import (
    Boolean,
    InstanceOf,
    Integer,
    ListOf,
    Number,
    PartialRecord,
    String,
    ValidationError,
    mismatch,
)
from molattn.errors import InputError, UsageError, short_repr
from molattn.models.random_states import CPU, preserve_generators
from molattn.models.tensor_file import read_tensor_specs, read_tensors
from molattn.training import distributed
from molattn.training.callbacks import Callback
from molattn.training.checkpoint_validation import check_structure, check_tensors, validated_optimizer_state

STATE_FILE = "state.json"
SCHEMA = 4


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training after an epoch: tensors by name, and plain values as in JSON."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]

    def with_prefix(self, prefix: str) -> dict[str, Tensor]:
        """Copies of the tensors whose names begin with `prefix.`, by their names without it."""
        return {k.removeprefix(f"{prefix}."): v.clone() for k, v in self.tensors.items() if k.startswith(f"{prefix}.")}


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; the previous one stays valid until the new one is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    data = save({name: x.detach().cpu().contiguous() for name, x in checkpoint.tensors.items()})
    name = _file_name(checkpoint.state["epoch"])
    content = {"schema": SCHEMA, "file": name, "sha256": hashlib.sha256(data).hexdigest(), **checkpoint.state}
    write_bytes(folder / name, data)
    # Python's JSON keeps NaN, Infinity and every digit.
    text = json.dumps(content)
    write_text(folder / STATE_FILE, json.dumps({"sha256": hashlib.sha256(text.encode()).hexdigest(), "content": text}))
    for old in folder.glob("epoch-*.safetensors"):
        if old.name != name:
            old.unlink(missing_ok=True)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """Read the last checkpoint that was saved; None if there is none.

    Raises:
        InputError: it is damaged, or was written by another version of molattn.
    """
    if not (folder / STATE_FILE).is_file():
        return None
    try:
        outer = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
        text = outer["content"]
        content = json.loads(text)
        if type(content["schema"]) is int and content["schema"] != SCHEMA:
            raise InputError(f"{folder} was written by another molattn: resume with that one, or --force starts over")
        _STATE_SCHEMA.validate(content, "")
        if content["file"] != _file_name(content["epoch"]):
            raise mismatch("file", content["file"], f"{_file_name(content['epoch'])}, the one of its epoch")
        read_tensor_specs(folder / content["file"])  # first, because the file may be of any length
        tensors, checksum = read_tensors(folder / content["file"])
        if [hashlib.sha256(text.encode()).hexdigest(), checksum] != [outer["sha256"], content["sha256"]]:
            raise ValidationError("a checksum differs")
    except _READ_ERRORS as error:
        raise damage_error(folder, error) from error
    return Checkpoint(tensors, content)


_STATE_SCHEMA = PartialRecord(
    {
        "schema": Integer(SCHEMA, SCHEMA),
        "file": String(100),
        "sha256": String(64),
        "epoch": Integer(0, 10**9),
        "identity": InstanceOf(dict, "an object with fields"),
    },
    {
        "finished": Boolean(),
        "seconds": Number(0.0),
        "stopped_by": String(1_000),
        "callbacks": ListOf(InstanceOf(dict, "an object with fields"), 10_000),
    },
)
# The exceptions that invalid types and sizes can cause.
_READ_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, OSError)


def _file_name(epoch: int) -> str:
    return f"epoch-{epoch}.safetensors"


def damage_error(folder: Path, error: BaseException) -> InputError:
    """The error for a checkpoint that cannot be read, or that has invalid content."""
    why = str(error) if isinstance(error, ValidationError) else type(error).__name__
    return InputError(f"{folder} is damaged, its training cannot be resumed ({why}): --force starts over")


class Checkpoints:
    """The checkpoints of one training.

    Args:
        folder: of the checkpoints.
        identity: what must be equal when the training is resumed: settings and checksums, in plain values.
        every: epochs between two checkpoints.
        run: the folder of the run, for error messages; the parent of `folder` by default.

    Attributes:
        last: the last checkpoint, from which the training is resumed; None for a new training.

    Raises:
        UsageError: the last one is of another training; the message names the differences.
        InputError: it is damaged.
    """

    def __init__(self, folder: Path, identity: dict[str, Any], every: int = 1, run: Path | None = None):
        self.folder, self.identity, self.every = folder, identity, every
        # All ranks resume from the same checkpoint.
        self.last = distributed.broadcast_object(partial(load_checkpoint, folder))
        if self.last is not None:
            if missing := next((key for key in ("finished", "seconds") if key not in self.last.state), None):
                raise damage_error(folder, ValidationError(f"it has no field {missing!r}"))
            changed = differences(self.last.state["identity"], json.loads(json.dumps(identity)))
            if changed:
                more = f"; and {len(changed) - 10} more" if len(changed) > 10 else ""
                raise UsageError(
                    f"{run or folder.parent} cannot be resumed, since {'; '.join(changed[:10])}{more}: undo the "
                    "change, or start over with --force"
                )

    @property
    def seconds(self) -> float:
        """The duration of the training up to the last checkpoint."""
        return 0.0 if self.last is None else self.last.state["seconds"]

    def remove(self) -> None:
        """Delete all checkpoints of the training."""
        shutil.rmtree(self.folder, ignore_errors=True)


def differences(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> list[str]:
    """The differences between two nested dictionaries of plain values, a phrase each."""
    found = []
    for key in dict.fromkeys((*before, *now)):
        # A key from a file may be any text.
        name = f"{prefix}{key if key.isprintable() and len(key) <= 100 else short_repr(key)}"
        a, b = before.get(key), now.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            found += differences(a, b, f"{name}." if name not in ("config",) else "")
        elif a != b:
            found.append(f"{name} was {_abbreviate(a)} and is {_abbreviate(b)} now")
    return found


def _abbreviate(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


@runtime_checkable
class Trainable(Protocol):
    """A module in training, with its optimizer and learning-rate scheduler."""

    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler

    def state_dict(self) -> dict[str, Any]:
        """See `torch.nn.Module.state_dict`."""
        ...

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """See `torch.nn.Module.load_state_dict`."""
        ...


@runtime_checkable
class TrainingMonitor(Protocol):
    """An object, such as `EarlyStopping`, that stores the best weights and the history of a training."""

    state: dict[str, Tensor] | None

    def to_dict(self) -> dict[str, Any]:
        """Its state except the weights, in plain values."""
        ...

    def restore(self, saved: dict[str, Any], state: dict[str, Tensor] | None) -> None:
        """Restore the values of `to_dict`, and the best weights."""
        ...


class EpochCheckpointer:
    """Saves a training after its epochs, and resumes it from its last checkpoint with bitwise equal results.

    A checkpoint has the weights, their moving average, optimizer, scheduler, the best epoch's weights, the history, and
    the states of the callbacks and of the random generators of torch, numpy and Python. The batches of an epoch depend
    only on its number.
    """

    def __init__(self, checkpoints: Checkpoints, monitor: TrainingMonitor, callbacks: Sequence[Callback] = ()):
        self.checkpoints, self.monitor, self.callbacks = checkpoints, monitor, callbacks
        self.start = time.perf_counter()
        if checkpoints.last is not None:
            try:
                best = checkpoints.last.with_prefix("best")
                monitor.restore(checkpoints.last.state["early_stopping"], best or None)
            except _READ_ERRORS as error:
                raise damage_error(checkpoints.folder, error) from error

    def restore(self, learner: Trainable, epochs: int) -> int:
        """Restore a training from the last checkpoint; returns the epoch to continue with, from 0.

        Args:
            learner: to restore.
            epochs: of the whole training.

        Raises:
            InputError: the checkpoint is damaged.
        """
        last = self.checkpoints.last
        if last is None:
            return 0
        if last.state["epoch"] >= epochs:
            wrong = mismatch("epoch", last.state["epoch"], f"below {epochs}, the number of epochs")
            raise damage_error(self.checkpoints.folder, wrong)
        states = last.state.get("callbacks", [])
        if len(states) != len(self.callbacks):
            wrong = ValidationError(f"it has the states of {len(states)} callbacks, not of {len(self.callbacks)}")
            raise damage_error(self.checkpoints.folder, wrong)
        if not last.state["finished"]:
            try:
                _restore(last, learner)
            except _READ_ERRORS as error:
                raise damage_error(self.checkpoints.folder, error) from error
        with preserve_random_states():
            for callback, state in zip(self.callbacks, states, strict=True):
                callback.load_state_dict(state)
        return epochs if last.state["finished"] else last.state["epoch"] + 1

    @property
    def stopped_by(self) -> str:
        """What ended a finished training before its last epoch, as in `FitResult`; otherwise empty."""
        return "" if self.checkpoints.last is None else self.checkpoints.last.state.get("stopped_by", "")

    def save_epoch(self, epoch: int, learner: Trainable, finished: bool, stopped_by: str = "") -> None:
        """Save the training after an epoch, if a checkpoint is due or the training is finished.

        Args:
            epoch: from 0.
            learner: to save.
            finished: whether this was the last epoch.
            stopped_by: why it was the last one, see `FitResult`.

        Raises:
            UsageError: the state of a callback is not of values of JSON.
        """
        if distributed.rank() == 0 and (finished or (epoch + 1) % self.checkpoints.every == 0):
            optimizer, tensors = _optimizer_state(learner.optimizer)
            tensors |= {f"learner.{k}": v for k, v in learner.state_dict().items()}
            tensors |= {f"best.{k}": v for k, v in (self.monitor.state or {}).items()}
            tensors |= {f"rng_state.{k}": v for k, v in _torch_rng_states().items()}
            state = {
                "epoch": epoch,
                "finished": finished,
                "stopped_by": stopped_by,
                "callbacks": [_callback_state(callback) for callback in self.callbacks],
                "seconds": self.checkpoints.seconds + time.perf_counter() - self.start,
                "early_stopping": self.monitor.to_dict(),
                "optimizer": optimizer,
                "scheduler": learner.scheduler.state_dict(),
                "rng_state": _python_rng_states(),
                "identity": self.checkpoints.identity,
            }
            save_checkpoint(self.checkpoints.folder, Checkpoint(_cpu_copies(tensors), state))


def _callback_state(callback: Callback) -> dict[str, Any]:
    state = callback.state_dict()
    try:
        copy = json.loads(json.dumps(state))
    except (TypeError, ValueError) as error:
        copy, why = None, f": {error}"
    else:
        why = f", but {short_repr(state)}"
    if not isinstance(copy, dict):
        raise UsageError(f"{type(callback).__name__}.state_dict returns no dictionary of JSON values{why}")
    return copy


def _cpu_copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies of the tensors, because safetensors does not accept tensors that share memory."""
    return {name: x.detach().cpu().clone() for name, x in tensors.items()}


def _restore(checkpoint: Checkpoint, learner: Trainable) -> None:
    weights = checkpoint.with_prefix("learner")
    check_tensors(weights, learner.state_dict())
    moments = validated_optimizer_state(
        checkpoint.state["optimizer"], checkpoint.with_prefix("optimizer"), learner.optimizer
    )
    check_structure(checkpoint.state["scheduler"], learner.scheduler.state_dict(), "scheduler")
    learner.load_state_dict(weights)
    learner.optimizer.load_state_dict(moments)
    learner.scheduler.load_state_dict(dict(checkpoint.state["scheduler"]))
    random_states = checkpoint.with_prefix("rng_state")
    cpu = random_states.pop("cpu")
    check_tensors({"rng_state.cpu": cpu}, {"rng_state.cpu": torch.get_rng_state()})
    torch.set_rng_state(cpu)
    for device, value in random_states.items():
        if torch.cuda.is_available() and int(device) < torch.cuda.device_count():
            torch.cuda.set_rng_state(value, int(device))
    plain = checkpoint.state["rng_state"]
    version, numbers, gauss = plain["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, words, *rest = plain["numpy"]
    # Python's array rejects numbers out of range; numpy 1 would take them modulo 2^32.
    np.random.set_state((name, np.array(array("I", words), dtype=np.uint32), *rest))  # noqa: NPY002


def _optimizer_state(optimizer: torch.optim.Optimizer) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """The settings of the parameter groups as plain values, and the state of each parameter as tensors."""
    full = optimizer.state_dict()
    tensors = {
        f"optimizer.{index}.{key}": torch.as_tensor(value)
        for index, of_one in full["state"].items()
        for key, value in of_one.items()
    }
    return full["param_groups"], tensors


def _torch_rng_states() -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states |= {str(i): state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    return states


def _python_rng_states() -> dict[str, Any]:
    name, numbers, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    return {"numpy": [name, np.asarray(numbers).tolist(), *rest], "python": random.getstate()}


@contextmanager
def preserve_random_states(device: torch.device = CPU) -> Iterator[None]:
    """Restore the random states of numpy, Python and torch, on the CPU and on `device`, after the block."""
    plain, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with preserve_generators(device):
            yield
    finally:
        random.setstate(plain)
        np.random.set_state(legacy)  # noqa: NPY002


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Make SIGTERM raise SystemExit in the block, with a shell's exit code 143, so that cleanup code runs.

    Does nothing if the caller has a handler of its own, or outside the main thread.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def terminated(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
