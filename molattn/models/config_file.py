"""Reads and validates the configuration file of a model, `config.json`; see `config_schema` for its content."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from molattn.data.schema import CHECKSUMS, ValidationError, loads_checksummed
from molattn.errors import InputError, short_repr
from molattn.models.artifact_settings import CALIBRATION_KEY, DOMAIN_KEY, TREES_KEY, read_transform
from molattn.models.config import CONFIGS, GraphModelConfig, ModelConfig
from molattn.models.config_schema import CONFIG_SCHEMA, MODEL_FIELDS, SCHEMA, WORD
from molattn.models.losses import LOSSES
from molattn.models.tasks import Regression

WEIGHTS, CONFIG_JSON, NEXT_CONFIG = "model.safetensors", "config.json", "config.next.json"

MAX_CONFIG_BYTES = 16 * 2**20
"""Maximum size of a configuration; 617 targets take 0.1 MB."""


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
        return parse_config(path.read_bytes(), folder)
    except FileNotFoundError:
        raise InputError(f"{folder} contains no model: {name} is missing; give the folder of a finished run") from None
    except ValidationError as error:
        raise InputError(f"{path} is damaged or was changed: {error}; copy it again") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        why = str(error).partition("\n")[0]
        raise InputError(f"{path} is damaged, it cannot be read ({why}); copy it again") from error


def parse_config(data: bytes, model: Path) -> dict[str, Any]:
    """The configuration in the content of `config.json`, validated as by `read_config_file`.

    Args:
        data: the content.
        model: the path of the model, for messages.

    Raises:
        ValueError: it is damaged or invalid.
        InputError: it is newer than this molattn, or of an unknown kind.
    """
    content, is_intact = loads_checksummed(data, CONFIG_JSON)
    _check_schema(model, content)
    if not is_intact:
        raise ValidationError("its content does not match the checksum in it")
    config = CONFIG_SCHEMA.validate(content, "")
    _check_checksums(config)
    config["model"] = _model(config["model"], model)
    _check_consistency(config)
    return config


def model_config_of(config: Mapping[str, Any]) -> ModelConfig:
    """The model configuration in the contents of `config.json`."""
    return CONFIGS[config["model"]["kind"]](**config["model"])


def _check_schema(folder: Path, content: dict[str, Any]) -> None:
    schema, version = content.get("schema"), content.get("molattn")
    if type(schema) is int and schema > SCHEMA:
        readable = isinstance(version, str) and len(version) <= 40 and version.isascii() and version.isprintable()
        writer = f"molattn {version}" if readable else "a later version of molattn"
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
    _check_targets(config["targets"], config["task"])
    _check_descriptors(config["descriptors"])
    _check_classes(config["targets"], config["task"])
    task = config["task"]
    if "alpha" in task and task["loss"] in LOSSES and not LOSSES[task["loss"]].has_quantiles:
        raise ValidationError(f"task.alpha applies only to the loss quantile, not to {short_repr(task['loss'])}")
    _check_parts(config)
    _check_3d(config)


def _check_targets(targets: Sequence[Mapping[str, Any]], task: Mapping[str, Any]) -> None:
    _check_unique("targets", [target["name"] for target in targets])
    for t, target in enumerate(targets):
        if "transform" not in target:
            continue
        if task["kind"] != Regression.kind or task["atom_level"]:
            raise ValidationError(f"targets[{t}].transform applies only to regression with molecule-level targets")
        try:
            read_transform(target)
        except ValueError as error:
            raise ValidationError(f"targets[{t}].transform: {error}") from None


def _check_descriptors(descriptors: Sequence[Mapping[str, Any]]) -> None:
    _check_unique("descriptors", [d["name"] for d in descriptors])
    computed = [d["computed"] for d in descriptors]
    if computed != sorted(computed):
        raise ValidationError("descriptors has one that is computed before one that is not")


def _check_classes(targets: Sequence[Mapping[str, Any]], task: Mapping[str, Any]) -> None:
    """Raise ValidationError for classes, or class priors, that do not match the kind and number of the targets."""
    kind, classes = task["kind"], task.get("classes")
    if (classes is None) if kind == "multiclass" else (classes is not None and kind != "binary"):
        needs = "needs" if classes is None else "has no"
        raise ValidationError(f"a task of the kind {short_repr(kind)} {needs} task.classes")
    if classes is not None and len(classes) != len(targets):
        raise ValidationError(f"task.classes has {len(classes):,} targets, and there are {len(targets):,}")
    for t, names in enumerate(classes or ()):
        _check_unique(f"task.classes[{t}]", names)
        if kind == "binary" and len(names) != 2:
            raise ValidationError(f"task.classes[{t}] has {len(names):,} names, and a binary target has two classes")
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


def _check_parts(config: Mapping[str, Any]) -> None:
    """Raise ValidationError for a wrong number of tree weights, or for parts that atom-level targets cannot have."""
    targets, trees = config["targets"], config.get(TREES_KEY)
    if trees is not None:
        _check_unique("trees.featurizers", trees["featurizers"])
        if len(trees["weights"]) != len(targets):
            raise ValidationError(
                f"trees.weights are those of {len(trees['weights']):,} targets, and there are {len(targets):,}"
            )
    molecule_level = (CALIBRATION_KEY, DOMAIN_KEY, TREES_KEY)
    if config["task"]["atom_level"] and (found := next((k for k in molecule_level if config.get(k) is not None), None)):
        raise ValidationError(f"{found} applies only to molecule-level targets, and task.atom_level is true")


def _check_3d(config: Mapping[str, Any]) -> None:
    three_d, model = config["molecules"]["conformers"] is not None, model_config_of(config)
    if three_d and not isinstance(model, GraphModelConfig):
        raise ValidationError(
            f"molecules.conformers applies only to a graph model, and model.kind is {short_repr(model.kind)}"
        )
    if model.needs_3d and not three_d:
        raise ValidationError("model.edges reads distances, and molecules.conformers is null")


def _check_unique(field: str, names: Any) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValidationError(f"{field} has {short_repr(name)} twice")
        seen.add(name)
