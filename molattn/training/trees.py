"""Boosted trees in addition to the attention model: `molattn train --with-trees`.

The predictions of both are averaged, with a weight for each target that is fitted to the validation molecules.

Sources: gradient boosting, Friedman, Ann. Stat. 2001, 29, 1189 (https://doi.org/10.1214/aos/1013203451); LightGBM, Ke
et al. (2017), NeurIPS 30, 3146.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from molattn.chem import FEATURE_LENGTHS, feature_vectors
from molattn.errors import UsageError, molecule_level_only
from molattn.models.artifact import Artifact
from molattn.models.blended_trees import BlendedTrees
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
"""The maximum number of training molecules; of more, a random sample is used, to bound time and memory."""

PRIOR_WEIGHT, PRIOR_MOLECULES = 0.5, 100
"""The prior weight of the trees, and the number of validation molecules that the prior is equivalent to."""


def check_trees(task: Task) -> None:
    """Raise UsageError if LightGBM is not installed, or for atom-level targets, which have no fingerprint."""
    if task.atom_level:
        raise UsageError(molecule_level_only("--with-trees"))
    import_lightgbm("train boosted trees")


def fit_trees_of(
    artifact: Artifact, train: LabelledMolecules, val: LabelledMolecules, settings: TrainingConfig
) -> BlendedTrees:
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
) -> BlendedTrees:
    """Fit boosted trees to the training molecules, and their weights to the validation molecules.

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
    rows = np.arange(len(train))
    if len(rows) > MAX_MOLECULES:
        rows = np.sort(np.random.default_rng(seed).choice(rows, MAX_MOLECULES, replace=False))
    smiles = [molecule.encoded_smiles for molecule in train.molecules]
    features = feature_vectors([smiles[i] for i in rows], FEATURIZERS, num_workers)
    weights = None if train.weights is None else np.asarray(train.weights)[rows]
    z = scaler.scale(train.targets[rows]) if isinstance(task, Regression) else train.targets[rows]
    settings = {**SETTINGS, "seed": seed, "num_threads": max(1, threads)}
    trees = []
    for t, y in enumerate(z.T):
        labelled = weighted_labels(y, weights)
        objective = _objective(task, t)
        target_weights = None if weights is None else weights[labelled]
        trees.append(_train({**settings, **objective}, features[labelled], y[labelled], target_weights))
    blended = BlendedTrees(FEATURIZERS, tuple(trees), (PRIOR_WEIGHT,) * len(trees))
    val_features = feature_vectors([molecule.encoded_smiles for molecule in val.molecules], FEATURIZERS, num_workers)
    val_predictions = blended.predict(task, scaler, val_features)
    return replace(blended, weights=fit_weights(task, attention, val_predictions, val.targets))


def _objective(task: Task, t: int) -> dict[str, Any]:
    classes = len(task.class_names(t))
    if isinstance(task, Regression):
        return {"objective": "regression"}
    return {"objective": "binary"} if classes == 2 else {"objective": "multiclass", "num_class": classes}


def _train(settings: dict[str, Any], x: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> BoostedTrees:
    lightgbm = import_lightgbm("train boosted trees")
    size = SMALL_TREES if len(y) < MIN_MOLECULES_FOR_LARGE_TREES else LARGE_TREES
    settings = {**settings, "num_leaves": size["num_leaves"]}
    booster = lightgbm.train(settings, lightgbm.Dataset(x, y, weight=weights), size["num_boost_round"])
    return BoostedTrees.from_lightgbm(booster.model_to_string())


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
