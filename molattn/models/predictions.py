"""The predictions of a model, whatever the task."""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

NONE = "none"
"""The uncertainty method, or the calibration method, of predictions that have none."""


@dataclass(frozen=True)
class Predictions:
    """The predictions of T targets for n molecules, or for n atoms.

    Attributes:
        values: (n, T): the number in its unit, the probability of the positive class, or the index of the most
            probable class.
        distribution: (n, M): the probabilities of every class, or the quantiles; M is 0 if there are neither.
        std: (n, T), the standard deviation of the number, of the probability of the positive class, or of the
            probability of the predicted class; None if the model has none.
        epistemic_share: (n, T), the share of std^2 that is epistemic (the model's own uncertainty), the rest being
            aleatoric (noise of the measurements); None where it is unknown.
        distance: (n,), how far each molecule is from the training molecules, see
            `molattn.models.applicability_domain.mean_nearest_distance`; None where it is not needed.
    """

    values: np.ndarray
    distribution: np.ndarray
    std: np.ndarray | None = None
    epistemic_share: np.ndarray | None = None
    distance: np.ndarray | None = None

    @property
    def extra_values(self) -> np.ndarray:
        """(n, M) or (n, M + T): `distribution`, followed by `std` if there is one."""
        return self.distribution if self.std is None else np.concatenate([self.distribution, self.std], 1)

    def __getitem__(self, rows: np.ndarray | slice) -> "Predictions":
        """The predictions for some of the molecules or atoms."""
        std, share, distance = (
            None if array is None else array[rows] for array in (self.std, self.epistemic_share, self.distance)
        )
        return Predictions(self.values[rows], self.distribution[rows], std, share, distance)

    def with_rows(self, rows: np.ndarray, others: "Predictions") -> "Predictions":
        """A copy in which `others` are the predictions for some of the molecules or atoms; distances are the same."""

        def replaced(mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
            result = mine.copy()
            result[rows] = theirs
            return result

        pairs = ((self.std, others.std), (self.epistemic_share, others.epistemic_share))
        std, share = (None if mine is None or theirs is None else replaced(mine, theirs) for mine, theirs in pairs)
        values, distribution = replaced(self.values, others.values), replaced(self.distribution, others.distribution)
        return Predictions(values, distribution, std, share, self.distance)


def empty_distribution(n: int) -> np.ndarray:
    """A `Predictions.distribution` without probabilities and quantiles, (n, 0)."""
    return np.empty((n, 0))


def normal_quantile(p: float) -> float:
    """The p-quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(p)
