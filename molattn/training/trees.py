"""Boosted trees in addition to the attention model: `molattn train --with-trees`.

The predictions of both are averaged, with a weight for each target that is fitted to the validation molecules. Then the
trees are fitted again, to the training and the validation molecules.

Sources: gradient boosting, Friedman, Ann. Stat. 2001, 29, 1189 (https://doi.org/10.1214/aos/1013203451); LightGBM, Ke
et al. (2017), NeurIPS 30, 3146.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from molattn.chem import FEATURE_LENGTHS, feature_vectors
from molattn.errors import UsageError, molecule_level_only
from molattn.models.artifact import Artifact
from molattn.models.blended_trees import BlendedTrees, weighted_average
from molattn.models.boosted_trees import BoostedTrees, import_lightgbm
from molattn.models.magnitude import power_of_two
from molattn.models.predictions import Predictions
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Regression
from molattn.training.config import TrainingConfig
from molattn.training.dataset import LabelledMolecules, weighted_labels

FEATURIZERS = tuple(FEATURE_LENGTHS)

SETTINGS: dict[str, Any] = {
    "learning_rate": 0.03,
    "min_data_in_leaf": 5,
    "feature_fraction": 0.1,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "lambda_l2": 3.0,
    "path_smooth": 1.0,
    "use_missing": False,
    "verbosity": -1,
    # The same seed gives the same trees.
    "deterministic": True,
    "force_row_wise": True,
}
"""Parameters of LightGBM, besides the number and the size of the trees."""

SMALL_TREES: dict[str, int] = {"num_leaves": 8, "num_boost_round": 500}
LARGE_TREES: dict[str, int] = {"num_leaves": 16, "num_boost_round": 1_000}
MIN_MOLECULES_FOR_LARGE_TREES = 1_500
"""The number of labeled training molecules from which trees are large; docs/results/trees.md compares their sizes."""

MAX_MOLECULES = 50_000
"""The maximum number of training molecules; of more, a random sample is used, to bound time and memory, and the same
share of the validation molecules."""

PRIOR_WEIGHT, PRIOR_MOLECULES = 0.5, 100
"""The prior weight of the trees, and the number of validation molecules that the prior is equivalent to."""


def check_trees(task: Task) -> None:
    """Raise UsageError if LightGBM is not installed, or for atom-level targets, which have no fingerprint."""
    if task.atom_level:
        raise UsageError(molecule_level_only("--with-trees"))
    import_lightgbm("train boosted trees")


class FittedTrees(NamedTuple):
    """Boosted trees, and the averaged predictions by which a run is judged on its validation molecules.

    Attributes:
        trees: fitted to the training and the validation molecules.
        val_predictions: for the validation molecules, before the inverse of target transforms: the averages with trees
            that were fitted to the training molecules alone, with the same weights.
    """

    trees: BlendedTrees
    val_predictions: Predictions


def fit_trees_of(
    artifact: Artifact, train: LabelledMolecules, val: LabelledMolecules, settings: TrainingConfig
) -> FittedTrees:
    """`fit_trees` for a fitted artifact without trees, with the seed, the threads and the workers of a run."""
    attention = artifact.predict(val.molecules, val.descriptors)
    options = settings.seed, settings.threads, settings.num_workers
    return fit_trees(train, val, attention, artifact.task, artifact.scaler, *options)


def describe_trees(artifact: Artifact) -> str:
    """The weight of the trees of each target, in words."""
    assert artifact.trees is not None
    weights = [f"{100 * w:.0f}%" for w in artifact.trees.weights]
    if len(weights) > 1:
        weights = [f"{name} {w}" for name, w in zip(artifact.targets[:3], weights, strict=False)]
        weights += [f"{len(artifact.targets) - 3:,} more"] if len(artifact.targets) > 3 else []
    return f"the weight of the trees in the prediction, fitted to the validation molecules: {', '.join(weights)}"


def fit_trees(
    train: LabelledMolecules,
    val: LabelledMolecules,
    attention: Predictions,
    task: Task,
    scaler: TargetScaler,
    seed: int,
    threads: int = 1,
    num_workers: int = 0,
) -> FittedTrees:
    """Fit boosted trees to the training molecules, their weights to the validation molecules, and trees again to both.

    Args:
        train, val: of the run.
        attention: the predictions of the attention model for the validation molecules, before the inverse of target
            transforms.
        task, scaler: of the targets.
        seed: of the trees.
        threads: of LightGBM.
        num_workers: processes that compute features.

    Raises:
        UsageError: LightGBM is not installed.
    """
    settings = {**SETTINGS, "seed": seed, "num_threads": max(1, threads)}
    val_features = feature_vectors([molecule.encoded_smiles for molecule in val.molecules], FEATURIZERS, num_workers)
    random = np.random.default_rng(seed)
    rows, val_rows = np.arange(len(train)), np.arange(len(val))
    if len(train) > MAX_MOLECULES:
        rows = np.sort(random.choice(rows, MAX_MOLECULES, replace=False))
        val_rows = np.sort(random.choice(val_rows, len(val) * MAX_MOLECULES // len(train), replace=False))
    features = feature_vectors([train.molecules[i].encoded_smiles for i in rows.tolist()], FEATURIZERS, num_workers)

    z, weights = _labels(task, scaler, train, rows), None if train.weights is None else np.asarray(train.weights)[rows]
    sizes = [_size(int(weighted_labels(y, weights).sum())) for y in z.T]
    blended = BlendedTrees(FEATURIZERS, _fit(task, settings, sizes, features, z, weights), (PRIOR_WEIGHT,) * len(sizes))
    val_predictions = blended.predict(task, scaler, val_features)
    share = fit_weights(task, attention, val_predictions, val.targets)
    features = np.concatenate([features, val_features[val_rows]])
    z = np.concatenate([z, _labels(task, scaler, val, val_rows)])
    if weights is not None:
        weights = np.concatenate([weights, np.asarray(val.weights)[val_rows]])
    final = replace(blended, trees=_fit(task, settings, sizes, features, z, weights), weights=share)
    return FittedTrees(final, weighted_average(task, attention, val_predictions, share))


def _labels(task: Task, scaler: TargetScaler, part: LabelledMolecules, rows: np.ndarray) -> np.ndarray:
    return scaler.scale(part.targets[rows]) if isinstance(task, Regression) else part.targets[rows]


def _size(molecules: int) -> dict[str, int]:
    """The size of the trees of a target, by the number of its labeled training molecules."""
    return SMALL_TREES if molecules < MIN_MOLECULES_FOR_LARGE_TREES else LARGE_TREES


def _objective(task: Task, t: int) -> dict[str, Any]:
    classes = len(task.class_names(t))
    if isinstance(task, Regression):
        return {"objective": "regression"}
    return {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}


def _fit(
    task: Task,
    settings: dict[str, Any],
    sizes: Sequence[dict[str, int]],
    x: np.ndarray,
    z: np.ndarray,
    weights: np.ndarray | None,
) -> tuple[BoostedTrees, ...]:
    """The trees of each target, fitted to the rows with a label of it."""
    lightgbm = import_lightgbm("train boosted trees")
    trees = []
    for t, (y, size) in enumerate(zip(z.T, sizes, strict=True)):
        used = weighted_labels(y, weights)
        parameters = {**settings, **_objective(task, t), "num_leaves": size["num_leaves"]}
        data = lightgbm.Dataset(x[used], y[used], weight=None if weights is None else weights[used])
        booster = lightgbm.train(parameters, data, size["num_boost_round"])
        trees.append(BoostedTrees.from_lightgbm(booster.model_to_string()))
    return tuple(trees)


def fit_weights(task: Task, attention: Predictions, trees: Predictions, targets: np.ndarray) -> tuple[float, ...]:
    """The weight of the trees for each target, from 0 to 1, fitted to predictions for held-out molecules.

    w = argmin sum_i |y_i - a_i - w (b_i - a_i)|^2 + k d^2 (w - 1/2)^2,   d^2 = mean_i |b_i - a_i|^2

    a are the predictions of the attention model and b those of the trees: numbers, or the probabilities of the classes,
    y then being 1 for the class of the molecule and 0 for the others (the Brier score). The second term is a prior,
    equivalent to k = 100 molecules with an optimal w of 1/2, since a few molecules cannot distinguish the models.

    Args:
        attention, trees: n predictions.
        targets: (n, T), NaN where a label is missing; transformed as the predictions are.
    """
    weights = []
    for t, y in enumerate(targets.T):
        labelled = np.isfinite(y)
        if isinstance(task, Regression):
            a, b, true = attention.values[labelled, t, None], trees.values[labelled, t, None], y[labelled, None]
        else:
            a, b = (task.probabilities(p, t)[labelled] for p in (attention, trees))
            true = np.eye(a.shape[1])[y[labelled].astype(int)]
        scale = power_of_two(b - a)
        difference, error = (b - a) / scale, (true - a) / scale
        total = float((difference**2).sum())
        if not labelled.any() or total == 0.0:
            weights.append(PRIOR_WEIGHT)
            continue
        prior = PRIOR_MOLECULES * total / labelled.sum()
        w = (float((difference * error).sum()) + prior * PRIOR_WEIGHT) / (total + prior)
        weights.append(min(1.0, max(0.0, w)))
    return tuple(weights)
