"""What a configuration and its tensors make of the parts of a model, each held to what it must be."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molattn.chem import unknown_descriptors
from molattn.data.schema import Misfit
from molattn.errors import UsageError, short_repr
from molattn.models.applicability_domain import FINGERPRINT_BYTES, ApplicabilityDomain
from molattn.models.base import MoleculeModel
from molattn.models.calibration import NONE, Calibration, resolve_calibration_method, score_names
from molattn.models.config_file import DOMAIN_SIZE
from molattn.models.scaler import DescriptorScaler
from molattn.models.tasks import Task
from molattn.models.tensor_file import Form
from molattn.models.uncertainty import METHODS

MEMBERS, CALIBRATION, DOMAIN = "members", "calibration", "domain"
"""What the names of tensors begin with that are not the first model's; a dot follows."""

MOST_SCORES = 1_000_000


def part(tensors: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """What has a name that begins with `prefix` and a dot, without it; that of the first model for no prefix."""
    if not prefix:
        return {k: v for k, v in tensors.items() if k.partition(".")[0] not in (MEMBERS, CALIBRATION, DOMAIN)}
    return {k.removeprefix(f"{prefix}."): v for k, v in tensors.items() if k.startswith(f"{prefix}.")}


def member(i: int) -> str:
    """What the names of the tensors of model i begin with; that of the first is empty."""
    return f"{MEMBERS}.{i}" if i else ""


def wanted_forms(
    config: Mapping[str, Any], task: Task, model: MoleculeModel, found: Mapping[str, Form]
) -> dict[str, Form]:
    """The tensors that a model has, and what lies beside it; those of a free length are as long as they were found.

    Raises:
        Misfit: a length that is out of range.
    """
    own = {name: Form(x.dtype, tuple(x.shape)) for name, x in model.state_dict().items()}
    forms = dict(own)
    for i in range(1, 1 + config.get(MEMBERS, 0)):
        forms |= {f"{member(i)}.{name}": form for name, form in own.items()}
    if CALIBRATION in config:
        for t in range(len(config["targets"])):
            for names in score_names(task, t):
                count = 1 if names == ("b",) else _length(found, f"{CALIBRATION}.{t}.{names[0]}", 1, MOST_SCORES)
                forms |= {f"{CALIBRATION}.{t}.{name}": Form(torch.float64, (count,)) for name in names}
    if DOMAIN in config:
        count = _length(found, f"{DOMAIN}.embeddings", 1, DOMAIN_SIZE.most)
        forms[f"{DOMAIN}.embeddings"] = Form(torch.float32, (count, model.head.in_features))
        forms[f"{DOMAIN}.bits"] = Form(torch.uint8, (count, FINGERPRINT_BYTES))
    return forms


def _length(found: Mapping[str, Form], name: str, least: int, most: int) -> int:
    """The length of a tensor that was found, if it is in range."""
    if name not in found:
        raise Misfit(f"the tensor {short_repr(name)} is missing")
    shape = found[name].shape
    if not shape or not least <= shape[0] <= most:
        raise Misfit(f"the tensor {short_repr(name)} is {found[name]}; its length is from {least:,} to {most:,}")
    return shape[0]


def scaler_of(beside: Sequence[Mapping[str, Any]]) -> DescriptorScaler | None:
    """What stands beside each molecule; None for nothing.

    Raises:
        UsageError: a descriptor that RDKit does not compute here.
    """
    if not beside:
        return None
    computed = tuple(d["name"] for d in beside if d.get("computed"))
    if unknown := unknown_descriptors(computed):
        raise UsageError(f"the descriptor {short_repr(unknown[0])}; upgrade rdkit or molattn")
    names, mean, std = (tuple(d[key] for d in beside) for key in ("name", "mean", "std"))
    return DescriptorScaler(names, mean, std, computed)


def calibration_of(config: Mapping[str, Any], tensors: Mapping[str, Tensor], task: Task) -> Calibration | None:
    """What the calibration molecules taught; None for a model without.

    Raises:
        UsageError: methods that are not here.
        Misfit: scores that are not in order.
    """
    if (said := config.get(CALIBRATION)) is None:
        return None
    if resolve_calibration_method(said["method"], task) == NONE:
        raise UsageError("a calibration by the method none")
    if said["uncertainty"] not in METHODS:
        raise UsageError(f"a calibration of the uncertainty method {short_repr(said['uncertainty'])}")
    scores = []
    for t in range(len(config["targets"])):
        of_target = {name: tensors[f"{CALIBRATION}.{t}.{name}"].numpy() for k in score_names(task, t) for name in k}
        for name, values in of_target.items():
            if (values[1:] < values[:-1]).any():
                raise Misfit(f"the tensor '{CALIBRATION}.{t}.{name}' is not in ascending order")
        scores.append(of_target)
    return Calibration(said["method"], said["uncertainty"], tuple(scores))


def domain_of(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> ApplicabilityDomain | None:
    """The training molecules to compare with; None for a model without."""
    if (said := config.get(DOMAIN)) is None:
        return None
    arrays = {name: x.numpy() for name, x in part(tensors, DOMAIN).items()}
    return ApplicabilityDomain(arrays["embeddings"], arrays["bits"], said["farthest"], said["least"])


def numbers_of(forms: Mapping[str, Form]) -> int:
    """How many numbers some tensors have together."""
    return sum(math.prod(form.shape) for form in forms.values())


def tensors_of_part(prefix: str, arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[str, Tensor]]:
    """Arrays as tensors, by names that begin with `prefix` and a dot."""
    for name, values in arrays.items():
        yield f"{prefix}.{name}", torch.from_numpy(np.ascontiguousarray(values))
