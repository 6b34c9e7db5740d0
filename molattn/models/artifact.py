"""A model on disk: `model.safetensors` and `config.json`, never a pickle.

Each is of no use without the other, so where a model takes the place of another, its configuration lies beside the old
one, as `config.next.json`, until its weights are there. Whoever is killed on the way leaves a model that loads: the old
one or the new.
"""

import dataclasses
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from molattn.chem import STANDARDIZE, Conformers, unknown_descriptors
from molattn.data.files import write_bytes
from molattn.data.seal import SEAL, sealed, unsealed
from molattn.errors import InputError, UsageError
from molattn.models.answers import Answers
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.calibration import Calibration, calibrated
from molattn.models.config import CONFIGS, ModelConfig
from molattn.models.domain import Domain
from molattn.models.registry import build
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.tasks import REGRESSION, Regression, Task, task_from
from molattn.models.uncertainty import NONE, answers_of, method_of

# 2 has conformers, without which a model of 3D must not be used; 3 has outputs that are not the numbers themselves; 4
# has standardize, without which molecules would be read otherwise than in training; 5 has outputs of atoms, or
# descriptors, which the head reads; 6 has more in its weights than one model: those of other members, of calibration or
# of training molecules, or a loss whose outputs older versions do not know; 7 has descriptors that are computed; all
# else is written as 1.
SCHEMA = 7
WEIGHTS, CONFIG, NEXT = "model.safetensors", "config.json", "config.next.json"
MEMBERS, CALIBRATION, DOMAIN = "members", "calibration", "domain"
"""What the names of tensors begin with that are not the first model's; a dot follows."""
_LOSSES_OF_6 = ("evidential", "quantile", "dirichlet")


@dataclass(frozen=True)
class Artifact:
    """A fitted model and all that is needed to use it.

    Attributes:
        model: in evaluation mode.
        scaler: from its outputs to units.
        targets: T names.
        units: T units, empty where unknown.
        add_hs, max_atoms: how its molecules are read.
        conformers: how they get distances; None where the model was trained without.
        task: what its outputs mean.
        standardize: the standard form that they are brought to first, a key of `molattn.chem.STANDARDIZE`; empty for
            none.
        descriptors: what stands beside each molecule, and how it is scaled; None for nothing.
        members: the other models of an ensemble, of which `model` is the first.
        uncertainty: how standard deviations are made, a name in `molattn.models.uncertainty.METHODS`.
        samples: passes of the uncertainty method "dropout".
        calibration: what makes intervals and sets; None for a model without.
        domain: training molecules to compare with; None for a model without.
    """

    model: MoleculeModel
    scaler: TargetScaler
    targets: tuple[str, ...]
    units: tuple[str, ...]
    add_hs: bool
    max_atoms: int
    conformers: Conformers | None = None
    task: Task = REGRESSION
    standardize: str = ""
    descriptors: DescriptorScaler | None = None
    members: tuple[MoleculeModel, ...] = ()
    uncertainty: str = ""
    samples: int = 10
    calibration: Calibration | None = None
    domain: Domain | None = None

    def __post_init__(self):
        if not self.uncertainty:
            object.__setattr__(self, "uncertainty", method_of("", self.task, len(self.models), 0.0))

    @property
    def models(self) -> tuple[MoleculeModel, ...]:
        """All models of the ensemble, or the one."""
        return (self.model, *self.members)

    def columns(self, uncertainty: str = "") -> list[str]:
        """What the columns of `Answers.more` are called, by its own uncertainty method or another."""
        own = self.task.own_columns(self.targets)
        spread = (uncertainty or self.uncertainty) != NONE
        return [*own, *(f"{t}_std" for t in self.targets if spread)]

    def answers(
        self,
        molecules: Sequence[Molecule],
        descriptors: np.ndarray | None = None,
        uncertainty: str = "",
        refused: set[int] | None = None,
    ) -> Answers:
        """What it says of `molecules`, before any calibration; see `molattn.models.uncertainty.answers_of`."""
        method = uncertainty or self.uncertainty
        return answers_of(self.models, self.task, self.scaler, molecules, method, self.samples, descriptors, refused)

    @property
    def calibration_method(self) -> str:
        """The one that is used where nobody asks for another."""
        return NONE if self.calibration is None else self.calibration.method

    def calibrated(self, answers: Answers, method: str = "") -> Answers:
        """`answers` after calibration; see `molattn.models.calibration.calibrated`."""
        if self.calibration is None:
            return answers
        return calibrated(answers, self.task, self.calibration, method or self.calibration.method)


def save_artifact(folder: str | Path, artifact: Artifact) -> None:
    """Write the model into `folder`; one that is there is replaced at once, or stays, whatever happens on the way."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors, beside = dict(artifact.model.state_dict()), {}
    for i, member in enumerate(artifact.members, start=1):
        tensors |= {f"{MEMBERS}.{i}.{name}": x for name, x in member.state_dict().items()}
        beside[MEMBERS] = i
    if artifact.uncertainty != method_of("", artifact.task, len(artifact.models), 0.0):
        beside["uncertainty"] = {"method": artifact.uncertainty, "samples": artifact.samples}
    if artifact.calibration is not None:
        c = artifact.calibration
        tensors |= _tensors(CALIBRATION, {f"{t}.{k}": v for t, s in enumerate(c.scores) for k, v in s.items()})
        beside[CALIBRATION] = {"method": c.method, "uncertainty": c.uncertainty}
    if artifact.domain is not None:
        d = artifact.domain
        tensors |= _tensors(DOMAIN, {"embeddings": d.embeddings, "bits": d.bits})
        beside[DOMAIN] = {"farthest": d.farthest, "least": d.least}
    weights = save({name: x.detach().cpu().contiguous() for name, x in tensors.items()})
    molecules: dict[str, Any] = {"add_hs": artifact.add_hs, "max_atoms": artifact.max_atoms}
    if artifact.conformers is not None:
        molecules["conformers"] = dataclasses.asdict(artifact.conformers)
    if artifact.standardize:
        molecules["standardize"] = artifact.standardize
    config = {
        "schema": _schema(artifact),
        "molattn": version("molattn"),
        "model": dataclasses.asdict(artifact.model.config),
        "targets": [
            {"name": name, "unit": unit, "mean": mean, "std": std}
            for name, unit, mean, std in zip(
                artifact.targets, artifact.units, artifact.scaler.mean, artifact.scaler.std, strict=True
            )
        ],
        "task": artifact.task.to_dict(),
        "molecules": molecules,
        **({} if artifact.descriptors is None else {"descriptors": _descriptors(artifact.descriptors)}),
        **beside,
        "vocabulary": artifact.model.vocabulary(),
        SEAL: {WEIGHTS: hashlib.sha256(weights).hexdigest()},
    }
    _settle(folder)
    try:
        write_bytes(folder / NEXT, sealed(config, CONFIG))
        write_bytes(folder / WEIGHTS, weights)
    finally:
        _settle(folder)


def _settle(folder: Path) -> None:
    """The next configuration takes its place if its weights are there, and is removed if they are not."""
    if (folder / NEXT).is_file():
        weights = (folder / WEIGHTS).read_bytes() if (folder / WEIGHTS).is_file() else b""
        if hashlib.sha256(weights).hexdigest().encode() in (folder / NEXT).read_bytes():
            os.replace(folder / NEXT, folder / CONFIG)
        else:
            (folder / NEXT).unlink()


def _tensors(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": torch.from_numpy(np.ascontiguousarray(values)) for name, values in arrays.items()}


def _part(weights: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix` and a dot, without it; those of the first model for none."""
    if not prefix:
        return {k: v for k, v in weights.items() if k.partition(".")[0] not in (MEMBERS, CALIBRATION, DOMAIN)}
    return {k.removeprefix(f"{prefix}."): v for k, v in weights.items() if k.startswith(f"{prefix}.")}


def _descriptors(scaler: DescriptorScaler) -> list[dict[str, Any]]:
    return [
        {"name": name, "mean": mean, "std": std, **({"computed": True} if i >= len(scaler.given) else {})}
        for i, (name, mean, std) in enumerate(zip(scaler.names, scaler.mean, scaler.std, strict=True))
    ]


def _schema(artifact: Artifact) -> int:
    """The oldest form that says all there is to say, so that an older molattn reads what it can."""
    if artifact.descriptors is not None and artifact.descriptors.computed:
        return 7
    more = artifact.members or artifact.calibration is not None or artifact.domain is not None
    if more or artifact.task.loss in _LOSSES_OF_6:
        return 6
    if artifact.task.of_atoms or artifact.descriptors is not None:
        return 5
    if artifact.standardize:
        return 4
    if artifact.model.head.out_features != len(artifact.targets) or not isinstance(artifact.task, Regression):
        return 3
    return 1 if artifact.conformers is None else 2


def load_artifact(folder: str | Path) -> Artifact:
    """Read a model that `save_artifact` wrote, on the CPU.

    Raises:
        InputError: a file is missing, damaged, newer than this molattn, or made with other codes.
    """
    folder = Path(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(f"{folder} holds no model: {name} is missing; give the folder of a finished run")
    try:
        data = (folder / WEIGHTS).read_bytes()
        return _built(_config(folder, hashlib.sha256(data).hexdigest()), load(data), folder)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, OSError, SafetensorError) as error:
        raise InputError(
            f"{folder} is damaged, it cannot be read as a model ({type(error).__name__}); copy it again"
        ) from error


def _config(folder: Path, weights: str) -> dict[str, Any]:
    """The configuration that goes with the weights of that checksum."""
    path = folder / CONFIG
    if (folder / NEXT).is_file() and weights.encode() in (folder / NEXT).read_bytes():
        path = folder / NEXT
    config, whole = unsealed(path.read_bytes(), CONFIG)
    schema = config["schema"]
    if isinstance(schema, int) and schema > SCHEMA:
        raise InputError(f"{folder} was written by molattn {config['molattn']}: upgrade molattn to read it")
    if not whole or not config[SEAL].keys() <= {WEIGHTS, CONFIG}:
        raise InputError(f"{path} is damaged or was changed: its checksum differs from the one in it; copy it again")
    if weights != config[SEAL][WEIGHTS]:
        raise InputError(f"{folder / WEIGHTS} is damaged: its checksum differs from the one in {CONFIG}; copy it again")
    return config


def _fits(config: ModelConfig, weights: dict[str, Tensor]) -> bool:
    """Whether a model of that configuration may be as small as its weights; any other would fill the memory first."""
    most = 64 * max(1000, sum(x.numel() for x in weights.values()))
    sizes = [value for value in dataclasses.asdict(config).values() if isinstance(value, int)]
    products = [a * b for a, b in combinations(sizes, 2)] + [config.feed_forward * config.hidden_dim**2]
    return max(products) <= most and config.num_layers <= len(weights)


def _built(config: dict[str, Any], weights: dict[str, Tensor], folder: Path) -> Artifact:
    targets, kind, beside = config["targets"], config["model"]["kind"], config.get("descriptors", [])
    if kind not in CONFIGS:
        raise InputError(f"{folder} is a model of the kind {kind!r}; this molattn has {', '.join(CONFIGS)}")
    settings: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in config["model"].items()}
    try:
        task = task_from(config.get("task", {"kind": "regression", "loss": "mse"}))
        asked = CONFIGS[kind](**settings), len(task.owners(len(targets))), task.of_atoms, len(beside)
        count = config.get(MEMBERS, 0)
        whole = 0 <= count < len(weights)
        members = [_part(weights, f"{MEMBERS}.{i}" if i else "") for i in range(1 + count if whole else 0)]
        if not whole or not all(_fits(asked[0], member) for member in members):
            raise InputError(f"{folder} is damaged: its weights are not those of the model in {CONFIG}; copy it again")
        models = [build(*asked) for _ in members]
        method = config.get("uncertainty", {"method": "", "samples": 10})
        uncertainty = method_of(method["method"], task, len(models), settings.get("dropout", 0.0))
    except UsageError as error:
        raise InputError(f"{folder} asks for what is not here: {error}") from error
    except ValueError as error:
        raise InputError(f"{folder} asks for what is not here: {error}") from error
    if config["vocabulary"] != models[0].vocabulary():
        raise InputError(
            f"{folder} was trained with other codes for molecules than this molattn has; use molattn "
            f"{config['molattn']} or train again"
        )
    for model, member in zip(models, members, strict=True):
        model.load_state_dict(member)
        model.eval().requires_grad_(False)
    conformers = config["molecules"].get("conformers")
    standardize = config["molecules"].get("standardize", "")
    if standardize and standardize not in STANDARDIZE:
        raise InputError(f"{folder} asks for what is not here: the standard form {standardize!r}; upgrade molattn")
    return Artifact(
        model=models[0],
        scaler=TargetScaler(tuple(t["mean"] for t in targets), tuple(t["std"] for t in targets)),
        targets=tuple(t["name"] for t in targets),
        units=tuple(t["unit"] for t in targets),
        add_hs=config["molecules"]["add_hs"],
        max_atoms=config["molecules"]["max_atoms"],
        conformers=None if conformers is None else Conformers(**conformers),
        task=task,
        standardize=standardize,
        descriptors=_scaler_of(beside, folder) if beside else None,
        members=tuple(models[1:]),
        uncertainty=uncertainty,
        samples=method["samples"],
        calibration=_calibration(config, weights, len(targets)),
        domain=_domain(config, weights),
    )


def _scaler_of(beside: list[dict[str, Any]], folder: Path) -> DescriptorScaler:
    computed = tuple(d["name"] for d in beside if d.get("computed"))
    names, mean, std = (tuple(d[key] for d in beside) for key in ("name", "mean", "std"))
    if unknown := unknown_descriptors(computed):
        raise InputError(f"{folder} asks for what is not here: the descriptor {unknown[0]}; upgrade rdkit or molattn")
    if names[len(names) - len(computed) :] != computed:
        raise InputError(f"{folder} is damaged: its descriptors are not in their order; copy it again")
    return DescriptorScaler(names, mean, std, computed)


def _calibration(config: dict[str, Any], weights: dict[str, Tensor], num_targets: int) -> Calibration | None:
    if (said := config.get("calibration")) is None:
        return None
    scores: list[dict[str, np.ndarray]] = [{} for _ in range(num_targets)]
    for name, values in _part(weights, CALIBRATION).items():
        t, _, key = name.partition(".")
        scores[int(t)][key] = values.numpy()
    return Calibration(said["method"], said["uncertainty"], tuple(scores))


def _domain(config: dict[str, Any], weights: dict[str, Tensor]) -> Domain | None:
    if (said := config.get("domain")) is None:
        return None
    arrays = _part(weights, DOMAIN)
    return Domain(arrays["embeddings"].numpy(), arrays["bits"].numpy(), said["farthest"], said["least"])
