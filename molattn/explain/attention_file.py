"""An attention map in a file: its weights as safetensors and all else as JSON beside them; no pickle."""

import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from molattn.data.files import write_bytes
from molattn.errors import InputError, MolattnError, UsageError, short_repr
from molattn.explain.attention_map import AttentionMap

SCHEMA = 1
SUFFIX = ".safetensors"


def save(attention: AttentionMap, path: Path) -> None:
    """Write the map; see `AttentionMap.save`."""
    if path.suffix.lower() != SUFFIX:
        raise UsageError(
            f"an attention map is saved as {SUFFIX}, not as {short_repr(path.name)}; "
            "heat_map and draw_atoms make pictures"
        )
    if not path.parent.is_dir():
        raise UsageError(f"{short_repr(str(path.parent))} is not a folder: make it, or save the map elsewhere")
    weights = np.ascontiguousarray(attention.weights)
    content = {f.name: getattr(attention, f.name) for f in fields(attention) if f.name != "weights"}
    said = json.dumps({"schema": SCHEMA, **content})
    write_bytes(path, to_bytes({"weights": weights}, {"map": said, "sha256": _checksum(said, weights)}))


def load(path: Path) -> AttentionMap:
    """Read the map; see `AttentionMap.load`."""
    if not path.is_file():
        raise InputError(f"there is no attention map at {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if "map" not in metadata:
                raise InputError(f"{path} holds no attention map: give a file that AttentionMap.save wrote")
            weights = file.get_tensor("weights")
        if metadata["sha256"] != _checksum(metadata["map"], weights):
            raise InputError(f"{path} is damaged: its checksum differs from the one in it; save the map again")
        return _made(json.loads(metadata["map"]), weights, path)
    except (KeyError, TypeError, ValueError, OSError, SafetensorError) as error:
        if isinstance(error, MolattnError):
            raise
        raise InputError(
            f"{path} is damaged, or no attention map: it cannot be read ({type(error).__name__}); save the map again"
        ) from error


def _made(content: dict[str, Any], weights: np.ndarray, path: Path) -> AttentionMap:
    if content.pop("schema") > SCHEMA:
        raise InputError(f"{path} was written by a newer molattn: upgrade molattn to read it")
    # JSON has lists alone.
    content = {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}
    return AttentionMap(weights=weights, **content)


def _checksum(said: str, weights: np.ndarray) -> str:
    described = f"{weights.dtype.str} {weights.shape} ".encode()
    return hashlib.sha256(described + said.encode() + b"\0" + weights.tobytes()).hexdigest()
