"""What-if: the variants of a molecule with their predicted changes, and the measured effects and alerts of each."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from molattn.chem import Effect, Variant, read_smiles
from molattn.chem.parse import NO_ATOM_LIMIT
from molattn.data.tables.units import find_without_unit
from molattn.errors import UsageError, unknown_choice
from molattn.inference.measured_pairs import Agreement
from molattn.inference.row_predictor import RowPredictor
from molattn.inference.selection import GOALS
from molattn.models.calibration import check_level

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_LEVEL, DEFAULT_MIN_PAIRS = 0.9, 3


@dataclass(frozen=True)
class WhatIfRow:
    """One variant of the parent, with what is predicted and known about it.

    Attributes:
        variant: the variant: `.smiles`, `.name`, `.atoms` of the parent, `.parent_atoms`.
        prediction: its predicted value, in the unit of the target, or of its transform: log10(nM), not nM.
        change: its prediction minus that of the parent; with a logarithm, that of a factor.
        lower, upper: the ends of the interval of the change.
        in_domain: whether it is like the training molecules, by its embedding and its fingerprint; None if the model
            keeps none of them.
        similarity: the Tanimoto similarity to the nearest training molecule that the model keeps; None without.
        accessibility: the synthetic accessibility score, from 1, easy, to 10, hard; None without.
        alerts: the names of its structural alerts.
        new_alerts: those that the parent does not have.
        effect: what was measured for the same replacement in the training table; None for nothing.

    >>> from molattn.chem import Variant
    >>> from molattn.inference import WhatIfRow
    >>> WhatIfRow(Variant("CCO", "H>>CH3", "scan", (0,), (-1, 0, 1)), 1.1, 0.3, -0.2, 0.8).sure
    False
    """

    variant: Variant
    prediction: float
    change: float
    lower: float
    upper: float
    in_domain: bool | None = None
    similarity: float | None = None
    accessibility: float | None = None
    alerts: tuple[str, ...] = ()
    new_alerts: tuple[str, ...] = ()
    effect: Effect | None = None

    @property
    def sure(self) -> bool:
        """Whether the interval has one sign: whether the direction of the change is known."""
        return self.lower > 0 or self.upper < 0


@dataclass(frozen=True)
class WhatIf:
    """The variants of a molecule by one property, the best first.

    Attributes:
        smiles: the parent.
        target, unit: the property; the unit of all its values, that of the transform if the target has one.
        goal: "maximize" or "minimize"; the other one than was requested if the transform decreases, as pIC50 does.
        level: of the intervals.
        prediction: the prediction of the parent.
        measured: its measured value; None if it is in no table.
        known: whether it is a training molecule; None if the training molecules are not known.
        rows: the variants.
        source: what the intervals come from.
        molecules: the number of held-out molecules that they come from.
        agreement: how well predicted changes agree with measured ones, on pairs that were held out; None if that could
            not be measured.
        failed: variants without a prediction, and why.
        transform: the name of the transform of the target, such as "log10"; empty for none.
        accessibility, alerts: those of the parent.

    >>> from molattn.chem import Variant
    >>> from molattn.inference import WhatIf, WhatIfRow
    >>> row = WhatIfRow(Variant("CCO", "H>>CH3", "scan", (0,), (-1, 0, 1)), 1.1, 0.3, -0.2, 0.8)
    >>> found = WhatIf("CO", "logS", "", "maximize", 0.9, 0.8, None, True, (row,), "matched pairs", 100)
    >>> found.best(1)[0].variant.smiles, found.atom_changes()[0].round(2).tolist()
    ('CCO', [0.3, nan])
    """

    smiles: str
    target: str
    unit: str
    goal: str
    level: float
    prediction: float
    measured: float | None
    known: bool | None
    rows: tuple[WhatIfRow, ...]
    source: str
    molecules: int
    agreement: Agreement | None = None
    failed: tuple[tuple[str, str], ...] = ()
    accessibility: float | None = None
    alerts: tuple[str, ...] = ()
    transform: str = ""

    def best(self, n: int = 10, in_domain: bool = False) -> tuple[WhatIfRow, ...]:
        """The n best variants.

        Args:
            n: how many.
            in_domain: whether variants unlike the training molecules are left out.

        Raises:
            UsageError: n is negative.
        """
        if n < 0:
            raise UsageError(f"n, the number of variants, is at least 0, not {n}")
        return tuple(row for row in self.rows if not in_domain or row.in_domain is not False)[:n]

    def atom_changes(self) -> tuple[np.ndarray, np.ndarray]:
        """The best and the worst change at each atom of the parent, (n,) each; NaN for an atom without a variant."""
        sign = 1.0 if self.goal == "maximize" else -1.0
        n = read_smiles(self.smiles, max_atoms=NO_ATOM_LIMIT).GetNumAtoms()
        best, worst = np.full(n, np.nan), np.full(n, np.nan)
        for row in self.rows:
            for i in row.variant.atoms:
                best[i] = sign * np.fmax(sign * best[i], sign * row.change)
                worst[i] = sign * np.fmin(sign * worst[i], sign * row.change)
        return best, worst

    def to_frame(self) -> "pa.Table":
        """A table with a row for each variant, as `molattn whatif -o variants.csv` writes it."""
        from molattn.inference.trade_offs import TradeOffs

        return TradeOffs([self], [self.target]).to_frame()

    @property
    def agreement_text(self) -> str:
        """`agreement` in words."""
        if self.agreement is None:
            return (
                "not measured: that needs measured test molecules in matched pairs, in the run's predictions.csv or in "
                "--data TABLE"
            )
        return str(self.agreement)


@dataclass(frozen=True)
class WhatIfOptions:
    """How variants are made and ranked.

    Attributes:
        target: name of the target; required if the model has several.
        goal: "maximize" or "minimize".
        level: of the intervals.
        min_pairs: how often a transform of the table must have been measured.

    Raises:
        UsageError: an unknown goal, a level outside of (0, 1), or a `min_pairs` below 1.
    """

    target: str | None = None
    goal: str = GOALS[0]
    level: float = DEFAULT_LEVEL
    min_pairs: int = DEFAULT_MIN_PAIRS

    def __post_init__(self):
        if self.goal not in GOALS:
            raise UsageError(unknown_choice("goal", self.goal, GOALS))
        check_level(self.level)
        if self.min_pairs < 1:
            raise UsageError(f"a transform is seen in at least 1 pair, not {self.min_pairs}")

    def target_of(self, predictor: RowPredictor) -> str:
        """The name of the target.

        Raises:
            UsageError: there is none of this name, or several and none is named; a model of classes or atoms, or one
                that reads descriptors of the user.
        """
        if predictor.task.kind != "regression" or predictor.task.atom_level:
            kind = "atoms" if predictor.task.atom_level else "classes"
            raise UsageError(f"what-if applies to numbers of molecules, and the model predicts {kind}")
        if predictor.descriptors:
            names = ", ".join(predictor.descriptors)
            raise UsageError(f"the model reads descriptors that new molecules do not have: {names}")
        targets = list(predictor.targets)
        if self.target is None and len(targets) > 1:
            raise UsageError(f"the model has several targets, {', '.join(targets)}: choose one with target=")
        name = targets[0] if self.target is None else find_without_unit(targets, self.target)
        if name not in targets:
            raise UsageError(unknown_choice("target", name, targets))
        return name
