"""The metadata of an exported file: its inputs and outputs, and the configuration of the model; without torch."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from molattn.chem import ATOM_FEATURES, rdkit_version
from molattn.data.schema import (
    InstanceOf,
    Integer,
    ListOf,
    PartialRecord,
    Record,
    String,
    ValidationError,
    parse_json,
)
from molattn.errors import short_repr
from molattn.models.artifact import Artifact
from molattn.models.artifact_settings import calibration_arrays, domain_arrays

FORMAT_VERSION = 1
"""The version of the metadata."""

ABOUT_KEY, CONFIG_KEY, ARRAYS_KEY = "molattn", "molattn.config", "molattn.arrays"
"""The keys of the metadata, all of them JSON: what the tensors are, the model's `config.json`, and the arrays of its
calibration and applicability domain."""

EMBEDDING = "embedding"
"""The name of the output with the embeddings of molecules."""

Shape = tuple[str | int, ...]

_DTYPES = {
    "atom_codes": "uint8",
    "bond_codes": "uint8",
    "path_lengths": "uint8",
    "codes": "uint8",
    "mask": "bool",
    "distances": "float32",
    "descriptors": "float32",
}
_ARRAY_DTYPES = ("float64", "float32", "uint8")
_ABOUT = PartialRecord({"format": Integer(1, 10**6), "config_sha256": String(64, min_length=64)})
_ARRAY = Record({"dtype": String(10), "shape": ListOf(Integer(0, 10**8), 8), "base64": InstanceOf(str, "text")})


def input_shapes(artifact: Artifact) -> dict[str, Shape]:
    """The shape of each input, in order; "molecules", "atoms" and "tokens" are any number from 1."""
    if artifact.model.config.kind == "smiles-transformer":
        shapes: dict[str, Shape] = {"codes": ("molecules", "tokens")}
    else:
        pairs = ("molecules", "atoms", "atoms")
        shapes = {
            "atom_codes": ("molecules", "atoms", len(ATOM_FEATURES)),
            "bond_codes": pairs,
            "path_lengths": pairs,
            "mask": ("molecules", "atoms"),
        }
        if artifact.read_options.conformers is not None:
            shapes["distances"] = pairs
    if artifact.descriptors is not None:
        shapes["descriptors"] = ("molecules", len(artifact.descriptors.names))
    return shapes


def output_columns(artifact: Artifact) -> dict[str, list[str]]:
    """The columns of the decoded outputs, by output, with the names that `molattn predict` gives to them."""
    distribution = artifact.task.distribution_columns(artifact.targets)
    std = [name for name in artifact.extra_columns() if name not in distribution]
    columns = {"prediction": [f"{t}_pred" for t in artifact.targets], "distribution": distribution, "std": std}
    return {name: found for name, found in columns.items() if found}


def output_names(artifact: Artifact) -> list[str]:
    """The names of all outputs, in order: the decoded ones, the raw outputs of all models, and the embedding."""
    return [*output_columns(artifact), "outputs", *(() if artifact.task.atom_level else (EMBEDDING,))]


def file_metadata(artifact: Artifact, config: bytes, config_sha256: str, torch_version: str) -> dict[str, str]:
    """The metadata of a file, by key.

    Args:
        artifact: the model.
        config: the content of its `config.json`.
        config_sha256: the checksum of the `config.json` of the run that the model is from.
        torch_version: of the torch that exported it.
    """
    about = {
        "format": FORMAT_VERSION,
        "config_sha256": config_sha256,
        "torch": torch_version,
        "rdkit": rdkit_version(),
        "inputs": {name: {"dtype": _DTYPES[name], "shape": shape} for name, shape in input_shapes(artifact).items()},
        "outputs": output_columns(artifact),
    }
    arrays = calibration_arrays(artifact.calibration) | domain_arrays(artifact.domain)
    encoded = {name: _encode(array) for name, array in arrays.items()}
    return {ABOUT_KEY: json.dumps(about), CONFIG_KEY: config.decode(), ARRAYS_KEY: json.dumps(encoded)}


def read_description(metadata: Mapping[str, str]) -> dict[str, Any]:
    """The description of the file's tensors, with at least its `format` and `config_sha256`.

    Raises:
        ValidationError: it is missing or damaged.
    """
    if ABOUT_KEY not in metadata:
        raise ValidationError("it has no metadata of molattn")
    return _ABOUT.validate(parse_json(metadata[ABOUT_KEY].encode()), ABOUT_KEY)


def read_arrays(metadata: Mapping[str, str]) -> dict[str, np.ndarray]:
    """The arrays of the calibration and of the applicability domain.

    Raises:
        ValidationError: they are damaged.
    """
    found = parse_json(metadata[ARRAYS_KEY].encode())
    if not isinstance(found, dict):
        raise ValidationError(f"{ARRAYS_KEY} is not an object")
    return {name: _decode(name, value) for name, value in found.items()}


def _encode(array: np.ndarray) -> dict[str, Any]:
    data = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return {"dtype": array.dtype.name, "shape": array.shape, "base64": base64.b64encode(data).decode()}


def _decode(name: str, value: Any) -> np.ndarray:
    settings = _ARRAY.validate(value, name)
    if settings["dtype"] not in _ARRAY_DTYPES:
        raise ValidationError(f"{short_repr(name)} has the type {short_repr(settings['dtype'])}")
    dtype = np.dtype(settings["dtype"])
    data = base64.b64decode(settings["base64"], validate=True)
    return np.frombuffer(data, dtype.newbyteorder("<")).reshape(settings["shape"]).astype(dtype, copy=False)
