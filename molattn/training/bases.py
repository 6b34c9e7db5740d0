"""Base models: pretrained without labels, for fine-tuning. Importing this module does not import torch."""

import json
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from molattn.errors import InputError, UsageError, short_repr
from molattn.hub.locate import locate_model
from molattn.models.config import ModelConfig

AUTO_BASE, NO_BASE = "auto", "none"
"""Values of `training.base`, besides the name, folder or address of a base model."""

DEFAULT_BASE = "nci"
"""The base model that `AUTO_BASE` selects for few molecules, and where `LARGE_BASE` is incompatible."""

LARGE_BASE = "chembl"
"""The base model that `AUTO_BASE` selects if the number of training molecules is in `MANY_MOLECULES`: folds of TDC's
tasks in `docs/arena.md`."""

FINE_TUNING: dict[str, dict[str, Any]] = {"model": {"dropout": 0.05}, "training": {"epochs": 40, "patience": 15}}
"""Default settings of a training from a base model, by section, where they differ from the general defaults. For the
patience see `docs/epochs.md`."""

FROM_SCRATCH: dict[str, dict[str, Any]] = {
    "data": {"molecule_featurizers": ("rdkit_few",)},
    "model": {"max_path": 6},
    "training": {"auxiliary": 0.3},
}
"""Default settings of a graph model trained from scratch. It needs descriptors, which a base model has already
learned. It distinguishes only short paths: small data sets have too few pairs of distant atoms to learn from."""

MANY_MOLECULES = range(1_500, 100_001)
"""The numbers of training molecules for which `LARGE_BASE` is the default and `FINE_TUNING_MANY` applies. Computing
descriptors of more molecules would take minutes, as would their training with the larger model."""

FINE_TUNING_MANY: dict[str, dict[str, Any]] = {"model": {"dropout": 0.0}, "training": {"auxiliary": 1.0}}
"""Default settings of a training from a base model on many molecules, in addition to `FINE_TUNING`. In so many steps
the model would forget the descriptors that the base model has learned, so they remain auxiliary targets. Dropout is not
needed."""

FEW_MOLECULES = range(250, 900)
"""The numbers of training molecules for which `molattn.training.distillation` is a default. For fewer there are no
measurements. For more it would double the time of a training, and `--distillation` asks for it."""

MOLECULES_WITH_VARIANTS = 2_000
"""The number of molecules to which distillation adds variants to few training molecules by default: folds of TDC's
tasks in `docs/arena.md`."""

CARD = "card.toml"

OVERRIDABLE_SETTINGS = ("dropout",)
"""Settings in which a model may differ from its base model, or from the model whose training is continued."""


@dataclass(frozen=True)
class BaseModel:
    """A base model on disk.

    Attributes:
        name: the name or folder by which it was requested; of a model on the hub its address with the commit.
        folder: the folder of its files: card.toml, and those of a saved model.
        model: its settings.
        add_hs: whether hydrogens are atoms of its molecules.
        conformers: whether its molecules have 3D distances.
        source: the source of the molecules that it was trained on.
    """

    name: str
    folder: Path
    model: ModelConfig
    add_hs: bool
    conformers: bool
    source: str


def bases_dir() -> Path | None:
    """The folder of the base models that molattn includes, in the package or next to it in a checkout; None if none."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_bases", package.parent / "bases"):
        if any(folder.glob(f"*/{CARD}")):
            return folder
    return None


def base_names() -> tuple[str, ...]:
    """The names of the base models that molattn includes, sorted."""
    folder = bases_dir()
    return () if folder is None else tuple(sorted(path.parent.name for path in folder.glob(f"*/{CARD}")))


def find_base(name: str) -> BaseModel:
    """The base model with this name, in this folder, or at this address on the hub.

    A base model of the hub gets a name with its commit, so that the settings of a run name what it started from.

    Raises:
        UsageError: there is none.
        InputError: its files are damaged, or cannot be downloaded.
        MissingExtra: a model on the hub, and huggingface_hub is not installed.
    """
    folder = bases_dir()
    located = locate_model(name if folder is None or name not in base_names() else folder / name, (CARD,))
    path, name = located.folder, str(located.address or name)
    if not (path / CARD).is_file():
        names = ", ".join(base_names()) or "none comes with molattn"
        raise UsageError(
            f"there is no base model {short_repr(name)}: give one of {names}, the folder that `molattn pretrain` "
            f"wrote or its address on the hub, or {NO_BASE} to train from scratch"
        )
    # Imported here, because molattn.data imports numpy, which help texts do not need.
    from molattn.data.schema import PartialRecord, String
    from molattn.models.config_file import model_config_of, read_config_file

    fields_of_card = PartialRecord({"molecules": PartialRecord({"source": String(10_000, min_length=1)})})
    try:
        card = fields_of_card.validate(tomllib.loads((path / CARD).read_text(encoding="utf-8")), "")
    except (OSError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise InputError(
            f"{path / CARD} is damaged, it cannot be read as the card of a base model ({why}); write or copy it again"
        ) from error
    config = read_config_file(path)
    return BaseModel(
        name=name,
        folder=path,
        model=model_config_of(config),
        add_hs=config["molecules"]["add_hs"],
        conformers=config["molecules"].get("conformers") is not None,
        source=card["molecules"]["source"],
    )


def incompatible_settings(base: BaseModel, model: ModelConfig, add_hs: bool, conformers: bool) -> list[str]:
    """The settings in which a run differs from a base model, a phrase each; it must differ in none to use the model."""
    if model.kind != base.model.kind:
        return [f"model is {model.kind} and was {base.model.kind}"]
    names = [f.name for f in fields(model) if f.name not in OVERRIDABLE_SETTINGS]
    pairs = [(f"model.{name}", getattr(model, name), getattr(base.model, name)) for name in names]
    pairs += [("data.add_hs", add_hs, base.add_hs), ("data.conformers", conformers, base.conformers)]
    return [f"{name} is {_as_json(value)} and was {_as_json(was)}" for name, value, was in pairs if value != was]


def with_base_settings(base: BaseModel, model: ModelConfig, explicit: set[str]) -> ModelConfig:
    """The settings of a model: those in `explicit` are kept, the others are those of its base model."""
    if model.kind != base.model.kind:
        return model
    keep = {name: getattr(model, name) for name in (*explicit, *OVERRIDABLE_SETTINGS) if hasattr(model, name)}
    return replace(base.model, **keep)


def fixed_by_base(name: str) -> bool:
    """Whether a base model fixes the setting "section.key", so that a run with another value cannot start from it."""
    section, _, key = name.partition(".")
    return name in ("data.add_hs", "data.conformers") or (section == "model" and key not in OVERRIDABLE_SETTINGS)


def _as_json(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)
