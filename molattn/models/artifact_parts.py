"""The parts of an artifact: read from its configuration and its tensors, and validated."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molattn.chem import unknown_descriptors
from molattn.data.schema import ValidationError
from molattn.errors import UsageError, short_repr
from molattn.models.applicability_domain import FINGERPRINT_BYTES, ApplicabilityDomain
from molattn.models.base import MoleculeModel
from molattn.models.calibration import NONE, Calibration, resolve_calibration_method, score_names
from molattn.models.config_file import DOMAIN_SIZE
from molattn.models.scaler import DescriptorScaler
from molattn.models.tasks import Task
from molattn.models.tensor_file import TensorSpec
from molattn.models.uncertainty import methods

MEMBERS, CALIBRATION, DOMAIN = "members", "calibration", "domain"
"""Prefixes of the names of tensors that are not of the first model; a dot follows."""

MAX_SCORES = 1_000_000


def select_prefix(tensors: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The items whose names begin with `prefix` and a dot, renamed without these; if it is empty, the first model's."""
    if not prefix:
        return {k: v for k, v in tensors.items() if k.partition(".")[0] not in (MEMBERS, CALIBRATION, DOMAIN)}
    return {k.removeprefix(f"{prefix}."): v for k, v in tensors.items() if k.startswith(f"{prefix}.")}


def member_prefix(i: int) -> str:
    """The prefix of the names of the tensors of model i; empty for the first."""
    return f"{MEMBERS}.{i}" if i else ""


def expected_specs(
    config: Mapping[str, Any], task: Task, model: MoleculeModel, found: Mapping[str, TensorSpec]
) -> dict[str, TensorSpec]:
    """The specs of all tensors of an artifact; where any length is allowed, the length of the tensor in `found`.

    Raises:
        ValidationError: a length is out of range.
    """
    model_specs = {name: TensorSpec(x.dtype, tuple(x.shape)) for name, x in model.state_dict().items()}
    specs = dict(model_specs)
    for i in range(1, 1 + config[MEMBERS]):
        specs |= {f"{member_prefix(i)}.{name}": spec for name, spec in model_specs.items()}
    if config[CALIBRATION] is not None:
        for t in range(len(config["targets"])):
            for names in score_names(task, t):
                count = 1 if names == ("b",) else _length(found, f"{CALIBRATION}.{t}.{names[0]}", 1, MAX_SCORES)
                specs |= {f"{CALIBRATION}.{t}.{name}": TensorSpec(torch.float64, (count,)) for name in names}
    if config[DOMAIN] is not None:
        count = _length(found, f"{DOMAIN}.embeddings", 1, DOMAIN_SIZE.maximum)
        specs[f"{DOMAIN}.embeddings"] = TensorSpec(torch.float32, (count, model.head.in_features))
        specs[f"{DOMAIN}.bits"] = TensorSpec(torch.uint8, (count, FINGERPRINT_BYTES))
    return specs


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


def read_descriptor_scaler(descriptors: Sequence[Mapping[str, Any]]) -> DescriptorScaler | None:
    """The scaler of the descriptors; None for a model without.

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


def read_calibration(config: Mapping[str, Any], tensors: Mapping[str, Tensor], task: Task) -> Calibration | None:
    """The calibration; None for a model without.

    Raises:
        UsageError: unknown methods.
        ValidationError: scores that are not sorted.
    """
    if (settings := config[CALIBRATION]) is None:
        return None
    if resolve_calibration_method(settings["method"], task) == NONE:
        raise UsageError("a calibration by the method none")
    if settings["uncertainty"] not in methods():
        raise UsageError(f"a calibration of the uncertainty method {short_repr(settings['uncertainty'])}")
    scores = []
    for t in range(len(config["targets"])):
        target_scores = {name: tensors[f"{CALIBRATION}.{t}.{name}"].numpy() for k in score_names(task, t) for name in k}
        for name, values in target_scores.items():
            if (values[1:] < values[:-1]).any():
                raise ValidationError(f"the tensor '{CALIBRATION}.{t}.{name}' is not in ascending order")
        scores.append(target_scores)
    return Calibration(settings["method"], settings["uncertainty"], tuple(scores))


def read_domain(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ApplicabilityDomain | None:
    """The applicability domain; None for a model without."""
    if (settings := config[DOMAIN]) is None:
        return None
    arrays = {name: x.numpy() for name, x in select_prefix(tensors, DOMAIN).items()}
    return ApplicabilityDomain(arrays["embeddings"], arrays["bits"], settings["farthest"], settings["least"])


def count_numbers(specs: Mapping[str, TensorSpec]) -> int:
    """The total number of elements of some tensors."""
    return sum(math.prod(spec.shape) for spec in specs.values())


def add_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[str, Tensor]]:
    """Arrays as tensors, with names that begin with `prefix` and a dot."""
    for name, values in arrays.items():
        yield f"{prefix}.{name}", torch.from_numpy(np.ascontiguousarray(values))
