"""Scalers: models are trained on standardized targets and descriptors; predictions are in the units of the targets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from molattn.chem.morgan import MORGAN_DESCRIPTORS
from molattn.errors import short_repr
from molattn.models.magnitude import power_of_two, standard_deviation
from molattn.models.predictions import Predictions
from molattn.models.target_transform import TargetTransform, transform_targets

ROUNDING = 1e-12
"""Numbers of RDKit that differ by less, relative to their mean or to 1, differ by rounding."""


@dataclass(frozen=True)
class TargetScaler:
    """z = (t - mean) / std, target by target; t = f(y), f being the transform of the target, or t = y without one.

    Attributes:
        mean, std: (T,) of t; std is 1 for a constant target. Without transforms they are in the targets' units.
        transforms: f of each target, None for none; empty if no target has one.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    transforms: tuple[TargetTransform | None, ...] = ()

    @classmethod
    def fit(cls, targets: np.ndarray, rounding: float = 0.0) -> "TargetScaler":
        """Fit to the training targets only, (n, T); missing labels (NaN) are left out.

        rounding: a target counts as constant up to this std, relative to its mean or to 1, whichever is larger.
        """
        labels = [y[np.isfinite(y)] for y in targets.T]
        scales = [power_of_two(y) for y in labels]
        mean = [scale * float(np.mean(y / scale)) for y, scale in zip(labels, scales, strict=True)]
        std = [standard_deviation(y) for y in labels]
        smallest = [rounding * max(1.0, abs(m)) for m in mean]
        return cls(tuple(mean), tuple(s if s > limit else 1.0 for s, limit in zip(std, smallest, strict=True)))

    def transform_of(self, t: int) -> TargetTransform | None:
        """The transform of target t; None for none."""
        return self.transforms[t] if self.transforms else None

    @classmethod
    def identity(cls, num_targets: int) -> "TargetScaler":
        """The scaler that changes nothing, for targets that are classes."""
        return cls((0.0,) * num_targets, (1.0,) * num_targets)

    def scale(self, targets: np.ndarray) -> np.ndarray:
        """(n, T) t -> z."""
        return (targets - np.array(self.mean)) / np.array(self.std)

    def unscale(self, outputs: np.ndarray) -> np.ndarray:
        """(n, T) z -> t, float64."""
        return outputs.astype(np.float64) * np.array(self.std) + np.array(self.mean)

    def transform(self, targets: np.ndarray) -> np.ndarray:
        """(n, T) y -> t."""
        return transform_targets(self.transforms, targets)

    def inverse_transform(self, predictions: Predictions) -> Predictions:
        """Predictions of t -> predictions of y, in the units of the targets.

        y = f^-1(t);   std y = |dy / dt| std t, to first order in std t;   the quantiles of y are f^-1 of those of t: if
        f is decreasing, the lower quantile of y is f^-1 of the upper quantile of t
        """
        if not any(self.transforms):
            return predictions
        values, std, quantiles = predictions.values.copy(), predictions.std, predictions.distribution.copy()
        std = None if std is None else std.copy()
        count = len(self.transforms)
        for t, f in enumerate(self.transforms):
            if f is None:
                continue
            values[:, t] = f.inverse(predictions.values[:, t])
            if std is not None:
                std[:, t] *= f.slope(predictions.values[:, t])
            target_quantiles = f.inverse(predictions.distribution[:, t::count])
            quantiles[:, t::count] = target_quantiles if f.increasing else target_quantiles[:, ::-1]
        return replace(predictions, values=values, distribution=quantiles, std=std)

    def inverse_transform_bounds(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper ends of intervals of t, (n, T) each -> those of y, with the same coverage."""
        if not any(self.transforms):
            return lower, upper
        lower, upper = lower.copy(), upper.copy()
        for t, f in enumerate(self.transforms):
            if f is not None:
                ends = f.inverse(lower[:, t]), f.inverse(upper[:, t])
                lower[:, t], upper[:, t] = ends if f.increasing else ends[::-1]
        return lower, upper


@dataclass(frozen=True)
class DescriptorScaler:
    """z = (x - mean) / std, descriptor by descriptor; z = 0 where std is 0.

    The columns of the Morgan fingerprint have one std, the root of the sum of their variances, so that the mean of
    |z|^2 over the training molecules is 1 for all columns together: with stds of their own, columns that are 0 for most
    molecules would have the largest z.

    Computed descriptors also have z = 0 where RDKit has no finite number, and z is clipped to [-MAX_ABS_Z, MAX_ABS_Z],
    since users cannot correct them.

    Attributes:
        names: the k descriptors: the provided columns, then those that RDKit computes.
        mean, std: (k,) in the descriptors' own units; std is 0 for a descriptor that was constant in training.
        computed: the last of `names`, which RDKit computes for each molecule; empty if all are provided.
    """

    MAX_ABS_Z: ClassVar[float] = 5.0

    names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    computed: tuple[str, ...] = ()

    @classmethod
    def fit(cls, names: Sequence[str], descriptors: np.ndarray, computed: Sequence[str] = ()) -> "DescriptorScaler":
        """Fit to the descriptors of the training molecules only.

        Args:
            names: of the provided columns.
            descriptors: (n, k), the computed ones last, NaN where RDKit has no finite number.
            computed: names of the computed ones.
        """
        # A descriptor that RDKit cannot compute for any molecule is treated as constant.
        filled = np.where(np.isfinite(descriptors).any(0), descriptors, 0.0)
        provided, rdkit = TargetScaler.fit(filled[:, : len(names)]), TargetScaler.fit(filled[:, len(names) :], ROUNDING)
        mean, scaled = provided.mean + rdkit.mean, provided.std + rdkit.std
        finite = [x[np.isfinite(x)] for x in filled.T]
        all_names = (*names, *computed)
        std = [s if (x != x[0]).any() else 0.0 for s, x in zip(scaled, finite, strict=True)]
        in_fingerprint = [name in MORGAN_DESCRIPTORS and i >= len(names) for i, name in enumerate(all_names)]
        norm = math.hypot(*(s for s, is_column in zip(std, in_fingerprint, strict=True) if is_column))
        std = [norm if is_column and s else s for s, is_column in zip(std, in_fingerprint, strict=True)]
        return cls(all_names, mean, tuple(std), tuple(computed))

    @property
    def provided(self) -> tuple[str, ...]:
        """The columns that the user has to provide."""
        return self.names[: len(self.names) - len(self.computed)]

    @property
    def constant(self) -> list[str]:
        """The names of the descriptors that were constant in training."""
        return [name for name, std in zip(self.names, self.std, strict=True) if std == 0]

    def scale(self, descriptors: np.ndarray) -> np.ndarray:
        """(n, k) in their own units -> standardized float32; infinite where that overflows."""
        mean, divisor, is_constant = self._arrays
        with np.errstate(over="ignore"):
            z = (descriptors - mean) / divisor
            computed = slice(len(self.provided), None)
            z[..., computed] = np.nan_to_num(z[..., computed], nan=0.0).clip(-self.MAX_ABS_Z, self.MAX_ABS_Z)
            return np.where(is_constant, 0.0, z).astype(np.float32)

    @cached_property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The mean, the std with 1 in place of 0, and whether the std is 0; (k,) each."""
        std = np.array(self.std)
        return np.array(self.mean), np.where(std == 0, 1.0, std), std == 0

    def range_error(self, descriptors: Sequence[float]) -> str:
        """Why the k descriptors of a molecule cannot be standardized; empty if they can."""
        z = self.scale(np.array(descriptors)[None])[0]
        if np.isfinite(z).all():
            return ""
        bad = int(np.isfinite(z).argmin())
        return f"column {short_repr(self.names[bad])}: {descriptors[bad]:g} is too far from the numbers of training"
