"""Monotonic transforms of targets: applied before the targets are standardized, and inverted for predictions."""

import math
from dataclasses import dataclass

import numpy as np

from molattn.models.names import LOG1P, LOG10, NEG_LOG10_MOLAR, RANK, TRANSFORMS
from molattn.models.predictions import normal_quantile

MOLAR: dict[str, float] = {"M": 1.0, "mM": 1e-3, "uM": 1e-6, "nM": 1e-9, "pM": 1e-12, "fM": 1e-15}
"""Units of concentration, in mol/L."""

MAX_KNOTS = 1000
"""The maximum number of knots of the transform "rank"."""


@dataclass(frozen=True)
class TargetTransform:
    """t = f(y), a monotonic function of one target.

    log10:            t = log10 y
    log1p:            t = log(1 + y)
    neg-log10-molar:  t = -log10(c y),   c the unit of y in mol/L: pIC50 from IC50
    rank:             t = Phi^-1(F(y)),   F the distribution of the training labels and Phi that of the standard normal;
        linear between the knots, constant beyond the first and the last

    Attributes:
        name: one of `TRANSFORMS`.
        unit: of y, a key of `MOLAR`, for neg-log10-molar; otherwise empty.
        values, scores: for rank, the knots y_k, ascending, and their normal scores t_k; otherwise empty.

    Raises ValueError for an unknown name or unit, or knots that are not ascending.
    """

    name: str
    unit: str = ""
    values: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in TRANSFORMS:
            raise ValueError(f"there is no target transform {self.name!r}")
        if (self.name == NEG_LOG10_MOLAR) != (self.unit in MOLAR):
            raise ValueError(f"the target transform {self.name} does not apply to the unit {self.unit!r}")
        if len(self.values) != len(self.scores) or (self.values and self.name != RANK):
            raise ValueError(f"the target transform {self.name} has invalid knots")
        if any((np.diff(x) <= 0).any() for x in (self.values, self.scores)):
            raise ValueError("the knots of the target transform rank are not in ascending order")

    @property
    def increasing(self) -> bool:
        """Whether t increases with y; otherwise it decreases."""
        return self.name != NEG_LOG10_MOLAR

    def fit(self, train: np.ndarray) -> "TargetTransform":
        """This transform fitted to the training labels, (n,), NaN where missing: the knots of rank."""
        if self.name != RANK:
            return self
        values, counts = np.unique(train[np.isfinite(train)], return_counts=True)
        # Equal labels share the mean of their ranks.
        shares = (np.cumsum(counts) - counts / 2) / counts.sum()
        chosen = np.unique(np.linspace(0, len(values) - 1, min(len(values), MAX_KNOTS)).round().astype(int))
        scores = tuple(normal_quantile(float(p)) for p in shares[chosen])
        return TargetTransform(RANK, "", tuple(values[chosen].tolist()), scores)

    def forward(self, y: np.ndarray) -> np.ndarray:
        """f(y), element by element; not finite where f is undefined, see `undefined`."""
        y = np.asarray(y, dtype=np.float64)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.name == LOG10:
                return np.log10(y)
            if self.name == LOG1P:
                return np.log1p(y)
            if self.name == NEG_LOG10_MOLAR:
                return -np.log10(y) - math.log10(MOLAR[self.unit])
            return np.where(np.isnan(y), np.nan, np.interp(y, self.values, self.scores))

    def inverse(self, t: np.ndarray) -> np.ndarray:
        """f^-1(t), element by element; infinite where it is too large."""
        t = np.asarray(t, dtype=np.float64)
        with np.errstate(over="ignore"):
            if self.name == LOG10:
                return 10.0**t
            if self.name == LOG1P:
                return np.expm1(t)
            if self.name == NEG_LOG10_MOLAR:
                return 10.0 ** (-t - math.log10(MOLAR[self.unit]))
            return np.where(np.isnan(t), np.nan, np.interp(t, self.scores, self.values))

    def slope(self, t: np.ndarray) -> np.ndarray:
        """|dy / dt| at t, element by element."""
        t = np.asarray(t, dtype=np.float64)
        if self.name == LOG1P:
            with np.errstate(over="ignore"):
                return np.exp(t)
        if self.name != RANK:
            return math.log(10) * self.inverse(t)
        if len(self.values) < 2:
            return np.zeros_like(t)
        slopes = np.diff(self.values) / np.diff(self.scores)
        return slopes[np.clip(np.searchsorted(self.scores, t) - 1, 0, len(slopes) - 1)]

    def undefined(self, y: float) -> str:
        """Why f(y) is undefined; empty if it is defined."""
        if self.name in (LOG10, NEG_LOG10_MOLAR) and y <= 0:
            return f"{y:g} has no logarithm, which --target-transform {self.name} takes"
        if self.name == LOG1P and y <= -1:
            return f"{y:g} is not above -1, as --target-transform {self.name} needs"
        return ""

    def transformed_unit(self, unit: str) -> str:
        """The unit of t, from that of y, which may be empty."""
        if self.name == LOG10:
            return f"log10({unit or 'y'})"
        if self.name == LOG1P:
            return f"log(1 + {unit or 'y'})"
        return "-log10(mol/L)" if self.name == NEG_LOG10_MOLAR else "normal score"


def parse_molar(text: str) -> str:
    """The key of `MOLAR` for a unit as it is written, such as "µM" or "nmol/L"; empty if it is none.

    >>> parse_molar("\\u00b5M"), parse_molar("nmol/L"), parse_molar("mg/L")
    ('uM', 'nM', '')
    """
    unit = text.strip().replace("\u00b5", "u").replace("\u03bc", "u")
    for amount in ("mol/L", "mol/l", "mol L-1", "mol l-1", "mol/dm3", "mol/dm^3"):
        if unit.endswith(amount):
            unit = f"{unit.removesuffix(amount).strip()}M"
    return unit if unit in MOLAR else ""


Transforms = tuple[TargetTransform | None, ...]
"""The transform of each target, None for none; empty if no target has one."""


def transform_targets(transforms: Transforms, targets: np.ndarray) -> np.ndarray:
    """(n, T) in the units of the targets -> transformed; NaN stays NaN."""
    if not any(transforms):
        return targets
    columns = [y if f is None else f.forward(y) for f, y in zip(transforms, targets.T, strict=True)]
    return np.stack(columns, 1)


def transform_bounds(transforms: Transforms, bounds: np.ndarray) -> np.ndarray:
    """(n, T, 2) lower and upper bounds in the units of the targets -> those of t; NaN stays NaN.

    If f is decreasing, a lower bound of y becomes an upper bound of t.
    """
    if not any(transforms):
        return bounds
    transformed = bounds.copy()
    for t, f in enumerate(transforms):
        if f is not None:
            ends = f.forward(bounds[:, t])
            transformed[:, t] = ends if f.increasing else ends[:, ::-1]
    return transformed
