"""The predictions of the variants of a molecule, with the intervals of their changes."""

from collections.abc import Callable, Sequence

import numpy as np

from molattn.chem import (
    Transform,
    Variant,
    matched_pair_variants,
    structural_alerts,
    substituent_scan,
    synthetic_accessibility,
)
from molattn.errors import InputError, UsageError, short_repr
from molattn.inference.measured_pairs import CALIBRATED_MODEL, CALIBRATING, MeasuredTable
from molattn.inference.options import PredictionOptions
from molattn.inference.row_predictor import RowPredictor
from molattn.inference.rows import RowPrediction
from molattn.inference.selection import transformed_goal
from molattn.inference.what_if import WhatIf, WhatIfOptions, WhatIfRow

Interval = tuple[float, float]
"""The lower and upper bound of a change."""


def find_variants(
    smiles: str, tables: Sequence[MeasuredTable | None], min_pairs: int, max_atoms: int
) -> tuple[Variant, ...]:
    """The substituent scan of a molecule, and the variants by transforms that were measured in one of the tables.

    Of several transforms that make the same molecule, that with the most measured pairs is the change of the variant.

    Raises:
        SmilesError: the molecule cannot be read.
    """
    pairs: dict[Transform, int] = {}
    for table in tables:
        for transform, effect in () if table is None else table.effects.items():
            if effect.count >= min_pairs:
                pairs[transform] = pairs.get(transform, 0) + effect.count
    known = sorted(pairs, key=lambda t: (-pairs[t], t.removed, t.added, t.environment))
    found = {variant.smiles: variant for variant in substituent_scan(smiles, max_atoms=max_atoms)}
    for variant in matched_pair_variants(smiles, known, max_atoms=max_atoms):
        found.setdefault(variant.smiles, variant)
    return tuple(found.values())


def what_if(
    predictor: RowPredictor,
    smiles: str,
    options: WhatIfOptions,
    table: MeasuredTable | None,
    variants: Sequence[Variant] | None = None,
    num_workers: int = 0,
) -> WhatIf:
    """Predict the variants of a molecule, and rank them by the predicted change; see `Predictor.what_if`."""
    target = options.target_of(predictor)
    max_atoms = predictor.read_options.max_atoms
    if variants is None:
        variants = find_variants(smiles, [table], options.min_pairs, max_atoms)
    t = predictor.targets.index(target)
    plan = _VariantPlan(predictor, t, options.level, table)
    parent, *rows = predictor.predict_rows([smiles, *(v.smiles for v in variants)], num_workers, options=plan.options)
    if parent.values is None:
        raise InputError(f"{short_repr(smiles)} has no prediction: {parent.error}")
    known = None
    if table is not None and table.has_splits:
        known = table.was_fitted(smiles, with_val=predictor._artifact.trees is not None)
    interval = plan.interval(parent, bool(known))
    usable = [(variant, row) for variant, row in zip(variants, rows, strict=True) if row.values is not None]
    molecules = [smiles, *(variant.smiles for variant, _ in usable)]
    parent_score, *scores = synthetic_accessibility(molecules, max_atoms=max_atoms)
    parent_alerts, *alerts = structural_alerts(molecules, max_atoms=max_atoms)
    found = []
    for (variant, row), score, names in zip(usable, scores, alerts, strict=True):
        change = plan.value(row) - plan.value(parent)
        low, high = interval(row, change)
        new = tuple(name for name in names if name not in parent_alerts)
        effect = None if table is None or variant.transform is None else table.effects.get(variant.transform)
        found.append(
            WhatIfRow(variant, plan.value(row), change, low, high, *plan.domain(row), score, names, new, effect)
        )
    goal = transformed_goal(options.goal, plan.transform)
    sign = -1.0 if goal == "maximize" else 1.0
    failed = ((v.smiles, row.error) for v, row in zip(variants, rows, strict=True) if row.values is None)
    return WhatIf(
        smiles=smiles,
        target=target,
        unit=predictor.units[t] if plan.transform is None else plan.transform.transformed_unit(predictor.units[t]),
        goal=goal,
        level=options.level,
        prediction=plan.value(parent),
        measured=None if table is None else table.measured(smiles),
        known=known,
        rows=tuple(sorted(found, key=lambda row: sign * row.change)),
        source=plan.source,
        molecules=plan.molecules,
        agreement=None if table is None or plan.source == CALIBRATED_MODEL else table.agreement(options.level),
        failed=tuple(failed),
        accessibility=parent_score,
        alerts=parent_alerts,
        transform="" if plan.transform is None else plan.transform.name,
    )


def _no_interval_reason(table: MeasuredTable | None) -> str:
    """Why a model that is not calibrated has no interval of a change, and what gives one."""
    if table is not None and not table.has_splits:
        return (
            f"the model has no calibration, and no splits.csv that says which molecules of {table.name} it was trained "
            "on; if it was trained on none of them, pass --data-unseen, data_unseen=True in Python"
        )
    return (
        "the run's folder has no predictions.csv with measured validation molecules, and the model no calibration; "
        "train with --calibration-size 0.1"
    )


class _VariantPlan:
    """What is predicted for the parent and its variants, and where the intervals of the changes come from.

    Raises:
        UsageError: nothing is known about the uncertainty of a change.
    """

    def __init__(self, predictor: RowPredictor, t: int, level: float, table: MeasuredTable | None):
        self.t, self.level, self.table = t, level, table
        self.has_domain = predictor._artifact.domain is not None
        self.source, self.molecules = "", 0
        self.held_out = table is not None and np.isin(table.splits, CALIBRATING).any()
        level_of_molecule = None
        if not self.held_out:
            if predictor._artifact.calibration is None:
                raise UsageError(f"nothing is known about the uncertainty of a change: {_no_interval_reason(table)}")
            # The difference of two intervals: each has half of the error probability (a union bound).
            level_of_molecule, self.source = (1 + level) / 2, CALIBRATED_MODEL
            self.molecules = len(next(iter(predictor._artifact.calibration.scores[t].values())))
        self.options = PredictionOptions(level=level_of_molecule, applicability=self.has_domain)
        self.columns = [column.name for column in predictor.extra_value_columns(self.options)]
        self.target = predictor.targets[t]
        self.transform = predictor._artifact.scaler.transform_of(t)

    def value(self, row: RowPrediction) -> float:
        """The prediction of a row, transformed if the target has a transform."""
        assert row.values is not None
        return self._transformed(row.values[self.t])

    def _transformed(self, y: object) -> float:
        y = float(y)  # pyright: ignore[reportArgumentType]
        return y if self.transform is None else float(self.transform.forward(np.array(y)))

    def domain(self, row: RowPrediction) -> tuple[bool | None, float | None]:
        if not self.has_domain:
            return None, None
        similarity, flag = row.extra_values[-2:]
        return flag == "no", float(similarity)  # pyright: ignore[reportArgumentType]

    def interval(self, parent: RowPrediction, known: bool) -> Callable[[RowPrediction, float], Interval]:
        """A function from a row and its change to the interval of the change."""
        if self.held_out:
            assert self.table is not None
            half_width = self.table.half_width(known, self.level)
            self.source, self.molecules = half_width.source, half_width.molecules
            return lambda _, change: (change - half_width.value, change + half_width.value)

        def bounds(row: RowPrediction) -> Interval:
            columns = (self.columns.index(f"{self.target}_{end}") for end in ("lower", "upper"))
            low, high = sorted(self._transformed(row.extra_values[k]) for k in columns)
            return low, high

        parent_low, parent_high = bounds(parent)
        return lambda row, _: (bounds(row)[0] - parent_high, bounds(row)[1] - parent_low)
