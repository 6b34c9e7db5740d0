"""Scaling: models learn standardised targets, answer in the targets' own units, and read standardised descriptors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from molattn.errors import short_repr


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
    def identity(cls, num_targets: int) -> "TargetScaler":
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

    Of what is computed also z = 0 where RDKit has no finite number, and z ends at -FARTHEST and FARTHEST: nobody can
    correct it.

    Attributes:
        names: k columns, and behind them what RDKit computes.
        mean, std: (k,) in the columns' own units; std is 0 for one that was constant in training, of which the model
            learned nothing.
        computed: the last of `names`, which RDKit computes of each molecule; none for columns alone.
    """

    FARTHEST: ClassVar[float] = 5.0

    names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    computed: tuple[str, ...] = ()

    @classmethod
    def fit(cls, names: Sequence[str], descriptors: np.ndarray, computed: Sequence[str] = ()) -> "DescriptorScaler":
        """From those of the training molecules, (n, k); fitted on nothing else.

        Args:
            names: of the columns.
            descriptors: (n, k), those that RDKit computes last, and NaN where it has no finite number.
            computed: what RDKit computes.
        """
        # A number that RDKit has for no molecule says nothing, as one that is the same for all.
        filled = np.where(np.isfinite(descriptors).any(0), descriptors, 0.0)
        plain = TargetScaler.fit(filled)
        found = [x[np.isfinite(x)] for x in filled.T]
        spread = [s if (x != x[0]).any() else 0.0 for s, x in zip(plain.std, found, strict=True)]
        return cls((*names, *computed), plain.mean, tuple(spread), tuple(computed))

    @property
    def given(self) -> tuple[str, ...]:
        """The columns, which somebody has to give."""
        return self.names[: len(self.names) - len(self.computed)]

    @property
    def constant(self) -> list[str]:
        """The names of those that had one value in training."""
        return [name for name, std in zip(self.names, self.std, strict=True) if std == 0]

    def scale(self, descriptors: np.ndarray) -> np.ndarray:
        """(n, k) as in the table -> standardised float32; infinite for a number too far from those of training."""
        std = np.array(self.std)
        with np.errstate(over="ignore"):
            z = (descriptors - np.array(self.mean)) / np.where(std == 0, 1.0, std)
            own = slice(len(self.given), None)
            z[..., own] = np.nan_to_num(z[..., own], nan=0.0).clip(-self.FARTHEST, self.FARTHEST)
            return np.where(std == 0, 0.0, z).astype(np.float32)

    def too_far(self, descriptors: Sequence[float]) -> str:
        """Why the k descriptors of a molecule cannot be standardised; empty where they can."""
        z = self.scale(np.array(descriptors)[None])[0]
        found = next((i for i in range(len(z)) if not np.isfinite(z[i])), None)
        if found is None:
            return ""
        return f"column {short_repr(self.names[found])}: {descriptors[found]:g} is too far from the numbers of training"
