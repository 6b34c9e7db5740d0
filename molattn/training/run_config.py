"""The settings of a run: read from TOML files and `section.key=value`, and checked.

Importing this module does not import torch.
"""

import dataclasses
import math
import tomllib
import types
import typing
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from molattn.errors import UsageError, unknown_choice
from molattn.models.config import CONFIGS, GraphModelConfig, ModelConfig
from molattn.models.presets import PRESETS
from molattn.plugins import load_plugins
from molattn.training.bases import AUTO_BASE, NO_BASE, find_base, with_base_settings
from molattn.training.config import DataConfig, TrainingConfig


@dataclass(frozen=True)
class RunConfig:
    """All settings of a run, by the sections of its `config.toml`.

    `explicit_keys` are the settings that were set explicitly, as "section.key"; the others may depend on them.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=GraphModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    explicit_keys: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Sections of plain values, as in a TOML file."""
        return {
            section: {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
            for section, values in ((name, dataclasses.asdict(getattr(self, name))) for name in SECTIONS)
        }

    @property
    def explicit_model_keys(self) -> set[str]:
        """The settings of the model that were set explicitly, without their section."""
        return {key.removeprefix("model.") for key in self.explicit_keys if key.startswith("model.")}

    def explicit_settings(self) -> dict[str, dict[str, Any]]:
        """As `to_dict`, only those settings that were set explicitly."""
        found = {
            section: {key: value for key, value in values.items() if f"{section}.{key}" in self.explicit_keys}
            for section, values in self.to_dict().items()
        }
        return {section: values for section, values in found.items() if values}

    def updated(self, sections: dict[str, Any], source: str) -> "RunConfig":
        """This configuration with the values of `sections`; `source` is named in error messages.

        Raises:
            UsageError: a section or key that does not exist, or a value of the wrong type.
        """
        changed: dict[str, Any] = {}
        explicit: set[str] = set()
        for section, values in sections.items():
            if section not in SECTIONS:
                raise UsageError(f"{source}: {unknown_choice('section', section, SECTIONS)}")
            if not isinstance(values, dict):
                raise UsageError(f"{source}: {section} is a section; write its settings below [{section}]")
            current = getattr(self, section)
            if section == "model":
                current = _of_kind(current, values.get("kind", current.kind), source)
            hints = typing.get_type_hints(type(current))
            chosen = {}
            for key, value in values.items():
                if key not in hints:
                    raise UsageError(f"{source}: {unknown_choice(f'setting of [{section}]', key, hints)}")
                chosen[key] = _coerced(value, hints[key], f"{source}: {section}.{key}")
            changed[section] = dataclasses.replace(current, **chosen)
            explicit.update(f"{section}.{key}" for key in chosen)
        return dataclasses.replace(self, **changed, explicit_keys=self.explicit_keys | explicit)


def resolve(
    config: str | Path | dict[str, Any] | None, options: dict[str, Any], settings: Iterable[str] = ()
) -> RunConfig:
    """The settings of a run, each source overriding those before it: defaults, `preset`, file, options, `settings`.

    Options that are None are ignored.

    Args:
        config: the path of a TOML file, or its sections; None for none.
        options: values by the names of settings, without their sections; also `preset`, and `model` for its kind.
        settings: texts `section.key=value`.

    Raises:
        UsageError: as `RunConfig.updated`; or a plugin cannot be loaded.
    """
    load_plugins()
    resolved = RunConfig()
    options = dict(options)
    preset = options.pop("preset", None)
    if preset is not None:
        if preset not in PRESETS:
            raise UsageError(unknown_choice("preset", preset, PRESETS))
        resolved = resolved.updated(PRESETS[preset].settings, f"preset {preset}")
    if config is not None:
        sections, source = (config, "config") if isinstance(config, dict) else (read_config(config), str(config))
        resolved = resolved.updated(sections, source)
    place_of = {f.name: (section, f.name) for section, types in SECTIONS.items() for t in types for f in fields(t)}
    place_of["model"] = ("model", "kind")
    # The kind of model first, because the other settings depend on it.
    for name, value in sorted(options.items(), key=lambda option: option[0] != "model"):
        if name not in place_of:
            raise UsageError(unknown_choice("option", name, place_of))
        if value is not None:
            section, key = place_of[name]
            resolved = resolved.updated({section: {key: value}}, f"option {name}")
    for text in settings:
        resolved = resolved.updated(parse_setting(text), f"--set {text}")
    if preset is not None and resolved.model.kind != "graph":
        raise UsageError(f"the preset {preset} is of the model graph, not of {resolved.model.kind}: leave one out")
    if resolved.training.base not in (AUTO_BASE, NO_BASE):
        base = find_base(resolved.training.base)
        resolved = dataclasses.replace(
            resolved,
            model=with_base_settings(base, resolved.model, resolved.explicit_model_keys),
            training=dataclasses.replace(resolved.training, base=base.name),
        )
    if resolved.model.needs_3d and not resolved.data.conformers:
        raise UsageError("model.edges reads 3D distances, which are not computed: add --set data.conformers=true")
    return resolved


# The possible classes of each section.
SECTIONS: dict[str, tuple[type, ...]] = {
    "data": (DataConfig,),
    "model": tuple(CONFIGS.values()),
    "training": (TrainingConfig,),
}


def _of_kind(current: ModelConfig, kind: Any, source: str) -> ModelConfig:
    """`current` if it is of this kind, otherwise the defaults of `kind`."""
    if kind == current.kind:
        return current
    if kind not in CONFIGS:
        raise UsageError(f"{source}: {unknown_choice('model', kind, CONFIGS)}")
    return CONFIGS[kind]()


def read_config(path: str | Path) -> dict[str, Any]:
    """The sections of a TOML file.

    Raises:
        UsageError: the file is missing or is not TOML.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no configuration file {str(path)!r}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply for settings") from None


def parse_setting(text: str) -> dict[str, dict[str, Any]]:
    """Parse `section.key=value`; the value is TOML, or otherwise text.

    >>> parse_setting("model.num_layers=6")
    {'model': {'num_layers': 6}}
    >>> parse_setting("model.readout=sum")
    {'model': {'readout': 'sum'}}
    """
    name, equals, value = text.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and section and key):
        raise UsageError(f"--set {text!r}: write section.key=value, for example --set model.num_layers=6")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    return {section: {key: parsed}}


def _coerced(value: Any, hint: Any, where: str) -> Any:
    """`value` converted to the type of the setting; numbers and arrays of NumPy are those of Python."""
    if type(value).__module__ == "numpy":
        value = value.tolist()
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        values = value if isinstance(value, list | tuple) else [value]
        return tuple(_coerced(v, item, where) for v in values)
    if hint == float | str:
        with suppress(UsageError, ValueError):
            return float(_coerced(value, str, where))  # a command line has numbers as text
        return _coerced(value, str, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is str and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if isinstance(hint, types.UnionType) or not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise UsageError(f"{where} is {value!r}; it takes {_TYPE_NAMES.get(hint, str(hint))}")
    return value


_TYPE_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


_MINIMA: dict[str, dict[str, int]] = {
    "data": {"num_folds": 1, "max_atoms": 1, "conformer_timeout": 1},
    "training": {
        **dict.fromkeys(("epochs", "batch_size", "patience", "checkpoint_every", "threads"), 1),
        **dict.fromkeys(("num_nodes", "num_replicates", "ensemble_size"), 1),
        **dict.fromkeys(("auxiliary", "num_workers", "seed", "evidential_regularization", "domain_size"), 0),
        "faithfulness_molecules": 0,
        "distillation": 0,
        **dict.fromkeys(("weight_decay", "grad_clip", "freeze_epochs"), 0),
        "dropout_sampling_size": 2,
    },
}


def check_config(config: RunConfig) -> None:
    """Raise UsageError for settings that are out of range or unknown."""
    from molattn.chem import ON_FAILURE
    from molattn.data.schema import ValidationError
    from molattn.models.calibration import CALIBRATION_METHODS
    from molattn.models.config_schema import (
        DOMAIN_SIZE_RANGE,
        DROPOUT_PASSES_RANGE,
        MAX_ATOMS_RANGE,
        MODEL_FIELDS,
        NUM_MEMBERS_RANGE,
        TIMEOUT_RANGE,
    )
    from molattn.models.uncertainty import uncertainty_methods
    from molattn.training.callbacks import CALLBACKS
    from molattn.training.distributed import check_world_size
    from molattn.training.loggers import build_loggers
    from molattn.training.transforms import check_transforms

    data, training = config.data, config.training
    rules = [
        (getattr(getattr(config, section), name) >= minimum, f"{name} is {minimum} or more")
        for section, minima in _MINIMA.items()
        for name, minimum in minima.items()
    ]
    rules += [
        (not isinstance(value, float) or math.isfinite(value), f"{name} is finite")
        for settings in (data, training)
        for name, value in vars(settings).items()
    ]
    # Limits of the model file.
    for settings, name, limit in (
        (data, "max_atoms", MAX_ATOMS_RANGE),
        (data, "conformer_timeout", TIMEOUT_RANGE),
        (training, "ensemble_size", NUM_MEMBERS_RANGE),
        (training, "dropout_sampling_size", DROPOUT_PASSES_RANGE),
        (training, "domain_size", DOMAIN_SIZE_RANGE),
    ):
        rules.append((not getattr(settings, name) > limit.maximum, f"{name} is {limit.maximum:,} at the most"))
    rules += [
        (training.learning_rate > 0, "learning_rate is above 0"),
        (0 <= training.warmup <= 1, "warmup is from 0 to 1"),
        (0 <= training.ema < 1, "ema is at least 0 and below 1"),
        (0 < training.alpha < 1, "alpha is above 0 and below 1"),
        (0 <= data.calibration_size < 1, "calibration_size is at least 0 and below 1"),
        (0 <= data.max_unreadable <= 1, "max_unreadable is from 0 to 1"),
        (-1 <= data.fold < data.num_folds, "fold is from 0 to num_folds - 1, or -1 for all"),
        (0 <= data.conformer_seed < 2**31 - 1, "conformer_seed is at least 0 and below 2^31 - 1"),
    ]
    for holds, rule in rules:
        if not holds:
            raise UsageError(f"a setting is out of range: {rule}")
    try:
        MODEL_FIELDS[config.model.kind].validate(dataclasses.asdict(config.model), "model")
    except ValidationError as error:
        raise UsageError(f"a setting is out of range: {error}") from None
    for name in training.callbacks:
        if name not in CALLBACKS:
            raise UsageError(unknown_choice("callback", name, CALLBACKS))
    build_loggers(training.logger)  # raises errors before anything is read
    if training.freeze_epochs and not training.freeze:
        raise UsageError("freeze_epochs is given without freeze: name the parts to freeze, such as --freeze blocks")
    check_transforms(data.target_transform)
    check_world_size(training)
    for name, value, choices in (
        ("uncertainty_method", training.uncertainty_method, uncertainty_methods()),
        ("calibration_method", training.calibration_method, CALIBRATION_METHODS),
        ("on_3d_failure", data.on_3d_failure, ON_FAILURE),
    ):
        if value not in choices and (value or name == "on_3d_failure"):  # the default of the others is empty
            raise UsageError(unknown_choice(name, value, choices))
