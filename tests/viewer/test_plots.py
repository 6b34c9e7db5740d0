import math
import re
from dataclasses import replace

import numpy as np
import pytest

from molattn.chem import molecule_graph
from molattn.data.store.cache import Featurization, cached_molecules
from molattn.data.store.packing import GraphPacking
from molattn.errors import UsageError
from molattn.models.artifact import Artifact
from molattn.models.config import GraphModelConfig
from molattn.models.graph_model import GraphModel
from molattn.models.predictions import Predictions, empty_distribution
from molattn.models.scaler import TargetScaler
from molattn.models.tasks import Regression
from molattn.training.config import DataConfig
from molattn.training.dataset import PreparedDataset
from molattn.training.early_stopping import EpochRecord
from molattn.training.train_and_evaluate import RunResult
from molattn.viewer import learning_curve, parity_plot, write_plots
from molattn.viewer.figures import safe_file_names
from molattn.viewer.uncertainty_plots import uncertainty_plots
from tests.viewer.svg import SVG, assert_sound, root, words

READING = Featurization(molecule_graph, GraphPacking(), {})
HOSTILE = "<script>&$x^$--></svg>\x00"


def history(epochs=12):
    losses = [(math.exp(-i / 3) + 0.01, math.exp(-i / 4) + 0.05) for i in range(epochs)]
    return [EpochRecord(i + 1, 1e-3, train, val, 1.0, i < 9) for i, (train, val) in enumerate(losses)]


def data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    true = rng.normal(size=n)
    splits = {"train": np.arange(n - 20), "val": np.arange(n - 20, n - 10), "test": np.arange(n - 10, n)}
    return true, true + 0.1 * rng.normal(size=n), splits


def result(folder, targets, n=60):
    columns = [data(n, seed) for seed in range(len(targets))]
    labels = np.array(["train"] * (n - 20) + ["val"] * 10 + ["test"] * 10, dtype=object)
    dataset = PreparedDataset(
        config=DataConfig(target_columns=targets),
        name="made up",
        units=("mol/L",) * len(targets),
        sha256="",
        smiles=["C"] * n,
        split_labels=labels,
        rows=np.arange(n),
        molecules=cached_molecules(["C"] * n, READING).molecules,
        targets=np.stack([true for true, _, _ in columns], 1),
        rejected=[],
        warnings=[],
    )
    metrics = {"test": {target: {"rmse": 0.1, "n": 10} for target in targets}}
    values = np.stack([p for _, p, _ in columns], 1)
    predictions = Predictions(values, empty_distribution(len(values)))
    model = GraphModel(GraphModelConfig(hidden_dim=8, num_heads=2, num_layers=1), len(targets))
    artifact = Artifact(model, TargetScaler.identity(len(targets)), targets, dataset.units)
    return RunResult(folder, metrics, dataset, history(), artifact, predictions, predictions)


def points(picture):
    """How many points each of the splits has."""
    groups = [e for e in root(picture).iter(f"{SVG}g") if e.get("id", "").startswith("PathCollection")]
    return [len(list(g.iter(f"{SVG}use"))) for g in groups][:3]


def test_a_parity_plot_shows_every_known_molecule_and_is_reproducible():
    true, predicted, splits = data()
    true[[0, 45, 59]] = np.nan
    picture = parity_plot(true, predicted, splits, name="logS", unit="log10(mol/L)", test_rmse=0.123)
    assert_sound(picture)
    assert picture == parity_plot(true, predicted, splits, name="logS", unit="log10(mol/L)", test_rmse=0.123)
    assert points(picture) == [39, 9, 9]
    assert "test RMSE 0.123 log10(mol/L)" in picture.svg


def test_a_parity_plot_of_many_molecules_stays_small():
    true, predicted, splits = data(20_000)
    assert len(parity_plot(true, predicted, splits, name="y").svg) < 500_000


@pytest.mark.parametrize("value", [np.nan, 1.0])
def test_a_parity_plot_without_spread_or_labels_is_drawn(value):
    assert_sound(parity_plot(np.full(60, value), np.full(60, 1.0), data()[2], name="y"))


def test_hostile_names_are_written_as_text():
    true, predicted, splits = data()
    assert_sound(parity_plot(true, predicted, splits, name=HOSTILE, unit=HOSTILE, test_rmse=1.0))


@pytest.mark.parametrize("epochs", [1, 12, 100])
def test_a_learning_curve_is_valid_and_names_the_best_epoch(epochs):
    picture = learning_curve(history(epochs))
    assert_sound(picture)
    assert picture == learning_curve(history(epochs))
    assert f"best: epoch {min(epochs, 9)}" in picture.svg
    assert "standardized RMSE" in picture.svg
    by_metric = learning_curve([replace(r, metric="auroc", tracking_metric="auroc") for r in history(epochs)])
    assert f"best: epoch {min(epochs, 9)}, by AUROC" in by_metric.svg
    by_train_loss = learning_curve([replace(r, tracking_metric="train_loss") for r in history(epochs)])
    assert f"best: epoch {min(epochs, 9)}, by training loss" in by_train_loss.svg


def test_a_learning_curve_is_in_the_unit_of_the_target_with_plain_ticks():
    steep = [EpochRecord(i, 1e-3, 4.0 / i**2, 2.25 / i**2, 1.5 / i, True) for i in range(1, 30)]
    picture = learning_curve(steep, scale=2.0, unit="log10(mol/L)")
    assert_sound(picture)
    words = set(re.findall(r"<!-- (.*?) -->", picture.svg))
    assert "RMSE in log10(mol/L)" in words and "standardized" not in picture.svg
    # From 2 * 1.5 and 2 * 2 in the first epoch to a 29th of these; powers of ten are written out.
    assert {"0.1", "0.2", "0.5", "1", "2"} <= words and not any("mathdefault" in word for word in words)
    assert "standardized RMSE" in learning_curve(steep, unit="log10(mol/L)").svg
    # A likelihood has no unit.
    assert "negative log-likelihood, standardized" in learning_curve(steep, "mve", scale=2.0, unit="K").svg


def test_a_learning_curve_with_epochs_that_are_not_finite_is_drawn():
    records = [EpochRecord(1, 1e-3, math.nan, math.inf, math.inf, False), *history()[1:]]
    assert_sound(learning_curve(records))


def test_the_plots_of_a_run_with_one_target(tmp_path):
    write_plots(result(tmp_path, ("logS",)))
    assert sorted(p.name for p in (tmp_path / "plots").iterdir()) == ["learning_curve.png", "parity.png"]
    for path in (tmp_path / "plots").iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")


def test_the_plots_of_a_run_with_several_targets_have_safe_names(tmp_path):
    write_plots(result(tmp_path, ("logS", "../a b", "LOGS")))
    names = sorted(p.name for p in (tmp_path / "plots").iterdir())
    assert names == ["learning_curve.png", "parity-LOGS-2.png", "parity-a_b.png", "parity-logS.png"]
    assert [p.name for p in tmp_path.iterdir()] == ["plots"]


def test_a_run_without_test_labels_has_its_plots(tmp_path):
    run = result(tmp_path, ("logS",))
    run.dataset.targets[50:] = np.nan
    run.metrics["test"]["logS"]["rmse"] = None
    write_plots(run)
    assert (tmp_path / "plots" / "parity.png").exists()


def test_file_names_are_safe_and_distinct():
    names = ["a/b", "a b", "a_b", "A_B", "..", "", "é", "x" * 300, "a_b-2", "ok-1.5"]
    safe = safe_file_names(names)
    assert len({s.lower() for s in safe}) == len(names)
    assert all(s and len(s) < 80 and s[0] not in ".-" and s.isascii() and "/" not in s for s in safe)
    assert safe[-1] == "ok-1.5"


def test_the_order_of_drawing_changes_no_picture():
    first, second = (parity_plot(*data(), name="y") for _ in range(2))
    png, svg = first.png, second.svg
    assert first.svg == svg and second.png == png


def test_a_learning_curve_of_an_unknown_loss_is_refused():
    with pytest.raises(UsageError, match="unknown loss 'msle': choose one of .*mse"):
        learning_curve(history(3), "msle")


@pytest.mark.parametrize("atom_level", [False, True])
def test_the_coverage_of_atom_level_targets_counts_atoms(atom_level):
    true, predicted, _ = data()
    model = GraphModel(GraphModelConfig(hidden_dim=8, num_heads=2, num_layers=1), 2, atom_level=atom_level)
    artifact = Artifact(model, TargetScaler.identity(1), ("y",), ("e",), task=Regression("mve", atom_level))
    predictions = Predictions(predicted[:, None], empty_distribution(60), np.full((60, 1), 0.1))
    pictures = uncertainty_plots(artifact, true[:, None], predictions, ("e",))
    assert [*pictures] == ["uncertainty"]
    assert f"coverage of 60 test {'atoms' if atom_level else 'molecules'}" in words(pictures["uncertainty"])
