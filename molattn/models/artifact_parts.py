"""The parts of a model on disk beside its networks: each as written to `config.json` and to tensors, and as read."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molattn.chem import FEATURE_LENGTHS, unknown_descriptors
from molattn.data.schema import ValidationError
from molattn.errors import UsageError, short_repr
from molattn.models.applicability_domain import FINGERPRINT_BYTES, ApplicabilityDomain
from molattn.models.base import MoleculeModel
from molattn.models.blended_trees import BlendedTrees, tree_outputs
from molattn.models.boosted_trees import TREE_ARRAYS, BoostedTrees
from molattn.models.calibration import Calibration, resolve_calibration_method, score_names
from molattn.models.config_schema import DOMAIN_SIZE_RANGE
from molattn.models.names import RANK
from molattn.models.predictions import NONE
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.target_transform import TargetTransform
from molattn.models.task import Task
from molattn.models.tensor_file import TensorSpec
from molattn.models.uncertainty import uncertainty_methods

MEMBERS_KEY, CALIBRATION_KEY, DOMAIN_KEY, TREES_KEY = "members", "calibration", "domain", "trees"
"""Keys of `config.json`, and prefixes of the names of tensors that do not belong to the first model; a dot follows."""

MAX_CALIBRATION_LENGTH = 1_000_000
"""The maximum length of the arrays of a calibration."""
MAX_TREES, MAX_TREE_NODES = 1_000_000, 20_000_000
"""The maximum numbers of trees of a target and of their nodes."""


def select_prefix(tensors: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The items named `prefix.NAME`, by NAME; for an empty prefix those of the first model."""
    if not prefix:
        others = (MEMBERS_KEY, CALIBRATION_KEY, DOMAIN_KEY, TREES_KEY)
        return {k: v for k, v in tensors.items() if k.partition(".")[0] not in others}
    return {k.removeprefix(f"{prefix}."): v for k, v in tensors.items() if k.startswith(f"{prefix}.")}


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


def target_settings(
    names: Sequence[str], units: Sequence[str], scaler: TargetScaler, class_priors: Sequence[Sequence[float]]
) -> list[dict[str, Any]]:
    """The settings of the targets: names, units, scaling, transforms, and class priors if there are any."""
    return [
        {"name": name, "unit": unit, "mean": mean, "std": std, **_transform_settings(scaler, t)}
        | ({"class_priors": list(class_priors[t])} if class_priors else {})
        for t, (name, unit, mean, std) in enumerate(zip(names, units, scaler.mean, scaler.std, strict=True))
    ]


def read_target_scaler(targets: Sequence[Mapping[str, Any]]) -> TargetScaler:
    """The scaler of the targets, with their transforms."""
    transforms = tuple(map(read_transform, targets))
    mean, std = (tuple(t[key] for t in targets) for key in ("mean", "std"))
    return TargetScaler(mean, std, transforms if any(transforms) else ())


def _transform_settings(scaler: TargetScaler, t: int) -> dict[str, Any]:
    """The setting `transform` of target t; empty if it has none."""
    f = scaler.transforms[t] if scaler.transforms else None
    if f is None:
        return {}
    knots = {"values": list(f.values), "scores": list(f.scores)} if f.values else {}
    return {"transform": {"name": f.name, **({"unit": f.unit} if f.unit else {}), **knots}}


def read_transform(target: Mapping[str, Any]) -> TargetTransform | None:
    """The transform in the settings of a target, None for none; raises ValueError for inconsistent settings."""
    if (settings := target.get("transform")) is None:
        return None
    values, scores = (tuple(map(float, settings.get(key, ()))) for key in ("values", "scores"))
    if settings["name"] == RANK and not values:
        raise ValueError("the target transform rank has no knots")
    return TargetTransform(settings["name"], settings.get("unit", ""), values, scores)


def descriptor_settings(scaler: DescriptorScaler | None) -> list[dict[str, Any]]:
    """The settings of the descriptors; empty if the model reads none."""
    if scaler is None:
        return []
    return [
        {"name": name, "mean": mean, "std": std, "computed": i >= len(scaler.provided)}
        for i, (name, mean, std) in enumerate(zip(scaler.names, scaler.mean, scaler.std, strict=True))
    ]


def read_descriptor_scaler(descriptors: Sequence[Mapping[str, Any]]) -> DescriptorScaler | None:
    """The scaler of the descriptors; None if the model reads none.

    Raises:
        UsageError: a descriptor that this RDKit does not compute.
    """
    if not descriptors:
        return None
    computed = tuple(d["name"] for d in descriptors if d["computed"])
    if unknown := unknown_descriptors(computed):
        raise UsageError(f"the descriptor {short_repr(unknown[0])}; upgrade rdkit or molattn")
    names, mean, std = (tuple(d[key] for d in descriptors) for key in ("name", "mean", "std"))
    return DescriptorScaler(names, mean, std, computed)


def calibration_tensors(calibration: Calibration | None) -> dict[str, Tensor]:
    """The scores of the calibration; empty for an uncalibrated model."""
    tensors = {}
    for t, target_scores in enumerate(() if calibration is None else calibration.scores):
        tensors |= _add_prefix(f"{CALIBRATION_KEY}.{t}", target_scores)
    return tensors


def _calibration_specs(task: Task, num_targets: int, found: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
    specs = {}
    for t in range(num_targets):
        prefix = f"{CALIBRATION_KEY}.{t}"
        for names in score_names(task, t):
            count = 1 if names == ("beta",) else _length(found, f"{prefix}.{names[0]}", 1, MAX_CALIBRATION_LENGTH)
            specs |= {f"{prefix}.{name}": TensorSpec(torch.float64, (count,)) for name in names}
    return specs


def read_calibration(config: Mapping[str, Any], tensors: Mapping[str, Tensor], task: Task) -> Calibration | None:
    """The calibration; None for an uncalibrated model.

    Raises:
        UsageError: unknown methods.
        ValidationError: scores that are not sorted.
    """
    if (settings := config[CALIBRATION_KEY]) is None:
        return None
    if resolve_calibration_method(settings["method"], task) == NONE:
        raise UsageError("a calibration by the method none")
    if settings["uncertainty"] not in uncertainty_methods():
        raise UsageError(f"a calibration of the uncertainty method {short_repr(settings['uncertainty'])}")
    scores = []
    for t in range(len(config["targets"])):
        prefix = f"{CALIBRATION_KEY}.{t}"
        target_scores = {name: tensors[f"{prefix}.{name}"].numpy() for k in score_names(task, t) for name in k}
        for name, values in target_scores.items():
            if (values[1:] < values[:-1]).any():
                raise ValidationError(f"the tensor '{prefix}.{name}' is not in ascending order")
        scores.append(target_scores)
    return Calibration(settings["method"], settings["uncertainty"], tuple(scores))


def domain_tensors(domain: ApplicabilityDomain | None) -> dict[str, Tensor]:
    """The molecules of the applicability domain; empty if the model has none."""
    return {} if domain is None else _add_prefix(DOMAIN_KEY, {"embeddings": domain.embeddings, "bits": domain.bits})


def _domain_specs(model: MoleculeModel, found: Mapping[str, TensorSpec]) -> dict[str, TensorSpec]:
    count = _length(found, f"{DOMAIN_KEY}.embeddings", 1, DOMAIN_SIZE_RANGE.maximum)
    return {
        f"{DOMAIN_KEY}.embeddings": TensorSpec(torch.float32, (count, model.head.in_features)),
        f"{DOMAIN_KEY}.bits": TensorSpec(torch.uint8, (count, FINGERPRINT_BYTES)),
    }


def read_domain(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ApplicabilityDomain | None:
    """The applicability domain; None if the model has none."""
    if (settings := config[DOMAIN_KEY]) is None:
        return None
    arrays = {name: x.numpy() for name, x in select_prefix(tensors, DOMAIN_KEY).items()}
    return ApplicabilityDomain(**arrays, **settings)


def trees_tensors(trees: BlendedTrees | None) -> dict[str, Tensor]:
    """The arrays of the boosted trees; empty for a model without them."""
    tensors = {}
    for t, target_trees in enumerate(() if trees is None else trees.trees):
        tensors |= _add_prefix(f"{TREES_KEY}.{t}", target_trees.arrays())
    return tensors


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


def read_trees(config: Mapping[str, Any], tensors: Mapping[str, Tensor], task: Task) -> BlendedTrees | None:
    """The boosted trees; None for a model without them.

    Raises:
        ValidationError: arrays that are not trees.
    """
    if (settings := config.get(TREES_KEY)) is None:
        return None
    width = sum(FEATURE_LENGTHS[name] for name in settings["featurizers"])
    trees = []
    for t in range(len(config["targets"])):
        arrays = {name: x.numpy() for name, x in select_prefix(tensors, f"{TREES_KEY}.{t}").items()}
        target_trees = BoostedTrees(num_features=width, outputs=tree_outputs(task, t), **arrays)
        try:
            target_trees.check()
        except ValueError as error:
            raise ValidationError(f"the tensors '{TREES_KEY}.{t}': {error}") from None
        trees.append(target_trees)
    return BlendedTrees(tuple(settings["featurizers"]), tuple(trees), tuple(settings["weights"]))


def _add_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Arrays as tensors, with names that begin with `prefix` and a dot."""
    return {f"{prefix}.{name}": torch.from_numpy(np.ascontiguousarray(values)) for name, values in arrays.items()}


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
