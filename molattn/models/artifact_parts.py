"""The tensors of a saved model other than the weights of its networks: to write, to validate and to read them."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molattn.chem import FEATURE_LENGTHS
from molattn.data.schema import ValidationError
from molattn.errors import short_repr
from molattn.models.applicability_domain import FINGERPRINT_BYTES
from molattn.models.artifact import Artifact
from molattn.models.artifact_settings import (
    CALIBRATION_KEY,
    DOMAIN_KEY,
    MEMBERS_KEY,
    TREES_KEY,
    add_prefix,
    calibration_arrays,
    domain_arrays,
    select_prefix,
)
from molattn.models.base import MoleculeModel
from molattn.models.blended_trees import BlendedTrees, tree_outputs
from molattn.models.boosted_trees import TREE_ARRAYS, BoostedTrees
from molattn.models.calibration import score_names
from molattn.models.config_schema import DOMAIN_SIZE_RANGE
from molattn.models.task import Task
from molattn.models.tensor_file import TensorSpec

MAX_CALIBRATION_LENGTH = 1_000_000
"""The maximum length of the arrays of a calibration."""
MAX_TREES, MAX_TREE_NODES = 1_000_000, 20_000_000
"""The maximum numbers of trees of a target and of their nodes."""


def member_prefix(i: int) -> str:
    """The prefix of the names of the tensors of model i; empty for the first."""
    return f"{MEMBERS_KEY}.{i}" if i else ""


def expected_specs(
    config: Mapping[str, Any], task: Task, model: MoleculeModel, found: Mapping[str, TensorSpec]
) -> dict[str, TensorSpec]:
    """The specs of all tensors of an artifact; where any length is allowed, the length of the tensor in `found`.

    Raises:
        ValidationError: a length is out of range.
    """
    model_specs = {name: TensorSpec(x.dtype, tuple(x.shape)) for name, x in model.state_dict().items()}
    specs = dict(model_specs)
    for i in range(1, 1 + config[MEMBERS_KEY]):
        specs |= {f"{member_prefix(i)}.{name}": spec for name, spec in model_specs.items()}
    num_targets = len(config["targets"])
    if config[CALIBRATION_KEY] is not None:
        specs |= _calibration_specs(task, num_targets, found)
    if config[DOMAIN_KEY] is not None:
        specs |= _domain_specs(model, found)
    if config.get(TREES_KEY) is not None:
        specs |= _trees_specs(num_targets, found)
    return specs


def count_numbers(specs: Mapping[str, TensorSpec]) -> int:
    """The total number of elements of some tensors."""
    return sum(math.prod(spec.shape) for spec in specs.values())


def _calibration_specs(task: Task, num_targets: int, found: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
    specs = {}
    for t in range(num_targets):
        prefix = f"{CALIBRATION_KEY}.{t}"
        for names in score_names(task, t):
            count = 1 if names == ("beta",) else _length(found, f"{prefix}.{names[0]}", 1, MAX_CALIBRATION_LENGTH)
            specs |= {f"{prefix}.{name}": TensorSpec(torch.float64, (count,)) for name in names}
    return specs


def _domain_specs(model: MoleculeModel, found: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
    count = _length(found, f"{DOMAIN_KEY}.embeddings", 1, DOMAIN_SIZE_RANGE.maximum)
    return {
        f"{DOMAIN_KEY}.embeddings": TensorSpec(torch.float32, (count, model.head.in_features)),
        f"{DOMAIN_KEY}.bits": TensorSpec(torch.uint8, (count, FINGERPRINT_BYTES)),
    }


def part_tensors(artifact: Artifact) -> dict[str, Tensor]:
    """The tensors of the calibration, the applicability domain and the boosted trees, as far as the model has them."""
    arrays = calibration_arrays(artifact.calibration) | domain_arrays(artifact.domain)
    for t, trees in enumerate(() if artifact.trees is None else artifact.trees.trees):
        arrays |= add_prefix(f"{TREES_KEY}.{t}", trees.arrays())
    return {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in arrays.items()}


def _trees_specs(num_targets: int, found: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
    specs = {}
    for t in range(num_targets):
        prefix = f"{TREES_KEY}.{t}"
        counts = {
            "leaves": _length(found, f"{prefix}.leaves", 1, MAX_TREES),
            "feature": _length(found, f"{prefix}.feature", 0, MAX_TREE_NODES),
            "value": _length(found, f"{prefix}.value", 1, MAX_TREE_NODES),
        }
        for name, (dtype, like) in TREE_ARRAYS.items():
            specs[f"{prefix}.{name}"] = TensorSpec(torch.from_numpy(np.empty(0, dtype)).dtype, (counts[like],))
    return specs


def read_trees(config: Mapping[str, Any], arrays: Mapping[str, np.ndarray], task: Task) -> BlendedTrees | None:
    """The boosted trees; None for a model without them.

    Raises:
        ValidationError: arrays that are not trees.
    """
    if (settings := config.get(TREES_KEY)) is None:
        return None
    width = sum(FEATURE_LENGTHS[name] for name in settings["featurizers"])
    trees = []
    for t in range(len(config["targets"])):
        found = select_prefix(arrays, f"{TREES_KEY}.{t}")
        target_trees = BoostedTrees(num_features=width, outputs=tree_outputs(task, t), **found)
        try:
            target_trees.check()
        except ValueError as error:
            raise ValidationError(f"the tensors '{TREES_KEY}.{t}': {error}") from None
        trees.append(target_trees)
    return BlendedTrees(tuple(settings["featurizers"]), tuple(trees), tuple(settings["weights"]))


def _length(found: Mapping[str, TensorSpec], name: str, minimum: int, maximum: int) -> int:
    """The length of a tensor in `found`; raises ValidationError if it is out of range."""
    if name not in found:
        raise ValidationError(f"the tensor {short_repr(name)} is missing")
    shape = found[name].shape
    if not shape or not minimum <= shape[0] <= maximum:
        raise ValidationError(
            f"the tensor {short_repr(name)} is {found[name]}; its length is from {minimum:,} to {maximum:,}"
        )
    return shape[0]
