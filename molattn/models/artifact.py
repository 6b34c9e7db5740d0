"""A model on disk: `model.safetensors` and `config.json`, never a pickle.

Neither file can be used without the other. While a model replaces another, the new configuration is therefore kept
next to the old one, as `config.next.json`, until the new weights are written. If the process is killed in between, the
folder still holds a model that loads: the old or the new one.
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

from molattn.chem import DEFAULT_READ_OPTIONS, STANDARDIZE, ConformerOptions, ReadOptions
from molattn.data.files import file_sha256, write_bytes
from molattn.data.schema import CHECKSUMS, ValidationError, dumps_checksummed, parse_json
from molattn.errors import InputError, UsageError, short_repr
from molattn.models.applicability_domain import ApplicabilityDomain
from molattn.models.base import Molecule, MoleculeModel, build_model, model_class
from molattn.models.calibration import Calibration, apply_calibration, prediction_intervals
from molattn.models.config_file import (
    CALIBRATION,
    CONFIG_JSON,
    DOMAIN,
    MAX_CONFIG_BYTES,
    MEMBERS,
    NEXT_CONFIG,
    SCHEMA,
    TREES,
    WEIGHTS,
    add_prefix,
    count_numbers,
    expected_specs,
    member_prefix,
    model_config_of,
    read_calibration,
    read_config_file,
    read_descriptor_scaler,
    read_domain,
    read_target_scaler,
    read_trees,
    select_prefix,
    transform_settings,
)
from molattn.models.predictions import Predictions
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.stacked_trees import StackedTrees
from molattn.models.tasks import REGRESSION, Regression, Task, prior_predictions, task_from_dict
from molattn.models.tensor_file import (
    AllocationLimit,
    TensorSpec,
    check_finite,
    check_tensor_specs,
    default_float32,
    read_tensor_specs,
    read_tensors,
)
from molattn.models.uncertainty import NONE, predict_with_uncertainty, resolve_uncertainty_method
from molattn.plugins import load_plugins


@dataclass(frozen=True)
class Artifact:
    """A fitted model and everything that is needed to use it.

    Attributes:
        model: in evaluation mode.
        scaler: converts the model's outputs to the units of the targets.
        targets: T names.
        units: T units, empty where unknown.
        read_options: how molecules are read, as in training.
        task: what the model's outputs mean.
        descriptors: the names and the scaling of the descriptors that the model reads; None if it reads none.
        members: the other models of an ensemble, of which `model` is the first.
        uncertainty: how standard deviations are computed, one of `molattn.models.uncertainty.uncertainty_methods()`.
        samples: the number of passes of the uncertainty method "dropout".
        calibration: the scores for prediction intervals and sets; None for an uncalibrated model.
        domain: the applicability domain; None if the model has none.
        trees: boosted trees whose predictions are averaged with those of the models; None for none.
        class_priors: see `Task.class_priors`; empty for regression, and for models that were saved without them.
    """

    model: MoleculeModel
    scaler: TargetScaler
    targets: tuple[str, ...]
    units: tuple[str, ...]
    read_options: ReadOptions = DEFAULT_READ_OPTIONS
    task: Task = REGRESSION
    descriptors: DescriptorScaler | None = None
    members: tuple[MoleculeModel, ...] = ()
    uncertainty: str = ""
    samples: int = 10
    calibration: Calibration | None = None
    domain: ApplicabilityDomain | None = None
    trees: StackedTrees | None = None
    class_priors: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self):
        if not self.uncertainty:
            object.__setattr__(self, "uncertainty", resolve_uncertainty_method("", self.task, len(self.models), 0.0))

    @property
    def models(self) -> tuple[MoleculeModel, ...]:
        """All models of the ensemble, or the single model."""
        return (self.model, *self.members)

    def extra_columns(self, uncertainty: str = "") -> list[str]:
        """The names of the columns of `Predictions.extra_values`, with the default uncertainty method or another."""
        has_std = (uncertainty or self.uncertainty) != NONE
        return [*self.task.distribution_columns(self.targets), *(f"{t}_std" for t in self.targets if has_std)]

    def predict(
        self,
        molecules: Sequence[Molecule],
        descriptors: np.ndarray | None = None,
        uncertainty: str = "",
        failures: dict[int, str] | None = None,
    ) -> Predictions:
        """Predictions before calibration, of the transformed targets; pass them to `apply_calibration`.

        See `molattn.models.uncertainty.predict_with_uncertainty`.
        """
        predictions = self.predict_attention(molecules, descriptors, uncertainty, failures)
        if self.trees is None or not len(molecules):
            return predictions
        features = self.trees.features(molecules, failures)
        return self.trees.combine(self.task, self.scaler, predictions, features)

    def predict_attention(
        self,
        molecules: Sequence[Molecule],
        descriptors: np.ndarray | None = None,
        uncertainty: str = "",
        failures: dict[int, str] | None = None,
    ) -> Predictions:
        """As `predict`, without the trees."""
        method = uncertainty or self.uncertainty
        return predict_with_uncertainty(
            self.models, self.task, self.scaler, molecules, method, self.samples, descriptors, failures
        )

    @property
    def calibration_method(self) -> str:
        """The default calibration method."""
        return NONE if self.calibration is None else self.calibration.method

    def apply_calibration(self, predictions: Predictions, method: str = "") -> Predictions:
        """The predictions of `predict`, calibrated and in the units of the targets.

        See `molattn.models.calibration.apply_calibration` and `TargetScaler.inverse_transform`.
        """
        if self.calibration is not None:
            method = method or self.calibration.method
            predictions = apply_calibration(predictions, self.task, self.calibration, method)
        return self.scaler.inverse_transform(predictions)

    def baseline_predictions(self, n: int) -> Predictions | None:
        """The baseline for n molecules or atoms: the training mean, or the class priors.

        For a target with a transform it is the mean of the transformed target, converted to the unit of the target.
        None if the class priors were not saved with the model.
        """
        if isinstance(self.task, Regression):
            return self.scaler.inverse_transform(self.task.baseline_predictions(np.array([self.scaler.mean]), n))
        return prior_predictions(self.task, self.class_priors, n) if self.class_priors else None

    def prediction_intervals(
        self, predictions: Predictions, level: float, method: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Intervals in the units of the targets, from `predict`; see `molattn.models.calibration.prediction_intervals`.

        Raises:
            UsageError: as there.
            TypeError: the targets are classes.
        """
        if not isinstance(self.task, Regression):
            raise TypeError("classes have prediction sets, not intervals")
        calibration = None if method == NONE else self.calibration
        bounds = prediction_intervals(predictions, self.task, level, calibration, method)
        return self.scaler.inverse_transform_bounds(*bounds)


def save_artifact(folder: str | Path, artifact: Artifact) -> None:
    """Write the model into `folder`; an existing model there is replaced atomically."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    tensors, calibration, domain = _weights(artifact.model), artifact.calibration, artifact.domain
    trees = artifact.trees
    for i, member in enumerate(artifact.members, start=1):
        tensors |= {f"{member_prefix(i)}.{name}": x for name, x in _weights(member).items()}
    if calibration is not None:
        scores = {f"{t}.{name}": x for t, of_target in enumerate(calibration.scores) for name, x in of_target.items()}
        tensors |= add_prefix(CALIBRATION, scores)
    if domain is not None:
        tensors |= add_prefix(DOMAIN, {"embeddings": domain.embeddings, "bits": domain.bits})
    if trees is not None:
        for t, of_target in enumerate(trees.trees):
            tensors |= add_prefix(f"{TREES}.{t}", of_target.arrays())
    weights = save({name: x.detach().cpu().contiguous() for name, x in tensors.items()})
    scaler = artifact.scaler
    config = {
        "schema": SCHEMA,
        "molattn": version("molattn"),
        "model": dataclasses.asdict(artifact.model.config),
        "targets": [
            {"name": name, "unit": unit, "mean": mean, "std": std, **transform_settings(scaler, t)}
            | ({"class_priors": list(artifact.class_priors[t])} if artifact.class_priors else {})
            for t, (name, unit, mean, std) in enumerate(
                zip(artifact.targets, artifact.units, scaler.mean, scaler.std, strict=True)
            )
        ],
        "task": artifact.task.to_dict(),
        "molecules": dataclasses.asdict(artifact.read_options),
        "descriptors": _descriptors(artifact.descriptors),
        MEMBERS: len(artifact.members),
        "uncertainty": {"method": artifact.uncertainty, "samples": artifact.samples},
        CALIBRATION: calibration and {"method": calibration.method, "uncertainty": calibration.uncertainty},
        DOMAIN: domain and {"max_distance": domain.max_distance, "min_similarity": domain.min_similarity},
        "vocabulary": artifact.model.vocabulary(),
        CHECKSUMS: {WEIGHTS: hashlib.sha256(weights).hexdigest()},
    }
    if trees is not None:
        config[TREES] = {"featurizers": list(trees.featurizers), "weights": list(trees.weights)}
    _finish_replacement(folder)
    try:
        write_bytes(folder / NEXT_CONFIG, dumps_checksummed(config, CONFIG_JSON))
        write_bytes(folder / WEIGHTS, weights)
    finally:
        _finish_replacement(folder)


def _weights(model: MoleculeModel) -> dict[str, Tensor]:
    """The weights of a model; files hold float32 only."""
    return {name: x.float() if x.is_floating_point() else x for name, x in model.state_dict().items()}


def _finish_replacement(folder: Path) -> None:
    """Move the next configuration into place if its weights were written, and remove it if they were not."""
    if (folder / NEXT_CONFIG).is_file():
        if _next_config_has_these_weights(folder):
            os.replace(folder / NEXT_CONFIG, folder / CONFIG_JSON)
        else:
            (folder / NEXT_CONFIG).unlink()


def _next_config_has_these_weights(folder: Path) -> bool:
    """Whether the checksum in the next configuration is that of the weights in `folder`."""
    try:
        return file_sha256(folder / WEIGHTS) == parse_json((folder / NEXT_CONFIG).read_bytes())[CHECKSUMS][WEIGHTS]
    except (FileNotFoundError, ValueError, TypeError, LookupError):  # no weights, or a damaged configuration
        return False


def _descriptors(scaler: DescriptorScaler | None) -> list[dict[str, Any]]:
    if scaler is None:
        return []
    return [
        {"name": name, "mean": mean, "std": std, "computed": i >= len(scaler.provided)}
        for i, (name, mean, std) in enumerate(zip(scaler.names, scaler.mean, scaler.std, strict=True))
    ]


MAX_BUFFER_NUMBERS = 10_000_000
"""The maximum number of tensor elements of a model besides its weights, such as the centers of radial bases."""


def load_artifact(folder: str | Path) -> Artifact:
    """Read a model that `save_artifact` wrote, on the CPU.

    Values in the files are used only if they are in range and consistent, so that loading an untrusted folder takes no
    more time or memory than its size warrants.

    Raises:
        InputError: a file is missing, damaged, newer than this molattn, or trained with another vocabulary.
        UsageError: a plugin cannot be loaded.
    """
    load_plugins()
    folder = Path(folder)
    for name in (CONFIG_JSON, WEIGHTS):
        if not (folder / name).is_file():
            raise InputError(f"{folder} contains no model: {name} is missing; give the folder of a finished run")
    try:
        specs = read_tensor_specs(folder / WEIGHTS)
        config = read_config_file(folder, _current_config(folder))
        return _build_artifact(config, specs, folder)
    except ValidationError as error:
        raise InputError(f"{folder / WEIGHTS} is damaged or was changed: {error}; copy it again") from error
    except (UsageError, ValueError) as error:
        # The message quotes the file, which may contain any characters.
        why = str(error).encode("ascii", "backslashreplace").decode()
        raise InputError(f"{folder} requires what is not available: {why}") from error
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error}") from error
    except (KeyError, TypeError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise InputError(
            f"{folder} is damaged, it cannot be read as a model ({type(error).__name__}); copy it again"
        ) from error


def _current_config(folder: Path) -> str:
    """The name of the configuration file that belongs to the weights."""
    if not (folder / NEXT_CONFIG).is_file() or (folder / NEXT_CONFIG).stat().st_size > MAX_CONFIG_BYTES:
        return CONFIG_JSON
    return NEXT_CONFIG if _next_config_has_these_weights(folder) else CONFIG_JSON


def _build_artifact(config: dict[str, Any], specs: dict[str, TensorSpec], folder: Path) -> Artifact:
    targets, descriptors, settings = config["targets"], config["descriptors"], model_config_of(config)
    task, molecules = task_from_dict(config["task"]), config["molecules"]
    standardize, conformers = molecules["standardize"], molecules["conformers"]
    if standardize and standardize not in STANDARDIZE:
        raise UsageError(f"the standard form {short_repr(standardize)}; upgrade molattn")
    if config["vocabulary"] != model_class(settings.kind).vocabulary():
        raise InputError(
            f"{folder} was trained with another vocabulary of molecules than that of this molattn; use molattn "
            f"{config['molattn']} or train again"
        )
    count = 1 + config[MEMBERS]
    build_args = settings, len(task.target_of_output(len(targets))), task.atom_level, len(descriptors)
    if max(count, settings.num_layers) > len(specs):
        raise ValidationError("its settings require more weights than it has")
    with default_float32(), AllocationLimit(2 * count_numbers(select_prefix(specs, "")) + MAX_BUFFER_NUMBERS):
        first = build_model(*build_args)
    check_tensor_specs(specs, expected_specs(config, task, first, specs))
    tensors, checksum = read_tensors(folder / WEIGHTS)
    if checksum != config[CHECKSUMS][WEIGHTS]:
        raise ValidationError(f"its checksum differs from the one in {CONFIG_JSON}")
    check_finite(tensors)
    with default_float32():
        models = [first, *(build_model(*build_args) for _ in range(1, count))]
    for i, model in enumerate(models):
        model.load_state_dict(select_prefix(tensors, member_prefix(i)))
        model.eval().requires_grad_(False)
    method = config["uncertainty"]
    return Artifact(
        model=first,
        scaler=read_target_scaler(targets),
        targets=tuple(t["name"] for t in targets),
        units=tuple(t["unit"] for t in targets),
        read_options=ReadOptions(**{**molecules, "conformers": conformers and ConformerOptions(**conformers)}),
        task=task,
        descriptors=read_descriptor_scaler(descriptors),
        members=tuple(models[1:]),
        uncertainty=resolve_uncertainty_method(method["method"], task, count, settings.dropout),
        samples=method["samples"],
        calibration=read_calibration(config, tensors, task),
        domain=read_domain(config, tensors),
        trees=read_trees(config, tensors, task),
        class_priors=tuple(tuple(t["class_priors"]) for t in targets if "class_priors" in t),
    )
