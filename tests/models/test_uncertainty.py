"""Uncertainty from ensembles, dropout and losses: the equations, and the files on disk."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from molattn.chem import molecule_graph
from molattn.data.schema import dumps_checksummed
from molattn.errors import InputError, UsageError
from molattn.models.applicability_domain import ApplicabilityDomain
from molattn.models.artifact import Artifact
from molattn.models.artifact_file import load_artifact, save_artifact
from molattn.models.calibration import Calibration, resolve_calibration_method, score_names
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.losses import losses_of
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.models.uncertainty import _dropout_passes, resolve_uncertainty_method, uncertainty_methods
from tests.gpus import refuse_gpus
from tests.molecules import SPECIAL

GRAPHS = [molecule_graph(smiles) for smiles in SPECIAL]
GRADES = (("a", "b", "c"), ("no", "yes"))
TASKS = [
    *map(Regression, losses_of("regression")),
    *map(Binary, losses_of("binary")),
    *(Multiclass(loss, GRADES) for loss in losses_of("multiclass")),
]
SMALL = GraphModelConfig(hidden_dim=16, num_heads=4, num_layers=1, edge_dim=4)


def _ensemble(task: Task, members: int = 3, **fields: object) -> Artifact:
    models = []
    for seed in range(members):
        torch.manual_seed(seed)
        models.append(GraphModel(SMALL, len(task.target_of_output(2))).eval().requires_grad_(False))
    scaler = TargetScaler((1.0, -2.0), (3.0, 0.5)) if isinstance(task, Regression) else TargetScaler.identity(2)
    settings = {"task": task, "other_models": tuple(models[1:]), **fields}
    return Artifact(models[0], scaler, ("p", "q"), ("", ""), **settings)  # pyright: ignore


@pytest.mark.parametrize("task", TASKS, ids=lambda t: f"{t.kind}-{t.loss}")
def test_an_ensemble_predicts_the_mean_and_its_variance_has_two_parts(task: Task) -> None:
    ensemble = _ensemble(task)
    predictions = ensemble.predict(GRAPHS)
    each = [replace(ensemble, model=m, other_models=(), uncertainty_method="").predict(GRAPHS) for m in ensemble.models]
    assert predictions.extra_values.shape == (len(GRAPHS), len(ensemble.extra_columns()))
    assert ensemble.extra_columns()[-2:] == ["p_std", "q_std"]
    assert predictions.std is not None
    if isinstance(task, Multiclass):
        np.testing.assert_allclose(predictions.distribution, np.mean([a.distribution for a in each], 0))
        first = predictions.distribution[:, :3]
        np.testing.assert_array_equal(predictions.values[:, 0], first.argmax(1))
        rows = np.arange(len(GRAPHS))
        between = np.var([a.distribution[rows, first.argmax(1)] for a in each], 0)
    else:
        np.testing.assert_allclose(predictions.values, np.mean([a.values for a in each], 0))
        between = np.var([a.values[:, 0] for a in each], 0)
    within = np.mean([0.0 * a.values[:, 0] if a.std is None else a.std[:, 0] ** 2 for a in each], 0)
    np.testing.assert_allclose(predictions.std[:, 0] ** 2, between + within)
    # The variance from the loss alone is one of the two.
    if task.uncertainty_method != "none":
        alone = ensemble.predict(GRAPHS, uncertainty_method=task.uncertainty_method).std
        assert alone is not None
        np.testing.assert_allclose(alone[:, 0] ** 2, within)
    assert ensemble.predict(GRAPHS, uncertainty_method="none").std is None


def test_evidential_variance_is_aleatoric_and_epistemic() -> None:
    artifact = _ensemble(Regression("evidential"), 1)
    squares = {}
    for name in ("total", "epistemic", "aleatoric"):
        std = artifact.predict(GRAPHS, uncertainty_method=f"evidential-{name}").std
        assert std is not None
        squares[name] = std**2
    np.testing.assert_allclose(squares["total"], squares["epistemic"] + squares["aleatoric"])
    # Against the definitions, in units.
    from molattn.models.predict import compute_outputs

    raw = torch.from_numpy(compute_outputs(artifact.model, GRAPHS))
    nu, alpha, beta = (torch.nn.functional.softplus(raw[:, i : i + 2]).numpy() for i in (2, 4, 6))
    scale = np.array([3.0, 0.5]) ** 2
    np.testing.assert_allclose(squares["aleatoric"], scale * beta / alpha, rtol=1e-4)
    np.testing.assert_allclose(squares["epistemic"], scale * beta / (nu * alpha), rtol=1e-4)


def test_quantiles_never_cross() -> None:
    predictions = _ensemble(Regression("quantile"), 1).predict(GRAPHS)
    lower, upper = np.split(predictions.distribution, 2, 1)
    assert (lower < predictions.values).all() and (predictions.values < upper).all()
    assert _ensemble(Regression("quantile", alpha=0.2), 1).extra_columns() == [
        "p_q10",
        "q_q10",
        "p_q90",
        "q_q90",
        "p_std",
        "q_std",
    ]


def test_a_batch_normalization_stays_in_evaluation_mode_in_passes_with_dropout() -> None:
    model = GraphModel(SMALL).eval()
    model.add_module("extra", nn.BatchNorm1d(2).eval())
    for passed in _dropout_passes(model, 2, 0):
        assert [name for name, module in passed.named_modules() if not module.training] == ["extra"]
    assert not any(module.training for module in model.modules())


def test_dropout_gives_a_std_and_changes_neither_predictions_nor_random_state(monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = _ensemble(Regression(), 2, uncertainty_method="dropout", dropout_passes=20)
    plain = _ensemble(Regression(), 2, uncertainty_method="none")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    refuse_gpus(monkeypatch)
    predictions, again = artifact.predict(GRAPHS), artifact.predict(GRAPHS)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(predictions.values, plain.predict(GRAPHS).values)
    assert predictions.std is not None and again.std is not None
    np.testing.assert_array_equal(predictions.std, again.std)
    assert (predictions.std > 0).all()
    assert not any(model.training for model in artifact.models)


@pytest.mark.parametrize("task", TASKS, ids=lambda t: f"{t.kind}-{t.loss}")
def test_save_and_load_are_bitwise_exact(task: Task, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    method = resolve_calibration_method("zscaling" if isinstance(task, Regression) else "", task)
    names = [[name for together in score_names(task, t) for name in together] for t in range(2)]
    scores = tuple({k: np.sort(draw.random(1 if k == "beta" else 30)) for k in of_target} for of_target in names)
    domain = ApplicabilityDomain.fit(draw.normal(size=(20, 16)), draw.integers(0, 256, (20, 256)).astype(np.uint8))
    written = _ensemble(task, 3, calibration=Calibration(method, "ensemble", scores), domain=domain)
    save_artifact(tmp_path, written)
    assert {p.name for p in tmp_path.iterdir()} == {"model.safetensors", "config.json"}
    read = load_artifact(tmp_path)
    a, b = written.predict(GRAPHS), read.predict(GRAPHS)
    np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(a.extra_values, b.extra_values)
    assert (
        read.uncertainty_method == "ensemble" and read.task == task and read.extra_columns() == written.extra_columns()
    )
    assert read.calibration is not None and read.domain is not None
    assert (read.calibration.method, read.calibration.uncertainty_method) == (method, "ensemble")
    for mine, theirs in zip(read.calibration.scores, scores, strict=True):
        assert mine.keys() == theirs.keys() and all((mine[k] == theirs[k]).all() for k in mine)
    assert (read.domain.embeddings == domain.embeddings).all() and (read.domain.bits == domain.bits).all()
    assert (read.domain.max_distance, read.domain.min_similarity) == (domain.max_distance, domain.min_similarity)


def test_the_uncertainty_method_is_saved(tmp_path: Path) -> None:
    save_artifact(tmp_path, _ensemble(Regression(), 1, uncertainty_method="dropout", dropout_passes=7))
    read = load_artifact(tmp_path)
    assert (read.uncertainty_method, read.dropout_passes, read.other_models) == ("dropout", 7, ())


def test_missing_members_are_an_error(tmp_path: Path) -> None:
    save_artifact(tmp_path, _ensemble(Regression(), 2))
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_bytes(dumps_checksummed({**config, "members": 2}, "config.json"))
    with pytest.raises(InputError, match=r"the tensor 'members\.2\.\S+' is missing"):
        load_artifact(tmp_path)


def test_unsupported_methods_are_errors() -> None:
    assert (
        resolve_uncertainty_method("", Regression(), 1, 0.1) == "none"
        and resolve_uncertainty_method("", Regression(), 2, 0.1) == "ensemble"
    )
    assert resolve_uncertainty_method("", Binary("dirichlet"), 1, 0.1) == "dirichlet"
    assert all(
        resolve_uncertainty_method(name, Regression("evidential"), 2, 0.1)
        for name in uncertainty_methods()
        if name.startswith("evid")
    )
    for requested, reason in (
        ("ensemble", "needs several models: train with --ensemble-size"),
        ("mve", "needs a model trained with --loss-function mve"),
        ("magic", "unknown uncertainty method 'magic'"),
    ):
        with pytest.raises(UsageError, match=reason):
            resolve_uncertainty_method(requested, Regression(), 1, 0.1)
    with pytest.raises(UsageError, match="a model with dropout"):
        resolve_uncertainty_method("dropout", Regression(), 1, 0.0)
