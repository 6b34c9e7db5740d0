"""Small models of every form on disk, with random weights: the same ones in every process."""

import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from molattn.chem import ConformerOptions, ReadOptions
from molattn.models.applicability_domain import FINGERPRINT_BYTES, ApplicabilityDomain
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import save_artifact
from molattn.models.base import build_model
from molattn.models.calibration import Calibration
from molattn.models.config import GraphModelConfig, ModelConfig, SmilesModelConfig
from molattn.models.presets import PRESETS
from molattn.models.scaler import DescriptorScaler, TargetScaler
from molattn.models.target_transform import TargetTransform
from molattn.models.task import Task
from molattn.models.tasks import REGRESSION, Binary, Regression

GRAPH = GraphModelConfig(hidden_dim=8, num_heads=2, num_layers=1)
MAT = replace(GRAPH, **{k: tuple(v) if isinstance(v, list) else v for k, v in PRESETS["mat"].settings["model"].items()})
TOKENS = SmilesModelConfig(hidden_dim=8, num_heads=2, num_layers=1)
SCORES = {"z": np.linspace(-2.0, 2.0, 12), "normalized_residuals": np.linspace(0.0, 2.0, 12), "beta": np.zeros(1)}


def _artifact(
    targets: str = "y", config: ModelConfig = GRAPH, task: Task = REGRESSION, size: int = 1, **parts: Any
) -> Artifact:
    """An artifact of `size` models with these targets, a letter each."""
    outputs, scaler = len(task.target_of_output(len(targets))), parts.get("descriptors")
    models = [
        build_model(config, outputs, task.atom_level, len(scaler.names) if scaler else 0).eval().requires_grad_(False)
        for _ in range(size)
    ]
    numbers = TargetScaler(tuple(-3.0 for _ in targets), tuple(2.0 for _ in targets))
    scale = numbers if isinstance(task, Regression) else TargetScaler.identity(len(targets))
    units = tuple("" for _ in targets)
    return Artifact(models[0], scale, tuple(targets), units, task=task, other_models=tuple(models[1:]), **parts)


def _domain() -> ApplicabilityDomain:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 256, (6, FINGERPRINT_BYTES), dtype=np.uint8)
    return ApplicabilityDomain.fit(rng.normal(size=(6, 8)), bits)


def _transformed() -> Artifact:
    artifact = _artifact("yz")
    transforms = TargetTransform("neg-log10-molar", "nM"), TargetTransform("rank").fit(np.linspace(1.0, 3.0, 12))
    return replace(artifact, scaler=replace(artifact.scaler, transforms=transforms))


FORMS: dict[str, Callable[[], Artifact]] = {
    "regression": _artifact,
    "conformers": lambda: _artifact(config=MAT, read_options=ReadOptions(conformers=ConformerOptions())),
    "binary": lambda: _artifact("c", task=Binary(), class_priors=((0.25, 0.75),)),
    "parent": lambda: _artifact("yz", read_options=ReadOptions(standardize="parent")),
    "atoms": lambda: _artifact("q", task=Regression(atom_level=True)),
    "descriptors": lambda: _artifact(descriptors=DescriptorScaler(("z",), (0.5,), (2.0,))),
    "ensemble": lambda: _artifact(size=2, calibration=Calibration("conformal-regression", "ensemble", (SCORES,))),
    "distances": lambda: _artifact(
        domain=_domain(), calibration=Calibration("conformal-regression", "none", (SCORES,), True)
    ),
    "tokens": lambda: _artifact(config=TOKENS),
    "quantile": lambda: _artifact(task=Regression("quantile"), domain=_domain()),
    "transform": _transformed,
    "computed": lambda: _artifact(descriptors=DescriptorScaler(("qed",), (0.5,), (0.2,), ("qed",))),
}
"""Functions that make an artifact, by the name of its form."""


@cache
def model_folders() -> dict[str, Path]:
    """The folder of a model of each form; they are removed at the end of the process."""
    home = Path(tempfile.mkdtemp(prefix="molattn-models-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    with torch.random.fork_rng():
        for name, form in FORMS.items():
            torch.manual_seed(0)
            save_artifact(home / name, form())
    return {name: home / name for name in FORMS}
