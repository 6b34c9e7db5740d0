"""Boosted trees on fingerprints and descriptors, whose predictions are averaged with those of the attention model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from molattn.chem import FEATURE_LENGTHS, feature_vectors
from molattn.errors import SmilesError
from molattn.models.boosted_trees import BoostedTrees
from molattn.models.molecule import Molecule
from molattn.models.predictions import Predictions, empty_distribution
from molattn.models.scaler import TargetScaler
from molattn.models.task import Task
from molattn.models.tasks import Regression


@dataclass(frozen=True)
class BlendedTrees:
    """Boosted trees of each target, and the weight of their predictions.

    y = (1 - w) y_attention + w y_trees   for each target; probabilities p of classes likewise

    y_trees is the output of the trees in the scale of the targets of training, transformed where they have a transform;
    p_trees is the sigmoid of one output, or the softmax of one output for each class.

    Attributes:
        featurizers: whose features the trees read, see `molattn.chem.feature_vectors`.
        trees: of each target.
        weights: w of each target, from 0 to 1.
    """

    featurizers: tuple[str, ...]
    trees: tuple[BoostedTrees, ...]
    weights: tuple[float, ...]

    def describe_share(self, *targets: int, of_trees: bool = False) -> str:
        """The weight of one of the two models in the prediction, in words, for the footer of its picture.

        Args:
            targets: indices of targets; all if none is given.
            of_trees: whether the picture is of the trees; otherwise it is of the attention model.
        """
        weights = [self.weights[t] for t in targets or range(len(self.weights))]
        if of_trees:
            return f"of the boosted trees, {_percent(weights)} of the prediction"
        others = _percent([1 - w for w in weights])
        return f"of the attention model, {others} of the prediction (boosted trees: {_percent(weights)})"

    def features(self, molecules: Sequence[Molecule], failures: dict[int, str] | None = None) -> np.ndarray:
        """(n, F) float32, the features that the trees read.

        Args:
            molecules: n molecules.
            failures: receives, by index, why RDKit has no fingerprint of a molecule, whose features are then 0; if it
                is None, the first of these errors is raised.

        Raises:
            SmilesError: RDKit has no fingerprint of a molecule, and `failures` is None.
        """
        smiles = [molecule.encoded_smiles for molecule in molecules]
        try:
            return feature_vectors(smiles, self.featurizers)
        except SmilesError:
            if failures is None:
                raise
        rows = []
        for i, text in enumerate(smiles):
            try:
                rows.append(feature_vectors([text], self.featurizers))
            except SmilesError as error:
                failures.setdefault(i, error.reason)
                rows.append(np.zeros((1, sum(FEATURE_LENGTHS[name] for name in self.featurizers)), np.float32))
        return np.concatenate(rows)

    def predict(self, task: Task, scaler: TargetScaler, features: np.ndarray) -> Predictions:
        """The predictions of the trees alone, before the inverse of target transforms.

        Args:
            task, scaler: of the targets.
            features: (n, F), from `features`.
        """
        outputs = [trees.predict(features) for trees in self.trees]
        if isinstance(task, Regression):
            values = scaler.unscale(np.concatenate(outputs, 1))
            return Predictions(values, empty_distribution(len(values)))
        return task.with_probabilities([probabilities(z) for z in outputs])

    def combine(self, task: Task, scaler: TargetScaler, predictions: Predictions, features: np.ndarray) -> Predictions:
        """The weighted average of the predictions of the attention model with those of the trees.

        Standard deviations remain those of the attention model; quantiles are shifted by as much as the prediction.
        """
        return weighted_average(task, predictions, self.predict(task, scaler, features), self.weights)


def weighted_average(task: Task, attention: Predictions, trees: Predictions, weights: Sequence[float]) -> Predictions:
    """(1 - w) attention + w trees, target by target."""
    w = np.asarray(weights)
    if isinstance(task, Regression):
        shift = w * (trees.values - attention.values)
        quantiles = attention.distribution.shape[1] // len(w)
        shifted = attention.distribution + np.tile(shift, quantiles) if quantiles else attention.distribution
        return replace(attention, values=attention.values + shift, distribution=shifted)
    averages = [
        (1 - w[t]) * task.probabilities(attention, t) + w[t] * task.probabilities(trees, t) for t in range(len(w))
    ]
    return replace(task.with_probabilities(averages, attention.std), distance=attention.distance)


def probabilities(outputs: np.ndarray) -> np.ndarray:
    """The probabilities of the classes, (n, C): the sigmoid of one output, or the softmax of several, (n, J)."""
    logits = np.concatenate([np.zeros_like(outputs), outputs], 1) if outputs.shape[1] == 1 else outputs
    e = np.exp(logits - logits.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def tree_outputs(task: Task, t: int) -> int:
    """The number of outputs of the trees of target t: one, or one for each of more than two classes."""
    classes = len(task.class_names(t))
    return classes if classes > 2 else 1


def _percent(shares: Sequence[float]) -> str:
    low, high = (f"{100 * share:.0f}" for share in (min(shares), max(shares)))
    return f"{low}%" if low == high else f"{low} to {high}%"
