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
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save
from torch import Tensor

from molattn.chem import STANDARDIZE, Conformers
from molattn.data.checksummed_json import SEAL, sealed
from molattn.data.files import write_bytes
from molattn.data.schema import Misfit
from molattn.errors import InputError, UsageError, short_repr
from molattn.models.applicability_domain import ApplicabilityDomain
from molattn.models.artifact_parts import (
    CALIBRATION,
    DOMAIN,
    calibration_of,
    domain_of,
    numbers_of,
    part,
    scaler_of,
    tensors_of_part,
    wanted_forms,
)
from molattn.models.artifact_parts import member as member_name
from molattn.models.base import Molecule, MoleculeModel
from molattn.models.calibration import Calibration, apply_calibration
from molattn.models.config_file import CONFIG, LARGEST_FILE, NEXT, WEIGHTS, read_config, settings_of
from molattn.models.predictions import Predictions
from molattn.models.registry import MODELS, build
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.tasks import REGRESSION, Regression, Task, task_from_dict
from molattn.models.tensor_file import Form, at_most, check_finite, check_forms, float32, forms_of, tensors_of
from molattn.models.uncertainty import NONE, predict_with_uncertainty, resolve_uncertainty_method

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
    domain: ApplicabilityDomain | None = None

    def __post_init__(self):
        if not self.uncertainty:
            object.__setattr__(self, "uncertainty", resolve_uncertainty_method("", self.task, len(self.models), 0.0))

    @property
    def models(self) -> tuple[MoleculeModel, ...]:
        """All models of the ensemble, or the one."""
        return (self.model, *self.members)

    def extra_columns(self, uncertainty: str = "") -> list[str]:
        """What the columns of `Predictions.extra_values` are called, by its own uncertainty method or another."""
        own = self.task.distribution_columns(self.targets)
        spread = (uncertainty or self.uncertainty) != NONE
        return [*own, *(f"{t}_std" for t in self.targets if spread)]

    def predict(
        self,
        molecules: Sequence[Molecule],
        descriptors: np.ndarray | None = None,
        uncertainty: str = "",
        failures: dict[int, str] | None = None,
    ) -> Predictions:
        """Predictions before calibration; see `molattn.models.uncertainty.predict_with_uncertainty`."""
        method = uncertainty or self.uncertainty
        return predict_with_uncertainty(
            self.models, self.task, self.scaler, molecules, method, self.samples, descriptors, failures
        )

    @property
    def calibration_method(self) -> str:
        """The one that is used where nobody asks for another."""
        return NONE if self.calibration is None else self.calibration.method

    def apply_calibration(self, answers: Predictions, method: str = "") -> Predictions:
        """`answers` after calibration; see `molattn.models.calibration.apply_calibration`."""
        if self.calibration is None:
            return answers
        return apply_calibration(answers, self.task, self.calibration, method or self.calibration.method)


def save_artifact(folder: str | Path, artifact: Artifact) -> None:
    """Write the model into `folder`; one that is there is replaced at once, or stays, whatever happens on the way."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors, beside = _weights(artifact.model), {}
    for i, member in enumerate(artifact.members, start=1):
        tensors |= {f"{member_name(i)}.{name}": x for name, x in _weights(member).items()}
        beside["members"] = i
    if artifact.uncertainty != resolve_uncertainty_method("", artifact.task, len(artifact.models), 0.0):
        beside["uncertainty"] = {"method": artifact.uncertainty, "samples": artifact.samples}
    if artifact.calibration is not None:
        c = artifact.calibration
        tensors |= tensors_of_part(CALIBRATION, {f"{t}.{k}": v for t, s in enumerate(c.scores) for k, v in s.items()})
        beside[CALIBRATION] = {"method": c.method, "uncertainty": c.uncertainty}
    if artifact.domain is not None:
        d = artifact.domain
        tensors |= tensors_of_part(DOMAIN, {"embeddings": d.embeddings, "bits": d.bits})
        beside[DOMAIN] = {"farthest": d.max_distance, "least": d.min_similarity}
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


def _weights(model: MoleculeModel) -> dict[str, Tensor]:
    """The weights of a model, of which a file has float32 alone."""
    return {name: x.float() if x.is_floating_point() else x for name, x in model.state_dict().items()}


def _settle(folder: Path) -> None:
    """The next configuration takes its place if its weights are there, and is removed if they are not."""
    if (folder / NEXT).is_file():
        weights = (folder / WEIGHTS).read_bytes() if (folder / WEIGHTS).is_file() else b""
        if hashlib.sha256(weights).hexdigest().encode() in (folder / NEXT).read_bytes():
            os.replace(folder / NEXT, folder / CONFIG)
        else:
            (folder / NEXT).unlink()


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


NO_WEIGHTS = 10_000_000
"""Numbers that a model may keep beside its weights, such as the centres of radial bases."""


def load_artifact(folder: str | Path) -> Artifact:
    """Read a model that `save_artifact` wrote, on the CPU.

    What a file says is believed only where it is in range and fits the rest, so that a folder from a stranger takes no
    more time or memory than its own size asks for.

    Raises:
        InputError: a file is missing, damaged, newer than this molattn, or made with other codes.
    """
    folder = Path(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(f"{folder} holds no model: {name} is missing; give the folder of a finished run")
    try:
        forms = forms_of(folder / WEIGHTS)
        config = read_config(folder, _current(folder))
        return _built(config, forms, folder)
    except Misfit as error:
        raise InputError(f"{folder / WEIGHTS} is damaged or was changed: {error}; copy it again") from error
    except (UsageError, ValueError) as error:
        # It names what the file says, whatever characters that has.
        why = str(error).encode("ascii", "backslashreplace").decode()
        raise InputError(f"{folder} asks for what is not here: {why}") from error
    except (KeyError, TypeError, AttributeError, ArithmeticError, RuntimeError, OSError) as error:
        raise InputError(
            f"{folder} is damaged, it cannot be read as a model ({type(error).__name__}); copy it again"
        ) from error


def _current(folder: Path) -> str:
    """The file of the configuration that goes with the weights."""
    if not (folder / NEXT).is_file() or (folder / NEXT).stat().st_size > LARGEST_FILE:
        return CONFIG
    with open(folder / WEIGHTS, "rb") as file:
        weights = hashlib.file_digest(file, "sha256").hexdigest()
    return NEXT if weights.encode() in (folder / NEXT).read_bytes() else CONFIG


def _built(config: dict[str, Any], forms: dict[str, Form], folder: Path) -> Artifact:
    targets, beside, settings = config["targets"], config.get("descriptors", ()), settings_of(config)
    task = task_from_dict(config.get("task", {"kind": "regression", "loss": "mse"}))
    standardize = config["molecules"].get("standardize", "")
    if standardize and standardize not in STANDARDIZE:
        raise UsageError(f"the standard form {short_repr(standardize)}; upgrade molattn")
    if config["vocabulary"] != MODELS[settings.kind].vocabulary():
        raise InputError(
            f"{folder} was trained with other codes for molecules than this molattn has; use molattn "
            f"{config['molattn']} or train again"
        )
    count = 1 + config.get("members", 0)
    asked = settings, len(task.target_of_output(len(targets))), task.of_atoms, len(beside)
    if max(count, settings.num_layers) > len(forms):
        raise Misfit("its settings ask for more weights than it has")
    with float32(), at_most(2 * numbers_of(part(forms, "")) + NO_WEIGHTS):
        first = build(*asked)
    check_forms(forms, wanted_forms(config, task, first, forms))
    tensors, checksum = tensors_of(folder / WEIGHTS)
    if checksum != config[SEAL][WEIGHTS]:
        raise Misfit(f"its checksum differs from the one in {CONFIG}")
    check_finite(tensors)
    with float32():
        models = [first, *(build(*asked) for _ in range(1, count))]
    for i, model in enumerate(models):
        model.load_state_dict(part(tensors, member_name(i)))
        model.eval().requires_grad_(False)
    conformers = config["molecules"].get("conformers")
    method = config.get("uncertainty", {"method": "", "samples": 10})
    return Artifact(
        model=first,
        scaler=TargetScaler(tuple(t["mean"] for t in targets), tuple(t["std"] for t in targets)),
        targets=tuple(t["name"] for t in targets),
        units=tuple(t["unit"] for t in targets),
        add_hs=config["molecules"]["add_hs"],
        max_atoms=config["molecules"]["max_atoms"],
        conformers=None if conformers is None else Conformers(**conformers),
        task=task,
        standardize=standardize,
        descriptors=scaler_of(beside),
        members=tuple(models[1:]),
        uncertainty=resolve_uncertainty_method(method["method"], task, count, settings.dropout),
        samples=method["samples"],
        calibration=calibration_of(config, tensors, task),
        domain=domain_of(config, tensors),
    )
