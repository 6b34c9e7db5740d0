"""Target scaling: models learn standardised targets and answer in the targets' own units."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TargetScaler:
    """z = (y - mean) / std, target by target.

    Attributes:
        mean, std: (T,) in the targets' units; std is 1 for a constant target.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def fit(cls, targets: np.ndarray) -> "TargetScaler":
        """From the training targets, (n, T), missing labels (NaN) left out; fitted on nothing else."""
        mean = [float(np.mean(y[np.isfinite(y)])) for y in targets.T]
        std = [float(np.std(y[np.isfinite(y)])) for y in targets.T]
        # The SD of equal numbers is zero only up to the rounding of their mean.
        tiny = [1e-12 * max(1.0, abs(m)) for m in mean]
        return cls(tuple(mean), tuple(s if s > t else 1.0 for s, t in zip(std, tiny, strict=True)))

    @classmethod
    def none(cls, num_targets: int) -> "TargetScaler":
        """The one that changes nothing, for targets that are classes."""
        return cls((0.0,) * num_targets, (1.0,) * num_targets)

    def scale(self, targets: np.ndarray) -> np.ndarray:
        """(n, T) in units -> standardised."""
        return (targets - np.array(self.mean)) / np.array(self.std)

    def unscale(self, outputs: np.ndarray) -> np.ndarray:
        """(n, T) standardised -> in units, float64."""
        return outputs.astype(np.float64) * np.array(self.std) + np.array(self.mean)
