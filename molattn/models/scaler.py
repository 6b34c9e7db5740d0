"""Scaling: models learn standardised targets, answer in the targets' own units, and read standardised descriptors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from molattn.errors import shown


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


@dataclass(frozen=True)
class DescriptorScaler:
    """z = (x - mean) / std, descriptor by descriptor; z = 0 where std is 0.

    Attributes:
        names: k columns.
        mean, std: (k,) in the columns' own units; std is 0 for one that was constant in training, of which the model
            learned nothing.
    """

    names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def fit(cls, names: Sequence[str], descriptors: np.ndarray) -> "DescriptorScaler":
        """From those of the training molecules, (n, k); fitted on nothing else."""
        plain = TargetScaler.fit(descriptors)
        spread = [s if (x != x[0]).any() else 0.0 for s, x in zip(plain.std, descriptors.T, strict=True)]
        return cls(tuple(names), plain.mean, tuple(spread))

    @property
    def constant(self) -> list[str]:
        """The names of those that had one value in training."""
        return [name for name, std in zip(self.names, self.std, strict=True) if std == 0]

    def scale(self, descriptors: np.ndarray) -> np.ndarray:
        """(n, k) as in the table -> standardised float32; infinite for a number too far from those of training."""
        std = np.array(self.std)
        with np.errstate(over="ignore"):
            z = (descriptors - np.array(self.mean)) / np.where(std == 0, 1.0, std)
            return np.where(std == 0, 0.0, z).astype(np.float32)

    def too_far(self, descriptors: Sequence[float]) -> str:
        """Why the k descriptors of a molecule cannot be standardised; empty where they can."""
        z = self.scale(np.array(descriptors)[None])[0]
        found = next((i for i in range(len(z)) if not np.isfinite(z[i])), None)
        if found is None:
            return ""
        return f"column {shown(self.names[found])}: {descriptors[found]:g} is too far from the numbers of training"
