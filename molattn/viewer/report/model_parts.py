"""The parts of a report that need the model of the run: intervals, out-of-domain flags, heads and attributions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from molattn.explain import Attribution, HeadSummary

INTERVALS, DOMAIN, HEADS, ATTRIBUTIONS = "intervals", "domain", "heads", "attributions"
"""The names of the parts, which are the keys of `ModelParts.missing`."""


@dataclass(frozen=True)
class Missing:
    """A part that is not in a report.

    Attributes:
        why: the reason, as a sentence.
        command: the command that measures it; empty if there is none.
    """

    why: str
    command: str = ""


@dataclass(frozen=True)
class ModelParts:
    """The results of a model for n molecules; each may be absent.

    Attributes:
        level: level of the intervals and sets, such as 0.9.
        intervals: for each regression target the ends of the prediction intervals, (n, 2); NaN where there is none.
        sets: for each target of classes n prediction sets, of class names; None where there is none.
        domain: n out-of-domain flags: the measures by which a molecule is outside of the applicability domain, "no",
            "embedding", "fingerprint" or "both".
        heads: what each head attends to, over the test molecules.
        attributions: for each target the attributions of the molecules with the largest errors, by index.
        missing: the parts that are absent, by name.
    """

    level: float = 0.9
    intervals: Mapping[str, np.ndarray] = field(default_factory=dict)
    sets: Mapping[str, Sequence[tuple[str, ...] | None]] = field(default_factory=dict)
    domain: Sequence[str] = ()
    heads: HeadSummary | None = None
    attributions: Mapping[str, Mapping[int, Attribution]] = field(default_factory=dict)
    missing: Mapping[str, Missing] = field(default_factory=dict)
