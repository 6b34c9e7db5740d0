"""Base models: trained without labels, for other trainings to start from. Importing it loads nothing heavy."""

import json
import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from molattn.errors import InputError, UsageError, short_repr
from molattn.models.config import ModelConfig

AUTO, NONE = "auto", "none"
"""What `training.base` can be, beside the name or folder of a base."""

DEFAULT = "nci"
"""The base that `AUTO` stands for."""

FINE_TUNING: dict[str, dict[str, Any]] = {"model": {"dropout": 0.05}, "training": {"epochs": 40}}
"""What a training that starts from a base has otherwise than one from scratch, section by section, unless somebody
says."""

FROM_SCRATCH: dict[str, dict[str, Any]] = {
    "data": {"molecule_featurizers": ("rdkit_few",)},
    "model": {"max_path": 6},
    "training": {"auxiliary": 0.3},
}
"""What a training of a graph model from scratch has otherwise: a base knows descriptors, and has seen atoms far apart,
of which few molecules say too little."""

MANY = range(1_500, 100_001)
"""How many training molecules there are where `FOR_MANY` holds. Of more, descriptors would take minutes to compute."""

FOR_MANY: dict[str, dict[str, Any]] = {"model": {"dropout": 0.0}, "training": {"auxiliary": 1.0}}
"""What a training from a base on many molecules has, over `FINE_TUNING`: it has steps enough to forget what the base
knows of descriptors, and learns them still, so that it does not; and needs no dropout."""

CARD = "card.toml"

# What a training may say otherwise than its base.
_FREE = ("dropout",)


@dataclass(frozen=True)
class Base:
    """A base model on disk.

    Attributes:
        name: what it was asked for by.
        folder: where its files lie: card.toml, and those of a model.
        model: what it is made of.
        add_hs: whether hydrogens are atoms of its molecules.
        conformers: whether its molecules have distances.
        source: where the molecules that it has seen come from.
    """

    name: str
    folder: Path
    model: ModelConfig
    add_hs: bool
    conformers: bool
    source: str


def bases_dir() -> Path | None:
    """The folder of the bases that molattn carries, in the package, or beside it in a checkout; None without any."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_bases", package.parent / "bases"):
        if any(folder.glob(f"*/{CARD}")):
            return folder
    return None


def base_names() -> tuple[str, ...]:
    """The names of the bases that molattn carries, sorted."""
    folder = bases_dir()
    return () if folder is None else tuple(sorted(path.parent.name for path in folder.glob(f"*/{CARD}")))


def find_base(name: str) -> Base:
    """The base of this name, or in this folder.

    Raises:
        UsageError: there is none.
        InputError: its files are damaged.
    """
    folder = bases_dir()
    path = Path(name) if folder is None or name not in base_names() else folder / name
    if not (path / CARD).is_file():
        known = ", ".join(base_names()) or "none comes with molattn"
        raise UsageError(
            f"there is no base model {short_repr(name)}: give one of {known}, the folder that `molattn pretrain` "
            f"wrote, or {NONE} to train from scratch"
        )
    # Here, because data brings numpy, which a screen of help does without.
    from molattn.data.schema import PartialRecord, String
    from molattn.models.config_file import model_config_of, read_config

    kept = PartialRecord({"molecules": PartialRecord({"source": String(10_000, min_length=1)})})
    try:
        card = kept.validate(tomllib.loads((path / CARD).read_text(encoding="utf-8")), "")
    except (OSError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise InputError(
            f"{path / CARD} is damaged, it cannot be read as the card of a base model ({why}); write or copy it again"
        ) from error
    config = read_config(path)
    return Base(
        name=name,
        folder=path,
        model=model_config_of(config),
        add_hs=config["molecules"]["add_hs"],
        conformers=config["molecules"].get("conformers") is not None,
        source=card["molecules"]["source"],
    )


def clashes(base: Base, model: ModelConfig, add_hs: bool, conformers: bool) -> list[str]:
    """What a run says otherwise than its base, a phrase each: nothing of the base could be used then."""
    if model.kind != base.model.kind:
        return [f"model is {model.kind} and was {base.model.kind}"]
    names = [f.name for f in fields(model) if f.name not in _FREE]
    pairs = [(f"model.{name}", getattr(model, name), getattr(base.model, name)) for name in names]
    pairs += [("data.add_hs", add_hs, base.add_hs), ("data.conformers", conformers, base.conformers)]
    return [f"{name} is {_shown(mine)} and was {_shown(was)}" for name, mine, was in pairs if mine != was]


def sized(base: Base, model: ModelConfig, said: set[str]) -> ModelConfig:
    """The model of a run with the sizes of its base, but for those settings that somebody said."""
    if model.kind != base.model.kind:
        return model
    keep = {name: getattr(model, name) for name in (*said, *_FREE) if hasattr(model, name)}
    return replace(base.model, **keep)


def _shown(value: object) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)
