"""Attention maps in safetensors files: the weights as a tensor, all other fields as JSON metadata; no pickle."""

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

_JSON_NAMES = {"faithfulness": "measured", "position_type": "places"}
"""Names in the file of fields that are called otherwise in `AttentionMap`."""


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
    names = [f.name for f in fields(attention) if f.name != "weights"]
    content = {_JSON_NAMES.get(name, name): getattr(attention, name) for name in names}
    metadata = json.dumps({"schema": SCHEMA, **content})
    write_bytes(path, to_bytes({"weights": weights}, {"map": metadata, "sha256": _checksum(metadata, weights)}))


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
        return _from_json(json.loads(metadata["map"]), weights, path)
    except (KeyError, TypeError, ValueError, OSError, SafetensorError) as error:
        if isinstance(error, MolattnError):
            raise
        raise InputError(
            f"{path} is damaged, or no attention map: it cannot be read ({type(error).__name__}); save the map again"
        ) from error


def _from_json(content: dict[str, Any], weights: np.ndarray, path: Path) -> AttentionMap:
    if content.pop("schema") > SCHEMA:
        raise InputError(f"{path} was written by a newer molattn: upgrade molattn to read it")
    field_names = {stored: name for name, stored in _JSON_NAMES.items()}
    # JSON has no tuples.
    content = {
        field_names.get(name, name): tuple(value) if isinstance(value, list) else value
        for name, value in content.items()
    }
    return AttentionMap(weights=weights, **content)


def _checksum(metadata: str, weights: np.ndarray) -> str:
    header = f"{weights.dtype.str} {weights.shape} ".encode()
    return hashlib.sha256(header + metadata.encode() + b"\0" + weights.tobytes()).hexdigest()
