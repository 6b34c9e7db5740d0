"""The initialization of a training: from a base model, or from scratch."""

from dataclasses import asdict, replace
from typing import Any

import torch

from molattn.data import load_card
from molattn.errors import InputError, UsageError
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import load_artifact
from molattn.models.base import MoleculeModel, build_model
from molattn.models.config import GraphModelConfig
from molattn.models.random_states import seeded
from molattn.models.task import Task
from molattn.models.uncertainty import DROPOUT
from molattn.training.bases import (
    AUTO_BASE,
    DEFAULT_BASE,
    FINE_TUNING,
    FINE_TUNING_MANY,
    FROM_SCRATCH,
    LARGE_BASE,
    MANY_MOLECULES,
    NO_BASE,
    OVERRIDABLE_SETTINGS,
    base_names,
    find_base,
    incompatible_settings,
    with_base_settings,
)
from molattn.training.config import DataConfig
from molattn.training.descriptors import num_extra_descriptors
from molattn.training.parameter_groups import trained_parts
from molattn.training.run_config import RunConfig
from molattn.training.table_source import is_path
from molattn.training.unlabelled import NCI_MOLECULES


def resolve_initialization(
    config: RunConfig, atom_level: bool = False, molecules: int = 0, variants: int = 0
) -> tuple[RunConfig, str]:
    """Resolve `training.base` and the settings that depend on it; also return a message for the user, or an empty one.

    `AUTO_BASE` becomes `LARGE_BASE` if the number of molecules is in `MANY_MOLECULES`, and `DEFAULT_BASE` otherwise or
    if explicit settings of the model differ from those of `LARGE_BASE`. It becomes `NO_BASE` if they differ from those
    of both, if the targets are atom-level, or if the data set consists of molecules that `DEFAULT_BASE` was trained on.
    Settings that are not explicit come from the base model and from `FINE_TUNING`, and from `FINE_TUNING_MANY` if the
    number of molecules is in `MANY_MOLECULES`. Without a base model they come from `FROM_SCRATCH`, if the model is a
    graph model and its targets are of molecules and not computed by RDKit.

    Args:
        config: as requested.
        atom_level: whether the targets are atom-level.
        molecules: the number of training molecules; 0 if it is not known yet.
        variants: the default of `training.distillation` in a training from a base model.

    Raises:
        UsageError: there is no such base model, or it is incompatible with the other settings.
    """
    name = config.training.base
    if name == NO_BASE:
        return _from_scratch(config, atom_level), ""
    if name == AUTO_BASE:
        return _with_auto_base(config, atom_level, molecules, variants)
    if reason := _incompatibility(config, name, False):
        raise UsageError(f"{reason}: leave that out, or add --base {NO_BASE}")
    return _fine_tuning(config, atom_level, molecules, variants), f"training starts from the base model {name}"


def load_base_weights(model: MoleculeModel, base: str) -> None:
    """Load the weights of a base model into `model`, except those of its head.

    Does nothing for `NO_BASE`, nor for an `AUTO_BASE` that `resolve_initialization` has not resolved.

    Raises:
        UsageError: the model differs from the base model.
        InputError: the base model is damaged, or was trained with another vocabulary.
    """
    if base in (NO_BASE, AUTO_BASE):
        return
    pretrained, weights = load_artifact(find_base(base).folder).model.state_dict(), model.state_dict()
    shared = {name for name in weights if not name.startswith("head.")}
    if any(name not in pretrained or pretrained[name].shape != weights[name].shape for name in shared):
        raise UsageError(f"the base model {base} differs from this model: add --base {NO_BASE}")
    with torch.no_grad():
        for name in shared:
            weights[name].copy_(pretrained[name])


def check_continues(previous: Artifact, config: RunConfig, task: Task, num_targets: int) -> None:
    """Check that a training can continue from the weights of an earlier model.

    Args:
        previous: the earlier model.
        config: the settings, resolved.
        task: of the targets.
        num_targets: T.

    Raises:
        UsageError: another number of models or targets, task or settings; the message names the first.
    """
    before, after = asdict(previous.model.config), asdict(config.model)
    pairs = {name: (before.get(name), after[name]) for name in after if name not in OVERRIDABLE_SETTINGS}
    pairs["ensemble_size"] = (len(previous.models), config.training.ensemble_size)
    pairs["number of targets"] = (len(previous.targets), num_targets)
    pairs["number of descriptors"] = (previous.model.num_descriptors, num_extra_descriptors(config.data))
    pairs["task"] = (previous.task.to_dict(), task.to_dict())
    if (scaler := previous.descriptors) is not None:
        provided = [name for name in scaler.names if name not in scaler.computed]
        pairs["list of descriptors"] = (provided, list(config.data.descriptor_columns))
    for name, (old, new) in pairs.items():
        if old != new:
            raise UsageError(
                f"the {name} was {old!r} and is {new!r}, so that training cannot continue: start a new model"
            )


def _incompatibility(config: RunConfig, name: str, atom_level: bool) -> str:
    """Why a run cannot start from a base model, or does not with `AUTO_BASE`; empty if it can."""
    base = find_base(name)
    if base.source == NCI_MOLECULES and _is_from_rdkit(config.data):
        return f"the molecules of {config.data.dataset} are those that the base model {name} was trained on"
    if atom_level:
        return f"the targets are atom-level, and the base model {name} learned molecule-level ones"
    different = incompatible_settings(base, config.model, config.data.add_hs, config.data.conformers)
    return f"{'; '.join(different)} in the base model {name}" if different else ""


def _is_from_rdkit(data: DataConfig) -> bool:
    """Whether a data set consists of the molecules that RDKit includes."""
    if not data.dataset or is_path(data.dataset):
        return False
    try:
        return bool(load_card(data.dataset).computed)
    except (UsageError, InputError):
        return False


def _with_auto_base(config: RunConfig, atom_level: bool, molecules: int, variants: int) -> tuple[RunConfig, str]:
    """The settings with `AUTO_BASE` resolved, and a message."""
    names = base_names()
    if LARGE_BASE in names and molecules in MANY_MOLECULES and not _is_from_rdkit(config.data):
        large = _with_base_sizes(config, LARGE_BASE)
        if not _incompatibility(large, LARGE_BASE, atom_level):
            message = (
                f"training starts from the base model {LARGE_BASE}, the default for {MANY_MOLECULES[0]:,} training "
                f"molecules or more (weights under CC BY-SA 3.0); --base {DEFAULT_BASE} is smaller and faster, --base "
                f"{NO_BASE} starts from scratch"
            )
            return _fine_tuning(large, atom_level, molecules, variants), message
    if DEFAULT_BASE not in names:
        return _from_scratch(config, atom_level), ""
    if reason := _incompatibility(config, DEFAULT_BASE, atom_level):
        return _from_scratch(config, atom_level), f"training starts from scratch: {reason}"
    message = (
        f"training starts from the base model {DEFAULT_BASE}, which was trained without labels; --base {NO_BASE} "
        "starts from scratch"
    )
    return _fine_tuning(_with_base(config, DEFAULT_BASE), atom_level, molecules, variants), message


def _with_base_sizes(config: RunConfig, name: str) -> RunConfig:
    """The settings with a base model; those of its model replace defaults, where no other value is explicit."""
    default = asdict(type(config.model)())
    keys = config.explicit_model_keys | {key for key, value in asdict(config.model).items() if value != default[key]}
    return _with_base(replace(config, model=with_base_settings(find_base(name), config.model, keys)), name)


def _with_base(config: RunConfig, name: str) -> RunConfig:
    return replace(config, training=replace(config.training, base=name))


def _fine_tuning(config: RunConfig, atom_level: bool, molecules: int, variants: int) -> RunConfig:
    """The settings of a training from a base model."""
    defaults = {**FINE_TUNING, "training": FINE_TUNING["training"] | {"distillation": variants}}
    if not atom_level and molecules in MANY_MOLECULES:
        defaults = {section: values | FINE_TUNING_MANY[section] for section, values in defaults.items()}
        if config.training.uncertainty_method == DROPOUT:
            defaults["model"] = FINE_TUNING["model"]  # dropout sampling needs dropout
    return _with_defaults(config, defaults)


def _from_scratch(config: RunConfig, atom_level: bool) -> RunConfig:
    """The settings of a training from scratch."""
    config = _with_base(config, NO_BASE)
    # Auxiliary descriptors do not help if RDKit computes the targets themselves.
    if atom_level or config.model.kind != GraphModelConfig.kind or _is_from_rdkit(config.data):
        return config
    return _with_defaults(config, FROM_SCRATCH)


def _with_defaults(config: RunConfig, defaults: dict[str, dict[str, Any]]) -> RunConfig:
    """The settings with those of `defaults` wherever they are not explicit."""
    plain = RunConfig(model=type(config.model)())
    changed: dict[str, Any] = {}
    for section, values in defaults.items():
        current, default = getattr(config, section), getattr(plain, section)
        implicit = {
            name: value
            for name, value in values.items()
            if f"{section}.{name}" not in config.explicit_keys and getattr(current, name) == getattr(default, name)
        }
        changed[section] = replace(current, **implicit)
    return replace(config, **changed)


def initialize_model(config: RunConfig, outputs: int, atom_level: bool) -> MoleculeModel:
    """The model before training, with the weights of its base model if it has one.

    The same seed gives the same model, and the caller's random state is unchanged.

    Raises:
        UsageError: inconsistent settings of the model, a base model that differs, or `training.rate_factors` or
            `training.freeze` with a part that the model does not have.
    """
    with seeded(config.training.seed):
        try:
            model = build_model(config.model, outputs, atom_level, num_extra_descriptors(config.data))
        except ValueError as error:
            raise UsageError(f"[model]: {error}") from None
    trained_parts(model, config.training)  # raises errors before molecules are trained on
    load_base_weights(model, config.training.base)
    return model
