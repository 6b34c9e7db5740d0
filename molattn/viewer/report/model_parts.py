"""What only the model of a run can add to its report: intervals, out-of-domain flags, heads and attributions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from molattn.explain import Attribution, HeadSummary

INTERVALS, DOMAIN, HEADS, ATTRIBUTIONS = "intervals", "domain", "heads", "attributions"
"""The parts, as in `ModelParts.missing`."""


@dataclass(frozen=True)
class Missing:
    """Why something is not in a report, and the command that measures it; both may be empty."""

    why: str
    command: str = ""


@dataclass(frozen=True)
class ModelParts:
    """What a model adds for n molecules; everything may be absent.

    Attributes:
        level: of the intervals, such as 0.9.
        intervals: for each target, (n, 2) the ends of the intervals of numbers; NaN where there is none.
        sets: for each target of classes, n sets of class names; None where there is none.
        domain: n marks, "no", "embedding", "fingerprint" or "both": by which measure a molecule is out of the domain.
        heads: what each head attends to, over the test molecules.
        attributions: for each target, by index, those of the molecules with the largest errors.
        missing: for each part that is absent, why.
    """

    level: float = 0.9
    intervals: Mapping[str, np.ndarray] = field(default_factory=dict)
    sets: Mapping[str, Sequence[tuple[str, ...] | None]] = field(default_factory=dict)
    domain: Sequence[str] = ()
    heads: HeadSummary | None = None
    attributions: Mapping[str, Mapping[int, Attribution]] = field(default_factory=dict)
    missing: Mapping[str, Missing] = field(default_factory=dict)
