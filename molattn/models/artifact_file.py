"""A model on disk: `model.safetensors` and `config.json`, never a pickle.

Neither file can be used without the other. When a model replaces another, the new configuration is therefore first
written to `config.next.json`, and renamed once the new weights are written. If the process is killed in between, the
folder still holds a model that loads: the old or the new one.
"""

import dataclasses
import hashlib
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from molattn.data.files import file_sha256, write_bytes
from molattn.data.schema import CHECKSUMS, ValidationError, dumps_checksummed, parse_json
from molattn.errors import InputError, UsageError
from molattn.models.artifact import Artifact
from molattn.models.artifact_parts import count_numbers, expected_specs, member_prefix, part_tensors, read_trees
from molattn.models.artifact_settings import (
    CALIBRATION_KEY,
    DOMAIN_KEY,
    MEMBERS_KEY,
    TREES_KEY,
    calibration_settings,
    check_featurizer,
    descriptor_settings,
    read_parts,
    select_prefix,
    target_settings,
)
from molattn.models.base import MoleculeModel, build_model
from molattn.models.config_file import (
    CONFIG_JSON,
    MAX_CONFIG_BYTES,
    NEXT_CONFIG,
    WEIGHTS,
    model_config_of,
    read_config_file,
)
from molattn.models.config_schema import SCHEMA
from molattn.models.tasks import task_from_dict
from molattn.models.tensor_file import (
    AllocationLimit,
    TensorSpec,
    check_finite,
    check_tensor_specs,
    default_float32,
    read_tensor_specs,
    read_tensors,
)
from molattn.plugins import load_plugins

MAX_BUFFER_NUMBERS = 10_000_000
"""The maximum number of tensor elements of a model besides its weights, such as the centers of radial bases."""


def save_artifact(folder: str | Path, artifact: Artifact) -> None:
    """Write the model into `folder`; an existing model there is replaced atomically."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config, weights = model_files(artifact)
    _finish_replacement(folder)
    try:
        write_bytes(folder / NEXT_CONFIG, config)
        write_bytes(folder / WEIGHTS, weights)
    finally:
        _finish_replacement(folder)


def model_files(artifact: Artifact) -> tuple[bytes, bytes]:
    """The contents of `config.json` and of `model.safetensors`."""
    tensors = _weights(artifact.model)
    for i, member in enumerate(artifact.other_models, start=1):
        tensors |= {f"{member_prefix(i)}.{name}": x for name, x in _weights(member).items()}
    tensors |= part_tensors(artifact)
    weights = save({name: x.detach().cpu().contiguous() for name, x in tensors.items()})
    domain, trees = artifact.domain, artifact.trees
    config = {
        "schema": SCHEMA,
        "molattn": version("molattn"),
        "model": dataclasses.asdict(artifact.model.config),
        "targets": target_settings(artifact.targets, artifact.units, artifact.scaler, artifact.class_priors),
        "task": artifact.task.to_dict(),
        "molecules": dataclasses.asdict(artifact.read_options),
        "descriptors": descriptor_settings(artifact.descriptors),
        MEMBERS_KEY: len(artifact.other_models),
        "uncertainty": {"method": artifact.uncertainty_method, "samples": artifact.dropout_passes},
        CALIBRATION_KEY: calibration_settings(artifact.calibration),
        DOMAIN_KEY: domain and {"max_distance": domain.max_distance, "min_similarity": domain.min_similarity},
        "vocabulary": artifact.model.vocabulary(),
        CHECKSUMS: {WEIGHTS: hashlib.sha256(weights).hexdigest()},
    }
    if trees is not None:
        config[TREES_KEY] = {"featurizers": list(trees.featurizers), "weights": list(trees.weights)}
    return dumps_checksummed(config, CONFIG_JSON), weights


def _weights(model: MoleculeModel) -> dict[str, Tensor]:
    """The weights of a model; files hold float32 only."""
    return {name: x.float() if x.is_floating_point() else x for name, x in model.state_dict().items()}


def _finish_replacement(folder: Path) -> None:
    """Rename the next configuration to `config.json` if its weights were written, and remove it if they were not."""
    if (folder / NEXT_CONFIG).is_file():
        if _next_config_has_these_weights(folder):
            os.replace(folder / NEXT_CONFIG, folder / CONFIG_JSON)
        else:
            (folder / NEXT_CONFIG).unlink()


def _next_config_has_these_weights(folder: Path) -> bool:
    """Whether the checksum in the next configuration is that of the weights in `folder`."""
    try:
        return file_sha256(folder / WEIGHTS) == parse_json((folder / NEXT_CONFIG).read_bytes())[CHECKSUMS][WEIGHTS]
    except (FileNotFoundError, ValueError, TypeError, LookupError):  # no weights, or a damaged configuration
        return False


def load_artifact(folder: str | Path) -> Artifact:
    """Read a model that `save_artifact` wrote, on the CPU.

    Values in the files are used only if they are in range and consistent, so that loading an untrusted folder takes no
    more time or memory than its size warrants.

    Raises:
        InputError: a file is missing, damaged, newer than this molattn, or trained with another vocabulary.
        UsageError: a plugin cannot be loaded.
    """
    load_plugins()
    folder = Path(folder)
    for name in (CONFIG_JSON, WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(f"{folder} contains no model: {name} is missing; give the folder of a finished run")
    try:
        specs = read_tensor_specs(folder / WEIGHTS)
        config = read_config_file(folder, _current_config(folder))
        return _build_artifact(config, specs, folder)
    except ValidationError as error:
        raise InputError(f"{folder / WEIGHTS} is damaged or was changed: {error}; copy it again") from error
    except (UsageError, ValueError) as error:
        # The message quotes the file, which may contain any characters.
        why = str(error).encode("ascii", "backslashreplace").decode()
        raise InputError(f"{folder} requires what is not available: {why}") from error
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error}") from error
    except (KeyError, TypeError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise InputError(
            f"{folder} is damaged, it cannot be read as a model ({type(error).__name__}); copy it again"
        ) from error


def _current_config(folder: Path) -> str:
    """The name of the configuration file that belongs to the weights."""
    if not (folder / NEXT_CONFIG).is_file() or (folder / NEXT_CONFIG).stat().st_size > MAX_CONFIG_BYTES:
        return CONFIG_JSON
    return NEXT_CONFIG if _next_config_has_these_weights(folder) else CONFIG_JSON


def _build_artifact(config: dict[str, Any], specs: dict[str, TensorSpec], folder: Path) -> Artifact:
    targets, descriptors, settings = config["targets"], config["descriptors"], model_config_of(config)
    task = task_from_dict(config["task"])
    check_featurizer(config, folder)
    count = 1 + config[MEMBERS_KEY]
    build_args = settings, task.num_outputs(len(targets)), task.atom_level, len(descriptors)
    if max(count, settings.num_layers) > len(specs):
        raise ValidationError("its settings require more weights than it has")
    with default_float32(), AllocationLimit(2 * count_numbers(select_prefix(specs, "")) + MAX_BUFFER_NUMBERS):
        first = build_model(*build_args)
    check_tensor_specs(specs, expected_specs(config, task, first, specs))
    tensors, checksum = read_tensors(folder / WEIGHTS)
    if checksum != config[CHECKSUMS][WEIGHTS]:
        raise ValidationError(f"its checksum differs from the one in {CONFIG_JSON}")
    check_finite(tensors)
    with default_float32():
        models = [first, *(build_model(*build_args) for _ in range(1, count))]
    for i, model in enumerate(models):
        model.load_state_dict(select_prefix(tensors, member_prefix(i)))
        model.eval().requires_grad_(False)
    arrays = {name: x.numpy() for name, x in tensors.items()}
    return Artifact(
        model=first,
        other_models=tuple(models[1:]),
        trees=read_trees(config, arrays, task),
        **read_parts(config, arrays, task),
    )
