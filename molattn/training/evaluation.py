"""A trained model on a table with labels that it may never have seen."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from molattn.chem import Conformers
from molattn.data import Rejected, guess_smiles_column, read_records, read_table
from molattn.errors import InputError, SmilesError
from molattn.models.artifact import Artifact
from molattn.models.predictions import Predictions
from molattn.training.described import with_computed
from molattn.training.labels import Settled, check_atoms, settle
from molattn.training.metrics import mean_over_targets, metrics_for
from molattn.training.run_folder import target_metrics
from molattn.training.spread_metrics import LEVEL, spread_metrics
from molattn.training.targets import code_targets


@dataclass(frozen=True)
class Evaluation:
    """What a model is worth on a table.

    Attributes:
        rows: (n,) rows of the table that were measured, ascending.
        smiles: theirs.
        targets: (n, T) their labels, NaN where missing; of several classes, places among them. (N, T) of atoms, as
            in `Experiment`.
        answers: the predictions for them.
        metrics: {target: {metric: value, "n": labels}}.
        mean: of the metrics over the targets; empty for one target.
        rejected: the rows that were not measured, and why.
        offsets: (n + 1,) where the rows of `targets` of each molecule begin, and where the last end; None for one each.
        uncertainty: what the model says of its uncertainty is worth, as it stands in a run's metrics.json, with these
            molecules in the place of its test; empty for a model that says nothing.
        warnings: what a user should know of how the table was read.
    """

    rows: np.ndarray
    smiles: list[str]
    targets: np.ndarray
    answers: Predictions
    metrics: dict[str, dict[str, Any]]
    mean: dict[str, Any]
    rejected: list[Rejected]
    offsets: np.ndarray | None = None
    uncertainty: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def evaluate(
    artifact: Artifact,
    path: str | Path,
    *,
    smiles_column: str = "",
    metrics: tuple[str, ...] = (),
    num_workers: int = 0,
    conformers: Conformers | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """The metrics of a model on a table that has the columns of its targets.

    Args:
        artifact: the model.
        path: of the table.
        smiles_column: found by its name when empty.
        metrics: names in `METRICS`; the task's own when empty.
        num_workers, progress: as for `molattn.chem.featurize`.
        conformers: how molecules get distances; None for a model without 3D.

    Raises:
        UsageError: a column or a metric that does not exist.
        InputError: a table that cannot be read, labels that the model's task does not know, or no usable row.
    """
    task, targets = artifact.task, artifact.targets
    names = metrics_for(task.kind, task.metrics, metrics)
    table = read_table(path)
    column = smiles_column or guess_smiles_column(table.columns, table.smiles_column)
    if task.of_atoms:
        check_atoms(type(artifact.model), artifact.standardize)
    coded = code_targets(table, targets, task.name, task.classes, task.of_atoms, artifact.add_hs)
    beside = artifact.descriptors
    names_beside = () if beside is None else beside.provided
    records = read_records(coded.table, column, targets, of_atoms=task.of_atoms, descriptor_columns=names_beside)
    made = artifact.model.read(
        records.smiles,
        add_hs=artifact.add_hs,
        max_atoms=artifact.max_atoms,
        num_workers=num_workers,
        conformers=conformers,
        progress=progress,
        standardize=artifact.standardize,
    )
    described, far = None, {}
    numbers = None if beside is None else with_computed(beside.computed, records.descriptors, made, num_workers)
    if beside is not None and numbers is not None:
        described = beside.scale(numbers)
        far = {int(i): beside.range_error(numbers[i].tolist()) for i in np.flatnonzero(~np.isfinite(described).all(1))}

    def measurable() -> tuple[Settled, Predictions, dict[int, str]]:
        """The rows that can be measured, what is said of their molecules, and why nothing is of some."""
        sizes = [0 if i in far or isinstance(outcome, SmilesError) else outcome.size for i, outcome in enumerate(made)]
        settled = settle(records, sizes, lambda i: getattr(made[i], "reason", far.get(i, "")), table, coded, targets)
        molecules = [outcome for i in settled.kept if not isinstance(outcome := made[i], SmilesError)]
        if not molecules:
            first = settled.rejected[:1]
            why = f"; the first, {first[0].place}: {first[0].reason}" if first else ""
            raise InputError(f"{path}: no row can be measured{why}")
        task.check(settled.targets, targets)
        refused: dict[int, str] = {}
        said = artifact.predict(molecules, None if described is None else described[settled.kept], failures=refused)
        return settled, said, refused

    settled, raw, refused = measurable()
    if refused:
        far |= {int(settled.kept[i]): reason for i, reason in refused.items()}
        settled, raw, _ = measurable()
    kept, true, rejected = settled.kept, settled.targets, settled.rejected
    answers = artifact.apply_calibration(raw)
    measured = target_metrics(task, targets, true, answers, names)
    calibration, spread = artifact.calibration, {}
    if raw.std is not None or calibration is not None:
        method = artifact.calibration_method
        found = spread_metrics(true, raw, task, targets, calibration, method)
        spread = {"method": artifact.uncertainty, "calibration": method, "level": LEVEL, "test": found}
    return Evaluation(
        rows=records.rows[kept],
        smiles=[records.smiles[i] for i in kept],
        targets=true,
        answers=answers,
        metrics=measured,
        mean=mean_over_targets(measured, names) if len(targets) > 1 else {},
        rejected=rejected,
        offsets=settled.offsets,
        uncertainty=spread,
        warnings=(*coded.warnings, *records.warnings),
    )
