"""Where a training starts from: a base model, or nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from molattn.data import load_card
from molattn.errors import InputError, UsageError
from molattn.models.artifact import load_artifact
from molattn.models.base import MoleculeModel
from molattn.models.config import GraphModelConfig
from molattn.models.uncertainty import DROPOUT
from molattn.training.bases import (
    AUTO,
    DEFAULT,
    FINE_TUNING,
    FOR_MANY,
    FROM_SCRATCH,
    MANY,
    NONE,
    base_names,
    clashes,
    find_base,
)
from molattn.training.config import DataConfig, RunConfig
from molattn.training.unlabelled import NCI


def settle_start(config: RunConfig, of_atoms: bool = False, molecules: int = 0) -> tuple[RunConfig, str]:
    """The settings with the base that training starts from, by its name, and a sentence on it, or none.

    With `AUTO` that is the base `DEFAULT`, where the model is the same, the targets are of molecules, and the data set
    does not consist of molecules that it has seen; otherwise nothing. A training that starts from a base takes what
    `FINE_TUNING` has, for whatever nobody said, and where its molecules are `MANY` what `FOR_MANY` has; one from
    scratch what `FROM_SCRATCH` has, where the model is a graph model and its targets are of molecules and measured.

    Args:
        config: as it was asked for.
        of_atoms: whether the targets are.
        molecules: there are to train on; 0 where nobody knows yet.

    Raises:
        UsageError: a base that is not there, or does not go with the other settings.
    """
    name = config.training.base
    if name == NONE:
        return _from_scratch(config, of_atoms), ""
    if name == AUTO:
        if DEFAULT not in base_names():
            return _from_scratch(config, of_atoms), ""
        reason = _why_not(config, DEFAULT, of_atoms)
        if reason:
            return _from_scratch(config, of_atoms), f"training starts from scratch: {reason}"
        name = DEFAULT
        said = f"training starts from the base model {name}, which knows no labels; --base {NONE} starts from scratch"
        return _fine_tuning(_from(config, name), of_atoms, molecules), said
    if reason := _why_not(config, name, False):
        raise UsageError(f"{reason}: leave that out, or add --base {NONE}")
    return _fine_tuning(config, of_atoms, molecules), f"training starts from the base model {name}"


def start_from(model: MoleculeModel, base: str) -> None:
    """Give `model` the weights of a base, all but those of its head; `NONE` gives it none.

    Raises:
        UsageError: the model is another one than that of the base.
        InputError: the base is damaged, or made with other codes for molecules.
    """
    if base in (NONE, AUTO):
        return
    found = load_artifact(find_base(base).folder).model.state_dict()
    own = model.state_dict()
    shared = {name for name in own if not name.startswith("head.")}
    if any(name not in found or found[name].shape != own[name].shape for name in shared):
        raise UsageError(f"the base model {base} is another model than this one: add --base {NONE}")
    with torch.no_grad():
        for name in shared:
            own[name].copy_(found[name])


def _why_not(config: RunConfig, name: str, of_atoms: bool) -> str:
    """Why a run cannot, or `AUTO` would not, start from a base; empty where it can."""
    base = find_base(name)
    if base.source == NCI and _is_of_nci(config.data):
        return f"the molecules of {config.data.dataset} are those that the base model {name} has seen"
    if of_atoms:
        return f"the targets are of atoms, and the base model {name} has learned about molecules"
    differs = clashes(base, config.model, config.data.add_hs, config.data.conformers)
    return f"{'; '.join(differs)} in the base model {name}" if differs else ""


def _is_of_nci(data: DataConfig) -> bool:
    """Whether a data set consists of the molecules that come with RDKit."""
    if not data.dataset or Path(data.dataset).suffix:
        return False
    try:
        return bool(load_card(data.dataset).made)
    except (UsageError, InputError):
        return False


def _from(config: RunConfig, name: str) -> RunConfig:
    return replace(config, training=replace(config.training, base=name))


def _fine_tuning(config: RunConfig, of_atoms: bool, molecules: int) -> RunConfig:
    """The settings of a training that starts from a base."""
    recipe = FINE_TUNING
    if not of_atoms and molecules in MANY:
        recipe = {section: values | FOR_MANY[section] for section, values in recipe.items()}
        if config.training.uncertainty_method == DROPOUT:
            recipe["model"] = FINE_TUNING["model"]  # whose predictions it spreads
    return _with_unsaid(config, recipe)


def _from_scratch(config: RunConfig, of_atoms: bool) -> RunConfig:
    """The settings of a training that starts from nothing."""
    config = _from(config, NONE)
    # Descriptors teach nothing new to a model whose targets RDKit computes.
    if of_atoms or config.model.kind != GraphModelConfig.kind or _is_of_nci(config.data):
        return config
    return _with_unsaid(config, FROM_SCRATCH)


def _with_unsaid(config: RunConfig, recipe: dict[str, dict[str, Any]]) -> RunConfig:
    """The settings with those of `recipe`, where nobody said others."""
    plain = RunConfig(model=type(config.model)())
    changed: dict[str, Any] = {}
    for section, values in recipe.items():
        mine, default = getattr(config, section), getattr(plain, section)
        unsaid = {
            name: value
            for name, value in values.items()
            if f"{section}.{name}" not in config.said and getattr(mine, name) == getattr(default, name)
        }
        changed[section] = replace(mine, **unsaid)
    return replace(config, **changed)
