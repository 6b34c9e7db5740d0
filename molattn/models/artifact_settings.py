"""The parts of a model other than its networks, as written to `config.json` and read from it; without torch."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from molattn.chem import STANDARDIZE, ConformerOptions, ReadOptions, unknown_descriptors
from molattn.data.schema import ValidationError
from molattn.errors import InputError, UsageError, short_repr
from molattn.models.applicability_domain import ApplicabilityDomain
from molattn.models.calibration import Calibration, resolve_calibration_method, score_names
from molattn.models.config import CONFIGS
from molattn.models.names import RANK
from molattn.models.predictions import NONE
from molattn.models.readers import VOCABULARIES
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.target_transform import TargetTransform
from molattn.models.task import Task
from molattn.models.uncertainty import resolve_uncertainty_method, uncertainty_methods

MEMBERS_KEY, CALIBRATION_KEY, DOMAIN_KEY, TREES_KEY = "members", "calibration", "domain", "trees"
"""Keys of `config.json`, and prefixes of the names of tensors that do not belong to the first model; a dot follows."""
DISTANCES_KEY = "distances"
"""Whether a calibration has distances to the training molecules; left out if it has none."""


def select_prefix(tensors: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The items named `prefix.NAME`, by NAME; for an empty prefix those of the first model."""
    if not prefix:
        others = (MEMBERS_KEY, CALIBRATION_KEY, DOMAIN_KEY, TREES_KEY)
        return {k: v for k, v in tensors.items() if k.partition(".")[0] not in others}
    return {k.removeprefix(f"{prefix}."): v for k, v in tensors.items() if k.startswith(f"{prefix}.")}


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
    f = scaler.transform_of(t)
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


def calibration_settings(calibration: Calibration | None) -> dict[str, Any] | None:
    """The settings of the calibration; None for an uncalibrated model."""
    if calibration is None:
        return None
    distances = {DISTANCES_KEY: True} if calibration.has_distances else {}
    return {"method": calibration.method, "uncertainty": calibration.uncertainty_method} | distances


def calibration_arrays(calibration: Calibration | None) -> dict[str, np.ndarray]:
    """The scores of the calibration; empty for an uncalibrated model."""
    arrays = {}
    for t, target_scores in enumerate(() if calibration is None else calibration.scores):
        arrays |= add_prefix(f"{CALIBRATION_KEY}.{t}", target_scores)
    return arrays


def read_calibration(config: Mapping[str, Any], arrays: Mapping[str, np.ndarray], task: Task) -> Calibration | None:
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
        target_scores = {name: arrays[f"{prefix}.{name}"] for k in score_names(task, t) for name in k}
        for name, values in target_scores.items():
            if (values[1:] < values[:-1]).any():
                raise ValidationError(f"the tensor '{prefix}.{name}' is not in ascending order")
        scores.append(target_scores)
    return Calibration(settings["method"], settings["uncertainty"], tuple(scores), settings.get(DISTANCES_KEY, False))


def domain_arrays(domain: ApplicabilityDomain | None) -> dict[str, np.ndarray]:
    """The molecules of the applicability domain; empty if the model has none."""
    return {} if domain is None else add_prefix(DOMAIN_KEY, {"embeddings": domain.embeddings, "bits": domain.bits})


def read_domain(config: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> ApplicabilityDomain | None:
    """The applicability domain; None if the model has none."""
    if (settings := config[DOMAIN_KEY]) is None:
        return None
    return ApplicabilityDomain(**select_prefix(arrays, DOMAIN_KEY), **settings)


def check_featurizer(config: Mapping[str, Any], path: Path) -> None:
    """Raise an error if this molattn reads molecules in another way than the model was trained with.

    Args:
        config: the content of `config.json`.
        path: of the model, for messages.

    Raises:
        UsageError: an unknown standard form.
        InputError: another vocabulary.
    """
    standardize = config["molecules"]["standardize"]
    if standardize and standardize not in STANDARDIZE:
        raise UsageError(f"the standard form {short_repr(standardize)}; upgrade molattn")
    if config["vocabulary"] != VOCABULARIES[config["model"]["kind"]]():
        raise InputError(
            f"{path} was trained with another vocabulary of molecules than that of this molattn; use molattn "
            f"{config['molattn']} or train again"
        )


def read_parts(config: Mapping[str, Any], arrays: Mapping[str, np.ndarray], task: Task) -> dict[str, Any]:
    """The arguments of an `Artifact` except its models and trees.

    Args:
        config: the content of `config.json`, validated.
        arrays: those of the calibration and of the applicability domain.
        task: the one in `config`.

    Raises:
        UsageError, ValidationError: values that are unknown or inconsistent.
    """
    targets, method, molecules = config["targets"], config["uncertainty"], config["molecules"]
    conformers, count = molecules["conformers"], 1 + config[MEMBERS_KEY]
    calibration, domain = read_calibration(config, arrays, task), read_domain(config, arrays)
    if calibration is not None and calibration.has_distances and domain is None:
        raise ValidationError("the calibration has distances to training molecules, which the model does not have")
    dropout = CONFIGS[config["model"]["kind"]](**config["model"]).dropout
    return {
        "scaler": read_target_scaler(targets),
        "targets": tuple(t["name"] for t in targets),
        "units": tuple(t["unit"] for t in targets),
        "read_options": ReadOptions(**{**molecules, "conformers": conformers and ConformerOptions(**conformers)}),
        "task": task,
        "descriptors": read_descriptor_scaler(config["descriptors"]),
        "uncertainty_method": resolve_uncertainty_method(method["method"], task, count, dropout),
        "dropout_passes": method["samples"],
        "calibration": calibration,
        "domain": domain,
        "class_priors": tuple(tuple(t["class_priors"]) for t in targets if "class_priors" in t),
    }


def add_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays with names that begin with `prefix` and a dot."""
    return {f"{prefix}.{name}": values for name, values in arrays.items()}
