"""The baseline of `--baseline`: a random forest on fingerprints and descriptors, on the same split as the model.

Source: Breiman, Mach. Learn. 2001, 45, 5 (https://doi.org/10.1023/A:1010933404324), on counts of the substructures of
Morgan fingerprints and RDKit's descriptors.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from molattn.chem import featurizer_descriptors, morgan_counts
from molattn.chem.parse import NO_ATOM_LIMIT
from molattn.errors import UsageError, molecule_level_only
from molattn.models.predictions import Predictions, empty_distribution
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Regression
from molattn.training.dataset import PreparedDataset, weighted_labels
from molattn.training.descriptors import compute_descriptors
from molattn.training.metrics import mean_over_targets, metrics_by_target

NUM_TREES = 200
MAX_MOLECULES = 20_000
"""The maximum number of training molecules; of more, a random sample is used, to bound the time."""
CHUNK = 5_000
"""The number of molecules whose features are in memory at once during prediction."""
FOREST_FEATURIZERS = ("rdkit_2d",)
MEASURED_SPLITS = ("val", "test")


def check_baseline(task: Task) -> None:
    """Raise UsageError for atom-level targets, which have no fingerprint."""
    if task.atom_level:
        raise UsageError(molecule_level_only("--baseline"))


def forest_metrics(
    dataset: PreparedDataset, names: tuple[str, ...], seed: int, num_workers: int = 0, threads: int = 1
) -> dict[str, Any]:
    """Train a forest for each target on the training molecules of a run; return its metrics for "val" and "test".

    Args:
        dataset: of the run.
        names: of the metrics.
        seed: of the forest.
        num_workers: processes that compute descriptors.
        threads: of scikit-learn.
    """
    train = dataset.indices("train")
    if len(train) > MAX_MOLECULES:
        train = np.sort(np.random.default_rng(seed).choice(train, MAX_MOLECULES, replace=False))
    features = _features(dataset, train, num_workers)
    scaler = replace(TargetScaler.identity(len(dataset.config.target_columns)), transforms=dataset.transforms)
    labels = scaler.transform(dataset.targets[train])
    weights = None if dataset.weights is None else dataset.weights[train]
    forests = []
    for y in labels.T:
        labelled = weighted_labels(y, weights)
        forest = _forest(dataset.task, seed, threads)
        forests.append(forest.fit(features[labelled], y[labelled], None if weights is None else weights[labelled]))
    targets = dataset.config.target_columns
    result: dict[str, Any] = {"what": f"random forest of {NUM_TREES} trees, on Morgan counts and descriptors of RDKit"}
    for split in MEASURED_SPLITS:
        rows = dataset.indices(split)
        predictions = scaler.inverse_transform(_predict(dataset, forests, rows, num_workers))
        result[split] = metrics_by_target(dataset.task, targets, dataset.targets[rows], predictions, names)
    if len(targets) > 1:
        result["mean"] = {split: mean_over_targets(result[split], names) for split in MEASURED_SPLITS}
    return result


def _forest(task: Task, seed: int, threads: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    if isinstance(task, Regression):
        return RandomForestRegressor(NUM_TREES, max_features=1 / 3, random_state=seed, n_jobs=threads)
    return RandomForestClassifier(NUM_TREES, max_features="sqrt", random_state=seed, n_jobs=threads)


def _features(dataset: PreparedDataset, rows: np.ndarray, num_workers: int) -> np.ndarray:
    """(n, k) float32: counts of Morgan substructures, RDKit's descriptors, and the extra descriptors of the run."""
    smiles = [molecule.encoded_smiles for molecule in dataset.molecules[rows]]
    names = featurizer_descriptors(FOREST_FEATURIZERS)
    computed = compute_descriptors(smiles, names, num_workers, max_atoms=NO_ATOM_LIMIT)
    parts = [morgan_counts(smiles, max_atoms=NO_ATOM_LIMIT), np.nan_to_num(computed)]
    if dataset.descriptors is not None:
        parts.append(dataset.descriptors[rows])
    limit = float(np.finfo(np.float32).max)
    return np.concatenate([np.clip(part, -limit, limit).astype(np.float32) for part in parts], 1)


def _predict(dataset: PreparedDataset, forests: list[Any], rows: np.ndarray, num_workers: int) -> Predictions:
    """The predictions of the transformed targets for the molecules `rows`."""
    parts: list[list[np.ndarray]] = [[] for _ in forests]
    for start in range(0, len(rows), CHUNK):
        features = _features(dataset, rows[start : start + CHUNK], num_workers)
        for t, forest in enumerate(forests):
            parts[t].append(_predict_target(dataset.task, forest, features, t))
    by_target = [np.concatenate(chunks) for chunks in parts]
    if isinstance(dataset.task, Regression):
        values = np.stack(by_target, 1)
        return Predictions(values, empty_distribution(len(values)))
    return dataset.task.with_probabilities(by_target)


def _predict_target(task: Task, forest: Any, features: np.ndarray, t: int) -> np.ndarray:
    """(n,) numbers, or (n, classes) probabilities; a class without training labels has probability 0."""
    if isinstance(task, Regression):
        return forest.predict(features)
    probabilities = np.zeros((len(features), len(task.class_names(t))))
    probabilities[:, forest.classes_.astype(int)] = forest.predict_proba(features)
    return probabilities
