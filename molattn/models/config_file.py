"""The configuration file of an artifact: its schema, its validation, and the objects built from it and the tensors."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from molattn.chem import FEATURE_LENGTHS, unknown_descriptors
from molattn.data.schema import (
    CHECKSUMS,
    Boolean,
    InstanceOf,
    Integer,
    ListOf,
    Nullable,
    Number,
    OneOf,
    Record,
    Schema,
    String,
    ValidationError,
    loads_checksummed,
)
from molattn.errors import InputError, UsageError, short_repr
from molattn.models.applicability_domain import FINGERPRINT_BYTES, ApplicabilityDomain
from molattn.models.base import MoleculeModel
from molattn.models.boosted_trees import TREE_ARRAYS, BoostedTrees
from molattn.models.calibration import NONE, Calibration, resolve_calibration_method, score_names
from molattn.models.config import CONFIGS, GraphModelConfig, ModelConfig
from molattn.models.losses import LOSSES
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.stacked_trees import StackedTrees, tree_outputs
from molattn.models.target_transform import MAX_KNOTS, MOLAR, RANK, TRANSFORMS, TargetTransform
from molattn.models.tasks import Regression, Task
from molattn.models.tensor_file import TensorSpec
from molattn.models.uncertainty import uncertainty_methods

SCHEMA = 1
"""The version of the file format. From the first release on, a later molattn reads all earlier versions."""

WEIGHTS, CONFIG_JSON, NEXT_CONFIG = "model.safetensors", "config.json", "config.next.json"

MAX_CONFIG_BYTES = 16 * 2**20
"""Maximum size of a configuration; 617 targets take 0.1 MB."""

# Targets and descriptors have the names of table columns, which may be as long as a field of `csv`.
NAME, WORD = String(131_072), String(100, min_length=1)
MAX_ATOMS, SAMPLES, TIMEOUT = Integer(1, 10_000), Integer(2, 1_000), Integer(1, 86_400)
DOMAIN_SIZE, NUM_MEMBERS = Integer(0, 100_000), Integer(0, 1_000)
MAX_TARGETS = 20_000

_SIZE = Integer(1, 65_536)
_SHARED: dict[str, Schema] = {
    "kind": WORD,
    "hidden_dim": _SIZE,
    "num_layers": Integer(1, 1_000),
    "num_heads": _SIZE,
    "feed_forward": Integer(1, 1_024),
    "dropout": Number(0.0, 0.999_999),
}
MODEL_FIELDS: Mapping[str, Record] = {
    "graph": Record(
        {"kind": WORD},
        {
            **_SHARED,
            "attention": WORD,
            "edges": ListOf(WORD, 100),
            "join_edges": WORD,
            "edge_dim": _SIZE,
            "nodes": ListOf(WORD, 100),
            "neighbours": WORD,
            "virtual_node": Boolean(),
            "global_dim": Integer(0, 65_536),
            "readout": WORD,
            "max_path": Integer(1, 100_000),
            "path_edges": Integer(1, 1_000),
            "walk_steps": Integer(1, 1_000),
            "radial_bases": WORD,
            "num_bases": Integer(1, 10_000),
            "cutoff": Number(1e-6, 1e6),
            "distance_kernel": WORD,
            "lambdas": ListOf(Number(-1e3, 1e3), 1_000, min_length=1),
            "score": WORD,
            "normalizer": WORD,
            "join": WORD,
            "temperature": Number(0.0, 1e30),
        },
    ),
    "smiles-transformer": Record({"kind": WORD}, _SHARED),
}
"""The settings of each kind of model; a setting that is missing has its default."""

_KNOTS = ListOf(Number(), MAX_KNOTS, min_length=1)
_TRANSFORM = Record({"name": OneOf(TRANSFORMS)}, {"unit": OneOf(tuple(MOLAR)), "values": _KNOTS, "scores": _KNOTS})
_TARGET = Record(
    {"name": NAME, "unit": NAME, "mean": Number(), "std": Number(0.0, exclusive=True)},
    {"transform": _TRANSFORM, "class_priors": ListOf(Number(0.0, 1.0), MAX_TARGETS, min_length=1)},
)
_DESCRIPTOR = Record({"name": NAME, "mean": Number(), "std": Number(0.0), "computed": Boolean()})
_CONFORMERS = Record(
    {"seed": Integer(0, 2**31 - 2), "timeout": TIMEOUT, "on_failure": OneOf(("paths", "reject", "stop"))}
)
_TASK = Record(
    {"kind": WORD, "loss": WORD, "atom_level": Boolean()},
    {
        "classes": ListOf(ListOf(NAME, MAX_TARGETS, min_length=1), MAX_TARGETS),
        "alpha": Number(0.0, 1.0, exclusive=True),
    },
)
_CONFIG = Record(
    {
        "schema": Integer(1, SCHEMA),
        "molattn": WORD,
        "model": InstanceOf(dict, "an object with fields"),
        "targets": ListOf(_TARGET, MAX_TARGETS, min_length=1),
        "task": _TASK,
        "molecules": Record(
            {
                "add_hs": Boolean(),
                "max_atoms": MAX_ATOMS,
                "standardize": String(100),
                "conformers": Nullable(_CONFORMERS),
            }
        ),
        "descriptors": ListOf(_DESCRIPTOR, MAX_TARGETS),
        "members": NUM_MEMBERS,
        "uncertainty": Record({"method": WORD, "samples": Integer(1, SAMPLES.maximum)}),
        "calibration": Nullable(Record({"method": WORD, "uncertainty": WORD})),
        "domain": Nullable(Record({"max_distance": Number(0.0), "min_similarity": Number(0.0, 1.0)})),
        "vocabulary": InstanceOf(dict, "an object with fields"),
        CHECKSUMS: InstanceOf(dict, "an object with checksums"),
    },
    {
        "trees": Record(
            {
                "featurizers": ListOf(OneOf(tuple(FEATURE_LENGTHS)), len(FEATURE_LENGTHS), min_length=1),
                "weights": ListOf(Number(0.0, 1.0), MAX_TARGETS, min_length=1),
            }
        )
    },
)


def read_config_file(folder: Path, name: str = CONFIG_JSON) -> dict[str, Any]:
    """The configuration of the model in `folder`, validated: checksums, schema, and the type and range of each value.

    Values that depend on each other are checked for consistency. The names of attentions, losses and descriptors are
    not checked here: other modules define them.

    Raises:
        InputError: the file is missing, damaged, newer than this molattn, or invalid.
    """
    path = folder / name
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise ValidationError(f"it has over {MAX_CONFIG_BYTES:,} bytes")
        content, whole = loads_checksummed(path.read_bytes(), CONFIG_JSON)
        _check_schema(folder, content)
        if not whole:
            raise ValidationError("its content does not match the checksum in it")
        config = _CONFIG.validate(content, "")
        _check_checksums(config)
        config["model"] = _model(config["model"], folder)
        _check_consistency(config)
    except FileNotFoundError:
        raise InputError(f"{folder} contains no model: {name} is missing; give the folder of a finished run") from None
    except ValidationError as error:
        raise InputError(f"{path} is damaged or was changed: {error}; copy it again") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        why = str(error).partition("\n")[0]
        raise InputError(f"{path} is damaged, it cannot be read ({why}); copy it again") from error
    return config


def model_config_of(config: Mapping[str, Any]) -> ModelConfig:
    """The model configuration in the contents of `config.json`."""
    return CONFIGS[config["model"]["kind"]](**config["model"])


def _check_schema(folder: Path, content: dict[str, Any]) -> None:
    schema, version = content.get("schema"), content.get("molattn")
    if type(schema) is int and schema > SCHEMA:
        known = isinstance(version, str) and len(version) <= 40 and version.isascii() and version.isprintable()
        writer = f"molattn {version}" if known else "a later version of molattn"
        raise InputError(f"{folder} was written by {writer}: upgrade molattn")


def _check_checksums(config: dict[str, Any]) -> None:
    checksums = config[CHECKSUMS]
    for name in checksums:
        if name not in (WEIGHTS, CONFIG_JSON):
            raise ValidationError(f"{CHECKSUMS} has a checksum of {short_repr(name)}, which is not a file of a model")
    for name in (WEIGHTS, CONFIG_JSON):
        if type(checksums.get(name)) is not str:
            raise ValidationError(f"{CHECKSUMS} has no checksum of {name}")


def _model(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The settings of a model, by its kind."""
    kind = WORD.validate(settings.get("kind"), "model.kind")
    if kind not in CONFIGS:
        raise InputError(f"{folder} is a model of the kind {short_repr(kind)}; this molattn has {', '.join(CONFIGS)}")
    return MODEL_FIELDS[kind].validate(settings, "model")


def _check_consistency(config: dict[str, Any]) -> None:
    """Raise ValidationError for values that are in range but inconsistent."""
    targets, task = config["targets"], config["task"]
    _check_unique("targets", [target["name"] for target in targets])
    for t, target in enumerate(targets):
        if "transform" not in target:
            continue
        if task["kind"] != Regression.kind or task["atom_level"]:
            raise ValidationError(f"targets[{t}].transform applies only to regression with molecule-level targets")
        try:
            _transform(target)
        except ValueError as error:
            raise ValidationError(f"targets[{t}].transform: {error}") from None
    _check_unique("descriptors", [d["name"] for d in config["descriptors"]])
    computed = [d["computed"] for d in config["descriptors"]]
    if computed != sorted(computed):
        raise ValidationError("descriptors has one that is computed before one that is not")
    classes = task.get("classes")
    if (classes is None) if task["kind"] == "multiclass" else (classes is not None and task["kind"] != "binary"):
        needs = "needs" if classes is None else "has no"
        raise ValidationError(f"a task of the kind {short_repr(task['kind'])} {needs} task.classes")
    if classes is not None and len(classes) != len(targets):
        raise ValidationError(f"task.classes has {len(classes):,} targets, and there are {len(targets):,}")
    for t, names in enumerate(classes or ()):
        _check_unique(f"task.classes[{t}]", names)
        if task["kind"] == "binary" and len(names) != 2:
            raise ValidationError(f"task.classes[{t}] has {len(names):,} names, and a binary target has two classes")
    _check_class_priors(targets, task["kind"], classes)
    if "alpha" in task and task["loss"] in LOSSES and not LOSSES[task["loss"]].has_quantiles:
        raise ValidationError(f"task.alpha applies only to the loss quantile, not to {short_repr(task['loss'])}")
    trees = config.get(TREES)
    if trees is not None:
        _check_unique("trees.featurizers", trees["featurizers"])
        if len(trees["weights"]) != len(targets):
            raise ValidationError(
                f"trees.weights are those of {len(trees['weights']):,} targets, and there are {len(targets):,}"
            )
    of_molecules = (CALIBRATION, DOMAIN, TREES)
    if task["atom_level"] and (found := next((k for k in of_molecules if config.get(k) is not None), None)):
        raise ValidationError(f"{found} applies only to molecule-level targets, and task.atom_level is true")
    three_d, model = config["molecules"]["conformers"] is not None, model_config_of(config)
    if three_d and not isinstance(model, GraphModelConfig):
        raise ValidationError(
            f"molecules.conformers applies only to a graph model, and model.kind is {short_repr(model.kind)}"
        )
    if model.needs_3d and not three_d:
        raise ValidationError("model.edges reads distances, and molecules.conformers is null")


def _check_class_priors(
    targets: Sequence[Mapping[str, Any]], kind: str, classes: Sequence[Sequence[str]] | None
) -> None:
    """Raise ValidationError unless all targets or none have a prior of each of their classes."""
    if not (found := [t for t, target in enumerate(targets) if "class_priors" in target]):
        return
    if kind == Regression.kind:
        raise ValidationError(f"targets[{found[0]}].class_priors applies only to classification, not to regression")
    if len(found) != len(targets):
        raise ValidationError(f"{len(found):,} of {len(targets):,} targets have class_priors")
    for t, target in enumerate(targets):
        priors, count = target["class_priors"], len(classes[t]) if classes else 2
        if len(priors) != count:
            raise ValidationError(f"targets[{t}].class_priors has {len(priors):,} numbers for {count:,} classes")
        if abs(sum(priors) - 1) > 1e-6:
            raise ValidationError(f"targets[{t}].class_priors sums to {sum(priors):g}, not to 1")


def _check_unique(field: str, names: Any) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValidationError(f"{field} has {short_repr(name)} twice")
        seen.add(name)


MEMBERS, CALIBRATION, DOMAIN, TREES = "members", "calibration", "domain", "trees"
"""Prefixes of the names of tensors that do not belong to the first model; a dot follows."""

MAX_LENGTH = 1_000_000
MAX_TREES, MAX_TREE_NODES = 1_000_000, 20_000_000
"""The maximum numbers of trees of a target and of their nodes."""


def select_prefix(tensors: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The items named `prefix.NAME`, by NAME; for an empty prefix those of the first model."""
    if not prefix:
        return {k: v for k, v in tensors.items() if k.partition(".")[0] not in (MEMBERS, CALIBRATION, DOMAIN, TREES)}
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
                count = 1 if names == ("beta",) else _length(found, f"{CALIBRATION}.{t}.{names[0]}", 1, MAX_LENGTH)
                specs |= {f"{CALIBRATION}.{t}.{name}": TensorSpec(torch.float64, (count,)) for name in names}
    if config[DOMAIN] is not None:
        count = _length(found, f"{DOMAIN}.embeddings", 1, DOMAIN_SIZE.maximum)
        specs[f"{DOMAIN}.embeddings"] = TensorSpec(torch.float32, (count, model.head.in_features))
        specs[f"{DOMAIN}.bits"] = TensorSpec(torch.uint8, (count, FINGERPRINT_BYTES))
    if config.get(TREES) is not None:
        for t in range(len(config["targets"])):
            prefix = f"{TREES}.{t}"
            counts = {
                "leaves": _length(found, f"{prefix}.leaves", 1, MAX_TREES),
                "feature": _length(found, f"{prefix}.feature", 0, MAX_TREE_NODES),
                "value": _length(found, f"{prefix}.value", 1, MAX_TREE_NODES),
            }
            for name, (dtype, like) in TREE_ARRAYS.items():
                specs[f"{prefix}.{name}"] = TensorSpec(torch.from_numpy(np.empty(0, dtype)).dtype, (counts[like],))
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


def transform_settings(scaler: TargetScaler, t: int) -> dict[str, Any]:
    """The transform of target t as written to `config.json`; empty if it has none."""
    f = scaler.transforms[t] if scaler.transforms else None
    if f is None:
        return {}
    knots = {"values": list(f.values), "scores": list(f.scores)} if f.values else {}
    return {"transform": {"name": f.name, **({"unit": f.unit} if f.unit else {}), **knots}}


def read_target_scaler(targets: Sequence[Mapping[str, Any]]) -> TargetScaler:
    """The scaler of the targets, with their transforms."""
    transforms = tuple(map(_transform, targets))
    mean, std = (tuple(t[key] for t in targets) for key in ("mean", "std"))
    return TargetScaler(mean, std, transforms if any(transforms) else ())


def _transform(target: Mapping[str, Any]) -> TargetTransform | None:
    """The transform in the settings of a target, None for none; raises ValueError for inconsistent settings."""
    if (settings := target.get("transform")) is None:
        return None
    values, scores = (tuple(map(float, settings.get(key, ()))) for key in ("values", "scores"))
    if settings["name"] == RANK and not values:
        raise ValueError("the target transform rank has no knots")
    return TargetTransform(settings["name"], settings.get("unit", ""), values, scores)


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


def read_calibration(config: Mapping[str, Any], tensors: Mapping[str, Tensor], task: Task) -> Calibration | None:
    """The calibration; None for an uncalibrated model.

    Raises:
        UsageError: unknown methods.
        ValidationError: scores that are not sorted.
    """
    if (settings := config[CALIBRATION]) is None:
        return None
    if resolve_calibration_method(settings["method"], task) == NONE:
        raise UsageError("a calibration by the method none")
    if settings["uncertainty"] not in uncertainty_methods():
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
    """The applicability domain; None if the model has none."""
    if (settings := config[DOMAIN]) is None:
        return None
    arrays = {name: x.numpy() for name, x in select_prefix(tensors, DOMAIN).items()}
    return ApplicabilityDomain(**arrays, **settings)


def read_trees(config: Mapping[str, Any], tensors: Mapping[str, Tensor], task: Task) -> StackedTrees | None:
    """The boosted trees; None for a model without them.

    Raises:
        ValidationError: arrays that are not trees.
    """
    if (settings := config.get(TREES)) is None:
        return None
    width = sum(FEATURE_LENGTHS[name] for name in settings["featurizers"])
    trees = []
    for t in range(len(config["targets"])):
        arrays = {name: x.numpy() for name, x in select_prefix(tensors, f"{TREES}.{t}").items()}
        of_target = BoostedTrees(num_features=width, outputs=tree_outputs(task, t), **arrays)
        try:
            of_target.check()
        except ValueError as error:
            raise ValidationError(f"the tensors '{TREES}.{t}': {error}") from None
        trees.append(of_target)
    return StackedTrees(tuple(settings["featurizers"]), tuple(trees), tuple(settings["weights"]))


def count_numbers(specs: Mapping[str, TensorSpec]) -> int:
    """The total number of elements of some tensors."""
    return sum(math.prod(spec.shape) for spec in specs.values())


def add_prefix(prefix: str, arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[str, Tensor]]:
    """Arrays as tensors, with names that begin with `prefix` and a dot."""
    for name, values in arrays.items():
        yield f"{prefix}.{name}", torch.from_numpy(np.ascontiguousarray(values))
