"""The exported decoding gives what the task, the ensemble, the calibration and the transforms give with numpy."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from molattn.models.artifact import Artifact
from molattn.models.calibration import Calibration
from molattn.models.exported.decode import Decoder, _interpolate, undecoded_reason
from molattn.models.losses import LOSSES
from molattn.models.target_transform import TargetTransform
from molattn.models.task import Task
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.models.uncertainty import combine_members
from tests.assertions import assert_same_predictions
from tests.models.forms import SCORES, _artifact

CLASSES = (("a", "b"), ("u", "v", "w"))
KNOTS = {
    **{"x0": np.array([0.0, 0.2, 0.2, 0.9]), "y0": np.array([0.0, 0.1, 0.5, 1.0])},
    **{"x1": np.array([0.1, 0.8]), "y1": np.array([0.0, 0.7])},
    **{"x2": np.array([0.3]), "y2": np.array([0.4])},
}
TRANSFORMS = {
    "log10": TargetTransform("log10"),
    "log1p": TargetTransform("log1p"),
    "neg-log10-molar": TargetTransform("neg-log10-molar", "nM"),
    "rank": TargetTransform("rank").fit(np.linspace(1.0, 3.0, 12)),
    "rank of one": TargetTransform("rank").fit(np.ones(3)),
}


def calibrated(method: str, uncertainty: str, scores: dict[str, Any]) -> Calibration:
    return Calibration(method, uncertainty, (deepcopy(scores), deepcopy(scores)))


def compare(artifact: Artifact, outputs: np.ndarray) -> None:
    """Compare for raw outputs, (models, n, outputs); also of another shape, as those of atoms are."""
    members = [artifact.task.decode(o, artifact.scaler) for o in outputs]
    expected = artifact.apply_calibration(combine_members(members, artifact.task, artifact.uncertainty_method))
    for shape in ((len(outputs), *outputs.shape[1:]), (len(outputs), 2, -1, outputs.shape[-1])):
        values, distribution, std, _ = Decoder(artifact)(torch.from_numpy(outputs.reshape(shape)))
        for found, wanted in ((values, expected.values), (distribution, expected.distribution), (std, expected.std)):
            if wanted is None or not wanted.size:
                assert found is None
                continue
            assert found is not None
            assert found.dtype == torch.float64
            assert_same_predictions(found.reshape(wanted.shape).numpy(), wanted, 1e-9)


@pytest.fixture
def outputs() -> Callable[[Artifact], np.ndarray]:
    """Random outputs of each model of an artifact, for 40 molecules, some of them large."""
    rng = np.random.default_rng(0)

    def make(artifact: Artifact) -> np.ndarray:
        x = rng.normal(size=(len(artifact.models), 40, artifact.model.head.out_features))
        x[:, :4] *= 30
        return x

    return make


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_decoded(loss: str, size: int, outputs: Callable[[Artifact], np.ndarray]) -> None:
    tasks: dict[str, Task] = {
        "regression": Regression(loss),
        "binary": Binary(loss),
        "multiclass": Multiclass(loss, CLASSES),
    }
    for kind in LOSSES[loss].task_kinds:
        artifact = _artifact("yz", task=tasks[kind], size=size)
        assert undecoded_reason(artifact) == ""
        compare(artifact, outputs(artifact))
        for method in ("none", *LOSSES[loss].uncertainty_methods):
            compare(replace(artifact, uncertainty_method=method), outputs(artifact))


@pytest.mark.parametrize("method", ["zscaling", "isotonic", "conformal-regression"])
def test_calibrated_standard_deviations(method: str, outputs: Callable[[Artifact], np.ndarray]) -> None:
    for task, uncertainty in ((Regression("mve"), "mve"), (Regression(), "none")):
        artifact = _artifact("yz", task=task, calibration=calibrated(method, uncertainty, SCORES))
        compare(artifact, outputs(artifact))


@pytest.mark.parametrize("loss", ["cross-entropy", "dirichlet"])
def test_calibrated_probabilities(loss: str, outputs: Callable[[Artifact], np.ndarray]) -> None:
    for size in (1, 2):
        task = Multiclass(loss, CLASSES)
        artifact = _artifact("yz", task=task, size=size, calibration=calibrated("isotonic", "none", KNOTS))
        compare(artifact, outputs(artifact))
        binary = Binary("dirichlet" if loss == "dirichlet" else "bce")
        artifact = _artifact("yz", task=binary, size=size, calibration=calibrated("isotonic", "none", KNOTS))
        compare(artifact, outputs(artifact))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_inverted(name: str, outputs: Callable[[Artifact], np.ndarray]) -> None:
    for task in (Regression(), Regression("mve"), Regression("quantile")):
        artifact = _artifact("yz", task=task)
        for transforms in ((TRANSFORMS[name], None), (None, TRANSFORMS[name])):
            transformed = replace(artifact, scaler=replace(artifact.scaler, transforms=transforms))
            compare(transformed, np.clip(outputs(artifact), -4, 4))


def test_interpolation_is_that_of_numpy() -> None:
    xs, ys = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 2.5, 4.0, 4.0]), np.array([5.0, 1.0, 2.0, 7.0, 3.0, 3.0, -1.0, 9.0])
    x = np.array([-1.0, 0.0, 0.3, 1.0, 1.1, 2.5, 3.9, 4.0, 5.0, np.nan])
    found = _interpolate(torch.from_numpy(x), xs, ys)
    np.testing.assert_allclose(found.numpy(), np.interp(x, xs, ys), rtol=1e-12)


def test_what_is_not_decoded_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOSSES, "own", replace(LOSSES["mve"], name="own"))
    assert "is that of a plugin" in undecoded_reason(_artifact(task=Regression("own")))
    assert "dropout" in undecoded_reason(replace(_artifact(), uncertainty_method="dropout"))
