"""Matched pairs of a measured table with a model's predictions: the measured changes, and how well they are predicted.

The interval of a predicted change is a conformal interval of pairs. Of a pair (a, b) the score is

    s_ab = |(y_b - y_a) - (f(b) - f(a))|

the error of the predicted change, in which the errors of two similar molecules partly cancel. The pairs are those of
molecules that were held out of the training: with a partner of the training set if the parent is in it ("known"), or
with another held-out molecule if it is not ("new"). Molecules with many partners must not dominate, and pairs that
share a molecule are not independent. So each of the k held-out molecules has the same total weight, shared among its
pairs, and the half width of the interval is

    q = the smallest score with   sum of the weights of all s <= q   >=   level (1 + 1 / k)

which is split conformal prediction with molecules as units. It holds on average over parents and variants like the
pairs of the table; that is measured with the test molecules, on which q does not depend. If too few molecules are in
pairs, q is twice the conformal quantile of |y - f| at the level (1 + level) / 2: whatever the correlation of the errors
of two molecules, their difference is then within q with the requested probability (a union bound), but it is wide.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from molattn.chem import Effect, MatchedPair, Transform, canonical_smiles, matched_pairs, measured_effects, read_smiles
from molattn.data.splits.labels import CALIBRATION, SPLIT_LABELS
from molattn.errors import InputError, UsageError
from molattn.models.calibration import conformal_quantile

TRAIN, VALIDATION, TEST = SPLIT_LABELS
CALIBRATING = (VALIDATION, CALIBRATION)
"""The splits whose molecules give the intervals."""
PAIRS, MOLECULES, CALIBRATED_MODEL = "matched pairs", "single molecules", "the calibrated model"
"""The sources of the intervals of changes."""


@dataclass(frozen=True)
class Agreement:
    """How well predicted changes agree with the measured ones, on matched pairs with a test molecule.

    Attributes:
        pairs: the number of pairs; at least one molecule of each is in the test set, and the other one in it or in the
            training set.
        molecules: the number of test molecules in them.
        r: Pearson's correlation of the predicted with the measured changes.
        sign: the share of pairs with a measured change in which the predicted one has the same sign.
        coverage: the share of measured changes within the interval, with the same weight for each test molecule.
        level: the level of the interval.

    >>> from molattn.inference import Agreement
    >>> print(Agreement(664, 97, 0.97, 0.94, 0.91, 0.9))
    664 held-out matched pairs of 97 test molecules: r 0.97, the same sign in 94%, 91% within the 90% interval
    """

    pairs: int
    molecules: int
    r: float
    sign: float
    coverage: float
    level: float

    def __str__(self) -> str:
        return (
            f"{self.pairs:,} held-out matched pairs of {self.molecules:,} test molecules: r {self.r:.2f}, the same "
            f"sign in {self.sign:.0%}, {self.coverage:.0%} within the {self.level:.0%} interval"
        )


@dataclass(frozen=True)
class HalfWidth:
    """Half the width of the interval of a change.

    Attributes:
        value: q, in the unit of the target.
        source: `PAIRS` or `MOLECULES`.
        molecules: k, the number of held-out molecules that it is from.
    """

    value: float
    source: str
    molecules: int


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """A table of measured molecules with the predictions of a model, and the split of each in its training.

    Attributes:
        name: where it is from, for messages.
        smiles: n SMILES.
        values: (n,) measured, transformed if the target has a transform; NaN for none.
        predictions: (n,), transformed in the same way.
        splits: n labels: "train", "val", "cal" or "test"; empty where it is not recorded.
    """

    name: str
    smiles: Sequence[str]
    values: np.ndarray
    predictions: np.ndarray
    splits: np.ndarray

    @property
    def has_splits(self) -> bool:
        """Whether it is recorded which of its molecules the model was trained on."""
        return bool((self.splits != "").any())

    @cached_property
    def _rows(self) -> dict[str, int]:
        """The first row of each molecule, by its canonical SMILES."""
        return {key: i for i, smiles in reversed([*enumerate(self.smiles)]) if (key := molecule_key(smiles))}

    def was_fitted(self, smiles: str, with_val: bool) -> bool:
        """Whether a model was fitted to a molecule.

        Args:
            smiles: the molecule.
            with_val: whether the model was fitted to the validation molecules too, as boosted trees are.
        """
        i = self._rows.get(molecule_key(smiles))
        return i is not None and self.splits[i] in ((TRAIN, VALIDATION) if with_val else (TRAIN,))

    def measured(self, smiles: str) -> float | None:
        """The measured value of a molecule; None if it is not in the table."""
        i = self._rows.get(molecule_key(smiles))
        return None if i is None or not np.isfinite(self.values[i]) else float(self.values[i])

    @cached_property
    def pairs(self) -> list[MatchedPair]:
        """The matched pairs of its molecules."""
        return matched_pairs(self.smiles)

    @cached_property
    def effects(self) -> dict[Transform, Effect]:
        """The measured effects of the transforms that are found in the table."""
        return measured_effects(self.pairs, self.values)

    @cached_property
    def _measured_pairs(self) -> np.ndarray:
        """(p, 2) the rows of the pairs with a measured change."""
        pairs = np.array([(first, second) for first, second, _ in self.pairs], dtype=np.int64).reshape(-1, 2)
        return pairs[np.isfinite(self.values[pairs]).all(1) & np.isfinite(self.predictions[pairs]).all(1)]

    def _held_out(self, splits: Sequence[str], known: bool | None) -> tuple[np.ndarray, np.ndarray, int]:
        """Pairs, (m, 2), of held-out molecules, the weight of each, (m,), and the number of these molecules.

        known: whether the partner is a training molecule; None for both kinds.
        """
        labels = self.splits[self._measured_pairs]
        held_out = np.isin(labels, splits)
        both, one = held_out.all(1), held_out.any(1) & (labels == TRAIN).any(1)
        chosen = both | one if known is None else one if known else both
        pairs, held_out = self._measured_pairs[chosen], held_out[chosen]
        degree = np.bincount(pairs[held_out], minlength=len(self.smiles))
        weights = (held_out / np.maximum(degree[pairs], 1)).sum(1)
        return pairs, weights, int((degree > 0).sum())

    def changes(self, splits: Sequence[str], known: bool | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Measured and predicted changes of held-out pairs, (m,) each, their weights, (m,), and how many molecules.

        Args:
            splits: which molecules are held out.
            known: whether the partner is a training molecule; None for both kinds.
        """
        pairs, weights, molecules = self._held_out(splits, known)
        measured, predicted = (np.diff(y[pairs], axis=1)[:, 0] for y in (self.values, self.predictions))
        return measured, predicted, weights, molecules

    def half_width(self, known: bool, level: float) -> HalfWidth:
        """Half the width of the interval of a change; see above.

        Args:
            known: whether the parent is a training molecule.
            level: the probability that the measured change is within the interval.

        Raises:
            UsageError: there are too few held-out molecules.
        """
        measured, predicted, weights, molecules = self.changes(CALIBRATING, known)
        scores = np.abs(measured - predicted)
        order = np.argsort(scores)
        share = np.cumsum(weights[order]) / max(weights.sum(), 1e-12) * molecules / (molecules + 1)
        rank = int(np.searchsorted(share, level - 1e-9))
        if rank < len(scores):
            return HalfWidth(float(scores[order[rank]]), PAIRS, molecules)
        errors = np.abs(self.values - self.predictions)[np.isin(self.splits, CALIBRATING)]
        errors = np.sort(errors[np.isfinite(errors)])
        try:
            return HalfWidth(2 * conformal_quantile(errors, (1 + level) / 2), MOLECULES, len(errors))
        except UsageError:
            highest = max(2 * len(errors) / (len(errors) + 1) - 1, 0.0)
            raise UsageError(
                f"{self.name} has {len(errors)} measured molecules of the validation or calibration set, too few for "
                f"an interval of {level:g}"
                + (f": give --level {np.floor(100 * highest) / 100:g} or less" if highest >= 0.01 else "")
            ) from None

    def agreement(self, level: float) -> Agreement | None:
        """How well predicted changes agree with measured ones, on the pairs with a test molecule; None for under 3.

        Args:
            level: of the interval, which comes from other molecules.
        """
        measured, predicted, _, molecules = self.changes((TEST,), None)
        if len(measured) < 3 or not np.ptp(measured) or not np.ptp(predicted):
            return None
        changed = measured != 0
        within, weight = 0.0, 0.0
        for known in (True, False):
            y, f, weights, _ = self.changes((TEST,), known)
            within += float((weights * (np.abs(y - f) <= self.half_width(known, level).value)).sum()) if len(y) else 0.0
            weight += float(weights.sum())
        return Agreement(
            pairs=len(measured),
            molecules=molecules,
            r=float(np.corrcoef(measured, predicted)[0, 1]),
            sign=float((np.sign(measured) == np.sign(predicted))[changed].mean()),
            coverage=within / weight,
            level=level,
        )


def molecule_key(smiles: str) -> str:
    """The canonical SMILES; empty for text that cannot be read."""
    try:
        return canonical_smiles(read_smiles(smiles))
    except InputError:
        return ""
