"""Knowledge distillation: a teacher labels variants of the training molecules, which the model learns too."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import mean_squared_error
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import molattn
from molattn import MolAttentionRegressor
from molattn.chem import canonical_smiles, read_smiles
from molattn.models.artifact_file import load_artifact
from molattn.models.graph_model import GraphModel
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Binary, Multiclass, Regression
from molattn.training import distillation
from molattn.training.bases import FEW_MOLECULES, MANY_MOLECULES, MOLECULES_WITH_VARIANTS, bases_dir
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules
from molattn.training.distillation import (
    AUXILIARY,
    MIN_NOISE,
    MIN_PROBABILITY,
    Variants,
    generate_variants,
    noise_of_labels,
    resolve_for_molecules,
    second_training,
    why_not_distilled,
    with_labels_of_teacher,
)
from molattn.training.ensemble import fit_ensemble
from molattn.training.initialization import initialize_model
from molattn.training.run_config import RunConfig, resolve
from tests.cli.conftest import Molattn
from tests.cli.conftest import molattn as molattn_command
from tests.molecules import esol
from tests.training.runs import resume, same_runs

SMILES, VALUES = esol(340)
NUM_TRAIN, COUNT = 260, 120
command = molattn_command


def _labelled(first: int, end: int, *columns: Any, **more: Any) -> LabelledMolecules:
    targets = np.stack([np.asarray(y, dtype=float) for y in columns or (VALUES,)], axis=1)[first:end]
    molecules: Any = GraphModel.read(SMILES[first:end])
    return LabelledMolecules(molecules, targets, **more)


def _config(*settings: str, **options: Any) -> RunConfig:
    return resolve(None, {"base": "nci", "distillation": COUNT, **options}, settings)


TRAIN, VAL = _labelled(0, NUM_TRAIN), _labelled(NUM_TRAIN, 340)
SCALER = Regression().fit_scaler(TRAIN.targets, ())


def _canonical(molecules: Any) -> list[str]:
    return [canonical_smiles(read_smiles(m.smiles)) for m in molecules]


def _kernel_ridge(x: LabelledMolecules, y: np.ndarray, new: Any, weights: np.ndarray | None = None) -> np.ndarray:
    """The labels of a pipeline of scikit-learn."""
    folder = bases_dir()
    assert folder is not None
    bases = [load_artifact(folder / name) for name in ("chembl", "nci")]
    old, fresh = (np.hstack([b.embed(list(m)) for b in bases]) for m in (x.molecules, new))
    clip = FunctionTransformer(lambda values: np.clip(values, -5, 5))
    regression = KernelRidge(alpha=0.3, kernel="rbf", gamma=0.5 / (128 + 64))
    pipeline = make_pipeline(StandardScaler(), clip, regression)
    known = np.isfinite(y)
    known &= True if weights is None else weights > 0
    z = (y[known] - y[known].mean()) / y[known].std()
    weighted = {} if weights is None else {"kernelridge__sample_weight": weights[known] / weights[known].mean()}
    pipeline.fit(old[known], z, **weighted)
    return pipeline.predict(fresh) * y[known].std() + y[known].mean()


def _variants(train: LabelledMolecules = TRAIN, task: Any = None, **options: Any) -> Variants:
    found = generate_variants(train, VAL, task or Regression(), _config(**options))
    assert found is not None
    return found


def test_variants_have_the_labels_of_kernel_ridge_regression() -> None:
    found = _variants()
    assert len(found.molecules) == len(found.labels) == COUNT
    canonical = _canonical(found.molecules)
    assert len(set(canonical)) == COUNT
    assert not {*canonical} & {*_canonical(TRAIN.molecules), *_canonical(VAL.molecules)}
    assert all(Chem.MolFromSmiles(text) is not None for text in canonical)
    for labels, molecules in ((found.labels, found.molecules), (found.val_labels, VAL.molecules)):
        np.testing.assert_allclose(labels[:, 0], _kernel_ridge(TRAIN, TRAIN.targets[:, 0], molecules), rtol=1e-5)


def test_of_many_molecules_the_regression_learns_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _variants().labels
    monkeypatch.setattr(distillation, "MAX_MOLECULES", 200)
    sample, again = _variants().labels, _variants().labels
    np.testing.assert_array_equal(sample, again)
    assert 0.9 < np.corrcoef(whole[:, 0], sample[:, 0])[0, 1] < 0.99999


def test_the_seed_decides_on_the_variants() -> None:
    first, again, other = (_variants(seed=seed) for seed in (1, 1, 2))
    assert [m.smiles for m in first.molecules] == [m.smiles for m in again.molecules]
    np.testing.assert_array_equal(first.labels, again.labels)
    assert [m.smiles for m in first.molecules] != [m.smiles for m in other.molecules]


def test_a_validation_molecule_is_no_variant() -> None:
    new = _variants().molecules
    held_out = LabelledMolecules(new[:30], np.zeros((30, 1)))
    again = generate_variants(TRAIN, held_out, Regression(), _config())
    assert again is not None
    assert not {*_canonical(again.molecules)} & {*_canonical(new[:30])}
    assert {*_canonical(again.molecules)} & {*_canonical(new[30:])}


def test_labels_of_two_classes_are_probabilities() -> None:
    y = (np.array(VALUES) > np.median(VALUES)).astype(float)
    train = _labelled(0, NUM_TRAIN, y)
    found = _variants(train, Binary())
    labels = found.labels[:, 0]
    assert MIN_PROBABILITY <= labels.min() < 0.2 and 0.8 < labels.max() <= 1 - MIN_PROBABILITY
    np.testing.assert_allclose(labels, _kernel_ridge(train, y[:NUM_TRAIN], found.molecules).clip(0.02, 0.98), atol=1e-5)


def test_each_target_has_a_regression_that_learns_the_molecules_with_its_label() -> None:
    y = np.array(VALUES[:NUM_TRAIN])
    sparse = np.where(np.arange(NUM_TRAIN) % 3 == 0, -2 * y, np.nan)
    train = LabelledMolecules(TRAIN.molecules, np.stack([y, sparse, np.full(NUM_TRAIN, 7.0)], axis=1))
    found = _variants(train)
    np.testing.assert_allclose(found.labels[:, 1], _kernel_ridge(train, sparse, found.molecules), rtol=1e-5)
    np.testing.assert_allclose(found.labels[:, 2], 7.0)


def test_the_regression_learns_the_weights_of_the_molecules() -> None:
    weights = np.where(np.arange(NUM_TRAIN) % 2, 0.0, 1.0 + np.arange(NUM_TRAIN) % 4)
    train = replace(TRAIN, weights=weights)
    found = _variants(train)
    expected = _kernel_ridge(train, train.targets[:, 0], found.molecules, weights)
    np.testing.assert_allclose(found.labels[:, 0], expected, rtol=1e-5)
    both, _ = with_labels_of_teacher(train, VAL, found, _network(), Regression(), SCALER)
    assert both.weights is not None
    np.testing.assert_array_equal(both.weights[:NUM_TRAIN], weights)
    np.testing.assert_allclose(both.weights[NUM_TRAIN:], weights.mean())


def _network(task: Any = None) -> Any:
    return initialize_model(_config(), (task or Regression()).num_outputs(1), atom_level=False).eval()


@pytest.mark.parametrize("task", [Regression(), Binary()], ids=lambda task: task.kind)
def test_the_labels_of_the_teacher_are_the_average_that_fits_the_validation_molecules(task: Any) -> None:
    y = np.array(VALUES)
    y = y if isinstance(task, Regression) else (y > np.median(y)).astype(float)
    train, val = _labelled(0, NUM_TRAIN, y), _labelled(NUM_TRAIN, 340, y)
    scaler = task.fit_scaler(train.targets, ())
    found, network = _variants(train, task), _network(task)
    both, (w,) = with_labels_of_teacher(train, val, found, network, task, scaler)
    assert len(both) == NUM_TRAIN + COUNT and both.molecules[:NUM_TRAIN] == [*train.molecules]
    np.testing.assert_array_equal(both.targets[:NUM_TRAIN], train.targets)
    by_network = [_predict(network, part, scaler, task) for part in (val.molecules, found.molecules)]
    np.testing.assert_allclose(both.targets[NUM_TRAIN:, 0], (1 - w) * by_network[1] + w * found.labels[:, 0], atol=1e-5)
    # An untrained network predicts nothing: the regression has most of the weight, which 100 prior molecules reduce.
    difference, error = found.val_labels[:, 0] - by_network[0], val.targets[:, 0] - by_network[0]
    prior = 100 * (difference @ difference) / len(val)
    expected = (difference @ error + prior / 2) / (difference @ difference + prior)
    assert w == pytest.approx(min(1.0, expected), abs=1e-5) and w > 0.6


def test_a_network_that_is_right_is_the_teacher() -> None:
    found = _variants()
    network = _network()
    exact = LabelledMolecules(VAL.molecules, _predict(network, VAL.molecules, SCALER)[:, None])
    _, (w,) = with_labels_of_teacher(TRAIN, exact, found, network, Regression(), SCALER)
    assert w == pytest.approx(0.5 * 100 / (len(VAL) + 100), abs=1e-4)  # the prior alone


def _predict(model: Any, molecules: Any, scaler: TargetScaler, task: Any = None) -> np.ndarray:
    outputs = model(model.collate(list(molecules))).detach().numpy()
    return (task or Regression()).decode(outputs, scaler).values[:, 0]


@pytest.mark.parametrize(
    ("task", "settings", "data", "reason"),
    [
        (Regression(atom_level=True), {}, {}, "these are of atoms"),
        (Multiclass(classes=(("a", "b", "c"),)), {}, {}, "numbers and to two classes"),
        (Regression(loss="evidential"), {}, {}, "the loss evidential learns the spread"),
        (Regression(), {}, {"bounds": np.full((NUM_TRAIN, 1, 2), np.nan)}, "some labels are bounds"),
        (Regression(), {}, {"descriptors": np.zeros((NUM_TRAIN, 1))}, "extra descriptors"),
        (Regression(), {"data.conformers": "true"}, {}, "3D distances"),
        (Regression(), {"data.max_atoms": "1001"}, {}, "over 1,000 atoms"),
        (Regression(), {"base": "none"}, {}, "trainings from a base model"),
        (Binary(), {"class_balance": True}, {}, "no classes to balance"),
    ],
)
def test_where_it_does_not_apply_there_are_no_variants_and_an_explicit_setting_is_named(
    task: Any, settings: dict[str, Any], data: dict[str, Any], reason: str
) -> None:
    of_data = [f"{name}={value}" for name, value in settings.items() if name.startswith("data.")]
    config = _config(*of_data, **({} if of_data else settings))
    train, warnings = replace(TRAIN, **data), []
    assert generate_variants(train, VAL, task, config, warnings.append) is None
    assert len(warnings) == 1 and warnings[0].startswith("training.distillation has no effect: ")
    assert reason in warnings[0]
    implicit = replace(config, explicit_keys=frozenset())
    assert generate_variants(train, VAL, task, implicit, warnings.append) is None and len(warnings) == 1


def test_without_a_base_model_there_is_no_teacher(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not why_not_distilled(Regression(), _config(), bounds=False, descriptors=False)
    monkeypatch.setattr(distillation, "base_names", lambda: ())
    assert why_not_distilled(Regression(), _config(), bounds=False, descriptors=False) == "no base model is installed"


def _resolved(molecules: int, task: Any = None, **options: Any) -> int:
    indices = np.resize(np.arange(NUM_TRAIN), molecules)
    y = TRAIN.targets[indices] if task is None else TRAIN.targets[indices] > 0
    some = LabelledMolecules([TRAIN.molecules[i] for i in indices], y.astype(float))
    config = resolve(None, {"base": "nci", **options})
    return resolve_for_molecules(config, task or Regression(), some, VAL)[0].training.distillation


def test_it_is_the_default_for_few_molecules() -> None:
    first, last = FEW_MOLECULES[0], FEW_MOLECULES[-1]
    for n, expected in ((0, 0), (first - 1, 0), (first, 2_000 - first), (last, 2_000 - last), (last + 1, 0)):
        assert _resolved(n, Binary()) == expected
    assert MOLECULES_WITH_VARIANTS == 2_000
    assert _resolved(first, Binary(), distillation=0) == 0
    assert all(_resolved(n, Binary(), distillation=7) == 7 for n in (0, first, MANY_MOLECULES[0]))
    assert _resolved(first, Binary(), class_balance=True) == _resolved(first, Binary(), base="none") == 0


def test_it_is_no_default_for_labels_with_little_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    found = [0.0]

    def noise(task: Any, train: LabelledMolecules, val: LabelledMolecules, seed: int) -> float:
        seen.append((task.kind, len(train), val is VAL, seed))
        return found[0]

    monkeypatch.setattr(distillation, "noise_of_labels", noise)
    first = FEW_MOLECULES[0]
    for found[0], expected in ((MIN_NOISE - 1e-9, 0), (MIN_NOISE, 2_000 - first)):
        assert _resolved(first, seed=3) == expected
    assert seen == [("regression", first, True, 3)] * 2
    assert _resolved(first - 1) == _resolved(FEW_MOLECULES[-1] + 1) == _resolved(first, distillation=0) == 0
    assert _resolved(first, distillation=7) == 7 and len(seen) == 2


def test_the_noise_of_labels_is_the_variance_that_the_regression_leaves_unexplained() -> None:
    y = np.column_stack([TRAIN.targets, np.random.default_rng(0).normal(size=len(TRAIN))])
    val = replace(VAL, targets=np.column_stack([VAL.targets, np.random.default_rng(1).normal(size=len(VAL))]))
    train = replace(TRAIN, targets=y)
    predictions = [_kernel_ridge(TRAIN, column, VAL.molecules) for column in y.T]
    each = [mean_squared_error(t, p) / c.var() for t, p, c in zip(val.targets.T, predictions, y.T, strict=True)]
    assert noise_of_labels(Regression(), train, val) == pytest.approx(np.mean(each), rel=1e-4)
    solubility = noise_of_labels(Regression(), TRAIN, VAL)
    assert solubility == pytest.approx(each[0], rel=1e-4)
    assert solubility < 0.5 < 0.9 < each[1]  # numbers that do not depend on the molecules are noise
    scaled = replace(TRAIN, targets=100 * TRAIN.targets - 7), replace(VAL, targets=100 * VAL.targets - 7)
    assert noise_of_labels(Regression(), *scaled) == pytest.approx(solubility, rel=1e-6)


def test_only_targets_with_labels_have_noise() -> None:
    same = pytest.approx(noise_of_labels(Regression(), TRAIN, VAL), rel=1e-6)
    missing, constant = np.full((len(VAL), 1), np.nan), np.ones((len(TRAIN), 1))
    two = replace(TRAIN, targets=np.column_stack([TRAIN.targets, TRAIN.targets]))
    assert noise_of_labels(Regression(), two, replace(VAL, targets=np.column_stack([VAL.targets, missing]))) == same
    two = replace(TRAIN, targets=np.column_stack([TRAIN.targets, constant]))
    both = replace(VAL, targets=np.column_stack([VAL.targets, VAL.targets]))
    assert noise_of_labels(Regression(), two, both) == same
    assert noise_of_labels(Regression(), TRAIN, replace(VAL, targets=missing)) == np.inf
    assert noise_of_labels(Binary(), TRAIN, VAL) == np.inf


@pytest.mark.parametrize(("epochs", "expected"), [(40, 10), (3, 3)])
def test_the_second_training_runs_all_its_epochs(epochs: int, expected: int) -> None:
    config = _config(epochs=epochs, patience=1)
    training = second_training(config.training)
    assert (training.epochs, training.patience, training.tracking_metric) == (expected, expected, "train_loss")
    assert training.auxiliary == AUXILIARY
    assert second_training(_config("training.auxiliary=0.5").training).auxiliary == 0.5
    unchanged = ("learning_rate", "batch_size", "seed", "freeze", "loss")
    assert all(getattr(training, name) == getattr(config.training, name) for name in unchanged)


def test_the_model_learns_what_its_teacher_predicts() -> None:
    config = _config(epochs=8)
    told: list[str] = []
    epochs: list[int] = []
    fitted = fit_ensemble(
        *(config, Regression(), SCALER, TRAIN, VAL, "rmse"),
        say=told.append,
        report_teacher=lambda record, _: epochs.append(record.epoch),
    )
    assert epochs == list(range(1, 9)) and len(told) == 1 and f"for {COUNT} variants" in told[0]
    (model,), (result,) = fitted.models, fitted.fits
    assert fitted.settings.tracking_metric == "train_loss"
    assert result.best_epoch == 1 + int(np.argmin([r.train_loss for r in result.history]))
    plain = fit_ensemble(replace(config, training=replace(config.training, distillation=0)), *_rest())
    assert plain.settings.tracking_metric == "val_loss"
    fresh = _variants(seed=9)
    shares = with_labels_of_teacher(TRAIN, VAL, fresh, plain.models[0], Regression(), SCALER)[0]
    labels = shares.targets[NUM_TRAIN:, 0]
    assert np.corrcoef(_predict(model, fresh.molecules, SCALER), labels)[0, 1] > 0.9
    assert np.corrcoef(_predict(model, TRAIN.molecules, SCALER), TRAIN.targets[:, 0])[0, 1] > 0.9


def _rest() -> tuple[Any, ...]:
    return Regression(), SCALER, TRAIN, VAL, "rmse"


def test_each_member_of_an_ensemble_has_a_teacher() -> None:
    told: list[str] = []
    members: list[int] = []
    config = _config(epochs=1, ensemble_size=2)
    fit_ensemble(config, *_rest(), say=told.append, on_teacher=lambda member, _: members.append(member))
    assert members == [0, 1] and len(told) == 2


def test_a_training_that_continues_has_no_teacher() -> None:
    told: list[str] = []
    config = _config(epochs=1)
    fitted = fit_ensemble(config, *_rest(), initial=[_network()], say=told.append)
    assert not told and fitted.settings == config.training


def test_the_command_says_what_it_does_and_the_settings_are_kept(command: Molattn, tmp_path: Path) -> None:
    table, run = tmp_path / "t.csv", tmp_path / "run"
    pd.DataFrame({"smiles": SMILES, "y": VALUES}).to_csv(table, index=False)
    answer = command("train", table, "--distillation", 50, "--epochs", 2, "--accelerator", "cpu", "-o", run)
    assert answer.code == 0, answer.err
    text = " ".join((answer.out + answer.err).split())
    assert "for 50 variants of the training molecules, and their labels; --distillation 0 keeps the first" in text
    assert (
        text.index("training the teacher") < text.index("the teacher is the average") < text.index("by training loss")
    )
    assert "distillation = 50" in (run / "config.toml").read_text()
    for options in (["--distillation", "-1"], ["--set", "training.distillation=-1"]):
        refused = command("train", table, *options, "-o", tmp_path / "other")
        assert refused.code == 2 and "distillation is 0 or more" in refused.err


def test_a_distilled_training_is_resumed_to_the_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def epoch(_: object, record: Any, __: int) -> None:
        if record.epoch == 3:
            raise KeyboardInterrupt

    table = tmp_path / "t.csv"
    pd.DataFrame({"smiles": SMILES, "y": VALUES}).to_csv(table, index=False)
    options: dict[str, Any] = {"distillation": 40, "epochs": 4, "accelerator": "cpu", "quiet": True}
    molattn.train(table, output_dir=tmp_path / "whole", **options)
    with monkeypatch.context() as patch:
        patch.setattr("molattn._train.PrintReporter.epoch", epoch)
        with pytest.raises(KeyboardInterrupt):
            molattn.train(table, output_dir=tmp_path / "cut", **options)
    resume(tmp_path / "cut")
    same_runs(tmp_path / "whole", tmp_path / "cut")


def test_the_estimator_distills_few_molecules_by_default() -> None:
    settings: dict[str, Any] = {"epochs": 1, "random_state": 0}
    noisy = VALUES + 2 * np.random.default_rng(0).normal(size=len(VALUES))
    plain = MolAttentionRegressor(distillation=0, **settings).fit(SMILES, noisy)
    default = MolAttentionRegressor(**settings).fit(SMILES, noisy)
    assert not np.allclose(plain.predict(SMILES[:5]), default.predict(SMILES[:5]))
    assert TrainingConfig().distillation == 0
