"""The files of a checkpoint: `epoch-K.safetensors`, and `state.json`, which names it; no pickle.

A new file is written next to the old one, and `state.json` is replaced last and atomically, so that there is always a
complete checkpoint.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from molattn.errors import InputError
from molattn.models.tensor_file import read_tensor_specs, read_tensors

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
    # Copies, because safetensors does not accept tensors that share memory.
    data = save({name: x.detach().cpu().clone().contiguous() for name, x in checkpoint.tensors.items()})
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
    except READ_ERRORS as error:
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
READ_ERRORS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, OSError)
"""The exceptions that invalid types and sizes in a file can cause."""


def _file_name(epoch: int) -> str:
    return f"epoch-{epoch}.safetensors"


def damage_error(folder: Path, error: BaseException) -> InputError:
    """The error for a checkpoint that cannot be read, or that has invalid content."""
    why = str(error) if isinstance(error, ValidationError) else type(error).__name__
    return InputError(f"{folder} is damaged, its training cannot be resumed ({why}): --force starts over")
